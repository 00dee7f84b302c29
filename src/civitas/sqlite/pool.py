"""An SQLite file in WAL mode, with a few connections that threads take turns with."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

from civitas.errors import CivitasError, DefinitionError
from civitas.sqlite.file import Identity, SQLiteConnection, SQLiteFile

E = TypeVar("E", bound=CivitasError)

_IDLE: Final = 4
"""So many connections are kept for the next calls."""


class SQLitePool(Generic[E]):
    """An SQLite file in WAL mode, used by any number of threads and processes.

    Readers do not wait for writers or for each other: each call has a connection of its own. The
    writers of a process wait in line; those of other processes at most `timeout` seconds.
    """

    def __init__(
        self,
        file: SQLiteFile[E],
        timeout: float,
        probe: str,
        settings: Sequence[str] = (),
        may_read: bool = False,
    ) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise DefinitionError(f"timeout= must be a number of seconds, got {timeout!r}")
        self._file = file
        self.name = file.name
        self._timeout = min(float(timeout), 86400.0)
        # In WAL mode NORMAL loses nothing when the process is killed; a crash of the system may
        # take the last writes, never the file.
        self._settings = ("synchronous = NORMAL", *settings)
        self._closed = False
        self._idle: list[SQLiteConnection] = []
        self._pool = threading.Lock()
        self._writing = threading.Lock()
        self._writer = 0  # the thread that has it
        self._only_read = file.look(may_read)  # why
        self._identity: Identity = None
        self._open(probe)
        self._end = weakref.finalize(self, _close, self._idle, os.getpid())

    # -- use ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise in a forked child, and if the file is no longer where it was opened: one `stat`."""
        self._file.check_process()
        if self._file.identity() != self._identity and not self._closed:
            raise self._file.gone()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file, whatever is written meanwhile."""
        self._file.check_process()
        with self._in("BEGIN", self._timeout) as connection:
            yield connection

    @contextmanager
    def writing(self, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that is committed when the body ends, else rolled back."""
        self.check()
        if self._only_read:
            raise self._file.error(self._only_read)
        if self._writer == threading.get_ident():
            # The collector may end, in the midst of it, a generator that writes in its turn.
            raise self._file.error("this thread is writing it already")
        # Threads that wait here are served in turn; in SQLite they would look every so often.
        if not self._writing.acquire(blocking=wait):
            raise BlockingIOError(f"{self.name} is being written")
        try:
            self._writer = threading.get_ident()
            with self._in("BEGIN IMMEDIATE", self._timeout if wait else -1) as connection:
                yield connection
        finally:
            self._writer = 0
            self._writing.release()

    @contextmanager
    def _in(self, begin: str, timeout: float) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction; below 0, `timeout` says that BlockingIOError is wanted."""
        connection = self._take(patient=timeout > 0)
        begun = False
        try:
            connection.wait(timeout)
            connection.execute(begin)
            begun = True
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            connection.close()  # what was under way is rolled back
            if not isinstance(error, sqlite3.Error):
                raise
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if timeout < 0 and not begun and code == sqlite3.SQLITE_BUSY:
                raise BlockingIOError(f"{self.name} is being written") from error
            raise self._fault(error) from error
        self._give_back(connection)

    def close(self) -> None:
        """Close it; what is under way in other threads ends first. In a forked child: nothing."""
        if self._file.is_of_this_process():
            with self._pool:
                self._closed = True
                self._end()

    def damaged(self, what: str) -> E:
        """The error for a file that is not as it was written."""
        return self._file.damaged(what)

    def _take(self, *, patient: bool) -> SQLiteConnection:
        with self._pool:
            if self._closed:
                raise self._file.closed()
            idle = self._idle
            if idle:
                # Each of its kind, or it would be told anew whether to wait at every call.
                last = len(idle) - 1
                return idle.pop(last if idle[last].patient is patient else 0)
        # rw: a file that has been deleted meanwhile is not quietly made anew.
        connection = self._connect("rw")
        if connection.identity != self._identity:
            connection.close()
            raise self._file.gone()
        return connection

    def _give_back(self, connection: SQLiteConnection) -> None:
        with self._pool:
            # One that only reads may see the file as it was when it was opened.
            if not self._closed and not self._only_read and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self, mode: str) -> SQLiteConnection:
        if self._only_read:
            log = Path(f"{self._file.path}-wal")
            # Without a log nobody writes, and SQLite needs no files beside this one.
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        try:
            return self._file.connect(mode, self._timeout, *self._settings)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _open(self, probe: str) -> None:
        connection = self._connect("rwc")
        try:
            if self._file.version(connection) < self._file.newest:
                if self._only_read:
                    older = "an older civitas wrote it, and it cannot be brought up to date"
                    raise self._file.error(f"{older}: {self._only_read}")
                self._use_wal(connection)
                self._file.migrate(connection)
            connection.execute(probe).fetchone()
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise self._fault(error) from error
            raise
        self._identity = connection.identity
        self._give_back(connection)

    def _use_wal(self, connection: SQLiteConnection) -> None:
        """Change the file to WAL mode; wait for another process that does the same."""
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
            raise self._file.error(
                f"its file system allows no shared memory (mode {mode}): use a local disk"
            )

    def _fault(self, error: sqlite3.Error) -> E:
        locked = (
            f"another program has held it locked for {self._timeout:g} s: end that program, or "
        )
        return self._file.fault(error, f"{locked}wait longer with timeout=")


def _close(idle: list[SQLiteConnection], process: int) -> None:
    while idle and os.getpid() == process:
        idle.pop().close()
