"""A state that is loaded into another society goes on as the run that was not broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.society.population.test_looked_at import CITY, COUNT, made, of_agents

from moothall.foundation.errors import StateError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    Feed,
    Intervention,
    LocalEngine,
    Population,
    Society,
    make_economy,
)


def in_part(engine: LocalEngine, promoted: tuple[int, ...] = ()) -> Society:
    """A town of a population, some of whom are agents."""
    population = Population(COUNT, CITY, seed=5)
    for id in promoted:
        population.promote(id)
    services = [*make_economy(CITY, seed=5), Feed()]
    return Society(population, services=services, engine=engine, start="2026-01-05T09:00")


def looked_at() -> Society:
    """A town in columns that somebody looks at."""
    town = made()
    assert [town.agents[number].id for number in (0, 8, 50)] == [1, 9, 51]
    return town


def changed() -> Society:
    """A town in columns that one has left, to which another comes, and some are told something."""
    town = looked_at()
    town.remove(town.agents[30])
    town.add(CitizenAgent("ada", memory=CitizenMemory({"home": "park-1"})))
    town.intervene(Intervention(1, tell=["The mill burns"], citizens=[4, 9]))
    town.intervene(Intervention(2, status={"needs": {"hunger": 50}}, citizens=[5, 6]))
    args = {"content": "Meet me at the old mill"}
    town.agents[8].send({"to": "21", "action": {"name": "say", "args": args}})
    return town


@pytest.mark.parametrize(
    ("before", "step"),
    (
        pytest.param(0, "15min", marks=pytest.mark.long),
        (1, "15min"),
        pytest.param(12, "2h", marks=pytest.mark.long),
    ),
)
@pytest.mark.parametrize(
    "make",
    (
        of_agents,
        made,
        looked_at,
        changed,
        partial(in_part, LocalEngine()),
        pytest.param(
            partial(in_part, LocalEngine(threads=2, apart=True), (3, 77)), marks=pytest.mark.long
        ),
    ),
)
async def test_state_that_is_loaded_goes_on_as_the_whole_run(
    make: Callable[[], Society], before: int, step: str
) -> None:
    async with make() as whole, make() as again:
        if before:
            await whole.run(steps=before, step=step)
        if before > 1:
            await again.run(steps=3, step=step)  # of which the state leaves nothing
        again.load_state_dict(json.loads(json.dumps(whole.state_dict())))
        for steps in (0, 1, 20):
            if steps:
                rows = await whole.run(steps=steps, step=step)
                assert await again.run(steps=steps, step=step) == rows
            assert json.dumps(again.state_dict()) == json.dumps(whole.state_dict())


async def test_state_of_a_population_has_what_came_of_each_want() -> None:
    async with in_part(LocalEngine()) as whole, in_part(LocalEngine()) as again:
        await whole.run(steps=40)
        again.load_state_dict(whole.state_dict())
        answers: list[Any] = [
            [[*town.population.promote(id).space_mailbox.answers] for id in range(1, COUNT + 1)]
            for town in (whole, again)
            if town.population is not None
        ]
        assert answers[0] == answers[1]
        assert any(each.value for some in answers[0] for each in some)


async def test_state_of_rows_is_that_of_the_same_places_in_a_city_that_has_more() -> None:
    data = json.loads(CITY.to_json())
    shop = next(each for each in data["places"] if each["kind"] == "shop")
    data["places"].append({**shop, "id": "a-new-shop"})
    city = City.from_json(json.dumps(data))
    services = [*make_economy(CITY, seed=5), Feed()]
    async with made() as whole, Society(COUNT, city, seed=5, services=services) as again:
        await whole.run(steps=4)
        again.load_state_dict(whole.state_dict())
        assert again.books.where == whole.books.where


@pytest.mark.parametrize("damage", ({"agents": None}, {"columns": [["act"]]}))
async def test_state_of_rows_that_is_damaged_is_refused(damage: dict[str, Any]) -> None:
    async with made() as town:
        state = town.state_dict()
        state["rows"] |= damage
        with pytest.raises(StateError, match="damaged"):
            town.load_state_dict(state)
