"""Queries of a city for rows: a `City` answers for all at once, others place by place."""

from __future__ import annotations

from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.clock import DAY_S
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows

MAX_CHECKED: Final = 10  # the places of a kind whose hours are checked, at most


def kind_numbers(rows: Rows) -> dict[str, int]:
    """Return the number of each kind of place."""
    return {} if rows.city is None else {kind: n for n, kind in enumerate(rows.city.kinds())}


def place_kinds(rows: Rows) -> Any:
    """Return the number of each place's kind."""
    city, numbers = rows.city, kind_numbers(rows)
    if hasattr(city, "kind_rows"):
        return city.kind_rows()
    kinds = (numbers[city.kind(place)] for place in rows.population.places)
    return rows.once("town.kinds", lambda: np.array([*kinds], "int16"))


def open_now(rows: Rows, time: int) -> Any:
    """Return for each place whether it is open; None if places have no hours."""
    if not hasattr(rows.city, "is_open"):
        return None
    count = len(rows.population.places)
    return rows.once("town.open", lambda: open_at(rows, np.arange(count), time))


def is_kind(rows: Rows, place: Any, kind: str) -> Any:
    """Return whether the places of rows are of a kind."""
    return place_kinds(rows)[place] == kind_numbers(rows).get(kind, -1)


def is_open(rows: Rows, place: Any, time: int) -> Any:
    """Return whether the places of rows are open now; each has one."""
    open_places = open_now(rows, time)
    return np.ones(len(rows), bool) if open_places is None else open_places[place]


def open_at(rows: Rows, places: object, time: object) -> Any:
    """Return whether places, by number, are open at seconds after midnight; broadcasts."""
    city = rows.city
    places, time = np.asarray(places), np.asarray(time)
    if not hasattr(city, "is_open"):
        return np.ones(np.broadcast_shapes(time.shape, places.shape), bool)
    if hasattr(city, "open_rows"):
        return city.open_rows(time, places)
    names = rows.population.places
    pairs = np.broadcast(places, time)
    flags = [city.is_open(names[place], int(second) % DAY_S) for place, second in pairs]
    return np.array(flags, bool).reshape(pairs.shape)


def any_open(rows: Rows, kind: str, time: Array) -> Array:
    """Return for each time whether a place of a kind is open then and 30 minutes later: 0, 1."""
    cache = rows.moment.cache
    key = ("opens", kind)
    if key not in cache:
        cache[key] = np.full(DAY_S, -1, np.int8)
    by_time = cache[key]
    flags: Array = by_time[time]
    if (flags < 0).any():
        new = np.unique(time[flags < 0])
        places = rows.population.of_kind(kind, MAX_CHECKED)
        is_open = open_at(rows, places, new[:, None]) & open_at(rows, places, new[:, None] + 1800)
        by_time[new] = is_open.any(axis=1)
        flags = by_time[time]
    return flags


def capacity(rows: Rows) -> Array:
    """Return the capacity of each place; 1 if it has no limit."""
    return rows.once("town.holds", lambda: capacities_of(rows.population, slice(None), 1))


def capacities_of(population: Register, places: Any, unlimited: int) -> Any:
    """Return the capacities of some places; `unlimited` where there is no limit."""
    city = population.city
    if hasattr(city, "capacity_rows"):
        return city.capacity_rows()[places]
    names = np.array(population.places, object)[places]
    capacities = [city.capacity(each) if hasattr(city, "capacity") else None for each in names]
    return np.array([unlimited if each is None else each for each in capacities], "int64")


def nearest_places(
    rows: Rows, place: Array, kind: str, limit: int, mode: str | None
) -> tuple[Array, Array]:
    """Return the nearest places of a kind (−1: none) and the seconds to them, (n, limit) each."""
    city = rows.city
    if hasattr(city, "near_rows"):
        return city.near_rows(place, kind, limit, mode)  # type: ignore[no-any-return]
    names, numbers = rows.population.places, rows.population.place_numbers
    numbers_near = np.full((len(place), limit), -1, np.int64)
    seconds = np.zeros((len(place), limit), np.int64)
    for start in np.unique(place).tolist():
        is_here = place == start
        for rank, each in enumerate(city.near(names[start], kind, limit, mode)):
            numbers_near[is_here, rank], seconds[is_here, rank] = numbers[each.id], each.seconds
    return numbers_near, seconds


def travel_seconds(rows: Rows, place: Array, to: Array, modes: list[str | None]) -> Any:
    """Return the seconds from `place` to `to` by each mode; int64, (n, modes), −1: no way."""
    city = rows.city
    if hasattr(city, "ways_rows"):
        return city.ways_rows(place, to, modes)
    pairs, pair_numbers = np.unique(np.stack([place, to]), axis=1, return_inverse=True)
    ways_of_pairs = np.empty((pairs.shape[1], len(modes)), np.int64)
    names = rows.population.places
    for pair, (start, goal) in enumerate(pairs.T.tolist()):
        for number, mode in enumerate(modes):
            seconds = city.seconds(names[start], names[goal], mode)
            ways_of_pairs[pair, number] = -1 if seconds is None else seconds
    return ways_of_pairs[pair_numbers.reshape(-1)]
