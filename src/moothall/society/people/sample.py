"""A town of a sample: whole households, drawn by how many each of them stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.blocks.columns import EDUCATION
from moothall.society.kernel.draw import uniforms
from moothall.society.people.margins import (
    Margin,
    category_counts,
    check_met,
    improved_choices,
    margin_attributes,
)

_MAX_PASSES: Final = 60
_CANDIDATES: Final = 24
"""How many households may take the place of each."""
_MAX_TRIES: Final = 100  # draws of a household that is small enough for those who are left


def sample_persons(
    rows: Sequence[dict[str, Any]], count: int, seed: int, margins: Sequence[Margin] | None
) -> tuple[list[dict[str, Any]], list[Margin] | None]:
    """Return persons of a sample, and the margins that are left: of what not all rows have."""
    profiles = [person.get("profile") or {} for person in rows]
    for profile in profiles:
        if profile.get("age", 18) < 18:
            profile.setdefault("education", EDUCATION[0])
    row_margins, other_margins = list[Margin](), list[Margin]()
    for each in margins or ():
        have_all = all(
            part in profile for part in margin_attributes(each.name) for profile in profiles
        )
        (row_margins if have_all else other_margins).append(each)
    return _expand_sample(rows, count, seed, row_margins), other_margins or None


def _expand_sample(
    rows: Sequence[dict[str, Any]], count: int, seed: int, margins: Sequence[Margin]
) -> list[dict[str, Any]]:
    """Return `count` persons of a sample, or fewer by less than its smallest household.

    A household is drawn in proportion to the mean `weight` of its members, 1 if they have none, as
    often as it comes. Persons have new ids, 1 … n, and new households.

    Margins of what all rows have fit these weights; then households give way to others as large,
    where that brings the counts nearer to the margins.

    Raises:
        ConfigError: a weight is below 0, or all are 0, or the households cannot meet the margins
    """
    check_integer("count", count, 1, None)
    homes: dict[object, list[dict[str, object]]] = {}
    for person in rows:
        household_id = (person.get("profile") or {}).get("household_id")
        homes.setdefault(
            ("alone", person["id"]) if household_id is None else household_id, []
        ).append(person)
    if not homes:
        raise ConfigError("count= draws households of the rows, and there are no rows")
    households = [*homes.values()]
    weights = np.array([_weight(each) for each in households])
    if not weights.sum():
        raise ConfigError("count= draws households by `weight`, and all weights are 0")
    sizes = np.array([*map(len, households)])
    if margins:
        counts = category_counts([[(each, 0) for each in home] for home in households], margins)
        chosen = _fit_households(counts, sizes, weights, margins, count, seed)
    else:
        chosen = _draw_households(sizes.tolist(), weights.cumsum(), count, seed)
    persons: list[dict[str, object]] = []
    for number, index in enumerate(chosen, 1):
        persons += _copies_of(households[index], len(persons) + 1, number)
    return persons


def _draw_households(sizes: list[int], sums: Array, count: int, seed: int) -> list[int]:
    """Return households of `count` persons, each drawn for itself."""
    chosen: list[int] = []
    number = tries = persons = 0
    while persons < count and tries < _MAX_TRIES:
        share = uniforms(seed, np.array([number], np.uint64), 0, "people.sample")[0] * sums[-1]
        index = int(sums.searchsorted(share, side="right"))
        number += 1
        tries = tries + 1 if persons + sizes[index] > count else 0
        if not tries:
            chosen.append(index)
            persons += sizes[index]
    return chosen


def _fit_households(
    counts: Array, sizes: Array, weights: Array, margins: Sequence[Margin], count: int, seed: int
) -> list[int]:
    """Return households of at most `count` persons, who meet margins.

    They are drawn at equal steps of the fitted weights, then give way to others that fit better.
    """
    goals = np.array([each for m in margins for each in (*m.counts(count), 0)])
    for _ in range(_MAX_PASSES):
        for category, goal in enumerate(goals.tolist()):
            column = counts[:, category]
            total = (weights * column).cumsum()[-1]  # in order: the same on every platform
            if total > 0:
                weights = np.where(column > 0, weights * max(goal / total, 1e-6), weights)
    order = np.argsort(uniforms(seed, np.arange(len(sizes), dtype=np.uint64), 0, "people.sample"))
    sums = weights[order].cumsum()
    homes = max(1, round(sums[-1]))
    steps = (np.arange(homes) + 0.5) * sums[-1] / homes
    words = np.arange(homes * _CANDIDATES, dtype=np.uint64)
    points = uniforms(seed, words, 0, "people.sample.other").reshape(homes, _CANDIDATES) * sums[-1]
    points = sums.searchsorted(np.column_stack([steps, points]), side="right")
    candidates = order[np.minimum(points, len(order) - 1)]
    best = improved_choices(counts[candidates], goals, np.zeros(homes, np.int64))
    chosen = candidates[np.arange(homes), best]
    while sizes[chosen].sum() > count:
        surplus = sizes[chosen].sum() - count
        chosen = np.delete(chosen, np.abs(sizes[chosen] - surplus).argmin())
    check_met(margins, goals, counts[chosen].sum(axis=0), count)
    return [*map(int, chosen)]


def _weight(household: Sequence[Mapping[str, Any]]) -> float:
    weights = [(each.get("profile") or {}).get("weight", 1) for each in household]
    for person, weight in zip(household, weights, strict=True):
        if not isinstance(weight, int | float) or not 0 <= weight < np.inf:
            rule = f"must be a number, 0 or more, got {weight!r:.80}"
            raise ConfigError(f"citizen {person['id']!r}: weight {rule}")
    return float(sum(weights) / len(weights))


def _copies_of(
    household: Sequence[Mapping[str, Any]], first: int, number: int
) -> list[dict[str, Any]]:
    """Return new persons like those of a household; they know each other alone."""
    ids = {str(each["id"]): first + index for index, each in enumerate(household)}
    persons = []
    for person in household:
        profile = {**(person.get("profile") or {}), "household_id": number}
        copied = {**person, "id": ids[str(person["id"])], "profile": profile}
        for name in ("relations", "kin"):
            if name in copied:
                own_values = copied[name].items()
                copied[name] = {str(ids[id]): each for id, each in own_values if id in ids}
        persons.append(copied)
    return persons
