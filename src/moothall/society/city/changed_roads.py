"""The ways of a city while some of its roads are closed or slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any, Final

from moothall import ConfigError
from moothall.build import excerpt, nearest
from moothall.society.arrays import Array, np
from moothall.society.city.access import Access
from moothall.society.city.map import Road
from moothall.society.city.routes import Roads
from moothall.society.kernel.intervention import USUAL_SPEED

_MAX_LIKENED: Final = 10_000  # of so many names one is looked for that is like a wrong one


class RoadIndex:
    """The roads of a city by their ids, their names and their ends."""

    def __init__(self, roads: Sequence[Road]) -> None:
        self.ids: dict[str, list[int]] = {}
        self._names: dict[str, list[str]] = {}
        self._ends: dict[tuple[str, str], list[str]] = {}
        for number, road in enumerate(roads):
            self.ids.setdefault(road.id, []).append(number)
            self._ends.setdefault(_ends(road.a, road.b), []).append(road.id)
            if road.name:
                self._names.setdefault(road.name, []).append(road.id)

    def ids_of(self, roads: Iterable[object]) -> list[str]:
        """Return the ids of roads that are named by id, by name, or by their two ends.

        Raises:
            ConfigError: there is no such road
        """
        return [*dict.fromkeys(chain.from_iterable(map(self._ids_of, roads)))]

    def _ids_of(self, road: Any) -> Sequence[str]:
        is_name = isinstance(road, str)
        ids: Sequence[str] = () if is_name else self._ends.get(_ends(*road), ())
        if is_name:
            ids = (road,) if road in self.ids else self._names.get(road, ())
        if not ids:
            hint = nearest(road, [*self._names, *self.ids][:_MAX_LIKENED]) if is_name else ""
            raise ConfigError(f"there is no road {excerpt(road)} in the city{hint}")
        return ids


def _ends(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def changed_metres(
    metres: Array,
    index: RoadIndex,
    mode: str,
    closed: Iterable[tuple[str, str]],
    speeds: Mapping[tuple[str, str], int],
) -> tuple[Array, Array]:
    """Return which roads are closed to a mode, and for how many metres each counts.

    Args:
        metres: the length of each road
        index: of these roads
        mode: the mode of travel
        closed: the closed roads, as (id, mode)
        speeds: the speed on roads in percent of the usual one, by (id, mode)
    """
    is_closed, counted = np.zeros(len(metres), bool), metres.copy()
    for id, its_mode in closed:
        if its_mode == mode:
            is_closed[index.ids[id]] = True
    for (id, its_mode), percent in speeds.items():
        if its_mode == mode:
            numbers = index.ids[id]
            counted[numbers] = -(-metres[numbers] * USUAL_SPEED // percent)
    return is_closed, counted


def changed_access(access: Access, edges: Array, oneway: Array) -> Access:
    """Return how places reach changed roads: at the nodes where they reach the usual ones."""
    changed = copy(access)
    changed.roads = Roads(edges, oneway, access.roads.spots, base=access.roads)
    changed.base = access
    return changed
