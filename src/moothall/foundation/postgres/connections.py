"""Connections to a PostgreSQL database, and texts for their errors."""

from __future__ import annotations

import os
import secrets
import select
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import PipelineStatus

from moothall.foundation.arguments import check_seconds
from moothall.foundation.errors import MoothallError
from moothall.foundation.postgres.address import DatabaseAddress
from moothall.foundation.threads import in_child

E = TypeVar("E", bound=MoothallError)
Connection: TypeAlias = "psycopg.Connection[Any]"

PAUSE_S: Final = 0.05
"""Seconds between two checks whether the server is back or has ended a session."""
_OUTAGE_TIMEOUT_S: Final = 2
"""The seconds in which a server that was away has to answer; no less is possible."""
_IDLE: Final = psycopg.pq.TransactionStatus.IDLE
_CLOSED_ERRORS: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.IdleInTransactionSessionTimeout,
    errors.IdleSessionTimeout,
)
_REFUSED_STATES: Final = ("28", "3D", "42")
"""Classes of SQLSTATE after which a second try fails too: wrong user, database or right."""

# Where the other side is gone without a word, both sides notice within half a minute: the server
# releases the leases of a host that has lost its power, and a commit does not wait for ever.
_KEEPALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_SETTINGS_SQL: Final = """
    SELECT set_config('tcp_keepalives_idle', '10', false),
        set_config('tcp_keepalives_interval', '5', false),
        set_config('tcp_keepalives_count', '3', false),
        set_config('lock_timeout', $1, false),
        set_config('search_path', $2, false),
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
        pg_backend_pid()
"""
_INHERITED: Final[list[Connection]] = []
"""In a forked child, the connections of its parent, which are never used or closed."""


class Connections(Generic[E]):
    """Makes connections to a database of a PostgreSQL server."""

    def __init__(
        self,
        address: DatabaseAddress,
        timeout: float,
        class_name: str,
        error: Callable[[str, str], E],
    ) -> None:
        check_seconds("timeout=", timeout, zero=True)
        self.address: DatabaseAddress = address
        self.name: str = address.display_url
        self._class_name, self._error = class_name, error
        self._timeout = min(float(timeout), 86400.0)
        self._away_since: float | None = None  # since when the server is not there
        self._process = os.getpid()
        self._session = f"moothall {secrets.token_hex(8)}"
        self._open: set[Connection] = set()
        in_child(self._abandon)
        self._end = weakref.finalize(self, _close, self._open, self._process)

    def check(self) -> None:
        """Raise in a forked child."""
        if os.getpid() != self._process:
            raise self._make_error(
                f"it was opened by process {self._process}: open it again in this process"
            )

    def damaged(self, problem: str) -> E:
        """Return the error for rows that are damaged."""
        return self._make_error(f"it is damaged ({problem}): restore a dump of the database")

    def session(self, writes: bool = False) -> str:
        """Return the name by which the server lists a connection of this process."""
        return f"{self._session} writes" if writes else self._session

    def parameters(self, writes: bool = False) -> dict[str, Any]:
        """Return the parameters of a new connection: the URL's, and defaults for the rest."""
        wait_s = max(2, round(self._timeout))
        return {
            "connect_timeout": wait_s if self._away_since is None else _OUTAGE_TIMEOUT_S,
            "tcp_user_timeout": wait_s * 1000,
            **_KEEPALIVE,
            **self.address.parameters,
            "application_name": self.session(writes),
        }

    def _new_connection(self, deadline: float = 0.0, writes: bool = False) -> Connection:
        """Return a new connection; until the deadline, try again if the server is not there.

        Once it was not there for the timeout, each call tries once: a service whose calls all
        waited would do nothing else meanwhile.
        """
        settings = (f"{max(self._timeout * 1000, 1):.0f}", f'"{self.address.schema}"')
        while True:
            connection: Connection | None = None
            try:
                connection = psycopg.connect(
                    **self.parameters(writes), autocommit=True, cursor_factory=psycopg.RawCursor
                )
                self._open.add(connection)
                connection.execute(_SETTINGS_SQL, settings)
                self._away_since = None
                return connection
            except psycopg.OperationalError as error:
                if connection is not None:  # its session was ended as soon as it began
                    self._drop(connection)
                is_refused = (error.sqlstate or "").startswith(_REFUSED_STATES)
                away_since = self._away_since = self._away_since or time.monotonic()
                if is_refused or time.monotonic() + PAUSE_S >= min(
                    deadline, away_since + self._timeout
                ):
                    raise self._error_for(error) from None
                time.sleep(PAUSE_S)  # noqa: TID251 - a server that restarts takes a while

    def _drop(self, connection: Connection) -> None:
        with suppress(psycopg.Error):
            connection.close()
        self._open.discard(connection)

    def _abandon(self) -> None:
        """In a forked child, close the sockets without a word to the server.

        The session is the parent's. It ends with it, for the child has no socket.
        """
        for connection in self._open:
            _INHERITED.append(connection)
            with suppress(psycopg.Error, OSError):
                os.close(connection.fileno())
        self._open.clear()

    # -- faults ------------------------------------------------------------------------------------

    def _make_error(self, reason: str) -> E:
        return self._error(self.name, reason)

    def _error_text(self, error: psycopg.Error) -> str:
        """Return the text of an error, in one line, without a password."""
        return self.address.without_secrets(" ".join(str(error).split()))[:300]

    def _error_for(self, error: psycopg.Error) -> E:
        """Return the error for an error of PostgreSQL, with what to do."""
        text = self._error_text(error)
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
            return self.damaged(text)
        if isinstance(error, errors.LockNotAvailable):
            return self._make_error(
                f"another process has held it locked for {self._timeout:g} s: end that program, or "
                "wait longer (timeout= in a program)"
            )
        if isinstance(error, errors.InsufficientPrivilege):
            return self._make_error(f"its user may not do that ({text}): grant it the right")
        if isinstance(error, errors.DiskFull):
            return self._make_error("the server's disk is full: make room, and try again")
        if isinstance(error, psycopg.OperationalError):
            return self._make_error(
                f"the server cannot be used ({text}): see that it runs, and that host, port, user, "
                "password and database are right"
            )
        return self._make_error(f"PostgreSQL says: {text}")

    def _closed_error(self) -> E:
        return self._make_error(f"it was closed: make a new {self._class_name} of it")


def is_usable(connection: Connection) -> bool:
    """Return whether an idle connection is still there."""
    if connection.closed or connection.info.transaction_status != _IDLE:
        return False
    if not select.select((connection.fileno(),), (), (), 0)[0]:
        return True
    try:  # something came unasked: mostly the end
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def is_idle(connection: Connection) -> bool:
    """Return whether a connection is there, and in no transaction."""
    return not connection.closed and connection.info.transaction_status == _IDLE


def is_lost(connection: Connection, error: psycopg.Error) -> bool:
    """Return whether an error is the end of a connection, also one that cannot end its pipeline."""
    if not connection.closed and connection.pgconn.pipeline_status != PipelineStatus.OFF:
        connection.close()  # the server died between an answer and its end
    return bool(connection.closed) or isinstance(error, _CLOSED_ERRORS)


def _close(connections: set[Connection], process: int) -> None:
    while connections and os.getpid() == process:
        with suppress(psycopg.Error):
            connections.pop().close()
