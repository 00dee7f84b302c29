"""The tab Runs: every run of the journal as a tree, to replay, fork, decide and resume."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError, MoothallError, NoSuchRun
from moothall.build import as_json as json_data
from moothall.build import guard, shorten
from moothall.journal import REASONS, Doubt, Outline, RunShares, RunView
from moothall.studio.comparison import compare_cases, compare_runs
from moothall.studio.event_feed import as_json
from moothall.studio.orders.order import order_line, readable_order
from moothall.studio.page import STATIC, Tab, attachment
from moothall.studio.run_view import (
    Totals,
    entry_row,
    is_left_waiting,
    link_path,
    outline_row,
    with_waits_marked,
)

if TYPE_CHECKING:
    from fastapi import APIRouter

    from moothall import Journal
    from moothall.studio.jobs import TabHub

_MAX_MATCHES: Final = 500
"""The most runs, and the most entries of a run, that a search finds."""
_WIDTH: Final = 200
_CONTEXT_CHARS: Final = 60
"""How much is told of the line of an entry, and before the words, where the line lacks them."""
_NO_DOUBT: Final = REASONS.final - {"unreadable"}
"""The ends after which no call of a run is in doubt."""
_MAX_MODEL_RUNS: Final = 200
"""Of how many runs a page may ask at once by which models they spent."""
_MAX_SUMS: Final = 1_000
"""How many runs' totals are kept."""
_PAGE_ENTRIES: Final = 2_000
"""The most entries sent at once."""
_POLL_INTERVAL_S: Final = 0.2
"""Seconds between two looks at the journal: SQLite does not signal what other processes write."""
_LOOKS_PER_CHECK: Final = 5
"""At every fifth look, it is looked for what runs wait for."""
_CLOCK_SKEW_S: Final = 5.0
"""By how much the clocks of processes that write a journal may differ."""
_MAX_PUBLISHED: Final = 200
"""The most entries of a run published at once; a page loads the missing ones before them."""
_CLOSE_S: Final = 5.0
"""Seconds that a look under way has to end before the journal is closed."""


@dataclass
class _RunSums:
    """What the entries of a run say together, as far as they were read."""

    run_start: float  # of the run: one of the same id that is begun after a deletion is another
    totals: Totals = field(default_factory=Totals)
    order: dict[str, Any] | None = None


class RunsTab(Tab):
    """The runs of the studio's journal. Its methods read and write files: call them in a thread."""

    name = "runs"
    title = "Runs"
    script: Path | None = STATIC / "runs.js"

    def __init__(self, studio: TabHub) -> None:
        self._hub = studio
        self._look_lock = guard(threading.Lock())
        self._outlines: dict[str, Outline] | None = None
        self._next_full_look = 0.0  # when all are to be read again
        self._list_cache: dict[str, tuple[Outline, str]] = {}  # by id, with what it is of
        self._sums_lock = guard()
        self._sums_by_run: dict[str, _RunSums] = {}
        self._closed = threading.Event()
        self._look_thread: threading.Thread | None = None

    @property
    def _journal(self) -> Journal:
        return self._hub.journal

    # While a page is connected, one thread reads all runs and publishes the topics `run` (an
    # outline), `run_gone` and `entry`. It may publish the same again. A page sees by the numbers of
    # entries whether some are missing.

    def watch(self) -> None:
        """Look at the runs in a thread until `close`."""
        self._closed = threading.Event()
        self._look_thread = threading.Thread(
            target=self._poll, args=(self._closed,), name="moothall-runs", daemon=True
        )
        self._look_thread.start()

    def _poll(self, closed: threading.Event) -> None:
        looks = itertools.count()
        while not closed.wait(_POLL_INTERVAL_S):
            tasks: list[Callable[[], object]] = []
            if self._hub.feed.is_watched:
                tasks.append(partial(self.refresh, read_all=False))
            if not next(looks) % _LOOKS_PER_CHECK:
                tasks += [self._hub.refresh_waits, self._hub.refresh_tabs]
            for task in tasks:
                with suppress(MoothallError):  # a page gets the error when it loads the list
                    task()

    def refresh(self, *, read_all: bool = True) -> list[Outline]:
        """Return the outlines of all runs; publish what has changed since the last look.

        Without `read_all`, only those are read that were worked on since, unless all were last read
        long ago: it took a tenth of the time since, or less.
        """
        with self._look_lock:
            journal, known_outlines, start = self._journal, self._outlines, time.monotonic()
            if known_outlines is None or read_all or start > self._next_full_look:
                outlines = with_waits_marked(journal.runs(), journal)
                old = known_outlines or {}
                outlines = [old[each.id] if old.get(each.id) == each else each for each in outlines]
                current = {each.id: each for each in outlines}
                elapsed = time.monotonic() - start
                self._next_full_look = start + max(_POLL_INTERVAL_S, 10 * elapsed)
            else:
                changed = self._changed_outlines(journal, known_outlines)
                outlines = with_waits_marked(changed, journal)
                current = {**known_outlines, **{each.id: each for each in outlines}}
            before, self._outlines = current if known_outlines is None else known_outlines, current
            for id in before.keys() - current.keys():
                self._hub.feed.publish("run_gone", {"run": id})
            for each in outlines:
                if (previous := before.get(each.id)) != each:
                    self._publish_changes(journal, previous, each)
        return [*current.values()]

    @staticmethod
    def _changed_outlines(journal: Journal, outlines: dict[str, Outline]) -> list[Outline]:
        """Return the runs that were worked on since they were looked at, or may rest since."""
        newest = max((each.changed for each in outlines.values()), default=0.0)
        changed = [*journal.runs(since=newest - _CLOCK_SKEW_S)]
        ids = {each.id for each in changed}
        for each in outlines.values():
            if (each.under_way or is_left_waiting(each)) and each.id not in ids:
                with suppress(NoSuchRun):  # it was deleted
                    changed.append(journal.run(each.id))
        return changed

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        if self._look_thread is not None:
            self._look_thread.join(_CLOSE_S)  # its look needs the journal, which is closed next
        with self._look_lock:
            self._outlines = None
        with self._sums_lock:
            self._sums_by_run.clear()

    def _publish_changes(self, journal: Journal, old: Outline | None, current: Outline) -> None:
        id, row = current.id, outline_row(current)
        if current.under_way or (old is not None and old.under_way):
            after = 0 if old is None else old.entries
            try:
                row["totals"] = self._sums(current)["totals"]
                new_entries = journal.entries(id, max(after, current.entries - _MAX_PUBLISHED))
            except MoothallError as error:
                self._hub.feed.publish("run_fault", {"run": id, "error": str(error)})
                return
            for entry in new_entries:
                self._hub.feed.publish("entry", {"run": id, "entry": entry_row(entry)})
        self._hub.feed.publish("run", row)

    def list_json(self) -> str:
        """Return all runs' outlines as JSON, the oldest first.

        Of one that this studio has begun, `job` is its state while it is under way, and `told` the
        messages that it gets when it continues.
        """
        jobs, cache, new_cache = self._hub.jobs, self._list_cache, {}
        lines = []
        for each in self.refresh(read_all=False):
            cached = cache.get(each.id)
            if cached is None or cached[0] is not each:  # what rests is written once
                cached = (each, as_json(outline_row(each)))
            new_cache[each.id] = cached
            job, messages = jobs.state(each.id), jobs.messages_for(each.id)
            is_now = each.under_way or job or messages
            extra = {"job": job, "told": messages}
            lines.append(as_json(outline_row(each) | extra) if is_now else cached[1])
        self._list_cache = new_cache
        return f"[{','.join(lines)}]"

    def entries(self, run: str, after: int = 0, most: int = _PAGE_ENTRIES) -> list[dict[str, Any]]:
        """Return the entries of a run after number `after`, cut; at most `most` of them."""
        return [entry_row(each) for each in self._journal.entries(run, after, max(1, most))]

    def entry(self, run: str, sequence: int) -> dict[str, Any]:
        """Return one entry, whole."""
        entry = next(iter(self._journal.entries(run, sequence - 1, 1)), None)
        if entry is None or entry.sequence != sequence:
            raise ConfigError(f"run {run!r} has no entry {sequence}")
        return entry_row(entry, uncut=True)

    def run(self, run: str) -> dict[str, Any]:
        """Return the outline of a run, and its calls in doubt.

        What was decided of these can be replaced until the run is resumed.
        """
        (outline,) = with_waits_marked([self._journal.run(run)], self._journal)
        is_settled = outline.under_way or outline.state in _NO_DOUBT
        entries = [] if is_settled else self._journal.entries(run)
        open_numbers = {each.number for each in Doubt.among(entries)}
        doubts = Doubt.among(entries, decided=True)
        return {
            **outline_row(outline),
            "paused": bool(self._journal.waiting(run, kind="paused")),
            "in_doubt": [
                {
                    "number": each.number,
                    "line": each.line,
                    "decided": each.number not in open_numbers,
                }
                for each in doubts
            ],
        }

    def sums(self, run: str) -> dict[str, Any]:
        """Return a run's totals, also by model, and its order: at first, all entries are read."""
        return self._sums(self._journal.run(run))

    def _sums(self, outline: Outline) -> dict[str, Any]:
        """Return a run's totals and order; of a run read before, only new entries are read."""
        with self._sums_lock:
            sums = self._sums_by_run.pop(outline.id, None)
            if sums is None or sums.run_start != outline.began:
                sums = _RunSums(outline.began)
            for entry in self._journal.entries(outline.id, sums.totals.sequence):
                sums.totals.add(entry)
                order = readable_order(entry)
                if order is not None:
                    sums.order = {**asdict(order), "in_words": order.in_words}
            self._sums_by_run[outline.id] = sums
            if len(self._sums_by_run) > _MAX_SUMS:
                del self._sums_by_run[next(iter(self._sums_by_run))]
            totals = sums.totals
            return {"totals": totals.to_json(), "models": totals.by_model(), "order": sums.order}

    def models(self, runs: list[str]) -> dict[str, list[dict[str, Any]]]:
        """Return what runs have spent by model and hour, by run, as `Totals.by_model`."""
        models: dict[str, list[dict[str, Any]]] = {}
        for run in runs[:_MAX_MODEL_RUNS]:
            with suppress(NoSuchRun):  # it was deleted meanwhile
                models[run] = self.sums(run)["models"]
        return models

    def prompt(self, run: str, path: str, sequence: int) -> dict[str, Any] | None:
        """Return the messages, tools and schema that a model was given for an entry's answer."""
        return RunView(self._journal, run).prompt(sequence, path)

    def find(self, text: str) -> list[str]:
        """Return the ids of runs that have all these words, also in steps, the newest first."""
        matches = self._journal.runs(recorded=text, sort="-changed", limit=_MAX_MATCHES)
        return [each.id for each in matches]

    def search(self, run: str, text: str) -> list[dict[str, Any]]:
        """Return the entries of a run that contain a text, as sequence numbers and lines."""
        needle = text.strip().casefold()
        if not needle:
            raise ConfigError("write what to search for")
        matches = []
        for entry in self._journal.entries(run):
            line = order_line(entry)
            data = json.dumps(entry.data, ensure_ascii=False, default=str)
            pos = data.casefold().find(needle)
            if needle in line.casefold() or pos >= 0:
                excerpt = shorten(line, _WIDTH)
                if needle not in excerpt.casefold() and pos >= 0:
                    # Where it is, beside what it is of.
                    words = re.sub(
                        r'[\[\]{}",]+', " ", data[max(0, pos - _CONTEXT_CHARS) : pos + _WIDTH]
                    )
                    excerpt = f"{shorten(line, _CONTEXT_CHARS)} … {' '.join(words.split())}"
                matches.append({"sequence": entry.sequence, "line": excerpt})
                if len(matches) == _MAX_MATCHES:
                    break
        return matches

    def compare(self, run: str, other: str) -> dict[str, Any]:
        """Return two runs beside each other, by `compare_runs`, and their outlines."""
        journal = self._journal
        pair = (run, other)
        outlines = [outline_row(journal.run(each)) for each in pair]
        return {**compare_runs(*(journal.entries(each) for each in pair)), "runs": outlines}

    def cases(self) -> dict[str, Any]:
        """Return the cases of evaluations in their conditions, by `compare_cases`."""
        return compare_cases(self._journal)

    def export(self, run: str) -> bytes:
        """Return a run as a file of JSON lines, which `Journal.import_run` reads."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "run.jsonl")
            self._journal.export(run, path)
            return path.read_bytes()

    def replay(self, run: str) -> Any:
        """Return a replayed run's result as JSON data."""
        return json_data(self._journal.replay(run), deep=True)

    def decide(self, run: str, decisions: dict[str, Any]) -> dict[str, Any]:
        """Decide about calls in doubt by number, as `{"1": "skip", "2": {"done": result}}`."""
        by_number: dict[int, Any] = {}
        for number, decision in decisions.items():
            if not (number.isdecimal() and len(number) < 10):
                raise ConfigError(f"a call in doubt has a number, got {number!r:.80}")
            by_number[int(number)] = decision
        self._journal.decide(run, by_number, by=self._hub.person)
        self.refresh()
        return self.run(run)

    def fork(self, run: str, upto: int | None = None) -> dict[str, Any]:
        """Copy a run, or its entries up to a number; return the copy's outline."""
        copy = self._journal.fork(run, upto=upto)
        self.refresh()
        return asdict(self._journal.run(copy))

    def shares(self, run: str) -> list[dict[str, Any]]:
        """Return the links that open a run to who has them: number, and until when."""
        return [each._asdict() for each in RunShares(self._journal).open_ones(run)]

    def share(self, run: str, days: float) -> dict[str, Any]:
        """Make a link that opens a run, and nothing else; return its path, which is told once."""
        return {"path": link_path(run, RunShares(self._journal).add(run, days))}

    def withdraw(self, run: str, number: int) -> list[dict[str, Any]]:
        """Have a link open its run no longer; return the others."""
        RunShares(self._journal).withdraw(run, number)
        return self.shares(run)

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; each runs in a thread."""
        from fastapi import Body, Response

        def as_response(answer: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(answer)
            def respond(*args: Any, **options: Any) -> Any:
                # FastAPI's own encoder fails on data nested 256 deep.
                return Response(as_json(answer(*args, **options)), media_type="application/json")

            return respond

        @router.get("/list")
        def list_runs() -> Response:
            return Response(self.list_json(), media_type="application/json")

        reads = (self.entries, self.entry, self.run, self.prompt, self.replay)
        for read in (
            *reads,
            self.sums,
            self.find,
            self.search,
            self.compare,
            self.cases,
            self.shares,
        ):
            router.get(f"/{read.__name__}", response_model=None)(as_response(read))

        @router.get("/export")
        def export_run(run: str) -> Response:
            return attachment(self.export(run), run or "run", "jsonl", "application/x-ndjson")

        @router.post("/share")
        def share_run(run: str = Body(), days: float = Body()) -> dict[str, Any]:
            return self.share(run, days)

        @router.post("/withdraw")
        def withdraw_link(run: str = Body(), number: int = Body()) -> list[dict[str, Any]]:
            return self.withdraw(run, number)

        for change in (self.decide, self.fork, self.models):
            router.post(f"/{change.__name__}")(change)
