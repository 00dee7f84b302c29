"""The day in columns: needs, plans, ways and the rest are the same as citizen by citizen."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.society.population.lives import promoted
from tests.society.population.pairs import Make, Plain, all_equal, lived, same

from moothall.foundation.errors import ConfigError
from moothall.society import Grid, Intervention, Network, Society, Trajectories
from moothall.society.blocks import (
    MobilityBlock,
    NeedsBlock,
    OtherBlock,
    PlanBlock,
    all_blocks,
    columns,
)
from moothall.society.blocks.mobility import MobilityBlockParams
from moothall.society.blocks.needs import NeedsBlockParams
from moothall.society.blocks.plan import PlanBlockParams
from moothall.society.city.city import City
from moothall.society.city.map import Place, Road
from moothall.society.population.population import Population

HOUR = 3600
NEEDS = ("hunger", "energy", "safety", "social")


def village() -> City:
    """Homes on a street with too few seats, short hours, and a shop that no road leads to."""

    def place(id: str, x: int, capacity: int = 3, opens: int = 0, closes: int = 24) -> Place:
        kind = id.partition("-")[0]
        return Place(id, kind, x, 0, capacity, opens * HOUR, closes * HOUR)

    street = [
        *(place(f"home-{number}", 40 * number, 9) for number in range(6)),
        *(place(f"park-{number}", 300 + 90 * number, 2, 5, 23) for number in range(10)),
        place("park-old", 400, 9, 0, 24),
        place("work-1", 500, 4, 7, 19),
        place("work-2", 30_000, 9, 7, 19),
        place("shop-1", 700, 1, 8, 20),
        place("shop-2", 800, 2, 9, 12),
        place("restaurant-1", 900, 2, 11, 22),
        place("restaurant-2", 1000, 1, 17, 2),
        place("school-1", 1100, 9, 7, 17),
    ]
    by_x = sorted(street, key=lambda each: (each.x, each.id))
    roads = [Road(a.id, b.id, max(1, b.x - a.x)) for a, b in itertools.pairwise(by_x)]
    return City([*street, place("shop-9", -5000, 9)], roads)


def blocks(**params: Any) -> list[Any]:
    return [
        NeedsBlock(block_params=NeedsBlockParams(**params.get("needs", {}))),
        PlanBlock(block_params=PlanBlockParams(**params.get("plan", {}))),
        MobilityBlock(block_params=MobilityBlockParams(**params.get("mobility", {}))),
        OtherBlock(),
    ]


def drawn(citizens: int, seed: int, **params: Any) -> Make:
    city = City.generate(seed=seed, citizens=citizens)
    return lambda: (Population(citizens, city, blocks(**params), seed), ())


@pytest.mark.long
async def test_closed_places_new_homes_and_full_ones_change_both_alike() -> None:
    """Parks hold two each, and are closed for a while; some move house or change work."""
    city = village()

    def make() -> Any:
        people = Population(24, city, blocks(plan={"dines": 700}, needs={"social": 600}), 7)
        return people, ()

    changes = [
        Intervention(30, close=[*city.by_kind("park"), "work-1", "home-1"]),
        Intervention(45, status={"home": "home-5"}, citizens=[1, 2]),
        Intervention(47, status={"work": "work-2"}, citizens=[3, 4]),
        Intervention(60, open=city.by_kind("park")),
        Intervention(80, status={"needs": dict.fromkeys(NEEDS, 5)}, citizens=["7", "8"]),
    ]
    seen = await all_equal(make, 120, interventions=changes)
    assert any((row["plan_avoid"] > 0).any() for row in seen)
    assert any(row["stuck"].any() for row in seen)


PARAMS = st.fixed_dictionaries(
    {
        "needs": st.fixed_dictionaries(
            {"speed": st.sampled_from([0, 1000, 10_000]), "safety": st.sampled_from([0, 200, 1000])}
        ),
        "plan": st.fixed_dictionaries(
            {
                "wake": st.sampled_from([0, 6 * HOUR + 1800, 13 * HOUR, 86_400]),
                "bed": st.sampled_from([0, 12 * HOUR, 22 * HOUR + 1800, 86_400]),
                "spread": st.sampled_from([0, 1800, 6 * HOUR]),
                "begins": st.sampled_from([None, 0, 8 * HOUR, 9 * HOUR + 7, 20 * HOUR]),
                "starts": st.sampled_from([(1, 0, 3), (*[0] * 16, 9, 4), (*[0] * 45, 1)]),
                "hours": st.sampled_from([None, 0, 8 * HOUR + 1800, 86_400]),
                "habit": st.sampled_from([0, 9000, 6 * HOUR]),
                "lunch": st.sampled_from([0, 1800, 86_400]),
                "remote": st.sampled_from([0, 1000]),
                "lunch_time": st.sampled_from([0, 12 * HOUR + 1800, 86_400]),
                "dinner_time": st.sampled_from([0, 18 * HOUR + 1800, 86_400]),
                "dines": st.sampled_from([0, 500, 1000]),
                "leisure": st.sampled_from([(60, 20, 1, 1, 1, 2, 15), (0, 0, 1, 9, 0, 9, 90)]),
                "piece": st.sampled_from([(2, 7), (2, 1), (40, 9)]),
                "shopping": st.sampled_from([(2, 3), (9, 1)]),
                "weekend": st.sampled_from([0, 340, 1000]),
            }
        ),
        "mobility": st.fixed_dictionaries(
            {
                "candidates": st.sampled_from([1, 3, 10, 40]),
                "rho": st.sampled_from([0, 600]),
                "mode": st.sampled_from([None, "walk", "drive"]),
            }
        ),
    }
)


@pytest.mark.long
@settings(max_examples=5, deadline=None, derandomize=True, phases=(Phase.generate,))
@given(data=st.data(), params=PARAMS)
def test_rows_of_any_states_and_parameters_live_the_same(data: Any, params: Any) -> None:
    """Needs of 0 and 1000, no home, no work, no money, at work in a restaurant or abroad."""
    city = village()
    count = 8
    names = city.ids()

    def column(*choices: Any) -> Any:
        several = st.lists(st.sampled_from(choices), min_size=count, max_size=count)
        return np.array(data.draw(several))

    def places(*choices: str | None) -> Any:
        numbers = [-1 if each is None else names.index(each) for each in choices]
        return column(*numbers).astype(np.int32)

    table = {
        "home": places(*(f"home-{number}" for number in range(5)), "park-old", None),
        "work": places("work-1", "work-2", "restaurant-1", "shop-9", "home-2", None, None),
        "school": places("school-1", None),
        "age": column(3, 17, 18, 60).astype(np.uint8),
        "money": column(0, 5000).astype(np.int64),
        **{need: column(0, 1, 199, 200, 300, 301, 1000).astype(np.int16) for need in NEEDS},
    }

    def make() -> Any:
        return Population(table, city, blocks(**params), 9), ()

    step = data.draw(st.sampled_from(["15min", "15min", "30min", "7min", "2h"]))
    start = data.draw(st.sampled_from(["2026-01-05T00:00", "2026-01-09T21:07:11"]))
    asyncio.run(all_equal(make, 60, step=step, start=start))


async def test_rows_ask_place_by_place_where_places_say_nothing_at_once() -> None:
    """A grid has no hours, no kinds but one, and no modes of travel."""
    grid = Grid(6, 5)
    kind = grid.kinds()[0]
    home = np.arange(12, dtype=np.int32)

    def make() -> Any:
        table = {"home": home, "work": home[::-1].copy()}
        return Population(table, grid, blocks(), 3), ()

    seen = await all_equal(make, 60)
    assert kind
    assert (seen[-1]["place"] >= 0).any()


def workers(city: Any) -> Population:
    """Those of one home, who work near by or far off, and know many parks."""
    names = city.ids()
    table = {
        "home": np.full(8, names.index("home-1"), np.int32),
        "work": np.array([names.index(f"work-{1 + row % 2}") for row in range(8)], np.int32),
        "school": np.full(8, -1, np.int32),
        "age": np.array([30, 17] * 4, np.uint8),
    }
    people = blocks(mobility={"rho": 1000, "gamma": 0}, plan={"spread": 0})
    population = Population(table, city, people, 5)
    for row in range(8):
        agent = population.promote(row + 1)
        parks = [place for place in names if place.startswith("park-")]
        agent.status["visits"] = {"park": dict.fromkeys(parks[1 + row % 2 : 9], 1 + row)}
        population.demote(row + 1)
    return population


async def test_rows_in_any_city_asked_place_by_place_have_the_same_outcome() -> None:
    city = village()
    at_once = await all_equal(lambda: (workers(city), ()), 96)
    same(at_once, await lived(lambda: (workers(Plain(city)), ()), 96))
    assert any((row["moving_to"] >= 0).any() for row in at_once)
    assert at_once[-1]["visited_park"].all(axis=1).any()


@pytest.mark.long
async def test_citizens_may_be_promoted_and_made_rows_again_at_any_time() -> None:
    """Its plan, the places chosen and avoided, and where it has been come back as they were."""
    city = village()

    def people() -> Population:
        return Population(20, city, blocks(needs={"social": 600}, plan={"dines": 700}), 8)

    change = Intervention(30, close=[*city.by_kind("park")[:8], "work-1"])
    expected = await lived(lambda: (people(), ()), 90, interventions=[change])
    population = people()
    seen = []
    async with Society(population) as society:
        society.intervene(change)
        for step in range(90):
            for id in range(1 + step % 3, 21, 3):
                population.promote(id)
            await society.step()
            for id in list(population.agents):
                population.demote(id + 1)
            seen.append({name: np.array(each) for name, each in population.arrays.items()})
    for mine, theirs in zip(expected, seen, strict=True):
        same([{name: mine[name] for name in theirs}], [theirs])


async def test_rows_try_four_places_of_a_kind_whose_places_are_full() -> None:
    places = [Place("home", "home", 0, 0), *(Place(f"park-{n}", "park", n, 0, 0) for n in range(6))]
    city = City(places, [Road(a.id, b.id, 10) for a, b in itertools.pairwise(places)])
    item = {"do": "leisure", "where": "park", "from": 0, "until": 24 * HOUR}
    for rows in (True, False):
        population = Population({"id": [1], "home": ["home"]}, city, blocks(), seed=1)
        population.promote(1).status.update(plan=[item], now=0, day=0, plan_home="home")
        population.demote(1)
        async with Society(population if rows else promoted(population)) as society:
            wanted = []
            for _ in range(6):
                await society.step()
                wanted.append(city.ids()[population.columns["item_where"][0]])
        assert len({*wanted[:4]} - {"home"}) == 4
        assert wanted[4:] == ["home", "home"]
        assert population.columns["mended"][0] == 4


async def test_rows_home_or_work_named_as_its_kind_is_that_place() -> None:
    others = (f"{kind}-{number}" for kind in ("home", "work") for number in range(9))
    kinds = {each: each.partition("-")[0] for each in ("home", "work", *others)}
    network = Network(kinds, itertools.combinations(kinds, 2))
    for rows in (True, False):
        people = {"id": [1], "home": ["home"], "work": ["work"]}
        hours = {"weekday": 1000, "remote": 0, "begins": 8 * HOUR}
        population = Population(people, network, blocks(plan=hours), seed=1)
        async with Society(population if rows else promoted(population)) as society:
            where = set()
            for step in range(96):
                if rows and step == 50:
                    population.promote(1)
                    population.demote(1)
                await society.step()
                where.add(network.ids()[population.columns["place"][0]])
        assert where == {"home", "work"}


async def test_threads_change_nothing() -> None:
    make = drawn(60, 4)
    same(await lived(make, 40), await lived(make, 40, threads=2))


async def test_promoted_citizen_continues_with_its_plan() -> None:
    population, _ = drawn(30, 6)()
    async with Society(population) as society:
        await society.run(steps=50)
        before = {name: values[2].copy() for name, values in population.arrays.items()}
        agent = population.promote(3)
        plan, now = agent.status["plan"], agent.status["now"]
        # The columns of a plan are no part of a status, which has the plan itself.
        assert not agent.status.keys() & {"plan_now", "plan_chosen", "plan_avoid", "item_do"}
        population.demote(3)
    assert plan[0]["from"] == 0
    assert plan[-1]["until"] == 86_400
    assert [each["from"] for each in plan[1:]] == [each["until"] for each in plan[:-1]]
    assert plan[now]["from"] <= 49 * 900 < plan[now]["until"]
    for name, value in before.items():
        assert (population.arrays[name][2] == value).all(), name


@pytest.mark.parametrize(
    ("changes", "why"),
    (
        (
            {"opinions": {"chess": 5}},
            "citizen 1: the topic 'chess' is not one of the block's topics",
        ),
        ({"profile": {"interests": {"chess": 5}}}, "citizen 1: the topic 'chess' is not one"),
        ({"relations": dict.fromkeys(map(str, range(151)), 5)}, "citizen 1 has 151 relations"),
    ),
)
def test_rows_value_that_columns_cannot_hold_is_refused(changes: dict[str, Any], why: str) -> None:
    population = Population(2, None, all_blocks())
    agent = population.promote(1)
    before = dict(agent.status)
    with pytest.raises(ConfigError, match=why):
        agent.status.update(changes)
    profile = {**before["profile"], "education": "bachelor", "gender": "female", "age": 33}
    agent.status.update(before, profile=profile)
    population.demote(1)
    assert population.agents == {}
    assert population.promote(1).status["profile"] == profile


def test_plan_with_gaps_is_refused() -> None:
    population, _ = drawn(10, 1)()
    agent = population.promote(2)
    with pytest.raises(ConfigError, match="follow one another"):
        agent.status["plan"] = [{"do": "sleep", "where": None, "from": 100, "until": 86_400}]


def test_plan_item_in_columns_has_bits_for_eight_activities_and_refuses_a_ninth() -> None:
    """A ninth would be read as the first: `sleep`."""
    words = columns.item_words(np.arange(1, 9), np.full(8, 0xFF), np.full(8, 86_400))
    flags = columns.BOUGHT_FLAG | columns.AVOIDS_FLAG
    assert columns.activity_codes(words | np.uint32(flags)).tolist() == [*range(1, 9)]
    assert columns.checked_activities(columns.ACTIVITIES) == columns.ACTIVITIES
    with pytest.raises(ConfigError, match=r"at most 8 activities, .* got 9"):
        columns.checked_activities((*columns.ACTIVITIES, "pray"))


def test_trajectories_of_a_town_tell_the_modes_of_ways_in_words(tmp_path: Path) -> None:
    city = City.generate(seed=7, citizens=60)
    with Society(Population(60, city, seed=7)) as town:
        town.run_sync(days=0.5, step="5min", out=tmp_path / "out", trajectories=["tour", "mode"])
    rows = [*Trajectories(tmp_path / "out")]
    tours = {row["tour"] for row in rows}
    assert {"drive", "walk", None} <= tours <= {"drive", "walk", "cycle", "transit", "other", None}
    on_the_way = [row for row in rows if row["to"] is not None]
    assert on_the_way
    assert {row["mode"] for row in on_the_way} <= {"drive", "walk", "cycle", "transit"}
    assert {row["mode"] for row in rows if row["to"] is None} == {None}
    before = {row["citizen"]: row["place"] for row in reversed(rows)}
    for row in rows:  # also of a child that goes along
        if row["place"] is not None:
            assert row["tour"] or before[row["citizen"]] == row["place"], row
            before[row["citizen"]] = row["place"]


def test_table_of_a_town_has_texts_and_makes_the_same_town() -> None:
    town = City.generate(seed=7, citizens=60)
    with Society(Population(60, town, seed=7)) as society:
        society.run_sync(days=1, step="1min", until=lambda row: row["moving"] > 3)
        columns = dict(society.population.columns)
        table = society.population.to_arrow()
    assert set(table["mode"].to_pylist()) - {None} <= {"drive", "walk", "cycle", "transit"}
    assert set(table["mode"].to_pylist()) > {None}
    assert {"sleep", "work"} <= set(table["act"].to_pylist())
    again = Population(table, town, seed=7).columns
    assert [name for name, each in columns.items() if not np.array_equal(each, again[name])] == []
