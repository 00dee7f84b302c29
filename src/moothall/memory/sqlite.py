"""A memory in a file: it survives the process, and finds old messages."""

from __future__ import annotations

import os

from moothall.memory.memory_file import MemoryFile
from moothall.memory.stored_memory import StoredMemory


class SQLiteMemory(StoredMemory):
    """Remembers several conversations in a file, and recalls messages by words or by meaning.

    When `add_memory` has returned, its message survives even if the process is killed; if the
    machine loses its power, the last seconds may be missing.

    `get_memories` returns what a `TokenBoundedMemory` would: the last messages of its thread that
    fit, calls together with their results, plus system messages and the last task. Everything stays
    in the file; `recall` and `messages` find it there.

    One file may be used by several threads, event loops and processes at the same time. Calls block
    while SQLite works: usually some tenths of a millisecond for `add_memory` and `get_memories`,
    and at most `timeout` for a file that another process has locked. `recall` looks at everything
    that might match, so with very many memories call it in a thread: `await
    asyncio.to_thread(memory.recall, text)`. The file belongs on a local disk.

    Args:
        path: the file, created if it does not exist; its folder must exist
        thread: the conversation's id; other conversations do not see its messages
        tokens: the most tokens that `get_memories` returns; None for no bound. With the default,
            8,192, a running reply has more for its own messages if its model reads more
        count: returns how many tokens a text has; default: an estimate on the high side
        embedder: for recall by meaning
        clear: whether old results of calls are shown as one line each before messages are left out
        timeout: seconds to wait while another process holds the file locked

    Raises:
        DefinitionError: an argument has a wrong type or value
        MemoryFileError: the file cannot be used; the text says why and what to do
    """

    def _open_tables(self, path: str | os.PathLike[str], timeout: float) -> MemoryFile:
        return MemoryFile(path, timeout)
