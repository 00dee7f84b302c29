"""Who, what and when: whether names, numbers and dates stand by what the sentence says of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from moothall.research.citations.figures import Figures
from moothall.research.citations.matching import Unit, near, text_of
from moothall.research.citations.parsed import Name, Place, Sentence, Stored

_MOST_ITEMS: Final = 12
_MOST_MENTIONS: Final = 40
_MOST_SPOTS: Final = 6  # of one word in a sentence
_BESIDE: Final = 6  # words from an item
_STOLEN: Final = 0.3
_JOINED: Final = 4  # words that a comma or an `and` counts for


def _gaps(
    ours: Sentence,
    there: Stored,
    units: list[Unit],
    items: Sequence[tuple[int, int, list[Place], list[tuple[int, int, int, bool]]]],
) -> tuple[float, tuple[int, int] | None]:
    """Return how much nearer the right mention is than a strange one, and the item that is not.

    An item is its place, the places of its own mentions, and all mentions of its kind: sentence,
    begin, end, and whether the sentence itself has it elsewhere.
    """
    strange = 1.0
    worst: tuple[int, int] | None = None
    for at, end, mine, mentions in items[:_MOST_ITEMS]:
        if not mine:
            continue
        right = wrong = -1.0  # none was found
        for number, begin, stop, is_own in mentions[:_MOST_MENTIONS]:
            fit = near(ours, units, at, end, there.sentences[number], number, begin, stop)
            if any(n == number and begin <= p < stop for n, p in mine):
                right = max(right, fit)
            elif not is_own:
                wrong = max(wrong, fit)
        if min(right, wrong) >= 0 and right - wrong < strange:
            strange, worst = right - wrong, (at, end)
    return strange, worst


def numbers_bound(
    ours: Sentence, there: Stored, units: list[Unit], inside: range, numbers: Figures
) -> tuple[list[float], list[str]]:
    """Whether numbers and dates are there, and of what they are said."""
    found = [each for each in numbers.items if each.kind == "number"]
    dates = [each for each in numbers.items if each.kind == "date"]
    all_numbers = [
        (
            each,
            [
                (n, q.at, q.end, numbers.has(q))
                for n, q in there.quantities
                if q.dimension == each.dimension
            ],
        )
        for each in found
    ]
    all_dates = [(n, d.at, d.end, numbers.has_date(d)) for n, d in there.dates]
    strange, worst = _gaps(
        ours, there, units,
        [(i.at, i.end, [(n, p) for n, p, _ in i.hits], marks) for i, marks in all_numbers],
    )  # fmt: skip
    when, worst_date = _gaps(
        ours, there, units,
        [(i.at, i.end, [(n, p) for n, p, _ in i.hits], all_dates) for i in dates],
    )  # fmt: skip
    stolen, word = _stolen(
        ours, there, units, inside,
        [
            *((i.at, i.end, [(n, p) for n, p, _ in i.hits], marks) for i, marks in all_numbers),
            *((i.at, i.end, [(n, p) for n, p, _ in i.hits], all_dates) for i in dates),
        ],
    )  # fmt: skip
    exchanged = 0.0
    for part in (found, dates):
        count, beside = crossed(
            ours, units, there, inside,
            [(i.at, i.end, [(n, p) for n, p, q in i.hits if q >= 0.5]) for i in part],
        )  # fmt: skip
        if count > exchanged:
            exchanged, stolen, word = count, max(stolen, _STOLEN + 0.01), beside
    values = [
        sum(i.quality < 0.4 and not i.unit for i in found),
        sum(i.unit for i in found),
        sum(i.against for i in numbers.items),
        sum(i.quality < 0.4 for i in dates),
        strange,
        when,
    ]
    whys = [i.why for i in numbers.items if i.why]
    if worst and strange < 0:
        whys.append(f"the passage says another number of this than {text_of(ours, *worst)}")
    if worst_date and when < 0:
        whys.append(f"the passage gives another date of this than {text_of(ours, *worst_date)}")
    if stolen > _STOLEN:
        whys.append(f"says a number or date of {word} that the passage says of something else")
    return [*values, stolen, exchanged], whys


def _stolen(
    ours: Sentence,
    there: Stored,
    units: list[Unit],
    inside: range,
    items: Sequence[tuple[int, int, Sequence[Place], list[tuple[int, int, int, bool]]]],
) -> tuple[float, str]:
    """Return how much nearer a word beside an item stands to a strange mention of the window.

    In "6.6 with placebo", "placebo" may belong to another number of the passage.
    """
    worst, why = 0.0, ""
    for at, end, mine, mentions in items[:_MOST_ITEMS]:
        if not mine:
            continue
        for unit in units:
            gap = at - unit.at if unit.at < at else unit.at - end + 1
            if unit.kind == "number" or not 0 < gap <= _BESIDE or unit.word.weight < 0.5:
                continue
            if ours.clauses[unit.at] != ours.clauses[at]:
                continue
            right = wrong = 0.0
            for number, begin, stop, is_own in mentions[:_MOST_MENTIONS]:
                is_mine = any(n == number and begin <= p < stop for n, p in mine)
                if not is_mine and (is_own or number not in inside):
                    continue
                each = there.sentences[number]
                for place, quality in unit.hits.get(number, ())[:_MOST_SPOTS]:
                    if begin <= place < stop or quality < 0.7:
                        continue
                    fit = quality / (1 + 0.25 * _steps(each, place, begin, stop))
                    right, wrong = (max(right, fit), wrong) if is_mine else (right, max(wrong, fit))
            nearness = 1 / (1 + 0.1 * (gap - 1))
            stolen = (wrong - right) * nearness * min(unit.weight, 1.3)
            if wrong and stolen > worst:
                worst, why = stolen, ours.text[slice(*ours.spans[unit.at])]
    return worst, why


def crossed(
    ours: Sentence, units: list[Unit], there: Stored, inside: range,
    items: Sequence[tuple[int, int, Sequence[Place]]],
) -> tuple[float, str]:  # fmt: skip
    """Return how many words stand by the one of two items here, and by the other one there."""
    worst, why = 0, ""
    words = [u for u in units if u.kind not in ("number", "date") and u.word.weight > 0.5]
    for one, other in combinations(items[:_MOST_ITEMS], 2):
        turned, first = 0, ""
        for unit in words:
            if any(item[0] <= unit.at < item[1] for item in (one, other)):
                continue
            here = [_steps(ours, unit.at, *item[:2]) for item in (one, other)]
            if abs(here[0] - here[1]) < 2 or min(here) > _BESIDE:
                continue
            sides = 0
            for number in inside:
                each = there.sentences[number]
                spots = [at for at, quality in unit.hits.get(number, ()) if quality >= 0.75]
                mine = [[p for n, p in item[2] if n == number] for item in (one, other)]
                if not spots or not all(mine) or set(mine[0]) & set(mine[1]):
                    continue
                a, b = (min(_between(each, at, p) for at in spots for p in m) for m in mine)
                if abs(a - b) >= 2:
                    sides += 1 if (a < b) == (here[0] < here[1]) else -1
            turned += (sides < 0) - (sides > 0)
            if sides < 0:
                first = first or ours.text[slice(*ours.spans[unit.at])]
        if turned > worst:
            worst, why = turned, first
    return float(worst), why


def _between(each: Sentence, place: int, item: int) -> int:
    return 0 if place == item else _steps(each, place, item, item + 1)


def _steps(each: Sentence, place: int, begin: int, stop: int) -> int:
    """Return how many words lie between a word and a mention; a comma or an `and` counts more."""
    low, high = (place + 1, begin) if place < begin else (stop, place)
    between = each.text[each.spans[low - 1][1] : each.spans[high][0]]
    joins = between.count(",") + between.count(";") + between.count(" and ")
    return high - low + _JOINED * joins


def _named(ours: Sentence, there: Stored) -> list[Name]:
    return [n for n in ours.names if n.sure or not there.capitals.isdisjoint(n.words)]


def names_bound(
    ours: Sentence, there: Stored, units: list[Unit], inside: range
) -> tuple[list[float], list[str]]:
    """Whether what is said of a name is said of it in the passage, or of another."""
    items = []
    named = _named(ours, there)
    for name in named:
        mine = [(n, o.at) for n, o in there.names if name.same(o)]
        marks = [
            (n, o.at, o.end, any(o.same(one) for one in named))
            for n, o in there.names
            if name.same(o) or name.words.isdisjoint(o.words)
        ]
        also = [(n, at) for n, at, o in there.meant if name.same(o)]
        mine += also
        marks += [(n, at, at + 1, True) for n, at in also]
        items.append((name.at, name.end, mine, marks))
    strange, worst = _gaps(ours, there, units, items)
    whys = []
    if worst and strange < 0:
        whys.append(f"the passage says this of another than {text_of(ours, *worst)}")
    return [strange], whys
