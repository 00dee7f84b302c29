"""Following runs: what is recorded, by this process or another, is told while a page looks on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from civitas.errors import CivitasError, NoSuchRun
from civitas.journal.entry import Outline
from civitas.journal.journal import Journal
from civitas.studio.feed import Feed
from civitas.studio.run_view import Totals, shown

_LOOK_S: Final = 0.5
"""How long until runs that other processes begin are looked for: SQLite tells nobody."""
_FOLLOWED: Final = 50
"""So many runs are followed at most beside those that were asked for, the newest first."""
_LATE: Final = 200
"""So many entries of a run are told that was under way before somebody looked on."""


class Following:
    """Publishes the topics `run`, an outline, and `entry`, in a thread of its own.

    The thread is there while a page looks on. A page that has the entries up to one loads those
    between that and the first that it is told, if some are missing; one may be told twice.
    """

    def __init__(self, journal: Callable[[], Journal], feed: Feed) -> None:
        self._journal = journal
        self._feed = feed
        self._guard = threading.Lock()
        self._looking = threading.Lock()
        self._known: dict[str, Outline] | None = None
        self._wanted: set[str] = set()
        self._totals: dict[str, Totals] = {}
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], None] = lambda: None
        self._wake: Callable[[], None] = lambda: None
        feed.attend(self._attended)

    def watch(self, run_id: str) -> None:
        """Follow a run from now on, one that is still to begin too."""
        self._wanted.add(run_id)
        self._wake()

    def outlines(self) -> list[Outline]:
        """The outlines of all runs; pages are told what has changed since it was last looked.

        Raises:
            JournalError: the journal cannot be read
        """
        with self._looking:
            found = self._journal().runs()
            before, self._known = self._known, {each.id: each for each in found}
        if before is not None:
            for each in found:
                if before.get(each.id) != each:
                    self._feed.publish("run", self.told(each))
        return found

    def told(self, outline: Outline) -> dict[str, Any]:
        """An outline as JSON data, with the totals of a run that is followed."""
        totals = self._totals.get(outline.id)
        told = asdict(outline)
        return told if totals is None else {**told, "totals": totals.to_json()}

    def close(self) -> None:
        """Look no more."""
        self._attended(False)
        thread = self._thread
        if thread is not None:
            thread.join(10)

    # -- its thread --------------------------------------------------------------------------------

    def _attended(self, is_attended: bool) -> None:
        """The first page looks on, or the last one has gone."""
        with self._guard:
            stop, self._stop, self._wake = self._stop, lambda: None, lambda: None
            stop()
            if is_attended:
                before, ready = self._thread, threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(before, ready), name="civitas-runs", daemon=True
                )
                self._thread.start()
                ready.wait()

    def _run(self, before: threading.Thread | None, ready: threading.Event) -> None:
        async def run() -> None:
            loop, task, due = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
            assert task is not None

            def at_loop(call: Callable[[], object]) -> Callable[[], None]:
                def tell() -> None:
                    try:
                        loop.call_soon_threadsafe(call)
                    except RuntimeError:
                        pass  # it has ended

                return tell

            self._stop, self._wake = at_loop(task.cancel), at_loop(due.set)
            ready.set()
            if before is not None:
                await asyncio.to_thread(before.join)
            await self._look_on(due)

        try:
            asyncio.run(run())
        except (asyncio.CancelledError, KeyboardInterrupt):
            pass
        finally:
            ready.set()

    async def _look_on(self, due: asyncio.Event) -> None:
        tasks: dict[str, asyncio.Task[None]] = {}
        while True:
            due.clear()
            try:
                found = self.outlines()
            except CivitasError:
                found = []  # a page is told when it loads the list
            running = [each.id for each in found if each.state == "running"][-_FOLLOWED:]
            for id in {*running, *self._wanted.copy()} - tasks.keys():
                task = tasks[id] = asyncio.create_task(self._follow(id))
                task.add_done_callback(lambda _, id=id: tasks.pop(id))  # type: ignore[misc]
                task.add_done_callback(lambda _: due.set())
            for id in self._totals.keys() - tasks.keys():
                del self._totals[id]  # it has ended, and pages were told what it came to
            try:
                async with asyncio.timeout(_LOOK_S):
                    await due.wait()
                    await asyncio.sleep(_LOOK_S / 10)  # not at each of a thousand a second
            except TimeoutError:
                pass

    async def _follow(self, run_id: str) -> None:
        """Tell the entries of a run, until nobody works on it."""
        journal = self._journal()
        try:
            outline = journal.run(run_id)
            totals = self._totals.get(run_id)
            if totals is None:
                totals = self._totals[run_id] = Totals()
            late = max(totals.sequence, outline.entries - _LATE)
            async for entry in journal.follow(run_id, totals.sequence):
                totals.add(entry)
                if entry.sequence > late:
                    self._feed.publish("entry", {"run": run_id, "entry": shown(entry)})
            self._wanted.discard(run_id)
        except NoSuchRun:
            await asyncio.sleep(_LOOK_S)  # it is still to begin
        except CivitasError as error:
            self._wanted.discard(run_id)
            self._feed.publish("run_fault", {"run": run_id, "error": str(error)})
            await asyncio.sleep(20 * _LOOK_S)
