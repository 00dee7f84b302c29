"""The file behind a durable memory: opened, checked, brought up to date, shared by threads."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from civitas.errors import DefinitionError, MemoryFileError

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
        try:
            self.name = os.fspath(path)
        except TypeError:
            self.name = path  # type: ignore[assignment]
        if not isinstance(self.name, str) or not self.name or "\0" in self.name:
            raise DefinitionError(f"a memory's path is the name of a file, not {path!r}")
        if self.name.startswith(":memory:"):
            raise DefinitionError("a memory without a file is a TokenBoundedMemory or a Memory")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise DefinitionError(f"timeout= is a number of seconds, not {timeout!r}")
        # The working directory may change; the file does not.
        self._path = Path(os.path.abspath(self.name))
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
        return MemoryFileError(
            self.name,
            f"it is damaged ({what}): move it and the files beside it, -wal and -shm, away, and "
            "restore a copy",
        )

    def _take(self) -> sqlite3.Connection:
        with self._pool:
            if self._closed:
                raise MemoryFileError(self.name, "it was closed: make a new SQLiteMemory of it")
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
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # In WAL mode NORMAL loses nothing when the process is killed; the system's own crash
            # may take the last writes, never the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            # Copying the log into the file is what waits for the disk: not after every 4 MB.
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            # What is forgotten is overwritten, however this SQLite was built.
            connection.execute("PRAGMA secure_delete = ON")
            # A file made to do harm has no functions to call from its schema.
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> None:
        self._look()
        try:
            connection = self._connect("rwc")
        except sqlite3.Error as error:
            raise self._fault(error) from error
        try:
            if self._version(connection) < len(MIGRATIONS):
                self._migrate(connection)
            # Reads every table's definition, and so finds a file that is cut short or overwritten.
            connection.execute("SELECT count(*) FROM embedders").fetchone()
        except sqlite3.Error as error:
            connection.close()
            raise self._fault(error) from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def _look(self) -> None:
        """See to it that the path can be such a file, before anything is made or changed."""
        path, folder = self._path, self._path.parent
        if not folder.is_dir():
            raise MemoryFileError(self.name, f"there is no folder {str(folder)!r}: make it first")
        if not os.access(folder, os.W_OK):
            raise MemoryFileError(
                self.name,
                f"the folder {str(folder)!r} may not be written to, where SQLite keeps files "
                "beside this one: change its permissions, or copy the file to another folder",
            )
        if not path.exists():
            return
        if not path.is_file():
            raise MemoryFileError(self.name, "it is no file: name one")
        if not os.access(path, os.R_OK | os.W_OK):
            raise MemoryFileError(
                self.name, "it may not be read and written: change its permissions"
            )
        with path.open("rb") as file:
            header = file.read(100)
            # A -wal file may hold the rest. Asked before the size: once it is gone, all is here.
            if Path(f"{path}-wal").exists() or not header.startswith(b"SQLite format 3\0"):
                return
            page = int.from_bytes(header[16:18], "big")
            pages = int.from_bytes(header[28:32], "big")
            size = (65536 if page == 1 else page) * pages
            if header[24:28] == header[92:96] and os.fstat(file.fileno()).st_size < size:
                raise self.damaged(f"of {size} bytes there are {os.path.getsize(path)}")

    def _version(self, connection: sqlite3.Connection) -> int:
        """The version of the schema.

        Raises:
            MemoryFileError: it is of a newer civitas, or another program's
        """
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application or version or tables:
                raise MemoryFileError(
                    self.name,
                    "it is another program's database, and was left as it is: name another file",
                )
        if not 0 <= version <= len(MIGRATIONS):
            raise MemoryFileError(
                self.name,
                f"it has version {version}, and this civitas knows up to {len(MIGRATIONS)}: "
                "use the civitas that wrote it, or a newer one",
            )
        return int(version)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        self._use_wal(connection)
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have done it meanwhile: then there is nothing left to do.
        for version in range(self._version(connection), len(MIGRATIONS)):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")

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
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return MemoryFileError(
                self.name,
                f"another program has held it locked for {self._timeout:g} s: end that program, or "
                "wait longer with timeout=",
            )
        if primary == sqlite3.SQLITE_NOTADB:
            return MemoryFileError(
                self.name,
                "it is no memory but another kind of file, and was left as it is: name another one",
            )
        if primary == sqlite3.SQLITE_CORRUPT:
            return self.damaged(str(error))
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return MemoryFileError(
                self.name, f"it may not be written ({error}): change its permissions"
            )
        if primary == sqlite3.SQLITE_FULL:
            return MemoryFileError(self.name, "the disk is full: make room, and try again")
        if primary == sqlite3.SQLITE_CANTOPEN and not self._path.exists():
            return MemoryFileError(self.name, "it is gone: restore it, or make a new SQLiteMemory")
        if str(error).startswith(("no such table", "no such column")):
            # Its version says that the table is there.
            return self.damaged(str(error))
        return MemoryFileError(self.name, f"SQLite says: {error}")


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
