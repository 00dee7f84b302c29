"""Households: who lives with whom, drawn for many at once; one rule for objects and for columns.

A household has a head, and is of a kind that depends on its size. All that its members share is
drawn from the head's id, the rest from their own. The constants and their sources ("ACS" is the
American Community Survey, "the report" the U.S. Census Bureau's "America's Families and Living
Arrangements: 2022"):

* `KINDS`: by size, of 1,000 households: alone, a couple (and its children), a lone parent, a couple
  with children and a parent of the head, and others who share a flat. Of 100 households 29 are
  persons alone, 47 married couples, 7 unmarried ones (ACS 2022, table DP02), and 5 have three
  generations (2020 census). The split by size is fitted to these sums.
* `AGES`: the age group of the head, or of the woman of a couple, of 100 of each kind; fitted to the
  2020 census (22 of 100 below 18, 17 from 65 on).
* `GAPS`: how much older a husband is than his wife, from −10 to 20 years: 34 of 100 within a year,
  51 within two, 40 of husbands and 10 of wives older by three or more, 2.2 years in the mean
  (Pew Research Center 2024, from the ACS 2022).
* `SAME`: couples of one gender, of 1,000: 1.2 million of about 70 million (ACS 2021).
* `WOMEN`: women among heads of each kind, of 100: 16 women alone for 13 men, 15 mothers alone for 6
  fathers (the report).
* `BIRTHS`: a mother's age at a birth, from 18 to 45 (National Center for Health Statistics, "Final
  data for 2021", rounded). `STAYS`: of 1,000 children, how many still live with their parents, by
  age: 57 of 100 men and 55 of 100 women of 18–24, and fewer of 25–34 (the report). The weights are
  fitted to the first; those from 25 on, some 15 and 5 of 100, are assumed.
* Assumed: flat mates are of an age within 4 years; a home of more than `_LARGEST` has several
  households; brothers and sisters are born independently of one another.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.kernel.draw import belows

ALONE, COUPLE, LONE, EXTENDED, FLAT, FAMILY = range(6)
"""The kinds of households, by their index in `blocks.columns.HOUSEHOLDS`."""
HEAD, PARTNER, CHILD, ELDER, MATE = range(5)
KINDS: Final = (  # by size, the last also for more
    (1000, 0, 0, 0, 0),
    (0, 700, 220, 0, 80),
    (0, 620, 230, 100, 50),
    (0, 760, 100, 120, 20),
    (0, 770, 80, 150, 0),
)
YEARS: Final = (18, 25, 35, 45, 55, 65, 75, 85, 95)
AGES: Final = (
    (4, 13, 10, 12, 20, 22, 14, 5),  # alone
    (5, 14, 7, 9, 23, 26, 13, 3),  # a couple of two
    (4, 20, 28, 25, 14, 6, 3, 0),  # a lone parent
    (1, 15, 34, 35, 15, 0, 0, 0),  # with a parent of the head
    (50, 34, 6, 4, 3, 3, 0, 0),  # a shared flat
    (3, 24, 36, 26, 9, 2, 0, 0),  # a couple with children
)
GAPS: Final = (
    *(40, 40, 50, 70, 100, 140, 210, 350, 600, 900),  # the wife is 10 … 1 years older
    *(1250, 1200, 1050, 850, 700, 550, 420, 330, 260, 200),  # the husband 0 … 9
    *(160, 120, 100, 80, 60, 50, 40, 30, 25, 15, 10),  # 10 … 20
)
_LEAST_GAP: Final = -10
SAME: Final = 17
WOMEN: Final = (55, 50, 78, 50, 50, 50)
BIRTHS: Final = (15, 15, *[36] * 5, *[56] * 5, *[60] * 5, *[34] * 5, *[7] * 5, 1)
_LEAST_APART: Final = 14
_FIRST: Final = 18  # the youngest mother
STAYS: Final = ((0, 1000), (18, 640), (25, 150), (35, 50))
"""From which age on, and how many of 1,000."""
OLDEST: Final = 100
_MOST: Final = 120  # the highest age of a table
_LARGEST: Final = 8
"""A home of more has households of one, two, three and four in turn."""
_BEGINS: Final = (0, 1, 1, 3, 3, 3, 6, 6, 6, 6)
_SIZES: Final = (1, 2, 2, 3, 3, 3, 4, 4, 4, 4)

_P, _R, _C, _S, _O = 1, 2, 3, 4, 5
_KIN: Final = (  # of a member of the household (row), what another is to it
    (0, _P, _C, _R, 0),
    (_P, 0, _C, _O, 0),
    (_R, _R, _S, _O, 0),
    (_C, _O, _O, 0, 0),
    (0, 0, 0, 0, 0),
)


def households(home: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return who belongs to whose household.

    Args:
        home: the number of each person's home; below 0 it lives alone

    Returns:
        for each person the position of the household's head, of its second member (the head's, if
        there is none), the person's rank (0: the head) and the size; and the positions by household
    """
    count = len(home)
    order = np.argsort(home, kind="stable")
    sorted_ = home[order]
    starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
    lengths = np.diff(np.r_[starts, count])
    turn, size = np.arange(count) - starts.repeat(lengths), lengths.repeat(lengths)
    many = size > _LARGEST
    begins = np.where(many, turn // 10 * 10 + np.array(_BEGINS)[turn % 10], 0)
    size = np.where(many, np.minimum(np.array(_SIZES)[turn % 10], size - begins), size)
    alone = sorted_ < 0
    rank = np.where(alone, 0, turn - begins)
    made = tuple(np.empty(count, np.int64) for _ in range(3))
    head, ranks, sizes = made
    head[order] = order[np.arange(count) - rank]
    ranks[order], sizes[order] = rank, np.where(alone, 1, size)
    second = np.arange(count)
    next_ = np.flatnonzero(ranks == 1)
    second[head[next_]] = next_
    return head, second[head], ranks, sizes, order


def _drawn(weights: Any, seed: int, ids: Any, purpose: str) -> Any:
    """Return an index drawn by weights for each id; each id may have a row of its own."""
    sums = np.cumsum(weights, axis=-1)
    share = belows(np.broadcast_to(sums[..., -1], ids.shape).copy(), seed, ids, 0, purpose)
    if sums.ndim == 1:
        return np.searchsorted(sums, share, side="right")
    return (sums <= share[:, None]).sum(axis=1)


def roles(seed: int, head: Any, rank: Any, size: Any) -> tuple[Any, Any]:
    """Return the kind of each person's household and its role, by the id of the head."""
    shares = np.array(KINDS)[np.minimum(size, len(KINDS)) - 1]
    kind = _drawn(shares, seed, head, "people.household")
    kind = np.where((kind == COUPLE) & (size > 2), FAMILY, kind)
    pair = (kind == COUPLE) | (kind == FAMILY) | (kind == EXTENDED)
    role = np.where(kind == FLAT, MATE, CHILD)
    role = np.where(pair & (rank == 1), PARTNER, role)
    role = np.where((kind == EXTENDED) & (rank == size - 1), ELDER, role)
    return kind, np.where(rank == 0, HEAD, role)


@functools.cache
def _births() -> Any:
    """Return the cumulative weights of a mother's age at a birth, by her age now.

    The child is born, and lives with her as `STAYS` has it.
    """
    births = np.arange(len(BIRTHS))
    age = np.arange(_MOST + 1)[:, None] - _FIRST - births  # of the child
    since, share = np.array(STAYS).T
    stays = share[np.maximum(np.searchsorted(since, age, side="right") - 1, 0)]
    weights = np.where(age >= 0, np.array(BIRTHS) * stays, 0)
    weights[:_FIRST, 0] = 1  # younger mothers, as a table may have them
    return weights.cumsum(axis=1)


def composed(
    seed: int, ids: Any, head: Any, rank: Any, size: Any, ages: Any, genders: Any
) -> tuple[Any, Any]:
    """Return the ages and genders (1: female, 2: male) of persons.

    Args:
        seed: the seed of the draws
        ids: the persons' ids, uint64
        head: the ids of the heads of their households
        rank: their ranks in the household
        size: the sizes of the households
        ages: what is known of the person's own age, the head's and the partner's; below 0: nothing
        genders: the same of genders, as codes; 0: nothing
    """
    kind, role = roles(seed, head, rank, size)

    def own(n: int, what: str) -> Any:
        return belows(n, seed, ids, 0, f"people.{what}")

    pair = (kind == COUPLE) | (kind == FAMILY) | (kind == EXTENDED)
    woman = belows(100, seed, head, 0, "people.head") < np.array(WOMEN)[kind]
    first = np.where(genders[1] > 0, genders[1], 2 - woman)
    same = belows(1000, seed, head, 0, "people.same") < SAME
    second = np.where(genders[2] > 0, genders[2], np.where(same, first, 3 - first))
    group = _drawn(np.array(AGES)[kind], seed, head, "people.age")
    years = np.array(YEARS)
    age = years[group] + belows(np.diff(years)[group], seed, head, 0, "people.years")
    gap = _drawn(np.array(GAPS), seed, head, "people.gap") + _LEAST_GAP
    gap = np.where(first == 2, gap, -gap)  # how much older the head is than the partner
    age = np.where(pair & (first == 2), np.clip(age + gap, _FIRST, OLDEST), age)
    age = np.where(ages[1] >= 0, ages[1], age)
    partner = np.where(ages[2] >= 0, ages[2], np.clip(age - gap, _FIRST, OLDEST))
    mother = np.where(pair & (first == 2) & (second == 1), partner, age)
    child, some = np.zeros(len(ids), np.int64), np.flatnonzero(role == CHILD)
    sums = _births()[np.clip(mother[some], 0, _MOST)]
    share = belows(sums[:, -1], seed, ids[some], 0, "people.birth")
    child[some] = np.maximum(mother[some] - _FIRST - (sums <= share[:, None]).sum(axis=1), 0)
    elder = np.minimum(age + _FIRST + _drawn(BIRTHS, seed, ids, "people.birth"), OLDEST)
    mate = np.maximum(age - 4 + own(9, "mate"), _FIRST)
    made = np.choose(role, (age, partner, child, elder, mate))
    drawn = np.where(own(100, "gender") < np.where(role == ELDER, 70, 50), 1, 2)
    gender = np.choose(role, (first, second, drawn, drawn, drawn))
    return (
        np.where(ages[0] >= 0, ages[0], made).astype(np.int64),
        np.where(genders[0] > 0, genders[0], gender).astype(np.int64),
    )


def kin_of(role: Any, other: Any, age: Any = None, older: Any = None) -> Any:
    """Return what others of the household are to persons, as codes of `blocks.ties.KIN`.

    Given ages may contradict the roles: then the other is a relative.

    Args:
        role: the persons' roles
        other: the others' roles
        age: the persons' ages
        older: the others' ages
    """
    kin = np.array(_KIN)[role, other]
    if age is None:
        return kin
    apart = np.where(kin == _R, older - age, age - older)
    wrong = ((kin == _R) | (kin == _C)) & (apart < _LEAST_APART)
    wrong |= (kin == _P) & (np.minimum(age, older) < _LEAST_APART + 2)
    return np.where(wrong, _O, kin)
