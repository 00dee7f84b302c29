"""An SQLite file in WAL mode, with a few connections to it that threads take turns with."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from civitas.errors import CivitasError, DefinitionError
from civitas.forkgate import FORKS
from civitas.sqlitefile import SQLiteConnection, SQLiteFile

__all__ = ["SQLitePool"]

E = TypeVar("E", bound=CivitasError)

_IDLE = 4
"""So many connections are kept for the next call."""

_SHORTEST_S, _LONGEST_S = 0.001, 0.02
"""How long to wait before looking again whether another process still writes."""


class _Here(threading.local):
    used = False


class SQLitePool(Generic[E]):
    """An SQLite file in WAL mode, used by any number of threads and processes.

    Each call takes a connection for as long as it lasts, so readers do not wait for writers or for
    each other. The writers of a process wait in line; those of other processes for at most
    `timeout` seconds.

    Args:
        file: the file, as one of its kind
        timeout: seconds to wait while another process holds it locked
        probe: a query that reads every table's definition, and so finds a file that is damaged
        settings: pragmas of every connection, besides those that all have

    Attributes:
        name: the path, as it was given

    Raises:
        DefinitionError: the timeout is none
        E: the file cannot be used
    """

    def __init__(
        self, file: SQLiteFile[E], timeout: float, probe: str, settings: Sequence[str] = ()
    ) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise DefinitionError(f"timeout= is a number of seconds, not {timeout!r}")
        self._file = file
        self.name = file.name
        self._timeout = min(float(timeout), 86400.0)
        self._probe = probe
        self._settings = tuple(settings)
        self._closed = False
        self._idle: list[SQLiteConnection] = []
        self._reset()
        with FORKS:
            self._open()
        _POOLS.add(self)
        self._end = weakref.finalize(self, _close, self._idle)

    def _reset(self) -> None:
        # Also in a forked child, where the locks may have been held. Its parent's connections are
        # not the child's to use, and closing them there would be using them.
        self._writing = threading.Lock()
        self._pool = threading.Lock()
        self._here = _Here()
        if self._idle:
            _ABANDONED.extend(self._idle)
            self._idle.clear()

    @property
    def is_used_here(self) -> bool:
        """Whether this thread is in the midst of a call.

        The collector may run then, and end what uses the file in its turn: that must wait until
        later, for this thread would wait for itself.
        """
        return self._here.used

    # -- use ---------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file, whatever is written meanwhile.

        Raises:
            E: for every error of SQLite's, also one in the body
        """
        used, self._here.used = self._here.used, True
        try:
            with FORKS:
                connection = self._take(patient=self._timeout > 0)
                try:
                    connection.wait(self._timeout)
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
        finally:
            self._here.used = used

    @contextmanager
    def writing(self, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that is committed when the body ends, else rolled back.

        Args:
            wait: whether to wait for others that write

        Raises:
            BlockingIOError: somebody else writes, and it was not to wait; nothing was done
            E: for every error of SQLite's, also one in the body
        """
        # Threads that wait for each other here do not wake up every so often to look, as SQLite's
        # own waiting does, and are served in turn.
        used, self._here.used = self._here.used, True
        try:
            if not self._writing.acquire(blocking=wait):
                raise BlockingIOError(f"{self.name} is being written")
        except BaseException:
            self._here.used = used
            raise
        try:
            connection = self._begin_writing(wait)
            try:
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                connection.close()
                raise self._fault(error) from error
            except BaseException:
                connection.close()
                raise
            else:
                self._give_back(connection)
            finally:
                FORKS.leave()
        finally:
            self._writing.release()
            self._here.used = used

    def _begin_writing(self, wait: bool) -> SQLiteConnection:
        """A connection that has begun a transaction to write, when nobody else is in one.

        A child that is forked in the midst of one would take the file to be written for ever: it is
        begun with the gate for forks entered, which is left when it has ended.
        """
        deadline = time.monotonic() + self._timeout
        pause = _SHORTEST_S
        while True:
            FORKS.enter()
            begun = False
            try:
                connection = self._take(patient=False)
                try:
                    connection.wait(0)
                    connection.execute("BEGIN IMMEDIATE")
                    begun = True
                    return connection
                except sqlite3.Error as error:
                    busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                    if not busy or (wait and time.monotonic() >= deadline):
                        connection.close()
                        raise self._fault(error) from error
                    self._give_back(connection)
                    if not wait:
                        raise BlockingIOError(f"{self.name} is being written") from error
                except BaseException:
                    connection.close()
                    raise
            finally:
                if not begun:
                    FORKS.leave()
            # Nothing tells when another process lets go. Not in SQLite's own waiting, which a fork
            # would have to wait for.
            time.sleep(pause)  # noqa: TID251
            pause = min(2 * pause, _LONGEST_S)

    def close(self) -> None:
        """Close it. What is under way in other threads ends first."""
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
        try:
            # rw: a file that has been deleted meanwhile is not quietly made anew.
            return self._connect("rw")
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _give_back(self, connection: SQLiteConnection) -> None:
        with self._pool:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self, mode: str) -> SQLiteConnection:
        connection = self._file.connect(mode, self._timeout)
        try:
            # Copying the log into the file is what waits for the disk: not after every 4 MB.
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            for setting in self._settings:
                connection.execute(f"PRAGMA {setting}")
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
            if not self._file.is_current(connection):
                self._use_wal(connection)
                self._file.migrate(connection)
            connection.execute(self._probe).fetchone()
        except sqlite3.Error as error:
            connection.close()
            raise self._fault(error) from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def _use_wal(self, connection: SQLiteConnection) -> None:
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
            raise self._file.error(
                self.name,
                f"its file system allows no shared memory (mode {mode}): use a local disk",
            )

    def _fault(self, error: sqlite3.Error) -> E:
        """An error of SQLite's, in words that say what to do."""
        return self._file.fault(
            error,
            f"another program has held it locked for {self._timeout:g} s: end that program, or "
            "wait longer with timeout=",
        )


def _close(idle: list[SQLiteConnection]) -> None:
    with FORKS:
        while idle:
            idle.pop().close()


_POOLS: weakref.WeakSet[SQLitePool[Any]] = weakref.WeakSet()
_ABANDONED: list[SQLiteConnection] = []


def _after_fork() -> None:
    for pool in list(_POOLS):
        pool._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
