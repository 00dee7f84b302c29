"""Connections to a PostgreSQL database: a few that read, and one that writes and holds leases."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import psycopg

from moothall.foundation.database import CHANGES, Lock
from moothall.foundation.errors import MoothallError
from moothall.foundation.postgres.address import DatabaseAddress
from moothall.foundation.postgres.connections import (
    PAUSE_S,
    Connection,
    Connections,
    E,
    is_idle,
    is_lost,
    is_usable,
)
from moothall.foundation.postgres.schema import migrate
from moothall.foundation.postgres.transaction import Transaction, pipelined
from moothall.foundation.threads import guard

Lease: TypeAlias = tuple[int, int]
"""The oid of a table, and a number of 31 bits: a key of PostgreSQL's advisory locks."""

_MAX_IDLE: Final = 4
"""How many idle connections are kept for the next calls."""
_REWRITE_LOCK: Final = 2
"""The number of the lock of who writes tables anew: it takes as long as it takes."""
# Who waits for that, waits without an end.
_LOCK_TIMEOUT_SQL: Final = (
    "SELECT set_config('lock_timeout', CASE WHEN pg_try_advisory_xact_lock_shared($1::int, "
    f"{_REWRITE_LOCK}) THEN current_setting('lock_timeout') ELSE '0' END, true)"
)
_LOCK_SQL: Final = {
    False: f"{_LOCK_TIMEOUT_SQL}, pg_advisory_xact_lock($1::int, $2::int)",
    True: f"{_LOCK_TIMEOUT_SQL}, pg_advisory_xact_lock_shared($1::int, $2::int)",
}
_MARK_SQL: Final = """
    INSERT INTO writers (session, last) VALUES ($1, $2)
    ON CONFLICT (session) DO UPDATE SET last = excluded.last, at = now()
"""
_READ_MARK_SQL: Final = "SELECT last FROM writers WHERE session = $1"
_TAKE_SQL: Final = "SELECT pg_try_advisory_lock($1::int, $2::int)"
_END_SESSION_SQL: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = $1 AND pid <> pg_backend_pid()
"""
_BEGIN_READ_SQL: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ALL_LOCKS_SQL: Final = """
    SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = $1::bigint::oid
"""


class PostgresPool(Connections[E]):
    """A database of a PostgreSQL server. Its writers wait for each other, its readers never wait.

    One connection writes, and holds this process's leases, which are session locks: as long as it
    is there, nobody else has them. If it is lost, a new one takes them again before anything is
    written; `renewed` counts that.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        timeout: float,
        *,
        kind: str,
        class_name: str,
        migrations: Sequence[Sequence[str]],
        lock_table: str,
        error: Callable[[str, str], E],
        unfinished_error: Callable[[str, str], E],
    ) -> None:
        super().__init__(address, timeout, class_name, error)
        self.renewal_count: int = 0
        self._unfinished_error = unfinished_error
        self._last_mark = 0
        self._closed = False
        self._idle_lock = guard()
        self._idle: list[Connection] = []
        self._write_lock = guard(threading.Lock())
        self._writing_thread = 0
        self._writer: Connection | None = None
        self._leases: set[Lease] = set()
        self._lost_leases: set[Lease] = set()
        self._leases_to_release: list[Lease] = []
        try:
            connection = self._new_connection()
            try:
                migrate(connection, address.schema, kind, migrations, self._make_error)
                self._lock_oid: int = self.oid(lock_table, connection)
            except BaseException:
                self._drop(connection)
                raise
            self._give_back(connection)
        except psycopg.Error as error:
            raise self._error_for(error) from None

    # -- use ---------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Yield a connection that sees one state of the database, whatever is written meanwhile."""
        connection = self._take_reader()
        try:
            with pipelined(connection) as pipeline:
                connection.execute(_BEGIN_READ_SQL)
                connection.execute(_LOCK_TIMEOUT_SQL, (_signed_32_bits(self._lock_oid),))
                yield Transaction(connection, pipeline)
                connection.execute("COMMIT")
                pipeline.sync()
        except psycopg.Error as error:
            if is_lost(connection, error):
                raise self._lost_error(error) from None
            raise self._error_for(error) from error
        finally:
            self._give_back(connection)

    @contextmanager
    def writing(self, wait: bool = True, lock: Lock = CHANGES) -> Iterator[Transaction]:
        """Yield a connection in a transaction: committed at the body's end, else rolled back.

        Raises:
            BlockingIOError: without `wait`, if this process writes already
            E: the server refuses it, or the connection is lost; then it is `unfinished` unless the
                server has said that it took effect
        """
        self._lock(wait)
        mark = 0
        try:
            connection = self._ready_writer()
            try:
                with pipelined(connection) as pipeline:
                    connection.execute("BEGIN")
                    connection.execute(
                        _LOCK_SQL[lock.shared], (_signed_32_bits(self._lock_oid), lock.number)
                    )
                    yield Transaction(connection, pipeline)
                    if not lock.shared:  # else the writer can tell by what it wrote
                        self._last_mark = mark = self._last_mark + 1
                        connection.execute(_MARK_SQL, (self.session(), mark))
                    connection.execute("COMMIT")
                    pipeline.sync()
            except psycopg.Error as error:
                if not is_lost(connection, error):
                    raise self._error_for(error) from error
                if not self._took_effect(mark):
                    raise self._lost_error(error) from None
        finally:
            self._unlock()

    def _lost_error(self, error: psycopg.Error) -> E:
        reason = f"the connection to the server was lost ({self._error_text(error)})"
        return self._unfinished_error(self.name, f"{reason}: see that it runs, and try again")

    def _took_effect(self, number: int) -> bool:
        """Return whether the transaction that was to leave this mark was committed.

        A transaction's own number would not do: after a crash the server gives it to another one.
        """
        deadline = time.monotonic() + self._timeout
        while number:
            try:
                mark = self._ready_writer().execute(_READ_MARK_SQL, (self.session(),)).fetchone()
                return mark is not None and mark[0] >= number
            except psycopg.Error:  # it was lost again
                if time.monotonic() >= deadline:
                    break
            except MoothallError:  # nor is the server there any more: nobody knows
                break
        return False

    def oid(self, table: str, connection: Connection | None = None) -> int:
        """Return the number of a table in its database."""
        if connection is None:
            with self._reader() as connection:
                return self.oid(table, connection)
        row = connection.execute("SELECT $1::regclass::oid::bigint", (table,)).fetchone()
        assert row is not None
        return int(row[0])

    def run_alone(self, sql: str) -> None:
        """Run a statement outside of a transaction, as VACUUM needs it."""
        self.check()
        with self._reader() as connection:
            connection.execute(sql)

    def write_anew(self, tables: Sequence[str]) -> None:
        """Write tables anew; who uses them waits meanwhile, however long it takes."""
        self.check()
        lock = (_signed_32_bits(self._lock_oid), _REWRITE_LOCK)
        with self._reader() as connection:
            connection.execute("SELECT pg_advisory_lock($1::int, $2::int)", lock)
            try:
                for table in tables:
                    connection.execute(f"VACUUM (FULL) {table}")
            finally:
                if not connection.closed:
                    connection.execute("SELECT pg_advisory_unlock($1::int, $2::int)", lock)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a statement's result."""
        self.check()
        with self._reader() as connection:
            return connection.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the connections; a call of another thread ends first. A child does nothing."""
        if os.getpid() != self._process:
            return
        with self._idle_lock:
            self._closed = True
        is_writer = self._writing_thread == threading.get_ident()
        if not is_writer:
            self._write_lock.acquire()
        try:
            self._leases.clear()
            self._writer = None
            self._idle.clear()
            self._end()
        finally:
            if not is_writer:
                self._write_lock.release()

    # -- leases ------------------------------------------------------------------------------------

    def hold(self, lease: Lease) -> bool:
        """Take a session lock until `release` or the end of this process; False if it is taken."""
        with self._as_writer() as connection:
            if lease in self._leases:  # to its own session the server would give it again
                return False
            row = connection.execute(_TAKE_SQL, (_signed_32_bits(lease[0]), lease[1])).fetchone()
            if not row or not row[0]:
                return False
            self._lost_leases.discard(lease)
            self._leases.add(lease)
            return True

    def release(self, lease: Lease) -> None:
        """Release a session lock."""
        if lease not in self._leases:
            return
        self._leases.discard(lease)
        self._leases_to_release.append(lease)
        # In the middle of a write, the garbage collector may have closed a run: then at its end.
        if self._writing_thread != threading.get_ident() and not self._closed:
            with suppress(MoothallError), self._as_writer():
                pass  # it is released at the end

    def holds(self, lease: Lease) -> bool:
        """Return whether this process has a session lock, as far as it knows."""
        return lease in self._leases

    def has_lost(self, lease: Lease) -> bool:
        """Return whether somebody else took a session lock while the connection was lost."""
        return lease in self._lost_leases

    def lock_numbers(self, table: int) -> list[int]:
        """Return the numbers of all locks of this table that any session has."""
        return [number for (number,) in self.query(_ALL_LOCKS_SQL, (table,))]

    @contextmanager
    def _as_writer(self) -> Iterator[Connection]:
        """Yield the connection that writes, also in the middle of a transaction of this thread."""
        if self._writing_thread == threading.get_ident() and self._writer is not None:
            yield self._writer
            return
        self._lock(True)
        try:
            yield self._ready_writer()
        except psycopg.Error as error:
            raise self._error_for(error) from error
        finally:
            self._unlock()

    def _lock(self, wait: bool) -> None:
        """Become the writer of this process."""
        self.check()
        if not self._write_lock.acquire(blocking=False):
            if not wait:
                raise BlockingIOError(f"{self.name} is being written")
            if self._writing_thread == threading.get_ident():
                # During a write, the garbage collector may end a generator that also writes.
                raise self._make_error("this thread is writing it already")
            self._write_lock.acquire()
        self._writing_thread = threading.get_ident()

    def _unlock(self) -> None:
        """Let the next writer of this process write."""
        try:
            writer = self._writer
            while self._leases_to_release:
                table, number = self._leases_to_release.pop()
                if writer is not None and not writer.closed:
                    with suppress(psycopg.Error):
                        writer.execute(
                            "SELECT pg_advisory_unlock($1::int, $2::int)",
                            (_signed_32_bits(table), number),
                        )
        finally:
            self._writing_thread = 0
            self._write_lock.release()

    # -- connections -------------------------------------------------------------------------------

    def _ready_writer(self) -> Connection:
        """Return the connection that writes; a new one if it was lost, with the same leases."""
        if self._closed:
            raise self._closed_error()
        writer = self._writer
        if writer is not None and is_usable(writer):
            return writer
        deadline = time.monotonic() + self._timeout
        if writer is not None:
            self._drop(writer)
            self.renewal_count += 1
        while True:
            connection = self._new_connection(deadline, writes=True)
            try:
                if writer is not None:
                    self._end_session(connection, deadline)
                    self._retake_leases(connection)
                self._writer = connection
                return connection
            except psycopg.Error as error:
                self._drop(connection)
                if time.monotonic() >= deadline:
                    raise self._error_for(error) from None
            except BaseException:
                self._drop(connection)
                raise

    def _end_session(self, connection: Connection, deadline: float) -> None:
        """End the session of a lost connection, which the server may not have noticed yet."""
        while connection.execute(_END_SESSION_SQL, (self.session(writes=True),)).fetchone():
            if time.monotonic() >= deadline:
                break
            time.sleep(PAUSE_S)  # noqa: TID251 - the server ends it

    def _retake_leases(self, connection: Connection) -> None:
        """Take the leases that ended with a lost connection, as far as nobody else has them."""
        for lease in list(self._leases):
            row = connection.execute(_TAKE_SQL, (_signed_32_bits(lease[0]), lease[1])).fetchone()
            if not row or not row[0]:
                self._leases.discard(lease)
                self._lost_leases.add(lease)

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        connection = self._take_reader()
        try:
            yield connection
        except psycopg.Error as error:
            raise self._error_for(error) from error
        finally:
            self._give_back(connection)

    def _take_reader(self) -> Connection:
        """Return an idle connection that reads, or a new one."""
        self.check()
        while True:
            with self._idle_lock:
                if self._closed:
                    raise self._closed_error()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._new_connection(time.monotonic() + self._timeout)
            if is_usable(connection):
                return connection
            self._drop(connection)

    def _give_back(self, connection: Connection) -> None:
        with self._idle_lock:
            if is_idle(connection) and not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        self._drop(connection)

    def _abandon(self) -> None:
        """In a forked child, drop all connections without using them."""
        super()._abandon()
        self._idle.clear()
        self._leases.clear()
        self._writer = None


def _signed_32_bits(oid: int) -> int:
    """Return a table's number as a lock's key has it, in 32 bits with a sign."""
    return oid - (1 << 32) if oid >= 1 << 31 else oid
