"""The tab Society: a town is set up or goes on, plays, and is asked and changed meanwhile."""

from __future__ import annotations

import itertools
import json
import secrets
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field

from civitas.errors import ConfigError
from civitas.studio.society.form import form
from civitas.studio.society.town import MOST, Town

if TYPE_CHECKING:
    from fastapi import APIRouter

    from civitas.orders.simulate import SimulateOrder
    from civitas.society.experiments.intervention import Intervention
    from civitas.society.experiments.survey import Respondent
    from civitas.studio.studio import Studio

_LISTED: Final = 200
"""So many answers to a survey a page shows one by one."""
_RECENT: Final = 12
"""So many events, messages and relations a citizen's card shows."""


class Change(BaseModel):
    """An intervention, as a page asks for it."""

    kind: Literal["news", "close", "open", "fact", "pay"]
    text: str = Field("", max_length=2_000)
    name: str = Field("", max_length=200)
    amount: float = 0


class Asked(BaseModel):
    """A survey of one question, as a page asks for it."""

    text: str = Field(min_length=1, max_length=2_000)
    kind: Literal["scale", "yes_no", "choice"]
    choices: list[str] = []
    by: str = ""
    count: int = Field(100, ge=1, le=MOST)


class SocietyTab:
    """One town at a time, which every page sees.

    Attributes:
        town: the town; None before one is set up
    """

    name = "society"
    title = "Society"

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._numbers = itertools.count(1)
        self._changing = threading.Lock()
        self.town: Town | None = None

    # -- setting up --------------------------------------------------------------------------------

    def set_up(self, order: SimulateOrder, run_id: str | None = None) -> None:
        """Make a town, in place of the one that there is, whose run can go on later.

        Args:
            order: what is simulated
            run_id: the run to go on with; a new one if left out
        """
        id, studio = run_id or secrets.token_hex(8), self._studio
        studio.runs.watch(id)
        with self._changing:
            self._end()
            self.town = Town(next(self._numbers), order, id, studio.journal, studio.feed.publish)
        self.town.tell()

    def load(self, run_id: str) -> None:
        """Go on with a recorded run from its last checkpoint.

        Raises:
            ConfigError: it was begun by a program, or is no run of a society
            NoSuchRun: there is no such run
        """
        from civitas.orders.order import order_of
        from civitas.orders.simulate import SimulateOrder

        order = order_of(self._studio.journal.entries(run_id))
        if not isinstance(order, SimulateOrder):
            raise ConfigError(
                f"run {run_id} states no town: only the program that began it can go on"
            )
        self.set_up(order, run_id)

    def recorded(self) -> list[tuple[str, str]]:
        """The runs of societies, the last first, as (label, id)."""
        mine = None if self.town is None else self.town.run_id
        return [
            (f"{run.task} · {'here' if run.id == mine else run.state} · {run.id}", run.id)
            for run in reversed(self._studio.journal.runs())
            if run.kind == "Society"
        ]

    def close(self) -> None:
        """End the town that there is."""
        with self._changing:
            self._end()

    def _end(self) -> None:
        town, self.town = self.town, None
        if town is not None:
            town.close()

    def _there(self) -> Town:
        if self.town is None:
            raise ConfigError("there is no town: set one up, or go on with a recorded one")
        return self.town

    # -- what pages ask ----------------------------------------------------------------------------

    def citizen(self, id: str) -> dict[str, Any]:
        """What the card of a citizen shows."""
        town = self._there()
        society = town.living()
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
            "step_s": society.clock.step_s,
            "start": society.clock.start.isoformat(),
        }

    def log(self) -> dict[str, Any]:
        """What was asked and changed, the last first."""
        society = self._there().living()
        failed = [[step, why] for step, who, why in [*society.failures] if who == "intervention"]
        changes = [[each.at_step, _in_words(each)] for each in society.interventions]
        return {"said": [*self._there().said][::-1], "changes": changes[::-1], "failed": failed}

    async def interview(self, citizen: str, question: str) -> dict[str, Any]:
        """Ask one citizen, between two steps."""
        town = self._there()
        society = town.living()
        said = await society.interview(citizen, question)
        answer = {
            "kind": "interview",
            "step": society.number,
            "citizen": citizen,
            "question": question,
            "answer": str(said),
            "source": said.source,
            "reason": said.reason,
        }
        town.said.append(answer)
        town.changed()
        return answer

    async def survey(self, asked: Asked) -> dict[str, Any]:
        """Ask several citizens one question, between two steps."""
        from civitas.society.experiments.survey import Question, Survey

        town = self._there()
        society = town.living()
        choices = tuple(each.strip() for each in asked.choices if each.strip())
        question = Question("answer", asked.text, asked.kind, choices, by=_rule(asked, choices))
        ids = society.ids()
        every = max(1, len(ids) // asked.count)
        answers = await society.survey(Survey("survey", [question]), ids[::every][: asked.count])
        counts = Counter(json.dumps(each.value) for each in answers)
        made = {
            "kind": "survey",
            "step": society.number,
            "question": asked.text,
            "counts": [[json.loads(value), number] for value, number in sorted(counts.items())],
            "sources": Counter(each.source for each in answers),
            "answers": [
                [each.citizen, each.value, each.source, each.reason] for each in answers[:_LISTED]
            ],
            "asked": len(answers),
        }
        town.said.append(made)
        town.changed()
        return made

    def intervene(self, change: Change) -> int:
        """Change the world at the start of the next step; gives its number."""
        town = self._there()
        society = town.living()
        text, name = change.text.strip(), change.name.strip()
        if change.kind in ("news", "fact") and not text:
            raise ConfigError("write a text first")
        if change.kind == "news":
            return town.intervene(news=[text])
        if change.kind == "fact":
            return town.intervene(facts={name: _value(text)})
        if change.kind == "pay":
            return town.intervene(pay=self._payments(name, change.amount))
        if name not in society.city.ids():
            raise ConfigError(f"there is no place {name!r}: hover over the map to see their names")
        return town.intervene(**{change.kind: [name]})

    def _payments(self, to: str, amount: float) -> list[tuple[str, str, int]]:
        books = self._there().living().books
        ids = [to] if to else list(books.where)
        if to and to not in books.where:
            raise ConfigError(f"there is no citizen {to!r}")
        if not 0.01 <= amount <= 1e9:
            raise ConfigError(f"the amount must be 0.01 or more, got {amount:g}")
        cents, has = round(amount * 100), books.balances.get("government", 0)
        if cents * len(ids) > has:
            raise ConfigError(
                f"the government has {has / 100:,.2f}, and {amount:,.2f} for "
                f"{len(ids):,} citizens are {cents * len(ids) / 100:,.2f}"
            )
        return [("government", id, cents) for id in ids]

    def routes(self, router: APIRouter) -> None:
        """What pages call."""
        from fastapi import Body, Response

        @router.get("/frame", response_class=Response)
        def frame(town: int = 0, after: int = 0) -> Any:
            if self.town is None:
                told = b'{"town": 0, "state": "none"}'
                packed = struct.pack("<I", len(told)) + told
            else:
                packed = self.town.frame(max(0, after) if town == self.town.number else 0)
            return Response(packed, media_type="application/octet-stream")

        @router.get("/map")
        def plan() -> dict[str, Any]:
            return self._there().plan()

        @router.get("/citizen")
        def citizen(id: str) -> dict[str, Any]:
            return self.citizen(id)

        @router.get("/log")
        def log() -> dict[str, Any]:
            return self.log()

        @router.post("/control")
        def control(
            do: Literal["play", "pause", "step"] | None = Body(None, embed=True),
            speed: Literal[0, 1, 2, 4, 10] | None = Body(None, embed=True),
        ) -> dict[str, Any]:
            town = self._there()
            if speed is not None:
                town.pace(speed)
            if do is not None:
                getattr(town, do)()
            return {"state": town.state}

        @router.post("/interview")
        async def interview(
            citizen: str = Body(embed=True),
            question: str = Body(embed=True, min_length=1, max_length=2_000),
        ) -> dict[str, Any]:
            return await self.interview(citizen, question)

        @router.post("/survey")
        async def survey(asked: Asked) -> dict[str, Any]:
            return await self.survey(asked)

        @router.post("/intervene")
        def intervene(change: Change) -> dict[str, Any]:
            return {"step": self.intervene(change)}

    def form(self) -> None:
        """Set up, or go on with a recorded run."""
        form(self.set_up, self.load, self.recorded)


def _rule(asked: Asked, choices: tuple[str, ...]) -> Callable[[Respondent], Any] | None:
    """How a citizen without a model answers: a need or opinion of it, laid over the answers."""
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
    """A fact as a person wrote it: a number or a truth value, else a text."""
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
    if change.pay:
        sender, to, cents = change.pay[0]
        whom = f"citizen {to}" if len(change.pay) == 1 else f"each of {len(change.pay):,} citizens"
        said.append(f"{sender} pays {cents / 100:,.2f} to {whom}")
    said += [f"sets {name} of citizens" for name in change.status]
    return "; ".join(said)
