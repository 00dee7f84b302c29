"""What people earn and own: skill, occupation, pay and money; one rule for one and for rows.

The constants, with their sources, are those of `PeopleParams`. `income` is what a year of full work
pays at the usual wage, in dollars; 0 without work. What it brings a day is one's usual income at
the start: if people expected nothing then, they would buy nothing, and firms would lose their money
in two weeks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moothall.society import math
from moothall.society.arrays import np
from moothall.society.blocks.columns import OCCUPATIONS
from moothall.society.kernel.draw import belows, choices, choices_by
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams


class Attribute(NamedTuple):
    """An attribute of a person, in its profile: words by code from 1, and how codes are drawn."""

    words: tuple[str | None, ...]
    draw: Callable[[PeopleParams, int, Any, Any, Any], Any]  # by seed, ids, ages and education


def skills(params: PeopleParams, seed: int, ids: Any, education: Any) -> Any:
    """Return the skills of adults, by ids and indices in `EDUCATION`."""
    spread = np.array(params.skill_spread)[belows(20, seed, ids, 0, "people.skill")]
    return np.array(params.skill)[education] * spread // 1000


def _occupations(params: PeopleParams, seed: int, ids: Any, age: Any, education: Any) -> Any:
    sums = np.cumsum(params.occupations, axis=1)[education]
    return (1 + choices_by(sums, seed, ids, 0, "people.occupation")) * (age >= 18)


ATTRIBUTES: Final = {"occupation": Attribute((None, *OCCUPATIONS), _occupations)}
"""The attributes that depend on age and education alone, in the order of a profile."""


_SEARCHES: Final = ((2, 35), (35, 105), (105, 189), (189, 847))
"""From how many days on, and below how many, one has sought work, by the groups of `searches`."""


def sought_since(params: PeopleParams, seed: int, ids: Any) -> Any:
    """Return the day since when the jobless seek work; below −1: so many days before the start."""
    group = choices(params.searches, seed, ids, 0, "people.searches")
    least, until = np.array(_SEARCHES).T[:, group]
    return -least - belows(until - least, seed, ids, 0, "people.sought")


def usual_income(params: PeopleParams, pay: Any) -> Any:
    """Return the cents a day that one expects of the dollars of a year; 0 of no number."""
    if isinstance(pay, np.ndarray):
        return pay * params.usual // 365
    return max(0, int(pay * params.usual // 365)) if isinstance(pay, int | float) else 0


def money_of(u: Any, v: Any, params: PeopleParams = USUAL_PEOPLE) -> Any:
    """Return lognormal cents from two uniform numbers, by Box and Muller (1958)."""
    normal = math.sqrt(-2 * math.log(1 - u)) * math.cos(6.283185307179586 * v)
    cents = math.minimum(
        params.money_median * math.exp(params.money_deviation * normal), params.money_most
    )
    return int(cents) if isinstance(cents, float) else cents.astype("int64")
