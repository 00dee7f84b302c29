"""A memory in a PostgreSQL database, which agents of several hosts share."""

from __future__ import annotations

from collections.abc import Callable

from moothall.foundation.arguments import names_checked
from moothall.foundation.errors import ConfigError, DefinitionError, MissingExtra
from moothall.foundation.postgres import is_url
from moothall.memory.bounded import DEFAULT_TOKENS
from moothall.memory.embedder import Embedder
from moothall.memory.memory_tables import MemoryTables
from moothall.memory.stored import StoredMemory


@names_checked
class PostgresMemory(StoredMemory):
    """Remembers several conversations in a PostgreSQL database, and recalls messages.

    It does what `SQLiteMemory` does, for processes on several hosts. When `add_memory` has
    returned, the server has committed the message. The tables are in the schema `moothall`, or in
    the one that the URL's `options` name: `?options=-csearch_path%3Dmine`.

    Calls block for a round trip or two to the server; writes of one process go over one connection.
    If it is lost, the next call makes a new one, for which it waits at most `timeout`.

    Args:
        url: the database: `postgresql://user@host:5432/database?sslmode=verify-full`; errors show
            it without its password
        thread: the conversation's id; other conversations do not see its messages
        tokens: the most tokens that `get_memories` returns; None for no bound. With the default,
            8,192, a running reply has more for its own messages if its model reads more
        count: returns how many tokens a text has; default: an estimate on the high side
        embedder: for recall by meaning
        clear: whether old results of calls are shown as one line each before messages are left out
        timeout: seconds to wait for a server that is not there, or that holds a thread locked

    Raises:
        DefinitionError: an argument has a wrong type or value
        MissingExtra: the extra `postgres` is not installed
        MemoryFileError: the server cannot be used; the text says why and what to do
    """

    def __init__(
        self,
        url: str,
        thread: str | None = None,
        *,
        tokens: int | None = DEFAULT_TOKENS,
        count: Callable[[str], int] | None = None,
        embedder: Embedder | None = None,
        clear: bool = True,
        timeout: float = 10,
    ) -> None:
        if not is_url(url):
            raise ConfigError("PostgresMemory: url= must be a text that begins with postgresql://")
        MissingExtra.unless("PostgresMemory", "postgres", "psycopg")

        def opened() -> MemoryTables:
            from moothall.memory.memory_server import MemoryServer

            return MemoryServer(url, timeout)

        self._open(opened, thread, tokens, count, embedder, clear)

    def _begin(self, thread: str) -> None:
        super()._begin(thread)
        if "\0" in thread:
            raise DefinitionError(
                f"a thread's id in PostgreSQL must be a text without NUL characters, got "
                f"{thread!r:.80}"
            )
