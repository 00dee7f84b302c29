"""A connection to an SQLite file, and what this process has open."""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from moothall.foundation.sqlite.held import Held, Identity
from moothall.foundation.threads import guard, in_child

_CLOSE_S: Final = 5.0
"""How long closing a file waits for others that open it."""

OPENING = guard()
OPEN: set[SQLiteConnection] = set()
HELD: dict[Identity, Held] = {}
ABANDONED: dict[Identity, Identity] = {}
"""The files with connections that this process must not close, and their `-shm`."""


class SQLiteConnection(sqlite3.Connection):
    """A connection that stores its file, how it is held, and whether it waits for locks."""

    identity: Identity = None
    held: Held | None = None
    log: Identity = None
    patient: bool = True
    abandoned: bool = False

    def wait(self, seconds: float) -> None:
        """Set how many seconds to wait for a lock from now on; 0 for no wait."""
        if self.patient is not (seconds > 0):
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            self.patient = seconds > 0

    def insert(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Insert one row; return its number."""
        number = self.execute(sql, values).lastrowid
        assert number is not None
        return number

    def has_lost(self, writes: bool, before: bytes) -> bool:
        """Return whether others changed the file as the lock of this transaction was lost.

        `before`: the held file's state as it began.
        """
        if self.held is None or not self.in_transaction or self.held.state() == before:
            return False
        return not self.held.is_locked(writes)

    @contextmanager
    def writing(self, seconds: float) -> Iterator[None]:
        """Be the writer among the processes; a body that raises is rolled back before the end."""
        if self.held is not None:
            self.held.take(seconds)
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        finally:
            if self.held is not None:
                self.held.give_back()

    def close(self) -> None:
        """Close the connection; the process holds the file no more if it was the last one."""
        with OPENING:  # until it is closed: who closes another one must not take it for open
            if self.abandoned:
                return
            OPEN.discard(self)
            used = self.identity in ABANDONED or has_open(self.identity)
            held = None if used else HELD.pop(self.identity, None)
            with nullcontext() if held is None else held.closing(_CLOSE_S):
                super().close()
            if held is not None:
                if held.hold_again(_CLOSE_S):
                    HELD[self.identity] = held
                else:
                    held.close()


def identity_of(path: str) -> Identity:
    """Return a file's device and inode; None without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def has_open(identity: Identity) -> bool:
    """Return whether this process has a connection to a file."""
    return any(each.identity == identity for each in list(OPEN))


def abandon(connections: Iterable[SQLiteConnection]) -> None:
    """Never close connections, not at the interpreter's exit either."""
    for connection in connections:
        # Not kept in a list, which the interpreter would clear at its exit.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        connection.abandoned = True
        OPEN.discard(connection)


def is_in_use(file: os.stat_result) -> bool:
    """Return whether a file belongs to a journal, memory or inbox that this process has open."""
    identity = file.st_dev, file.st_ino
    return any(
        identity in (each.identity, each.log) or (each.held and identity == each.held.index)
        for each in list(OPEN)
    )


def _after_fork() -> None:
    """In a child, never close an inherited connection: that removes the parent's log."""
    abandon(list(OPEN))
    for identity, held in HELD.items():
        ABANDONED[identity] = held.index
        held.close()
    HELD.clear()


in_child(_after_fork)
