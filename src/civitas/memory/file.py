"""The file behind a durable memory: opened, checked, brought up to date, shared by threads."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from civitas.errors import DefinitionError, MemoryFileError
from civitas.sqlitefile import SQLiteFile

__all__ = ["MIGRATIONS", "MemoryFile", "MemoryFileError"]

APPLICATION: Final = 0x63766D31
"""What the file's header says it is (`cvm1`), so that no other program's database is changed."""

# Append only. Each is run in one transaction with the record of it, `user_version`; so a file is of
# a whole version, whatever happens meanwhile.
#
# `words` keeps no text of its own: what is deleted from it must be given to it again, word for
# word. Its text is `sqlite.found_text(item)`, so a change of that function needs a migration that
# fills it anew. Its first column is the thread's number as a word, so that a search within one
# conversation does not look at the others.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE threads (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            forgotten INTEGER NOT NULL DEFAULT 0
        )""",
        # AUTOINCREMENT: a number is never used again, so that "after number n" is "since then".
        """CREATE TABLE memories (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            thread INTEGER NOT NULL REFERENCES threads (number),
            role TEXT,
            item TEXT NOT NULL
        )""",
        "CREATE INDEX memories_of_thread ON memories (thread, number)",
        "CREATE INDEX system_memories ON memories (thread, number) WHERE role = 'system'",
        "CREATE INDEX user_memories ON memories (thread, number) WHERE role = 'user'",
        """CREATE VIRTUAL TABLE words USING fts5 (
            thread, text, content = '', tokenize = 'unicode61 remove_diacritics 2'
        )""",
        """CREATE TABLE embedders (
            number INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            dimensions INTEGER NOT NULL,
            UNIQUE (name, dimensions)
        )""",
        # Up to which memory of a thread there are vectors of an embedder.
        """CREATE TABLE embedded (
            embedder INTEGER NOT NULL REFERENCES embedders (number),
            thread INTEGER NOT NULL REFERENCES threads (number),
            upto INTEGER NOT NULL,
            PRIMARY KEY (embedder, thread)
        ) WITHOUT ROWID""",
        """CREATE TABLE vectors (
            embedder INTEGER NOT NULL REFERENCES embedders (number),
            thread INTEGER NOT NULL REFERENCES threads (number),
            memory INTEGER NOT NULL REFERENCES memories (number),
            vector BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX vectors_of_thread ON vectors (embedder, thread, memory)",
    ),
)

_IDLE = 4
"""So many connections are kept for the next call."""


class MemoryFile:
    """An SQLite file in WAL mode, used by any number of threads and processes.

    Each call takes a connection for as long as it lasts, so readers do not wait for writers or for
    each other. The writers of a process wait in line; those of other processes for at most
    `timeout` seconds.

    Raises:
        DefinitionError: the path is none
        MemoryFileError: the file cannot be used
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self._file = SQLiteFile(
            path,
            kind="memory",
            maker="SQLiteMemory",
            application=APPLICATION,
            migrations=MIGRATIONS,
            error=MemoryFileError,
        )
        self.name = self._file.name
        if self.name.startswith(":memory:"):
            raise DefinitionError("a memory without a file is a TokenBoundedMemory or a Memory")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise DefinitionError(f"timeout= is a number of seconds, not {timeout!r}")
        self._timeout = min(float(timeout), 86400.0)
        self._closed = False
        self._idle: list[sqlite3.Connection] = []
        self._reset()
        self._open()
        _FILES.add(self)
        self._end = weakref.finalize(self, _close, self._idle)

    def _reset(self) -> None:
        # Also in a forked child, where the locks may have been held. Its parent's connections are
        # not the child's to use, and closing them there would be using them.
        self._writing = threading.Lock()
        self._pool = threading.Lock()
        if self._idle:
            _ABANDONED.extend(self._idle)
            self._idle.clear()

    # -- use ---------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file, whatever is written meanwhile.

        Raises:
            MemoryFileError: for every error of SQLite's, also one in the body
        """
        connection = self._take()
        try:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            connection.close()
            raise self._fault(error) from error
        except BaseException:
            connection.close()  # whatever was under way is rolled back
            raise
        self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that is committed when the body ends, else rolled back.

        Raises:
            MemoryFileError: for every error of SQLite's, also one in the body
        """
        # Threads that wait for each other here do not wake up every so often to look, as SQLite's
        # own waiting does, and are served in turn.
        with self._writing:
            connection = self._take()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                connection.close()
                raise self._fault(error) from error
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)

    def close(self) -> None:
        """Close it. What is under way in other threads ends first."""
        with self._pool:
            self._closed = True
            self._end()

    def damaged(self, what: str) -> MemoryFileError:
        """The error for a file that is not as it was written."""
        return self._file.damaged(what)

    def _take(self) -> sqlite3.Connection:
        with self._pool:
            if self._closed:
                raise self._file.closed()
            if self._idle:
                return self._idle.pop()
        try:
            # rw: a file that has been deleted meanwhile is not quietly made anew.
            return self._connect("rw")
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._pool:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = self._file.connect(mode, self._timeout)
        try:
            # Copying the log into the file is what waits for the disk: not after every 4 MB.
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            # What is forgotten is overwritten, however this SQLite was built.
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> None:
        self._file.look()
        try:
            connection = self._connect("rwc")
        except sqlite3.Error as error:
            raise self._fault(error) from error
        try:
            if self._file.version(connection) < len(MIGRATIONS):
                self._use_wal(connection)
                self._file.migrate(connection)
            # Reads every table's definition, and so finds a file that is cut short or overwritten.
            connection.execute("SELECT count(*) FROM embedders").fetchone()
        except sqlite3.Error as error:
            connection.close()
            raise self._fault(error) from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Change the file to WAL mode, in which readers and one writer go on side by side.

        The change is refused at once, without waiting, while another process does the same; a
        transaction is what waits for it.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError:
                if time.monotonic() >= deadline:
                    raise
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute("COMMIT")
                continue
            if mode == "wal":
                return
            raise MemoryFileError(
                self.name,
                f"its file system allows no shared memory (mode {mode}): use a local disk",
            )

    def _fault(self, error: sqlite3.Error) -> MemoryFileError:
        """An error of SQLite's, in words that say what to do."""
        return self._file.fault(
            error,
            f"another program has held it locked for {self._timeout:g} s: end that program, or "
            "wait longer with timeout=",
        )


def _close(idle: list[sqlite3.Connection]) -> None:
    while idle:
        idle.pop().close()


_FILES: weakref.WeakSet[MemoryFile] = weakref.WeakSet()
_ABANDONED: list[sqlite3.Connection] = []


def _after_fork() -> None:
    for file in list(_FILES):
        file._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
