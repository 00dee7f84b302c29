"""A crash without a process: what a file holds in some moment is what a kill -9 leaves."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from moothall import Journal
from moothall.foundation.postgres import is_url


def crash(file: str | Path, copy: Path) -> None:
    """Keep what the file of a journal, or of a memory, would hold if the process ended now."""
    with closing(sqlite3.connect(file)) as now, closing(sqlite3.connect(copy)) as then:
        now.backup(then)


class Crashing:
    """An action that keeps what a crash in its midst would leave, the first time it is called."""

    def __init__(self, journal: Journal, copy: Path) -> None:
        self.journal = journal
        self.copy = copy
        self.called: list[Any] = []

    def __call__(self, what: Any) -> str:
        if not self.copy.exists():
            crash(self.journal.path, self.copy)
        self.called.append(what)
        return f"did {what}"


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Another program holds the file, or the database, locked."""
    if is_url(str(path)):
        with psycopg.connect(str(path)) as server:
            server.execute("SELECT pg_advisory_xact_lock('entries'::regclass::oid::int, 0)")
            yield
            server.rollback()
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def settled(until: Callable[[], bool] | None = None) -> None:
    """Let everything on this loop come as far as it can without anybody else; or until then."""
    for _ in range(100 if until is None else 10_000):
        await asyncio.sleep(0)
        if until is not None and until():
            return
    assert until is None, "it did not come about"
