"""A connection to an SQLite file, and what this process has open."""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from moothall.foundation.sqlite.wal_locks import Identity, WALFile
from moothall.foundation.threads import guard, in_child

_CLOSE_S: Final = 5.0
"""How long closing a file waits for others that open it."""

OPENING_LOCK = guard()
_LATE: list[SQLiteConnection] = []
"""Connections that a collection closes while its thread opens or closes another one."""
_UNDER_WAY: list[None] = []
"""One item for each that the thread with the lock opens or closes: its collections may, too."""
OPEN_CONNECTIONS: set[SQLiteConnection] = set()
WAL_FILES: dict[Identity, WALFile] = {}
ABANDONED: dict[Identity, Identity] = {}
"""The files with connections that this process must not close, and their `-shm`."""


class SQLiteConnection(sqlite3.Connection):
    """A connection that stores its file, how it is held, and whether it waits for locks."""

    identity: Identity = None
    wal_file: WALFile | None = None
    log_id: Identity = None
    is_patient: bool = True
    is_abandoned: bool = False

    def wait(self, seconds: float) -> None:
        """Set how many seconds to wait for a lock from now on; 0 for no wait."""
        if self.is_patient is not (seconds > 0):
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            self.is_patient = seconds > 0

    def insert(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Insert one row; return its number."""
        number = self.execute(sql, values).lastrowid
        assert number is not None
        return number

    def has_lost(self, writes: bool, old_state: bytes) -> bool:
        """Return whether others changed the file as the lock of this transaction was lost.

        `old_state`: the held file's state as it began.
        """
        if self.wal_file is None or not self.in_transaction or self.wal_file.state() == old_state:
            return False
        return not self.wal_file.is_locked(writes)

    @contextmanager
    def writing(self, seconds: float) -> Iterator[None]:
        """Be the writer among the processes; a body that raises is rolled back before the end."""
        if self.wal_file is not None:
            self.wal_file.take(seconds)
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        finally:
            if self.wal_file is not None:
                self.wal_file.give_back()

    def close(self) -> None:
        """Close the connection; the process holds the file no more if it was the last one."""
        with OPENING_LOCK:  # until it is closed: who closes another one must not take it for open
            if _UNDER_WAY:
                _LATE.append(self)
                return
            with undisturbed():
                self._close()

    def _close(self) -> None:
        if not self.is_abandoned:
            OPEN_CONNECTIONS.discard(self)
            is_used = self.identity in ABANDONED or has_open(self.identity)
            wal_file = None if is_used else WAL_FILES.pop(self.identity, None)
            with nullcontext() if wal_file is None else wal_file.closing(_CLOSE_S):
                super().close()
            if wal_file is not None:
                if wal_file.hold_again(_CLOSE_S):
                    WAL_FILES[self.identity] = wal_file
                else:
                    wal_file.close()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Open or close one connection; those that are collected meanwhile are closed after it.

    The lock is re-entrant: a collection in this very thread would close what is being opened.
    """
    with OPENING_LOCK:
        _UNDER_WAY.append(None)
        try:
            yield
        finally:
            _UNDER_WAY.pop()
            while _LATE and not _UNDER_WAY:
                _LATE.pop().close()


def identity_of(path: str) -> Identity:
    """Return a file's device and inode; None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def has_open(identity: Identity) -> bool:
    """Return whether this process has a connection to a file."""
    return any(each.identity == identity for each in list(OPEN_CONNECTIONS))


def abandon(connections: Iterable[SQLiteConnection]) -> None:
    """Never close connections, not at the interpreter's exit either."""
    for connection in connections:
        # Not kept in a list, which the interpreter would clear at its exit.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        connection.is_abandoned = True
        OPEN_CONNECTIONS.discard(connection)


def _after_fork() -> None:
    """In a child, never close an inherited connection: that removes the parent's log."""
    abandon(list(OPEN_CONNECTIONS))
    for identity, wal_file in WAL_FILES.items():
        ABANDONED[identity] = wal_file.index
        wal_file.close()
    WAL_FILES.clear()
    _LATE.clear()
    _UNDER_WAY.clear()


in_child(_after_fork)
