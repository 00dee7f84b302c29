"""Which run or value names which kept value: a value lives as long as something names it.

A value is named by its sha256 as text, or by its 32 bytes in a group of hashes. Any such text that
is the hash of a kept value counts, in any text: at worst a value is kept too long.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from moothall.database import Database
from moothall.journal.opening import Runs
from moothall.journal.store.store import SEQUENCE, Store

_HASH: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_HASH_BYTES: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_GROUP_BYTES: Final = 256 * 32
_BATCH: Final = 500
"""So many entries are read at a time."""
_AT_ONCE: Final = 100
"""So many values one statement names."""
_REST: Final = 2
"""How many times as long others may write then."""
_LOG_EVERY: Final = 20
"""After so many transactions the log is moved into the file."""
_ORPHAN_S: Final = 3600.0


def holder_of(run: int) -> bytes:
    """Return what stands for a run as a holder."""
    return run.to_bytes(8, "big")


class Pace:
    """Has a deletion leave time to others between its transactions."""

    def __init__(self, file: Store) -> None:
        self._file = file
        self._count = 0

    def rest(self, began: float) -> None:
        """Rest after a transaction that began at this time, by the monotonic clock."""
        self._count += 1
        if self._count % _LOG_EVERY == 0:
            self._file.move_log()
        took = min(time.monotonic() - began, 1.0)
        time.sleep(_REST * took)  # noqa: TID251 - so long others write


class Holders:
    """The table `holders`: filled for entries that were written since the last time."""

    def __init__(self, file: Store, runs: Runs) -> None:
        self._file = file
        self._runs = runs
        self._pace = Pace(file)

    def fill(self, numbers: list[int] | None) -> None:
        """Read the entries of these runs that were not read yet, or of all, beside writers."""
        if numbers is None:
            with self._file.reading() as db:
                numbers = [n for (n,) in db.execute("SELECT number FROM runs WHERE unread")]
        while numbers:
            began = time.monotonic()
            with self._file.writing() as db:
                while numbers and time.monotonic() < began + self._file.slice_s:
                    if self._fill(db, numbers[-1], began + self._file.slice_s):
                        numbers.pop()
            self._pace.rest(began)

    def fill_rest(self, db: Database) -> None:
        """Read what was written since `fill`, in a transaction: then nothing is missing."""
        for (number,) in db.execute("SELECT number FROM runs WHERE unread").fetchall():
            self._fill(db, number, None)

    def _fill(self, db: Database, run: int, until: float | None) -> bool:
        """Read entries of a run; return whether all are read."""
        row = db.execute("SELECT last, read_upto FROM runs WHERE number = ?", (run,)).fetchone()
        if row is None:
            return True
        last, upto = row
        while upto < last:
            rows = db.execute(
                f"SELECT {SEQUENCE}, data FROM entries WHERE place > ? AND place < ? "
                "ORDER BY place LIMIT ?",
                (run << 32 | upto, (run + 1) << 32, _BATCH),
            ).fetchall()
            if not rows:
                break  # it is damaged, or its entries are deleted
            upto = rows[-1][0]
            self.add(db, holder_of(run), {hash for _, data in rows for hash in named(data)})
            db.execute("UPDATE runs SET read_upto = ? WHERE number = ?", (upto, run))
            if until is not None and time.monotonic() >= until and upto < last:
                return False
        if not self._runs.is_taken(run):
            # No process opens it in this transaction; one that does later sets it again.
            db.execute("UPDATE runs SET unread = FALSE WHERE number = ?", (run,))
        return True

    def add(self, db: Database, holder: bytes, hashes: Iterable[str]) -> None:
        """Note that a holder names values, if there are such, and what these name."""
        waiting = [(holder, some) for some in _batches(hashes)]
        while waiting:
            holder, some = waiting.pop()
            found = db.execute(f"SELECT hash FROM kept WHERE hash IN {_marks(some)}", some)
            kept = {hash for (hash,) in found}
            values = {h: bytes.fromhex(h) for h in some if h in kept or self._file.files.has(h)}
            if not values:
                continue
            known = _held(db, [*values.values()])
            db.executemany(
                "INSERT INTO holders VALUES (?, ?) ON CONFLICT DO NOTHING",
                [(value, holder) for value in values.values()],
            )
            for hash, value in values.items():
                if value not in known:  # read for the first time
                    row = db.execute("SELECT data FROM kept WHERE hash = ?", (hash,)).fetchone()
                    data = self._file.files.get(hash) if row is None else row[0]
                    waiting += ((value, each) for each in _batches({*named(data)} - {hash}))

    def release(self, db: Database, run: int, until: float) -> tuple[bool, list[str]]:
        """Delete values that only this deleted run names; return whether all, and which files."""
        holder = holder_of(run)
        files: list[str] = []
        deleted = False
        if db.execute("SELECT 1 FROM holders WHERE holder = ?", (holder,)).fetchone():
            self.fill_rest(db)  # by now some other run may name them
        left = True
        while left and time.monotonic() < until:
            query = f"SELECT value FROM holders WHERE holder = ? LIMIT {_AT_ONCE}"
            values = [value for (value,) in db.execute(query, (holder,))]
            left = len(values) == _AT_ONCE
            db.execute(
                f"DELETE FROM holders WHERE holder = ? AND value IN {_marks(values)}",
                (holder, *values),
            )
            held = _held(db, values)
            free = [value for value in values if value not in held]
            if not free:
                continue
            # What they name is named by the run from now on, and deleted in a later round.
            deleted = left = True
            db.execute(
                f"INSERT INTO holders SELECT value, ? FROM holders WHERE holder IN {_marks(free)} "
                "ON CONFLICT DO NOTHING",
                (holder, *free),
            )
            db.execute(f"DELETE FROM holders WHERE holder IN {_marks(free)}", free)
            hashes = [value.hex() for value in free]
            kept = f"FROM kept WHERE hash IN {_marks(hashes)}"
            files += {*hashes} - {hash for (hash,) in db.execute(f"SELECT hash {kept}", hashes)}
            db.execute(f"DELETE {kept}", hashes)
        if deleted:
            db.execute("UPDATE deletions SET values_deleted = values_deleted + 1")
        return not left, files

    def orphans(self, db: Database) -> list[str]:
        """Return files that nothing names, of processes that died before they named them."""
        now = time.time()
        return [
            hash
            for hash, changed in self._file.files.all()
            if now - changed > _ORPHAN_S
            and not db.execute(
                "SELECT 1 FROM holders WHERE value = ?", (bytes.fromhex(hash),)
            ).fetchone()
        ]


def _batches(hashes: Iterable[str]) -> Iterator[list[str]]:
    """Yield different hashes, as many as one statement takes."""
    different = [*set(hashes)]
    return (different[at : at + _AT_ONCE] for at in range(0, len(different), _AT_ONCE))


def _marks(values: Sequence[object]) -> str:
    """Return the places of these values in a statement."""
    return f"({', '.join('?' * len(values)) or 'NULL'})"


def _held(db: Database, values: list[bytes]) -> set[bytes]:
    """Return which of these values something names."""
    rows = db.execute(f"SELECT DISTINCT value FROM holders WHERE value IN {_marks(values)}", values)
    return {value for (value,) in rows}


def named(data: object) -> Iterator[str]:
    """Yield what may be the hash of a value that a text or value names."""
    if isinstance(data, str):
        yield from _HASH.findall(data)
    elif isinstance(data, bytes):
        for found in _HASH_BYTES.findall(data):
            yield found.decode()
        if len(data) <= _GROUP_BYTES and len(data) % 32 == 0:
            yield from (data[at : at + 32].hex() for at in range(0, len(data), 32))
