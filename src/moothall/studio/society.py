"""The tab Society: set up or resume a town, play it, ask its citizens and change its world."""

from __future__ import annotations

import itertools
import json
import secrets
from collections import Counter
from collections.abc import Callable
from os import environ
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel
from pydantic import Field as Checked

from moothall.errors import ConfigError
from moothall.orders.named_models import made_model
from moothall.orders.order import order_of, without_keys
from moothall.orders.simulate import SimulateOrder, check
from moothall.studio.page import Field, Form
from moothall.studio.watched_society import MOST, Town, with_head
from moothall.threads import guard

if TYPE_CHECKING:
    from fastapi import APIRouter

    from moothall.society.kernel.intervention import Intervention
    from moothall.society.society import Society
    from moothall.society.survey import Respondent
    from moothall.studio.hub import Hub

_LISTED: Final = 200
"""The most answers to a survey, or citizens of a name, that a page lists."""
_RECENT: Final = 12
"""The most events, the most messages and the most relations on a citizen's card."""


class Control(BaseModel):
    """A page's control of the run: play, pause, one step, or another speed."""

    do: Literal["play", "pause", "step"] | None = None
    speed: Literal[0, 1, 2, 4, 10] | None = None


class Change(BaseModel):
    """An intervention that a page requests."""

    kind: Literal["news", "close", "open", "fact", "pay"]
    text: str = Checked("", max_length=2_000)
    name: str = Checked("", max_length=200)
    amount: float = Checked(0, ge=0, le=1e12)


class Asked(BaseModel):
    """A question of a page to one citizen."""

    citizen: str
    question: str = Checked(min_length=1, max_length=2_000)


class AskedAll(BaseModel):
    """A survey of one question that a page requests."""

    text: str = Checked(min_length=1, max_length=2_000)
    kind: Literal["scale", "yes_no", "choice"]
    choices: list[str] = []
    by: str = Checked("", max_length=200)
    citizens: int = Checked(100, ge=1, le=MOST)


class SocietyTab:
    """One town at a time, which every page sees."""

    name = "society"
    title = "Society"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._numbers = itertools.count(secrets.randbits(40) + 1)  # of each program others
        self._changing = guard()
        self.town: Town | None = None

    # -- setting up --------------------------------------------------------------------------------

    def set_up(self, order: SimulateOrder, run_id: str | None = None) -> None:
        """Make a town or resume a run; the present town ends and can be resumed later.

        Raise ConfigError or ModelError if the seed or model cannot be used; the present town then
        stays.
        """
        id, hub = run_id or secrets.token_hex(8), self._hub
        if not 0 <= order.seed < 1 << 64:
            raise ConfigError(f"--seed must be from 0 to {2**64 - 1}, got {order.seed}")
        if order.model is not None:
            made_model(order.model, environ.get("MOOTHALL_KEY"))
        with self._changing:
            self.close()
            self.town = Town(next(self._numbers), order, id, hub.journal, hub.feed.publish)
        self.town.tell()

    def load(self, run_id: str) -> None:
        """Resume a recorded run from its last checkpoint; ConfigError if it records no town."""
        order = order_of(self._hub.journal.entries(run_id))
        if not isinstance(order, SimulateOrder):
            raise ConfigError(
                f"run {run_id} records no town: only the program that began it can resume it"
            )
        self.set_up(order, run_id)

    def close(self) -> None:
        """End the present town, if there is one."""
        with self._changing:
            town, self.town = self.town, None
            if town is not None:
                town.close()

    def forms(self) -> list[Form]:
        """Return the form that sets up a town, and the one that resumes a recorded one."""
        there = self.town is not None
        ends = "The town that is shown ends; it is kept under Recorded towns." if there else ""
        steps = [(each, each) for each in ("5min", "15min", "30min", "1h")]
        fields = [
            Field(name="citizens", label="Citizens", kind="whole", value=300),
            Field(name="days", label="Days", kind="number", value=1),
            Field(
                name="step", label="Length of a step", kind="choice", options=steps, value="15min"
            ),
            Field(name="seed", label="Seed", kind="whole", value=0),
            Field(name="model", label="Model", hint="none: by rules", more=True),
            Field(name="calls", label="Calls of it at most", kind="whole", value=1000, more=True),
        ]
        new = Form(
            name="new",
            title="Set up a town",
            fields=fields,
            start=lambda **given: self.set_up(_order(**given)),
            button="Set up",
            is_open=not there,
            about=ends,
        )
        recorded = self._recorded()
        if not recorded:
            return [new]
        field = Field(
            name="run_id", label="Recorded towns", kind="choice", options=recorded, wide=True
        )
        resume = Form(
            name="resume",
            title="Resume a recorded town",
            fields=[field],
            start=self._chosen,
            button="Resume",
            about=ends,
        )
        return [new, resume]

    def _chosen(self, run_id: str | None) -> None:
        if not run_id:
            raise ConfigError("choose a recorded town first")
        self.load(run_id)

    def _recorded(self) -> list[tuple[str, str]]:
        """Return the runs of societies, the newest first, as (id, label)."""
        mine = None if self.town is None else self.town.run_id
        return [
            (run.id, f"{run.task} · {'here' if run.id == mine else run.state} · {run.id}")
            for run in reversed(self._hub.journal.runs(kind="Society"))
        ]

    # -- what pages ask ----------------------------------------------------------------------------

    def _living(self) -> tuple[Town, Society]:
        if self.town is None:
            raise ConfigError("there is no town: set one up, or resume a recorded one")
        return self.town, self.town.living()

    def frame(self, town: int = 0, after: int = 0, layer: str = "") -> Any:
        """Return the town's frame; the page already has the rows of metrics before `after`."""
        from fastapi import Response

        if self.town is None:
            packed = with_head({"town": 0, "state": "none"})
        else:
            packed = self.town.frame(max(0, after) if town == self.town.number else 0, layer)
        return Response(packed, media_type="application/octet-stream")

    def map(self) -> dict[str, Any]:
        """Return bounds, places and roads."""
        return self._living()[0].plan()

    def citizen(self, id: str) -> dict[str, Any]:
        """Return what the card of a citizen shows."""
        town, society = self._living()
        found = society.respondent(id)
        relations = sorted(found.status.get("relations", {}).items(), key=lambda each: -each[1])
        spoken = [each for each in [*town.messages] if id in each[1:3]]
        return {
            "id": found.id,
            "name": found.name,
            "status": found.status,
            "relations": relations[:_RECENT],
            "stream": found.stream[: -_RECENT - 1 : -1],
            "messages": spoken[: -_RECENT - 1 : -1],
        }

    def find(self, name: str) -> list[list[str]]:
        """Return the citizens whose names begin with `name`, as [id, name, home]."""
        from moothall.society import CitizenAgent

        agents = self._living()[1].agents
        sought = name.strip().casefold()
        found = (
            [str(agent.id), agent.name or "", agent.memory.status.get("home") or ""]
            for agent in agents
            if isinstance(agent, CitizenAgent) and (agent.name or "").casefold().startswith(sought)
        )
        if listed := list(itertools.islice(found, _LISTED)):
            return listed
        raise ConfigError(f"there is no citizen whose name begins with {name!r:.80}")

    def kept(self) -> list[dict[str, int]]:
        """Return the checkpoints, from which a fork may continue: step and number of each."""
        entries = self._hub.journal.entries(self._living()[0].run_id)
        return [
            {"step": int(each.data["state"]["step"]), "entry": each.sequence}
            for each in entries
            if each.kind == "state" and not each.path
        ]

    def events(self, town: int = 0, after: int = 0) -> dict[str, Any]:
        """Return what has happened in the town after an event: the last of it."""
        now, _ = self._living()
        return now.events(max(0, after) if town == now.number else 0)

    def log(self) -> dict[str, Any]:
        """Return what was asked and changed, the newest first."""
        town, society = self._living()
        failed = [[step, why] for step, who, why in [*society.failures] if who == "intervention"]
        changes = [  # what closes, opens, sets a fact or announces cannot fail
            [
                each.at_step,
                _in_words(each),
                [why for step, why in failed if step == each.at_step and (each.pay or each.status)],
            ]
            for each in society.interventions
        ]
        return {"said": [*town.said][::-1], "changes": changes[::-1]}

    def control(self, asked: Control) -> None:
        """Play, pause, live one step, or set the speed."""
        self._living()[0].control(asked.do, asked.speed)

    async def interview(self, asked: Asked) -> None:
        """Ask one citizen, between two steps."""
        town, society = self._living()
        said = await society.interview(asked.citizen, asked.question)
        told = {"answer": str(said), "source": said.source, "reason": said.reason}
        town.note({"kind": "interview", **asked.model_dump(), **told})

    async def survey(self, asked: AskedAll) -> None:
        """Ask several citizens one question, between two steps."""
        from moothall.society.survey import Question, Survey

        town, society = self._living()
        if not asked.by and town.order.model is None:
            raise ConfigError("there is no model: choose which state stands for the answer")
        choices = tuple(each.strip() for each in asked.choices if each.strip())
        if asked.kind == "choice" and len({*choices}) < max(2, len(choices)):
            raise ConfigError("write two choices or more, each once, with commas between them")
        question = Question("answer", asked.text, asked.kind, choices, by=_rule(asked, choices))
        ids = [*society.books.where]
        every = max(1, len(ids) // asked.citizens)
        answers = await society.survey(Survey("survey", [question]), ids[::every][: asked.citizens])
        counts = Counter(json.dumps(each.value) for each in answers)
        shown = [[each.citizen, each.value, each.source, each.reason] for each in answers[:_LISTED]]
        town.note(
            {
                "kind": "survey",
                "question": asked.text,
                "by": asked.by,
                "asked": len(answers),
                "counts": [[json.loads(value), number] for value, number in sorted(counts.items())],
                "sources": Counter(each.source for each in answers),
                "answers": shown,
            }
        )

    def intervene(self, change: Change) -> int:
        """Change the world at the start of the next step; return that step's number."""
        town, society = self._living()
        text, name = change.text.strip(), change.name.strip()
        if change.kind == "pay":
            return town.intervene(pay=[_payment(society, name, change.amount)])
        if change.kind in ("close", "open"):
            return town.intervene(**{change.kind: [name]})
        if not text:
            raise ConfigError("write a text first")
        if change.kind == "news":
            return town.intervene(news=[text])
        return town.intervene(facts={name: _value(text)})

    def routes(self, router: APIRouter) -> None:
        """Add a route for each method that pages call, under its name."""
        for shown in (
            self.frame,
            self.map,
            self.citizen,
            self.find,
            self.kept,
            self.log,
            self.events,
        ):
            router.get(f"/{shown.__name__}")(shown)
        for done in (self.control, self.interview, self.survey, self.intervene):
            router.post(f"/{done.__name__}")(done)


def _order(
    citizens: int | None,
    days: float | None,
    step: str,
    seed: int | None,
    model: str,
    calls: int | None,
) -> SimulateOrder:
    if not 10 <= (citizens or 0) <= MOST:
        raise ConfigError(f"citizens must be from 10 to {MOST:,}, got {citizens}")
    named = model.strip() or None
    most = calls or None if named else None
    town = (int(citizens or 0), float(days or 0), seed or 0)
    order = SimulateOrder(*town, step, named, max_calls=most)
    check(order)
    without_keys(order)
    if order.is_remote and not most:
        raise ConfigError("a model on a server needs a limit: say how often it may be called")
    return order


def _payment(society: Society, to: str, amount: float) -> tuple[str, str, int]:
    """Return the government's payment to one citizen or all; ConfigError if it lacks the money."""
    books, cents = society.books, round(amount * 100)
    if to and to not in books.where:
        raise ConfigError(f"there is no citizen {to!r:.80} who could be paid")
    has, pays = books.balances.get("government", 0), cents * (1 if to else len(books.where))
    if not 0 < pays <= has:
        raise ConfigError(f"the government has {has / 100:,.2f}, and is to pay {pays / 100:,.2f}")
    return "government", to or "everyone", cents


def _rule(asked: AskedAll, choices: tuple[str, ...]) -> Callable[[Respondent], Any] | None:
    """Return how a citizen without a model answers: its need or opinion, scaled to the answers."""
    of, _, name = asked.by.partition(" ")
    low, high = {"need": (0, 1000), "opinion": (-1000, 1000)}.get(of, (0, 0))
    if low == high:
        return None

    def rule(respondent: Respondent) -> Any:
        part = (respondent.status[f"{of}s"][name] - low) / (high - low)
        if asked.kind == "yes_no":
            return part >= 0.5
        if asked.kind == "scale":
            return 1 + round(part * 4)
        return choices[min(int(part * len(choices)), len(choices) - 1)]

    return rule


def _value(text: str) -> Any:
    """Read a fact that a person wrote: a number or a truth value, else a text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _in_words(change: Intervention) -> str:
    said = [f"news: {each}" for each in change.news]
    said += [f"closes {each}" for each in change.close]
    said += [f"opens {each}" for each in change.open]
    said += [f"{name} is {value}" for name, value in change.facts.items()]
    for sender, to, cents in change.pay:
        whom = to if to == "everyone" else f"citizen {to}"
        said.append(f"{sender} pays {cents / 100:,.2f} to {whom}")
    return "; ".join(said)
