"""A memory in a PostgreSQL database, which agents of several hosts share."""

from __future__ import annotations

from typing import Unpack

from moothall.foundation.arguments import names_checked
from moothall.foundation.errors import ConfigError, MissingExtra
from moothall.foundation.postgres import is_url
from moothall.memory.memory_tables import MemoryTables
from moothall.memory.stored_memory import StoredMemory


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
        **options: those of `SQLiteMemory`; `timeout` is also how long a thread that another
            process has locked is waited for

    Raises:
        DefinitionError: an argument has a wrong type or value
        MissingExtra: the extra `postgres` is not installed
        MemoryFileError: the server cannot be used; the text says why and what to do
    """

    def __init__(
        self, url: str, thread: str | None = None, **options: Unpack[StoredMemory.MemoryOptions]
    ) -> None:
        if not is_url(url):
            raise ConfigError("PostgresMemory: url= must be a text that begins with postgresql://")
        MissingExtra.unless("PostgresMemory", "postgres", "psycopg")
        super().__init__(url, thread, **options)

    def _open_tables(self, path: str, timeout: float) -> MemoryTables:
        from moothall.memory.postgres_tables import PostgresTables

        return PostgresTables(path, timeout)
