"""What a journal's store keeps and checks, whatever its database: values, entries, checksums."""

from __future__ import annotations

import json
import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager as AsyncManager
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from moothall.foundation.database import CHANGES, Database, Lock
from moothall.foundation.errors import ConfigError, JournalError, NoSuchRun
from moothall.foundation.text import escaped
from moothall.journal.entry import Entry, RunDamaged
from moothall.journal.stop_reason import OPEN_STATES
from moothall.journal.store.entry_values import (
    MARK_JSON,
    MAX_TEXT_CHARS,
    ValueFiles,
    extract_texts,
    hash_of,
    restore_texts,
    stored_json,
)
from moothall.journal.store.leases import Leases
from moothall.journal.store.shapes import EntryChecker
from moothall.journal.tally import SUM_COLUMNS, Tally, search_text

logger: logging.Logger = logging.getLogger("moothall.journal")

_INSERT_ENTRY = "INSERT INTO entries (place, path, kind, at, data, sum) VALUES (?, ?, ?, ?, ?, ?)"
_UPDATE_RUN = (
    "UPDATE runs SET last = ?, sum = ?, changed = ?, seconds = seconds + ?, waiting = ?, "
    f"{', '.join(f'{name} = {name} + ?' for name in SUM_COLUMNS)}, state = {{}} WHERE number = ?"
)
_WORKED_ON = _UPDATE_RUN.format("NULL")
_IN_DOUBT = _UPDATE_RUN.format("?")
_AT_END = _UPDATE_RUN.format("?, open = FALSE")
SEQUENCE: Final = "place & 4294967295"
"""The number of an entry in its run; the upper half of its place is the number of the run."""
_SELECT_ENTRIES = (
    f"SELECT {SEQUENCE}, path, kind, at, data, sum FROM entries WHERE place > ? AND place < ? "
    "ORDER BY place LIMIT ?"
)
_SET_TEXT: Final = (
    "INSERT INTO texts (run, text) VALUES (?, ?) "
    "ON CONFLICT (run) DO UPDATE SET text = excluded.text"
)


class WriteUncertain(JournalError):
    """The connection to the server was lost, so it is not known whether a commit took effect."""


class Store(ABC):
    """The store of a journal.

    An entry's checksum is of itself and of the one before: a changed or missing one is noticed.
    """

    name: str
    """Its file or server as an error names it: never with a password."""
    damaged: Callable[[str], JournalError]
    files: ValueFiles = ValueFiles()
    damaged_runs: set[str]
    """The ids of damaged runs that the log has named."""
    commits_wait: bool = False
    """Whether a commit waits for a disk or a network, so that a loop has a thread make it."""
    slice_s: float = 0.005
    """For about so many seconds writers wait for one transaction of a deletion."""
    recheck_s: float
    """Seconds between two checks whether another process has written or died."""
    attribute_sql: str  # the text at a path of a run's attributes, in the database's own words
    last_run_sql: str  # the highest number that a run has had

    @property
    @abstractmethod
    def identity(self) -> object:
        """Return what is equal for every name of this store, and for no other store."""

    # -- what each database does in its own way ----------------------------------------------------

    @property
    def path(self) -> str:
        """The file or server, as a command can open it from any folder; without a password."""
        return self.name

    @abstractmethod
    def check(self) -> None:
        """Raise in a forked child, or if the store cannot be written any more."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Database]:
        """Yield a connection that sees one state of the store, whatever is written meanwhile."""

    @abstractmethod
    def writing(self, wait: bool = True, lock: Lock = CHANGES) -> AbstractContextManager[Database]:
        """Yield a connection in a transaction: committed at the body's end, else rolled back.

        Without `wait`, BlockingIOError if this process writes to it already.
        """

    @abstractmethod
    def leases(self) -> Leases:
        """Return what gives each run one writer."""

    def empty_log(self, seconds: float = 5.0) -> bool:
        """Remove deleted rows from a log; return whether that was possible."""
        return True

    def move_log(self) -> bool:
        """Move the log into the file, so that no later writer spends time on it; do not wait."""
        return True

    def make_room(self) -> None:
        """Make room on the disk for a deletion."""
        return  # a server manages its own

    @abstractmethod
    def after_deletion(self, is_idle: bool) -> bool:
        """Tidy up after a deletion; return whether no copy of what was deleted is left.

        `is_idle`: nobody works on a run, so that nobody has to wait.
        """

    @abstractmethod
    def rewrite(self) -> bool:
        """Write everything anew, without what was deleted; return whether nothing is left."""

    @abstractmethod
    def copy_to(self, path: Path) -> None:
        """Write what the journal has at this moment to a file, which is empty."""

    @abstractmethod
    def size(self) -> int:
        """Return how many bytes it takes."""

    def faults(self) -> list[str]:
        """Return what the database itself finds to be damaged."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Close its connections."""

    def check_lease(self, db: Database, run: int, id: str, end: RunEnd) -> None:
        """Raise if this process has lost the lease of a run that it has written up to a place."""
        return  # a living process cannot lose a lease of a file

    def notify_followers(self, db: Database, runs: Iterable[int]) -> None:
        """Notify the followers of these runs, in the transaction that writes them."""
        return  # a follower of a file looks itself

    def watching_commits(self, run: int, notify: Callable[[], None]) -> AsyncManager[object]:
        """Call a function, from any thread, after each commit of another process to a run."""
        return nullcontext()

    # -- runs --------------------------------------------------------------------------------------

    def run_number(self, db: Database, run_id: str) -> int:
        """Return the number of a run in the tables; raise NoSuchRun if there is no such run."""
        if not isinstance(run_id, str):
            raise ConfigError(f"the id of a run must be a text, got {run_id!r:.80}")
        try:
            # An id that is being deleted is not printable, so nobody asks for it by chance.
            row = db.execute(
                "SELECT number FROM runs WHERE id = ? AND NOT deleted", (run_id,)
            ).fetchone()
        except ValueError:  # a lone surrogate or a NUL, which no id has
            row = None
        if row is not None:
            return int(row[0])
        last = db.execute(
            "SELECT id FROM runs WHERE NOT deleted ORDER BY number DESC LIMIT 5"
        ).fetchall()
        last_ids = ", ".join(repr(id) for (id,) in last)
        raise NoSuchRun(
            f"journal {self.name!r} has no run {run_id!r}; "
            + (f"its last ones are {last_ids}" if last_ids else "it has none at all")
        )

    # -- large values ------------------------------------------------------------------------------

    def encode_data(self, data: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
        """Return the data of an entry as it is stored, and its large values by their hashes."""
        text = stored_json(data)
        if len(text) <= MAX_TEXT_CHARS and MARK_JSON not in text:
            return text, {}
        values: dict[str, bytes] = {}

        def keep_value(value: bytes) -> str:
            hash = self.keep_value(value)
            values[hash] = value
            return hash

        return stored_json(extract_texts(data, keep_value)), values

    def keep_value(self, data: bytes) -> str:
        """Return the hash of a value to `insert_values`; a very large one is written to a file."""
        hash = hash_of(data)
        # Now, in no transaction: no writer waits for a large file.
        if self._is_for_file(data):
            self._put_value(hash, data)
        return hash

    def _is_for_file(self, data: bytes) -> bool:
        return self.files.min_bytes is not None and len(data) >= self.files.min_bytes

    def _put_value(self, hash: str, data: bytes) -> None:
        try:
            self.files.put(hash, data)
        except OSError as error:
            reason = f"a value of {len(data)} bytes cannot be written ({error.strerror})"
            raise JournalError(self.name, f"{reason}: make room, or give it to another") from error

    def insert_values(self, db: Database, values: dict[str, bytes]) -> None:
        """Store values, unless they are stored already."""
        rows = []
        for hash, data in values.items():
            if self._is_for_file(data):
                self._put_value(hash, data)  # again, if it was deleted since `keep_value`
            else:
                rows.append((hash, data))
        # In one order, so that no two transactions wait for each other.
        db.executemany("INSERT INTO kept VALUES (?, ?) ON CONFLICT DO NOTHING", sorted(rows))

    def deletion_count(self, db: Database) -> int:
        """Return how often runs or values were deleted from the journal."""
        (count,) = db.execute("SELECT values_deleted FROM deletions").fetchone()
        return int(count)

    def read_value(self, hash: str, db: Database | None = None) -> bytes:
        """Return a value by its hash; JournalError if it is missing or damaged."""
        if db is None:
            with self.reading() as db:
                return self.read_value(hash, db)
        row = db.execute("SELECT data FROM kept WHERE hash = ?", (hash,)).fetchone()
        try:
            data: bytes | None = self.files.get(hash) if row is None else bytes(row[0])
        except (OSError, TypeError) as error:
            raise self._run_damaged(f"the value {hash} cannot be read: {error}") from error
        if data is None or hash_of(data) != hash:
            where = self.files.location if row is None else ""
            raise self._run_damaged(f"the value {hash}{where} is missing or not what was written")
        return data

    def _run_damaged(self, problem: str) -> RunDamaged:
        return RunDamaged(self.path, self.damaged(problem).reason)

    def has_value(self, hash: str, db: Database) -> bool:
        """Return whether there is a value of this hash."""
        row = db.execute("SELECT 1 FROM kept WHERE hash = ?", (hash,)).fetchone()
        return row is not None or self.files.has(hash)

    # -- entries -----------------------------------------------------------------------------------

    def write_entries(
        self,
        db: Database,
        run: int,
        end: RunEnd,
        entries: Iterable[tuple[str, str, str]],
        state: str | None,
        work: RunWork,
        times: Iterable[float] | None = None,
    ) -> RunEnd:
        """Append entries, each of path, kind and data as JSON text; return where the run ends."""
        sequence, checksum = end
        now = time.time()
        rows, run_start, formatted_at, time_text = [], run << 32, 0.0, ""
        for (path, kind, data), at in zip(entries, times or repeat(now), strict=False):
            sequence += 1
            if at != formatted_at:  # mostly equal: to format a float takes longer than all else
                formatted_at, time_text = at, str(at)
            checksum = _checksum(checksum, sequence, path, kind, time_text, data)
            # sqlite3 looks for an adapter of each bytes and None, and of no bytearray.
            rows.append((run_start | sequence, path, kind, at, data, bytearray(checksum)))
        db.executemany(_INSERT_ENTRY, rows)
        tally, seconds, waiting = work
        values = (sequence, bytearray(checksum), now, seconds, waiting, *tally.sums())
        if state is None:
            db.execute(_WORKED_ON, (*values, run))
        else:
            db.execute(_IN_DOUBT if state in OPEN_STATES else _AT_END, (*values, state, run))
        if tally.reply is not None:
            (task,) = self._run_columns(db, run, "task")
            self.index_text(db, run, search_text(task, tally.reply))
        return sequence, checksum

    def index_text(self, db: Database, run: int, text: str) -> None:
        """Set the text in which a search for runs looks."""
        db.execute(_SET_TEXT, (run, text))

    def read_end(self, db: Database, run: int) -> RunEnd:
        """Return where a run ends."""
        last, checksum = self._run_columns(db, run, "last, sum")
        return last, bytes(checksum)

    def _run_columns(self, db: Database, run: int, columns: str) -> Any:
        row = db.execute(f"SELECT {columns} FROM runs WHERE number = ?", (run,)).fetchone()
        if row is None:
            raise JournalError(
                self.name,
                "a run that this program works on is not in it any more: it was replaced by an "
                "older copy, such as a standby without the last commits; start the program again",
            )
        return row

    def end_after(self, end: RunEnd, path: str, kind: str, data: str, at: float) -> RunEnd:
        """Return where a run ends after another entry, as `write_entries` counts."""
        return end[0] + 1, _checksum(end[1], end[0] + 1, path, kind, str(at), data)

    @contextmanager
    def skipping_damaged(self, run_id: str) -> Iterator[None]:
        """Leave out a run that is damaged: it hides no other, and the log has it once."""
        try:
            yield
        except RunDamaged as error:
            if run_id not in self.damaged_runs:
                self.damaged_runs.add(run_id)
                logger.error("run %r is left out; delete it, or restore a copy: %s", run_id, error)

    def data_at(self, db: Database, place: int) -> dict[str, Any]:
        """Return the data of the entry at a place; empty if there is none."""
        row = db.execute("SELECT data FROM entries WHERE place = ?", (place,)).fetchone()
        try:
            data: dict[str, Any] = {} if row is None else json.loads(row[0])
            if row is not None and MARK_JSON in row[0]:
                data = restore_texts(data, lambda hash: self.read_value(hash, db))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._run_damaged(f"an entry is not what was written: {error}") from error
        return data

    def entries_of(self, run_id: str, after: int = 0, most: int | None = None) -> list[Entry]:
        """Return entries of a run, as `read_entries` yields them; NoSuchRun if there is none."""
        with self.reading() as db:
            return [*self.read_entries(db, self.run_number(db, run_id), run_id, after, most)]

    def read_entries(
        self, db: Database, run: int, id: str, after: int = 0, most: int | None = None
    ) -> Iterator[Entry]:
        """Yield the entries of a run with a higher sequence number, at most `most` of them."""
        end = self._run_columns(db, run, "last, sum")
        last, checksum = 0, b""
        if 0 < after <= end[0]:
            row = db.execute(
                f"SELECT {SEQUENCE}, sum FROM entries WHERE place = ?", (run << 32 | after,)
            ).fetchone()
            last, checksum = row or (0, b"")
        elif after > 0:
            return
        shapes = EntryChecker()
        limit = sys.maxsize if most is None else min(most, sys.maxsize)
        rows = db.execute(_SELECT_ENTRIES, (run << 32 | last, (run + 1) << 32, limit))
        for sequence, path, kind, at, data, stored_checksum in rows:
            if sequence != last + 1:
                raise self._run_damaged(f"entry {last + 1} of run {id!r} is missing")
            last = sequence
            try:
                checksum = _checksum(checksum, sequence, path, kind, str(at), data)
                if checksum != stored_checksum:
                    raise ValueError("its checksum is wrong")
                value = json.loads(data)
                if MARK_JSON in data:
                    value = restore_texts(value, lambda hash: self.read_value(hash, db))
                fault = shapes.fault(path, kind, at, value)
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                reason = f"entry {sequence} of run {id!r} is not what was written: {error}"
                raise self._run_damaged(reason) from error
            if fault:
                raise RunDamaged(
                    self.path,
                    f"entry {sequence} ({escaped(str(kind))}) of run {id!r} is not one that this "
                    f"moothall writes: {fault}; read it with the moothall that wrote it",
                )
            yield Entry(sequence, path, kind, at, value)
        if end != (last, checksum) and (most is None or last < min(after + most, end[0])):
            raise self._run_damaged(
                f"entry {last + 1} of run {id!r} is missing, or one is too many"
            )


RunWork = tuple[Tally, float, int]
"""What entries add to a run: what they spent, seconds of work, and how many of its calls wait."""
RunEnd = tuple[int, bytes]
"""Where a run ends: the number of its last entry, and the checksum of that entry."""


def _checksum(earlier_sum: bytes, sequence: int, path: str, kind: str, at: str, data: str) -> bytes:
    text = f"{sequence}\0{path}\0{kind}\0{at}\0{data}"
    return blake2b(text.encode(), digest_size=8, key=earlier_sum).digest()
