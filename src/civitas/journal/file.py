"""The file of a journal: its tables, and the check that what is read is what was written."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from civitas.errors import DefinitionError, JournalError
from civitas.journal.entry import Entry
from civitas.sqlite import SQLiteFile, SQLitePool

__all__ = ["DURABILITY", "JournalFile"]

APPLICATION: Final = 0x63766A31
"""What the file's header says it is (`cvj1`), so that no other program's database is changed."""

DURABILITY: Final = {"process": "NORMAL", "power": "FULL"}
"""What a journal survives, and SQLite's word for it."""

# Append only, as with every file of ours. `state` is NULL until a run's own agent has ended.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            agent TEXT NOT NULL,
            task TEXT NOT NULL,
            began REAL NOT NULL,
            state TEXT,
            holder TEXT NOT NULL DEFAULT '',
            forked_from TEXT,
            -- What memories know it by.
            key TEXT NOT NULL,
            -- Its last entry and that one's checksum, so that none can be missing at the end.
            last INTEGER NOT NULL DEFAULT 0,
            sum BLOB NOT NULL DEFAULT x''
        )""",
        "CREATE TABLE budgets (name TEXT PRIMARY KEY, account TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE entries (
            run INTEGER NOT NULL REFERENCES runs (number),
            sequence INTEGER NOT NULL,
            path TEXT NOT NULL,
            kind TEXT NOT NULL,
            at REAL NOT NULL,
            data TEXT NOT NULL,
            sum BLOB NOT NULL,
            PRIMARY KEY (run, sequence)
        ) WITHOUT ROWID""",
    ),
)

_INSERT = (
    "INSERT INTO entries (run, sequence, path, kind, at, data, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_SELECT = "SELECT sequence, path, kind, at, data, sum FROM entries WHERE run = ? ORDER BY sequence"
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class JournalFile(SQLitePool[JournalError]):
    """The SQLite file of a journal.

    Each entry of a run has a checksum of itself and of the one before, so that one which was
    changed, or is missing, is noticed.

    Raises:
        DefinitionError: an argument is none of what it may be
        JournalError: the file cannot be used
    """

    def __init__(self, path: str | os.PathLike[str], durability: str, timeout: float) -> None:
        if durability not in DURABILITY:
            raise DefinitionError(
                f"durability= is {' or '.join(map(repr, DURABILITY))}, not {durability!r:.80}"
            )
        file = SQLiteFile(
            path,
            kind="journal",
            maker="Journal",
            application=APPLICATION,
            migrations=MIGRATIONS,
            error=JournalError,
        )
        if file.name.startswith(":memory:"):
            raise DefinitionError("a journal is a file: one in memory would survive nothing")
        settings = (f"synchronous = {DURABILITY[durability]}",)
        super().__init__(
            file,
            timeout,
            "SELECT count(*) FROM runs, entries, budgets WHERE 0",
            settings,
            may_read=True,
        )

    @property
    def path(self) -> str:
        """The file, whatever the working directory becomes."""
        return str(self._file.path)

    def write(
        self,
        db: sqlite3.Connection,
        run: int,
        after: Place,
        entries: Iterable[tuple[str, str, str]],
    ) -> Place:
        """Append entries to a run, each of path, kind and data as JSON text; gives where it ends.

        Raises:
            sqlite3.Error: as with every statement
        """
        sequence, sum = after
        now = time.time()
        rows = []
        for path, kind, data in entries:
            sequence += 1
            sum = _sum(sum, sequence, path, kind, now, data)
            rows.append((run, sequence, path, kind, now, data, sum))
        db.executemany(_INSERT, rows)
        db.execute("UPDATE runs SET last = ?, sum = ? WHERE number = ?", (sequence, sum, run))
        return sequence, sum

    def read(self, db: sqlite3.Connection, run: int, id: str) -> Iterator[tuple[Entry, bytes]]:
        """The entries of a run, each with its checksum.

        Raises:
            JournalError: one is damaged, or missing
            sqlite3.Error: as with every statement
        """
        last, sum = 0, b""
        for sequence, path, kind, at, data, stored in db.execute(_SELECT, (run,)):
            if sequence != last + 1:
                raise self.damaged(f"entry {last + 1} of run {id!r} is missing")
            last = sequence
            try:
                sum = _sum(sum, sequence, path, kind, at, data)
                if sum != stored:
                    raise ValueError("its checksum is wrong")
                entry = Entry(sequence, path, kind, at, json.loads(data))
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                reason = f"entry {sequence} of run {id!r} is not what was written: {error}"
                raise self.damaged(reason) from error
            yield entry, sum
        end = db.execute("SELECT last, sum FROM runs WHERE number = ?", (run,)).fetchone()
        if end != (last, sum):
            raise self.damaged(f"entry {last + 1} of run {id!r} is missing, or one is too many")


Place = tuple[int, bytes]
"""Where a run ends: the number of its last entry, and that one's checksum."""


def as_text(data: dict[str, Any]) -> str:
    """JSON data as it is stored: what UTF-8 cannot carry is escaped."""
    text = _JSON.encode(data)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _sum(before: bytes, *parts: Any) -> bytes:
    text = "\0".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=8, key=before).digest()
