"""Numbers with their units, currencies, signs and comparisons, and dates, as values to compare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from moothall.provenance.values import CURRENCY_SIGNS, MONTHS_BY_NAME
from moothall.research.citations.claims import LOOSE, SCALES, readings_of, spelled
from moothall.research.citations.units import (
    BY_FIRST,
    BY_LAST,
    FRACTIONS,
    LOOSE_MONTHS,
    NUMBER_WORDS,
    TIMES,
    Comparison,
    unit_of,
)
from moothall.text.terms import listed


class Quantity(NamedTuple):
    """A number as a value of a dimension; a count's dimension is empty."""

    value: float
    dimension: str
    comparison: Comparison
    at: int  # the token where it begins
    end: int  # the token after it
    digits: int  # significant digits, as it was said
    said: str
    bare: float = 0.0  # the number without its scale and unit
    counted: str = ""  # the stem of the noun that is counted
    other: float | None = None  # a second reading: 1.000 is a thousand or one


class Date(NamedTuple):
    """A day, month or year; what was not said is 0."""

    year: int
    month: int
    day: int
    at: int
    end: int
    said: str

    def fits(self, other: Date) -> bool:
        """Return whether two dates can be the same: no part that both have differs."""
        pairs = zip(self[:3], other[:3], strict=True)
        return all(not ours or not theirs or ours == theirs for ours, theirs in pairs)


_ARTICLES: Final = frozenset(("a", "an"))
_FRACTIONAL: Final = frozenset((*FRACTIONS, "and"))
_NUMBER: Final = re.compile(r"([-+]?)(\d[\d.,_' ]*)([^\W\d_]*)(%?)$")
_ORDINAL: Final = listed("st nd rd th")
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})$")
_MARKS: Final[dict[str, Comparison]] = {"≥": ">=", "≤": "<=", ">": ">", "<": "<"}
_NOT: Final = listed("not never cannot no none nobody neither")
_DENIED: Final[dict[str, Comparison]] = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}
_MORE_SCALES: Final = {
    "m": 1e6, "mn": 1e6, "mio": 1e6, "bn": 1e9, "b": 1e9, "mrd": 1e9, "tn": 1e12, "k": 1e3,
}  # fmt: skip


def found(
    text: str, small: Sequence[str], spans: Sequence[tuple[int, int]], stems: Sequence[str]
) -> tuple[list[Quantity], list[Date]]:
    """Return the quantities and dates of a text, given its words, their places and their stems."""
    quantities: list[Quantity] = []
    dates: list[Date] = []
    at, size = 0, len(small)
    while at < size:
        word = small[at]
        if not (word[0].isdigit() or word[0] in "-+" or word in NUMBER_WORDS):
            at += 1
            continue
        if word in _ARTICLES and not _FRACTIONAL.intersection(small[at + 1 : at + 4]):
            at += 1
            continue
        if date := _date(small, at, text, spans):
            dates.append(date)
            at = date.end
            continue
        made = _fraction(small, at) or _counted(text, small, spans, stems, at)
        if made is None:
            at += 1
            continue
        quantities.append(made)
        at = made.end
    return quantities, dates


def _date(
    small: Sequence[str], at: int, text: str, spans: Sequence[tuple[int, int]]
) -> Date | None:
    word = small[at]
    if word in MONTHS_BY_NAME:
        start = spans[at][0]
        if word in LOOSE_MONTHS and not text[start].isupper():
            return None
        day, end = _day(small, at + 1)
        year, end = _year(small, end)
        if not day and not year and word in LOOSE_MONTHS:
            return None
        return Date(year, MONTHS_BY_NAME[word], day, at, end, " ".join(small[at:end]))
    if not word[0].isdigit():
        return None
    if iso := _ISO.match(word):
        return Date(int(iso[1]), int(iso[2]), int(iso[3]), at, at + 1, word)
    day, end = _day(small, at)
    if day:
        end += small[end : end + 1] == ["of"]
        if end < len(small) and small[end] in MONTHS_BY_NAME:
            month = MONTHS_BY_NAME[small[end]]
            year, end = _year(small, end + 1)
            return Date(year, month, day, at, end, " ".join(small[at:end]))
    before = text[max(0, spans[at][0] - 1) : spans[at][0]]
    after = text[spans[at][1] : spans[at][1] + 2]
    if (
        before in CURRENCY_SIGNS
        or after.strip()[:1] in ("%", "°")
        or (at + 1 < len(small) and (unit_of(small[at + 1]) or small[at + 1] in SCALES))
    ):
        return None
    year, end = _year(small, at)
    if year and at and small[at - 1] in ("than", "least", "most", "exactly", "about", "nearly"):
        return None
    if year and after[:1] in ("–", "-") and end < len(small):
        end += small[end] in (f"{(year + 1) % 100:02}", str(year + 1))  # 2018–19
    return Date(year, 0, 0, at, end, word) if year else None


def _day(small: Sequence[str], at: int) -> tuple[int, int]:
    if at < len(small):
        digits = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th|\.)?", small[at])
        if digits and 0 < int(digits[1]) < 32:
            return int(digits[1]), at + 1
    return 0, at


def _year(small: Sequence[str], at: int) -> tuple[int, int]:
    if at < len(small) and re.fullmatch(r"1[0-9]\d\d|20\d\d", small[at]):
        return int(small[at]), at + 1
    return 0, at


def _one_of_many(word: str, following: Sequence[str]) -> tuple[float, int] | None:
    """Return the share of `three in five`, `out of five` or `of every five`, and its words."""
    if following[0] == "in":
        of, words = _small(following[1]), 3
    elif (following[0], following[1]) in (("out", "of"), ("of", "every")):
        of, words = _small(following[2]), 4
    else:
        return None
    count = _small(word)
    return (count / of, words) if 0 < count < 100 and 1 < of <= 1000 and count <= of else None


def _fraction(small: Sequence[str], at: int) -> Quantity | None:
    """Return `two thirds`, `a quarter of`, `one in six`, `half`, or `doubled`."""
    word, following = small[at], [*small[at + 1 : at + 4], "", "", ""]
    if word == "one" and following[1] == "in" and _small(following[2]) > 1:  # one hive in five
        of = _small(following[2])
        return Quantity(
            1 / of, "share", _compared(small, at, at + 4, ""), at, at + 4, 2, "one in", 1 / of
        )
    end, value = at, 0.0
    head, _, tail = word.partition("-")
    tail = tail.removesuffix("s")
    if tail in FRACTIONS and (count := _small(head)):
        value, end = count / FRACTIONS[tail], at + 1
    elif word == "half" and following[0] in ("a", "an") and (unit := unit_of(following[1])):
        end = at + 3
        sign = _compared(small, at, end, "")
        said = " ".join(small[at:end])
        return Quantity(unit[1] / 2, unit[0], sign, at, end, 2, said, 0.5)
    elif word == "half":
        value, end = 0.5, at + 1
    elif share := _one_of_many(word, following):
        value, end = share[0], at + share[1]
    elif following[0].removesuffix("s") in FRACTIONS and (
        count := 1 if word in ("a", "one") else _small(word)
    ):
        single = word in ("a", "one")
        before = small[at - 1] if at else ""
        if single == following[0].endswith("s") or (
            single
            and following[1] not in ("of", "more", "less", "fewer", "as", "")
            and before
            not in ("by", "than", "about", "nearly", "almost", "over", "under", "up", "to")
        ):
            return None  # a third time, a quarter ended
        value, end = count / FRACTIONS[following[0].removesuffix("s")], at + 2
    elif word in TIMES or (following[0] == "times" and following[1] in _AS and _small(word)):
        value, end = float(TIMES.get(word) or _small(word)), at + 1 + (word not in TIMES)
        return Quantity(value, "times", "=", at, end, 2, word, value)
    if not value:
        return None
    sign = _compared(small, at, end, "")
    return Quantity(value, "share", sign, at, end, 2, " ".join(small[at:end]), value)


_AS: Final = listed("as more larger greater higher bigger faster longer the what that")


def _small(word: str) -> int:
    """Return a small number in digits or words; 0 for other texts."""
    if word.isdigit() and len(word) < 5:
        return int(word)
    value, end = spelled([word], 0) if word else (0, 0)
    return value if end and value < 1000 else 0


def _counted(
    text: str,
    small: Sequence[str],
    spans: Sequence[tuple[int, int]],
    stems: Sequence[str],
    at: int,
) -> Quantity | None:
    word, size = small[at], len(small)
    other = None
    glued = ""
    if match := _NUMBER.match(word):
        each = readings_of(match[1].strip("+") + match[2], 1)
        values = [float(one) for one in each if _FLOAT.fullmatch(one)]
        if not values:
            return None
        value, end, said = values[0], at + 1, word
        other = values[1] if len(values) > 1 else None
        glued = match[3] + match[4]
        digits = len(re.sub(r"\D", "", match[2]).lstrip("0")) or 1
        if glued in _ORDINAL:
            return None
    else:
        if word in ("a", "an"):  # an hour and a half
            if [*small[at + 2 : at + 5]] == ["and", "a", "half"] and (
                unit := unit_of(small[at + 1])
            ):
                said = " ".join(small[at : at + 5])
                return Quantity(1.5 * unit[1], unit[0], "=", at, at + 5, 2, said, 1.5)
            return None
        if word in LOOSE and not (
            at + 1 < size and (unit_of(small[at + 1]) or small[at + 1] in SCALES or word == "one")
        ):
            return None
        whole, end = spelled(small, at)
        if end == at:
            return None
        if (
            word == "one"
            and end == at + 1
            and not (end < size and (unit_of(small[end]) or small[end] in SCALES))
        ):
            return None
        value, said = float(whole), " ".join(small[at:end])
        digits = 3 if whole < 1000 else 2
    dimension, factor = "", 1.0
    scale = 1.0
    if glued and glued != "%":
        if glued in _MORE_SCALES and (glued != "m" or _currency(text, spans[at][0])):
            scale, glued = _MORE_SCALES[glued], ""
        elif glued in SCALES:
            scale, glued = float(SCALES[glued]), ""
        elif unit := unit_of(glued):
            dimension, factor = unit
        else:
            return None  # 3rc1, 0x1f
    while not dimension and end < size and small[end] in SCALES:
        scale, end = scale * SCALES[small[end]], end + 1
    if (
        not dimension
        and end < size
        and small[end] in _MORE_SCALES
        and (
            small[end] in ("bn", "mn", "mio", "mrd", "tn")
            or (small[end] == "m" and _currency(text, spans[at][0]))
        )
    ):
        scale, end = scale * _MORE_SCALES[small[end]], end + 1
    last = spans[end - 1][1]
    tail = text[last : last + 3].lstrip()
    currency = _currency(text, spans[at][0])
    if glued == "%" or tail[:1] == "%":
        dimension, factor = "share", 0.01
    elif currency:
        dimension = currency
    elif tail[:1] in CURRENCY_SIGNS:
        dimension = CURRENCY_SIGNS[tail[0]]
    elif not dimension and end < size:
        following = small[end]
        if following == "per" and end + 1 < size and small[end + 1] == "cent":
            dimension, factor, end = "share", 0.01, end + 2
        elif following in ("percentage",) and small[end + 1 : end + 2] == ["points"]:
            dimension, factor, end = "points", 0.01, end + 2
        elif (
            following in ("square", "cubic")
            and end + 1 < size
            and (unit := unit_of(small[end + 1]))
        ):
            power = 2 if following == "square" else 3
            dimension, factor, end = unit[0] + str(power), unit[1] ** power, end + 2
        elif unit := _unit_at(text, small, spans, end):
            (dimension, factor), end = unit, end + 1
    counted = ""
    if [*small[end : end + 3]] == ["and", "a", "half"]:
        value, end = value + 0.5, end + 3
    if not dimension:
        near = [stem for stem in stems[end : end + 3] if stem]
        counted = near[0] if near else ""
    sign = _compared(small, at, end, text[max(0, spans[at][0] - 3) : spans[at][0]])
    bare = value
    value *= scale
    if dimension == "cent":
        dimension = "eur" if "€" in text else "usd"
    if dimension == "fahrenheit":
        value, dimension = (value - 32) * 5 / 9, "celsius"
    elif dimension == "kelvin":
        value, dimension = value - 273.15, "celsius"
    second = None if other is None else other * scale * factor
    said = " ".join(small[at:end]) or said
    return Quantity(value * factor, dimension, sign, at, end, digits, said, bare, counted, second)


_FLOAT: Final = re.compile(r"-?\d+(?:\.\d+)?")


def _currency(text: str, start: int) -> str:
    before = text[max(0, start - 4) : start].rstrip(" -")
    if before[-1:] in CURRENCY_SIGNS:
        return CURRENCY_SIGNS[before[-1]]
    code = before[-3:].casefold()
    return code if code in ("usd", "eur", "gbp", "chf", "jpy", "inr", "cny") else ""


def _unit_at(
    text: str, small: Sequence[str], spans: Sequence[tuple[int, int]], at: int
) -> tuple[str, float] | None:
    """Return the unit that the word is; single letters must stand as units do."""
    said = text[spans[at][0] : spans[at][1]]
    unit = unit_of(said)
    if unit is None and "-" in said:
        unit = unit_of(said.partition("-")[0])
    if unit is None:
        return None
    gap = text[spans[at - 1][1] : spans[at][0]]
    if gap.strip() not in ("", "-", "°", "º"):
        return None
    if len(said) == 1 and said.casefold() in "cfk" and "°" not in gap and said.islower():
        return None
    if said in ("B", "b", "V", "v", "T", "t", "W", "w") and said not in ("V", "W", "t"):
        return None
    if small[at] == "degrees":
        following = small[at + 1 : at + 2]
        return unit_of(following[0]) or unit if following else unit
    if said == "MW" or said == "mW":
        return ("power", 1e6 if said == "MW" else 1e-3)
    return unit


def _compared(small: Sequence[str], at: int, end: int, before: str) -> Comparison:
    """Return how a number compares, by the words around it."""
    last = before.strip()[-1:]
    if last in ("≥", "≤", ">", "<"):
        return _MARKS[last]
    for gap in (0, 1):  # `at least the 40`, `above a 40 % share`
        place = at - 1 - gap
        if place < 0 or (gap and small[at - 1] not in ("a", "an", "the", "its", "of", "to", "by")):
            break
        for words, sign in BY_LAST.get(small[place], ()):
            begin = place + 1 - len(words)
            if begin >= 0 and [*small[begin : place + 1]] == words:
                if _NOT.intersection(small[max(0, begin - 4) : begin]):
                    return _DENIED.get(sign, sign)
                return sign
    for place in (end, end + 1):
        for words, sign in BY_FIRST.get(small[place], ()) if place < len(small) else ():
            if [*small[place : place + len(words)]] == words:
                return sign
    return "="
