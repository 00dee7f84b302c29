"""An SQLite file in WAL mode, with a pool of a few connections for threads."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from moothall.foundation.arguments import check_seconds
from moothall.foundation.database import CHANGES, Lock
from moothall.foundation.errors import MoothallError
from moothall.foundation.sqlite.connection import SQLiteConnection
from moothall.foundation.sqlite.file import DISK_FULL, SQLiteFile
from moothall.foundation.sqlite.wal_locks import Identity
from moothall.foundation.threads import guard

E = TypeVar("E", bound=MoothallError)

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PAUSE_S: Final = 0.02
_SMALL_BYTES: Final = 2**25
_PAGES_AT_ONCE: Final = 1_000
"""So many pages are given back before the log is moved into the file."""
_MAX_IDLE: Final = 4
"""How many idle connections are kept for the next calls."""


class SQLitePool(Generic[E]):
    """An SQLite file in WAL mode; writers of a process queue, readers wait for nobody."""

    def __init__(
        self,
        file: SQLiteFile[E],
        timeout: float,
        probe: str,
        settings: Sequence[str] = (),
        may_read: bool = False,
    ) -> None:
        check_seconds("timeout=", timeout, zero=True)
        self.file = file
        self.name: str = file.name
        self.damaged: Callable[[str], E] = file.damaged
        self._timeout = min(float(timeout), 86400.0)
        # In WAL mode, NORMAL loses nothing if the process is killed; a crash of the system may lose
        # the last writes, but never damages the file.
        self._settings = ("synchronous = NORMAL", *settings)
        self._closed = False
        self._idle: list[SQLiteConnection] = []
        self._idle_lock = guard()
        self._write_lock = guard(threading.Lock())
        self._writing_thread = 0  # the writing thread's id
        self._read_only_reason = file.look(may_read)  # the reason, or empty
        self._identity: Identity = None
        self._lacks_room = False  # whether the reason is a full disk
        self._open(probe, may_read)
        self._end = weakref.finalize(self, _close, self._idle, file)

    # -- use ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise in a forked child, or if the file was moved or replaced; this takes one `stat`."""
        self.file.check_process()
        if self.file.identity() != self._identity and not self._closed:
            raise self.file.missing_error()

    def reading(self) -> AbstractContextManager[SQLiteConnection]:
        """Yield a connection that sees one state of the file, whatever is written meanwhile."""
        self.file.check_process()
        return _TransactionBlock(self, self._timeout, writes=False)

    def writing(
        self, wait: bool = True, lock: Lock = CHANGES
    ) -> AbstractContextManager[SQLiteConnection]:
        """Yield a connection in a transaction: committed at the body's end, else rolled back."""
        return _TransactionBlock(self, self._timeout if wait else -1, writes=True)

    def empty_log(self, seconds: float = 5.0) -> bool:
        """Move the log into the file and empty it, so that no deleted data is left there.

        Return False if readers of an older state prevented it for so long. Writers wait meanwhile.
        """
        deadline = time.monotonic() + seconds
        while True:
            if self._checkpoint("TRUNCATE"):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)  # noqa: TID251 - so long others write

    def move_log(self) -> bool:
        """Move what the log has into the file, as far as readers allow; writers wait meanwhile.

        Who changes much does so now and then: else the next writer has to, and that takes long.
        """
        return self._checkpoint("PASSIVE")

    def rewrite(self) -> bool:
        """Write the file anew, without the copies of deleted data that SQLite leaves in pages.

        Writers wait meanwhile, about a second for 100 MB. Return False if readers of an older state
        kept the log.
        """
        self.begin_writing(True)
        try:
            connection = self.take(patient=True)
            try:
                self._check_room(connection)
                with connection.writing(self._timeout):
                    connection.execute("VACUUM")
            except sqlite3.Error as error:
                raise self.fault(error) from error
            finally:
                connection.close()
        finally:
            self.end_writing()
        return self.empty_log()

    def shrink(self) -> None:
        """Give the free pages back, some at a time: a full disk has no room for a long log."""
        unused, before = 1, 0
        while 0 < unused != before:
            with self.writing() as db:
                (before,) = db.execute("PRAGMA freelist_count").fetchone()
                # `execute` would give back one page alone; a script ends the transaction, and so
                # begins one.
                db.executescript(f"BEGIN IMMEDIATE; PRAGMA incremental_vacuum({_PAGES_AT_ONCE});")
                (unused,) = db.execute("PRAGMA freelist_count").fetchone()
            self.move_log()

    def _check_room(self, db: SQLiteConnection) -> None:
        """Raise if the disk has no room for the log, which gets a copy of what the file has.

        What has filled the disk could not be removed: that, too, is written to the log.
        """
        pages, unused, page_bytes = (
            db.execute(f"PRAGMA {pragma}").fetchone()[0]
            for pragma in ("page_count", "freelist_count", "page_size")
        )
        size = (pages - unused) * page_bytes
        free_bytes = shutil.disk_usage(os.path.dirname(os.path.realpath(self.file.path))).free
        if free_bytes < size:
            raise self.file.error(
                f"to be written anew it needs {size:,} bytes of room on its disk, which has "
                f"{free_bytes:,}: make room, and try again"
            )

    def is_small(self) -> bool:
        """Return whether to write the file anew takes well under a second."""
        return self.file.path.stat().st_size <= _SMALL_BYTES

    def copy_to(self, path: Path) -> None:
        """Write what the file has at this moment to another file, which is empty; nobody waits."""
        self.file.check_process()
        connection = self.take(patient=True)
        try:
            connection.execute("VACUUM INTO ?", (str(path),))
            copy = sqlite3.connect(path)  # a file of its own, which nobody else knows
            try:
                copy.execute("PRAGMA journal_mode = WAL").fetchone()
            finally:
                copy.close()
        except sqlite3.Error as error:
            raise self.fault(error) from error
        finally:
            connection.close()

    def _checkpoint(self, mode: str) -> bool:
        self.check()
        connection = self.take(patient=False)
        try:
            connection.wait(0)
            with self._write_lock, connection.writing(self._timeout):
                (busy, log, moved) = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except BaseException as error:
            connection.close()
            if not isinstance(error, sqlite3.Error):
                raise
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
                return False
            raise self.fault(error) from error
        self.give_back(connection)
        return not busy and log == moved

    def begin_writing(self, wait: bool) -> None:
        """Become the writer of this process."""
        self.check()
        if self._read_only_reason and not self._has_room_again():
            raise self.file.error(self._read_only_reason)
        if not self._write_lock.acquire(blocking=False):
            if not wait:
                raise BlockingIOError(f"{self.name} is being written")
            if self._writing_thread == threading.get_ident():
                # During a write, the garbage collector may end a generator that also writes.
                raise self.file.error("this thread is writing it already")
            # Threads that wait here are woken in order; in SQLite they would poll.
            self._write_lock.acquire()
        self._writing_thread = threading.get_ident()

    def end_writing(self) -> None:
        """Let another thread of this process write."""
        self._writing_thread = 0
        self._write_lock.release()

    def close(self) -> None:
        """Close the pool; open calls of other threads end first. A forked child closes nothing."""
        with self._idle_lock:
            self._closed = True
            self._end()

    def take(self, *, patient: bool) -> SQLiteConnection:
        """Return a connection, which `give_back` returns."""
        with self._idle_lock:
            if self._closed:
                raise self.file.closed()
            idle = self._idle
            if idle:
                # Prefer one with the same setting: else each call would set the lock timeout again.
                return idle.pop(-1 if idle[-1].is_patient is patient else 0)
        connection = self._connect()
        if connection.identity != self._identity:
            connection.close()
            raise self.file.missing_error()
        return connection

    def give_back(self, connection: SQLiteConnection) -> None:
        """Keep a connection for the next one."""
        with self._idle_lock:
            # A read-only connection may see the file as it was when opened, so it is not kept.
            if not self._closed and not self._read_only_reason and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self) -> SQLiteConnection:
        mode = "rw"  # a file that has been deleted meanwhile is not silently created again
        if self._read_only_reason:
            log = Path(f"{self.file.path}-wal")
            # Without a log there is no writer, and SQLite needs no files beside this one.
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        try:
            return self.file.connect(mode, self._timeout, *self._settings)
        except sqlite3.Error as error:
            raise self.fault(error) from error

    def _has_room_again(self) -> bool:
        """Return whether a file that was opened on a full disk may be written by now."""
        if not self._lacks_room:
            return False
        try:
            connection = self.file.open(self._timeout, *self._settings)
        except sqlite3.Error:
            return False
        self._read_only_reason, self._lacks_room = "", False
        self.give_back(connection)
        return True

    def _open(self, probe: str, may_read: bool) -> None:
        connection = None
        try:
            if self._read_only_reason:
                connection = self._connect()
                if self.file.version(connection) < self.file.newest:
                    older = "an older moothall wrote it, and it cannot be brought up to date"
                    raise self.file.error(f"{older}: {self._read_only_reason}")
            else:
                try:
                    connection = self.file.open(self._timeout, *self._settings)
                except sqlite3.Error as error:
                    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                    if not may_read or code != sqlite3.SQLITE_FULL or not self.file.path.exists():
                        raise
                    self._read_only_reason, self._lacks_room = DISK_FULL, True
                    connection = self._connect()  # what is there can be read
            connection.execute(probe).fetchone()
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise self.fault(error) from error
            raise
        self._identity = connection.identity
        self.give_back(connection)

    def fault(self, error: sqlite3.Error) -> E:
        """Return what an error of SQLite means."""
        locked = (
            f"another program has held it locked for {self._timeout:g} s: end that program, or "
        )
        return self.file.fault(error, f"{locked}wait longer (timeout= in a program)")


class _TransactionBlock(Generic[E]):
    """A `with` block in a transaction; if `timeout` < 0, a lock raises BlockingIOError.

    Each commit has one, and a generator would take several times as long to enter and to leave.
    """

    __slots__ = ("_connection", "_holds", "_is_begun", "_old_state", "_pool", "_timeout", "_writes")

    def __init__(self, pool: SQLitePool[E], timeout: float, writes: bool) -> None:
        self._pool = pool
        self._timeout = timeout
        self._writes = writes
        self._connection: SQLiteConnection | None = None
        self._holds = self._is_begun = False  # whether it is the only writer, and has begun
        self._old_state = b""  # the state of the file then

    def __enter__(self) -> SQLiteConnection:
        pool, timeout, writes = self._pool, self._timeout, self._writes
        if writes:
            pool.begin_writing(timeout >= 0)
        try:
            self._connection = connection = pool.take(patient=timeout > 0)
            if connection.is_patient is not (timeout > 0):
                connection.wait(timeout)
            wal_file = connection.wal_file
            if writes and wal_file is not None:
                wal_file.take(timeout)
                self._holds = True
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            self._is_begun = True
            if writes:
                pool.file.check_log(connection)
            if wal_file is not None:
                self._old_state = wal_file.state()
        except BaseException as error:
            self._fail(error)
            raise
        return connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        connection, writes = self._connection, self._writes
        assert connection is not None
        is_usable = True
        try:
            is_lost = (writes if error is None else isinstance(error, Exception)) and (
                connection.has_lost(writes, self._old_state)
            )
            if is_lost:
                raise self._pool.file.lock_lost() from error
            if error is None:
                connection.execute("COMMIT")
            elif isinstance(error, sqlite3.Error) or not isinstance(error, Exception):
                is_usable = False
            else:
                connection.rollback()
        except BaseException as failure:
            self._fail(failure)
            raise
        if is_usable:
            self._leave(is_usable)
        elif error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Let go of everything, without the connection; raise what an error of SQLite means."""
        try:
            if self._holds and self._connection is not None:
                self._connection.rollback()  # before another one writes
        except sqlite3.Error as failure:
            error = failure
        finally:
            self._leave(is_usable=False)
        if isinstance(error, sqlite3.Error):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if self._timeout < 0 and not self._is_begun and code == sqlite3.SQLITE_BUSY:
                raise BlockingIOError(f"{self._pool.name} is being written") from error
            raise self._pool.fault(error) from error

    def _leave(self, is_usable: bool) -> None:
        """Let others write; keep a connection that is whole, close another one."""
        pool, connection = self._pool, self._connection
        try:
            if self._holds and connection is not None and connection.wal_file is not None:
                connection.wal_file.give_back()
            if connection is not None:
                (pool.give_back if is_usable else SQLiteConnection.close)(connection)
        finally:
            if self._writes:
                pool.end_writing()


def _close(idle: list[SQLiteConnection], file: SQLiteFile[Any]) -> None:
    while idle and file.is_of_this_process():
        idle.pop().close()
