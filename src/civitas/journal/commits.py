"""Commits: what runs note is written in transactions, several of them together where they wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from civitas.errors import TooManyThreads
from civitas.journal.file import JournalFile, Place
from civitas.journal.follow import Watched
from civitas.threads import WORKERS


@dataclass(slots=True)
class Batch:
    """What one commit of a run writes.

    Attributes:
        entries: of each, the path, the kind, and the data as JSON text
        kept: values that they name, by their hashes
        state: how the run stands then
    """

    entries: list[tuple[str, str, str]] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)
    state: str | None = None


class Run(Protocol):
    """A run that has something to write."""

    number: int
    place: Place
    stored_state: str | None

    def take(self) -> Batch:
        """All that was noted and is not written; called while nobody else writes."""
        ...

    def wrote(self, entries: int) -> None:
        """So many entries are in the file."""
        ...

    def failed(self, failure: BaseException) -> None:
        """They could not be written, and nothing that comes after them must be."""
        ...


class Commits:
    """Writes what runs of this process have noted.

    What is written is taken when the transaction has begun: so all that a run noted is written in
    the order in which it was noted, whichever of its parts, on whichever loop, commits first.

    Attributes:
        file: the same
        watched: is told after each commit
    """

    def __init__(self, file: JournalFile, waits: bool) -> None:
        self.file = file
        self.watched = Watched()
        self._waits = waits
        self._writing = threading.Lock()
        self._guard = threading.Lock()  # of what follows
        self._waiting: list[tuple[Run, concurrent.futures.Future[None]]] = []
        self._draining = False

    async def commit(self, run: Run) -> None:
        """Write what a run has noted. Cancelled, it still waits until it is written."""
        if not self._waits:
            try:
                self._write([run], wait=False)
                return
            except BlockingIOError:
                pass  # another process writes, and who waits for it must not be a loop
        written: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._guard:
            self._waiting.append((run, written))
            drains, self._draining = not self._draining, True
        if drains:
            try:
                WORKERS.submit(self._drain)
            except TooManyThreads:
                self._drain()  # or nobody would, ever
        await until(written)

    def commit_now(self, run: Run) -> None:
        """The same, for where nothing can be awaited: the thread waits."""
        self._write([run], wait=True)

    def _drain(self) -> None:
        """Write what waits, all that has come meanwhile in one transaction."""
        while True:
            with self._guard:
                taken, self._waiting = self._waiting, []
                if not taken:
                    self._draining = False
                    return
            try:
                self._write(list(dict.fromkeys(run for run, _ in taken)), wait=True)
            except BaseException as error:
                for _, written in taken:
                    written.set_exception(error)
            else:
                for _, written in taken:
                    written.set_result(None)

    def _write(self, runs: Sequence[Run], wait: bool) -> None:
        """Write what runs have noted, in one transaction."""
        # Held until the places are known: what comes next is written after them.
        if not self._writing.acquire(blocking=wait):
            raise BlockingIOError(f"{self.file.name} is being written")
        failure: BaseException | None = None
        taken: list[tuple[Run, Batch]] = []
        try:
            places: list[Place] = []
            with self.file.writing(wait) as db:
                for run in runs:
                    batch = run.take()
                    taken.append((run, batch))
                    place = run.place
                    if batch.entries:
                        self.file.write_kept(db, batch.kept)
                        place = self.file.write(db, run.number, place, batch.entries)
                    places.append(place)
                    if batch.entries and batch.state != run.stored_state:
                        db.execute(
                            "UPDATE runs SET state = ? WHERE number = ?", (batch.state, run.number)
                        )
            for (run, batch), place in zip(taken, places, strict=True):
                run.place = place
                if batch.entries:
                    run.stored_state = batch.state
        except BlockingIOError:
            raise  # it is still to be written
        except BaseException as error:
            failure = error
            raise
        finally:
            if failure is not None:
                for run in runs:
                    run.failed(failure)
            else:
                for run, batch in taken:
                    run.wrote(len(batch.entries))
            self._writing.release()
        self.watched.call()


async def until(written: concurrent.futures.Future[None]) -> None:
    """Wait until something is written. Cancelled, wait all the same: it soon is."""
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
