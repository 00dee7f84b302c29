"""Twenty small towns, and the digests of their citizens, services and messages after each step."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.society.blocks.living import steady
from tests.society.minds import BUSY, Mind

from moothall import AgentToolbox
from moothall.society import (
    CitizenAgent,
    City,
    Feed,
    Intervention,
    LabourMarket,
    LocalEngine,
    Move,
    Network,
    Pay,
    PeopleParams,
    Population,
    Society,
    citizens,
    make_economy,
    make_people,
)
from moothall.society.blocks import all_blocks
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.economy import EconomyBlock, EconomyBlockParams
from moothall.society.blocks.feed import FeedBlock, FeedBlockParams
from moothall.society.blocks.mobility import MobilityBlock, MobilityBlockParams
from moothall.society.blocks.needs import NeedsBlock, NeedsBlockParams
from moothall.society.blocks.other import OtherBlock
from moothall.society.blocks.plan import PlanBlock, PlanBlockParams
from moothall.society.blocks.social import SocialBlock, SocialBlockParams

STEPS = 96
HALF_HOUR, HOUR = 1800, 3600


class Tidies(CitizenBlock):
    """A block of one's own: it reads and changes needs, counts, and pays another citizen."""

    description = "Tidies up"

    async def before_forward(self) -> None:
        """Count the steps, and tidy up where the act before was at home."""
        status = self.status
        status["tidied"] = status.get("tidied", 0) + (status.get("act") == "idle")
        needs = status.get("needs", {})
        if self.draws.below(4, "tidies") == 0 and needs.get("energy", 0) > 400:
            needs["energy"] -= 3
            needs["safety"] = min(1000, needs["safety"] + 2)

    async def forward(self) -> None:
        """Nothing: it never fits."""

    async def after_forward(self) -> None:
        """Pay a neighbour now and then."""
        if self.status.get("act") == "shop":
            to = str(1 + self.draws.below(12, "tidies.to"))
            if to != str(self.agent.id):
                self.want(Pay(to, 1 + self.draws.below(500, "tidies.cents")))

    def fits(self, context: Any) -> float:
        """It never fits."""
        return 0.0


class Walks(CitizenBlock):
    """A block of one's own: at five it walks to a park, whatever the plan says."""

    description = "Walks"

    async def forward(self) -> None:
        """Set out for the first park."""
        self.act("leisure")
        parks = self.city.by_kind("park")
        if parks and self.perceived.place not in (None, parks[0]):
            self.want(Move(parks[0], "walk"))

    def fits(self, context: Any) -> float:
        """It fits best at five."""
        hour = self.perceived.time // HOUR
        return 5.0 if hour == 17 and not self.status.get("moving") else 0.0


@dataclass
class Town:
    """A town, from which a society of agents or of rows is made anew."""

    count: int
    seed: int
    services: Callable[[Any], Iterable[Any]] = lambda city: ()
    blocks: Callable[[], list[Any]] = all_blocks
    city: Callable[[int, int], Any] = lambda seed, count: City.generate(seed=seed, citizens=count)
    changes: Callable[[Any], Iterable[Intervention]] = lambda city: ()
    step: int = 900
    start: str = "2026-01-05T00:00"
    params: PeopleParams = field(default_factory=PeopleParams)
    own: Callable[[int], list[Any]] | None = None
    model: Callable[[int], Any] | None = None
    names: bool = False

    @property
    def only_rules(self) -> bool:
        """Whether all citizens live by the shipped rules, so that they may be rows."""
        return self.own is None and self.model is None and not self.names

    def made(self, rows: int = 0, **more: Any) -> Society:
        """Return the society before its first step, of agents or as rows in so many parts."""
        city = self.city(self.seed, self.count)
        services = [*self.services(city)]
        options: dict[str, Any] = {"services": services, "start": self.start, **more}
        if rows:
            people = Population(self.count, city, self.blocks(), self.seed, people=self.params)
            return Society(people, engine=LocalEngine(threads=rows), **options)
        drawn = make_people(city, self.count, seed=self.seed, params=self.params)
        return Society(self.agents(drawn), city, seed=self.seed, **options)

    def agents(self, drawn: list[dict[str, Any]]) -> list[CitizenAgent]:
        """Return the citizens as agents, some with blocks of their own, names or a model."""
        if self.names:
            called = {str(row["id"]): f"{row['name'].lower()}-{row['id']}" for row in drawn}
            for row in drawn:
                row["id"] = called[str(row["id"])]
                for key in ("relations", "kin"):
                    if key in row:
                        row[key] = {called[id]: value for id, value in row[key].items()}
        made = []
        for number, row in enumerate(drawn):
            blocks = self.own(number) if self.own is not None else self.blocks()
            model = None if self.model is None else self.model(number)
            toolbox = AgentToolbox(model)
            made += citizens([row], lambda blocks=blocks: blocks, toolbox=toolbox)  # type: ignore[misc]
        return made


def with_own(number: int) -> list[Any]:
    """Return all blocks, with the own ones in the midst and last for every third citizen."""
    blocks: list[Any] = all_blocks()
    if number % 3 == 0:
        blocks.insert(3, Tidies())
        blocks.append(Walks())
    return blocks


def minds(number: int) -> Any:
    """Return a model for every fourth citizen."""
    return Mind(BUSY) if number % 4 == 0 else None


def economy(city: Any) -> list[Any]:
    """Return the services of `make_economy`, and a feed."""
    return [*make_economy(city, seed=3), Feed()]


def lively(city: Any) -> list[Any]:
    """Return an economy that changes much: many leave their jobs, and prices move each week."""
    labour = LabourMarket(seed=4, leaves=100_000, finds=200_000, layoff_day=1, layoffs=300)
    return [*make_economy(city, seed=4, days=1, labour=labour), Feed(most=8)]


def village(seed: int, count: int) -> Any:
    """Return a city of nodes and links, without hours and capacities."""
    homes = {f"home-{number}": "home" for number in range(9)}
    others = {"mill": "work", "class": "school", "green": "park", "inn": "restaurant"}
    places = {**homes, **others, "stall": "shop", "store": "shop"}
    return Network(places, [(home, place) for home in homes for place in others | {"stall": 1}])


def blocks_of(**params: Any) -> Callable[[], list[Any]]:
    """Return a function that makes all blocks with parameters of some."""
    plan = params.get("plan")

    def made() -> list[Any]:
        return [
            NeedsBlock(block_params=NeedsBlockParams(**params.get("needs", {}))),
            steady(**plan) if plan else PlanBlock(block_params=PlanBlockParams()),
            MobilityBlock(block_params=MobilityBlockParams(**params.get("mobility", {}))),
            SocialBlock(block_params=SocialBlockParams(**params.get("social", {}))),
            EconomyBlock(block_params=EconomyBlockParams(**params.get("economy", {}))),
            OtherBlock(),
            FeedBlock(block_params=FeedBlockParams(**params.get("feed", {}))),
        ]

    return made


def upset(city: Any) -> list[Intervention]:
    """Return changes of all kinds: closed places, new homes, needs, payments, news, words."""
    return [
        Intervention(20, close=["park"], news=["The parks are closed."]),
        Intervention(34, status={"home": city.by_kind("home")[0]}, citizens=[2, 3]),
        Intervention(40, status={"needs": {"hunger": 5}}, citizens=[4, 5, 6]),
        Intervention(48, pay=[["government", "everyone", 700]]),
        Intervention(60, open=["park"], close=["shop"]),
        Intervention(80, open=["shop"], status={"needs": {"social": 100}}),
    ]


TOWNS: dict[str, Town] = {
    "plain day": Town(16, 1),
    "economy and feed": Town(20, 2, economy),
    "weekend": Town(18, 3, economy, start="2026-01-10T00:00"),
    "half hours": Town(16, 4, economy, step=HALF_HOUR),
    "hours": Town(14, 5, economy, step=HOUR),
    "long steps": Town(14, 6, economy, step=3 * HOUR, start="2026-01-02T06:00"),
    "month's end": Town(12, 7, lambda c: make_economy(c, seed=7), step=8 * HOUR),
    "moving labour": Town(24, 8, lively, step=HOUR),
    "changes": Town(18, 9, economy, changes=upset),
    "village": Town(14, 10, lambda c: [*make_economy(c, seed=1), Feed()], city=village),
    "village without services": Town(12, 11, city=village, step=HOUR),
    "poor": Town(16, 12, economy, params=PeopleParams(money_median=200, employed=20)),
    "hungry": Town(14, 13, economy, blocks_of(needs={"hunger": 800, "social": 900, "speed": 3000})),
    "diners": Town(14, 14, economy, blocks_of(plan={"dines": 1000}, economy={"meal": 900})),
    "explorers": Town(14, 15, economy, blocks_of(mobility={"rho": 1000, "gamma": 0, "wait": 1})),
    "drivers": Town(12, 16, economy, blocks_of(mobility={"mode": "drive", "candidates": 2})),
    "talkers": Town(
        14,
        17,
        economy,
        blocks_of(
            needs={"social": 950},
            social={"friends": 40, "fading": 900, "here": 300},
            feed={"posts": 600, "likes": 900, "follows": 900},
        ),
    ),
    "own blocks": Town(15, 18, economy, own=with_own),
    "minds": Town(12, 19, economy, model=minds),
    "names": Town(12, 20, economy, names=True),
}


# -- what is recorded ------------------------------------------------------------------------------

_NOTHING = (None, False, 0, -1, "")


def plain(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a citizen's status without what says nothing, and its plan from now on."""
    made = dict(status)
    now = made.pop("now", None) or 0
    made["plan"] = (made.get("plan") or [])[now:]
    made["stuck"] = bool(made.get("stuck"))
    made["relations"] = [[*each] for each in (made.get("relations") or {}).items()]
    found: dict[str, Any] = _some(made)
    return found


def _some(value: Any) -> Any:
    if isinstance(value, Mapping):
        made = {str(key): _some(each) for key, each in value.items()}
        return {key: each for key, each in made.items() if each not in _NOTHING and each != {}}
    return [_some(each) for each in value] if isinstance(value, list | tuple) else value


def digest(value: Any) -> str:
    """Return a short hash of JSON data."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass
class Record:
    """The digests of a town: one of each step, and one of each part over all steps."""

    steps: list[str] = field(default_factory=list)
    parts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, parts: Mapping[str, Any]) -> None:
        """Add a step."""
        made = {name: digest(value) for name, value in parts.items()}
        self.steps.append(digest(made))
        for name, each in made.items():
            self.parts.setdefault(name, []).append(each)

    def as_json(self) -> dict[str, Any]:
        """Return the record as it is kept."""
        return {
            "steps": "".join(self.steps),
            "parts": {name: digest(each) for name, each in sorted(self.parts.items())},
        }


async def lived(town: Town, rows: int = 0) -> dict[str, Any]:
    """Let a town live, of agents or as rows in so many parts; return the digests of all steps."""
    record, said = Record(), list[Any]()
    async with town.made(rows) as society:
        people = society.population
        society.observe(
            lambda m: said.append([m["from"], m["to"], m["action"]["name"], m["action"]["args"]]),
            everywhere=True,
        )
        for each in town.changes(society.city):
            society.intervene(each)

        def look(row: dict[str, Any]) -> None:
            statuses = (
                [each.status for each in society.agents]
                if people is None
                else [people.status_of(number) for number in range(len(people))]
            )
            by_key: dict[str, list[Any]] = {}
            for number, status in enumerate(map(plain, statuses)):
                for key, value in status.items():
                    by_key.setdefault(key, []).append([number, value])
            services = society.books.state_dict()
            record.add(
                {f"citizens.{key}": each for key, each in by_key.items()}
                | {f"service.{id}": each for id, each in services.items()}
                | {"messages": sorted(said, key=json.dumps), "metrics": _some(row)}
            )
            said.clear()

        await society.run(steps=STEPS, step=town.step, progress=look)
        assert not society.failures, list(society.failures)
    return record.as_json()


FILE = Path(__file__).with_name("towns.json")


def main() -> None:
    """Record all towns anew: `python -m tests.society.golden.towns`."""
    made = {name: asyncio.run(lived(town)) for name, town in TOWNS.items()}
    FILE.write_text(json.dumps(made, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
