"""Runs that this process works on, and the commits that write their noted entries.

Entries are written in transactions; runs that wait at the same time share one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from moothall.errors import TooManyThreads
from moothall.journal.entry import Entry
from moothall.journal.journal_file import JournalFile, Place
from moothall.threads import WORKERS, guard, renewed


@dataclass(slots=True, eq=False)
class OpenRun:
    """A run that this process works on."""

    _commits: Commits
    give_back: Callable[[int], None]  # releases its lease
    number: int  # in the file
    id: str
    key: str  # in memories
    place: Place  # where it ends
    past: dict[str, list[Entry]]  # the entries from before it was opened, by part
    state: str | None = None  # to be written with the next commit; None while it is worked on
    broken: BaseException | None = None  # why a write failed; nothing more is written after it
    noted: int = 0  # how many entries were noted since it was opened
    written: int = 0  # how many of these are in the file
    _guard: threading.RLock = field(default_factory=guard)
    _entries: list[tuple[str, str, str]] = field(default_factory=list)
    _kept: dict[str, bytes] = field(default_factory=dict)
    _closed: bool = False
    _last: concurrent.futures.Future[None] | None = None  # a write that nobody awaits

    @property
    def file(self) -> JournalFile:
        """The journal's file."""
        return self._commits.file

    def note(self, path: str, kind: str, data: dict[str, Any]) -> None:
        """Add an entry to the next commit."""
        text, kept = self._commits.file.encoded(data)
        with self._guard:
            self._entries.append((path, kind, text))
            if kept:
                self._kept.update(kept)
            self.noted += 1

    def keep(self, data: bytes) -> str:
        """Store a value with the next commit; return its hash."""
        hash, kept = self.file.keep(data)
        with self._guard:
            self._kept.update(kept)
        return hash

    def kept(self, hash: str) -> bytes:
        """Return a stored value."""
        with self._guard:
            found = self._kept.get(hash)
        return self.file.kept(hash) if found is None else found

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
            self._last = self._commits.enqueue(self)

    def _has_to_write(self, upto: int | None) -> bool:
        with self._guard:
            if self.broken is not None:
                raise self.broken
            return self.written < (self.noted if upto is None else upto)

    def take(self) -> tuple[list[tuple[str, str, str]], dict[str, bytes], str | None]:
        """Remove and return the noted entries, the values that they name, and the state."""
        with self._guard:
            if self.broken is not None:
                raise self.broken
            taken = self._entries, self._kept, self.state
            self._entries, self._kept = [], {}
            return taken

    def wrote(self, entries: int, place: Place) -> None:
        """Count entries that are now in the file, which ends at a place."""
        with self._guard:
            self.written += entries
            self.place = place

    def failed(self, failure: BaseException) -> None:
        """Write nothing more after a failed write: later entries need the ones before them."""
        with self._guard:
            self.broken = failure

    def close(self) -> None:
        """Release the lease, once."""
        with self._guard:
            closed, self._closed = self._closed, True
        if closed:
            return
        if self._last is None:
            self.give_back(self.number)
        else:
            self._last.add_done_callback(lambda _: self.give_back(self.number))


class Commits:
    """Writes what runs of this process have noted.

    Entries are taken from a run after the transaction has begun. So they are written in the order
    in which they were noted, whichever part of the run commits first, on whichever loop.
    """

    def __init__(self, file: JournalFile, waits: bool) -> None:
        self.file = file
        self.watching: set[Callable[[], None]] = set()  # called after each commit, by its thread
        self._waits = waits
        self._writing = renewed(threading.Lock())
        self._guard = guard()  # for what follows
        self._waiting: list[tuple[OpenRun, concurrent.futures.Future[None]]] = []
        self._draining = False

    async def commit(self, run: OpenRun) -> None:
        """Write what a run has noted. If cancelled, still wait until it is written."""
        if not self._waits:
            try:
                self.write([run], wait=False)
                return
            except BlockingIOError:
                pass  # another one writes: a loop must not block on it
        await until(self.enqueue(run))

    def enqueue(self, run: OpenRun) -> concurrent.futures.Future[None]:
        """Have a worker thread write what a run has noted; return a future of that."""
        written: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._guard:
            self._waiting.append((run, written))
            drains, self._draining = not self._draining, True
        if drains:
            try:
                WORKERS.submit(self._drain)
            except TooManyThreads:
                self._drain()  # else nothing would ever be written
        return written

    def _drain(self) -> None:
        """Write for all waiting runs, those that have come meanwhile in one transaction."""
        while True:
            with self._guard:
                taken, self._waiting = self._waiting, []
                if not taken:
                    self._draining = False
                    return
            with suppress(BaseException):  # each of these runs is broken by it
                runs = dict.fromkeys(run for run, _ in taken if run.broken is None)
                self.write(list(runs), wait=True)
            for run, written in taken:
                if run.broken is None:
                    written.set_result(None)
                else:
                    written.set_exception(run.broken)

    def write(self, runs: Sequence[OpenRun], wait: bool) -> None:
        """Write what runs have noted, in one transaction."""
        # Held until the new places are known: the next entries are written after them.
        if not self._writing.acquire(blocking=wait):
            raise BlockingIOError(f"{self.file.name} is being written")
        written: list[tuple[OpenRun, int, Place]] = []
        try:
            with self.file.writing(wait) as db:
                for run in runs:
                    entries, kept, state = run.take()
                    place = run.place
                    if entries:
                        if kept:
                            insert = "INSERT OR IGNORE INTO kept VALUES (?, ?)"
                            db.executemany(insert, kept.items())
                        place = self.file.write(db, run.number, place, entries, state)
                    written.append((run, len(entries), place))
            for run, count, place in written:
                run.wrote(count, place)
        except BlockingIOError:
            raise  # it is still to be written
        except BaseException as error:
            for run in runs:
                run.failed(error)
            raise
        finally:
            self._writing.release()
        for call in list(self.watching):
            call()


async def until(written: concurrent.futures.Future[None]) -> None:
    """Wait until something is written, even if cancelled: a write takes a short time."""
    waiting = asyncio.wrap_future(written)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from waiting.exception()
    waiting.result()
