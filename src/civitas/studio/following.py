"""Following runs: what this process or another records is told while a page looks on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from civitas.errors import CivitasError
from civitas.journal.entry import Outline
from civitas.journal.journal import Journal
from civitas.studio.feed import Feed
from civitas.studio.run_view import Totals, shown

_LOOK_S: Final = 0.2
"""How long until the journal is looked at again: SQLite tells nobody what others have written."""
_ENTRIES: Final = 200
"""The most entries of a run that are told at once; a page loads what is missing before them."""


class Following:
    """Publishes the topics `run`, an outline, and `entry`, of runs that are under way.

    One thread looks at all runs, as long as a page looks on. What was told before may be told
    again, and a page knows by the numbers of entries whether some are missing.
    """

    def __init__(self, journal: Callable[[], Journal], feed: Feed) -> None:
        self._journal = journal
        self._feed = feed
        self._looking = threading.Lock()
        self._known: dict[str, Outline] | None = None
        self._wanted: set[str] = set()
        self._totals: dict[str, Totals] = {}
        self._gone = threading.Event()
        feed.attend(self._attended)

    def watch(self, run_id: str) -> None:
        """Tell the entries of a run also if it begins and ends between two looks."""
        self._wanted.add(run_id)

    def look(self) -> list[Outline]:
        """The outlines of all runs; pages are told what has changed since the last look."""
        with self._looking:
            journal = self._journal()
            found = journal.runs()
            known = {each.id: each for each in found}
            before, self._known = known if self._known is None else self._known, known
            for each in found:
                if (old := before.get(each.id)) != each:
                    self._tell(journal, each, 0 if old is None else old.entries)
        return found

    def close(self) -> None:
        """Look no more."""
        self._gone.set()
        with self._looking:
            self._known = None

    def _tell(self, journal: Journal, outline: Outline, after: int) -> None:
        id, told = outline.id, asdict(outline)
        if outline.state == "running" or id in self._totals or id in self._wanted:
            totals = self._totals.setdefault(id, Totals())
            try:
                new = journal.entries(id, totals.sequence)
            except CivitasError as error:
                self._feed.publish("run_fault", {"run": id, "error": str(error)})
                return
            for entry in new:
                totals.add(entry)
            for entry in new[-_ENTRIES:]:
                if entry.sequence > after:
                    self._feed.publish("entry", {"run": id, "entry": shown(entry)})
            told["totals"] = totals.to_json()
            if outline.state != "running":
                del self._totals[id]
                self._wanted.discard(id)
        self._feed.publish("run", told)

    def _attended(self, is_attended: bool) -> None:
        """The first page looks on, or the last one has gone."""
        self._gone.set()
        if is_attended:
            self._gone = threading.Event()
            looks = threading.Thread(
                target=self._look_on, args=(self._gone,), name="civitas-runs", daemon=True
            )
            looks.start()

    def _look_on(self, gone: threading.Event) -> None:
        took = 0.0
        while not gone.wait(max(_LOOK_S, 10 * took)):  # a tenth of its time, however many runs
            began = time.monotonic()
            try:
                self.look()
            except CivitasError:
                pass  # a page is told when it loads the list
            took = time.monotonic() - began
