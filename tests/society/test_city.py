"""Cities: places on a graph of roads, ways between them, JSON, and bad input."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.foundation.errors import ConfigError
from moothall.society import City, Mode, Place, Road

HOUR = 3600
HOME = Place("home", "home", 0, 0, capacity=2)
OFFICE = Place("office", "work", 1000, 20, opens=8 * HOUR, closes=18 * HOUR, node="n2")
BAR = Place("bar", "restaurant", 500, 30, opens=18 * HOUR, closes=2 * HOUR, name="Bar", node="n1")
ISLAND = Place("island", "park", 9000, 0)
NODES = {"n1": (500, 0), "n2": (1000, 0)}
ROADS = [("home", "n1", 500), Road("n1", "n2", 600)]


def town(**changes: Any) -> City:
    given: dict[str, Any] = {"places": [HOME, OFFICE, BAR, ISLAND], "roads": ROADS, "nodes": NODES}
    return City(**{**given, **changes})


def test_route_follows_the_roads_and_its_time_is_rounded_up_once() -> None:
    city = town()
    route = city.route("home", "office")
    assert route is not None
    assert route.nodes == ("home", "n1", "n2", "office")
    assert [city.position(node)[0] for node in route.nodes] == [0, 500, 1000, 1000]
    assert route.metres == 500 + 600 + 20
    assert route.seconds == city.seconds("home", "office") == math.ceil(1120 / 1.4)
    assert city.seconds("home", "office", "drive") == 120 + 1120 // 7
    assert city.seconds("office", "home", "walk") == city.seconds("home", "office")
    assert city.seconds("home", "home", "drive") == 0
    assert city.route("home", "home") == (("home",), 0, 0)


def test_city_place_that_cannot_be_reached_has_no_route() -> None:
    city = town()
    assert city.seconds("home", "island") is None
    assert city.metres("island", "home") is None
    assert city.route("home", "island") is None
    assert "island" not in [found.id for found in city.near("home")]
    assert city.near("home", "park") == ()


def test_roads_may_be_for_one_way_and_for_some_modes() -> None:
    city = town(
        roads=[
            Road("home", "n1", 500, oneway=True),
            Road("n1", "home", 900, modes=("walk", "cycle")),
            Road("n1", "n2", 600, modes=("walk",)),
        ]
    )
    # On foot the 500 metres lead there only; a car gets there, and not back.
    assert city.metres("home", "bar", "walk") == 530
    assert city.metres("bar", "home", "walk") == 930
    assert city.metres("home", "bar", "drive") == 530
    assert city.metres("bar", "home", "drive") is None
    assert city.metres("home", "office", "cycle") is None


def test_route_takes_the_shortest_of_parallel_roads() -> None:
    city = town(roads=[*ROADS, ("n1", "home", 300), ("home", "n1", 400)])
    assert city.metres("home", "bar") == 330


def test_hours_may_go_over_midnight() -> None:
    city = town()
    for time, open_ in ((18 * HOUR, True), (0, True), (2 * HOUR - 1, True), (2 * HOUR, False)):
        assert city.is_open("bar", time) is open_
    assert city.is_open("office", 8 * HOUR)
    assert not city.is_open("office", 18 * HOUR)
    assert city.is_open("home", 86_399)
    assert city.is_open("bar", 86_400 * 3 + 60)
    assert city.is_open("office", 86_400 * 3 + 9 * HOUR)
    assert not city.is_open("office", 86_400 * 3 + 18 * HOUR)
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(ConfigError, match="time must be a whole number from 0 up"):
            city.is_open("bar", wrong)  # type: ignore[arg-type]


@settings(max_examples=30)
@given(st.data())
def test_distances_are_the_shortest_and_ways_add_up_to_them(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    names = [f"p{number}" for number in range(count)]
    ends = st.sampled_from(names)
    edges = data.draw(
        st.lists(st.tuples(ends, ends, st.integers(1, 9), st.booleans()), max_size=15)
    )
    roads = [Road(a, b, metres, oneway=oneway) for a, b, metres, oneway in edges]
    city = City([Place(name, "spot", 0, 0) for name in names], roads)
    best = {(a, b): 0 if a == b else math.inf for a in names for b in names}
    length: dict[tuple[str, str], int] = {}
    for road in roads:
        for a, b in [(road.a, road.b)] if road.oneway else [(road.a, road.b), (road.b, road.a)]:
            length[a, b] = min(road.metres, length.get((a, b), 10))
            best[a, b] = min(best[a, b], road.metres)
    for via in names:
        for a in names:
            for b in names:
                best[a, b] = min(best[a, b], best[a, via] + best[via, b])
    for (a, b), metres in best.items():
        route = city.route(a, b)
        assert city.metres(a, b) == (None if metres == math.inf else metres)
        if route is None:
            assert metres == math.inf
            continue
        assert route.metres == metres
        assert (route.nodes[0], route.nodes[-1]) == (a, b)
        assert sum(length[step] for step in itertools.pairwise(route.nodes)) == metres


def test_city_places_are_a_sequence_in_order_of_id() -> None:
    places = town().places
    assert list(places) == [BAR, HOME, ISLAND, OFFICE]
    assert (places[-1], places[1:3], len(places)) == (OFFICE, (HOME, ISLAND), 4)
    assert BAR in places
    assert town()["bar"] == BAR
    with pytest.raises(IndexError):
        places[4]
    assert len(City([]).places) == 0


def test_json_brings_the_same_city_back() -> None:
    city = town(modes=[Mode("walk", 7, 5), Mode("boat", 3, wait=60)])
    again = City.from_json(city.to_json())
    assert again.to_json() == city.to_json()
    assert again.sha256 == city.sha256
    assert ([*again.places], again.roads, again.nodes, again.modes) == (
        [*city.places],
        city.roads,
        city.nodes,
        city.modes,
    )
    assert town(places=[ISLAND, BAR, OFFICE, HOME]).sha256 == town().sha256
    assert town(places=[HOME, OFFICE, BAR]).sha256 != town().sha256
    walked, same = (
        town(roads=[("home", "n1", 500), Road("n1", "n2", 600, modes)]).sha256
        for modes in (("walk", "cycle"), ["cycle", "walk", "walk"])
    )
    assert walked == same


def test_route_takes_the_first_in_the_order_of_ids_of_equally_short_ways() -> None:
    ways = [("a", "b", 5), ("a", "c", 5), ("b", "d", 5), ("c", "d", 5)]
    route = City([Place(id, "spot", 0, 0) for id in "dcba"], ways).route("a", "d")
    assert route is not None
    assert route.nodes == ("a", "b", "d")


def test_place_takes_values_up_to_its_limits() -> None:
    place = Place("a", "home", -10_000_000, 10_000_000, 0, 86_399, 86_400)
    always, night = Place("b", "home", 0, 0), Place("c", "home", 0, 0, 10**9, 86_000, 5)
    assert (place.capacity, place.name, always.capacity) == (0, "a", 1)
    city = City([place, always, night])
    assert [city.is_open("a", time) for time in (86_399, 0)] == [True, False]
    assert [city.is_open("b", time) for time in (86_399, 0)] == [True, True]
    assert city.is_open("c", 86_400 + 4)


@pytest.mark.parametrize(
    ("field", "wrong", "text"),
    (
        ("id", "", 'id must be 1–255 printable characters, got ""'),
        ("id", "a\x1b[2J", "id must be 1–255 printable characters"),
        ("id", "\ud800", "id must be 1–255 printable characters"),
        ("id", "x" * 256, "id must be 1–255 printable characters"),
        ("id", 7, "id must be 1–255 printable characters, got 7"),
        ("kind", None, 'place "home": kind must be 1–255 printable characters, got null'),
        ("x", math.nan, 'place "home": x must be a whole number from -10000000 to 10000000'),
        ("closes", 0, "closes must differ from opens"),
        ("name", 5, "name must be 1–255 printable characters"),
        ("name", "a\nb", "name must be 1–255 printable characters"),
        ("node", "", "node must be 1–255 printable characters"),
    ),
)
def test_wrong_places_are_refused_by_field(field: str, wrong: object, text: str) -> None:
    row = {"id": "home", "kind": "home", "x": 0, "y": 0}
    with pytest.raises(ConfigError) as caught:
        Place(**{**row, field: wrong})  # type: ignore[arg-type]
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    (
        ({"places": [HOME, HOME]}, 'places[1]: id "home" appears twice'),
        ({"places": ["home"]}, 'places[0] must be a Place, got "home"'),
        ({"places": 5}, "places must be a list of Place, got 5"),
        ({"roads": 5}, "roads must be a list of Road or (a, b, metres), got 5"),
        ({"nodes": {}}, 'place "office": node "n2" does not exist'),
        ({"nodes": {**NODES, "home": (0, 0)}}, '"home" is the id of a place too'),
        ({"nodes": {**NODES, "n3": (0,)}}, 'nodes: "n3": must be (x, y)'),
        ({"nodes": {**NODES, "n3": (0, math.nan)}}, 'nodes: "n3": y must be a whole number'),
        ({"nodes": {**NODES, "": (0, 0)}}, "nodes: an id must be 1–255 printable"),
        ({"nodes": [1]}, "nodes must map ids to (x, y)"),
        (
            {"roads": [("home", "n9", 1)]},
            'roads[0]: "home"–"n9" leads to "n9", which is neither a node nor a place',
        ),
        ({"roads": [("home", "bar", 1)]}, '"bar", a place that hangs on node "n1": lead it there'),
        ({"roads": [("home", "n1", 0)]}, 'road "home"–"n1": metres must be a whole number from 1'),
        ({"roads": [("home", "n1")]}, "roads[0] must be a Road or (a, b, metres)"),
        ({"roads": [("home", 5, 1)]}, "road: b must be 1–255 printable characters, got 5"),
        ({"roads": [("home", "n1", 10**6)] * 2200}, "the roads together must have at most"),
        ({"modes": []}, "modes must have at least one"),
        ({"modes": [Mode("walk", 1), Mode("walk", 2)]}, 'modes[1]: name "walk" appears twice'),
    ),
)
def test_wrong_cities_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        town(**changes)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("make", "text"),
    (
        (lambda: Road("a", "b", 1, modes="walk"), "modes must be names or None"),  # type: ignore[arg-type]
        (lambda: Road("a", "b", 1, modes=("walk", "")), 'road "a"–"b": modes must be 1–255'),
        (lambda: Road("", "b", 1), "road: a must be 1–255 printable"),
        (lambda: Mode("", 1), "mode: name must be 1–255 printable"),
        (lambda: Road("a", "b", 1, oneway=1), "oneway must be a boolean"),  # type: ignore[arg-type]
        (lambda: Mode("walk", 1, wait=-1), 'mode "walk": wait must be a whole number from 0'),
        (lambda: town(roads=[Road("home", "n1", 1, ("fly",))]), 'roads[0]: mode "fly" is not one'),
    ),
)
def test_wrong_roads_and_modes_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert text in str(caught.value)


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(town().to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "error"),
    (
        ("", "the city is not JSON"),
        (b"\xff", "the city is not JSON"),
        ("[" * 100_000, "the city is not JSON"),
        ("[]", "format must be"),
        ('{"format": "moothall.city/2"}', "format must be"),
        (changed(extra=1), '"extra" is not a field'),
        (changed(places={}), "places must be an array, got object"),
        (changed(places=[3]), "places[0] must be an object, got 3"),
        (changed(places=[{"id": "a"}]), "places[0]: Place.__init__() missing 3 required"),
        (changed(nodes=[]), "nodes must be an object"),
        (changed(nodes={"n1": [0, 0], "n2": [0, 1.5]}), 'nodes: "n2": y must be a whole number'),
        (town().to_json().replace('"capacity":2', '"capacity":-2'), "places[1]: place"),
        (town().to_json().replace('"x":9000', '"x":NaN'), 'place "island": x must be'),
        (
            town().to_json().replace('"metres":600', '"meters":600'),
            "roads[1]: Road has no argument meters= (did you mean 'metres'?)",
        ),
        (town().to_json().replace('"wait":120', '"wait":"2min"'), 'modes[2]: mode "drive": wait'),
    ),
)
def test_json_of_elsewhere_is_refused_by_field(text: str | bytes, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        City.from_json(text)
    assert error in str(caught.value)
