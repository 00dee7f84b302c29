"""People who meet a census's margins: so many of each age group, gender and so on.

For each home several households are drawn, by the rules of all others. Their weights are fitted to
the margins by iterative proportional fitting (Deming, Stephan 1940; for households with persons:
Ye, Konduri, Pendyala, Sana, Waddell 2009, "A methodology to match distributions of both household
and person attributes in the generation of synthetic populations"). One household of each home is
drawn by weight; then homes change theirs where that brings the counts nearer to the margins
(Williamson, Birkin, Rees 1998, "The estimation of population microdata by using data from small
area statistics and samples of anonymised records", Environment and Planning A 30).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, NamedTuple

from moothall import ConfigError
from moothall.build import excerpt
from moothall.society.arrays import Array, np
from moothall.society.blocks.columns import EDUCATION, GENDERS, HOUSEHOLDS
from moothall.society.kernel.draw import choices_by, hash_of_text, id_words, integers
from moothall.society.people.census_columns import NUMBERS
from moothall.society.people.means import ATTRIBUTES
from moothall.society.people.table import COLUMNS, read_table
from moothall.society.people.written_numbers import plain_numbers

_HOUSEHOLD_ATTRIBUTES: Final = {
    "age": None,
    "gender": GENDERS[1:],
    "education": EDUCATION,
    "household": HOUSEHOLDS,
    "cars": None,
    "bicycles": None,
}
"""What households are chosen for, with the words of each; None: a number."""
_RESERVED: Final = {*COLUMNS, *ATTRIBUTES, *NUMBERS, "household_id", ""} - {*_HOUSEHOLD_ATTRIBUTES}
_RANGE: Final = re.compile(r"\s*([0-9]{1,3})\s*(?:[-–]\s*([0-9]{1,3})|(\+))?\s*")
_DRAWS_PER_HOME: Final = 12
"""How many households are drawn for each home."""
_MAX_PASSES: Final = 60
_MAX_SWEEPS: Final = 40
_WEIGHT_SCALE: Final = 1 << 20
_PERSONS_PER_ERROR: Final = 100
"""A category may be off by one of so many persons, or else the margins cannot be met."""

Households = list[list[tuple[dict[str, Any], int]]]
"""The households: each a list of persons with their roles."""


class Margin(NamedTuple):
    """How many persons have each of some values, together all persons."""

    name: str
    values: tuple[Any, ...]
    shares: tuple[float, ...]

    def counts(self, total: int) -> list[int]:
        """Return the number of persons for each value: whole, `total` in all."""
        exact = [share * total / sum(self.shares) for share in self.shares]
        numbers = [math.floor(each) for each in exact]
        rest = sorted(range(len(exact)), key=lambda at: (numbers[at] - exact[at], at))
        for at in rest[: total - sum(numbers)]:
            numbers[at] += 1
        return numbers


def checked_margins(margins: object) -> list[Margin]:
    """Return margins: a mapping by attribute, or the path of a table; raises ConfigError."""
    if isinstance(margins, str | PathLike):
        margins = _read_margins(margins)
    if not isinstance(margins, Mapping) or not margins:
        text = "a dict such as {'age': {'0-17': 22, '18+': 78}}, or the path of a table"
        raise ConfigError(f"margins must be {text}, got {margins!r:.80}")
    checked = []
    for name, values in margins.items():
        if not isinstance(name, str) or not isinstance(values, Mapping) or not values:
            raise ConfigError(f"margins: {name!r:.80} must have a dict of counts by value")
        parts = margin_attributes(name)
        attributes = own_attributes(parts)
        if len(attributes) > 1 or not _RESERVED.isdisjoint(attributes):
            known_names = ", ".join(_HOUSEHOLD_ATTRIBUTES)
            names = f"there are: {known_names}, an attribute of your own, or several of them"
            raise ConfigError(f"margins of {excerpt(name)} cannot be met; {names}")
        for value, count in values.items():
            is_number = not isinstance(count, bool) and isinstance(count, int | float)
            if not is_number or not math.isfinite(count) or count < 0:
                text = f"margins: {name}, {value!r:.80}"
                raise ConfigError(
                    f"{text} must be a count or a share, 0 or more, got {count!r:.80}"
                )
        if not sum(values.values()):
            raise ConfigError(f"margins: {name}: all counts are 0")
        cells = [*values] if parts == attributes else [_cell(parts, value) for value in values]
        margin = Margin(", ".join(parts), tuple(cells), tuple(map(float, values.values())))
        if parts != attributes:
            _check_overlaps(name, [*values], cells)
        for part in _drawn_part(margin) if attributes else ():
            _check_overlaps(name, [*map(_cell_text, part.values)], [*part.values])
        checked.append(margin)
    return checked


def margin_attributes(name: object) -> list[str]:
    """Return the attributes that a margin counts together."""
    return [part.strip() for part in str(name).split(",")]


def own_attributes(parts: Iterable[str]) -> list[str]:
    """Return which attributes are one's own."""
    return [part for part in parts if part not in _HOUSEHOLD_ATTRIBUTES]


def _read_margins(path: str | PathLike[str]) -> dict[str, dict[object, float]]:
    """Return the margins of a table with the columns `attribute`, `value` and `count`."""
    file, columns, rows, comma = read_table(path)
    if sorted(columns) != ["attribute", "count", "value"]:
        raise ConfigError(f"{file}: the columns must be attribute, value, count, got {columns}")
    margins: dict[str, dict[object, float]] = {}
    counts = plain_numbers([row["count"] for row in rows], comma=comma)
    for number, (row, cell) in enumerate(zip(rows, counts, strict=True), 1):
        try:
            count = float(cell)
        except (TypeError, ValueError):
            rule = f"must be a number, got {excerpt(str(cell))}"
            raise ConfigError(f"{file}, row {number}, column 'count' {rule}") from None
        values = margins.setdefault(str(row["attribute"]), {})
        if row["value"] in values:
            raise ConfigError(f"{file}, row {number}: {row['value']!r} appears twice")
        values[row["value"]] = count
    return margins


def _cell(parts: list[str], value: object) -> tuple[object, ...]:
    """Return the ranges or words of a category, one for each of the attributes."""
    texts = margin_attributes(value)
    if len(texts) != len(parts):
        raise ConfigError(f"margins: {value!r:.80} must have a value for {', '.join(parts)}")
    categories: list[object] = []
    for part, text in zip(parts, texts, strict=True):
        words = _HOUSEHOLD_ATTRIBUTES.get(part, (text,))
        match = _RANGE.fullmatch(text)
        if words is not None and text in words:
            categories.append(text)
        elif words is None and match:
            low = int(match[1])
            high = 999 if match[3] else int(match[2] or low)
            categories.append((low, high))
        else:
            expected = "such as 0-17, 18 or 65+" if words is None else f"one of {', '.join(words)}"
            raise ConfigError(f"margins: {part} must be {expected}, got {excerpt(text)}")
    return tuple(categories)


def _check_overlaps(name: str, values: list[object], cells: list[tuple[object, ...]]) -> None:
    for at, cell in enumerate(cells):
        for other in range(at):
            if all(_overlaps(a, b) for a, b in zip(cell, cells[other], strict=True)):
                raise ConfigError(f"margins: {name}: {values[other]!r} and {values[at]!r} overlap")


def _overlaps(first: Any, other: Any) -> bool:
    if isinstance(first, str):
        return bool(first == other)
    return bool(first[0] <= other[1] and other[0] <= first[1])


def households_within(
    people: list[dict[str, Any]],
    margins: list[Margin],
    seed: int,
    gather: Callable[[list[dict[str, object]], int], Households],  # draws profiles by a seed
) -> Households:
    """Draw the households of persons so that together they meet margins; return them."""
    drawn_margins = [each for margin in margins for each in _drawn_part(margin)]
    homes = (
        _choose_households(people, drawn_margins, seed, gather)
        if drawn_margins
        else gather(people, seed)
    )
    for margin in sorted(margins, key=lambda each: -len(margin_attributes(each.name))):
        for name in own_attributes(margin_attributes(margin.name)):
            for cell, part in _by_cell(margin, name):
                if not sum(part.shares):
                    continue
                some = [each for each in people if _is_in_cell(_rest(each, margin, name), cell)]
                _assign(some, part, seed, name)
    return homes


def _drawn_part(margin: Margin) -> list[Margin]:
    """Return the margin of what households are chosen for, in a list; none of one's own alone."""
    parts = margin_attributes(margin.name)
    if not (attributes := own_attributes(parts)):
        return [margin]
    cells = [(cell, sum(part.shares)) for cell, part in _by_cell(margin, attributes[0]) if cell]
    name = ", ".join(part for part in parts if part not in attributes)
    return [Margin(name, *zip(*cells, strict=True))] if cells else []


def _by_cell(margin: Margin, name: str) -> list[tuple[tuple[object, ...], Margin]]:
    """Return the margins of one's own attribute by the cells of the others; () of it alone."""
    parts = margin_attributes(margin.name)
    if len(parts) == 1:
        return [((), margin)]
    at = parts.index(name)
    cells: dict[tuple[object, ...], list[tuple[str, float]]] = {}
    for value, share in zip(margin.values, margin.shares, strict=True):
        cells.setdefault((*value[:at], *value[at + 1 :]), []).append((value[at], share))
    return [(cell, Margin(margin.name, *zip(*pairs, strict=True))) for cell, pairs in cells.items()]


def _rest(person: dict[str, Any], margin: Margin, name: str) -> list[object]:
    return [person["profile"].get(part) for part in margin_attributes(margin.name) if part != name]


def _assign(people: list[dict[str, Any]], margin: Margin, seed: int, name: str) -> None:
    """Give an attribute of one's own to persons without it, so that all together meet a margin."""
    texts = [*map(str, margin.values)]
    profiles = [person["profile"] for person in people]
    has = Counter(str(profile[name]) for profile in profiles if name in profile)
    counts = margin.counts(len(people))
    off = max(has[text] - count for text, count in zip(texts, counts, strict=True))
    if max(off, has.total() - sum(has[text] for text in texts)) > _tolerance(len(people)):
        goals = dict(zip(texts, counts, strict=True))
        raise ConfigError(
            f"margins: {margin.name}: asked for {goals}, and the rows have {dict(has)}"
        )
    lacks = np.array([name not in profile for profile in profiles], bool)
    if not lacks.any():
        return
    needs = [max(0, count - has[text]) for text, count in zip(texts, counts, strict=True)]
    remaining = Margin(name, margin.values, tuple(map(float, needs))).counts(int(lacks.sum()))
    ids = id_words(person["id"] for person in people)
    order = np.argsort(integers(seed, ids, 0, f"people.margin.{name}"), kind="stable")
    values = np.repeat(np.arange(len(texts)), remaining)
    for at, value in zip(order[lacks[order]].tolist(), values.tolist(), strict=True):
        profiles[at][name] = margin.values[value]


def _tolerance(total: int) -> int:
    """Return by how many of so many persons a category may be off."""
    return max(1, total // _PERSONS_PER_ERROR)


def _choose_households(
    people: list[dict[str, Any]], margins: list[Margin], seed: int, gather: Any
) -> Households:
    """Choose one of several drawn households for each home."""
    drawn: list[Households] = []
    for number in range(_DRAWS_PER_HOME):
        copies = [{**person, "profile": dict(person.get("profile", {}))} for person in people]
        drawn.append(gather(copies, hash_of_text(f"{seed}.{number}") if number else seed))
    target = np.array([each for m in margins for each in (*m.counts(len(people)), 0)])
    counts = np.stack([category_counts(each, margins) for each in drawn], axis=1)
    ids = id_words(home[0][0]["id"] for home in drawn[0])
    weights = (_fitted_weights(counts, target) * _WEIGHT_SCALE).astype(np.int64)
    sums = weights.cumsum(axis=1) + np.arange(1, 1 + _DRAWS_PER_HOME)
    choices = improved_choices(counts, target, choices_by(sums, seed, ids, 0, "people.margin"))
    totals = counts[np.arange(len(choices)), choices].sum(axis=0)
    check_met(margins, target, totals, len(people))
    persons = {person["id"]: person for person in people}
    homes: Households = []
    for home_number, choice in enumerate(choices.tolist()):
        homes.append([])
        for chosen, role in drawn[choice][home_number]:
            person = persons[chosen["id"]]
            person["profile"] = chosen["profile"]
            homes[-1].append((person, role))
    return homes


def category_counts(homes: Households, margins: Sequence[Margin]) -> Array:
    """Return how many persons of each household are in each category, and in none of a margin."""
    counts = np.zeros((len(homes), sum(len(each.values) + 1 for each in margins)), np.int64)
    first = 0
    for margin in margins:
        parts = margin_attributes(margin.name)
        cells = [each if isinstance(each, tuple) else (str(each),) for each in margin.values]
        for at, home in enumerate(homes):
            for person, _ in home:
                values = [person["profile"].get(part) for part in parts]
                cell = next((n for n, v in enumerate(cells) if _is_in_cell(values, v)), -1)
                counts[at, first + cell % (len(margin.values) + 1)] += 1
        first += len(margin.values) + 1
    return counts


def _is_in_cell(values: list[Any], cell: tuple[Any, ...]) -> bool:
    return all(
        str(each) == category if isinstance(category, str) else category[0] <= each <= category[1]
        for each, category in zip(values, cell, strict=True)
    )


def _fitted_weights(counts: Array, target: Array) -> Array:
    """Return the weights of each home's households, of sum 1, fitted in turn to each category."""
    weights = np.full(counts.shape[:2], 1 / counts.shape[1])
    for _ in range(_MAX_PASSES):
        for category, goal in enumerate(target.tolist()):
            column = counts[:, :, category]
            total = (weights * column).ravel().cumsum()[-1]  # in order: the same on every platform
            if total > 0:
                weights = np.where(column > 0, weights * max(goal / total, 1e-6), weights)
        weights = weights / weights.cumsum(axis=1)[:, -1:]
    return weights


def improved_choices(counts: Array, target: Array, choices: Array) -> Array:
    """Change the chosen household of homes while that brings the counts nearer to the target."""
    totals = counts[np.arange(len(choices)), choices].sum(axis=0)
    for _ in range(_MAX_SWEEPS):
        old_error = abs(totals - target).sum()
        for home in range(len(choices)):
            new_totals = totals - counts[home, choices[home]] + counts[home]
            errors = abs(new_totals - target).sum(axis=1)
            best = int(errors.argmin())
            if errors[best] < errors[choices[home]]:
                choices[home], totals = best, new_totals[best]
        if abs(totals - target).sum() in (0, old_error):
            break
    return choices


def check_met(margins: Sequence[Margin], target: Array, totals: Array, total: int) -> None:
    """Raise ConfigError if a category is off by more than one of `_PERSONS_PER_ERROR` persons."""
    names = [f"{m.name} {_cell_text(v)}" for m in margins for v in (*m.values, "other")]
    errors = abs(totals - target)
    worst = int(errors.argmax())
    if errors[worst] > _tolerance(total):
        raise ConfigError(
            f"the homes have no people of these margins: {names[worst]}: asked for "
            f"{target[worst]}, found {totals[worst]} of {total}"
        )


def _cell_text(cell: object) -> str:
    if not isinstance(cell, tuple):  # of an attribute of one's own
        return str(cell)
    return ", ".join(each if isinstance(each, str) else f"{each[0]}-{each[1]}" for each in cell)
