"""Homes, work and schools, given to many at once; one rule for objects and for columns.

* Homes are filled up to their capacity, as many as are needed in order of id. They are given by
  area, so that those whose rows follow one another live near each other (and lie near each other
  in memory). A home without a limit takes one person, and another each time all homes are filled.
* Work follows the gravity model (Zipf 1946, "The P1 P2/D hypothesis"): of
  `PeopleParams.offers` jobs of the whole town, each as likely as any other, one by the weight
  1 ÷ (metres + `near`)². Who finds it
  taken asks again, up to `_ROUNDS` times, and then takes any that is left.
* The seats of a school go to those for whom it is the nearest with a free one.

In each round all who have none ask at once, and the first in order of rows are taken.
"""

from __future__ import annotations

from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.columns import town
from moothall.society.columns.lists import turn_of
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import belows, choices_by
from moothall.society.people.params import PeopleParams
from moothall.society.services.firm import STAFF

_FINE: Final = 10**8  # the weight of no distance: 40 of them have fewer than 32 bits
_REACH: Final = 20
_ROUNDS: Final = 10
_AT_ONCE: Final = 1 << 12


def homes_of(population: Register, count: int, taken: Any = 0) -> Any:  # taken: by place
    """Return a home for each of `count` persons, fewer if there is no more room."""
    city, homes = population.city, population.of_kind("home")
    if hasattr(city, "by_area") and len(homes):
        places = homes[city.by_area(homes)]
    else:
        places = homes
    room = town.room_of(population, slice(None), -1)
    no_limit = room < 0
    room = np.where(no_limit, 1, np.maximum(room - taken, 0))
    sums = room[homes].cumsum()
    last = int(sums.searchsorted(count))
    if last < len(homes):  # there is room in the first: the others stay empty
        room[homes[last + 1 :]] = 0
        room[homes[last]] -= sums[last] - count
    once, more = places.repeat(room[places]), places[no_limit[places]]
    if len(once) == count or not len(more):
        return once
    return np.r_[once, more[np.arange(count - len(once)) % len(more)]]


def employ(rows: Rows, free: Any, params: PeopleParams) -> None:
    """Give work by gravity to adults up to 66 who want it; `free` says who may be given any."""
    population = rows.population
    arrays, seed, ids = population.arrays, population.seed, population.ids
    jobs = np.zeros(len(population.places), np.int64)
    for kind, staff in STAFF.items():
        places = population.of_kind(kind)
        holds = town.room_of(population, places, 10_000 // staff)  # 10 jobs where there is no limit
        jobs[places] = np.maximum(1, holds * staff // 1000)
    given = arrays["work"][arrays["work"] >= 0]
    jobs = np.maximum(jobs - np.bincount(given, minlength=len(jobs)), 0)
    age = arrays["age"] if "age" in arrays else np.full(len(population), 18)
    seeks = free & (age >= 18) & (age < 67) & (arrays["home"] >= 0)
    seeks &= belows(100, seed, ids, 0, "people.employed") < params.employed
    left = np.flatnonzero(seeks)
    spots = _spots(population)
    for turn in range(_ROUNDS):
        sums = jobs.cumsum()
        if not len(left) or not len(sums) or not sums[-1]:
            break
        asked = np.full(len(left), -1, np.int64)
        for first in range(0, len(left), _AT_ONCE):
            some = left[first : first + _AT_ONCE]
            own, total = ids[some], int(sums[-1])
            each = range(turn * params.offers, (turn + 1) * params.offers)
            offers = (belows(total, seed, own, 0, "people.offer", k) for k in each)
            reach = sums.searchsorted(np.stack([*offers], axis=1), side="right")
            apart = spots[reach] - spots[arrays["home"][some]][:, None]
            metres = np.sqrt((apart.astype(np.float64) ** 2).sum(axis=2)).astype(np.int64)
            weights = (_FINE * params.near**2 // (metres + params.near) ** 2).cumsum(axis=1)
            at = choices_by(weights, seed, own, 0, "people.work", turn)
            asked[first : first + _AT_ONCE] = reach[np.arange(len(some)), at]
        left = left[~_taken(arrays["work"], left, asked, jobs)]
    remain = np.repeat(np.arange(len(jobs)), jobs)[: len(left)]
    arrays["work"][left[: len(remain)]] = remain


def enrol(rows: Rows, free: Any) -> None:
    """Give ages 5 … 17 a seat in the nearest school; `free` says who may be given any."""
    population = rows.population
    arrays = population.arrays
    schools = population.of_kind("school")
    if not len(schools) or "age" not in arrays:
        return
    seats = np.zeros(len(population.places), np.int64)
    holds = town.room_of(population, schools, 2 * len(population))
    staff = np.maximum(1, holds * STAFF["school"] // 1000)
    seats[schools] = holds - staff
    age = arrays["age"]
    left = np.flatnonzero(free & (age >= 5) & (age < 18) & (arrays["home"] >= 0))
    near, _ = town.near(rows, arrays["home"][left], "school", _REACH, None)
    while len(left):
        fits = (near >= 0) & (seats[near] > 0)
        asked = np.where(fits.any(axis=1), near[np.arange(len(left)), fits.argmax(axis=1)], -1)
        stays = ~_taken(arrays["school"], left, asked, seats) & (asked >= 0)
        left, near = left[stays], near[stays]


def _spots(population: Register) -> Any:
    """Return the places' positions in metres, (places, 2); zeros where they have none."""
    city = population.city
    if hasattr(getattr(city, "places", None), "x"):
        return np.stack([city.places.x, city.places.y], axis=1)
    if hasattr(city, "position"):
        return np.array([city.position(place) for place in population.places])
    return np.zeros((len(population.places), 2), np.int64)


def _taken(column: Any, rows: Any, asked: Any, room: Any) -> Any:
    """Assign limited places in order of asking; return who got one."""
    order = np.argsort(asked, kind="stable")
    own = asked[order]
    gets = (own >= 0) & (turn_of(own) < room[own])
    column[rows[order[gets]]] = own[gets]
    np.subtract.at(room, own[gets], 1)
    taken = np.zeros(len(rows), bool)
    taken[order[gets]] = True
    return taken
