"""What people earn and own: skill, occupation, pay and money; one rule for one and for rows.

* Skill, in thousandths of the usual hourly wage, has the medians 592, 765, 880, 1262, 1550 by
  education (Bureau of Labor Statistics 2021, median weekly earnings), and varies around them by one
  of 20 equally likely factors, lognormal with a deviation of 0.5: the highest tenth earns 4 to 5
  times what the lowest does (Bureau of Labor Statistics, Usual Weekly Earnings 2022). `income` is
  what a year of full work pays at the usual wage, in dollars; 0 without work. What it brings a day
  is one's usual income at the start: if people expected nothing then, they would buy nothing, and
  firms would lose their money in two weeks.
* Occupation of adults by education (`_TRADES`): together 42, 17, 20, 9, 13 of 100 (American
  Community Survey 2021, table S2401, rounded); the split by education is fitted to these sums.
* Money is lognormal, of median 5,300 and mean 41,600 dollars, cut at 1,000,000 (transaction
  accounts, Survey of Consumer Finances 2019, Bhutta et al. 2020).
"""

from __future__ import annotations

from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import np
from moothall.society.kernel.draw import belows

SKILL: Final = (592, 765, 880, 1262, 1550)
_SPREAD = (
    *(375, 487, 563, 627, 686, 742, 797, 853, 910, 969),
    *(1032, 1099, 1173, 1255, 1348, 1459, 1596, 1777, 2054, 2664),
)
_TRADES = (
    (8, 34, 14, 20, 24),
    (16, 24, 24, 14, 22),
    (34, 19, 25, 9, 13),
    (65, 8, 20, 3, 4),
    (88, 3, 7, 1, 1),
)
DOLLARS: Final = 52  # a year of 2,080 hours at 25 dollars, by a thousandth of skill
USUAL: Final = 68  # cents by a dollar of pay: 7.3 hours of work on 4.8 days a week, less taxes


def trades(seed: int, ids: Any, education: Any) -> tuple[Any, Any]:
    """Return skills and occupations of adults, by ids and indices in `EDUCATION`."""
    skill = np.array(SKILL)[education]
    skill = skill * np.array(_SPREAD)[belows(20, seed, ids, 0, "people.skill")] // 1000
    sums = np.cumsum(_TRADES, axis=1)[education]
    share = belows(100, seed, ids, 0, "people.occupation")
    return skill, (sums <= share[:, None]).sum(axis=1)


def usual_income(pay: Any) -> Any:
    """Return the cents a day that one expects to have, of the dollars of a year.

    An array gives an array. A table may have other things than numbers: they bring 0.
    """
    if isinstance(pay, np.ndarray):
        return pay * USUAL // 365
    return max(0, int(pay * USUAL // 365)) if isinstance(pay, int | float) else 0


def money_of(u: Any, v: Any) -> Any:
    """Return lognormal cents, of median 530,000 and mean 4,160,000, from two uniform numbers.

    Two arrays give an int64 array.

    The deviation is √(2 ln(mean ÷ median)) = 2.03; the normal number is by Box and Muller (1958).
    """
    normal = math.sqrt(-2 * math.log(1 - u)) * math.cos(6.283185307179586 * v)
    cents = math.minimum(530_000 * math.exp(2.03 * normal), 100_000_000)
    return int(cents) if isinstance(cents, float) else cents.astype("int64")
