"""The tab Runs: every run of the journal as a tree; replayed, forked, decided and gone on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import ConfigError
from civitas.journal.describe import doubt_line
from civitas.journal.doubt import Decision, Done, in_doubt
from civitas.orders.order import order_in
from civitas.reasoning.prompts import deep_json
from civitas.studio.feed import as_json
from civitas.studio.following import Following
from civitas.studio.run_view import Totals, messages_before, shown

if TYPE_CHECKING:
    from fastapi import APIRouter

    from civitas.journal.journal import Journal
    from civitas.studio.studio import Studio

_PAGE: Final = 2_000
"""So many entries are sent at once."""


class RunsTab:
    """The runs of the studio's journal. Its methods read and write files: call them in a thread."""

    name = "runs"
    title = "Runs"

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._following = Following(lambda: studio.journal, studio.feed)

    @property
    def _journal(self) -> Journal:
        return self._studio.journal

    def watch(self, run_id: str) -> None:
        """Tell pages the entries of a run from now on, as they come; also of one still to begin."""
        self._following.watch(run_id)

    def close(self) -> None:
        """Look no more."""
        self._following.close()

    def form(self) -> None:
        """Nothing of Gradio's."""

    # -- what pages ask ----------------------------------------------------------------------------

    def outlines(self) -> list[dict[str, Any]]:
        """The outline of each run, the oldest first; `job` is how one stands that runs here."""
        job = self._studio.jobs.state
        return [{**asdict(each), "job": job(each.id)} for each in self._following.look()]

    def entries(self, run: str, after: int = 0, most: int = _PAGE) -> list[dict[str, Any]]:
        """The entries of a run, cut; at most so many."""
        return [shown(each) for each in self._journal.entries(run, after)[: max(1, most)]]

    def entry(self, run: str, sequence: int) -> dict[str, Any]:
        """One entry, whole."""
        found = next(iter(self._journal.entries(run, sequence - 1)), None)
        if found is None or found.sequence != sequence:
            raise ConfigError(f"run {run!r} has no entry {sequence}")
        return shown(found, whole=True)

    def run(self, run: str) -> dict[str, Any]:
        """The outline of a run, its totals, the calls in doubt, and whether it has an `order`."""
        outline, entries = self._journal.run(run), self._journal.entries(run)
        doubts = [] if outline.state == "running" else in_doubt(entries)
        return {
            **asdict(outline),
            "totals": Totals(entries).to_json(),
            "order": any(order_in(each) is not None for each in entries),
            "in_doubt": [{"number": each.number, "line": doubt_line(each)} for each in doubts],
        }

    def messages(self, run: str, path: str, sequence: int) -> list[Any]:
        """The messages that a part had recorded before an entry."""
        return messages_before(self._journal.entries(run), path, sequence)

    def replay(self, run: str) -> Any:
        """What a run gave, as JSON data, and whether that is `equal` to how its end is recorded."""
        told = deep_json(self._journal.replay(run))
        ends = [each.data for each in self._journal.entries(run) if not each.path]
        over = {**deep_json(ends[-1]), "stop_reason": ends[-1].get("reason")}
        given = {**(told.get("over") or {"reason": told.get("stop_reason")}), **told}
        both = given.keys() & over.keys() & {"stop_reason", "reason", "text", "detail"}
        return {"told": told, "equal": all(given[name] == over[name] for name in both)}

    def decide(self, run: str, decisions: dict[str, Any]) -> dict[str, Any]:
        """Decide about calls in doubt: by number `repeat`, `skip` or `{"done": result}`."""
        made: dict[int, Decision] = {}
        for number, given in decisions.items():
            if not number.isdecimal():
                raise ConfigError(f"a call in doubt has a number, got {number!r:.80}")
            is_done = isinstance(given, dict) and given.keys() == {"done"}
            made[int(number)] = Done(given["done"]) if is_done else given
        self._journal.decide(run, made)
        self._following.look()
        return self.run(run)

    def fork(self, run: str) -> dict[str, Any]:
        """Copy a run; gives the copy's outline."""
        copy = self._journal.fork(run)
        self._following.look()
        return asdict(self._journal.run(copy))

    def routes(self, router: APIRouter) -> None:
        """What pages call; each runs in a thread."""
        from fastapi import Response

        def whole(answer: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(answer)
            def answered(*args: Any, **given: Any) -> Any:
                # FastAPI itself gives up on what is nested 256 deep.
                return Response(as_json(answer(*args, **given)), media_type="application/json")

            return answered

        router.get("/list")(self.outlines)
        for read in (self.entries, self.entry, self.run, self.messages, self.replay):
            router.get(f"/{read.__name__}", response_model=None)(whole(read))
        for change in (self.decide, self.fork):
            router.post(f"/{change.__name__}")(change)
