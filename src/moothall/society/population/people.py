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
from moothall.society.blocks.talk_block import TOPICS
from moothall.society.columns.ledger import PENSION_AGE
from moothall.society.columns.lists import occurrence_of
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
    assignment.warn_of_small_places(
        population, *(arrays[e] for e in ("work", "school") if e not in missing)
    )
    household = _household_numbers(arrays) if "household_id" in filled else None
    if "home" in missing:
        arrays["home"][...] = _homes(population, household)
    age = arrays["age"] if "age" in arrays and "age" not in missing else None
    living = _living_together(arrays, household, age)
    for first in range(0, len(population), _SLICE):
        _draw_profiles(population, params, slice(first, first + _SLICE), living, missing)
    role = None
    if household is not None and {"age", "gender"} <= set(arrays):
        living = _living_together(arrays, household, arrays["age"])
        role, kind = (np.zeros(len(population), np.int8) for _ in "rk")
        age, gender = (arrays[name].astype(np.int64) for name in ("age", "gender"))
        home_of.set_roles_by_age(living, household, age, gender, kind, role)
        if "household" in missing:
            arrays["household"][household >= 0] = 1 + kind[household >= 0]
    table_income = None
    if "pay" in arrays and "pay" not in missing:
        pay = arrays["pay"]
        table_income = np.where(pay == means.UNKNOWN_INCOME, np.nan, pay)
    if hasattr(city, "near"):
        if "work" in missing:
            assignment.employ(rows, arrays["work"] < 0, params, table_income)
        if "school" in missing:
            assignment.enrol(rows, arrays["school"] < 0)
    if hasattr(city, "keep_near"):
        city.keep_near(VISITED_KINDS, _CANDIDATES)
    if {"friends", "friendship"} <= missing:
        _befriend(population, params, living, household, role)
    if {"work", "jobless"} <= missing and "age" in arrays:
        is_seeking = (arrays["work"] < 0) & (arrays["age"] >= 18) & (arrays["age"] < 67)
        seed, ids = population.seed, population.ids
        is_seeking &= assignment.seeks_work(seed, ids, params, table_income)
        arrays["jobless"][is_seeking] = means.sought_since(params, seed, ids[is_seeking])
    if {"skill", "pay"} <= set(arrays):
        pay = params.wage * (arrays["work"] >= 0) * arrays["skill"].astype("int32")
        if table_income is not None:
            pay = np.where(np.isnan(table_income), pay, arrays["pay"])
        arrays["pay"][...] = pay
    if "income" in missing and {"income", "pay", "age", "rents", "skill"} <= set(arrays):
        is_old = (arrays["work"] < 0) & (arrays["age"] >= PENSION_AGE)
        pay, skill = (arrays[name].astype(np.int64) for name in ("pay", "skill"))
        arrays["income"][...] = means.usual_income(params, pay, skill, is_old, arrays["rents"])


def _household_numbers(arrays: dict[str, Array]) -> Array:
    """Return the number of each row's household in a table, by its first row; −1 for none."""
    ids = arrays["household_id"]
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    valid = ids[first] >= 0  # and not NaN
    rank[np.argsort(np.where(valid, first, len(ids)), kind="stable")] = range(len(first))
    return np.where(valid, rank, -1)[number]


def _living_together(
    arrays: dict[str, Array], household: Array | None, age: Array | None
) -> tuple[Array, Array, Array, Array, Array]:
    """Return who belongs to whose household, as `household.households`."""
    if household is None:
        return home_of.households(arrays["home"])
    ages = np.full(len(household), -1) if age is None else age.astype(np.int64)
    return home_of.households(arrays["home"], household, ages)


def _homes(population: Register, household: Array | None) -> Array:
    """Return the home of each row."""
    occupied = np.zeros(len(population.places), np.int64)
    home = np.full(len(population), -1)
    if household is not None:
        home = assignment.homes_of_households(population, household, home, occupied)
    homeless = np.flatnonzero(home < 0)
    homes = assignment.homes_of(population, len(homeless), occupied)
    if len(homes) < len(homeless):
        raise ConfigError(f"the city's homes hold {len(homes)} citizens, not {len(population)}")
    home[homeless] = homes
    return home


# -- what one is -----------------------------------------------------------------------------------


def _draw_profiles(
    population: Register,
    params: PeopleParams,
    part: slice,
    living: tuple[Array, Array, Array, Array, Array],
    missing: set[str],
) -> None:
    """Draw profiles for some rows, as `generator._gather` and `generator._draw_rest` do."""
    seed, arrays, all_ids = population.seed, population.arrays, population.ids
    ids = all_ids[part]
    head, second, rank, size = (each[part] for each in living[:4])

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

    kind, _ = home_of.roles(params, seed, all_ids[head], rank, size)
    put("household", 1 + kind)
    table_ages = table_values("age", -1), table_values("gender", 0)
    composed = home_of.household_members(params, seed, ids, all_ids[head], rank, size, *table_ages)
    put("age", composed[0])
    put("gender", composed[1])
    age = arrays["age"][part] if "age" in arrays else composed[0]
    adult = age >= 18
    level = choices(params.education, seed, ids, 0, "people.education")
    put("education", 1 + np.where(adult, level, 0))
    education = arrays["education"][part].astype(np.int64) if "education" in arrays else 1 + level
    educated = np.maximum(education - 1, 0)
    skill = np.where(education > 0, means.skills(params, seed, ids, educated), 1000)
    if "pay" in arrays and "pay" not in missing:
        skill = means.skills_by_income(params, skill, age, arrays["pay"][part])
    put("skill", skill)
    members = means.Members(ids, age, educated, all_ids[head], size)
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
        interest_count = 2 + below(2, "interests")
        topic, value = arrays["interest_topic"], arrays["interest"]
        rows = np.arange(part.start, part.start + len(ids))
        length = np.zeros(len(ids), np.int64)
        for each in range(3):
            subject, degree = below(len(topics), "topic", each), 500 + below(501, "interest", each)
            is_same = topic[part] == subject[:, None]
            slot = np.where(is_same.any(axis=1), is_same.argmax(axis=1), length)
            positions = np.flatnonzero(each < interest_count)
            topic[rows[positions], slot[positions]] = subject[positions]
            value[rows[positions], slot[positions]] = degree[positions]
            length += (each < interest_count) & ~is_same.any(axis=1)


# -- friends ---------------------------------------------------------------------------------------


def _befriend(
    population: Register, params: PeopleParams, living: Any, household: Any, role_by_age: Any
) -> None:
    """Draw friends as `generator._befriend` does: the household, and a small world of rows."""
    seed, ids, count = population.seed, population.ids, len(population)
    head, _, rank, size, _ = living
    age = population.arrays.get("age")
    role = np.concatenate(
        [
            home_of.roles(params, seed, ids[head[part]], rank[part], size[part])[1].astype(np.int8)
            for part in (slice(start, start + _SLICE) for start in range(0, count, _SLICE))
        ]
    )
    if role_by_age is not None:
        role = np.where(household >= 0, role_by_age, role)
    links = home_of.links(params, seed, ids, living, role, age, household)
    friendships = tuple(np.concatenate(each) for each in zip(*links, strict=True))
    for first in range(0, count, _SLICE):
        _write_friends(population, first, min(first + _SLICE, count), *friendships)


def _write_friends(
    population: Register,
    first: int,
    until: int,
    person: Array,
    other: Array,
    strength_there: Array,
    strength_back: Array,
) -> None:
    """Write the friends of some rows without duplicates: the first link counts."""
    arrays = population.arrays
    within = (np.flatnonzero((each >= first) & (each < until)) for each in (person, other))
    links_there, links_back = within
    owner = np.concatenate([person[links_there], other[links_back]]).astype(np.int64)
    friend = np.concatenate([other[links_there], person[links_back]]).astype(np.int64)
    link = np.concatenate([links_there, links_back])
    strength = np.concatenate([strength_there[links_there], strength_back[links_back]])
    pair = owner * len(population) + friend
    if not len(pair):
        return
    order = np.lexsort((link, pair))
    is_first = np.r_[True, pair[order][1:] != pair[order][:-1]]
    chosen = order[is_first]
    chosen = chosen[np.lexsort((link[chosen], owner[chosen]))]
    slot = occurrence_of(owner[chosen])
    fits = slot < arrays["friends"].shape[1]
    chosen, slot = chosen[fits], slot[fits]
    arrays["friends"][owner[chosen], slot] = friend[chosen] + 1
    arrays["friendship"][owner[chosen], slot] = strength[chosen]
