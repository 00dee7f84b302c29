"""Runs that this process works on, and the commits: runs that wait for one at a time share it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, TypeAlias

from moothall.foundation.database import RUNS, Database
from moothall.foundation.errors import JournalError, TooManyThreads
from moothall.foundation.threads import WORKERS, guard, to_its_end
from moothall.journal.doubt import calls_below
from moothall.journal.entry import Entry
from moothall.journal.stop_reason import FINAL_REASONS, OPEN_STATES, REASONS
from moothall.journal.store.holding import hashes_in, holder_of, note_holder
from moothall.journal.store.run_work import RunWork
from moothall.journal.store.store import RunEnd, Store, WriteUncertain
from moothall.journal.store.wait_rows import (
    WAIT_ENTRY_KINDS,
    WaitEntry,
    WaitOutcome,
    end_rows,
    write_rows,
)
from moothall.journal.tally import COUNTED_KINDS, Tally

ReusedValues: TypeAlias = tuple[int | None, Callable[[], dict[str, bytes]]]
"""How many deletions were known when values were kept, and what makes the values again."""

_RESUMABLE_STATES: Final = frozenset(REASONS) - FINAL_REASONS
"""The states of runs that the next call resumes."""

_MAX_TRIES: Final = 5
"""So often a commit is made again after the connection to a server was lost."""
_GET_NUMBER: Final = attrgetter("number")


@dataclass(slots=True, eq=False)
class RunBatch:
    """What is to be written of a run."""

    entries: list[tuple[str, str, str]]
    values: dict[str, bytes]
    reused_values: list[ReusedValues]
    state: str | None
    tally: Tally
    waiting_call_count: int
    waits: list[WaitEntry]


@dataclass(slots=True, eq=False, weakref_slot=True)
class OpenRun:
    """A run that this process works on."""

    _commits: Commits
    release_lease: Callable[[int], None]  # releases its lease
    number: int  # in the file
    id: str
    key: str  # in memories
    end: RunEnd  # where it ends
    past_entries: dict[str, list[Entry]]  # the entries from before it was opened, by part
    state: str | None = None  # to be written with the next commit; None while it is worked on
    write_error: BaseException | None = None  # why a write failed; nothing more is written after it
    entry_count: int = 0  # how many entries were noted since it was opened
    written_count: int = 0  # how many of these are in the file
    waiting_call_count: int = 0  # how many of its calls wait for a person's permission
    deletion_count: int | None = None  # of values, which the file had had at the last commit
    cancelled_questions: list[str] = field(default_factory=list)  # asked as it was cancelled
    resumes_later: bool = False  # whether it goes on if its task is cancelled, as after a kill
    work: RunWork = field(default_factory=RunWork)
    has_waits: bool = False  # whether it has rows of what it waits for
    has_workers: bool = False  # whether its thread has to hear of runs in the background
    waiting_runs: list[tuple[str, int]] = field(default_factory=list)
    """The other runs of its thread that wait: the id of each, and its last entry."""
    standing_decisions: set[str] = field(default_factory=set)  # of people, for the rest of it
    is_open: bool = True  # in the file: whether it is listed as worked on or cut off
    open_calls: set[tuple[str, str]] = field(default_factory=set)  # in doubt if the process ends
    _lock: threading.RLock = field(default_factory=guard)
    _entries: list[tuple[str, str, str]] = field(default_factory=list)
    _values: dict[str, bytes] = field(default_factory=dict)
    _reused_values: list[ReusedValues] = field(default_factory=list)
    _waits: list[WaitEntry] = field(default_factory=list)
    # They are written with the entry that names them: values that nothing names may be deleted.
    _unnamed_values: dict[str, bytes] = field(default_factory=dict)
    _unnamed_reused_values: list[ReusedValues] = field(default_factory=list)
    _tally: Tally = field(default_factory=Tally)
    work_start: float = field(default_factory=time.time)  # of the work that is not counted yet
    _written_call_count: int = 0  # of `waiting_call_count`, what is in the file
    _last_write: concurrent.futures.Future[None] | None = None  # a write that nobody awaits

    @property
    def file(self) -> Store:
        """The journal's file."""
        return self._commits.file

    def note(self, path: str, kind: str, data: dict[str, Any]) -> None:
        """Add an entry to the next commit."""
        text, values = self._commits.file.encode_data(data)
        with self._lock:
            if kind in WAIT_ENTRY_KINDS or "told_keys" in data:
                self._waits.append(WaitEntry(len(self._entries), path, kind, data))
                self.has_waits = True
            self._entries.append((path, kind, text))
            if kind in COUNTED_KINDS or (kind == "state" and data.get("state", {}).get("faults")):
                self._tally.count(path, kind, data)
            if kind == "started":
                if self.cancelled_questions:
                    self.cancelled_questions.clear()  # a call was interrupted, and the run went on
                if data.get("asks"):
                    self.open_calls.add((path, str(data.get("key"))))
            elif self.open_calls and kind in ("ended", "failed", "decided", "waits"):
                self.open_calls.discard(call := (path, str(data.get("key"))))
                if self.open_calls and kind == "ended":
                    self.open_calls -= {*calls_below(*call, self.open_calls)}
            if values:
                self._values.update(values)
            if self._unnamed_values or self._unnamed_reused_values:
                self._values.update(self._unnamed_values)
                self._reused_values += self._unnamed_reused_values
                self._unnamed_values, self._unnamed_reused_values = {}, []
            self.entry_count += 1

    def keep_value(self, data: bytes) -> str:
        """Store a value with the next entry; return its hash."""
        hash = self._commits.file.keep_value(data)
        with self._lock:
            self._unnamed_values[hash] = data
        return hash

    def reuse_values(self, values: ReusedValues) -> None:
        """Keep values of earlier commits, which the next entry names: made again if deleted since.

        Their count of deletions is that of those commits; None if nothing was kept before.
        """
        with self._lock:
            self._unnamed_reused_values.append(values)

    def read_value(self, hash: str) -> bytes:
        """Return a stored value."""
        with self._lock:
            value = self._values.get(hash, self._unnamed_values.get(hash))
        return self.file.read_value(hash) if value is None else value

    def find_outcome(self, key: str, path: str, step: str) -> WaitOutcome | bool:
        """Return what came of a call's wait, by its row in the file; else whether it is asked."""
        with self.file.reading() as db:
            row = db.execute(
                "SELECT value, decided_by, answered, until, taken, sources FROM waits "
                "WHERE run = ? AND key = ? AND path = ? AND step = ?",
                (self.number, key, path, step),
            ).fetchone()
        if row is not None and row[0] is not None:
            sources = () if row[5] is None else tuple(json.loads(row[5]))
            return WaitOutcome(json.loads(row[0]), row[1], row[2], sources=sources)
        if row is not None and row[3] is not None and time.time() >= row[3]:
            return WaitOutcome(None, at=row[3], expired=True)
        return row is not None and not row[4]

    async def commit(self, upto: int | None = None) -> None:
        """Write what was noted, at least the first `upto` entries. If cancelled, still wait."""
        if self._has_to_write(upto):
            await self._commits.commit(self)
            if self.work.is_asked:  # a loop that never waits takes up no request otherwise
                await asyncio.sleep(0)

    def commit_now(self, wait: bool = True) -> None:
        """Write what was noted, where nothing can be awaited.

        Without `wait` a worker thread writes it if the file is being written, perhaps by this very
        thread, in which the garbage collector has closed a coroutine.
        """
        if not self._has_to_write(None):
            return
        try:
            self._commits.write([self], wait)
        except BlockingIOError:
            self._last_write = self._commits.enqueue(self)
            return
        if self.write_error is not None:
            raise self.write_error

    def _has_to_write(self, upto: int | None) -> bool:
        with self._lock:
            if self.write_error is not None:
                raise self.write_error
            if self.written_count < (self.entry_count if upto is None else upto):
                return True
            return upto is None and self._written_call_count != self.waiting_call_count

    def add_waiting_calls(self, count: int) -> None:
        """Count calls that wait for a person; written with the next commit."""
        with self._lock:
            self.waiting_call_count += count

    def take_batch(self) -> RunBatch | None:
        """Remove and return the noted entries, with their values, and the state."""
        with self._lock:
            if self.write_error is not None:
                raise self.write_error
            entries, values, tally = self._entries, self._values, self._tally
            if not entries and self._written_call_count == self.waiting_call_count:
                return None
            waits, self._waits = self._waits, []
            reused_values, self._reused_values = self._reused_values, []
            self._entries, self._values, self._tally = [], {}, Tally()
            # While it is worked on, the file has the state that it is in if this process dies. A
            # run that was cancelled during an action is in doubt as well.
            state = self.state
            if self.open_calls and (state is None or state in _RESUMABLE_STATES):
                state = "in_doubt"
            count = self.waiting_call_count
            return RunBatch(entries, values, reused_values, state, tally, count, waits)

    def mark_written(self, batch: RunBatch, end: RunEnd, at: float) -> None:
        """Count entries that are now in the file, which ends at a place."""
        with self._lock:
            self.written_count += len(batch.entries)
            self._written_call_count = batch.waiting_call_count
            self.end, self.work_start = end, at
            self.is_open = batch.state in OPEN_STATES

    def refuse_writes(self, failure: BaseException) -> None:
        """Write nothing more after a failed write: later entries need the ones before them."""
        with self._lock:
            self.write_error = failure

    def close(self) -> None:
        """Release the lease, once."""
        with self._lock:
            if self.work.is_over:
                return
            self.work.is_over = True
        if self._last_write is None:
            self.release_lease(self.number)
        else:
            # Not before: the next process to get the lease would read the run without them.
            self._last_write.add_done_callback(lambda _: self.release_lease(self.number))


WrittenBatches: TypeAlias = dict[OpenRun, tuple[RunBatch, RunEnd]]
"""What was written of runs, and where they end then."""


class Commits:
    """Writes what runs of this process have noted.

    Entries are taken from a run after the transaction has begun. So they are written in the order
    in which they were noted, whichever part of the run commits first, on whichever loop.
    """

    def __init__(self, file: Store) -> None:
        self.file = file
        self.listeners: set[Callable[[], None]] = set()  # called after each commit, by its thread
        self._commits_wait = file.commits_wait
        self._write_lock = guard(threading.Lock())
        self._lock = guard()  # for what follows
        self._queue: list[tuple[OpenRun, concurrent.futures.Future[None]]] = []
        self._is_draining = False

    async def commit(self, run: OpenRun) -> None:
        """Write what a run has noted. If cancelled, still wait until it is written."""
        if not self._commits_wait:
            try:
                self.write([run], wait=False)
            except BlockingIOError:
                pass  # another one writes: a loop must not block on it
            else:
                if run.write_error is not None:
                    raise run.write_error
                return
        await to_its_end(asyncio.wrap_future(self.enqueue(run)))

    def enqueue(self, run: OpenRun) -> concurrent.futures.Future[None]:
        """Have a worker thread write what a run has noted; return a future of that."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._lock:
            self._queue.append((run, future))
            starts_drain, self._is_draining = not self._is_draining, True
        if starts_drain:
            try:
                WORKERS.submit(self._drain)
            except TooManyThreads:
                self._drain()  # else nothing would ever be written
        return future

    def _drain(self) -> None:
        """Write for all waiting runs, those that have come meanwhile in one transaction."""
        while True:
            with self._lock:
                queue, self._queue = self._queue, []
                if not queue:
                    self._is_draining = False
                    return
            with suppress(BaseException):  # each of these runs is broken by it
                runs = dict.fromkeys(run for run, _ in queue if run.write_error is None)
                self.write(list(runs), wait=True)
            for run, future in queue:
                if run.write_error is None:
                    future.set_result(None)
                else:
                    future.set_exception(run.write_error)

    def write(self, runs: Sequence[OpenRun], wait: bool) -> None:
        """Write what runs have noted, in one transaction."""
        # Held until the new places are known: the next entries are written after them.
        if not self._write_lock.acquire(blocking=wait):
            raise BlockingIOError(f"{self.file.name} is being written")
        now = time.time()
        try:
            batches = self._write_batches(runs, wait, now)
            for run in batches:
                run.mark_written(*batches[run], now)
        except BlockingIOError:
            raise  # it is still to be written
        except BaseException as error:
            for run in runs:
                run.refuse_writes(error)
            raise
        finally:
            self._write_lock.release()
        for listener in list(self.listeners):
            listener()

    def _write_batches(self, runs: Sequence[OpenRun], wait: bool, now: float) -> WrittenBatches:
        """Write what runs have noted; return what that was.

        If the connection to a server is lost meanwhile, look whether it was written; if not, write
        it again.
        """
        batches: dict[OpenRun, RunBatch] = {}
        written_batches: WrittenBatches = {}
        for tries_left in reversed(range(_MAX_TRIES)):
            try:
                # Once taken they must be written, also on a loop: after a lost connection it waits.
                with self.file.writing(wait or bool(batches), RUNS) as db:
                    if not (written_batches and self._was_written(db, written_batches)):
                        # Once: the second try writes the same entries, and none that came since.
                        if not batches:
                            for run in runs:
                                if (batch := run.take_batch()) is not None:
                                    batches[run] = batch
                        written_batches = self._write(db, batches, now)
                break
            except WriteUncertain:
                if not tries_left:
                    raise
        return written_batches

    def _was_written(self, db: Database, batches: WrittenBatches) -> bool:
        return any(
            batch.entries and self.file.read_end(db, run.number) == end
            for run, (batch, end) in batches.items()
        )

    def _write(self, db: Database, batches: dict[OpenRun, RunBatch], now: float) -> WrittenBatches:
        """Write what was taken from runs; return it, with where each of them ends."""
        values: dict[str, bytes] = {}
        for run in list(batches):
            batch = batches[run]
            try:
                self.file.check_lease(db, run.number, run.id, run.end)
            except JournalError as error:  # the others' are written
                run.refuse_writes(error)
                del batches[run]
                continue
            values |= batch.values
            if batch.reused_values:
                run.deletion_count = self.file.deletion_count(db)
                for old_deletion_count, make_values in batch.reused_values:
                    if old_deletion_count is not None and old_deletion_count != run.deletion_count:
                        values = {**make_values(), **values}
        if values:
            self.file.insert_values(db, values)
        written_batches: WrittenBatches = {}
        for run in batches:
            batch = batches[run]
            if hashes := hashes_in("\n".join([text for _, _, text in batch.entries])):
                note_holder(self.file, db, holder_of(run.number), hashes, values)
            # A clock that was set back takes no time away.
            seconds = now - run.work_start if now > run.work_start else 0.0
            work = batch.tally, seconds, batch.waiting_call_count
            if batch.state in OPEN_STATES and not run.is_open:
                db.execute("UPDATE runs SET open = TRUE WHERE number = ?", (run.number,))
            end = self.file.write_entries(db, run.number, run.end, batch.entries, batch.state, work)
            if batch.waits or (run.has_waits and batch.state is not None):
                end_fields = batch.waits, batch.state is not None, run.work.has_paused
                write_rows(db, run.number, run.end[0], *end_fields)
                if batch.state in FINAL_REASONS:
                    end_rows(db, run.number)
            written_batches[run] = batch, end
        self.file.notify_followers(db, map(_GET_NUMBER, batches))
        return written_batches
