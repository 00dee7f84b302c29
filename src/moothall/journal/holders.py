"""Values of deleted runs: each is deleted with the last run that names it."""

from __future__ import annotations

import time
from typing import Final

from moothall.foundation.database import Database
from moothall.journal.opening import Runs
from moothall.journal.store.holding import (
    AT_ONCE,
    batches,
    hashes_in,
    hold,
    holder_of,
    marks,
    named_values,
)
from moothall.journal.store.store import SEQUENCE, Store

_BATCH: Final = 500
"""So many entries are read at a time."""
_MOST_BYTES: Final = 2**20
_REST_FACTOR: Final = 2
"""How many times as long others may write then."""
_LOG_EVERY: Final = 20
"""After so many transactions the log is moved into the file."""
_ORPHAN_S: Final = 3600.0


def count_deletion(db: Database) -> None:
    """Count a deletion of runs or values, so that who knows some looks whether they are there."""
    db.execute("UPDATE deletions SET values_deleted = values_deleted + 1")


class Pace:
    """Has a deletion leave time to others between its transactions."""

    def __init__(self, file: Store) -> None:
        self._file = file
        self._count = 0

    def pause(self, start: float) -> None:
        """Rest after a transaction that began at this time, by the monotonic clock."""
        self._count += 1
        if self._count % _LOG_EVERY == 0:
            self._file.move_log()
        took = min(time.monotonic() - start, 1.0)
        time.sleep(_REST_FACTOR * took)  # noqa: TID251 - so long others write


class Holders:
    """The table `holders`, to which commits add; forks, imports and old runs are read here."""

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
            start = time.monotonic()
            with self._file.writing() as db:
                while numbers and time.monotonic() < start + self._file.slice_s:
                    if self._fill(db, numbers[-1], start + self._file.slice_s):
                        numbers.pop()
            self._pace.pause(start)

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
            names = {hash for _, data in rows for hash in hashes_in(data)}
            hold(self._file, db, holder_of(run), names)
            db.execute("UPDATE runs SET read_upto = ? WHERE number = ?", (upto, run))
            if until is not None and time.monotonic() >= until and upto < last:
                return False
        if not self._runs.is_taken(run):
            # No process opens it in this transaction; one that does later sets it again.
            db.execute("UPDATE runs SET unread = FALSE WHERE number = ?", (run,))
        return True

    def release(self, db: Database, run: int, until: float) -> tuple[bool, list[str]]:
        """Delete values that only this deleted run names; return whether all, and which files."""
        holder = holder_of(run)
        files: list[str] = []
        deleted = False
        if db.execute("SELECT 1 FROM holders WHERE holder = ?", (holder,)).fetchone():
            self.fill_rest(db)  # by now some other run may name them
        has_more = True
        while has_more and time.monotonic() < until:
            values = _batch_of(db, holder)
            has_more = bool(values)
            db.execute(
                f"DELETE FROM holders WHERE holder = ? AND value IN {marks(values)}",
                (holder, *values),
            )
            still_named = named_values(db, values)
            free = [value for value in values if value not in still_named]
            if not free:
                continue
            # What they name is named by the run from now on, and deleted in a later round.
            deleted = True
            db.execute(
                f"INSERT INTO holders SELECT value, ? FROM holders WHERE holder IN {marks(free)} "
                "ON CONFLICT DO NOTHING",
                (holder, *free),
            )
            db.execute(f"DELETE FROM holders WHERE holder IN {marks(free)}", free)
            hashes = [value.hex() for value in free]
            condition = f"FROM kept WHERE hash IN {marks(hashes)}"
            files += {*hashes} - {
                hash for (hash,) in db.execute(f"SELECT hash {condition}", hashes)
            }
            db.execute(f"DELETE {condition}", hashes)
        if deleted:
            count_deletion(db)
        return not has_more, files

    def remove_orphans(self) -> None:
        """Remove files that nothing names, of processes that died before they named them."""
        old = time.time() - _ORPHAN_S
        hashes = [hash for hash, changed in self._file.files.written_times() if changed < old]
        for batch in batches(hashes):
            with self._file.reading() as db:
                still_unnamed = self._unnamed(db, batch)
            if still_unnamed:
                with self._file.writing() as db:
                    self.fill_rest(db)
                    for hash in self._unnamed(db, still_unnamed):
                        self._file.files.delete(hash)

    def _unnamed(self, db: Database, hashes: list[str]) -> list[str]:
        still_named = named_values(db, [bytes.fromhex(each) for each in hashes])
        return [each for each in hashes if bytes.fromhex(each) not in still_named]


def _batch_of(db: Database, holder: bytes) -> list[bytes]:
    """Return values that a holder names: as many as are deleted in a moment."""
    query = f"SELECT value FROM holders WHERE holder = ? LIMIT {AT_ONCE}"
    values = [value for (value,) in db.execute(query, (holder,))]
    hashes, size = [value.hex() for value in values], 0
    query = f"SELECT hash, length(data) FROM kept WHERE hash IN {marks(hashes)}"
    sizes = dict(db.execute(query, hashes))
    for count, hash in enumerate(hashes, 1):
        size += sizes.get(hash, 0)
        if size >= _MOST_BYTES:
            return values[:count]
    return values
