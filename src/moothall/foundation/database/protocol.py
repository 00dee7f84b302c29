"""A connection to a database as moothall's stores use it.

A statement that runs on both databases is written once, with `?` for a value: what only one of them
has (`lastrowid`, `OR IGNORE`, `iif`, a negative LIMIT) does not stand in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol


class Rows(Protocol):
    """What a statement returns."""

    @property
    def rowcount(self) -> int:
        """How many rows it has changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        ...


class Database(Protocol):
    """A connection, in a transaction that somebody else ends."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Run a statement."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement for each of these rows of values."""
        ...

    def insert(self, sql: str, values: Sequence[Any] = (), /) -> int:
        """Insert one row into a table that numbers its rows; return the number."""
        ...


class Lock(NamedTuple):
    """Which writers a transaction excludes: those with the same number, unless both share it.

    SQLite has one writer at a time, whatever this is.
    """

    number: int
    shared: bool = False


ALONE: Final = Lock(0)
"""Of what changes things of several runs."""
RUNS: Final = Lock(0, shared=True)
"""Of what changes only runs whose lease this process has."""
BUDGETS: Final = Lock(1)
"""Of what changes budgets."""
