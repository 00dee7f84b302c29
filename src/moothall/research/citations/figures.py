"""The numbers and dates of a sentence, each found in its passage, derived from it, or missing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Final

from moothall.research.citations.lexicon import ALIKE
from moothall.research.citations.parsed import Sentence, Stored
from moothall.research.citations.quantities import Date, Quantity
from moothall.research.citations.units import Comparison
from moothall.text.terms import listed

_ALREADY: Final = listed("the both these those all between")  # two groups
_FOLLOWS: Final = {(">=", ">"), ("<=", "<"), (">=", "="), ("<=", "=")}
_MOST_FIGURES: Final = 30  # of a sentence
_MOST: Final = 14  # numbers of a passage that are combined
_FAR_PART: Final = 8  # sentences between a number and the part of it that is meant
_APART: Final = 2  # sentences between two that are added, at most
_WEEKS: Final = 0.085  # twelve weeks, three months
_YEAR: Final = 31_557_600  # seconds


@dataclass(slots=True)
class Figure:
    """A number or date of the sentence, and what the passage has of it."""

    kind: str  # number or date
    at: int
    end: int
    dimension: str = ""
    hits: list[tuple[int, int, float]] = field(default_factory=list)  # sentence, word, quality
    quality: float = 0.0
    unit: bool = False  # the same digits with another unit
    against: bool = False  # the same value, compared otherwise
    rest: bool = False  # it is what is left of a number of the passage
    why: str = ""


@dataclass(slots=True)
class Figures:
    """All numbers and dates of a sentence."""

    items: list[Figure]
    quantities: list[Quantity]
    dates: list[Date]

    def has(self, other: Quantity) -> bool:
        """Return whether the sentence has this number of a passage."""
        return any(
            each.dimension == other.dimension and same_value(each, other)
            for each in self.quantities
        )

    def has_date(self, other: Date) -> bool:
        """Return whether the sentence has this date of a passage."""
        return any(each.fits(other) for each in self.dates)


def figures(ours: Sentence, there: Stored) -> Figures:
    """Return the numbers and dates of a sentence, with what the passage has of them."""
    items = [
        _number(each, ours, there)
        for each in ours.quantities[:_MOST_FIGURES]
        if not (
            each.value <= 3
            and not each.dimension
            and each.at
            and ours.small[each.at - 1] in _ALREADY
        )
    ]
    items += [_date(each, ours, there) for each in ours.dates[:_MOST_FIGURES]]
    return Figures(items, ours.quantities, ours.dates)


def _number(said: Quantity, ours: Sentence, there: Stored) -> Figure:
    made = Figure("number", said.at, said.end, said.dimension)
    against, about = 0, _about_the_same(ours, there)
    for number, other in there.quantities:
        alike = same_value(said, other)
        if said.dimension == other.dimension or (alike and _is_cents(said, other)):
            if alike:
                fit = compares(said.comparison, other.comparison)
                if fit:
                    quality = 1.0 if fit > 0.5 else 0.8
                    if said.counted and other.counted and said.counted != other.counted:
                        quality -= 0.1
                    made.hits.append((number, other.at, quality))
                else:
                    against += number in about
                    made.hits.append((number, other.at, 0.2))
            elif other.bare == said.bare and said.bare:
                made.unit = True
        elif alike and "" in (said.dimension, other.dimension):
            made.hits.append((number, other.at, 0.55))
        elif other.bare == said.bare and not (
            (said.dimension in ("times", "share") and other.dimension == "")
            or other.dimension in ("times", "share")
        ):
            made.unit = True
        elif other.bare == said.bare:
            made.hits.append((number, other.at, 0.5))
    if not said.dimension:  # 1998 may be a year in one text, and a count in the other
        for number, date in there.dates:
            if date.year == said.value and not date.month:
                made.hits.append((number, date.at, 0.8))
    made.quality = max((quality for *_, quality in made.hits), default=0.0)
    made.against = against > 0 and made.quality < 0.5
    made.unit = made.unit and made.quality <= 0.55
    text = ours.text[ours.spans[said.at][0] : ours.spans[said.end - 1][1]]
    if made.quality < 0.5 and not made.against:
        places, made.rest = _derived(said, ours, about, there)
        if places:
            made.quality, made.unit = 0.75, False
            made.hits.extend((number, at, 0.75) for number, at in places)
        elif not made.unit:
            made.why = f"says {text}, which is not in the passage"
    elif made.against:
        made.why = f"compares {text} otherwise than the passage"
    elif made.unit:
        made.quality = min(made.quality, 0.3)
        made.why = f"says {text}, where the passage has another unit"
    return made


def _is_cents(said: Quantity, other: Quantity) -> bool:
    """Return whether one is in cents, which may be of the other's currency."""
    names = {said.dimension, other.dimension}
    return names == {"usd", "eur"} and ("cent" in said.said) != ("cent" in other.said)


def _derived(
    said: Quantity, ours: Sentence, about: set[int], there: Stored
) -> tuple[list[tuple[int, int]], bool]:
    """Return the places of the numbers that one follows from, and whether it is what is left.

    It may be a sum, a ratio, a part, a bound or the rest. The nearest are taken: numbers of far
    sentences seldom belong together. One of them stands in a sentence that is about the same.
    """
    far = {n: min((abs(n - each) for each in about), default=0) for n, _ in there.quantities}
    near = sorted(sorted(there.quantities, key=lambda pair: far[pair[0]])[:_MOST])
    same = [(n, q) for n, q in near if q.dimension == said.dimension]
    for n, q in same:
        if (
            said.comparison in (">", ">=", "<", "<=")
            and (q.value > said.value) == (said.comparison[0] == ">")
            and 0.5 < (q.value or 1) / (said.value or 1) < 2
        ):
            return [(n, q.at)], False
        if said.dimension == "share" and n in about and _equals(said, 1 - q.value):
            return [(n, q.at)], True
    if said.dimension in ("share", "times"):
        for (n, one), (m, other) in _nearest(near, about, 1):
            if one.dimension == other.dimension and _is_ratio(said, one.value, other.value):
                low, high = sorted((abs(one.value), abs(other.value)))
                is_rest = said.dimension == "share" and not _equals(said, low / high)
                return [(n, one.at), (m, other.at)], is_rest
    if said.dimension == "times":
        return [], False
    for (n, one), (m, other) in _nearest(same, about, _APART):
        for value in (one.value + other.value, abs(one.value - other.value)):
            if _equals(said, value):
                return [(n, one.at), (m, other.at)], value < max(one.value, other.value)
    for n, q in same if said.digits > 1 or said.value > 9 else ():
        if n in about:
            for m, r in there.quantities:
                if abs(n - m) <= 1 and r != q and r.bare > 1 and _equals(said, q.value / r.bare):
                    return [(n, q.at), (m, r.at)], False
            for r in ours.quantities:
                if r != said and 1 < r.bare < 100 and _equals(said, q.value * r.bare):
                    return [(n, q.at)], False
    parts = [(n, q) for n, q in near if q.dimension == "share"]
    whole = [pair for pair in there.quantities if pair[1].dimension == said.dimension]
    if said.digits > 1 and said.dimension != "share":
        for (n, q), (m, share) in product(whole, parts):
            is_near = n != m and abs(n - m) <= _FAR_PART and not about.isdisjoint((n, m))
            if is_near and _equals(said, q.value * share.value):
                return [(n, q.at), (m, share.at)], False
    for part in (same, *([pair for pair in same if pair[0] == n] for n in {n for n, _ in same})):
        if len(part) > 2 and _equals(said, sum(q.value for _, q in part)):
            return [(n, q.at) for n, q in part], False
    if said.dimension == "time" and said.value > 3e7:
        for (n, before), (m, after) in combinations(there.dates[:_MOST], 2):
            years = abs(after.year - before.year) if before.year and after.year else 0
            if years and abs(years * _YEAR - said.value) < 0.6 * _YEAR:
                return [(n, before.at), (m, after.at)], False
    return [], False


def _about_the_same(ours: Sentence, there: Stored) -> set[int]:
    """Return the sentences of a passage that have half as many of our words as the best."""
    terms = {term for word in ours.about for term in word.terms}
    shared = {
        (n, term)
        for term in terms
        for places in (
            there.where.get(term, ()), *(there.groups.get(g, ()) for g in ALIKE.get(term, ()))
        )
        for n, _ in places
    }  # fmt: skip
    of = Counter(n for n, _ in shared)
    least = max(of.values(), default=0) / 2
    return {n for n, count in of.items() if count >= least}


def _nearest(
    found: list[tuple[int, Quantity]], about: set[int], apart: int
) -> list[tuple[tuple[int, Quantity], tuple[int, Quantity]]]:
    """Return pairs of numbers, those of one sentence first, at most so many sentences apart."""
    pairs = [
        pair
        for pair in combinations(found, 2)
        if abs(pair[0][0] - pair[1][0]) <= apart and not about.isdisjoint((pair[0][0], pair[1][0]))
    ]
    return sorted(pairs, key=lambda pair: abs(pair[0][0] - pair[1][0]))


def _equals(said: Quantity, value: float) -> bool:
    made = said._replace(value=value, other=None, comparison="=")
    return value > 0 and same_value(said, made)


def _is_ratio(said: Quantity, one: float, other: float) -> bool:
    """Return whether a share or a multiple is that of two numbers, or of their difference."""
    low, high = sorted((abs(one), abs(other)))
    if not low:
        return False
    if said.dimension == "times":
        ratio = high / low
        return abs(ratio - said.value) < 0.08 * said.value or abs(ratio * said.value - 1) < 0.08
    return any(_equals(said, value) for value in (low / high, (high - low) / low, 1 - low / high))


_BEFORE: Final = re.compile(r"(?:\bby|\bbefore|\buntil|\b(?:no|not) later than)\s+(?:the )?$", re.I)
_AFTER: Final = re.compile(
    r"(?:\bafter|\bsince|\bnot (?:before|until)|\b(?:no|not) (?:earlier|sooner) than)\s+(?:the )?$",
    re.I,
)


def _bound(each: Date, of: Sentence) -> int:
    """Return 1 for a date after which something is, -1 for one before, else 0."""
    before = of.text[max(0, of.spans[each.at][0] - 30) : of.spans[each.at][0]]
    return 1 if _AFTER.search(before) else -1 if _BEFORE.search(before) else 0


def _date(said: Date, ours: Sentence, there: Stored) -> Figure:
    made = Figure("date", said.at, said.end)
    bounds = {
        _bound(o, there.sentences[n])
        for n, o in there.dates
        if said.fits(o) and bool(said.month) == bool(o.month)
    }
    made.against = bool(bounds) and bounds == {-_bound(said, ours)} != {0}
    for number, other in there.dates:
        if said.fits(other):
            parts = [(a, b) for a, b in zip(said[:3], other[:3], strict=True) if a]
            known = sum(bool(b) for _, b in parts) / len(parts)
            if known == 1:
                made.hits.append((number, other.at, 1.0))
            elif other.month or known > 0.4:
                rest = [o for _, o in there.dates if o.year == said.year]
                made.hits.append((number, other.at, 0.85 if rest or not said.year else 0.5))
    if not said.month:
        for number, q in there.quantities:
            if q.value == said.year:
                made.hits.append((number, q.at, 0.8))
        made.hits.extend((n, at, 0.75) for n, at in _years_on(said, there) if not made.hits)
    made.quality = max((quality for *_, quality in made.hits), default=0.0)
    if made.quality < 0.4:
        made.why = f"says {said.said}, a date that is not in the passage"
    elif made.against:
        made.why = f"says otherwise than the passage what is before and after {said.said}"
    return made


def _years_on(said: Date, there: Stored) -> list[tuple[int, int]]:
    """Return the places of a date and of the years between it and another one."""
    for (n, date), (m, q) in product(there.dates[:_MOST], there.quantities[:_MOST]):
        years = q.value / _YEAR
        if (
            date.year and q.dimension == "time" and abs(n - m) <= 1
            and years > 0.99 and abs(abs(said.year - date.year) - years) < 0.01
        ):  # fmt: skip
            return [(n, date.at), (m, q.at)]
    return []


def same_value(said: Quantity, there: Quantity) -> bool:
    """Return whether two values are equal, at the precision with which the first was said."""
    pairs = [(said.value, there.value)]
    if said.other is not None:
        pairs.append((said.other, there.value))
    if there.other is not None:
        pairs.append((said.value, there.other))
    loose = 0.06 if "~" in (said.comparison, there.comparison) else 0.0
    if said.dimension == "share":
        loose = max(loose, 0.012 if {said.digits, there.digits} == {2} else 0.0)
    if any("week" in a.said and "month" in b.said for a, b in ((said, there), (there, said))):
        loose = max(loose, _WEEKS)
    return any(_close(ours, theirs, said, loose) for ours, theirs in pairs)


def _close(ours: float, theirs: float, said: Quantity, loose: float) -> bool:
    if ours == theirs:
        return True
    most = max(abs(ours), abs(theirs))
    if abs(ours - theirs) <= max(loose, 1e-6) * most:
        return True
    if (
        said.dimension == "share"
        and abs(ours - theirs) <= 0.0051
        and said.digits <= 2
        and ("in" in said.said or not said.said[0].isdigit() or abs(theirs * 100 % 1) > 1e-6)
    ):
        return True  # a third for 33 %
    if said.dimension == "time" and abs(ours - theirs) <= 0.002 * most:
        return True  # 12 months, a year
    # Rounded as it was said: 3.4 billion for 3.42 billion.
    return said.digits > 1 and float(f"{theirs:.{said.digits - 1}e}") == float(f"{ours:.6g}")


def compares(said: Comparison, there: Comparison) -> float:
    """Return how one comparison follows from another about one value: 1, 0, or 0.5 for nearly."""
    if said in ("~", there) or there == "~" or (said, there) in _FOLLOWS:
        return 1.0
    if said == "=" or (said[0] == there[0] and there != "="):
        return 0.5  # `40` for `at least 40`, `more than 40` for `at least 40`
    return 0.0
