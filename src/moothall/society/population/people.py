"""Citizens drawn in columns, from the distributions of `moothall.society.people.drawn`.

What one person is drawn from is the same, number by number. What people take from one another is
not: homes are those that `make_people` fills, but rows follow one another by area, so that those
who live near each other are near each other in memory; and jobs and seats are given in rounds, in
each of which all who have none ask at once and the first in order of id are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moothall.errors import ConfigError
from moothall.society.arrays import np
from moothall.society.blocks.mobility_rows import KINDS
from moothall.society.blocks.talk import TOPICS
from moothall.society.columns import town
from moothall.society.columns.lists import turn_of
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import belows, choices, uniforms
from moothall.society.people import drawn
from moothall.society.services.firm import STAFF

_REACH: Final = 20
_CANDIDATES: Final = 10
_ROUNDS: Final = 10
_AT_ONCE: Final = 1 << 12
_SLICE: Final = 1 << 18


def draw(rows: Rows, given: Iterable[str] = ()) -> None:
    """Draw profiles, homes, work, schools and friends, but no columns that a table has `given`."""
    population, city = rows.population, rows.city
    arrays = population.arrays
    if not {"home", "work", "school"} <= set(arrays) or not city.by_kind("home"):
        return
    missing = {name for name in arrays if name not in set(given)}
    if "home" in missing:
        arrays["home"][...] = _homes(population)
    rank = _ranks(arrays["home"])
    for first in range(0, len(population), _SLICE):
        _some_persons(population, slice(first, first + _SLICE), rank, missing)
    if hasattr(city, "near"):
        if "work" in missing:
            _employ(rows)
        if "school" in missing:
            _enrol(rows)
    if hasattr(city, "keep_near"):
        city.keep_near(KINDS, _CANDIDATES)
    if {"friends", "friendship"} <= missing:
        _befriend(population, rank)


def _homes(population: Register) -> Any:
    """Return the home of each row, homes in id order, and the rows by area."""
    city = population.city
    homes = population.of_kind("home")
    count = len(population)
    if not hasattr(city, "capacity"):
        return np.sort(homes[np.arange(count) % len(homes)])
    room = town.room_of(population, homes, count)
    sums = room.cumsum()
    last = int(sums.searchsorted(count))
    if last == len(homes):
        raise ConfigError(f"the city's homes hold {int(sums[-1])} citizens, not {count}")
    homes, room = homes[: last + 1], room[: last + 1].copy()
    room[-1] -= sums[last] - count
    if hasattr(city, "by_area"):
        order = city.by_area(homes)
        homes, room = homes[order], room[order]
    return homes.repeat(room)


def _ranks(home: Any) -> Any:
    """Return each row's rank in its household, from 0; 0 without a home."""
    order = np.argsort(home, kind="stable")
    rank = np.empty(len(home), np.int64)
    rank[order] = turn_of(home[order])
    return rank * (home >= 0)


# -- what one is -----------------------------------------------------------------------------------


def _some_persons(population: Register, part: slice, rank: Any, missing: set[str]) -> None:
    """Draw profiles for some rows, as `drawn._draw` does."""
    seed, arrays = population.seed, population.arrays
    ids, rank = population.ids[part], rank[part]

    def below(n: Any, what: str, number: int = 0) -> Any:
        return belows(n, seed, ids, 0, f"people.{what}", number)

    def put(name: str, values: Any) -> None:
        if name in missing:
            arrays[name][part] = values

    grown = (rank < 2) | (below(10, "adult") < 3)
    group = choices(drawn._AGE_WEIGHTS, seed, ids, 0, "people.age")
    years = below(np.where(grown, np.where(group == 0, 7, 10), 18), "years")
    put("age", np.where(grown, np.array(drawn._AGES)[group] + years, years))
    age = arrays["age"][part] if "age" in arrays else np.where(grown, 18, 0)
    adult = age >= 18
    put("gender", 1 + below(2, "gender"))
    level = choices(drawn._EDUCATION_WEIGHTS, seed, ids, 0, "people.education")
    put("education", 1 + np.where(adult, level, 0))
    known = arrays["education"][part].astype(np.int64) if "education" in arrays else 1 + level
    put("skill", np.array((1000, *drawn.SKILL))[known])
    u, v = (uniforms(seed, ids, 0, f"people.{name}") for name in "uv")
    put("money", drawn.money_of(u, v) * adult)
    for need in drawn.NEEDS:
        put(need, 600 + below(401, need))
    topics = next(
        (b.params.topics for b in population.blocks if hasattr(b.params, "topics")), TOPICS
    )
    if "opinions" in missing:
        for number, topic in enumerate(topics):
            arrays["opinions"][part, number] = below(2001, f"opinion.{topic}") - 1000
    if {"interest", "interest_topic"} <= missing:
        many = 2 + below(2, "interests")
        topic, value = arrays["interest_topic"], arrays["interest"]
        rows = np.arange(part.start, part.start + len(ids))
        length = np.zeros(len(ids), np.int64)
        for each in range(3):
            what, how = below(len(topics), "topic", each), 500 + below(501, "interest", each)
            same = topic[part] == what[:, None]
            at = np.where(same.any(axis=1), same.argmax(axis=1), length)
            some = np.flatnonzero(each < many)
            topic[rows[some], at[some]] = what[some]
            value[rows[some], at[some]] = how[some]
            length += (each < many) & ~same.any(axis=1)


# -- work and school -------------------------------------------------------------------------------


def _employ(rows: Rows) -> None:
    """Assign work by gravity, in rounds; then assign the remaining jobs anywhere."""
    population, city = rows.population, rows.city
    arrays = population.arrays
    jobs = np.zeros(len(population.places), np.int64)
    for kind, staff in STAFF.items():
        places = population.of_kind(kind)
        holds = town.room_of(population, places, 10_000 // staff)  # 10 jobs where there is no limit
        jobs[places] = np.maximum(1, holds * staff // 1000)
    age = arrays["age"] if "age" in arrays else np.full(len(population), 18)
    seeks = (age >= 18) & (age < 67) & (arrays["home"] >= 0)
    seeks &= belows(100, population.seed, population.ids, 0, "people.employed") < 75
    left = np.flatnonzero(seeks)
    kinds = [kind for kind in STAFF if city.by_kind(kind)]
    for turn in range(_ROUNDS):
        if not len(left) or not kinds:
            break
        asked = np.full(len(left), -1, np.int64)
        for first in range(0, len(left), _AT_ONCE):
            some = left[first : first + _AT_ONCE]
            homes, ids = arrays["home"][some], population.ids[some]
            near = [town.near(rows, homes, kind, _REACH, None) for kind in kinds]
            reach, seconds = (np.concatenate(each, axis=1) for each in zip(*near, strict=True))
            weights = np.where(reach >= 0, jobs[reach], 0) * 10**9 // (seconds + 300) ** 2
            total = weights.sum(axis=1)
            while (total >= 1 << 32).any():  # a draw takes weights of 32 bits together
                large = total >= 1 << 32
                weights[large] >>= 1
                total = weights.sum(axis=1)
            some = np.flatnonzero(total)
            share = belows(total[some], population.seed, ids[some], 0, "people.work", turn)
            at = (weights[some].cumsum(axis=1) <= share[:, None]).sum(axis=1)
            asked[first + some] = reach[some, at]
        left = left[~_taken(arrays["work"], left, asked, jobs)]
    free = np.repeat(np.arange(len(jobs)), jobs)[: len(left)]
    arrays["work"][left[: len(free)]] = free


def _enrol(rows: Rows) -> None:
    """Assign ages 5 … 17 to the nearest school with a free seat."""
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
    left = np.flatnonzero((age >= 5) & (age < 18) & (arrays["home"] >= 0))
    near, _ = town.near(rows, arrays["home"][left], "school", _REACH, None)
    while len(left):
        fits = (near >= 0) & (seats[near] > 0)
        asked = np.where(fits.any(axis=1), near[np.arange(len(left)), fits.argmax(axis=1)], -1)
        stays = ~_taken(arrays["school"], left, asked, seats) & (asked >= 0)
        left, near = left[stays], near[stays]


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


# -- friends ---------------------------------------------------------------------------------------


def _befriend(population: Register, rank: Any) -> None:
    """Draw friends as `drawn._befriend` does: the household, and a small world of rows."""
    seed, ids, count = population.seed, population.ids, len(population)
    home = population.arrays["home"]
    order = np.argsort(home, kind="stable").astype(np.int32)
    links = []
    for apart in range(1, int(rank.max(initial=0)) + 1):  # those so far apart in a household
        one, other = order[:-apart], order[apart:]
        same = (home[one] == home[other]) & (home[one] >= 0)
        links.append((one[same], other[same], np.full(int(same.sum()), 800, np.int16)))
    for step in (1, 2):
        for first in range(0, count, _SLICE):
            rows = np.arange(first, min(first + _SLICE, count), dtype=np.int32)
            own, to = ids[rows], ((rows + np.int64(step)) % count).astype(np.int32)
            new = np.flatnonzero(belows(10, seed, own, 0, "people.rewired", step) == 0)
            to[new] = belows(count, seed, own[new], 0, "people.friend", step)
            strength = (300 + belows(400, seed, own, 0, "people.strength", step)).astype(np.int16)
            other = to != rows
            links.append((rows[other], to[other], strength[other]))
    del order
    one, other, strength = (np.concatenate(each) for each in zip(*links, strict=True))
    for first in range(0, count, _SLICE):
        _some_friends(population, first, min(first + _SLICE, count), one, other, strength)


def _some_friends(
    population: Register, first: int, until: int, one: Any, other: Any, strength: Any
) -> None:
    """Write the friends of some rows without duplicates: the first link counts."""
    arrays = population.arrays
    mine = (np.flatnonzero((each >= first) & (each < until)) for each in (one, other))
    ahead, back = mine
    who = np.concatenate([one[ahead], other[back]]).astype(np.int64)
    friend = np.concatenate([other[ahead], one[back]]).astype(np.int64)
    link = np.concatenate([ahead, back])
    pair = who * len(population) + friend
    if not len(pair):
        return
    order = np.lexsort((link, pair))
    once = np.r_[True, pair[order][1:] != pair[order][:-1]]
    keep = order[once]
    keep = keep[np.lexsort((link[keep], who[keep]))]
    slot = turn_of(who[keep])
    fits = slot < arrays["friends"].shape[1]
    keep, slot = keep[fits], slot[fits]
    arrays["friends"][who[keep], slot] = friend[keep] + 1
    arrays["friendship"][who[keep], slot] = strength[link[keep]]
