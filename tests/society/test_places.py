"""What every place has, whatever it is, and how a block asks for what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import (
    Capacities,
    City,
    Grid,
    Hours,
    Neighbours,
    Network,
    Place,
    Places,
    Positions,
    Routes,
    needs,
)

CITY = City(
    [
        Place("home", "home", 0, 0),
        Place("shop-b", "shop", 100, 0, opens=8 * 3600, closes=20 * 3600),
        Place("shop-a", "shop", -100, 0),
        Place("island", "park", 5000, 0),
    ],
    [("home", "shop-a", 100), ("home", "shop-b", 100)],
)
NETWORK = Network(
    {"home": "home", "shop-b": "shop", "shop-a": "shop", "island": "park"},
    [("home", "shop-b"), ("shop-a", "home")],
)
GRID = Grid(3, 3)


@pytest.fixture(params=(CITY, NETWORK, GRID), ids=("city", "network", "grid"))
def place(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_ids_are_in_order_and_each_has_a_kind(place: Any) -> None:
    assert isinstance(place, Places)
    ids = place.ids()
    assert list(ids) == sorted(set(ids))
    assert len(place) == len(ids)
    assert all(each in place for each in ids)
    assert sorted(each for kind in place.kinds() for each in place.by_kind(kind)) == list(ids)
    assert all(each in place.by_kind(place.kind(each)) for each in ids)
    assert place.by_kind("palace") == ()
    assert "nowhere" not in place
    assert None not in place


def test_times_and_near_say_the_same(place: Any) -> None:
    assert isinstance(place, Routes)
    for a in place.ids():
        found = place.near(a, limit=100)
        assert {each.id: each.seconds for each in found} == {
            b: place.seconds(a, b)
            for b in place.ids()
            if b != a and place.seconds(a, b) is not None
        }
        assert list(found) == sorted(found, key=lambda each: (each.seconds, each.id))
        assert place.near(a, limit=1) == found[:1]
        assert place.seconds(a, a) == 0
        for kind in place.kinds():
            of_kind = tuple(each for each in found if place.kind(each.id) == kind)
            assert place.near(a, kind, limit=100) == of_kind
        assert place.near(a, "palace") == ()


def test_unknown_places_are_refused(place: Any) -> None:
    here = place.ids()[0]
    for wrong in ("nowhere", "", "9,9", "1, 1", "\ud800", None, 3, ["home"]):
        for ask in (
            lambda wrong=wrong: place.kind(wrong),
            lambda wrong=wrong: place.near(wrong),
            lambda wrong=wrong: place.seconds(wrong, here),
            lambda wrong=wrong: place.seconds(here, wrong),
        ):
            with pytest.raises(ConfigError, match=r"has no (place|node|cell)"):
                ask()
    for limit in (0, -1, 1.5, True):
        with pytest.raises(ConfigError, match="limit must be a whole number from 1 up"):
            place.near(here, limit=limit)
    for travel in (
        lambda mode: place.seconds(here, here, mode),
        lambda mode: place.near(here, mode=mode),
    ):
        with pytest.raises(ConfigError, match="mode must be"):
            travel("teleport")


def test_places_protocols_of_each_city() -> None:
    found = {
        protocol: [
            type(each).__name__ for each in (CITY, NETWORK, GRID) if isinstance(each, protocol)
        ]
        for protocol in (Capacities, Hours, Neighbours, Positions)
    }
    assert found == {
        Capacities: ["City", "Grid"],
        Hours: ["City"],
        Neighbours: ["Network", "Grid"],
        Positions: ["City", "Grid"],
    }


@pytest.mark.parametrize(
    ("place", "protocols", "kinds", "text"),
    (
        (
            None,
            (Routes,),
            ("shop",),
            "M needs travel times to places, places of kind 'shop', and there is no city: pass as "
            "city= a City, Network or Grid",
        ),
        (
            NETWORK,
            (Routes, Hours),
            (),
            "M needs opening hours of places, and Network has none: pass as city= a City",
        ),
        (
            CITY,
            (Routes,),
            ("shop", "school"),
            "M needs places of kind 'school', and City has only: 'home', 'park', 'shop'",
        ),
        (None, (), ("shop",), "M needs places of kind 'shop', and there is no city: pass as city="),
        (7, (Places,), (), "M needs places, and int has none: pass as city= a City"),
    ),
)
def test_places_missing_protocol_is_named(
    place: Any, protocols: tuple[type, ...], kinds: tuple[str, ...], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        needs(place, *protocols, who="M", kinds=kinds)
    assert text in str(caught.value)
