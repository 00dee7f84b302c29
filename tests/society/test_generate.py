"""Towns by seed: whole, reachable, as stated, and the same for the same seed."""

from __future__ import annotations

import collections
import math

import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import City, Mode

KINDS = ("home", "hospital", "park", "restaurant", "school", "shop", "work")


@pytest.fixture(scope="module")
def town() -> City:
    return City.generate(seed=7, citizens=20_000)


@pytest.mark.parametrize("citizens", (10, 11, 73, 1000))
@pytest.mark.parametrize("seed", (0, 2**64 - 1))
def test_town_of_any_seed_has_all_kinds_and_room_for_everybody(citizens: int, seed: int) -> None:
    city = City.generate(seed=seed, citizens=citizens)
    assert city.kinds() == KINDS
    assert sum(city.capacity(home) for home in city.by_kind("home")) == citizens
    assert sum(city.capacity(firm) for firm in city.by_kind("work")) == citizens * 45 // 100
    assert all(place.capacity > 0 for place in city.places)
    start = city.ids()[0]
    assert None not in [city.seconds(start, place) for place in city.ids()]


def test_town_of_the_same_seed_has_the_same_bytes(town: City) -> None:
    assert town.sha256 == City.generate(seed=7, citizens=20_000).sha256
    assert town.sha256 == "75148807b41a78b560f85a0ac3e07d9986526611eb01313cb8408b70ae262d31"
    assert (
        City.generate(seed=8, citizens=1000).sha256 != City.generate(seed=7, citizens=1000).sha256
    )


def test_town_bytes_are_those_of_every_platform() -> None:
    assert (
        City.generate(seed=1, citizens=1000).sha256
        == "4c03342584e281d1a592a7562f74b80db8ee3b48d51d8ff227fc16be154855c5"
    )


def test_people_travel_as_it_is_said() -> None:
    boat = Mode("boat", 1)
    assert City.generate(seed=1, citizens=10, modes=[boat]).modes == (boat,)


def test_town_counts_are_as_stated(town: City) -> None:
    found = {kind: len(town.by_kind(kind)) for kind in KINDS}
    assert {kind: found[kind] for kind in ("school", "shop", "restaurant", "park", "hospital")} == {
        "school": 8,
        "shop": 60,
        "restaurant": 48,
        "park": 14,
        "hospital": 1,
    }
    small = City.generate(seed=7, citizens=3000)
    assert small.capacity(small.by_kind("hospital")[0]) == 26  # 8.6 beds for 1,000, rounded up
    sizes = collections.Counter(town.capacity(home) for home in town.by_kind("home"))
    assert set(sizes) == set(range(1, 8))
    for size, percent in enumerate((29, 35, 15, 12, 6, 2, 1), 1):
        share, n = percent / 100, found["home"]
        assert abs(sizes[size] - share * n) < 5 * math.sqrt(n * share * (1 - share))


def test_firms_follow_zipfs_law(town: City) -> None:
    jobs = [town.capacity(firm) for firm in town.by_kind("work")]
    assert max(jobs) <= sum(jobs) // 20
    for size in (2, 5, 20, 100):
        share, n = 1 / size, len(jobs)
        found = sum(each >= size for each in jobs)
        assert abs(found - share * n) < 5 * math.sqrt(n * share * (1 - share))


def test_town_centre_is_denser_than_the_suburbs(town: City) -> None:
    side = max(x for x, _ in town.nodes.values()) / 2

    def inner(kind: str) -> float:
        homes = [town.position(place) for place in town.by_kind(kind)]
        return sum(math.dist(spot, (side, side)) < side / 2 for spot in homes) / len(homes)

    # The circle has 20 % of the town's area.
    assert 0.3 < inner("home") < inner("work") < 0.9


def test_wrong_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="citizens must be a whole number from 10 to 10000000"):
        City.generate(seed=1, citizens=10_000_001)
