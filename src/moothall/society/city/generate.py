"""A plausible town of any size, by seed: streets, homes, firms, schools, shops and others.

Everything is whole numbers, drawn by `kernel/draw.py`, so a seed gives the same town on
every platform. A town of n citizens has:

* streets: a grid of about n/50 crossings 100 m apart, moved by up to 15 m: 5,000 citizens/km². In
  the outer half, one of three side streets is missing, except on every fourth column.
* `home`: one for each household; its capacity is the household's size, n in all. Sizes 1 … 7 in 29,
  35, 15, 12, 6, 2, 1 of 100 (U.S. Census Bureau, America's Families and Living Arrangements 2022,
  table HH-4, rounded). Density falls exponentially from the centre (Clark 1951, "Urban population
  densities", Journal of the Royal Statistical Society A 114), here to about e⁻² at the sides.
* `work`: jobs for 45 of 100 citizens (European Union 2022: 203 of 447 million, Eurostat), in firms
  of which a share 1/s has s jobs or more (Axtell 2001, "Zipf distribution of U.S. firm sizes",
  Science 293); the largest has at most a twentieth of the jobs, or 5. Denser in the centre: e⁻⁴.
* `school`: 18 seats for 100 citizens (16 of 100 are 5–17 years old, U.S. Census 2020, and staff),
  about 500 in a school.
* `shop`: 3 for 1,000 citizens (retail establishments, U.S. County Business Patterns 2021: about a
  million for 332 million people). `restaurant`: 24 for 10,000 (U.S. mean, National
  Restaurant Association 2003).
* `park`: 1 for 1,400 citizens, who at this density live within 300 m of it (World Health
  Organization 2016, "Urban green spaces and health").
* `hospital`: 1 for 55,000 (American Hospital Association, Fast Facts 2023: 6,129 in the U.S.), with
  twice the OECD's 4.3 beds for 1,000 (Health at a Glance 2023), for staff and visitors.

There is at least one of each kind. The seats of shops (40), restaurants (50) and parks (300), and
all opening hours, are assumed; those of workplaces are wide enough for the shifts of
`blocks/hours.py`: all are open at 6, where 20 of 100 are at work before 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import isqrt
from typing import Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.city.map import Place, Road
from moothall.society.clock import DAY_S
from moothall.society.kernel.draw import choices, draw_below, integers

HOUSEHOLD_SIZES: Final = (29, 35, 15, 12, 6, 2, 1)
"""The weights of households of 1 … 7."""
_SPACING_M = 100
_HOUR = 3600

# Opening hours of a kind: one pair is drawn for each place; a repeated pair has twice the weight.
_HOURS = {
    "home": ((0, 24),),
    "work": ((6, 22), (6, 22), (5, 23), (5, 24), (0, 24), (0, 24)),
    "school": ((7, 17),),
    "shop": ((7, 22), (8, 20), (8, 20), (9, 19), (10, 20)),
    "restaurant": ((7, 15), (11, 22), (11, 22), (11, 23), (17, 2)),
    "park": ((5, 23),),
    "hospital": ((0, 24),),
}


def generate_town(
    seed: int, citizens: int, households: Iterable[int] | None = None
) -> tuple[Iterator[Place], list[Road], dict[str, tuple[int, int]]]:
    """Return the places, roads and road nodes of a town of 10 … 10,000,000 citizens."""
    check_integer("citizens", citizens, 10, 10_000_000)
    check_integer("seed", seed, 0, 2**64 - 1)
    town = _TownPlan(seed, citizens)
    homes = town.households() if households is None else _checked_sizes(households, citizens)
    jobs = citizens * 45 // 100
    schools = -(-citizens * 18 // 50_000)  # of at most 500 seats, rounded up
    hospitals = max(1, _round_up(citizens, 55_000))
    beds = max(20, -(-citizens * 86 // (10_000 * hospitals)))
    places = chain(
        town.places("home", homes, decline=4),
        town.places("work", town.firms(jobs), decline=8),
        town.places("school", [-(-citizens * 18 // (100 * schools))] * schools, decline=4),
        town.places("shop", [40] * max(1, citizens * 3 // 1000), decline=5),
        town.places("restaurant", [50] * max(1, citizens * 24 // 10_000), decline=8),
        town.places("park", [300] * max(1, _round_up(citizens, 1400)), decline=0),
        town.places("hospital", [beds] * hospitals, decline=4),
    )
    return places, town.roads(), {f"n{i}": spot for i, spot in enumerate(town.nodes)}


def _checked_sizes(households: Iterable[int], citizens: int) -> list[int]:
    if not isinstance(households, Iterable):
        raise ConfigError(f"households must be sizes of homes, got {households!r:.80}")
    sizes = list(households)
    for size in sizes:
        check_integer("households: a size", size, 1, citizens)
    if sum(sizes) != citizens:
        raise ConfigError(f"households must have {citizens:,} members, got {sum(sizes):,}")
    return sizes


def _round_up(number: int, multiple: int) -> int:
    return (2 * number + multiple) // (2 * multiple)


class _TownPlan:
    """The draws of one town."""

    def __init__(self, seed: int, citizens: int) -> None:
        self._seed = seed
        self._citizens = citizens
        self._side = max(3, isqrt(citizens // 50) + 1)
        count = self._side * self._side
        xs, ys = self._spread("street", count, 15)
        self.nodes = [
            (number % self._side * _SPACING_M + x, number // self._side * _SPACING_M + y)
            for number, (x, y) in enumerate(zip(xs, ys, strict=True))
        ]

    def _rows(self, count: int) -> Array:
        return np.arange(count, dtype=np.uint64)

    def _below(self, n: int, count: int, purpose: str) -> Array:
        return draw_below(n, self._seed, self._rows(count), 0, f"city.{purpose}")

    def _spread(self, purpose: str, count: int, metres: int) -> tuple[list[int], list[int]]:
        """Return each object's drawn displacement along x and y."""
        x, y = (self._below(2 * metres + 1, count, f"{purpose}.{axis}") - metres for axis in "xy")
        return x.tolist(), y.tolist()

    def _blocks_from_centre(self, number: int) -> int:
        """Return a crossing's distance from the centre, in blocks."""
        x, y = (2 * place - self._side + 1 for place in divmod(number, self._side))
        return isqrt(x * x + y * y) // 2

    def _density(self, decline: int) -> list[int]:
        """Return the crossings' weights, which fall by the same share from ring to ring."""
        rings = [1 << 16]
        for _ in range(self._side):
            rings.append(max(1, rings[-1] * self._side // (self._side + decline)))
        weights = [rings[self._blocks_from_centre(number)] for number in range(len(self.nodes))]
        shift = max(0, sum(weights).bit_length() - 31)  # a draw takes a sum of at most 32 bits
        return [weight + (1 << shift) - 1 >> shift for weight in weights] if shift else weights

    def roads(self) -> list[Road]:
        """Return the streets: all along x; along y, in the outer half only some."""
        side = self._side
        has_side_street = self._below(3, len(self.nodes), "street.missing").tolist()
        roads = []
        for number in range(len(self.nodes)):
            row, column = divmod(number, side)
            if column + 1 < side:
                roads.append(self._road(number, number + 1))
            is_inner = column % 4 == 0 or self._blocks_from_centre(number) <= side // 4
            if row + 1 < side and (is_inner or has_side_street[number]):
                roads.append(self._road(number, number + side))
        return roads

    def _road(self, a: int, b: int) -> Road:
        (ax, ay), (bx, by) = self.nodes[a], self.nodes[b]
        return Road(f"n{a}", f"n{b}", isqrt((bx - ax) ** 2 + (by - ay) ** 2))

    def households(self) -> list[int]:
        """Return the sizes of households, whose sum is the number of citizens."""
        rows = self._rows(self._citizens)
        sizes = choices(HOUSEHOLD_SIZES, self._seed, rows, 0, "city.household") + 1
        return self._until(sizes, self._citizens)

    def firms(self, jobs: int) -> list[int]:
        """Return the jobs of each firm, whose sum is the number of jobs."""
        drawn = integers(self._seed, self._rows(jobs), 0, "city.firm") >> np.uint64(11)
        share = drawn.astype(np.int64) + 1
        return self._until(np.minimum((1 << 53) // share, max(5, jobs // 20)), jobs)

    def _until(self, sizes: Array, total: int) -> list[int]:
        """Return the first sizes up to the total; the last one is cut to fit."""
        sums = sizes.cumsum()
        last = int(sums.searchsorted(total))
        chosen: list[int] = sizes[: last + 1].tolist()
        chosen[-1] -= int(sums[last]) - total
        return chosen

    def places(self, kind: str, capacities: list[int], decline: int) -> Iterator[Place]:
        """Return the places of a kind, near crossings drawn by their density."""
        count = len(capacities)
        hours = [(opens * _HOUR, min(closes * _HOUR, DAY_S)) for opens, closes in _HOURS[kind]]
        density = self._density(decline)
        crossings = choices(density, self._seed, self._rows(count), 0, f"city.{kind}.node").tolist()
        hours_drawn = self._below(len(hours), count, f"{kind}.hours").tolist()
        spots = zip(crossings, *self._spread(kind, count, 40), strict=True)
        for number, (node, dx, dy) in enumerate(spots):
            x, y = self.nodes[node]
            opens, closes = hours[hours_drawn[number]]
            yield Place(
                id=f"{kind}-{number + 1}",
                kind=kind,
                x=x + dx,
                y=y + dy,
                capacity=capacities[number],
                opens=opens,
                closes=closes,
                node=f"n{node}",
            )
