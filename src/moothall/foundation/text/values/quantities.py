"""The quantities in a text: numbers with their units, as exact values of a dimension."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from operator import ge, gt, le, lt
from typing import Final, NamedTuple

from moothall.foundation.text.values.dates import TIME, dates_in
from moothall.foundation.text.values.languages import any_of, numbered, table_of, words_of
from moothall.foundation.text.values.numbers import CURRENCIES, Number, numbers_in

_TABLE: Final[dict[str, dict[str, str]]] = json.loads(
    files("moothall.foundation.text.values").joinpath("units.json").read_text(encoding="utf-8")
)
_UNITS: Final = {
    name.replace("_", " "): (dimension, Fraction(factor))
    for dimension, sizes in _TABLE.items()
    for factor, names in sizes.items()
    for name in names.split()
}
_NAME: Final = r"[^\W\d_]+[²³23]?(?:/[^\W\d_]+)?"
_UNIT: Final = re.compile(rf"[ -]?(°? ?{_NAME}(?:[ -]{_NAME}){{0,2}})")
_RANGE_WORD: Final = re.compile(r" ?(?:-|–|—|to|and|or|bis|und|oder|à|et|ou|y|a) ?[$€£¥₹]?")
_ORDINAL: Final = frozenset(("st", "nd", "rd", "th"))
_TENS: Final = numbered("tens", 20, 10)
_ORDINALS: Final = numbered("ordinals", 1)
_ORDINAL_NUMBER: Final = re.compile(
    rf"(?<![\w.,])(?P<figures>\d+)(?:st|nd|rd|th)(?!\w)"
    rf"|(?<!\w)(?:(?P<tens>{any_of(_TENS)})[ -])?(?P<word>{any_of(_ORDINALS)})(?!\w)"
)
_RANGE_START: Final = re.compile(r"(?<![\w-])(\d+(?:[.,]\d+)*)-(?=\d+(?:[.,]\d+)*(?![\w-]))")
_MIN_DIGITS: Final = 2
_COMPARISON_CHARS: Final = 30  # characters in which a comparison stands
_COMPARISONS: Final[dict[str, str]] = table_of("comparisons")
_COMPARISON: Final = re.compile(rf"(?<!\w)({any_of(_COMPARISONS)}) $")
_WORD_BEFORE: Final = re.compile(r"([^\W\d_]+) $")
_WORD_AFTER: Final = re.compile(r" ([^\W\d_]+)")
_RELATIONS: Final = {">": gt, ">=": ge, "<": lt, "<=": le}
_AND: Final = re.compile(r",? (?:(?:and|und|et|y) )?")  # between the parts of 1 h 30 min
_UNIT_ALONE: Final = re.compile(rf"(?<!\w)(?:{any_of(words_of('articles'))}) ({_NAME})")
_NONE_WORDS: Final = any_of(words_of("none"))
_PART_SIZES: Final[dict[str, int]] = table_of("parts")
# `2 thirds`, `2/3`, `one in 4`, `a third of`; of a year, three quarters are months.
_SHARE: Final = re.compile(
    r"(?<![\w./-])(?P<count>\d{1,2}) ?/ ?(?P<size>\d{1,2})(?![\w/.,]\S)"
    r"|(?<![\w./-])(?P<one>one|1) (?:in|out of) (?P<among>\d{1,3})(?! ?[%:]|[\w/.,-]\S)"
    rf"|(?<!\w)(?:(?P<many>\d) )?(?P<part>{any_of(_PART_SIZES)})(?!\w)"
    r"(?P<of> (?:of|the|der|des|aller)\b)?"
)
_ANY_OF: Final = {
    "kr": frozenset(("sek", "nok", "dkk", "czk")),
    "cent": frozenset(("usd", "eur", "cad", "aud", "nzd", "hkd", "sgd", "zar")),
}
"""What several currencies call theirs."""
_BINARY_SIZES: Final = {Fraction(1000) ** n: Fraction(1024) ** n for n in range(1, 5)}


class Quantity(NamedTuple):
    """A number with its unit; without one its dimension is empty.

    `values` are its readings in the base unit, exactly; `plain` those of the number alone.
    """

    text: str
    dimension: str
    values: tuple[Fraction, ...]
    plain: tuple[Fraction, ...]
    unit: Fraction
    place: int  # the power of ten of the last digit of the first reading that is no zero
    digits: int  # of the first reading, without zeros at the end; 0 if it may be a year
    relation: str = ""  # `>` after “more than”, `≈` after “about”, `~` of “a third of”
    words_around: tuple[str, str] = ("", "")  # of a plain number: what it may name

    def is_in(self, quantities: Iterable[Quantity]) -> bool:
        """Return whether one of other quantities is equal to this one, or is rounded by it."""
        return any(map(self._is, quantities))

    def continues(self, before: Quantity) -> bool:
        """Return whether it is less than one unit of the quantity before it: 30 min of 1 h."""
        is_same = self.dimension not in ("", "percent") and self.dimension == before.dimension
        return is_same and self.unit < before.unit and self.values[0] < before.unit

    def is_none_in(self, text: str) -> bool:
        """Return whether it is 0, and a folded text says so in words: no seats."""
        noun = (self.text.split()[1:] or [self.words_around[1]])[0].removesuffix("s")
        none = rf"(?<!\w){_NONE_WORDS} (?:\w+ )?{re.escape(noun)}"
        return bool(noun) and not any(self.plain) and bool(re.search(none, text))

    def is_change_in(self, quantities: Iterable[Quantity]) -> bool:
        """Return whether of two neighbours one is more or less by this percentage: 100 and 117."""
        counts = [each for each in quantities if each.digits and each.values[0]]  # no years
        pairs = [*pairwise(counts), *pairwise(counts[::-1])]
        return self.dimension == "percent" and any(
            first.dimension == other.dimension
            and abs(abs(100 * other.values[0] / first.values[0] - 100) - self.values[0])
            <= Fraction(10) ** min(self.place, 0) / 2
            for first, other in pairs
        )

    def _is(self, other: Quantity) -> bool:
        compare = None if other.relation in _RELATIONS else _RELATIONS.get(self.relation)
        if compare and self.dimension == other.dimension:
            fitting = (each for each in other.values if _is_near(each, self.values[0]))
            if any(compare(each, self.values[0]) for each in fitting):
                return True
        if sorted((self.dimension, other.dimension)) == ["", "percent"] and (
            self._shares and other._shares
        ):
            size = Fraction(1 if self.dimension else 100)
            if self._equals(self._shares, other._shares, size):
                return True
        if "ordinal" in (self.dimension, other.dimension):  # chapter 3 is the third
            return {self.dimension, other.dimension} <= {
                "",
                "ordinal",
            } and self.plain == other.plain
        if (self.dimension and other.dimension) or self.dimension == "percent":
            pair = (self.dimension, other.dimension)
            is_same = pair[0] == pair[1] or any(
                theirs in _ANY_OF.get(ours, ()) for ours, theirs in (pair, pair[::-1])
            )
            # 62 mph is 100 km/h; 1 hour is 60 minutes, and not 80.
            is_converted = {
                (self.unit / other.unit).denominator,
                (other.unit / self.unit).denominator,
            }
            least = other.unit * Fraction(10) ** min(other.place, 0) / 2 * (1 not in is_converted)
            return is_same and self._equals(
                self.values, other.values, 0 if compare else self.unit, 0 if compare else least
            )
        (before, after), (other_before, other_after) = self.words_around, other.words_around
        # As port 8080 and port 8081; but “housed 150 people” rounds “housed 148 people”.
        is_name = before and before == other_before and not (after and after == other_after)
        return self._equals(self.plain, other.plain, Fraction(0 if compare or is_name else 1))

    @property
    def _shares(self) -> tuple[Fraction, ...]:
        """Its readings in percent; none unless it is a part of one."""
        is_percent = self.dimension == "percent"
        return (
            self.values if is_percent else tuple(100 * each for each in self.plain if 0 < each < 1)
        )

    def _equals(
        self,
        own_values: tuple[Fraction, ...],
        other_values: tuple[Fraction, ...],
        unit: Fraction | int,
        least: Fraction | int = 0,
    ) -> bool:
        may_round = self.digits >= _MIN_DIGITS or self.relation == "≈"
        rounding = unit * Fraction(10) ** self.place / 2 if may_round else 0
        return any(each in other_values for each in own_values) or any(
            abs(own_values[0] - each) <= max(rounding, least) for each in other_values
        )


def _is_near(first: Fraction, other: Fraction) -> bool:
    """Return whether neither is more than twice the other: “more than 4,000” says 4,050, not 9."""
    return first * other > 0 and Fraction(1, 2) <= first / other <= 2


@lru_cache(maxsize=512)
def quantities_in(text: str) -> list[Quantity]:
    """Return the quantities in a folded text whose number words are spelled out.

    Of a range, such as 5 to 7 km, each number has the unit that stands after the last. Days,
    times of day and ordinals are none; nor is a number whose letters are no unit, such as 3rc1.
    """
    text = _RANGE_START.sub(r"\1–", text)
    dates = [span for span, _ in dates_in(text)]
    dates += [each.span() for each in TIME.finditer(text)]
    parts = [each for each in _SHARE.finditer(text) if _is_part(each)]
    dates += [each.span() for each in parts]
    numbers = [
        each
        for each in numbers_in(text)
        if each.readings
        and all(map(Decimal.is_finite, each.readings))
        and each.letters not in _ORDINAL
        and not any(start <= each.digits_start < end for start, end in dates)
    ]
    units = [_unit_of(each, text) for each in numbers]
    for index, (first, second) in reversed([*enumerate(pairwise(numbers))]):
        own_unit, next_unit = units[index], units[index + 1]
        if (
            own_unit
            and next_unit
            and not own_unit[0]
            and _RANGE_WORD.fullmatch(text, first.end, second.start)
        ):
            units[index] = (*next_unit[:2], first.end)
    results: list[Quantity] = []
    end = 0
    for number, unit in zip(numbers, units, strict=True):
        if unit is None:
            continue
        quantity = _quantity(number, unit, text)
        if results and _AND.fullmatch(text, end, number.start) and quantity.continues(results[-1]):
            # 1 h 30 min: the parts lack nowhere, and stand there.
            larger = results.pop()
            parts_of_sum = (larger._replace(relation="~"), quantity._replace(relation="~"))
            value = (larger.values[0] + quantity.values[0],)
            text_of_sum = f"{larger.text} {quantity.text}"
            total = quantity._replace(text=text_of_sum, values=value, plain=value, digits=0)
            results += [*parts_of_sum, total]
        else:
            results.append(quantity)
        end = unit[2]
    return results + [_percentage_of(each) for each in parts]


def single_units_in(text: str) -> list[Quantity]:
    """Return what a folded text has one of, without a figure: an hour, one mile."""
    units = ((match[0], _unit_named(match[1])) for match in _UNIT_ALONE.finditer(text))
    unity = (Fraction(1),)
    return [
        Quantity(words, unit[0], (unit[1],), unity, unit[1], 0, 1) for words, unit in units if unit
    ]


def ordinals_in(text: str, *, in_words: bool) -> list[Quantity]:
    """Return the ordinals of a folded text: in words, or in figures as `3rd`.

    Days are none, nor are parts of time: years may say which century.
    """
    dates = [span for span, _ in dates_in(text)]
    ordinals = []
    for each in _ORDINAL_NUMBER.finditer(text):
        after = _WORD_AFTER.match(text, each.end())
        is_of_time = (after and is_unit(after[1])) or any(a <= each.start() < b for a, b in dates)
        if in_words == bool(each["word"]) and not is_of_time:
            number = each["figures"] or _TENS.get(each["tens"], 0) + _ORDINALS[each["word"]]
            place = (Fraction(number),)
            ordinals.append(Quantity(each[0], "ordinal", place, place, Fraction(1), 0, 0))
    return ordinals


def _is_part(share: re.Match[str]) -> bool:
    """Return whether words or figures say a part of one, not months of a year or a date."""
    is_share = (
        share["size"]
        or share["one"]
        or share["of"]
        or (share["many"] and _size_of(share) != _PART_SIZES["quarter"])
    )
    return bool(is_share) and int(share["count"] or share["many"] or 1) < _size_of(share)


def _size_of(part: re.Match[str]) -> int:
    """Return into how many parts one is cut: 3 of `2 thirds`."""
    return int(part["size"] or part["among"] or _PART_SIZES[part["part"]])


def _percentage_of(share: re.Match[str]) -> Quantity:
    """Return a part of one as a percentage, which may be rounded to a whole one."""
    plain = Fraction(int(share["count"] or share["many"] or 1), _size_of(share))
    relation = "" if share["count"] or share["many"] else "~"
    values = (100 * plain,)
    return Quantity(share[0], "percent", values, (plain,), Fraction(1), 0, 2, relation)


def _unit_of(number: Number, text: str) -> tuple[str, Fraction, int] | None:
    """Return the dimension and size of a number's unit, and where it ends; None for 3rc1."""
    end = number.end
    if number.percent:
        return "percent", Fraction(1), end
    if number.currency:
        return number.currency, Fraction(1), end
    start = end - len(number.letters)
    if (match := _UNIT.match(text, start)) is not None:
        parts = re.split(r"[ -]", match[1].strip())
        for count in range(len(parts), 0, -1):
            name = " ".join(parts[:count])
            if (unit := _unit_named(name)) is not None:
                return *unit, match.start(1) + len(name)
    return None if number.letters else ("", Fraction(1), end)


def _unit_named(name: str) -> tuple[str, Fraction] | None:
    unit = _UNITS.get(name) or (_UNITS.get(name[:-1]) if name.endswith("s") else None)
    return unit or _UNITS.get(name.replace("metres", "metre").replace("meters", "meter"))


def is_unit(word: str) -> bool:
    """Return whether a lower-case word may stand after a number as its unit or currency."""
    return word in CURRENCIES or _unit_named(word) is not None


def _quantity(number: Number, unit: tuple[str, Fraction, int], text: str) -> Quantity:
    dimension, size, end = unit
    excerpt = text[number.start : max(end, number.end)].strip()
    plain = tuple(map(Fraction, number.readings))
    values = tuple(each * size for each in plain)
    if dimension == "fahrenheit":
        dimension, size = "celsius", Fraction(5, 9)
        values = tuple((each - 32) * size for each in plain)
    last = number.readings[0].normalize().as_tuple()
    may_be_year = not dimension and re.fullmatch(r"[12]\d{3}", number.digits)
    digits = 0 if may_be_year else len(last.digits)
    if dimension == "data" and size in _BINARY_SIZES:  # 4 GB may be 4,096 MB
        values += tuple(each * _BINARY_SIZES[size] for each in plain)
    comparison = _COMPARISON.search(text, max(0, number.start - _COMPARISON_CHARS), number.start)
    relation = _COMPARISONS[comparison[1]] if comparison else ""
    may_name = not dimension and re.fullmatch(r"0|\d{2,6}", number.digits)
    words_around = _words_around(number, text) if may_name else ("", "")
    place = int(last.exponent)
    return Quantity(excerpt, dimension, values, plain, size, place, digits, relation, words_around)


def _words_around(number: Number, text: str) -> tuple[str, str]:
    before = _WORD_BEFORE.search(text, max(0, number.start - _COMPARISON_CHARS), number.start)
    after = _WORD_AFTER.match(text, number.end)
    return before[1] if before else "", after[1] if after else ""
