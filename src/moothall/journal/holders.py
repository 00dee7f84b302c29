"""Who knows what of runs: values of deleted ones are deleted with the last run that names them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Final
from weakref import ref

from moothall.foundation.database import Database
from moothall.foundation.errors import JournalError
from moothall.journal.opening import RunOpener
from moothall.journal.store.holding import (
    BATCH_SIZE,
    batches,
    hashes_in,
    holder_of,
    ids_present,
    named_values,
    note_holder,
    placeholders,
    short_hash,
)
from moothall.journal.store.store import SEQUENCE, Store

_BATCH_ENTRIES: Final = 500
"""So many entries are read at a time."""
_MAX_BYTES: Final = 2**20
_REST_FACTOR: Final = 2
"""How many times as long others may write then."""
_LOG_INTERVAL: Final = 20
"""After so many transactions the log is moved into the file."""
_MAX_REMEMBERED: Final = 1000  # runs of a conversation that are looked for
_ORPHAN_AGE_S: Final = 3600.0
_VALUES_OF_RUN_SQL: Final = "SELECT value FROM holders WHERE holder = ? AND length(holder) = 8"


def increment_deletion_count(db: Database) -> None:
    """Count a deletion of runs or values, so that who knows some looks whether they are there."""
    db.execute("UPDATE deletions SET values_deleted = values_deleted + 1")


class Pace:
    """Has a deletion leave time to others between its transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._count = 0

    def pause(self, start: float) -> None:
        """Rest after a transaction that began at this time, by the monotonic clock."""
        self._count += 1
        if self._count % _LOG_INTERVAL == 0:
            self._store.move_log()
        elapsed = min(time.monotonic() - start, 1.0)
        time.sleep(_REST_FACTOR * elapsed)  # noqa: TID251 - so long others write


class Holders:
    """The table `holders`, to which commits add; forks and imports are read here."""

    def __init__(self, store: Store, runs: RunOpener) -> None:
        self._store = store
        self._runs = runs
        self._pace = Pace(store)

    def read_runs(self, numbers: list[int] | None) -> None:
        """Read the entries of these runs that were not read yet, or of all, beside writers."""
        if numbers is None:
            with self._store.reading() as db:
                numbers = [n for (n,) in db.execute("SELECT number FROM runs WHERE unread")]
        while numbers:
            start = time.monotonic()
            with self._store.writing() as db:
                while numbers and time.monotonic() < start + self._store.slice_s:
                    if self._read_run(db, numbers[-1], start + self._store.slice_s):
                        numbers.pop()
            self._pace.pause(start)

    def read_rest(self, db: Database) -> None:
        """Read what was written since `read_runs`, in a transaction: then nothing is missing."""
        for (number,) in db.execute("SELECT number FROM runs WHERE unread").fetchall():
            self._read_run(db, number, None)

    def _read_run(self, db: Database, run: int, until: float | None) -> bool:
        """Read entries of a run; return whether all are read."""
        row = db.execute("SELECT last, read_upto FROM runs WHERE number = ?", (run,)).fetchone()
        if row is None:
            return True
        last, upto = row
        while upto < last:
            rows = db.execute(
                f"SELECT {SEQUENCE}, data FROM entries WHERE place > ? AND place < ? "
                "ORDER BY place LIMIT ?",
                (run << 32 | upto, (run + 1) << 32, _BATCH_ENTRIES),
            ).fetchall()
            if not rows:
                break  # it is damaged, or its entries are deleted
            upto = rows[-1][0]
            hashes = {hash for _, data in rows for hash in hashes_in(data)}
            note_holder(self._store, db, holder_of(run), hashes)
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
        file_hashes: list[str] = []
        has_deleted = False
        if has_named_values(db, run):
            self.read_rest(db)  # by now some other run may name them
        has_more = True
        while has_more and time.monotonic() < until:
            rows = db.execute(f"{_VALUES_OF_RUN_SQL} LIMIT {BATCH_SIZE}", (holder,)).fetchall()
            has_more = bool(rows)
            values, free_values = self._deletable_batch(db, [value for (value,) in rows], holder)
            db.execute(
                f"DELETE FROM holders WHERE holder = ? AND value IN {placeholders(values)}",
                (holder, *values),
            )
            if not free_values:
                continue
            # What they name is named by the run from now on, and deleted in a later round.
            has_deleted = True
            named_by = [
                (short_hash(name), short_hash(hash))
                for hash, data in free_values.items()
                for name in {*hashes_in(data)} - {hash}
            ]
            db.executemany(
                "INSERT INTO holders SELECT value, ? FROM holders WHERE value = ? AND holder = ? "
                "ON CONFLICT DO NOTHING",
                [(holder, *each) for each in named_by],
            )
            db.executemany("DELETE FROM holders WHERE value = ? AND holder = ?", named_by)
            file_hashes += [hash for hash in free_values if self._store.files.has(hash)]
            db.execute(
                f"DELETE FROM kept WHERE hash IN {placeholders([*free_values])}", [*free_values]
            )
        if has_deleted:
            increment_deletion_count(db)
        return not has_more, file_hashes

    def remove_orphans(self) -> None:
        """Remove files that nothing names, of processes that died before they named them."""
        cutoff = time.time() - _ORPHAN_AGE_S
        hashes = [hash for hash, changed in self._store.files.written_times() if changed < cutoff]
        for batch in batches(hashes):
            with self._store.reading() as db:
                still_unnamed = self._unnamed_hashes(db, batch)
            if still_unnamed:
                with self._store.writing() as db:
                    self.read_rest(db)
                    for hash in self._unnamed_hashes(db, still_unnamed):
                        self._store.files.delete(hash)

    def _unnamed_hashes(self, db: Database, hashes: list[str]) -> list[str]:
        still_named = named_values(db, [short_hash(each) for each in hashes])
        return [each for each in hashes if short_hash(each) not in still_named]

    def _deletable_batch(
        self, db: Database, values: list[bytes], holder: bytes
    ) -> tuple[list[bytes], dict[str, bytes | None]]:
        """Return as many of a run's values as are deleted in a moment, and those it alone names."""
        query = "SELECT hash, data FROM kept WHERE hash >= ? AND hash < ?"
        still_named, files = named_values(db, values, holder), self._store.files
        free_values: dict[str, bytes | None] = {}
        size = 0
        for count, value in enumerate(values, 1):
            if value in still_named:
                continue
            digits = value.hex()
            rows = dict(db.execute(query, (digits, f"{digits}g")).fetchall())
            free_values |= rows or {
                hash: files.get(hash) for hash in files.hashes_with_prefix(digits)
            }
            size += sum(map(len, rows.values()))
            if size >= _MAX_BYTES:
                return values[:count], free_values
        return values, free_values


def has_named_values(db: Database, run: int) -> bool:
    """Return whether a run names a kept value."""
    return db.execute(f"{_VALUES_OF_RUN_SQL} LIMIT 1", (holder_of(run),)).fetchone() is not None


class KnownRuns:
    """The last runs whose words a process remembers, as a journal had them."""

    __slots__ = ("_deletion_count", "_ids", "_store")

    def __init__(self, store: Store) -> None:
        self._store = ref(store)
        self._ids: deque[str] = deque(maxlen=_MAX_REMEMBERED)
        self._deletion_count: int | None = None  # in the file when it last had all of them

    def note(self, store: Store, run_id: str) -> KnownRuns:
        """Add a run of a file; return these runs, or new ones if they are of another file."""
        runs = self if self._store() is store else KnownRuns(store)
        if run_id not in runs._ids:
            runs._ids.append(run_id)
        return runs

    def is_any_deleted(self, other_ids: Iterable[str] = ()) -> bool:
        """Return whether one of these runs, or of others of the file, was deleted."""
        store = self._store()
        if store is None:
            return False
        try:
            with store.reading() as db:
                count = store.deletion_count(db)
                if count != self._deletion_count:
                    ids = {*self._ids, *other_ids}
                    if ids_present(db, ids) < ids:
                        return True
        except JournalError:  # whoever needs the file says so
            return False
        self._deletion_count = count
        return False
