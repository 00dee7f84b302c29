"""An SQLite file written anew beside its users, in transactions of some milliseconds.

A copy of each table is filled beside it, equal to it by triggers, and takes its place. A process
that dies in between leaves nothing half: the next one begins again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, NamedTuple, Protocol

_NEW: Final = "~new"
_OLD: Final = "~old"
_SLICE_S: Final = 0.02
"""For about so many seconds writers wait for one transaction; then they have as many."""
_LONGEST_REST_S: Final = 1.0
_PAGES_AT_ONCE: Final = 64
"""So many pages are given back before the clock is looked at."""
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

    def check_room(self, db: sqlite3.Connection) -> None:
        """Raise if the disk has no room for a copy."""
        ...


class _RewrittenTable(NamedTuple):
    name: str
    sql: str
    columns: list[str]  # quoted, with the row's number if that has no name
    key: list[str]  # quoted

    def quoted(self, ending: str) -> str:
        return f'"{self.name}{ending}"'

    def is_after(self, key: tuple[object, ...]) -> str:
        """Return the condition for rows after a key; for all, if it is empty."""
        return f"({', '.join(self.key)}) > ({', '.join('?' * len(key))})" if key else "TRUE"


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
            # A copy that fills the disk could not be removed: that, too, is written to the log.
            self._pool.check_room(db)
            tables = _tables(db)
        for table in tables:
            self._begin(table)
            self._copy(table)
            self._switch(table)
            self._clear()
        self.give_back()

    def give_back(self) -> None:
        """Give the free pages back."""
        self._in_slices(_free_some_pages)

    def _clear(self) -> None:
        """Remove the tables that another one has taken the place of, and copies that are not."""
        with self._pool.writing() as db:
            tables = [each for each in _all_tables(db) if each.name.endswith((_NEW, _OLD))]
            for each in tables:
                _drop_triggers(db, each.name.removesuffix(_NEW))
        for table in tables:
            self._in_slices(partial(_remove_rows, table))

    def _begin(self, table: _RewrittenTable) -> None:
        """Make an empty copy, with indexes, and have it follow the table from now on."""
        copy, columns = table.quoted(_NEW), ", ".join(table.columns)
        values = ", ".join(f"new.{each}" for each in table.columns)
        insert = f"INSERT INTO {copy} ({columns}) VALUES ({values});"
        delete = " AND ".join(f"{each} = old.{each}" for each in table.key)
        remove = f"DELETE FROM {copy} WHERE {delete};"
        with self._pool.writing() as db:
            db.execute(f"CREATE TABLE {copy} {table.sql[table.sql.index('(') :]}")
            for name, sql in _indexes(db, table.name):
                begin = sql[: sql.upper().index("INDEX")]
                # A name belongs to one index, so it changes each time.
                new_name = name.removesuffix("~") if name.endswith("~") else f"{name}~"
                db.execute(f'{begin}INDEX "{new_name}" ON {copy} {sql[sql.index("(") :]}')
            for statement, body in (
                ("INSERT", insert),
                ("UPDATE", remove + insert),
                ("DELETE", remove),
            ):
                db.execute(
                    f'CREATE TRIGGER "{table.name}~{statement.lower()}" AFTER {statement} ON '
                    f"{table.quoted('')} BEGIN {body} END"
                )

    def _copy(self, table: _RewrittenTable) -> None:
        last: tuple[object, ...] = ()
        keys, columns = ", ".join(table.key), ", ".join(table.columns)
        marks, width = ", ".join("?" * len(table.columns)), len(table.key)
        insert = (
            f"INSERT INTO {table.quoted(_NEW)} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        )

        def copy(db: sqlite3.Connection, deadline: float) -> bool:
            nonlocal last
            rows = f"FROM {table.quoted('')} WHERE {table.is_after(last)} ORDER BY {keys}"
            for row in db.execute(f"SELECT {keys}, {columns} {rows}", last):
                db.execute(insert, row[width:])
                last = row[:width]
                if time.monotonic() >= deadline:
                    return True
            return False

        self._in_slices(copy)

    def _switch(self, table: _RewrittenTable) -> None:
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
            db.execute(f"ALTER TABLE {table.quoted('')} RENAME TO {table.quoted(_OLD)}")
            db.execute(f"ALTER TABLE {table.quoted(_NEW)} RENAME TO {table.quoted('')}")

    def _in_slices(self, step: Callable[[sqlite3.Connection, float], bool]) -> None:
        """Call a step, with when it has to end, in a transaction each, until nothing is left."""
        has_more = True
        while has_more:
            with self._pool.writing() as db:
                start = time.monotonic()
                has_more = step(db, start + _SLICE_S)
            elapsed = time.monotonic() - start
            self._count += 1
            if self._count % _LOG_EVERY == 0:
                self._pool.move_log()
            time.sleep(min(elapsed, _LONGEST_REST_S))  # noqa: TID251 - so long others write


def _remove_rows(table: _RewrittenTable, db: sqlite3.Connection, deadline: float) -> bool:
    """Remove rows of a table, and at last the table; return whether there is more."""
    keys = ", ".join(table.key)
    delete = f"DELETE FROM {table.quoted('')} WHERE ({keys}) = ({', '.join('?' * len(table.key))})"
    # What is free is given back in the end, so nothing has to be overwritten before.
    db.execute("PRAGMA secure_delete = OFF")
    has_more = True
    while has_more and time.monotonic() < deadline:
        sample = db.execute(f"SELECT {keys} FROM {table.quoted('')} ORDER BY {keys} LIMIT 10")
        db.executemany(delete, rows := sample.fetchall())
        has_more = bool(rows)
    if not has_more:
        db.execute(f"DROP TABLE {table.quoted('')}")
    db.execute("PRAGMA secure_delete = ON")
    return has_more


def _free_some_pages(db: sqlite3.Connection, deadline: float) -> bool:
    """Give free pages back; return whether there are more."""
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    before = free + 1
    while 0 < free < before and time.monotonic() < deadline:
        # `execute` would give back one page alone; a script ends the transaction, and so begins
        # one.
        db.executescript(f"BEGIN IMMEDIATE; PRAGMA incremental_vacuum({_PAGES_AT_ONCE});")
        before = free
        (free,) = db.execute("PRAGMA freelist_count").fetchone()
    return bool(0 < free < before)


def _tables(db: sqlite3.Connection) -> list[_RewrittenTable]:
    return [each for each in _all_tables(db) if not each.name.startswith("sqlite_")]


def _all_tables(db: sqlite3.Connection) -> list[_RewrittenTable]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
    return [_describe_table(db, name, sql) for name, sql in db.execute(query).fetchall()]


def _describe_table(db: sqlite3.Connection, name: str, sql: str) -> _RewrittenTable:
    column_rows = db.execute(f'PRAGMA table_info("{name}")').fetchall()
    columns = [f'"{column}"' for _, column, *_ in column_rows]
    keys = sorted((place, column, kind) for _, column, kind, _, _, place in column_rows if place)
    key = [f'"{column}"' for _, column, _ in keys]
    if "WITHOUT ROWID" not in sql[sql.rindex(")") :].upper() and [k for *_, k in keys] != [
        "INTEGER"
    ]:
        key, columns = ["rowid"], ["rowid", *columns]
    return _RewrittenTable(name, sql, columns, key)


def _indexes(db: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql NOTNULL"
    )
    return db.execute(query, (table,)).fetchall()


def _drop_triggers(db: sqlite3.Connection, table: str) -> None:
    for statement in ("insert", "update", "delete"):
        db.execute(f'DROP TRIGGER IF EXISTS "{table}~{statement}"')
