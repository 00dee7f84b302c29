"""Citizens drawn in columns, from the distributions of `moothall.society.people.generator`.

They are the persons of `make_people`, number by number: homes, work and schools are given by one
function (`people/assignment.py`), and all else is drawn by the same purposes, for many at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.blocks.mobility_rows import VISITED_KINDS
from moothall.society.blocks.topics import TOPICS
from moothall.society.columns.ledger import PENSION_AGE
from moothall.society.columns.lists import turn_of
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import choices, draw_below, uniforms
from moothall.society.people import assignment, generator, means
from moothall.society.people import household as home_of
from moothall.society.people.params import PeopleParams

_CANDIDATES: Final = 10
_SLICE: Final = 1 << 18


def draw(rows: Rows, params: PeopleParams, filled: Iterable[str] = ()) -> None:
    """Draw profiles, homes, work, schools and friends, but no columns that a table has `filled`."""
    population, city = rows.population, rows.city
    arrays = population.arrays
    if not {"home", "work", "school"} <= set(arrays) or not city.by_kind("home"):
        return
    missing = {name for name in arrays if name not in set(filled)}
    assignment.warn_of_small(
        population, *(arrays[e] for e in ("work", "school") if e not in missing)
    )
    of_table = _of_table(arrays) if "household_id" in filled else None
    if "home" in missing:
        arrays["home"][...] = _homes(population, of_table)
    age = arrays["age"] if "age" in arrays and "age" not in missing else None
    lives = _lives(arrays, of_table, age)
    for first in range(0, len(population), _SLICE):
        _some_persons(population, params, slice(first, first + _SLICE), lives, missing)
    role = None
    if of_table is not None and {"age", "gender"} <= set(arrays):
        lives = _lives(arrays, of_table, arrays["age"])
        role, kind = (np.zeros(len(population), np.int8) for _ in "rk")
        age, gender = (arrays[name].astype(np.int64) for name in ("age", "gender"))
        home_of.by_age(lives, of_table, age, gender, kind, role)
        if "household" in missing:
            arrays["household"][of_table >= 0] = 1 + kind[of_table >= 0]
    table_income = arrays["pay"] if "pay" in arrays and "pay" not in missing else None
    if hasattr(city, "near"):
        if "work" in missing:
            assignment.employ(rows, arrays["work"] < 0, params, table_income)
        if "school" in missing:
            assignment.enrol(rows, arrays["school"] < 0)
    if hasattr(city, "keep_near"):
        city.keep_near(VISITED_KINDS, _CANDIDATES)
    if {"friends", "friendship"} <= missing:
        _befriend(population, params, lives, of_table, role)
    if {"work", "jobless"} <= missing and "age" in arrays:
        free = (arrays["work"] < 0) & (arrays["age"] >= 18) & (arrays["age"] < 67)
        seed, ids = population.seed, population.ids
        free &= assignment.seeks_work(seed, ids, params, table_income)
        arrays["jobless"][free] = means.sought_since(params, seed, ids[free])
    if "pay" in missing and {"skill", "pay"} <= set(arrays):
        arrays["pay"][...] = params.wage * (arrays["work"] >= 0) * arrays["skill"].astype("int32")
    if "income" in missing and {"income", "pay", "age", "rents", "skill"} <= set(arrays):
        old = (arrays["work"] < 0) & (arrays["age"] >= PENSION_AGE)
        pay, skill = (arrays[name].astype(np.int64) for name in ("pay", "skill"))
        arrays["income"][...] = means.usual_income(params, pay, skill, old, arrays["rents"])


def _of_table(arrays: dict[str, Array]) -> Array:
    """Return the number of each row's household in a table, by its first row; −1 for none."""
    ids = arrays["household_id"]
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    valid = ids[first] >= 0  # and not NaN
    rank[np.argsort(np.where(valid, first, len(ids)), kind="stable")] = range(len(first))
    return np.where(valid, rank, -1)[number]


def _lives(
    arrays: dict[str, Array], of_table: Array | None, age: Array | None
) -> tuple[Array, Array, Array, Array, Array]:
    """Return who belongs to whose household, as `household.households`."""
    if of_table is None:
        return home_of.households(arrays["home"])
    ages = np.full(len(of_table), -1) if age is None else age.astype(np.int64)
    return home_of.households(arrays["home"], of_table, ages)


def _homes(population: Register, of_table: Array | None) -> Array:
    """Return the home of each row."""
    occupied = np.zeros(len(population.places), np.int64)
    home = np.full(len(population), -1)
    if of_table is not None:
        home = assignment.homes_of_households(population, of_table, home, occupied)
    lacks = np.flatnonzero(home < 0)
    homes = assignment.homes_of(population, len(lacks), occupied)
    if len(homes) < len(lacks):
        raise ConfigError(f"the city's homes hold {len(homes)} citizens, not {len(population)}")
    home[lacks] = homes
    return home


# -- what one is -----------------------------------------------------------------------------------


def _some_persons(
    population: Register,
    params: PeopleParams,
    part: slice,
    lives: tuple[Array, Array, Array, Array, Array],
    missing: set[str],
) -> None:
    """Draw profiles for some rows, as `generator._gather` and `generator._draw` do."""
    seed, arrays, every = population.seed, population.arrays, population.ids
    ids = every[part]
    head, second, rank, size = (each[part] for each in lives[:4])

    def below(n: int, purpose: str, number: int = 0) -> Array:
        return draw_below(n, seed, ids, 0, f"people.{purpose}", number)

    def put(name: str, values: Array) -> None:
        if name in missing:
            arrays[name][part] = values

    def table_values(name: str, none: int) -> tuple[Array, Array, Array]:
        """Return what a table says of the rows, of the heads and of the partners."""
        if name in missing or name not in arrays:
            return (np.full(len(ids), none),) * 3
        values = arrays[name].astype(np.int64)
        return values[part], values[head], np.where(second != head, values[second], none)

    kind, _ = home_of.roles(params, seed, every[head], rank, size)
    put("household", 1 + kind)
    table_ages = table_values("age", -1), table_values("gender", 0)
    composed = home_of.household_members(params, seed, ids, every[head], rank, size, *table_ages)
    put("age", composed[0])
    put("gender", composed[1])
    age = arrays["age"][part] if "age" in arrays else composed[0]
    adult = age >= 18
    level = choices(params.education, seed, ids, 0, "people.education")
    put("education", 1 + np.where(adult, level, 0))
    taught = arrays["education"][part].astype(np.int64) if "education" in arrays else 1 + level
    educated = np.maximum(taught - 1, 0)
    skill = np.where(taught > 0, means.skills(params, seed, ids, educated), 1000)
    if "pay" in arrays and "pay" not in missing:
        skill = means.skills_by_income(params, skill, age, arrays["pay"][part])
    put("skill", skill)
    members = means.Members(ids, age, educated, every[head], size)
    for name, attribute in means.ATTRIBUTES.items():
        put(name, attribute.draw(params, seed, members))
    u, v = (uniforms(seed, ids, 0, f"people.{name}") for name in "uv")
    put("money", means.money_of(u, v, params) * adult)
    for need in generator.NEEDS:
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
            subject, how = below(len(topics), "topic", each), 500 + below(501, "interest", each)
            same = topic[part] == subject[:, None]
            at = np.where(same.any(axis=1), same.argmax(axis=1), length)
            some = np.flatnonzero(each < many)
            topic[rows[some], at[some]] = subject[some]
            value[rows[some], at[some]] = how[some]
            length += (each < many) & ~same.any(axis=1)


# -- friends ---------------------------------------------------------------------------------------


def _befriend(
    population: Register, params: PeopleParams, lives: Any, of_table: Any, of_ages: Any
) -> None:
    """Draw friends as `generator._befriend` does: the household, and a small world of rows."""
    seed, ids, count = population.seed, population.ids, len(population)
    head, _, rank, size, _ = lives
    age = population.arrays.get("age")
    role = np.concatenate(
        [
            home_of.roles(params, seed, ids[head[part]], rank[part], size[part])[1].astype(np.int8)
            for part in (slice(at, at + _SLICE) for at in range(0, count, _SLICE))
        ]
    )
    if of_ages is not None:
        role = np.where(of_table >= 0, of_ages, role)
    links = home_of.links(params, seed, ids, lives, role, age, of_table)
    friendships = tuple(np.concatenate(each) for each in zip(*links, strict=True))
    for first in range(0, count, _SLICE):
        _some_friends(population, first, min(first + _SLICE, count), *friendships)


def _some_friends(
    population: Register,
    first: int,
    until: int,
    person: Array,
    other: Array,
    there: Array,
    back_: Array,
) -> None:
    """Write the friends of some rows without duplicates: the first link counts."""
    arrays = population.arrays
    mine = (np.flatnonzero((each >= first) & (each < until)) for each in (person, other))
    ahead, back = mine
    owner = np.concatenate([person[ahead], other[back]]).astype(np.int64)
    friend = np.concatenate([other[ahead], person[back]]).astype(np.int64)
    link = np.concatenate([ahead, back])
    strength = np.concatenate([there[ahead], back_[back]])
    pair = owner * len(population) + friend
    if not len(pair):
        return
    order = np.lexsort((link, pair))
    once = np.r_[True, pair[order][1:] != pair[order][:-1]]
    keep = order[once]
    keep = keep[np.lexsort((link[keep], owner[keep]))]
    slot = turn_of(owner[keep])
    fits = slot < arrays["friends"].shape[1]
    keep, slot = keep[fits], slot[fits]
    arrays["friends"][owner[keep], slot] = friend[keep] + 1
    arrays["friendship"][owner[keep], slot] = strength[keep]
