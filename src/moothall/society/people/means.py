"""What people earn and own: skill, occupation, pay and money; one rule for one and for rows.

The constants, with their sources, are those of `PeopleParams`. `income` is what a year of full work
pays at the usual wage, in dollars; 0 without work. What it brings a day is one's usual income at
the start: if people expected nothing then, they would buy nothing, and firms would lose their money
in two weeks.
"""

from __future__ import annotations

from typing import Any

from moothall.society import math
from moothall.society.arrays import np
from moothall.society.kernel.draw import belows, choices_by
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams


def trades(params: PeopleParams, seed: int, ids: Any, education: Any) -> tuple[Any, Any]:
    """Return skills and occupations of adults, by ids and indices in `EDUCATION`."""
    skill = np.array(params.skill)[education]
    spread = np.array(params.skill_spread)[belows(20, seed, ids, 0, "people.skill")]
    skill = skill * spread // 1000
    sums = np.cumsum(params.occupations, axis=1)[education]
    return skill, choices_by(sums, seed, ids, 0, "people.occupation")


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
