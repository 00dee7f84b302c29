"""What people earn and own: skill, occupation, pay, money, cars; one rule for one and for rows.

The constants, with their sources, are those of `PeopleParams`. `income` is what a year of full work
pays at the usual wage, in dollars; 0 without work. What it brings a day is one's usual income at
the start: if people expected nothing then, they would buy nothing, and firms would lose their money
in two weeks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from moothall.society import math
from moothall.society.arrays import Array, Number, np
from moothall.society.blocks.columns import FIRST_VALUES, OCCUPATIONS, VALUES
from moothall.society.columns.ledger import PENSION_AGE, RENT, pension_of
from moothall.society.kernel.draw import choices, choices_by, draw_below, integers
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams

UNKNOWN_INCOME: Final = -(1 << 31)
"""What a column of pay has, until it is drawn, of a person whose table says none."""


class Members(NamedTuple):
    """Members of households, of whom age and education are known: arrays of one entry each."""

    ids: Array
    age: Array
    education: Array  # the index in `EDUCATION`
    head: Array  # the id of the head of the household
    size: Array  # of the household


class Attribute(NamedTuple):
    """An attribute of a person, in its profile: how its codes are drawn, from the seed too.

    `words` are what codes stand for, and None for what is left out; without, codes are numbers.
    """

    words: tuple[str | bool | None, ...]
    draw: Callable[[PeopleParams, int, Members], Array]


def skills(params: PeopleParams, seed: int, ids: Array, education: Array) -> Any:
    """Return the skills of adults, by ids and indices in `EDUCATION`."""
    spread = np.array(params.skill_spread)[draw_below(20, seed, ids, 0, "people.skill")]
    return np.array(params.skill)[education] * spread // 1000


def skills_by_income(params: PeopleParams, skill: Array, age: Array, income: Array) -> Any:
    """Return skills; of who may work and has an income, what full work pays that for."""
    earns = (income > 0) & (age >= 18) & (age < PENSION_AGE)
    dollars, wage = np.rint(np.where(earns, income, 0)).astype(np.int64), max(1, params.wage)
    return np.where(earns, np.clip((2 * dollars + wage) // (2 * wage), 1, _MAX_SKILL), skill)


def _occupations(params: PeopleParams, seed: int, members: Members) -> Array:
    sums = np.cumsum(params.occupations, axis=1)[members.education]
    return (1 + choices_by(sums, seed, members.ids, 0, "people.occupation")) * (members.age >= 18)


def _licences(params: PeopleParams, seed: int, members: Members) -> Any:
    from_age, share = np.array(params.licences).T
    has = share[np.searchsorted(from_age, members.age, side="right") - 1]
    return (draw_below(1000, seed, members.ids, 0, "people.licence") < has).astype(np.int64)


def _cars(params: PeopleParams, seed: int, members: Members) -> Array:
    sums = np.cumsum(params.cars, axis=1)[np.minimum(members.size, len(params.cars)) - 1]
    return choices_by(sums, seed, members.head, 0, "people.cars")


def _bicycles(params: PeopleParams, seed: int, members: Members) -> Any:
    share = np.array(params.bicycles)[np.minimum(members.size, len(params.bicycles)) - 1]
    return members.size * (draw_below(100, seed, members.head, 0, "people.bicycles") < share)


def _renters(params: PeopleParams, seed: int, members: Members) -> Array:
    return (draw_below(100, seed, members.head, 0, "people.rents") < params.renters).astype(
        np.int64
    )


def _values(params: PeopleParams, seed: int, members: Members) -> Any:
    scores = np.empty((len(VALUES), len(members.ids)), np.int64)
    for number, mean in enumerate(params.values):
        bits = integers(seed, members.ids, 0, "people.values", number)
        # The sum of three even numbers is nearly normal, with a deviation of 100.
        parts = sum((bits >> np.uint64(21 * at) & np.uint64(_EVEN)).astype(int) for at in range(3))
        scores[number] = mean + (parts - 3 * (_EVEN + 1) // 2) * 200 // _EVEN
    rows = np.arange(scores.shape[1])
    first = scores.argmax(axis=0)
    scores[first, rows] = np.iinfo(np.int64).min
    second = scores.argmax(axis=0)
    code = 1 + first * (len(VALUES) - 1) + second - (second > first)
    return code * (members.age >= _MIN_VALUES_AGE)


_EVEN: Final = (1 << 21) - 1
_MAX_SKILL: Final = 100_000
_MIN_VALUES_AGE: Final = 12  # who is younger is asked by no questionnaire


ATTRIBUTES: Final[dict[str, Attribute]] = {
    "occupation": Attribute((None, *OCCUPATIONS), _occupations),
    "licence": Attribute((False, True), _licences),
    "cars": Attribute((), _cars),
    "bicycles": Attribute((), _bicycles),
    "rents": Attribute((False, True), _renters),
    "values": Attribute((None, *FIRST_VALUES), _values),
}
"""The attributes that depend on age, education and household alone, in the order of a profile."""


_SEARCH_DAYS: Final = ((2, 35), (35, 105), (105, 189), (189, 847))
"""From how many days on, and below how many, one has sought work, by the groups of `searches`."""


def sought_since(params: PeopleParams, seed: int, ids: Array) -> Any:
    """Return the day since when the jobless seek work; below −1: so many days before the start."""
    group = choices(params.searches, seed, ids, 0, "people.searches")
    lowest, until = np.array(_SEARCH_DAYS).T[:, group]
    return -lowest - draw_below(until - lowest, seed, ids, 0, "people.sought")


def usual_income(
    params: PeopleParams, pay: Array, skill: Array, is_pensioner: Array, rents: Array
) -> Any:
    """Return the cents a day that one expects, by the dollars of a year or a pension, less rent."""
    work_income = np.maximum(pay * params.usual // 365, 0).astype(np.int64)
    income = work_income + pension_of(skill, params.wage * 100_000 // 2080) * is_pensioner
    return np.where(rents, income * 1000 // (1000 + RENT), income)


def incomes_of(persons: Sequence[dict[str, Any]]) -> Array:
    """Return the dollars a year that a table says of each; NaN where it says nothing."""
    incomes = [person["profile"].get("income") for person in persons]
    return np.array([e if isinstance(e, int | float) else np.nan for e in incomes], np.float64)


def set_incomes(persons: Sequence[dict[str, Any]], params: PeopleParams) -> None:
    """Set what a year pays, and the income that one expects a day."""
    profiles = [person["profile"] for person in persons]
    for person, profile in zip(persons, profiles, strict=True):
        profile.setdefault("income", params.wage * profile["skill"] if person["work"] else 0)
    pays = [each["income"] for each in profiles]
    pay = np.array([each if isinstance(each, int | float) else 0 for each in pays])
    skill = np.array([int(each["skill"]) for each in profiles], np.int64)
    old = np.array([int(p["profile"]["age"]) >= PENSION_AGE and not p["work"] for p in persons])
    rents = np.array([bool(each["rents"]) for each in profiles])
    incomes = usual_income(params, pay, skill, old, rents).tolist()
    for person, income in zip(persons, incomes, strict=True):
        person.setdefault("income", income)


def money_of(u: Number, v: Number, params: PeopleParams = USUAL_PEOPLE) -> Any:
    """Return lognormal cents from two uniform numbers, by Box and Muller (1958)."""
    normal = math.sqrt(-2 * math.log(1 - u)) * math.cos(6.283185307179586 * v)
    cents = math.minimum(
        params.money_median * math.exp(params.money_deviation * normal), params.money_most
    )
    return int(cents) if isinstance(cents, float) else cents.astype("int64")
