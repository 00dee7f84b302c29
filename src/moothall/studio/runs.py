"""The tab Runs: every run of the journal as a tree, to replay, fork, decide and resume."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from moothall.errors import ConfigError, MoothallError
from moothall.journal.describe import doubt_line
from moothall.journal.doubt import Decision, Done, in_doubt
from moothall.journal.entry import Outline
from moothall.jsonvalue import deep_json
from moothall.orders.order import order_in
from moothall.reasoning.loop.given import given_for
from moothall.studio.feed import as_json
from moothall.studio.run_view import Totals, shown, told_of
from moothall.threads import renewed

if TYPE_CHECKING:
    from fastapi import APIRouter

    from moothall.journal.journal import Journal
    from moothall.studio.hub import Hub
    from moothall.studio.jobs import Jobs

_PAGE: Final = 2_000
"""The most entries sent at once."""
_LOOK_S: Final = 0.2
"""Seconds between two looks at the journal: SQLite does not signal what other processes write."""
_ENTRIES: Final = 200
"""The most entries of a run published at once; a page loads the missing ones before them."""


class RunsTab:
    """The runs of the studio's journal. Its methods read and write files: call them in a thread."""

    name = "runs"
    title = "Runs"

    def __init__(self, hub: Hub, jobs: Jobs) -> None:
        self._hub = hub
        self._jobs = jobs
        self._looking = renewed(threading.Lock())
        self._known: dict[str, Outline] | None = None
        self._totals: dict[str, Totals] = {}
        self._closed = threading.Event()

    @property
    def _journal(self) -> Journal:
        return self._hub.journal

    def form(self) -> None:
        """Add nothing: this tab has no Gradio components."""

    # While a page is connected, one thread reads all runs and publishes the topics `run` (an
    # outline) and `entry`. It may publish the same again. A page sees by the numbers of entries
    # whether some are missing.

    def watch(self) -> None:
        """Look at the runs in a thread until `close`."""
        self._closed = threading.Event()
        looks = threading.Thread(
            target=self._poll, args=(self._closed,), name="moothall-runs", daemon=True
        )
        looks.start()

    def _poll(self, closed: threading.Event) -> None:
        took = 0.0
        while not closed.wait(max(_LOOK_S, 10 * took)):  # a tenth of the time, however many runs
            if not self._hub.feed.is_watched:
                continue
            began = time.monotonic()
            try:
                self.refresh()
            except MoothallError:
                pass  # a page gets the error when it loads the list
            took = time.monotonic() - began

    def refresh(self) -> list[Outline]:
        """Return the outlines of all runs; publish what has changed since the last look."""
        with self._looking:
            journal = self._journal
            found = journal.runs()
            known = {each.id: each for each in found}
            before, self._known = known if self._known is None else self._known, known
            for each in found:
                if (old := before.get(each.id)) != each:
                    self._publish_changes(journal, each, 0 if old is None else old.entries)
        return found

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        with self._looking:
            self._known = None

    def _publish_changes(self, journal: Journal, outline: Outline, after: int) -> None:
        id, told = outline.id, told_of(outline)
        if outline.under_way or id in self._totals:
            totals = self._totals.setdefault(id, Totals())
            try:
                new = journal.entries(id, totals.sequence)
            except MoothallError as error:
                self._hub.feed.publish("run_fault", {"run": id, "error": str(error)})
                return
            for entry in new:
                totals.add(entry)
            for entry in new[-_ENTRIES:]:
                if entry.sequence > after:
                    self._hub.feed.publish("entry", {"run": id, "entry": shown(entry)})
            told["totals"] = totals.to_json()
            if not outline.under_way:
                del self._totals[id]
        self._hub.feed.publish("run", told)

    def outlines(self) -> list[dict[str, Any]]:
        """Return all runs' outlines, the oldest first; `job` is the state of one under way here.

        `told` has the messages that a run gets when it continues.
        """
        jobs = self._jobs
        return [
            {**told_of(each), "job": jobs.state(each.id), "told": jobs.told(each.id)}
            for each in self.refresh()
        ]

    def entries(self, run: str, after: int = 0, most: int = _PAGE) -> list[dict[str, Any]]:
        """Return the entries of a run after number `after`, cut; at most `most` of them."""
        return [shown(each) for each in self._journal.entries(run, after, max(1, most))]

    def entry(self, run: str, sequence: int) -> dict[str, Any]:
        """Return one entry, whole."""
        found = next(iter(self._journal.entries(run, sequence - 1, 1)), None)
        if found is None or found.sequence != sequence:
            raise ConfigError(f"run {run!r} has no entry {sequence}")
        return shown(found, whole=True)

    def run(self, run: str) -> dict[str, Any]:
        """Return the outline of a run, its totals, the calls in doubt, and its `order` or None."""
        outline, entries = self._journal.run(run), self._journal.entries(run)
        doubts = [] if outline.under_way else in_doubt(entries)
        orders = [asdict(order) for each in entries if (order := order_in(each)) is not None]
        return {
            **told_of(outline),
            "totals": Totals(entries).to_json(),
            "order": orders[-1] if orders else None,
            "in_doubt": [{"number": each.number, "line": doubt_line(each)} for each in doubts],
        }

    def prompt(self, run: str, path: str, sequence: int) -> dict[str, Any] | None:
        """Return the messages, tools and schema that a model was given for an entry's answer."""
        journal = self._journal
        return given_for(journal.entries(run), path, sequence, journal.kept)

    def replay(self, run: str) -> Any:
        """Return a replayed run's result as JSON data."""
        return deep_json(self._journal.replay(run))

    def decide(self, run: str, decisions: dict[str, Any]) -> dict[str, Any]:
        """Decide about calls in doubt: by number `repeat`, `skip` or `{"done": result}`."""
        made: dict[int, Decision] = {}
        for number, given in decisions.items():
            if not (number.isdecimal() and len(number) < 10):
                raise ConfigError(f"a call in doubt has a number, got {number!r:.80}")
            is_done = isinstance(given, dict) and given.keys() == {"done"}
            made[int(number)] = Done(given["done"]) if is_done else given
        self._journal.decide(run, made)
        self.refresh()
        return self.run(run)

    def fork(self, run: str) -> dict[str, Any]:
        """Copy a run; return the copy's outline."""
        copy = self._journal.fork(run)
        self.refresh()
        return asdict(self._journal.run(copy))

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; each runs in a thread."""
        from fastapi import Response

        def whole(answer: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(answer)
            def answered(*args: Any, **given: Any) -> Any:
                # FastAPI's own encoder fails on data nested 256 deep.
                return Response(as_json(answer(*args, **given)), media_type="application/json")

            return answered

        router.get("/list")(self.outlines)
        for read in (self.entries, self.entry, self.run, self.prompt, self.replay):
            router.get(f"/{read.__name__}", response_model=None)(whole(read))
        for change in (self.decide, self.fork):
            router.post(f"/{change.__name__}")(change)
