"""A journal in a PostgreSQL database, for runs of several hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from pathlib import Path
from typing import Final

import psycopg

from moothall.foundation.database import Database
from moothall.foundation.errors import JournalError
from moothall.foundation.postgres.address import DatabaseAddress
from moothall.foundation.postgres.pool import Lease, PostgresPool
from moothall.journal.store.leases import Leases
from moothall.journal.store.store import RunEnd, Store, WriteUncertain
from moothall.journal.store.tables import SERVER_MIGRATIONS

_LAST_RUN: Final = 2**31 - 1
_RETRY_S: Final = 1.0
"""Seconds before a lost connection for `LISTEN` is made again."""
_TABLES: Final = ("runs", "entries", "kept", "texts", "holders", "budgets", "waits")

# A follower has the lock of its run shared: a process that cannot have it alone tells the
# followers. So a run that nobody follows costs no notice, of which the server sends one commit's
# at a time.
_NOTIFY: Final = (
    "SELECT CASE WHEN NOT pg_try_advisory_xact_lock(CAST(? AS INT), CAST(? AS INT)) "
    "THEN pg_notify(?, ?) END"
)
_FOLLOW: Final = "SELECT pg_advisory_lock_shared($1::int, $2::int)"
_SERVER_IDENTITY: Final = (
    "SELECT system_identifier::text, oid::bigint FROM pg_control_system(), pg_database "
    "WHERE datname = current_database()"
)


class ServerLeases:
    """Leases that are session locks of the connection that writes: they end with it."""

    def __init__(self, server: JournalServer) -> None:
        self._server = server
        # None: a writer that asks for a lease and a thread that gives one back would wait for each
        # other.
        self.lock: AbstractContextManager[object] = nullcontext()

    def take(self, run: int) -> bool:
        """Take the lease of a run; return False if it is taken."""
        if not self._server.hold(self._server.lease(run)):
            return False
        self._server.end_seen_on[run] = self._server.renewal_count
        return True

    def give_back(self, run: int) -> None:
        """Release the lease of a run."""
        self._server.end_seen_on.pop(run, None)
        self._server.release(self._server.lease(run))

    def is_taken(self, run: int) -> bool:
        """Return whether this process or another one works on a run."""
        table, number = self._server.lease(run)
        return self._server.holds((table, number)) or number in self._server.lock_numbers(table)

    def leased_runs(self, numbers: Iterable[int]) -> list[int]:
        """Return which runs this process or another one works on."""
        return self._server.lock_numbers(self._server.runs_oid)

    def is_idle(self, numbers: Iterable[int]) -> bool:
        """Return whether nobody has a lease, also of shared budgets."""
        server = self._server
        return not any(server.lock_numbers(server.runs_oid)) and not server.lock_numbers(
            server.budgets_oid
        )

    def close(self) -> None:
        """Do nothing: they end with the connection."""


class JournalServer(PostgresPool[JournalError], Store):
    """The tables of a journal in a PostgreSQL database."""

    commits_wait = True  # for the network
    slice_s: float = 0.025  # a transaction is several round trips
    attribute_sql: str = "(jsonb_path_query_first(attributes, CAST(? AS jsonpath)) #>> '{}')"
    last_run_sql: str = (
        "pg_sequence_last_value(CAST(pg_get_serial_sequence('runs', 'number') AS regclass))"
    )
    recheck_s: float = 1.0  # for a process that has died; what is written is told

    def __init__(self, url: str, timeout: float) -> None:
        # By run, the connection over which its end was seen last.
        self.end_seen_on: dict[int, int] = {}
        self.damaged_runs: set[str] = set()
        super().__init__(
            DatabaseAddress(url, "a journal in PostgreSQL"),
            timeout,
            kind="journal",
            class_name="Journal",
            migrations=SERVER_MIGRATIONS,
            lock_table="entries",
            error=JournalError,
            unfinished_error=WriteUncertain,
        )
        self.runs_oid: int = self.oid("runs")
        self.budgets_oid: int = self.oid("budgets")
        self._texts_oid: int = self.oid("texts")
        self._channel = f"moothall_{self.runs_oid}"
        self._server_identity = self._read_server_identity()

    def _read_server_identity(self) -> object:
        """Return what names the server and the database; its URL, if the server does not say."""
        with suppress(psycopg.errors.InsufficientPrivilege), self._reader() as connection:
            return connection.execute(_SERVER_IDENTITY).fetchone()
        return self.name

    @property
    def identity(self) -> object:
        """Return the numbers of the server, of the database and of its table of runs."""
        return self._server_identity, self.runs_oid

    def lease(self, number: int) -> Lease:
        """Return the lock of a run, or of a process that uses shared budgets."""
        if number <= _LAST_RUN:
            return self.runs_oid, number
        return self.budgets_oid, number & _LAST_RUN

    def leases(self) -> Leases:
        """Return the leases, which are locks of the connection that writes."""
        return ServerLeases(self)

    def check_lease(self, db: Database, run: int, id: str, end: RunEnd) -> None:
        """Raise if another process has worked on a run since the connection was lost."""
        if self.has_lost(self.lease(run)):
            raise self._taken_over(id)
        if self.end_seen_on.get(run, self.renewal_count) != self.renewal_count:
            if self.read_end(db, run) != end:
                raise self._taken_over(id)
            self.end_seen_on[run] = self.renewal_count

    def _taken_over(self, id: str) -> JournalError:
        return self._make_error(
            f"another process has taken over run {id!r} while the connection to the server was "
            "lost: nothing more is written of it here"
        )

    # -- following ---------------------------------------------------------------------------------

    def notify_followers(self, db: Database, runs: Iterable[int]) -> None:
        """Notify the followers of these runs, in the transaction that writes them."""
        for run in runs:
            db.execute(_NOTIFY, (self._follow_key, run, self._channel, str(run)))

    @property
    def _follow_key(self) -> int:
        return self._texts_oid - (1 << 32) if self._texts_oid >= 1 << 31 else self._texts_oid

    @asynccontextmanager
    async def watching_commits(self, run: int, notify: Callable[[], None]) -> AsyncIterator[None]:
        """Call a function after each commit of another process to a run."""
        listener = asyncio.create_task(self._listen(run, notify))
        try:
            yield
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def _listen(self, run: int, notify: Callable[[], None]) -> None:
        """Wait for the commits of a run, over a separate connection."""
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    **self.parameters(), autocommit=True, cursor_factory=psycopg.AsyncRawCursor
                )
                async with connection:
                    await connection.execute(_FOLLOW, (self._follow_key, run))
                    await connection.execute(f"LISTEN {self._channel}".encode())
                    notify()  # what was written before is read now
                    async for notice in connection.notifies():
                        if notice.payload == str(run):
                            notify()
            except psycopg.Error:
                await asyncio.sleep(_RETRY_S)

    # -- what is deleted and moved -----------------------------------------------------------------

    def after_deletion(self, is_idle: bool) -> bool:
        """Let the server use the space again; copies stay in its files until it does."""
        for table in _TABLES:
            self.run_alone(f"VACUUM {table}")
        return False

    def rewrite(self) -> bool:
        """Write the tables anew, without what was deleted; others wait meanwhile."""
        self.write_anew(_TABLES)
        return True

    def copy_to(self, path: Path) -> None:
        """Raise an error: `pg_dump` makes backups of a server."""
        raise self._make_error(
            "a database is backed up by the server's own program: "
            f"pg_dump --schema={self.address.schema}"
        )

    def size(self) -> int:
        """Return how many bytes the tables take, with their indexes."""
        query = "SELECT pg_total_relation_size($1::regclass)"
        return sum(int(self.query(query, (table,))[0][0]) for table in _TABLES)
