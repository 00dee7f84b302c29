"""The values of a text: what a sentence and a passage state exactly."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from moothall.foundation.text.scripts import UNSPACED
from moothall.foundation.text.values.dates import (
    MONTHS_BY_NAME,
    Date,
    dates_in,
    months_in,
    times_in,
)
from moothall.foundation.text.values.number_words import NUMBER_WORDS, fold, in_figures
from moothall.foundation.text.values.numbers import CURRENCIES, number_of
from moothall.foundation.text.values.quantities import (
    Quantity,
    is_unit,
    ordinals_in,
    quantities_in,
    single_units_in,
)

_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
# Numbers of Chinese, Japanese and Korean stand beside letters: 1998年5月3日, 12万人.
_DAY: Final = re.compile(r"(?:(\d{4})[年년] ?)?(?<!\d)(\d{1,2})[月월](?: ?(\d{1,2})[日일])?")
_POWERS: Final = {"万": 4, "萬": 4, "만": 4, "亿": 8, "億": 8, "억": 8}
_MYRIAD: Final = re.compile(rf"(\d+(?:[.,]\d+)*)([{''.join(_POWERS)}]?)")
_MYRIADS: Final = re.compile(  # from a number's beginning, or a long one takes quadratic time
    rf"(?<!\d)(?<!\d[.,])(?:\d++(?:[.,]\d++)*+[{''.join(_POWERS)}])+(?:\d[\d,]*)?"
)
_BORDER: Final = re.compile(rf"(?<=\d)(?=[{UNSPACED}])|(?<=[{UNSPACED}])(?=\d)")
_LARGE: Final = re.compile(r"(?<=\d)(?:(M)|B)(?!\w)")  # 1.5M users
_HALF: Final = re.compile(r"\bhalf an? ")
_AND_A_HALF: Final = re.compile(r"\b(?:an?|(\d+)) (?:([^\W\d_]+) )?and a half\b")
# A port or a ratio, which is no time: its numbers stand alone. `:` and six figures are no time.
_COLON: Final = re.compile(r"(?<=[a-z]):(?=\d)|(?<=\d):(?=\d(?!\d)|\d{3,5}(?![\d:]))")
_POWER: Final = re.compile(r"(?<![\w.,'^])(?:(\d+(?:\.\d+)?) ?[×·x] ?)?10\^([+-]?\d\d?)(?!\w)")
_MINUS: Final = re.compile(r"(?<!\d )(?:\bminus |(?<![\w–])–)(?=\d)")
_WITHIN_YEAR: Final = re.compile(r"[^\W\d_]{3,5}-\d{4}")  # mid-2021


class TextValues:
    """The values in a text, in figures or in words.

    Attributes:
        text: the text in lower case, with its numbers in figures
        quantities: its numbers and amounts, with their units, and ordinals such as 3rd
        single_units: what it has one of, without a figure, such as an hour; ordinals in words
        dates: its dates, each in all its readings
        times: its times of day in seconds, each in all its readings
    """

    def __init__(self, text: str) -> None:
        self.text: str = _in_figures(text)
        text = self.text
        self.quantities: list[Quantity] = quantities_in(text) + ordinals_in(text, in_words=False)
        self.single_units: list[Quantity] = single_units_in(text) + ordinals_in(text, in_words=True)
        self.dates: list[list[Date]] = [
            *(dates for _, dates in dates_in(text)),
            *([date] for _, date in months_in(text)),
        ]
        self.times: list[list[int]] = times_in(text)

    @staticmethod
    def is_month(word: str) -> bool:
        """Return whether a lower-case word is the name of a month."""
        return word in MONTHS_BY_NAME

    @staticmethod
    def among(words: Sequence[str]) -> list[bool]:
        """Return which lower-case words are a number, a time, or a unit after a number."""
        flags: list[bool] = []
        for index, word in enumerate(words):
            if word[0].isdigit():
                number = number_of(word)
                is_value = bool(number and number.readings) or bool(times_in(in_figures(word)))
            else:
                follows_value = bool(flags) and flags[-1]
                after = words[index + 1] if index + 1 < len(words) else ""
                is_currency = word in CURRENCIES and after[:1].isdigit()  # CHF 64 million
                is_value = is_currency or word in NUMBER_WORDS or bool(_WITHIN_YEAR.fullmatch(word))
                is_value = is_value or (
                    follows_value
                    and (
                        is_unit(word)
                        or is_unit(f"{word} {after}")  # 64 million Swiss francs
                        or bool(times_in(in_figures(f"{words[index - 1]} {word}")))
                    )
                )
            flags.append(is_value)
        return flags


def _in_figures(text: str) -> str:
    """Return a text with its numbers in figures: half a million is 0.5 million."""
    folded = fold(_LARGE.sub(lambda large: " million" if large[1] else " billion", text))
    if not folded.isascii() and _UNSPACED.search(folded):
        folded = _BORDER.sub(" ", _MYRIADS.sub(_number_of, _DAY.sub(_day_of, folded)))
    folded = in_figures(_HALF.sub("0.5 ", folded))
    if _AND_A_HALF.search(folded):
        folded = _AND_A_HALF.sub(lambda half: f"{half[1] or 1}.5 {half[2] or ''}", folded)
        folded = in_figures(" ".join(folded.split()))
    return _COLON.sub(" : ", _MINUS.sub("-", _POWER.sub(_product, folded)))


def _day_of(match: re.Match[str]) -> str:
    """Return a day or month of Chinese, Japanese or Korean in words: 3 may 1998."""
    year, month, day = match.groups()
    is_month = 1 <= int(month) <= 12 and (year or day)
    return f" {day or ''} {month_name[int(month)].lower()} {year or ''} " if is_month else match[0]


def _product(power: re.Match[str]) -> str:
    """Return a product with a power of ten, such as 3.2 × 10^6, in figures."""
    return f"{Decimal(power[1] or 1).scaleb(int(power[2])):f}"


def _number_of(match: re.Match[str]) -> str:
    """Return a number of ten thousands and hundred millions, such as 12万, in figures."""
    parts = _MYRIAD.findall(match[0])
    total = sum(Decimal(n.replace(",", "")).scaleb(_POWERS.get(sign, 0)) for n, sign in parts)
    return f" {total.normalize():f} " if total else match[0]
