"""Households: who lives with whom, drawn for many at once; one rule for objects and for columns.

A household has a head, and is of a kind that depends on its size. All that its members share is
drawn from the head's id, the rest from their own. The constants, with their sources, are those of
`PeopleParams`. In a household of a table, ages say who is what: see `by_age`. Assumed besides: flat
mates are of an age within 4 years; a home of more than `LARGEST` has several households; brothers
and sisters are born independently of one another.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.blocks.ties import KIN_BIT
from moothall.society.kernel.draw import choices, choices_by, draw_below
from moothall.society.people.params import PeopleParams, Row, Rows

ALONE, COUPLE, LONE, EXTENDED, FLAT, FAMILY, _OTHER = range(7)
"""The kinds of households, by their index in `blocks.columns.HOUSEHOLDS`."""
HEAD, PARTNER, CHILD, ELDER, MATE = range(5)
YEARS: Final = (18, 25, 35, 45, 55, 65, 75, 85, 95)
_LEAST_GAP: Final = -10
_LEAST_APART: Final = 14
_FIRST: Final = 18  # the youngest mother
OLDEST: Final = 100
_MOST: Final = 120  # the highest age of a table
LARGEST: Final = 8
"""A home of more has households of one, two, three and four in turn."""
_BEGINS: Final = (0, 1, 1, 3, 3, 3, 6, 6, 6, 6)
_SIZES: Final = (1, 2, 2, 3, 3, 3, 4, 4, 4, 4)

_CLOSE: Final = 800  # the strength of a tie within a household
_FRIEND_OFFSET: Final = 3  # friends by number are those beyond the household
_SLICE: Final = 1 << 18

_P, _R, _C, _S, _O = 1, 2, 3, 4, 5
_KIN: Final = (  # of a member of the household (row), what another is to it
    (0, _P, _C, _R, 0),
    (_P, 0, _C, _O, 0),
    (_R, _R, _S, _O, 0),
    (_C, _O, _O, 0, 0),
    (0, 0, 0, 0, 0),
)


def households(
    home: Array, household: Array | None = None, age: Any = None
) -> tuple[Array, Array, Array, Array, Array]:
    """Return each one's head, second member (else the head), rank and size; all by household.

    `household` has the number that a table gives, −1 for none; its adults come first,
    the eldest before others, then those of whom no age (below 0) is known, then its children.
    """
    count = len(home)
    rank = np.zeros(count, np.int64)
    if household is not None:
        has_household = household >= 0
        home = np.where(has_household, household + home.max(initial=0) + 1, home)
        old = np.where(age >= _FIRST, -age - _MOST, np.where(age < 0, -_MOST, -age))
        rank = np.where(has_household, old, rank)
    order = np.lexsort((rank, home))
    sorted_ = home[order]
    starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
    lengths = np.diff(np.r_[starts, count])
    turn, size = np.arange(count) - starts.repeat(lengths), lengths.repeat(lengths)
    many = size > LARGEST
    if household is not None:
        many &= ~has_household[order]
    begins = np.where(many, turn // 10 * 10 + np.array(_BEGINS)[turn % 10], 0)
    size = np.where(many, np.minimum(np.array(_SIZES)[turn % 10], size - begins), size)
    alone = sorted_ < 0
    rank = np.where(alone, 0, turn - begins)
    results = tuple(np.empty(count, np.int64) for _ in range(3))
    head, ranks, sizes = results
    head[order] = order[np.arange(count) - rank]
    ranks[order], sizes[order] = rank, np.where(alone, 1, size)
    second = np.arange(count)
    next_ = np.flatnonzero(ranks == 1)
    second[head[next_]] = next_
    return head, second[head], ranks, sizes, order


def roles(
    params: PeopleParams, seed: int, head: Array, rank: Array, size: Array
) -> tuple[Array, Array]:
    """Return the kind of each person's household and its role, by the id of the head."""
    kinds = np.array(params.household_kinds)
    sums = kinds.cumsum(axis=1)[np.minimum(size, len(kinds)) - 1]
    kind = choices_by(sums, seed, head, 0, "people.household")
    kind = np.where((kind == COUPLE) & (size > 2), FAMILY, kind)
    pair = (kind == COUPLE) | (kind == FAMILY) | (kind == EXTENDED)
    role = np.where(kind == FLAT, MATE, CHILD)
    role = np.where(pair & (rank == 1), PARTNER, role)
    role = np.where((kind == EXTENDED) & (rank == size - 1), ELDER, role)
    return kind, np.where(rank == 0, HEAD, role)


def by_age(
    lives: tuple[Array, Array, Array, Array, Array],
    household: Array,
    age: Array,
    gender: Array,
    kind: Array,
    role: Array,
) -> None:
    """Write the kinds and roles of the households that a table gives, by everybody's age.

    A generation ends where the next one is 18 years younger, or under age and 14 younger. The
    eldest of three are the elders. The head is the eldest of the next, and the second of it the
    partner, if of age and not of the same gender; others are relatives.
    """
    _, _, rank, size, order = lives
    order = order[household[order] >= 0]
    if not len(order):
        return
    previous, other = np.maximum(age[np.r_[order[:1], order[:-1]]], 0), age[order]
    first = rank[order] == 0
    ends = (previous - other >= _FIRST) | (
        (previous >= _FIRST) & (other < _FIRST) & (previous - other >= _LEAST_APART)
    )
    sums = (ends & ~first).cumsum()
    starts = np.flatnonzero(first).repeat(size[order[first]])
    level = sums - sums[starts]
    last = starts + size[order] - 1
    level -= level[last] > 1  # elders are −1
    eldest = (level == 0) & (first | (np.r_[0, level[:-1]] < 0))
    at = np.flatnonzero(eldest).repeat(size[order[first]])  # each one's head: its place in `order`
    turn = np.arange(len(order)) - at
    same = (gender[order] == gender[order[at]]) & (gender[order] > 0)
    pair = (level == 0) & (turn == 1) & (other >= _FIRST) & ~same
    other_role = np.where(level == 1, CHILD, np.where(level == -1, ELDER, MATE))
    role[order] = np.where(eldest, HEAD, np.where(pair, PARTNER, other_role))

    def flagged(flags: Array) -> Any:
        return np.add.reduceat(flags, np.flatnonzero(first))[np.cumsum(first) - 1] > 0

    has_pair, children = flagged(pair.astype(int)), flagged((level == 1).astype(int))
    mixed = flagged(((other_role == MATE) & ~eldest & ~pair).astype(int))
    household_kind = np.where(
        has_pair, np.where(children, FAMILY, COUPLE), np.where(children, LONE, ALONE)
    )
    household_kind = np.where(flagged((level == -1).astype(int)), EXTENDED, household_kind)
    kind[order] = np.where(mixed, _OTHER, household_kind)


@functools.lru_cache(maxsize=8)
def _births(weights: Row, stays_of: Rows) -> Array:
    """Return the summed weights of a mother's age at the birth of a child that lives with her."""
    births = np.arange(len(weights))  # by her age now
    age = np.arange(_MOST + 1)[:, None] - _FIRST - births  # of the child
    since, share = np.array(stays_of).T
    stays = share[np.maximum(np.searchsorted(since, age, side="right") - 1, 0)]
    born = np.where(age >= 0, np.array(weights) * stays, 0)
    born[born.sum(axis=1) == 0, 0] = 1  # younger mothers, as a table may have them
    return born.cumsum(axis=1)


def household_members(
    params: PeopleParams,
    seed: int,
    ids: Array,
    head: Array,  # the ids of the heads of their households
    rank: Array,
    size: Array,
    ages: tuple[
        Array, Array, Array
    ],  # what is known: the person's own, the head's and the partner's; below 0: nothing
    genders: tuple[Array, Array, Array],  # the same, as codes; 0: nothing
) -> tuple[Array, Array]:
    """Return the ages and genders (1: female, 2: male) of persons."""
    kind, role = roles(params, seed, head, rank, size)

    def own_draw(n: int, purpose: str) -> Array:
        return draw_below(n, seed, ids, 0, f"people.{purpose}")

    pair = (kind == COUPLE) | (kind == FAMILY) | (kind == EXTENDED)
    woman = draw_below(100, seed, head, 0, "people.head") < np.array(params.women_heads)[kind]
    first = np.where(genders[1] > 0, genders[1], 2 - woman)
    same = draw_below(1000, seed, head, 0, "people.same") < params.same_gender
    second = np.where(genders[2] > 0, genders[2], np.where(same, first, 3 - first))
    of_kind = np.cumsum(params.head_ages, axis=1)[kind]
    group = choices_by(of_kind, seed, head, 0, "people.age")
    years = np.array(YEARS)
    age = years[group] + draw_below(np.diff(years)[group], seed, head, 0, "people.years")
    gap = choices(params.couple_gaps, seed, head, 0, "people.gap") + _LEAST_GAP
    gap = np.where(first == 2, gap, -gap)  # how much older the head is than the partner
    age = np.where(pair & (first == 2), np.clip(age + gap, _FIRST, OLDEST), age)
    age = np.where(ages[1] >= 0, ages[1], age)
    partner = np.where(ages[2] >= 0, ages[2], np.clip(age - gap, _FIRST, OLDEST))
    mother = np.where(pair & (first == 2) & (second == 1), partner, age)
    child, some = np.zeros(len(ids), np.int64), np.flatnonzero(role == CHILD)
    sums = _births(params.births, params.stays)[np.clip(mother[some], 0, _MOST)]
    born = choices_by(sums, seed, ids[some], 0, "people.birth")
    child[some] = np.maximum(mother[some] - _FIRST - born, 0)
    at_birth = _FIRST + choices(params.births, seed, ids, 0, "people.birth")
    elder = np.minimum(age + at_birth, OLDEST)
    mate = np.maximum(age - 4 + own_draw(9, "mate"), _FIRST)
    drawn_age = np.choose(role, (age, partner, child, elder, mate))
    drawn = np.where(own_draw(100, "gender") < np.where(role == ELDER, 70, 50), 1, 2)
    gender = np.choose(role, (first, second, drawn, drawn, drawn))
    return (
        np.where(ages[0] >= 0, ages[0], drawn_age).astype(np.int64),
        np.where(genders[0] > 0, genders[0], gender).astype(np.int64),
    )


def kin_of(role: Array, other: Array, age: Any = None, older: Any = None) -> Array:
    """Return what others of the household are to persons, as codes of `blocks.ties.KIN`."""
    kin = np.array(_KIN)[role, other]
    if age is None:
        return kin
    # Given ages may contradict the roles: then the other is a relative.
    apart = np.where(kin == _R, older - age, age - older)
    wrong = ((kin == _R) | (kin == _C)) & (apart < _LEAST_APART)
    wrong |= (kin == _P) & (np.minimum(age, older) < _LEAST_APART + 2)
    return np.where(wrong, _O, kin)


def links(
    params: PeopleParams,
    seed: int,
    ids: Array,
    lives: tuple[Array, Array, Array, Array, Array],
    role: Array,
    age: Array | None,
    household: Array | None = None,
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield links of persons: both positions, and what each is to the other, as `friendship`."""
    head, _, rank, _, order = lives
    order, count = order.astype(np.int32), len(ids)
    for apart in range(1, int(rank.max(initial=0)) + 1):  # those so far apart in a household
        person, other = order[:-apart], order[apart:]
        same = head[person] == head[other]
        person, other = person[same], other[same]
        ties = []
        for a, b in ((person, other), (other, person)):
            ages = () if age is None else (age[a].astype(np.int16), age[b].astype(np.int16))
            kin = kin_of(role[a], role[b], *ages)
            if household is not None:  # whoever shares a household of a table is kin
                kin = np.where((kin == 0) & (household[a] >= 0), _O, kin)
            ties.append((kin << KIN_BIT | _CLOSE).astype(np.int16))
        yield person, other, *ties
    for step, least in enumerate(params.friends, 1):
        for first in range(0, count, _SLICE):
            rows = np.arange(first, min(first + _SLICE, count), dtype=np.int32)
            row_ids = ids[rows]
            to = ((rows + np.int64(_FRIEND_OFFSET + step)) % count).astype(np.int32)
            new = np.flatnonzero(
                draw_below(params.rewired, seed, row_ids, 0, "people.rewired", step) == 0
            )
            to[new] = draw_below(count, seed, row_ids[new], 0, "people.friend", step)
            tie = (least + draw_below(200, seed, row_ids, 0, "people.strength", step)).astype(
                np.int16
            )
            other = to != rows
            yield rows[other], to[other], tie[other], tie[other]
