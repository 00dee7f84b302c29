"""A citizen in one moment, outside of a society: what its blocks do is seen in its status."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable
from typing import Any

from moothall.agents.dispatch import AgentToolbox
from moothall.society.blocks.plan import PlanBlock, PlanBlockParams
from moothall.society.city.city import City
from moothall.society.city.map import Place
from moothall.society.clock import Clock
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.perception import Perception, View

HOUR = 3600


def town(**hours: tuple[int, int]) -> City:
    """A home, an office, two shops, a park and a restaurant on one street; hours by place."""

    def place(id: str, kind: str, x: int, capacity: int = 10) -> Place:
        opens, closes = hours.get(id.replace("-", "_"), (0, 24))
        return Place(id, kind, x, 0, capacity, opens * HOUR, closes * HOUR)

    places = [
        place("home-1", "home", 0),
        place("work-1", "work", 1000),
        place("shop-1", "shop", 200),
        place("shop-2", "shop", 2000),
        place("park-1", "park", 400),
        place("restaurant-1", "restaurant", 600),
    ]
    ends = sorted(places, key=lambda each: each.x)
    roads = [(a.id, b.id, b.x - a.x) for a, b in itertools.pairwise(ends)]
    return City(places, roads)


def citizen(blocks: Iterable[Any], model: Any = None, id: int = 1, **status: Any) -> CitizenAgent:
    """A citizen with this status, at home in `town` by default."""
    status = {
        "home": "home-1",
        "needs": {"hunger": 900, "energy": 900, "safety": 900, "social": 900},
        "profile": {"age": 40, "interests": {"music": 800}},
        "opinions": {"music": 500},
        "relations": {},
        "money": 100_000,
        **status,
    }
    return CitizenAgent(
        id, toolbox=AgentToolbox(model), memory=CitizenMemory(status), blocks=blocks
    )


def live(
    agent: CitizenAgent,
    hour: float = 8,
    *,
    city: City | None = None,
    place: str | None = "home-1",
    step: int | None = None,
    step_s: int = 900,
    **perceived: Any,
) -> list[Any]:
    """One step at an hour of the first day, a Monday; gives what the citizen wants."""
    index = int(hour * 3600) // step_s if step is None else step
    clock = Clock(step=step_s).at(index)
    at = {place: ["1", *perceived.pop("others", ())]} if place else {}
    view = View(index, clock, {}, city, step_s, clock.time, (), at, None, step_s)
    agent.perceived = Perception(view, str(agent.id), agent.status, place, **perceived)
    before = len(getattr(agent, "wants", ()))
    asyncio.run(agent.run())
    return list(getattr(agent, "wants", ())[before:])


def said(sender: str, content: str = "hello", **args: Any) -> dict[str, Any]:
    """A message as a citizen perceives it."""
    action = {"name": "say", "args": {"content": content, **args}}
    return {"from": sender, "to": "1", "action": action}


def shown(model: Any) -> dict[str, Any]:
    """What a model was shown last beside the citizen's perception."""
    data: dict[str, Any] = json.loads(model.received[-1][-1]["content"].rpartition("\n")[2])
    return data


STEADY: dict[str, Any] = {
    "wake": 6 * HOUR + 1800,
    "bed": 22 * HOUR + 1800,
    "spread": 0,
    "habit": 0,
    "lie_in": 0,
    "begins": 8 * HOUR,
    "hours": 8 * HOUR + 1800,
    "weekday": 1000,
    "weekend": 0,
    "attends": 1000,
    "remote": 0,
    "dines": 0,
}
"""Parameters of a `PlanBlock` with which all days of all people have the same hours."""


def steady(**params: Any) -> PlanBlock:
    """Return a `PlanBlock` of the same hours for all."""
    return PlanBlock(block_params=PlanBlockParams(**{**STEADY, **params}))
