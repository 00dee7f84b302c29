"""An SQLite file written anew beside its users, in transactions of some milliseconds.

A copy of each table is filled beside it, equal to it by triggers, and takes its place. A process
that dies in between leaves nothing half: the next one begins again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

_NEW: Final = "~new"
_OLD: Final = "~old"
_SLICE_S: Final = 0.02
"""For about so many seconds writers wait for one transaction; then they have as many."""
_LONGEST_REST_S: Final = 1.0
_FIRST: Final = 16
"""So many rows, or pages, the first transaction takes; the next ones as many as fit the time."""
_MOST: Final = 100_000
_LOG_EVERY: Final = 20
"""After so many transactions the log is moved into the file."""
_INCREMENTAL: Final = 2


class Pool(Protocol):
    """What is written anew."""

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yield a connection in a transaction."""
        ...

    def move_log(self) -> bool:
        """Move the log into the file."""
        ...


class _Table(NamedTuple):
    name: str
    sql: str
    columns: list[str]  # quoted, with the row's number if that has no name
    key: list[str]  # quoted

    def named(self, ending: str) -> str:
        return f'"{self.name}{ending}"'

    def is_after(self, key: object) -> str:
        """Return the condition for rows after a key; for all without one."""
        marks = ", ".join("?" * len(self.key))
        return "TRUE" if key is None else f"({', '.join(self.key)}) > ({marks})"


def may_shrink(db: sqlite3.Connection) -> bool:
    """Return whether a file can give back its free pages one by one."""
    (mode,) = db.execute("PRAGMA auto_vacuum").fetchone()
    return bool(mode == _INCREMENTAL)


def is_under_way(db: sqlite3.Connection) -> bool:
    """Return whether somebody writes the file anew, or has died meanwhile."""
    query = "SELECT 1 FROM sqlite_master WHERE name LIKE '%~new' OR name LIKE '%~old'"
    return db.execute(query).fetchone() is not None


class Rewriting:
    """Writes a file anew that `may_shrink`; one process at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._count = 0

    def run(self) -> None:
        """Write all tables anew, and give the free pages back."""
        self._clear()
        with self._pool.writing() as db:
            tables = _tables(db)
        for table in tables:
            self._begin(table)
            self._copy(table)
            self._switch(table)
            self._clear()
        self._in_slices(_free_pages_are_left)

    def _clear(self) -> None:
        """Remove the tables that another one has taken the place of, and copies that are not."""
        with self._pool.writing() as db:
            tables = [each for each in _all_tables(db) if each.name.endswith((_NEW, _OLD))]
            for each in tables:
                _drop_triggers(db, each.name.removesuffix(_NEW))
        for table in tables:

            def remove(db: sqlite3.Connection, many: int, table: _Table = table) -> bool:
                keys, name = f"({', '.join(table.key)})", table.named("")
                # What is free is given back in the end, so nothing has to be overwritten before.
                db.execute("PRAGMA secure_delete = OFF")
                some = f"SELECT {', '.join(table.key)} FROM {name} ORDER BY {keys[1:-1]} LIMIT ?"
                gone = db.execute(f"DELETE FROM {name} WHERE {keys} IN ({some})", (many,)).rowcount
                if not gone:
                    db.execute(f"DROP TABLE {name}")
                db.execute("PRAGMA secure_delete = ON")
                return gone > 0

            self._in_slices(remove)

    def _begin(self, table: _Table) -> None:
        """Make an empty copy, with indexes, and have it follow the table from now on."""
        new, columns = table.named(_NEW), ", ".join(table.columns)
        values = ", ".join(f"new.{each}" for each in table.columns)
        insert = f"INSERT INTO {new} ({columns}) VALUES ({values});"
        delete = " AND ".join(f"{each} = old.{each}" for each in table.key)
        remove = f"DELETE FROM {new} WHERE {delete};"
        with self._pool.writing() as db:
            db.execute(f"CREATE TABLE {new} {table.sql[table.sql.index('(') :]}")
            for name, sql in _indexes(db, table.name):
                begin = sql[: sql.upper().index("INDEX")]
                # A name belongs to one index, so it changes each time.
                other = name.removesuffix("~") if name.endswith("~") else f"{name}~"
                db.execute(f'{begin}INDEX "{other}" ON {new} {sql[sql.index("(") :]}')
            for what, body in (("INSERT", insert), ("UPDATE", remove + insert), ("DELETE", remove)):
                db.execute(
                    f'CREATE TRIGGER "{table.name}~{what.lower()}" AFTER {what} ON '
                    f"{table.named('')} BEGIN {body} END"
                )

    def _copy(self, table: _Table) -> None:
        last: tuple[object, ...] | None = None
        keys, columns = ", ".join(table.key), ", ".join(table.columns)

        def copy(db: sqlite3.Connection, many: int) -> bool:
            nonlocal last
            after, values = table.is_after(last), last or ()
            rows = f"FROM {table.named('')} WHERE {after}"
            found = db.execute(f"SELECT {keys} {rows} ORDER BY {keys} LIMIT ?", (*values, many))
            upto = found.fetchall()[-1:]
            if upto:
                marks = ", ".join("?" * len(table.key))
                db.execute(
                    f"INSERT INTO {table.named(_NEW)} ({columns}) SELECT {columns} {rows} AND "
                    f"({keys}) <= ({marks}) ORDER BY {keys} ON CONFLICT DO NOTHING",
                    (*values, *upto[0]),
                )
                last = upto[0]
            return bool(upto)

        self._in_slices(copy)

    def _switch(self, table: _Table) -> None:
        """Have the copy take the table's place."""
        with self._pool.writing() as db:
            _drop_triggers(db, table.name)
            if "AUTOINCREMENT" in table.sql.upper():  # no number is given twice
                new = f"{table.name}{_NEW}"
                db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (new,))
                db.execute(
                    "INSERT INTO sqlite_sequence SELECT ?, seq FROM sqlite_sequence WHERE name = ?",
                    (new, table.name),
                )
            db.execute(f"ALTER TABLE {table.named('')} RENAME TO {table.named(_OLD)}")
            db.execute(f"ALTER TABLE {table.named(_NEW)} RENAME TO {table.named('')}")

    def _in_slices(self, step: Callable[[sqlite3.Connection, int], bool]) -> None:
        """Call a step, with how much it takes, in a transaction each, until nothing is left."""
        many, more = _FIRST, True
        while more:
            with self._pool.writing() as db:
                began = time.monotonic()
                more = step(db, many)
            took = time.monotonic() - began
            if took < _SLICE_S / 2:
                many = min(many * 2, _MOST)
            elif took > _SLICE_S * 2:
                many = max(many // 2, 1)
            self._count += 1
            if self._count % _LOG_EVERY == 0:
                self._pool.move_log()
            time.sleep(min(took, _LONGEST_REST_S))  # noqa: TID251 - so long others write


def _free_pages_are_left(db: sqlite3.Connection, many: int) -> bool:
    """Give some free pages back; return whether there are more."""
    (before,) = db.execute("PRAGMA freelist_count").fetchone()
    # `execute` would give back one page alone; a script ends the transaction, and so begins one.
    db.executescript(f"BEGIN IMMEDIATE; PRAGMA incremental_vacuum({many});")
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    return bool(0 < free < before)


def _tables(db: sqlite3.Connection) -> list[_Table]:
    return [each for each in _all_tables(db) if not each.name.startswith("sqlite_")]


def _all_tables(db: sqlite3.Connection) -> list[_Table]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
    return [_table(db, name, sql) for name, sql in db.execute(query).fetchall()]


def _table(db: sqlite3.Connection, name: str, sql: str) -> _Table:
    about = db.execute(f'PRAGMA table_info("{name}")').fetchall()
    columns = [f'"{column}"' for _, column, *_ in about]
    keys = sorted((place, column, kind) for _, column, kind, _, _, place in about if place)
    key = [f'"{column}"' for _, column, _ in keys]
    if "WITHOUT ROWID" not in sql[sql.rindex(")") :].upper() and [k for *_, k in keys] != [
        "INTEGER"
    ]:
        key, columns = ["rowid"], ["rowid", *columns]
    return _Table(name, sql, columns, key)


def _indexes(db: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql NOTNULL"
    )
    return db.execute(query, (table,)).fetchall()


def _drop_triggers(db: sqlite3.Connection, table: str) -> None:
    for what in ("insert", "update", "delete"):
        db.execute(f'DROP TRIGGER IF EXISTS "{table}~{what}"')
