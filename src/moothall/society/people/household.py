"""Households: who lives with whom, drawn for many at once; one rule for objects and for columns.

A household has a head, and is of a kind that depends on its size. All that its members share is
drawn from the head's id, the rest from their own. The constants, with their sources, are those of
`PeopleParams`. In a household of a table, ages say who is what: see
`set_roles_by_age`. Assumed besides: flat mates are of an age within 4 years; a home of more than
`MAX_HOUSEHOLD` has several households; siblings are born independently of one another.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.blocks.ties import KIN_BIT
from moothall.society.kernel.draw import choices, choices_by, draw_below
from moothall.society.people.params import PeopleParams, Row, Rows

ALONE, COUPLE, LONE_PARENT, EXTENDED, SHARED_FLAT, FAMILY, _OTHER = range(7)
"""The kinds of households, by their index in `blocks.columns.HOUSEHOLDS`."""
HEAD, PARTNER, CHILD, ELDER, FLAT_MATE = range(5)
AGE_GROUPS: Final = (18, 25, 35, 45, 55, 65, 75, 85, 95)
_MIN_COUPLE_GAP: Final = -10
_MIN_GENERATION_GAP: Final = 14
_ADULT_AGE: Final = 18  # the youngest mother
MAX_DRAWN_AGE: Final = 100
_MAX_AGE: Final = 120  # the highest age of a table
MAX_HOUSEHOLD: Final = 8
"""A home of more has households of one, two, three and four in turn."""
_FIRST_SEATS: Final = (0, 1, 1, 3, 3, 3, 6, 6, 6, 6)
_SIZES: Final = (1, 2, 2, 3, 3, 3, 4, 4, 4, 4)

_HOUSEHOLD_STRENGTH: Final = 800  # the strength of a tie within a household
_FRIEND_OFFSET: Final = 3  # friends by number are those beyond the household
_SLICE_ROWS: Final = 1 << 18

_P, _R, _C, _S, _O = 1, 2, 3, 4, 5
_KIN_BY_ROLES: Final = (  # of a member of the household (row), what another is to it
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
        age_rank = np.where(age >= _ADULT_AGE, -age - _MAX_AGE, np.where(age < 0, -_MAX_AGE, -age))
        rank = np.where(has_household, age_rank, rank)
    order = np.lexsort((rank, home))
    sorted_homes = home[order]
    starts = np.flatnonzero(np.r_[True, sorted_homes[1:] != sorted_homes[:-1]])
    lengths = np.diff(np.r_[starts, count])
    turn, size = np.arange(count) - starts.repeat(lengths), lengths.repeat(lengths)
    is_large = size > MAX_HOUSEHOLD
    if household is not None:
        is_large &= ~has_household[order]
    first_seat = np.where(is_large, turn // 10 * 10 + np.array(_FIRST_SEATS)[turn % 10], 0)
    size = np.where(is_large, np.minimum(np.array(_SIZES)[turn % 10], size - first_seat), size)
    is_alone = sorted_homes < 0
    rank = np.where(is_alone, 0, turn - first_seat)
    results = tuple(np.empty(count, np.int64) for _ in range(3))
    head, ranks, sizes = results
    head[order] = order[np.arange(count) - rank]
    ranks[order], sizes[order] = rank, np.where(is_alone, 1, size)
    second = np.arange(count)
    second_members = np.flatnonzero(ranks == 1)
    second[head[second_members]] = second_members
    return head, second[head], ranks, sizes, order


def roles(
    params: PeopleParams, seed: int, head: Array, rank: Array, size: Array
) -> tuple[Array, Array]:
    """Return the kind of each person's household and its role, by the id of the head."""
    kinds = np.array(params.household_kinds)
    sums = kinds.cumsum(axis=1)[np.minimum(size, len(kinds)) - 1]
    kind = choices_by(sums, seed, head, 0, "people.household")
    kind = np.where((kind == COUPLE) & (size > 2), FAMILY, kind)
    is_couple = (kind == COUPLE) | (kind == FAMILY) | (kind == EXTENDED)
    role = np.where(kind == SHARED_FLAT, FLAT_MATE, CHILD)
    role = np.where(is_couple & (rank == 1), PARTNER, role)
    role = np.where((kind == EXTENDED) & (rank == size - 1), ELDER, role)
    return kind, np.where(rank == 0, HEAD, role)


def set_roles_by_age(
    living: tuple[Array, Array, Array, Array, Array],
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
    _, _, rank, size, order = living
    order = order[household[order] >= 0]
    if not len(order):
        return
    previous, other = np.maximum(age[np.r_[order[:1], order[:-1]]], 0), age[order]
    is_first = rank[order] == 0
    starts_generation = (previous - other >= _ADULT_AGE) | (
        (previous >= _ADULT_AGE) & (other < _ADULT_AGE) & (previous - other >= _MIN_GENERATION_GAP)
    )
    sums = (starts_generation & ~is_first).cumsum()
    starts = np.flatnonzero(is_first).repeat(size[order[is_first]])
    level = sums - sums[starts]
    last = starts + size[order] - 1
    level -= level[last] > 1  # elders are −1
    is_head = (level == 0) & (is_first | (np.r_[0, level[:-1]] < 0))
    heads = np.flatnonzero(is_head).repeat(size[order[is_first]])  # each one's head, in `order`
    turn = np.arange(len(order)) - heads
    same = (gender[order] == gender[order[heads]]) & (gender[order] > 0)
    pair = (level == 0) & (turn == 1) & (other >= _ADULT_AGE) & ~same
    other_role = np.where(level == 1, CHILD, np.where(level == -1, ELDER, FLAT_MATE))
    role[order] = np.where(is_head, HEAD, np.where(pair, PARTNER, other_role))

    def flagged(flags: Array) -> Any:
        return np.add.reduceat(flags, np.flatnonzero(is_first))[np.cumsum(is_first) - 1] > 0

    has_pair, children = flagged(pair.astype(int)), flagged((level == 1).astype(int))
    mixed = flagged(((other_role == FLAT_MATE) & ~is_head & ~pair).astype(int))
    household_kind = np.where(
        has_pair, np.where(children, FAMILY, COUPLE), np.where(children, LONE_PARENT, ALONE)
    )
    household_kind = np.where(flagged((level == -1).astype(int)), EXTENDED, household_kind)
    kind[order] = np.where(mixed, _OTHER, household_kind)


@functools.lru_cache(maxsize=8)
def _birth_weights(weights: Row, staying: Rows) -> Array:
    """Return the summed weights of a mother's age at the birth of a child that lives with her."""
    birth_ages = np.arange(len(weights))  # by her age now
    age = np.arange(_MAX_AGE + 1)[:, None] - _ADULT_AGE - birth_ages  # of the child
    from_age, share = np.array(staying).T
    stay_share = share[np.maximum(np.searchsorted(from_age, age, side="right") - 1, 0)]
    shares = np.where(age >= 0, np.array(weights) * stay_share, 0)
    shares[shares.sum(axis=1) == 0, 0] = 1  # younger mothers, as a table may have them
    return shares.cumsum(axis=1)


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

    is_couple = (kind == COUPLE) | (kind == FAMILY) | (kind == EXTENDED)
    is_woman = draw_below(100, seed, head, 0, "people.head") < np.array(params.women_heads)[kind]
    first = np.where(genders[1] > 0, genders[1], 2 - is_woman)
    same = draw_below(1000, seed, head, 0, "people.same") < params.same_gender
    second = np.where(genders[2] > 0, genders[2], np.where(same, first, 3 - first))
    age_weights = np.cumsum(params.head_ages, axis=1)[kind]
    group = choices_by(age_weights, seed, head, 0, "people.age")
    years = np.array(AGE_GROUPS)
    age = years[group] + draw_below(np.diff(years)[group], seed, head, 0, "people.years")
    gap = choices(params.couple_gaps, seed, head, 0, "people.gap") + _MIN_COUPLE_GAP
    gap = np.where(first == 2, gap, -gap)  # how much older the head is than the partner
    age = np.where(is_couple & (first == 2), np.clip(age + gap, _ADULT_AGE, MAX_DRAWN_AGE), age)
    age = np.where(ages[1] >= 0, ages[1], age)
    partner = np.where(ages[2] >= 0, ages[2], np.clip(age - gap, _ADULT_AGE, MAX_DRAWN_AGE))
    mother = np.where(is_couple & (first == 2) & (second == 1), partner, age)
    child, children = np.zeros(len(ids), np.int64), np.flatnonzero(role == CHILD)
    sums = _birth_weights(params.births, params.stays)[np.clip(mother[children], 0, _MAX_AGE)]
    birth_age = choices_by(sums, seed, ids[children], 0, "people.birth")
    child[children] = np.maximum(mother[children] - _ADULT_AGE - birth_age, 0)
    at_birth = _ADULT_AGE + choices(params.births, seed, ids, 0, "people.birth")
    elder = np.minimum(age + at_birth, MAX_DRAWN_AGE)
    mate = np.maximum(age - 4 + own_draw(9, "mate"), _ADULT_AGE)
    drawn_age = np.choose(role, (age, partner, child, elder, mate))
    drawn_gender = np.where(own_draw(100, "gender") < np.where(role == ELDER, 70, 50), 1, 2)
    gender = np.choose(role, (first, second, drawn_gender, drawn_gender, drawn_gender))
    return (
        np.where(ages[0] >= 0, ages[0], drawn_age).astype(np.int64),
        np.where(genders[0] > 0, genders[0], gender).astype(np.int64),
    )


def kin_of(role: Array, other: Array, age: Any = None, older: Any = None) -> Array:
    """Return what others of the household are to persons, as codes of `blocks.ties.KIN`."""
    kin = np.array(_KIN_BY_ROLES)[role, other]
    if age is None:
        return kin
    # Given ages may contradict the roles: then the other is a relative.
    gap = np.where(kin == _R, older - age, age - older)
    is_wrong = ((kin == _R) | (kin == _C)) & (gap < _MIN_GENERATION_GAP)
    is_wrong |= (kin == _P) & (np.minimum(age, older) < _MIN_GENERATION_GAP + 2)
    return np.where(is_wrong, _O, kin)


def links(
    params: PeopleParams,
    seed: int,
    ids: Array,
    living: tuple[Array, Array, Array, Array, Array],
    role: Array,
    age: Array | None,
    household: Array | None = None,
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield links of persons: both positions, and what each is to the other, as `friendship`."""
    head, _, rank, _, order = living
    order, count = order.astype(np.int32), len(ids)
    for distance in range(1, int(rank.max(initial=0)) + 1):  # those so far apart in a household
        person, other = order[:-distance], order[distance:]
        is_together = head[person] == head[other]
        person, other = person[is_together], other[is_together]
        ties = []
        for a, b in ((person, other), (other, person)):
            ages = () if age is None else (age[a].astype(np.int16), age[b].astype(np.int16))
            kin = kin_of(role[a], role[b], *ages)
            if household is not None:  # whoever shares a household of a table is kin
                kin = np.where((kin == 0) & (household[a] >= 0), _O, kin)
            ties.append((kin << KIN_BIT | _HOUSEHOLD_STRENGTH).astype(np.int16))
        yield person, other, *ties
    for step, lowest in enumerate(params.friends, 1):
        for first in range(0, count, _SLICE_ROWS):
            rows = np.arange(first, min(first + _SLICE_ROWS, count), dtype=np.int32)
            row_ids = ids[rows]
            friend = ((rows + np.int64(_FRIEND_OFFSET + step)) % count).astype(np.int32)
            new = np.flatnonzero(
                draw_below(params.rewired, seed, row_ids, 0, "people.rewired", step) == 0
            )
            friend[new] = draw_below(count, seed, row_ids[new], 0, "people.friend", step)
            tie = (lowest + draw_below(200, seed, row_ids, 0, "people.strength", step)).astype(
                np.int16
            )
            is_other = friend != rows
            yield rows[is_other], friend[is_other], tie[is_other], tie[is_other]
