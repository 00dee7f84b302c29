"""Texts with case and width made the same, and their words for numbers and times in figures."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Final
from unicodedata import normalize

from moothall.foundation.text.values.dates import MONTHS_BY_NAME
from moothall.foundation.text.values.languages import (
    LANGUAGES,
    any_of,
    joined_tens,
    numbered,
    table_of,
    words_of,
)

# NFC and lower() make letters of these: they only look like letters, so they stay what they are.
_LOOKALIKES: Final = {0x212A: "\ue12a", 0x212B: "\ue12b", 0x2126: "\ue126"}
_WIDE: Final = re.compile("[\u3000\uff01-\uffee]+")

_UNITS: Final = numbered("ones", 1)
_TEENS: Final = numbered("teens", 10)
_TENS: Final = numbered("tens", 20, 10)
_SCALES: Final = {word: 10**power for word, power in table_of("scales").items()}
_ENGLISH_SCALES: Final = LANGUAGES["en"]["scales"].keys()
_HUNDRED: Final = words_of("hundred")
_DOZENS: Final = dict.fromkeys(words_of("dozen"), 12)
NUMBER_WORDS: Final = frozenset((*_UNITS, *_TEENS, *_TENS, *_SCALES, *_HUNDRED, *_DOZENS))
_NUMERALS: Final = {**table_of("times"), **table_of("hours"), **joined_tens()}
_BELOW_HUNDRED: Final = (
    rf"(?:(?:{any_of(_TENS)})(?:[ -](?:{any_of(_UNITS)}))?|{any_of(_TEENS, _UNITS)})"
)
_BELOW_THOUSAND: Final = (
    rf"(?:(?:{_BELOW_HUNDRED}|an?) (?:{any_of(_HUNDRED)})(?: (?:and )?{_BELOW_HUNDRED})?"
    rf"|{_BELOW_HUNDRED})"
)
_FIGURES: Final = r"(?<![\w.,])(?:\d{1,3}(?: \d{3})+|\d{1,4}(?:[.,]\d{1,3})?)"  # 5 000 millions
_SCALED: Final = rf"(?:{_BELOW_THOUSAND}|an?|{_FIGURES})(?: (?:{any_of(_SCALES)})){{1,2}}"
_NUMBER: Final = (
    rf"(?<![\w-])(?:{_SCALED}(?: (?:and )?{_SCALED})*(?: (?:and )?{_BELOW_THOUSAND})?"
    rf"|{_BELOW_THOUSAND}(?: (?:{any_of(_DOZENS)}))?"
    rf"|(?:an?|{_FIGURES}) (?:{any_of(_DOZENS)}))(?![\w-])"
)
_NUMERAL: Final = rf"(?<!\w)(?:{any_of(_NUMERALS)})(?!\w)"
_HOUR: Final = rf"(?P<hour>\d{{1,2}}|{any_of(_TEENS, _UNITS)})"
_CLOCK: Final = (
    r"(?<![\w.:])(?:(?P<fraction>half|quarter|viertel|halb)(?: (?P<side>past|to|after|nach|vor))? "
    rf"{_HOUR}|{_HOUR.replace('hour', 'full_hour')} (?:o['’]clock|uhr(?: (?P<uhr_minute>\d{{2}}))?)"
    r"|(?P<digit_hour>\d{1,2})"
    r"(?:[.:](?P<minute>\d{2}) uhr| ?h ?(?P<h_minute>\d{2})(?! ?min)))(?!\w)"
)
_MONTH: Final = any_of(MONTHS_BY_NAME)
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_RANGE_WORD: Final = r" ?(?:-|–|to|and|until|till|bis|und|or|oder) ?(?:the |zum )?"
_RANGE: Final = (
    rf"(?<![\w.])(?P<first>{_DAY}){_RANGE_WORD}(?P<last>{_DAY}) (?:of )?(?P<month>{_MONTH})\b\.?"
    r"(?P<year>,? \d{4})?"
    rf"|(?<!\w)(?P<us_month>{_MONTH})\.? (?P<us_first>{_DAY}){_RANGE_WORD}(?P<us_last>{_DAY})"
    r"(?![\d:])(?P<us_year>,? \d{4})?"
)
_HALF_OF_RANGE: Final = (
    r"(?<![\w.,:])(\d{1,2}) ?(?:-|–|to|and|until) ?(?=(\d{1,2})(?::\d\d)? ?([ap])\.?m\b)"
)
_WITHIN_YEAR: Final = r"(?<!\w)([^\W\d_]{3,5})-(?=(?:1[5-9]|20)\d\d(?![\w-]))"  # mid-2021

# Compiled when they are first used: it takes 60 ms, a quarter of what importing an agent takes.
_compiled: Final = cache(re.compile)


def fold(text: str) -> str:
    """Return a text with case, width and whitespace made the same; lookalikes stay different."""
    if not text.isascii():
        text = normalize("NFC", text.translate(_LOOKALIKES))
        text = _WIDE.sub(lambda match: normalize("NFKC", match[0]), text)
    return " ".join(text.lower().split())


def narrow(text: str) -> str:
    """Return a text with its wide characters made the usual ones; its lines and case stay."""
    if text.isascii():
        return text
    return _WIDE.sub(lambda match: normalize("NFKC", match[0]), text)


def in_figures(text: str) -> str:
    """Return a folded text with its words for numbers, times and ranges of days in figures."""
    text = _compiled(_RANGE).sub(_days_in_figures, _compiled(_WITHIN_YEAR).sub(r"\1 ", text))
    text = _compiled(_HALF_OF_RANGE).sub(
        lambda match: f"{match[1]} {match[3]}m to " if int(match[1]) < int(match[2]) else match[0],
        text,
    )
    text = _compiled(_CLOCK).sub(_time_in_figures, text)
    text = _compiled(_NUMERAL).sub(lambda match: str(_NUMERALS[match[0]]), text)
    return _compiled(_NUMBER).sub(_number_in_figures, text)


def _days_in_figures(match: re.Match[str]) -> str:
    if match["month"]:
        month, year, days = match["month"], match["year"], (match["first"], match["last"])
    else:
        month, year = match["us_month"], match["us_year"]
        days = match["us_first"], match["us_last"]
    suffix = f"{month} {(year or '').strip(', ')}".strip()
    first, last = (f"{day.rstrip('.stndrh')} {suffix}" for day in days)
    return f"{first} to {last}"


def _time_in_figures(match: re.Match[str]) -> str:
    hour_text = match["hour"] or match["full_hour"] or match["digit_hour"]
    hour = int(hour_text) if hour_text.isdigit() else {**_TEENS, **_UNITS}[hour_text]
    minute = int(match["uhr_minute"] or match["minute"] or match["h_minute"] or 0)
    if fraction := match["fraction"]:
        side = match["side"]
        if (side is None) is (fraction != "halb"):  # "halb drei" has no side, all others have one
            return match[0]
        minute = 30 if fraction in ("half", "halb") else 15
        if side in ("to", "vor"):
            minute = 60 - minute
        if side in ("to", "vor") or fraction == "halb":  # "halb drei" is half past two
            hour -= 1
    return f"{hour % 24}:{minute:02}" if hour < 25 else match[0]


def _number_in_figures(match: re.Match[str]) -> str:
    if match[0] == "one":  # "the one from Bo" names no number
        return match[0]
    scaled, group, previous = Decimal(0), Decimal(0), ""
    words = re.split(r"-| (?!\d{3}\b)", match[0])
    for word in words:
        if word in _SCALES and previous in _SCALES:  # 5 mil millones
            scaled *= _SCALES[word]
        elif word in _SCALES:
            scaled += (group or Decimal(1)) * _SCALES[word]
            group = Decimal(0)
        elif word in _DOZENS:
            group = (group or Decimal(1)) * _DOZENS[word]
        elif word in _HUNDRED:
            group = (group or Decimal(1)) * 100
        elif word[0].isdigit():
            # 1,200 million, 1.200 Millionen; one place more or less is a part: 1,25 million.
            thousands = "," if _SCALES.keys() & words <= _ENGLISH_SCALES else "."
            figures = word.replace(thousands, "" if word[-4:-3] == thousands else ".")
            group += Decimal(figures.replace(",", ".").replace(" ", ""))
        elif word not in ("a", "an", "and"):
            group += {**_TENS, **_TEENS, **_UNITS}[word]
        previous = word
    total = scaled + group
    return str(int(total)) if total == total.to_integral_value() else str(total)
