"""Children under 12 go out with a parent: who takes them along, and when they stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.society.blocks.living import HOUR, citizen, town

from moothall import Society
from moothall.society import City, Place, Population
from moothall.society.blocks.mobility import MobilityBlock
from moothall.society.blocks.plan import PlanBlock


def member(id: int, age: int, where: str, do: str = "leisure", **status: Any) -> Any:
    """One of a family, whose plan of all day is one item."""
    plan = [{"do": do, "where": where, "from": 0, "until": 24 * HOUR}]
    kin = {"1": "parent", "2": "parent"} if age < 18 else {"3": "child"}
    return citizen(
        [PlanBlock(), MobilityBlock()],
        id=id,
        **{"profile": {"age": age}, "plan": plan, "day": 0, "kin": kin, **status},
    )


def small(city: City) -> City:
    """A town whose shop holds one."""
    places = [
        Place(e.id, e.kind, e.x, e.y, 1 if e.id == "shop-1" else e.capacity) for e in city.places
    ]
    return City(places, city.roads)


@pytest.mark.parametrize(
    ("why", "parents", "child", "goes"),
    (
        ("its parent goes out", [member(1, 40, "shop-1")], {}, True),
        ("it sleeps", [member(1, 40, "shop-1")], {"do": "sleep"}, False),
        ("it is 12", [member(1, 40, "shop-1")], {"age": 12}, False),
        ("its parent goes to work", [member(1, 40, "work-1", work="work-1")], {}, False),
        ("nobody of its home goes", [member(1, 40, "home-1")], {}, False),
        ("a stranger goes", [member(4, 40, "shop-1")], {}, False),
    ),
)
async def test_child_goes_along_with_a_parent_who_goes_out(
    why: str, parents: list[Any], child: dict[str, Any], goes: bool
) -> None:
    own = member(3, child.get("age", 5), "home-1", child.get("do", "leisure"))
    async with Society([*parents, own], town()) as society:
        await society.run(steps=1)
        of_parent, of_child = parents[0].status, own.status
        assert bool(of_child.get("along")) is goes, why
        assert of_child["place"] == (of_parent["place"] if goes else "home-1")
        await society.run(steps=1)  # it stays where its parent is
        assert of_child["place"] == (of_parent["place"] if goes else "home-1")


async def test_child_goes_home_with_its_parent_and_alone_if_that_one_goes_to_work() -> None:
    def left(where: str, **status: Any) -> list[Any]:
        at = {"place": "park-1"}
        return [member(1, 40, where, **at, **status), member(3, 5, "home-1", along=True, **at)]

    for family, goal, steps in ((left("home-1"), "home-1", 1), (left("shop-1"), "shop-1", 1)):
        async with Society(family, town()) as society:
            await society.run(steps=steps)
            assert [each.status["place"] for each in family] == [goal, goal]
            assert family[1].status["along"] is (goal != "home-1")
    parent, child = left("work-1", work="work-1")
    async with Society([parent, child], town()) as society:
        await society.run(steps=3)
        assert (parent.status["place"], child.status["place"]) == ("work-1", "home-1")


async def test_child_without_room_where_its_parent_goes_stays_at_home() -> None:
    parent, child = member(1, 40, "shop-1"), member(3, 5, "home-1")
    async with Society([parent, child], small(town())) as society:
        await society.run(steps=2)
        assert (parent.status["place"], child.status["place"]) == ("shop-1", "home-1")


async def test_children_of_a_town_in_columns_go_out_with_somebody_of_their_home() -> None:
    population = Population(2000, City.generate(seed=2, citizens=2000), seed=2)
    columns, trips, alone = population.columns, 0, 0
    home, age, school = (columns[name].copy() for name in ("home", "age", "school"))
    before = home.copy()
    async with Society(population) as society:
        for _ in range(96):
            await society.step()
            place = population.columns["place"]
            arrives = (place >= 0) & (place != before)
            ways = np.stack([home, before, place], axis=1)
            grown_up = {tuple(way) for way in ways[arrives & (age >= 18)].tolist()}
            of_school = (place == school) | (before == school)
            children = ways[arrives & (age < 12) & ~of_school].tolist()
            trips += len(children)
            alone += sum(tuple(way) not in grown_up for way in children)
            before = np.where(place >= 0, place, before)
    assert trips > 100
    assert alone <= trips // 20
