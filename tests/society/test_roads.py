"""Roads that are closed, slow or open again in a run, and the ways that are left."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moothall.foundation.errors import ConfigError, StateError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    Column,
    Intervention,
    Mode,
    Move,
    Place,
    Population,
    Road,
    RowBlock,
    Rows,
    Society,
)

MODES = ("walk", "cycle", "drive", "transit")
PLACES = [
    Place("west", "home", 0, 0, capacity=99),
    Place("middle", "shop", 500, 0, capacity=99),
    Place("east", "work", 1000, 0, capacity=99),
]
BRIDGE = Road("middle", "east", 500, id="bridge", name="Long Bridge")
ROADS = [
    Road("west", "middle", 500, name="High Street"),
    BRIDGE,
    Road("west", "n1", 700, name="High Street"),
    Road("n1", "east", 900, modes=("drive",)),
]


def river(roads: list[Road] = ROADS) -> City:
    """A town at a river, with a bridge, and a way round it for cars alone."""
    return City(PLACES, roads, nodes={"n1": (500, 900)})


def everywhere(id: str) -> set[tuple[str, str]]:
    return {(id, mode) for mode in MODES}


def test_road_is_called_by_its_ends_unless_it_has_an_id_and_may_have_the_name_of_its_street() -> (
    None
):
    city = river()
    assert [road.id for road in city.roads] == [
        *("middle-west", "bridge", "n1-west", "east-n1"),
    ]
    assert City.from_json(city.to_json()).roads == city.roads
    text = json.loads(city.to_json())["roads"]
    assert "id" not in text[0]
    assert text[1]["id"] == "bridge"
    assert "name" not in text[3]
    for wrong in ({"id": "a\nb"}, {"name": 3}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Road("a", "b", 1, **wrong)  # type: ignore[arg-type]


def test_city_without_some_roads_has_the_ways_of_one_that_never_had_them() -> None:
    usual = river()
    city, without = usual.with_roads(everywhere("bridge")), river([ROADS[0], *ROADS[2:]])
    for mode in MODES:
        for a in usual.ids():
            for b in usual.ids():
                assert city.seconds(a, b, mode) == without.seconds(a, b, mode)
                assert city.route(a, b, mode) == without.route(a, b, mode)
            assert city.near(a, mode=mode) == without.near(a, mode=mode)
    assert city.seconds("west", "east") is None
    assert city.metres("west", "east", "drive") == 1600
    assert usual.metres("west", "east") == 1000
    assert usual.with_roads({("bridge", "drive")}).metres("west", "east") == 1000


def test_slow_road_counts_as_longer_and_is_left_for_one_that_is_faster_then() -> None:
    speeds = dict.fromkeys(everywhere("bridge"), 25)
    city = river().with_roads((), speeds)
    assert city.metres("middle", "east", "walk") == 4 * 500
    assert city.metres("west", "east", "drive") == 1600
    assert river().with_roads((), {("bridge", "walk"): 200}).metres("middle", "east") == 250


@pytest.mark.parametrize("oneway", (False, True))
@pytest.mark.parametrize("speed", (None, 40, 250))
def test_ways_of_a_large_city_with_changed_roads_are_those_of_one_built_so(
    oneway: bool, speed: int | None
) -> None:
    drawn = City.generate(seed=2, citizens=150_000)
    rng = random.Random(5)
    roads = [
        Road(each.a, each.b, each.metres, oneway=oneway and rng.random() < 0.1)
        for each in drawn.roads
    ]
    usual = City(drawn.places, roads, nodes=drawn.nodes, modes=[Mode("walk", 7, 5)])
    assert len(usual.nodes) > 2_500  # with labels, not a table of all ways
    usual.near_rows(np.arange(10), "shop")
    changed = rng.sample(usual.roads, 12)
    keys = [(each.id, "walk") for each in changed]
    if speed is None:
        city = usual.with_roads(keys)
        built = [each for each in usual.roads if each not in changed]
    else:
        city = usual.with_roads((), dict.fromkeys(keys, speed))
        built = [
            Road(each.a, each.b, -(-each.metres * 100 // speed), oneway=each.oneway)
            if each in changed
            else each
            for each in usual.roads
        ]
    other = City(drawn.places, built, nodes=drawn.nodes, modes=[Mode("walk", 7, 5)])
    places = np.array([rng.randrange(len(usual)) for _ in range(20_000)])
    assert (
        city.ways_rows(places, places[::-1], [None])
        == other.ways_rows(places, places[::-1], [None])
    ).all()
    differ = city.ways_rows(places, places[::-1], [None]) != usual.ways_rows(
        places, places[::-1], [None]
    )
    assert differ.any()
    for mine, theirs in zip(
        city.near_rows(places, "shop"), other.near_rows(places, "shop"), strict=True
    ):
        assert (mine == theirs).all()


class Commutes(RowBlock):
    """Goes to its goal in its step, and notes when it is there."""

    columns = {  # noqa: RUF012
        "goal": Column("place", None),
        "goes": Column("int32"),
        "arrived": Column("int32", -1),
    }
    words = ("drive",)

    def step_rows(self, rows: Rows) -> None:
        """Set out, or note the step of the arrival."""
        goes, here = rows["goes"] == rows.step, rows["place"] == rows["goal"]
        rows.want(Move, goes, to=rows["goal"], mode="drive")
        is_new = here & ~goes & (rows["arrived"] < 0)
        rows["arrived"] = np.where(is_new, rows.step, rows["arrived"])


async def test_commuters_over_a_street_that_closes_and_opens_arrive_in_the_minute_of_the_way() -> (
    None
):
    """A grid of 36 crossings with one-way pairs: each way is as long as Dijkstra's then."""
    rng = random.Random(3)
    places = [Place(f"p{n}", "spot", n % 6, n // 6, capacity=9_999) for n in range(36)]
    pairs = [(n, n + 1) for n in range(36) if n % 6 < 5] + [(n, n + 6) for n in range(30)]
    roads = [
        Road(f"p{a}", f"p{b}", 1_000 * rng.randint(1, 9), oneway=True)
        for pair in pairs
        for a, b in (pair, pair[::-1])
    ]
    city = City(places, roads, modes=[Mode("drive", 1_000, 60)])
    closed = [("p14", "p15"), "p20-p21"]
    without = city.with_roads({(each, "drive") for each in ("p14-p15", "p20-p21")})
    trips = [(rng.randrange(36), rng.randrange(36), rng.randint(1, 80)) for _ in range(2_000)]
    numbers = {id: number for number, id in enumerate(city.ids())}
    start, goal = ([numbers[f"p{each[end]}"] for each in trips] for end in (0, 1))
    people = {"place": np.array(start), "goal": np.array(goal)}
    people["goes"] = np.array([each[2] for each in trips])
    population = Population(people, city, [Commutes()])
    async with Society(population, start="2026-01-05T08:00") as society:
        society.intervene(Intervention(when="2026-01-05T08:10", close_roads=closed))
        society.intervene(Intervention(when="2026-01-05T09:00", open_roads=closed))
        rows = await society.run(steps=200, step="1min")
    longer = 0
    for (a, b, goes), arrived in zip(trips, population.columns["arrived"].tolist(), strict=True):
        now = without if 10 <= goes < 60 else city
        seconds = now.seconds(f"p{a}", f"p{b}")
        assert seconds is not None
        if a != b:
            assert arrived == goes + -(-seconds // 60), (a, b, goes)
        longer += seconds > (city.seconds(f"p{a}", f"p{b}") or 0)
    assert longer > 50
    assert not any(row["stranded"] for row in rows)


def goes_at(step: int, to: str, home: str = "west") -> CitizenAgent:
    """A citizen that sets out in a step."""

    class Goes(CitizenAgent):
        async def forward(self) -> None:
            if self.perceived.step == step:
                self.want(Move(to, "walk"))

    return Goes(step, memory=CitizenMemory({"home": home}))


async def test_citizen_on_the_way_arrives_and_one_without_a_way_home_is_stranded() -> None:
    city = City(PLACES, ROADS[:2])
    citizens = [
        goes_at(1, "east"),
        goes_at(5, "east"),
        CitizenAgent(9, memory=CitizenMemory({"home": "east"})),
    ]
    async with Society(citizens, city) as society:
        society.intervene(Intervention(2, close_roads=["Long Bridge"]))
        society.intervene(Intervention(8, open_roads=["bridge"]))
        rows = await society.run(steps=10, step="5min")
        assert dict(society.books.where) == {"1": "east", "5": "west", "9": "east"}
    assert [row["stranded"] for row in rows] == [0, 0, 0, 1, 1, 1, 1, 1, 0, 0]


async def test_closed_and_slow_roads_are_in_the_state_and_in_a_resumed_run(tmp_path: Path) -> None:
    def town(journal: Path | None = None) -> Society:
        return Society([goes_at(6, "east")], river(), journal=journal)

    changes: dict[str, Any] = {"close_roads": ["High Street"], "modes": ["walk", "cycle"]}
    async with town() as whole, town() as branch:
        whole.intervene(Intervention(1, **changes))
        whole.intervene(Intervention(2, open_roads=[("west", "n1")], road_speed={"bridge": 50}))
        await whole.run(steps=4)
        state = json.loads(json.dumps(whole.state_dict()))
        assert state["changed"]["closed_roads"] == [
            *(
                ["middle-west", "cycle"],
                ["middle-west", "walk"],
            ),
        ]
        branch.load_state_dict(state)
        assert branch.city.seconds("west", "east", "walk") is None
        assert branch.city.metres("middle", "east", "walk") == 1_000
        assert await branch.run(steps=6) == await whole.run(steps=6)
        assert branch.state_dict() == whole.state_dict()
        async with Society([goes_at(6, "east")], City(PLACES, ROADS[1:2])) as other:
            with pytest.raises(StateError, match="changed the road 'middle-west' for 'cycle'"):
                other.load_state_dict(state)

    def fail(row: dict[str, Any]) -> None:
        if row["step"] == 4:
            raise RuntimeError

    async with town(tmp_path / "runs.db") as first, town(tmp_path / "runs.db") as again:
        for each in (first, again):
            each.intervene(Intervention(1, **changes))
        with pytest.raises(RuntimeError):
            await first.run(steps=8, run_id="r", save_every=2, progress=fail)
        first.close()
        rows = await again.run(steps=8, run_id="r", save_every=2)
        assert len(rows) == 8
        assert again.city.seconds("west", "middle", "walk") is None


@pytest.mark.parametrize(
    ("changes", "said"),
    (
        ({"close_roads": ["Low Street"]}, "no road \"Low Street\" in the city .*'High Street'"),
        ({"close_roads": [("west", "east")]}, "there is no road"),
        ({"close_roads": ["bridge"], "modes": ["fly"]}, "names the mode 'fly', and the city has"),
        ({"close_roads": [("a", "b", "c")]}, "must be ids or names of roads, or pairs"),
        ({"close_roads": "bridge"}, "close_roads must be a list"),
        ({"road_speed": {"bridge": 0}}, "whole number from 1 to 1000, got 0"),
        ({"modes": ["walk"]}, "must change something"),
    ),
)
async def test_change_of_roads_that_is_wrong_is_refused_at_once(
    changes: dict[str, Any], said: str
) -> None:
    async with Society([], river()) as society:
        with pytest.raises(ConfigError, match=said):
            society.intervene(Intervention(1, **changes))


async def test_road_cannot_be_closed_where_a_city_has_none() -> None:
    async with Society([]) as society:
        with pytest.raises(ConfigError, match="changes roads, which only a City has"):
            society.intervene(Intervention(1, close_roads=["bridge"]))


async def test_rules_keep_what_they_set_on_the_city_while_roads_close_and_open() -> None:
    seen: list[int] = []

    class Counts(CitizenAgent):
        async def forward(self) -> None:
            city = self.perceived.view.city
            city.crossings = getattr(city, "crossings", 0) + 1
            seen.append(city.crossings)

    async with Society([Counts(1, memory=CitizenMemory({"home": "west"}))], river()) as society:
        for step in range(1, 6):
            which = "close_roads" if step % 2 else "open_roads"
            society.intervene(Intervention(step, **{which: ["bridge"]}))  # type: ignore[arg-type]
        await society.run(steps=7)
    assert seen == [*range(1, 8)]
