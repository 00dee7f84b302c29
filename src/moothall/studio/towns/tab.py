"""The tab Society: set up or resume a town, play it, ask its citizens and change its world."""

from __future__ import annotations

import asyncio
import itertools
import math
import secrets
from dataclasses import replace
from datetime import datetime
from os import environ
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel
from pydantic import Field as Checked

from moothall import ConfigError
from moothall.build import guard
from moothall.models import made_model
from moothall.studio.orders.faults import about, fault
from moothall.studio.orders.order import check_no_keys, order_of
from moothall.studio.orders.simulate import SimulateOrder, check_simulation
from moothall.studio.page import STATIC, Field, PageForm, Tab, WouldEnd, attachment
from moothall.studio.towns.changes import Change
from moothall.studio.towns.experiments import ExperimentRuns
from moothall.studio.towns.frame import pack_frame
from moothall.studio.towns.shown import ShownRun
from moothall.studio.towns.survey import CitizenQuestion, SurveyOfAll
from moothall.studio.towns.town import MAX_CITIZENS, Town

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import APIRouter, Response

    from moothall import Society
    from moothall.studio.hub import Hub

_MAX_LISTED: Final = 200
"""The most citizens of a name that a page lists."""
_MAX_RECENT: Final = 12
"""The most events, the most messages and the most relations on a citizen's card."""


class RunControl(BaseModel):
    """A page's control of the run: play, pause, one step, or another speed."""

    do: Literal["play", "pause", "step"] | None = None
    speed: Literal[0, 1, 2, 4, 10] | None = None


class SecondRun(BaseModel):
    """The run of the town that a page wants beside the present one; none if it is empty."""

    run: str = Checked(max_length=200)


class SocietyTab(Tab):
    """One town at a time, which every page sees; a second one may live beside it, to compare.

    The second follows: it lives a step when the first has. What a person asks and changes is of the
    first, until they are swapped.
    """

    name = "society"
    title = "Society"
    script: Path | None = STATIC / "society.js"

    def __init__(self, studio: Hub) -> None:
        self._hub = studio
        self._numbers = itertools.count(secrets.randbits(40) + 1)  # of each program others
        self._town_lock = guard()
        self.town: Town | None = None
        self.second_town: Town | None = None
        self.experiments: ExperimentRuns = ExperimentRuns(studio)

    # -- setting up --------------------------------------------------------------------------------

    def set_up(self, order: SimulateOrder, run_id: str | None = None) -> None:
        """Make a town or resume a run; the present town ends and can be resumed later.

        Raise ConfigError or ModelError if the seed or model cannot be used, and WouldEnd if a
        person has not agreed that the present town ends; it then stays.
        """
        self._check(order)
        with self._town_lock:
            _check_may_end(self.town)
            self._end_towns()
            self.town = self._create_town(order, run_id or secrets.token_hex(8))
        self.town.notify_pages()

    def show(self, run: ShownRun) -> None:
        """Have pages watch a program's own society; the present town ends."""
        with self._town_lock:
            _check_may_end(self.town)
            self._end_towns()
            self.town = self._create_town(run, secrets.token_hex(8))
        self.town.notify_pages()

    def _create_town(self, order: SimulateOrder | ShownRun, run_id: str) -> Town:
        hub = self._hub
        journal = None if isinstance(order, ShownRun) else hub.journal
        return Town(next(self._numbers), order, run_id, journal, hub.feed.publish)

    def _check(self, order: SimulateOrder) -> None:
        if not 0 <= order.seed < 1 << 64:
            raise fault("seed", f" must be from 0 to {2**64 - 1}, got {order.seed}")
        if order.citizens > MAX_CITIZENS:
            text = f" must be at most {MAX_CITIZENS:,} here, got {order.citizens:,}"
            raise fault("citizens", text)
        if order.model is not None:
            with about("model"):
                made_model(order.model, environ.get("MOOTHALL_KEY"))

    def load(self, run_id: str) -> None:
        """Resume a recorded run from its last checkpoint; ConfigError if it records no town."""
        self.set_up(self._recorded_order(run_id), run_id)

    def _recorded_order(self, run_id: str) -> SimulateOrder:
        order = order_of(self._hub.journal.entries(run_id))
        if not isinstance(order, SimulateOrder):
            raise ConfigError(
                f"run {run_id} records no town: only the program that began it can resume it"
            )
        return order

    def close(self) -> None:
        """End the experiments, the present town and the one beside it."""
        self.experiments.close()
        self._end_towns()

    def _end_towns(self) -> None:
        with self._town_lock:
            towns, self.town, self.second_town = (self.second_town, self.town), None, None
            for town in towns:
                if town is not None:
                    town.close()

    def forms(self) -> list[PageForm]:
        """Return the form that sets up a town, and the one that resumes a recorded one."""
        steps = [(each, each) for each in ("5min", "15min", "30min", "1h")]
        fields = [
            Field("citizens", "Citizens", "whole", value=300),
            Field("days", "Days", "number", value=1),
            Field("step", "Length of a step", "choice", options=steps, value="15min"),
            Field("seed", "Seed", "whole", value=0, about="The same gives the same town."),
            Field("plays", "Play it at once", "check", value=True),
            Field("model", "Model", hint="none: by rules", more=True),
            Field("max_calls", "Calls of it at most", "whole", value=1000, more=True),
        ]
        new = PageForm(
            name="new",
            title="Set up a town",
            fields=fields,
            start=self._begin,
            button="Set up",
            is_open=self.town is None,
        )
        recorded = self._recorded_towns()
        resume = PageForm(
            name="resume",
            title="Resume a recorded town",
            fields=[Field("run_id", "Recorded towns", "choice", options=recorded, wide=True)],
            start=self._resume_chosen,
            button="Resume",
        )
        return [new, *([resume] if recorded else []), self.experiments.form()]

    def _begin(self, plays: bool = False, **values: Any) -> None:
        """Set up what the form asks for, by fields of `SimulateOrder`; its page has it play."""
        stripped = {
            n: each.strip() if isinstance(each, str) else each for n, each in values.items()
        }
        filled: dict[str, Any] = {"citizens": 0, "days": 0}
        filled |= {name: each for name, each in stripped.items() if each not in (None, "")}
        order = SimulateOrder(**filled)
        if order.citizens < 10:
            text = f" must be from 10 to {MAX_CITIZENS:,}, got {order.citizens}"
            raise fault("citizens", text)
        if order.model is None or not order.max_calls:
            order = replace(order, max_calls=None)
        check_simulation(order)
        check_no_keys(order)
        if order.is_remote and not order.max_calls:
            text = "a model on a server needs a limit: say how often it may be called"
            raise ConfigError(text, argument="max_calls")
        self.set_up(order)

    def _resume_chosen(self, run_id: str | None) -> None:
        if not run_id:
            raise ConfigError("choose a recorded town first", argument="run_id")
        self.load(run_id)

    def _recorded_towns(self) -> list[tuple[str, str]]:
        """Return the runs of societies, the newest first, as (id, label)."""
        run_id = None if self.town is None else self.town.run_id

        rows = []
        for run in reversed(self._hub.journal.runs(kind="Society")):
            start_text = f"{datetime.fromtimestamp(run.began):%d %b %H:%M}"
            state = "here" if run.id == run_id else run.state
            rows.append((run.id, f"{start_text} · {run.task} · {state} · {run.id}"))
        return rows

    # -- what pages ask ----------------------------------------------------------------------------

    def _ready_town(self) -> tuple[Town, Society]:
        if self.town is None:
            raise ConfigError("there is no town: set one up, or resume a recorded one")
        return self.town, self.town.wait_for_society()

    def frame(self, town: int = 0, after: int = 0, layer: str = "", second: bool = False) -> Any:
        """Return the town's frame; the page already has the rows of metrics before `after`."""
        from fastapi import Response

        shown_town, fellow = (self.second_town, None) if second else (self.town, self.second_town)
        if shown_town is None:
            frame = pack_frame({"town": 0, "state": "none"})
        else:
            other_number = None if fellow is None else fellow.number
            frame = shown_town.frame(
                max(0, after) if town == shown_town.number else 0, layer, other_number
            )
        return Response(frame, media_type="application/octet-stream")

    def map(self, second: bool = False) -> dict[str, Any]:
        """Return bounds, places and roads."""
        if not second:
            return self._ready_town()[0].map_data()
        if self.second_town is None:
            raise ConfigError("there is no town beside the present one")
        return self.second_town.map_data()

    def recorded(self) -> list[tuple[str, str]]:
        """Return the runs of towns that can be put beside the present one, as (id, label)."""
        run_ids = {each.run_id for each in (self.town, self.second_town) if each is not None}
        return [each for each in self._recorded_towns() if each[0] not in run_ids]

    def put_beside(self, body: SecondRun) -> None:
        """Have a recorded run live beside the present town; the one that does so now ends."""
        town = self._ready_town()[0]
        if body.run == town.run_id:
            raise ConfigError("this town is shown already: choose another, or branch it")
        order = self._recorded_order(body.run) if body.run else None
        if order is not None:
            self._check(order)
        with self._town_lock:
            if town is not self.town:  # meanwhile, on another page
                raise ConfigError("another town is shown now: choose again")
            if order is not None:  # else a person has pressed Close
                _check_may_end(self.second_town)
            town.set_follower(None)
            if self.second_town is not None:
                self.second_town.close()
            self.second_town = None if order is None else self._create_town(order, body.run)
            town.set_follower(self.second_town)
        town.notify_pages()

    def swap(self) -> None:
        """Exchange the town with the one beside it: what a person does is of the other then."""
        with self._town_lock:
            town, second = self.town, self.second_town
            if town is None or second is None:
                raise ConfigError("there is no town beside the present one")
            if not town.is_over:
                town.control("pause")
            self.town, self.second_town = second, town
            second.set_follower(town)
        second.notify_pages()

    def citizen(self, id: str) -> dict[str, Any]:
        """Return what the card of a citizen shows."""
        town, society = self._ready_town()
        respondent = society.respondent(id)
        relations = sorted(
            respondent.status.get("relations", {}).items(), key=lambda each: -each[1]
        )
        return {
            "id": respondent.id,
            "name": respondent.name,
            "status": respondent.status,
            "relations": relations[:_MAX_RECENT],
            "stream": respondent.stream[: -_MAX_RECENT - 1 : -1],
            "messages": town.messages(id)[: -_MAX_RECENT - 1 : -1],
            "own": town.custom_values(respondent.status),
        }

    def find(self, name: str) -> list[list[str]]:
        """Return the citizens whose names begin with `name`, as [id, name, home]."""
        from moothall.society import CitizenAgent

        agents = self._ready_town()[1].agents
        prefix = name.strip().casefold()
        matches = (
            [str(agent.id), agent.name or "", agent.memory.status.get("home") or ""]
            for agent in agents
            if isinstance(agent, CitizenAgent) and (agent.name or "").casefold().startswith(prefix)
        )
        if rows := list(itertools.islice(matches, _MAX_LISTED)):
            return rows
        raise ConfigError(f"there is no citizen whose name begins with {name!r:.80}")

    def checkpoints(self) -> list[dict[str, int]]:
        """Return the checkpoints, from which a fork may continue: step and number of each."""
        entries = self._hub.journal.entries(self._ready_town()[0].run_id)
        return [
            {"step": int(each.state["step"]), "entry": each.sequence}
            for each in entries
            if each.state is not None and not each.path
        ]

    def events(self, town: int = 0, after: int = 0) -> dict[str, Any]:
        """Return what has happened in the town after an event: the last of it."""
        shown_town, _ = self._ready_town()
        return shown_town.events(max(0, after) if town == shown_town.number else 0)

    def table(self) -> Response:
        """Return the charts of the town's steps, to be kept as a file."""
        town, _ = self._ready_town()
        return attachment(town.as_csv(), f"town-{town.run_id}", "csv", "text/csv")

    def log(self) -> dict[str, Any]:
        """Return what was asked and changed, the newest first."""
        town, society = self._ready_town()
        failures = [
            [step, reason]
            for step, author, reason in [*society.failures]
            if author == "intervention"
        ]
        changes = [  # what closes, opens, sets a fact or announces cannot fail
            [
                each.at_step,
                each.in_words(),
                [
                    reason
                    for step, reason in failures
                    if step == each.at_step and (each.pay or each.status)
                ],
            ]
            for each in society.interventions
        ]
        return {"said": [*town.interviews][::-1], "changes": changes[::-1]}

    def control(self, body: RunControl) -> None:
        """Play, pause, live one step, or set the speed."""
        self._ready_town()[0].control(body.do, body.speed)

    async def interview(self, body: CitizenQuestion) -> None:
        """Ask one citizen, between two steps."""
        town, society = await asyncio.to_thread(self._ready_town)
        answer = await society.interview(body.citizen, body.question, model=body.make_model())
        answer_data = {"answer": str(answer), "source": answer.source, "reason": answer.reason}
        town.add_interview({"kind": "interview", **body.model_dump(), **answer_data})

    async def survey(self, body: SurveyOfAll) -> None:
        """Ask several citizens one question, between two steps."""
        town, society = await asyncio.to_thread(self._ready_town)
        town.add_interview(await body.run(society, town.order.model is not None))

    def intervene(self, change: Change) -> int:
        """Change the world at the start of the next step; return that step's number."""
        from moothall.society import Intervention

        town, society = self._ready_town()
        step = town.intervene(**change.arguments_for(society))
        reopen_step = step + math.ceil(change.hours * 3600 / society.clock.step_s)
        closes = change.close or change.close_roads
        if closes and step < reopen_step < town.order.steps:
            reopened: dict[str, Any] = {"open": change.close, "open_roads": change.close_roads}
            society.intervene(Intervention(reopen_step, **reopened))
            town.notify_pages()
        return step

    def routes(self, router: APIRouter) -> None:
        """Add a route for each method that pages call, under its name."""
        self.experiments.routes(router)
        queries = (self.frame, self.map, self.citizen, self.find)
        for endpoint in (*queries, self.checkpoints, self.log, self.events, self.recorded):
            router.get(f"/{endpoint.__name__}")(endpoint)
        router.get("/table.csv")(self.table)
        commands = (self.control, self.interview, self.survey)
        for command in (*commands, self.intervene, self.put_beside, self.swap):
            router.post(f"/{command.__name__}")(command)


def _check_may_end(town: Town | None) -> None:
    """Raise WouldEnd if a town lives and the person at the page has not agreed that it ends."""
    if town is not None and not town.is_over:
        WouldEnd.unless_agreed(
            f"The town of {town.order.task} has not ended: it is at step {town.step}. If you go "
            "on, it ends, and is kept under “Resume a recorded town”.",
            town.number,
        )
