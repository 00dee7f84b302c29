"""Homes, work and schools, given to many at once; one rule for objects and for columns.

* Homes are filled up to their capacity; of large ones, with several households, ten seats may be.
  Fewer people than a city has room for live in homes all over it, drawn by the seed. They are given
  by area, so that those whose rows follow one another live near each other (and lie near each other
  in memory). A home without a limit takes one person, and another each time all homes are filled.
* Households of a table come first, the largest before others: each into a home of its size, else
  into one of several households, else into the smallest that has room.
* Work follows the gravity model (Zipf 1946, "The P1 P2/D hypothesis"): of
  `PeopleParams.offers` jobs of the whole town, each as likely as any other, one by the weight
  1 ÷ (metres + `near`)². Who finds it
  taken asks again, up to `_ROUNDS` times, and then takes any that is left.
* The seats of a school go to those for whom it is the nearest with a free one.

In each round all who have none ask at once, and are taken in an order drawn by the seed.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.columns import city_queries
from moothall.society.columns.lists import occurrence_of
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import choices_by, draw_below, integers
from moothall.society.people.household import MAX_HOUSEHOLD
from moothall.society.people.params import PeopleParams
from moothall.society.services.firm import STAFF

logger: logging.Logger = logging.getLogger("moothall.society")

_MAX_WEIGHT: Final = 10**8  # the weight of no distance: 40 of them have fewer than 32 bits
_REACH: Final = 20
_ROUNDS: Final = 10
_CHUNK: Final = 1 << 12
_TEN: Final = 10  # the seats of households of 1, 2, 3 and 4 in a large home


def homes_taken(population: Register, home: Array) -> Array:
    """Return for how many of a table each place is home; `home` is each row's, −1 for none.

    Raises ConfigError: a place is home for more than it holds.
    """
    occupied = np.bincount(home[home >= 0], minlength=len(population.places))
    if small := _too_small(population, occupied, "home"):
        raise ConfigError(f"{small}: make it larger, or give some of them another home")
    return occupied


def warn_of_small_places(population: Register, *columns: Array) -> None:
    """Log which places hold fewer than a table gives them: its columns of work and of school."""
    count = max(1, len(population.places))
    pairs = [np.flatnonzero(each >= 0) * count + each[each >= 0] for each in columns]
    if not sum(map(len, pairs)):
        return
    needed = np.bincount(np.unique(np.concatenate(pairs)) % count, minlength=count)
    if small := _too_small(population, needed, "work or school"):
        _warn_once(small)


@functools.lru_cache(64)  # an experiment has the same table in each of its cells
def _warn_once(small: str) -> None:
    advice = "make it larger, or give some of them another place"
    logger.warning("%s; who comes when it is full is turned away: %s", small, advice)


def _too_small(population: Register, needed: Array, noun: str) -> str:
    """Return in words which places hold fewer than so many; empty for none."""
    capacities = city_queries.capacities_of(population, slice(None), -1)
    overfull = np.flatnonzero((capacities >= 0) & (needed > capacities)).tolist()
    some = [
        f"{population.places[number]!r} holds {capacities[number]:,}, and is the {noun} of "
        f"{needed[number]:,} citizens"
        for number in overfull[:3]
    ]
    return "; ".join(some) + (f"; {len(overfull) - 3:,} more are too small" if overfull[3:] else "")


def homes_of(
    population: Register, count: int, occupied: WholeNumber = 0
) -> Any:  # occupied: by place
    """Return a home for each of `count` persons, fewer if there is no more room."""
    places, room = _rooms(population, occupied)
    no_limit = places[room[places] < 0]
    room = np.where(room < 0, 1, room)
    unit_homes, sizes = _units(room[places])
    if count < room[places].sum():
        order = _spread_order(population, len(unit_homes))
        sums = sizes[order].cumsum()
        last = int(sums.searchsorted(count))
        sizes[order[last]] -= sums[last] - count
        sizes[order[last + 1 :]] = 0
    homes = places[unit_homes].repeat(sizes)
    if len(homes) == count or not len(no_limit):
        return homes
    return np.r_[homes, no_limit[np.arange(count - len(homes)) % len(no_limit)]]


def homes_of_households(
    population: Register, household: Array, home: Array, occupied: Array
) -> Array:
    """Return everybody's home: `home`, or one for each `household` of a table.

    `occupied`, by place, is counted up. Raises ConfigError: no home has room for a household.
    """
    homes = np.array(home, np.int64)
    housed = np.flatnonzero((household >= 0) & (homes >= 0))[::-1]
    household_homes = np.full(household.max(initial=-1) + 1, -1)
    household_homes[household[housed]] = homes[housed]
    homeless = np.flatnonzero((household >= 0) & (homes < 0))
    sizes = np.bincount(household[homeless], minlength=len(household_homes))
    to_join = np.flatnonzero((household_homes >= 0) & (sizes > 0))
    np.add.at(occupied, household_homes[to_join], sizes[to_join])
    unhoused = np.flatnonzero((household_homes < 0) & (sizes > 0))
    new_homes = np.array(_homes_together(population, sizes[unhoused], occupied), np.int64)
    left_out = unhoused[new_homes < 0]
    if len(left_out):
        largest = left_out[np.argmax(sizes[left_out])]
        row = homeless[household[homeless] == largest][0] + 1
        raise ConfigError(
            f"the household of row {row} finds no home with room for {sizes[largest]}: "
            f"{len(left_out):,} of {len(household_homes):,} households find none; give the city "
            "larger homes, such as City.generate(…, households=[the size of each])"
        )
    household_homes[unhoused] = new_homes
    np.add.at(occupied, new_homes, sizes[unhoused])
    homes[homeless] = household_homes[household[homeless]]
    return homes


def _homes_together(population: Register, sizes: Array, occupied: Array) -> list[int]:
    """Return a home for each household of so many persons; −1 for one without."""
    places, room = _rooms(population, occupied)
    places = places[_spread_order(population, len(places))]
    room_left: list[int] = np.where(room < 0, np.iinfo(np.int64).max, room)[places].tolist()
    large = [index for index, each in enumerate(room_left) if each > MAX_HOUSEHOLD]
    by_room: list[deque[int]] = [deque() for _ in range(MAX_HOUSEHOLD + 1)]
    for index, each in enumerate(room_left):
        if each <= MAX_HOUSEHOLD:
            by_room[each].append(index)
    # A large home's turn comes in proportion to its room.
    sums = np.cumsum([min(room_left[index], (1 << 31) // len(large)) for index in large])
    words = _spread_words(population, len(sizes)) >> np.uint64(32)
    turns = words * np.uint64(sums[-1] if large else 0) >> np.uint64(32)
    homes = [-1] * len(sizes)
    for turn, number in enumerate(np.argsort(-np.asarray(sizes), kind="stable").tolist()):
        size = int(sizes[number])
        chosen = by_room[size].popleft() if size <= MAX_HOUSEHOLD and by_room[size] else -1
        if chosen < 0 and large:
            first = int(sums.searchsorted(int(turns[turn]), side="right"))
            order = (large[(first + each) % len(large)] for each in range(len(large)))
            chosen = next((index for index in order if room_left[index] >= size), -1)
        if chosen < 0:
            larger = next((each for each in range(size, MAX_HOUSEHOLD + 1) if by_room[each]), -1)
            chosen = by_room[larger].popleft() if larger >= 0 else -1
        if chosen >= 0:
            homes[number] = int(places[chosen])
            old_room, room_left[chosen] = room_left[chosen], room_left[chosen] - size
            if old_room <= MAX_HOUSEHOLD:
                by_room[room_left[chosen]].append(chosen)
    return homes


def _rooms(population: Register, occupied: WholeNumber) -> tuple[Array, Array]:
    """Return the homes by area, and the room left in each place; below 0: no limit."""
    city, homes = population.city, population.of_kind("home")
    if hasattr(city, "by_area") and len(homes):
        homes = homes[city.by_area(homes)]
    room = city_queries.capacities_of(population, slice(None), -1)
    return homes, np.where(room < 0, -1, np.maximum(room - occupied, 0))


def _units(room: Array) -> tuple[Array, Array]:
    """Return what is lived in as a whole: homes, and of large ones tens of seats, with the rest.

    Fewer than ten in a large home would be one family, or only the smaller of its households.
    """
    unit_counts = np.where(room > MAX_HOUSEHOLD, np.maximum(room // _TEN, 1), 1)
    unit_homes = np.arange(len(room)).repeat(unit_counts)
    turn = occurrence_of(unit_homes)
    rest_units = room[unit_homes] - turn * _TEN
    return unit_homes, np.where(turn + 1 < unit_counts[unit_homes], _TEN, rest_units)


def _spread_order(population: Register, count: int) -> Array:
    """Return an order of so many neighbours whose first ones lie evenly among all."""
    return np.argsort(_spread_words(population, count), kind="stable")


def _spread_words(population: Register, count: int) -> Array:
    # Weyl's sequence of the golden ratio: however many are taken, their gaps are of three lengths.
    first = integers(population.seed, np.zeros(1, np.uint64), 0, "people.home")
    return np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + first


def employ(rows: Rows, free: Array, params: PeopleParams, income: Array | None = None) -> None:
    """Give work by gravity to adults up to 66 who want it; `free` says who may be given any.

    `income` is what a table says that each earns, NaN where it does not: who earns wants work.
    """
    population = rows.population
    arrays, seed, ids = population.arrays, population.seed, population.ids
    jobs = np.zeros(len(population.places), np.int64)
    for kind, staff in STAFF.items():
        places = population.of_kind(kind)
        # 10 jobs where there is no limit.
        capacities = city_queries.capacities_of(population, places, 10_000 // staff)
        jobs[places] = np.maximum(1, capacities * staff // 1000)
    filled = arrays["work"][arrays["work"] >= 0]
    jobs = np.maximum(jobs - np.bincount(filled, minlength=len(jobs)), 0)
    age = arrays["age"] if "age" in arrays else np.full(len(population), 18)
    is_seeking = free & (age >= 18) & (age < 67) & (arrays["home"] >= 0)
    is_seeking &= _wants_work(seed, ids, params, income)
    unplaced = np.flatnonzero(is_seeking)
    positions = _place_positions(population)
    for turn in range(_ROUNDS):
        sums = jobs.cumsum()
        if not len(unplaced) or not len(sums) or not sums[-1]:
            break
        requested = np.full(len(unplaced), -1, np.int64)
        for first in range(0, len(unplaced), _CHUNK):
            part = unplaced[first : first + _CHUNK]
            person_ids, total = ids[part], int(sums[-1])
            each = range(turn * params.offers, (turn + 1) * params.offers)
            offers = (draw_below(total, seed, person_ids, 0, "people.offer", k) for k in each)
            offered = sums.searchsorted(np.stack([*offers], axis=1), side="right")
            offsets = positions[offered] - positions[arrays["home"][part]][:, None]
            metres = np.sqrt((offsets.astype(np.float64) ** 2).sum(axis=2)).astype(np.int64)
            weights = (_MAX_WEIGHT * params.near**2 // (metres + params.near) ** 2).cumsum(axis=1)
            choice = choices_by(weights, seed, person_ids, 0, "people.work", turn)
            requested[first : first + _CHUNK] = offered[np.arange(len(part)), choice]
        turns = integers(seed, ids[unplaced], 0, "people.turn", turn)
        unplaced = unplaced[~_assign_places(arrays["work"], unplaced, requested, jobs, turns)]
    jobs_left = np.repeat(np.arange(len(jobs)), jobs)[: len(unplaced)]
    order = np.argsort(integers(seed, ids[unplaced], 0, "people.turn", _ROUNDS), kind="stable")
    arrays["work"][unplaced[order[: len(jobs_left)]]] = jobs_left


def seeks_work(seed: int, ids: Array, params: PeopleParams, income: Array | None) -> Any:
    """Return who seeks work if it has none: who wants it, and some others."""
    lookers = draw_below(1000, seed, ids, 0, "people.jobless") < params.jobless
    return _wants_work(seed, ids, params, income) | lookers


def _wants_work(seed: int, ids: Array, params: PeopleParams, income: Array | None) -> Any:
    """Return who wants work: who has an income in a table, or of the others a share."""
    wants = draw_below(100, seed, ids, 0, "people.employed") < params.employed
    return wants if income is None else np.where(np.isnan(income), wants, income > 0)


def enrol(rows: Rows, free: Array) -> None:
    """Give ages 5 … 17 a seat in the nearest school; `free` says who may be given any."""
    population = rows.population
    arrays = population.arrays
    schools = population.of_kind("school")
    if not len(schools) or "age" not in arrays:
        return
    seats = np.zeros(len(population.places), np.int64)
    capacities = city_queries.capacities_of(population, schools, 2 * len(population))
    staff = np.maximum(1, capacities * STAFF["school"] // 1000)
    seats[schools] = capacities - staff
    age = arrays["age"]
    unplaced = np.flatnonzero(free & (age >= 5) & (age < 18) & (arrays["home"] >= 0))
    near, _ = city_queries.nearest_places(rows, arrays["home"][unplaced], "school", _REACH, None)
    turn = 0
    while len(unplaced):
        fits = (near >= 0) & (seats[near] > 0)
        requested = np.where(
            fits.any(axis=1), near[np.arange(len(unplaced)), fits.argmax(axis=1)], -1
        )
        turns = integers(population.seed, population.ids[unplaced], 0, "people.turn", turn)
        has_seat = _assign_places(arrays["school"], unplaced, requested, seats, turns)
        asks_again, turn = ~has_seat & (requested >= 0), turn + 1
        unplaced, near = unplaced[asks_again], near[asks_again]


def _place_positions(population: Register) -> Array:
    """Return the places' positions in metres, (places, 2); zeros where they have none."""
    city = population.city
    if hasattr(getattr(city, "places", None), "x"):
        return np.stack([city.places.x, city.places.y], axis=1)
    if hasattr(city, "position"):
        return np.array([city.position(place) for place in population.places])
    return np.zeros((len(population.places), 2), np.int64)


def _assign_places(
    column: Array, rows: Array, requested: Array, room: Array, turns: Array
) -> Array:
    """Assign limited places, the lowest turn first; return who got one."""
    order = np.lexsort((turns, requested))
    in_order = requested[order]
    is_taken = (in_order >= 0) & (occurrence_of(in_order) < room[in_order])
    column[rows[order[is_taken]]] = in_order[is_taken]
    np.subtract.at(room, in_order[is_taken], 1)
    has_place = np.zeros(len(rows), bool)
    has_place[order[is_taken]] = True
    return has_place
