"""A state that is loaded into another society goes on as the run that was not broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.society.population.test_looked_at import CITY, COUNT, made, of_agents

from moothall.foundation.errors import StateError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    Column,
    Feed,
    Grid,
    Intervention,
    LocalEngine,
    Place,
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
        ]
        assert answers[0] == answers[1]
        assert any(each.value for some in answers[0] for each in some)


async def test_towns_of_rows_have_a_state_of_the_same_parts(tmp_path: Path) -> None:
    keys = []
    journal = made(journal=tmp_path / "runs.db")
    for town in (made(), looked_at(), journal, in_part(LocalEngine()), made(mailbox=9)):
        async with town:
            await town.run(steps=1)
            state = town.state_dict()
            keys.append(sorted(state))
            assert len(json.dumps(state)) < 200_000
    assert all(each == keys[0] for each in keys)
    assert "columns" in keys[0]


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


def larger_city(kind: str = "arena") -> City:
    """The same city with places whose ids and kind come first, and a mode of travel before all."""
    data = json.loads(CITY.to_json())
    for place in [each for each in data["places"] if each["kind"] == "shop"]:
        data["places"].append({**place, "id": f"a-{place['id']}", "kind": kind})
    data["modes"].insert(1, {**data["modes"][0], "name": "barge"})
    return City.from_json(json.dumps(data))


async def test_state_of_a_population_has_the_same_places_where_a_city_numbers_them_anew() -> None:
    def town(city: City) -> Society:
        services = [*make_economy(CITY, seed=5), Feed()]
        people = Population(COUNT, city, seed=5, layers={"litter": Column("float64", 7)})
        return Society(people, services=services, start="2026-01-05T06:00")

    async with town(CITY) as whole, town(larger_city()) as again:
        whole.population.layers["litter"][:] = range(len(CITY))
        await whole.run(steps=61, step="2min")
        again.load_state_dict(whole.state_dict())
        layers = [
            dict(zip(each.city.ids(), each.population.layers["litter"].tolist(), strict=True))
            for each in (whole, again)
        ]
        assert {each: layers[1][each] for each in layers[0]} == layers[0]
        assert layers[1]["a-shop-1"] == 7
        assert any(status["moving"] for status in map(whole.population.status_of, range(COUNT)))
        for row in range(COUNT):
            assert again.population.status_of(row) == whole.population.status_of(row)
            agents = [each.population.promote(row + 1) for each in (whole, again)]  # type: ignore[union-attr]
            boxes: list[Any] = [each.space_mailbox for each in agents]
            assert boxes[1].answers == boxes[0].answers
            assert [each.as_json() for each in boxes[1].mail] == [
                each.as_json() for each in boxes[0].mail
            ]


@pytest.mark.parametrize("agents", (False, True))
async def test_state_of_places_that_a_city_has_not_is_refused_by_their_names(agents: bool) -> None:
    places = [Place(f"p{number}", "home", number, 0, capacity=9) for number in range(4)]

    def town(places: list[Place]) -> Society:
        city = City(places)
        if agents:
            home = places[-1].id
            return Society([CitizenAgent(1, memory=CitizenMemory({"home": home}))], city)
        return Society(Population({"place": np.array([len(places) - 1])}, city, []))

    async with town(places) as whole, town(places[:-1]) as again:
        await whole.run(steps=1)
        with pytest.raises(StateError, match=r"'p3', which the society's city has not"):
            again.load_state_dict(whole.state_dict())
        await again.run(steps=1)  # nothing of it was loaded
        assert dict(again.books.where) == {"1": "p2"}


async def test_state_of_more_citizens_at_a_place_than_it_holds_is_refused_by_its_name() -> None:
    def town(capacity: int, *places: int) -> Society:
        city = City([Place("p", "home", 0, 0, capacity=capacity)])
        return Society(Population({"place": np.array(places)}, city, []))

    async with town(5, 0, 0, 0) as whole, town(2, 0, -1, -1) as again:
        with pytest.raises(StateError, match="does not fit the society: 3 citizens start at 'p'"):
            again.load_state_dict(whole.state_dict())


async def test_state_of_a_layer_is_refused_by_a_grid_that_lacks_a_cell() -> None:
    def town(width: int, height: int) -> Society:
        layers = {"sugar": Column("float64", 1)}
        return Society(Population(3, Grid(width, height), [], layers=layers))

    async with town(4, 3) as whole:
        for shape in ((3, 4), (3, 3)):
            async with town(*shape) as again:
                with pytest.raises(StateError, match=r"'sugar' of the state has the place '3,0'"):
                    again.load_state_dict(whole.state_dict())


@pytest.mark.parametrize("damage", ({"agents": None}, {"columns": [["act"]]}))
async def test_state_of_rows_that_is_damaged_is_refused(damage: dict[str, Any]) -> None:
    async with made() as town:
        state = town.state_dict()
        state |= damage
        with pytest.raises(StateError, match="damaged"):
            town.load_state_dict(state)
