"""Commits: what runs note is written in transactions, several of them together where they wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from civitas.errors import TooManyThreads
from civitas.journal.file import JournalFile, Place
from civitas.threads import WORKERS

__all__ = ["Batch", "Commits", "Written", "until"]


class Written(Protocol):
    """What writing needs of a run: its number, where it ends, how it stands in the file."""

    number: int
    place: Place
    stored_state: str | None

    def wrote(self, failure: BaseException | None) -> None:
        """A batch was written, or why it was not."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """What one commit of a run writes.

    Attributes:
        run: the run
        entries: of each, the path, the kind, and the data as JSON text
        state: how the run stands then
    """

    run: Written
    entries: list[tuple[str, str, str]]
    state: str | None


class Commits:
    """Writes what runs of this process have noted.

    Args:
        file: the journal's file
        waits: whether each commit waits for the disk, so that it is made in a thread
    """

    def __init__(self, file: JournalFile, waits: bool) -> None:
        self._file = file
        self._waits = waits
        self._writing = threading.Lock()
        self._guard = threading.Lock()  # of what follows
        self._waiting: list[tuple[Batch, concurrent.futures.Future[None]]] = []
        self._draining = False

    async def commit(self, batch: Batch) -> None:
        """Write something. Cancelled, it still waits until it is written.

        Raises:
            JournalError: it cannot be written
        """
        if not self._waits:
            try:
                self._write([batch], wait=False)
                return
            except BlockingIOError:
                pass  # another process writes, and who waits for it must not be a loop
        written: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._guard:
            self._waiting.append((batch, written))
            drains, self._draining = not self._draining, True
        if drains:
            try:
                WORKERS.submit(self._drain)
            except TooManyThreads:
                self._drain()  # or nobody would, ever
        await until(written)

    def commit_now(self, batch: Batch) -> None:
        """The same, for where nothing can be awaited: the thread waits."""
        self._write([batch], wait=True)

    def _drain(self) -> None:
        """Write what waits, all that has come meanwhile in one transaction."""
        while True:
            with self._guard:
                taken, self._waiting = self._waiting, []
                if not taken:
                    self._draining = False
                    return
            try:
                self._write([batch for batch, _ in taken], wait=True)
            except BaseException as error:
                for _, written in taken:
                    written.set_exception(error)
            else:
                for _, written in taken:
                    written.set_result(None)

    def _write(self, batches: Sequence[Batch], wait: bool) -> None:
        """Write what was noted, in one transaction.

        Raises:
            BlockingIOError: somebody else writes, and it was not to wait; nothing was written
            JournalError: it cannot be written; nothing was
        """
        # Held until the places are known: what comes next is written after them.
        if not self._writing.acquire(blocking=wait):
            raise BlockingIOError(f"{self._file.name} is being written")
        failure: BaseException | None = None
        try:
            places: dict[int, Place] = {}
            with self._file.writing(wait) as db:
                for batch in batches:
                    run, state = batch.run, batch.state
                    place = places.get(run.number, run.place)
                    places[run.number] = self._file.write(db, run.number, place, batch.entries)
                    if state != run.stored_state:
                        db.execute(
                            "UPDATE runs SET state = ? WHERE number = ?", (state, run.number)
                        )
            for batch in batches:
                batch.run.place = places[batch.run.number]
                batch.run.stored_state = batch.state
        except BlockingIOError:
            batches = ()  # it is still to be written
            raise
        except BaseException as error:
            failure = error
            raise
        finally:
            self._writing.release()
            for batch in batches:
                batch.run.wrote(failure)


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
