"""What the parts of the studio share: the journal, the events, the cards, and how threads begin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from os import PathLike, environ
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError, Journal, JournalError
from moothall.agents import ResumeHost, Resumer
from moothall.build import state_file
from moothall.studio.cards import Cards
from moothall.studio.event_feed import EventFeed
from moothall.studio.partial_answers import PartialAnswers

if TYPE_CHECKING:
    from moothall.studio.page import Tab

CLOSE_S: Final = 20.0
"""How many seconds the end of the studio waits for the end of a run, or of a look."""


def start_thread(name: str, work: Callable[[Future[Any]], object]) -> tuple[threading.Thread, Any]:
    """Run `work(started)` in a thread; return the thread and the result of `started`.

    An exception before `started` has a result is raised here.
    """
    started: Future[Any] = Future()

    def run() -> None:
        try:
            work(started)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread, started.result()


class ResumerThread:
    """A Resumer in a thread of its own; it has looked once before this is made."""

    def __init__(self, host: ResumeHost) -> None:
        async def keep_looking(start_future: Future[Callable[[], object]]) -> None:
            async with Resumer(host):
                end = asyncio.Event()
                loop = asyncio.get_running_loop()
                start_future.set_result(partial(loop.call_soon_threadsafe, end.set))
                await end.wait()

        self._thread, self._end = start_thread(
            "moothall-resumer", lambda start_future: asyncio.run(keep_looking(start_future))
        )

    def close(self) -> None:
        """End its looks."""
        self._end()
        self._thread.join(CLOSE_S)


class Hub:
    """The base of `Studio` that its parts use."""

    def __init__(self) -> None:
        self.feed: EventFeed = EventFeed()
        self.cards: Cards = Cards(self.feed)
        self.partial_answers: PartialAnswers = PartialAnswers(self.feed)
        self.opens = "space"
        self.person = "User"  # in whose name the page answers
        self.tabs: list[Tab] = []
        self.faults: list[str] = []
        self._told_tabs: list[str] | None = None
        self._journal: Journal | None = None
        self._owns_journal = False

    @property
    def journal(self) -> Journal:
        """The journal in which runs are recorded; ConfigError before `launch`."""
        if self._journal is None:
            raise ConfigError("the studio has a journal from launch() on")
        return self._journal

    def refresh_waits(self) -> None:
        """Have the cards show what runs of the journal wait for."""
        self.cards.refresh_waits(self.journal, self.person)

    def shown_tabs(self) -> list[str]:
        """Return the names of the tabs that the page has now."""
        return [each.name for each in self.tabs if each.is_shown()]

    def refresh_tabs(self) -> None:
        """Tell pages which tabs they have, if it has changed."""
        names = self.shown_tabs()
        if names != self._told_tabs:
            self._told_tabs = names
            self.feed.publish("tabs", names)

    def add_routes(self, tab: Tab, add: Callable[[Tab], object]) -> bool:
        """Add a tab's routes by `add`; return whether the page has the tab."""
        add(tab)
        return True

    def _open_journal(self, journal: Journal | str | PathLike[str] | None) -> None:
        """Open a journal: the given one, else MOOTHALL_JOURNAL's, else the user's studio.db."""
        self._owns_journal = not isinstance(journal, Journal)
        if journal is None:
            journal = environ.get("MOOTHALL_JOURNAL") or None
        if journal is None:
            journal = state_file("studio.db")
            try:
                journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise JournalError(
                    str(journal),
                    f"its folder cannot be made ({error.strerror}): name another journal by "
                    "--journal, MOOTHALL_JOURNAL or journal=",
                ) from error
        self._journal = Journal.from_argument(journal, "the studio")

    def _close_journal(self) -> None:
        """Drop the journal and its cards; close it unless it was given as a `Journal`."""
        self.cards.drop_waits()
        if self._journal is not None and self._owns_journal:
            self._journal.close()
        self._journal = None
