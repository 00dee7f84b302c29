"""A transaction on a connection to PostgreSQL, which sends statements together if it can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg

_NUL = "\0"


class StatementResult:
    """The result of a statement; reading it waits for the server."""

    __slots__ = ("_cursor", "_pipeline")

    def __init__(self, cursor: psycopg.Cursor[Any], pipeline: psycopg.Pipeline) -> None:
        self._cursor = cursor
        self._pipeline = pipeline

    @property
    def rowcount(self) -> int:
        """How many rows the statement has changed."""
        self._pipeline.sync()
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""
        return iter(self._cursor)


class Transaction:
    """A connection in a transaction that somebody else ends.

    A statement is sent when a result is asked for, or at the end: several take one round trip.
    """

    __slots__ = ("_connection", "_pipeline")

    def __init__(self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> StatementResult:
        """Run a statement."""
        cursor = self._connection.cursor()
        cursor.execute(_numbered_parameters(sql), [_column_value(value) for value in values])
        return StatementResult(cursor, self._pipeline)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> StatementResult:
        """Run a statement for each of these rows of values."""
        cursor = self._connection.cursor()
        cursor.executemany(
            _numbered_parameters(sql), [[_column_value(value) for value in row] for row in rows]
        )
        return StatementResult(cursor, self._pipeline)

    def insert(self, sql: str, values: Sequence[Any] = (), /) -> int:
        """Insert one row into a table that numbers its rows; return the number."""
        return int(self.execute(f"{sql} RETURNING number", values).fetchone()[0])


def _column_value(value: Any) -> Any:
    """Return a value in the form of a column; PostgreSQL's texts cannot contain NUL."""
    if type(value) is str and _NUL in value:
        return value.replace(_NUL, "\ufffd")
    return value


@lru_cache(maxsize=256)
def _numbered_parameters(sql: str) -> str:
    """Return a statement with PostgreSQL's `$1` for the first `?`."""
    first, *rest = sql.split("?")
    numbers = count(1)
    return first + "".join(f"${next(numbers)}{part}" for part in rest)


@contextmanager
def pipelined(connection: psycopg.Connection[Any]) -> Iterator[psycopg.Pipeline]:
    """Send statements together; roll back after an error."""
    failure: BaseException | None = None
    try:
        with connection.pipeline() as pipeline:
            try:
                yield pipeline
            except BaseException as error:
                failure = error
                _roll_back(connection, pipeline)
    except psycopg.Error:  # of a connection that is closed by now
        if failure is None:
            raise
    if failure is not None:
        raise failure


def _roll_back(connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline) -> None:
    """Roll a transaction back; where that fails, close the connection, which does the same."""
    with suppress(psycopg.Error):
        pipeline.sync()
    try:
        connection.execute("ROLLBACK")
        pipeline.sync()
    except psycopg.Error:
        connection.close()
