"""A town of a sample: whole households, drawn by how many each of them stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import np
from moothall.society.kernel.draw import uniforms

_TRIES: Final = 100  # draws of a household that is small enough for those who are left


def expanded(rows: Sequence[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Return `count` persons of a sample, or fewer by less than its smallest household.

    A household is drawn in proportion to the mean `weight` of its members, 1 if they have none, as
    often as it comes. Persons have new ids, 1 … n, and new households.

    Raises:
        ConfigError: a weight is below 0, or all are 0
    """
    check_integer("count", count, 1, None)
    homes: dict[Any, list[dict[str, Any]]] = {}
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
    sums = weights.cumsum()
    persons: list[dict[str, Any]] = []
    number = tries = 0
    while len(persons) < count and tries < _TRIES:
        drawn = uniforms(seed, np.array([number], np.uint64), 0, "people.sample")[0] * sums[-1]
        chosen = households[int(sums.searchsorted(drawn, side="right"))]
        number += 1
        tries = tries + 1 if len(persons) + len(chosen) > count else 0
        if not tries:
            persons += _copies_of(chosen, len(persons) + 1, number)
    return persons


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
    ids = {str(each["id"]): first + at for at, each in enumerate(household)}
    persons = []
    for person in household:
        profile = {**(person.get("profile") or {}), "household_id": number}
        new = {**person, "id": ids[str(person["id"])], "profile": profile}
        for name in ("relations", "kin"):
            if name in new:
                own_values = new[name].items()
                new[name] = {str(ids[id]): each for id, each in own_values if id in ids}
        persons.append(new)
    return persons
