"""Runs that this process works on, and the commits that write their noted entries.

Entries are written in transactions; runs that wait at the same time share one.
"""

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
from moothall.journal.stop_reason import FINAL, OPEN_STATES, REASONS
from moothall.journal.store.holding import hashes_in, hold, holder_of
from moothall.journal.store.store import RunEnd, Store, WriteUncertain
from moothall.journal.store.wait_rows import (
    WAIT_KINDS,
    WaitEntry,
    WaitOutcome,
    end_rows,
    write_rows,
)
from moothall.journal.tally import COUNTED, Tally

Relied: TypeAlias = tuple[int | None, Callable[[], dict[str, bytes]]]
"""How many deletions were known when values were kept, and what makes the values again."""


_RESUMED: Final = frozenset(REASONS) - FINAL
"""The states of runs that the next call resumes."""

_TRIES: Final = 5
"""So often a commit is made again after the connection to a server was lost."""
_NUMBER: Final = attrgetter("number")


@dataclass(slots=True, eq=False)
class RunBatch:
    """What is to be written of a run."""

    entries: list[tuple[str, str, str]]
    values: dict[str, bytes]
    relied: list[Relied]
    state: str | None
    tally: Tally
    waiting: int
    waits: list[WaitEntry]


@dataclass(slots=True, eq=False, weakref_slot=True)
class OpenRun:
    """A run that this process works on."""

    _commits: Commits
    give_back: Callable[[int], None]  # releases its lease
    number: int  # in the file
    id: str
    key: str  # in memories
    place: RunEnd  # where it ends
    past_entries: dict[str, list[Entry]]  # the entries from before it was opened, by part
    state: str | None = None  # to be written with the next commit; None while it is worked on
    broken: BaseException | None = None  # why a write failed; nothing more is written after it
    entry_count: int = 0  # how many entries were noted since it was opened
    written_count: int = 0  # how many of these are in the file
    waiting: int = 0  # how many of its calls wait for a person's permission
    deletions: int | None = None  # of values, which the file had had at the last commit
    cut_off: list[str] = field(default_factory=list)  # what it asked a person as it was cancelled
    # Whether it goes on later if its task is cancelled, as after a kill.
    resumes_later: bool = False
    has_waits: bool = False  # whether it has rows of what it waits for
    waiting_runs: list[tuple[str, int]] = field(default_factory=list)
    """The other runs of its thread that wait: the id of each, and its last entry."""
    decided: set[str] = field(default_factory=set)  # what people have decided for the rest of it
    is_open: bool = True  # in the file: whether it is listed as worked on or cut off
    open_calls: set[tuple[str, str]] = field(default_factory=set)  # in doubt if the process ends
    _guard: threading.RLock = field(default_factory=guard)
    _entries: list[tuple[str, str, str]] = field(default_factory=list)
    _values: dict[str, bytes] = field(default_factory=dict)
    _relied: list[Relied] = field(default_factory=list)
    _waits: list[WaitEntry] = field(default_factory=list)
    # Values that no entry names yet. They are written with the entry that does: values that
    # nothing names may be deleted.
    _unnamed: dict[str, bytes] = field(default_factory=dict)
    _unnamed_relied: list[Relied] = field(default_factory=list)
    _tally: Tally = field(default_factory=Tally)
    # When the work began that is not counted yet.
    work_start: float = field(default_factory=time.time)
    _written_waiting: int = 0  # of `waiting`, what is in the file
    _closed: bool = False
    _last_write: concurrent.futures.Future[None] | None = None  # a write that nobody awaits

    @property
    def file(self) -> Store:
        """The journal's file."""
        return self._commits.file

    def note(self, path: str, kind: str, data: dict[str, Any]) -> None:
        """Add an entry to the next commit."""
        text, values = self._commits.file.encode_data(data)
        with self._guard:
            if kind in WAIT_KINDS:
                self._waits.append(WaitEntry(len(self._entries), path, kind, data))
                self.has_waits = True
            self._entries.append((path, kind, text))
            if kind in COUNTED:
                self._tally.count(path, kind, data)
            if kind == "started":
                if self.cut_off:
                    self.cut_off.clear()  # a call was interrupted, and the run went on
                if data.get("asks"):
                    self.open_calls.add((path, str(data.get("key"))))
            elif self.open_calls and kind in ("ended", "failed", "decided", "waits"):
                self.open_calls.discard(call := (path, str(data.get("key"))))
                if self.open_calls and kind == "ended":
                    self.open_calls -= {*calls_below(*call, self.open_calls)}
            if values:
                self._values.update(values)
            if self._unnamed or self._unnamed_relied:
                self._values.update(self._unnamed)
                self._relied += self._unnamed_relied
                self._unnamed, self._unnamed_relied = {}, []
            self.entry_count += 1

    def keep(self, data: bytes) -> str:
        """Store a value with the next entry; return its hash."""
        hash = self._commits.file.keep(data)
        with self._guard:
            self._unnamed[hash] = data
        return hash

    def rely(self, deletions: int | None, make: Callable[[], dict[str, bytes]]) -> None:
        """Keep values of earlier commits, which the next entry names: made again if deleted since.

        `deletions` is what this was at those commits; None if nothing was kept before.
        """
        with self._guard:
            self._unnamed_relied.append((deletions, make))

    def read_value(self, hash: str) -> bytes:
        """Return a stored value."""
        with self._guard:
            value = self._values.get(hash, self._unnamed.get(hash))
        return self.file.read_value(hash) if value is None else value

    def answer(self, key: str, path: str, step: str) -> WaitOutcome | bool:
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
        if self.broken is not None:
            raise self.broken

    def _has_to_write(self, upto: int | None) -> bool:
        with self._guard:
            if self.broken is not None:
                raise self.broken
            if self.written_count < (self.entry_count if upto is None else upto):
                return True
            return upto is None and self._written_waiting != self.waiting

    def wait(self, count: int) -> None:
        """Count calls that wait for a person; written with the next commit."""
        with self._guard:
            self.waiting += count

    def take_batch(self) -> RunBatch | None:
        """Remove and return the noted entries, with their values, and the state."""
        with self._guard:
            if self.broken is not None:
                raise self.broken
            entries, values, relied, tally = self._entries, self._values, self._relied, self._tally
            if not entries and self._written_waiting == self.waiting:
                return None
            waits, self._waits = self._waits, []
            self._entries, self._values, self._relied, self._tally = [], {}, [], Tally()
            # While it is worked on, the file has the state that it is in if this process dies. A
            # run that was cancelled during an action is in doubt as well.
            state = self.state
            if self.open_calls and (state is None or state in _RESUMED):
                state = "in_doubt"
            return RunBatch(entries, values, relied, state, tally, self.waiting, waits)

    def wrote(self, batch: RunBatch, place: RunEnd, at: float) -> None:
        """Count entries that are now in the file, which ends at a place."""
        with self._guard:
            self.written_count += len(batch.entries)
            self.place, self._written_waiting, self.work_start = place, batch.waiting, at
            self.is_open = batch.state in OPEN_STATES

    def refuse_writes(self, failure: BaseException) -> None:
        """Write nothing more after a failed write: later entries need the ones before them."""
        with self._guard:
            self.broken = failure

    def close(self) -> None:
        """Release the lease, once."""
        with self._guard:
            closed, self._closed = self._closed, True
        if closed:
            return
        if self._last_write is None:
            self.give_back(self.number)
        else:
            # Not before: the next process to get the lease would read the run without them.
            self._last_write.add_done_callback(lambda _: self.give_back(self.number))


WrittenBatches: TypeAlias = dict[OpenRun, tuple[RunBatch, RunEnd]]
"""What was written of runs, and where they end then."""


class Commits:
    """Writes what runs of this process have noted.

    Entries are taken from a run after the transaction has begun. So they are written in the order
    in which they were noted, whichever part of the run commits first, on whichever loop.
    """

    def __init__(self, file: Store) -> None:
        self.file = file
        self.watching: set[Callable[[], None]] = set()  # called after each commit, by its thread
        self._waits = file.waits
        self._writing = guard(threading.Lock())
        self._guard = guard()  # for what follows
        self._waiting: list[tuple[OpenRun, concurrent.futures.Future[None]]] = []
        self._draining = False

    async def commit(self, run: OpenRun) -> None:
        """Write what a run has noted. If cancelled, still wait until it is written."""
        if not self._waits:
            try:
                self.write([run], wait=False)
            except BlockingIOError:
                pass  # another one writes: a loop must not block on it
            else:
                if run.broken is not None:
                    raise run.broken
                return
        await to_its_end(asyncio.wrap_future(self.enqueue(run)))

    def enqueue(self, run: OpenRun) -> concurrent.futures.Future[None]:
        """Have a worker thread write what a run has noted; return a future of that."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._guard:
            self._waiting.append((run, future))
            drains, self._draining = not self._draining, True
        if drains:
            try:
                WORKERS.submit(self._drain)
            except TooManyThreads:
                self._drain()  # else nothing would ever be written
        return future

    def _drain(self) -> None:
        """Write for all waiting runs, those that have come meanwhile in one transaction."""
        while True:
            with self._guard:
                queue, self._waiting = self._waiting, []
                if not queue:
                    self._draining = False
                    return
            with suppress(BaseException):  # each of these runs is broken by it
                runs = dict.fromkeys(run for run, _ in queue if run.broken is None)
                self.write(list(runs), wait=True)
            for run, future in queue:
                if run.broken is None:
                    future.set_result(None)
                else:
                    future.set_exception(run.broken)

    def write(self, runs: Sequence[OpenRun], wait: bool) -> None:
        """Write what runs have noted, in one transaction."""
        # Held until the new places are known: the next entries are written after them.
        if not self._writing.acquire(blocking=wait):
            raise BlockingIOError(f"{self.file.name} is being written")
        now = time.time()
        try:
            batches = self._write_batches(runs, wait, now)
            for run in batches:
                run.wrote(*batches[run], now)
        except BlockingIOError:
            raise  # it is still to be written
        except BaseException as error:
            for run in runs:
                run.refuse_writes(error)
            raise
        finally:
            self._writing.release()
        for call in list(self.watching):
            call()

    def _write_batches(self, runs: Sequence[OpenRun], wait: bool, now: float) -> WrittenBatches:
        """Write what runs have noted; return what that was.

        If the connection to a server is lost meanwhile, look whether it was written; if not, write
        it again.
        """
        batches: dict[OpenRun, RunBatch] = {}
        written_batches: WrittenBatches = {}
        for tries_left in reversed(range(_TRIES)):
            try:
                # Once taken they must be written, also on a loop: after a lost connection it waits.
                with self.file.writing(wait or bool(batches), RUNS) as db:
                    if not (written_batches and self._is_there(db, written_batches)):
                        # Once: the second try writes the same entries, and none that came since.
                        if not batches:
                            for run in runs:
                                if (each := run.take_batch()) is not None:
                                    batches[run] = each
                        written_batches = self._write(db, batches, now)
                break
            except WriteUncertain:
                if not tries_left:
                    raise
        return written_batches

    def _is_there(self, db: Database, batches: WrittenBatches) -> bool:
        return any(
            batch.entries and self.file.end(db, run.number) == place
            for run, (batch, place) in batches.items()
        )

    def _write(self, db: Database, batches: dict[OpenRun, RunBatch], now: float) -> WrittenBatches:
        """Write what was taken from runs; return it, with where each of them ends."""
        values: dict[str, bytes] = {}
        for run in list(batches):
            each = batches[run]
            try:
                self.file.check_held(db, run.number, run.id, run.place)
            except JournalError as error:  # the others' are written
                run.refuse_writes(error)
                del batches[run]
                continue
            values |= each.values
            if each.relied:
                run.deletions = self.file.deletions(db)
                for deletions, make in each.relied:
                    if deletions is not None and deletions != run.deletions:
                        values = {**make(), **values}
        if values:
            self.file.insert(db, values)
        written_batches: WrittenBatches = {}
        for run in batches:
            each = batches[run]
            names = hashes_in("\n".join([text for _, _, text in each.entries]))
            if names:
                hold(self.file, db, holder_of(run.number), names, values)
            # A clock that was set back takes no time away.
            work = each.tally, now - run.work_start if now > run.work_start else 0.0, each.waiting
            if each.state in OPEN_STATES and not run.is_open:
                db.execute("UPDATE runs SET open = TRUE WHERE number = ?", (run.number,))
            place = self.file.write(db, run.number, run.place, each.entries, each.state, work)
            if each.waits or (run.has_waits and each.state is not None):
                write_rows(db, run.number, run.place[0], each.waits, each.state is not None)
                if each.state in FINAL:
                    end_rows(db, run.number)
            written_batches[run] = each, place
        self.file.wrote(db, map(_NUMBER, batches))
        return written_batches
