"""The map of a city as a page draws it: streets by class, places at their streets, quarters."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moothall import City
    from moothall.society import Whereabouts

_MAX_ROUTES: Final = 60
"""How many ways from homes are looked at, to see which streets are used most."""
_MAX_BEND_COSINE: Final = math.cos(math.radians(35))
"""A street goes on over a crossing where it bends by less: Thomson's strokes of a network."""
_SETBACK: Final = 13
"""Metres from the middle of a street to the first row of its places."""
_GAP: Final = 11
"""The least metres between two places of a row; more places stand in rows behind."""
_MAX_ROWS: Final = 3
_SECTORS: Final = (
    ("South-West", "South", "South-East"),
    ("West", "Centre", "East"),
    ("North-West", "North", "North-East"),
)


class TownMap:
    """A city's bounds, streets, quarters, and where its places are drawn.

    A place of a generated city is drawn at a street of its node, on the side that it is nearest to;
    any other at its own position.
    """

    def __init__(self, city: City) -> None:
        self._city = city
        self._nodes = {node: number for number, node in enumerate(city.nodes)}
        self._nodes_at = [*city.nodes.values()]
        self._spots: dict[str, tuple[float, float]] = {}
        for place in city.places:
            self._spots[place.id] = (place.x, place.y)
            if place.node is None:  # roads lead to the place itself
                self._nodes[place.id] = len(self._nodes_at)
                self._nodes_at.append((place.x, place.y))
        self._road_ends = [(self._nodes[road.a], self._nodes[road.b]) for road in city.roads]
        self._roads_by_node: dict[int, list[int]] = defaultdict(list)
        for number, ends in enumerate(self._road_ends):
            for node in ends:
                self._roads_by_node[node].append(number)
        if city.is_generated:
            self._place_at_streets()
        xs, ys = zip(*self._nodes_at, *self._spots.values(), strict=True)
        west, low = min(xs), min(ys)
        wide, tall = (float(max(each) - min(each) or 1) for each in (xs, ys))
        self.bounds: tuple[float, float, float, float] = (float(west), float(low), wide, tall)

    def drawn_positions(self, where: Whereabouts) -> tuple[list[float | None], list[float | None]]:
        """Return x and y of citizens: of those at a place, where it is drawn."""
        if not self._city.is_generated:
            return where.x, where.y
        spots = self._spots
        xs, ys = where.x.copy(), where.y.copy()
        for number, place in enumerate(where.place):
            if place is not None:
                xs[number], ys[number] = spots[place]
        return xs, ys

    def data(self) -> dict[str, Any]:
        """Return the map: bounds, kinds, places, nodes, roads and quarters.

        A road has its two ends, its class (2 the widest), its id and the name of its street.
        """
        city, kinds = self._city, list(self._city.kinds())
        classes = self._classes()
        return {
            "bounds": self.bounds,
            "kinds": kinds,
            "places": [
                [each.id, kinds.index(each.kind), *self._spots[each.id], each.capacity, each.name]
                for each in city.places
            ],
            "nodes": self._nodes_at,
            "roads": [
                [*ends, class_number, road.id, road.name]
                for ends, class_number, road in zip(
                    self._road_ends, classes, city.roads, strict=True
                )
            ],
            "quarters": self._quarters(),
        }

    # -- streets -----------------------------------------------------------------------------------

    def _direction(self, road: int, node: int) -> tuple[float, float, float]:
        """Return the unit vector of a road away from a node, and its length in metres."""
        a, b = self._road_ends[road]
        (ax, ay), (bx, by) = (self._nodes_at[each] for each in ((a, b) if node == a else (b, a)))
        length = math.hypot(bx - ax, by - ay) or 1.0
        return (bx - ax) / length, (by - ay) / length, length

    def _streets(self) -> list[int]:
        """Return the street of each road: roads that go on straight over crossings are one."""
        street = [*range(len(self._road_ends))]

        def root(road: int) -> int:
            while street[road] != road:
                street[road] = road = street[street[road]]
            return road

        for node, roads in self._roads_by_node.items():
            towards = {road: self._direction(road, node) for road in roads}
            pairs = sorted(
                (towards[a][0] * towards[b][0] + towards[a][1] * towards[b][1], a, b)
                for a in roads
                for b in roads
                if a < b
            )
            free = set(roads)
            for cosine, a, b in pairs:
                if cosine < -_MAX_BEND_COSINE and {a, b} <= free:
                    free -= {a, b}
                    street[root(a)] = root(b)
        return [root(road) for road in range(len(street))]

    def _classes(self) -> list[int]:
        """Return each road's class, by how many ways from homes lead over its street."""
        city = self._city
        uses: Counter[frozenset[str]] = Counter()
        homes, targets = city.by_kind("home"), [n for n in city.ids() if city.kind(n) != "home"]
        if targets:
            for number, home in enumerate(_evenly(homes, _MAX_ROUTES)):
                route = city.route(home, targets[(number * 7919) % len(targets)])
                nodes = route.nodes if route else ()
                uses.update(map(frozenset, pairwise(nodes)))
        streets = self._streets()
        traffic: Counter[int] = Counter()
        for road, street in zip(city.roads, streets, strict=True):
            traffic[street] = max(traffic[street], uses[frozenset((road.a, road.b))])
        ranking = [street for street, _ in traffic.most_common()]
        widest, middle = math.ceil(len(ranking) / 8), math.ceil(len(ranking) / 2)
        rank = {street: (index < widest) + (index < middle) for index, street in enumerate(ranking)}
        return [rank[street] for street in streets]

    def _place_at_streets(self) -> None:
        """Have each place stand at a street of its node, on the side and half it is nearest to."""
        by_side: dict[tuple[int, int, int], list[tuple[float, str]]] = defaultdict(list)
        for place in self._city.places:
            if place.node is None or not (roads := self._roads_by_node[self._nodes[place.node]]):
                continue
            node = self._nodes[place.node]
            x, y = place.x - self._nodes_at[node][0], place.y - self._nodes_at[node][1]

            def nearness(
                key: tuple[int, int, int], x: float = x, y: float = y
            ) -> tuple[float, float]:
                """Return the metres along a street, and those that speak for its side."""
                ux, uy, _ = self._direction(key[1], key[0])
                dist = ux * x + uy * y
                return dist, dist + key[2] * (ux * y - uy * x) / 2 - _GAP * len(by_side[key]) / 2

            sides = [(node, road, side) for road in roads for side in (1, -1)]
            chosen = max(sides, key=lambda at: nearness(at)[1])
            by_side[chosen].append((nearness(chosen)[0], place.id))
        for (node, road, side), places in by_side.items():
            ux, uy, length = self._direction(road, node)
            row = max(int((length / 2 - _SETBACK) // _GAP), -(-len(places) // _MAX_ROWS), 1)
            for number, (_, place_id) in enumerate(sorted(places)):
                row_count, index = divmod(number, row)
                in_row = min(row, len(places) - row_count * row)
                begin = _SETBACK + row_count * _GAP  # a corner is not of two streets
                dist = begin + max(_GAP, length / 2 - begin) * (index + 0.5) / in_row
                off = side * begin
                x, y = self._nodes_at[node]
                self._spots[place_id] = (x + dist * ux - off * uy, y + dist * uy + off * ux)

    def _quarters(self) -> list[tuple[str, float, float]]:
        """Return the quarters by their side of the town: name, and the middle of their homes."""
        west, low, wide, tall = self.bounds
        homes: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for home in self._city.by_kind("home"):
            x, y = self._spots[home]
            column, row = (min(2, int(3 * each)) for each in ((x - west) / wide, (y - low) / tall))
            homes[_SECTORS[row][column]].append((x, y))
        return [
            (name, statistics.fmean(x for x, _ in spots), statistics.fmean(y for _, y in spots))
            for name, spots in homes.items()
        ]


def _evenly(values: Iterable[str], count: int) -> list[str]:
    """Return so many of some, evenly over all."""
    items = [*values]
    return items[:: max(1, len(items) // count)]
