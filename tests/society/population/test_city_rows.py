"""What a city says of many places at once is what it says of each; people drawn in columns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import Move, RowBlock, Society
from moothall.society.blocks import all_blocks
from moothall.society.blocks.ties import STRENGTH
from moothall.society.city.city import City
from moothall.society.city.labels import Labels
from moothall.society.city.map import Mode, Place, Road
from moothall.society.city.network import Network
from moothall.society.city.routes import Roads
from moothall.society.columns.column import COMMIT_COLUMNS
from moothall.society.population.population import Population


def grid_of_streets(side: int, shops: int, oneway: bool = False) -> City:
    """Crossings in a square, shops on them at random and at a corner, and an island with two."""
    draw = np.random.default_rng(5)
    nodes = {f"n{x}-{y}": (100 * x, 100 * y) for x in range(side) for y in range(side)}
    roads = [
        Road(
            f"n{x}-{y}", f"n{x + dx}-{y + dy}", int(draw.integers(60, 200)), None, oneway and x == 3
        )
        for x in range(side)
        for y in range(side)
        for dx, dy in ((1, 0), (0, 1))
        if x + dx < side and y + dy < side and draw.random() < 0.9
    ]
    nodes |= {"i1": (-9000, 0), "i2": (-9100, 0)}
    roads.append(Road("i1", "i2", 120))
    spots = [f"n{x}-{y}" for x, y in draw.integers(0, side, (shops, 2)).tolist()] + ["i1", "i2"]
    hours = draw.integers(0, 24, (len(spots), 2)).tolist()
    places = [
        Place(
            f"shop-{number}",
            "shop" if number % 9 else "park",
            nodes[spot][0] + number % 40,
            nodes[spot][1],
            1 + number % 7,
            opens * 3600,
            (closes if closes != opens else closes + 1) * 3600,
            node=spot,
        )
        for number, (spot, (opens, closes)) in enumerate(zip(spots, hours, strict=True))
    ]
    places += [Place(id, "shop", 0, 0, node="n0-0") for id in ("corner", "corner too")]
    return City(places, roads, nodes=nodes, modes=(Mode("walk", 7, 5), Mode("drive", 7, wait=120)))


def nearest(city: City, here: str, kind: str, limit: int, mode: str | None) -> list[Any]:
    """What `near` must give, from the ways to all places."""
    ways = [(city.metres(here, each, mode), each) for each in city.by_kind(kind) if each != here]
    found = sorted(((m, each) for m, each in ways if m is not None), key=lambda way: way[0])
    return [(each, city.seconds(here, each, mode)) for _, each in found[:limit]]


def as_one_by_one(city: City, draw: Any, pairs: int) -> None:
    ids = city.ids()
    one, other = draw.integers(0, len(ids), (2, pairs))
    one[0] = other[0] = ids.index("corner")
    for _ in range(2):  # the second time from what is kept
        ways = city.ways_rows(one, other, [None, "drive"]).tolist()
        for at in range(pairs):
            for name, seconds in zip((None, "drive"), ways[at], strict=True):
                expected = city.seconds(ids[one[at]], ids[other[at]], name)
                assert seconds == (-1 if expected is None else expected)
        assert ways[0] == [0, 0]
    asked: Any = (("shop", 10, None), ("park", 3, "drive"), ("shop", 4, "walk"), ("x", 2, None))
    for kind, limit, name in asked:
        places, seconds = city.near_rows(one, kind, limit, name)
        for at in range(0, pairs, 7):
            found = [(ids[p], s) for p, s in zip(places[at], seconds[at], strict=True) if p >= 0]
            assert found == [tuple(each) for each in city.near(ids[one[at]], kind, limit, name)]
            assert found == nearest(city, ids[one[at]], kind, limit, name)
    for time in (0, 3599, 3600, 12 * 3600, 86_399, 90_000):
        assert city.open_rows(time).tolist() == [city.is_open(each, time) for each in ids]
    assert city.capacity_rows().tolist() == [city.capacity(each) for each in ids]
    kinds = city.kinds()
    assert [kinds[number] for number in city.kind_rows()] == [city.kind(each) for each in ids]


@pytest.mark.parametrize(
    ("side", "shops", "oneway"),
    (
        *((8, 60, False), (8, 60, True), (53, 40, True)),
        *(pytest.param(53, 1200, each, marks=pytest.mark.long) for each in (False, True)),
    ),
)
def test_city_says_the_same_of_many_places_at_once(side: int, shops: int, oneway: bool) -> None:
    """Beyond 2,500 nodes ways come from labels, and what is near is searched from the places."""
    as_one_by_one(grid_of_streets(side, shops, oneway), np.random.default_rng(2), 60)


@pytest.mark.parametrize("oneway", (0.0, 0.3, 1.0))
def test_labels_give_the_shortest_ways(oneway: float) -> None:
    """Of a graph in several parts, with nodes on the same spot and roads longer than they look."""
    draw = np.random.default_rng(8)
    spots = draw.integers(0, 20, (400, 2))
    edges = np.column_stack([draw.integers(0, 400, (520, 2)), draw.integers(1, 10**5, 520)])
    roads = Roads(edges, draw.random(520) < oneway, spots)
    labels = Labels(roads.matrix, spots, symmetric=not oneway)
    for source in range(0, 400, 13):
        ways = labels.metres(np.full(400, source), np.arange(400))
        assert ways.tolist() == roads.table(source).tolist()
    assert -1 in ways


def test_labels_give_one_way_roads_whose_detour_is_long_on_one_side() -> None:
    """Two streets, all one way, from the second half of which one detour leads to the other."""
    side = np.arange(39)
    streets = [np.column_stack([side + first, side + first + 1, side * 0 + 1]) for first in (0, 40)]
    edges = np.concatenate([*streets, [[25, 65, 100_000]]])
    spots = np.column_stack([np.arange(80) % 40, np.arange(80) // 40])
    roads = Roads(edges, np.ones(len(edges), bool), spots)
    labels = Labels(roads.matrix, spots)
    for source in range(80):
        ways = labels.metres(np.full(80, source), np.arange(80))
        assert ways.tolist() == roads.table(source).tolist()
    assert roads.metres_between(5, 70) == 100_025


def test_people_in_columns_know_their_household_best_and_live_near_the_next_rows() -> None:
    city = City.generate(seed=2, citizens=2400)
    population = Population(2400, city, all_blocks(), 4)
    table = population.columns
    assert np.bincount(table["home"]).max() <= 7
    # Those of a home know each other best, and whoever knows somebody is known to them.
    friends = table["friends"].astype(np.int64)
    strength = table["friendship"] & STRENGTH
    rows, slots = np.nonzero(friends)
    pairs = set(zip(rows.tolist(), (friends[rows, slots] - 1).tolist(), strict=True))
    assert len(pairs) == len(rows)
    assert all((b, a) in pairs for a, b in pairs)
    together = table["home"][rows] == table["home"][friends[rows, slots] - 1]
    assert (strength[rows, slots][together] == 800).all()
    assert (strength[rows, slots][~together] < 920).all()
    # They come first, so they stay where there is room for a few friends.
    assert not (together[1:] & ~together[:-1] & (rows[1:] == rows[:-1])).any()
    # Rows that follow one another live near each other.
    apart = city.ways_rows(table["home"][:-1], table["home"][1:], [None])
    far = city.ways_rows(table["home"][::2], np.sort(table["home"])[1::2][::-1], [None])
    assert apart.mean() * 3 < far.mean()
    # Nobody works where there is no more work.
    assert (np.bincount(table["work"][table["work"] >= 0]) <= 2400).all()


def test_rows_child_without_a_seat_in_the_nearest_school_gets_the_next() -> None:
    row = [("home-1", 99), ("school-1", 5), ("school-2", 3), ("school-3", 9)]
    places = [
        Place(id, id[:-2], 100 * at, 0, holds, 0, 24 * 3600) for at, (id, holds) in enumerate(row)
    ]
    roads = [Road(a.id, b.id, 100) for a, b in itertools.pairwise(places)]
    ages = np.full(9, 10)
    children = Population({"age": ages, "home": ["home-1"] * 9}, City(places, roads), all_blocks())
    # A school of five has one teacher and four seats; a draw says who of equally near gets them.
    assert sorted(children.columns["school"].tolist()) == [1, 1, 1, 1, 2, 2, 3, 3, 3]


def test_rows_without_a_home_are_no_household() -> None:
    city = City.generate(seed=2, citizens=40)
    home = np.full(30, -1, np.int32)
    home[:2] = city.ids().index(city.by_kind("home")[0])
    population = Population({"home": home}, city, all_blocks(), 4)
    close = (population.columns["friendship"] & STRENGTH == 800).sum(axis=1)
    assert close.tolist() == [1, 1, *[0] * 28]


def test_population_table_keeps_what_it_gives_and_a_too_small_town_says_so() -> None:
    city = City.generate(seed=2, citizens=50)
    homes = np.full(5, city.ids().index(city.by_kind("home")[0]), np.int32)
    given = Population({"home": homes, "age": np.full(5, 30, np.uint8)}, city, all_blocks(), 1)
    assert (given.arrays["home"] == homes).all()
    assert (given.arrays["age"] == 30).all()
    assert given.arrays["money"].max() > 0
    drawn = Population(50, city, all_blocks(), 1).columns
    table = {
        name: drawn[name][::-1] for name in drawn if name not in COMMIT_COLUMNS or name == "money"
    }
    for alone in ("work", "school", "skill", "opinions", "money"):
        kept = Population({alone: table[alone]}, city, all_blocks(), 2).columns
        assert np.array_equal(kept[alone], table[alone])
    kept = Population(table, city, all_blocks(), 2).columns
    assert [name for name in table if not np.array_equal(kept[name], table[name])] == []
    with pytest.raises(ConfigError, match="hold 50 citizens, not 51"):
        Population(51, city, all_blocks(), 1)


def test_population_table_takes_whole_numbers_of_any_type_and_empty_cells_of_texts() -> None:
    city = City.generate(seed=2, citizens=10)
    gender = pa.array(["male", None, "female"]).dictionary_encode()
    table = pa.table({"age": [30, 40, 50], "skill": [1000.0, 900.0, 800.0], "gender": gender})
    columns = Population(table, city, all_blocks(), 1).columns
    assert columns["age"].tolist() == [30, 40, 50]
    assert columns["skill"].tolist() == [1000, 900, 800]
    assert columns["gender"].tolist() == [2, 0, 1]
    texts = {"gender": np.array(["male", "female"], np.dtypes.StringDType())}
    assert Population(texts, city, all_blocks(), 1).columns["gender"].tolist() == [2, 1]
    with pytest.raises(ConfigError, match="got float64 with empty cells"):
        Population(pa.table({"age": [30, None]}), city, all_blocks(), 1)
    with pytest.raises(ConfigError, match="'age' has values that are not of uint8"):
        Population({"age": [30, 300]}, city, all_blocks(), 1)
    with pytest.raises(ConfigError, match="'money' has values that are not of int64"):
        Population({"id": [1, 2], "money": [7, 10**20]})


def test_people_in_columns_have_work_and_school_in_a_network_too() -> None:
    homes = {f"home-{number}": "home" for number in range(8)}
    places = {**homes, "mill": "work", "class": "school"}
    roads = [(each, place) for each in homes for place in ("mill", "class")]
    columns = Population(90, Network(places, roads), all_blocks(), 1).columns
    age, work, school = columns["age"], columns["work"], columns["school"]
    assert np.bincount(work[work >= 0]).max() == 10  # a place without a limit employs ten
    assert (age[work >= 0] >= 18).all()
    assert ((school >= 0) == ((age >= 5) & (age < 18))).all()


class Walks(RowBlock):
    """Wants to walk where only steps lead."""

    words = ("walk",)

    def step_rows(self, rows: Any) -> None:
        rows.want(Move, to="b", mode="walk")


def test_row_that_moves_by_a_mode_of_no_network_is_refused_alone() -> None:
    at = {"id": np.array([1, 2]), "place": np.array(["a", "a"])}
    population = Population(at, Network(["a", "b"], [("a", "b")]), [Walks()])
    with Society(population) as society:
        society.run_sync(steps=2)
        assert population.columns["place"].tolist() == [0, 0]
        assert [each.done for each in society.respondent(1).perceived.answers] == [False]
