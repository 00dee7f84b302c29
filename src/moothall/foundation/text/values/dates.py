"""The dates and times of day in a folded text."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from moothall.foundation.text.values.languages import any_of, numbered

MONTHS_BY_NAME: Final = numbered("months", 1)
_MONTH: Final = any_of(MONTHS_BY_NAME)
_DATES: Final = (
    re.compile(r"(?<![\w.-])(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<![\w./-])(?P<a>\d{1,2})([./-])(?P<b>\d{1,2})\2(?P<y>\d{4}|\d{2})(?!\d)"),
    re.compile(
        rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|[o.])? ?(?:of |de )?(?P<n>{_MONTH})\b\.?"
        r"(?:,? (?:de )?(?P<y>\d{4}))?"
    ),
    re.compile(
        rf"(?<!\w)(?P<n>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (?P<y>\d{{4}}))?"
    ),
)
TIME: Final = re.compile(
    r"(?:(?<=\dt)|(?<![\w.:+]))(?P<h>\d{1,2})(?::(?P<m>\d{2})(?::(?P<s>\d{2})(?:\.0+)?)?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?|(?: ?(?P<half_alone>[ap])\.?m\b\.?))(?![\d:])"
)
_MONTH_OF_YEAR: Final = re.compile(
    rf"(?<!\w)(?P<n>{_MONTH})\b\.?,? (?:of |de )?(?P<y>\d{{4}})(?!\d)"
)
_LAST_CENTURY: Final = 70
"""Two figures from here on are of the last century."""


class Date(NamedTuple):
    """A date as it stands in a text; None for a year or a day that does not stand there."""

    year: int | None
    month: int
    day: int | None

    def fits(self, other: Date) -> bool:
        """Return whether no part that both dates have differs."""
        pairs = zip(self, other, strict=True)
        return all(None in (first, second) or first == second for first, second in pairs)

    @property
    def in_words(self) -> str:
        """The date in words."""
        parts = (self.day, month_name[self.month], self.year)
        return " ".join(str(each) for each in parts if each is not None)


def dates_in(text: str) -> list[tuple[tuple[int, int], list[Date]]]:
    """Return where a folded text has dates, each with its readings: 5/6 is of May or of June."""
    matches = [(each.span(), readings(each)) for each in _matches(text)]
    return [(span, dates) for span, dates in matches if dates]


def _matches(text: str) -> Iterator[re.Match[str]]:
    for pattern in _DATES:
        yield from pattern.finditer(text)


def months_in(text: str) -> list[tuple[tuple[int, int], Date]]:
    """Return where a folded text has a month with its year and no day."""
    dated = [span for span, _ in dates_in(text)]
    return [
        (each.span(), Date(int(each["y"]), MONTHS_BY_NAME[each["n"]], None))
        for each in _MONTH_OF_YEAR.finditer(text)
        if not any(start <= each.start() < end for start, end in dated)
    ]


def times_in(text: str) -> list[list[int]]:
    """Return the times of day in a folded text, in seconds, each with its readings."""
    return [times for match in TIME.finditer(text) if (times := [*_readings_of_time(match)])]


def date_readings(text: str) -> list[Date]:
    """Return the readings of a folded text that is a date and nothing else."""
    matches = (pattern.fullmatch(text) for pattern in _DATES)
    return [date for match in matches if match is not None for date in readings(match)]


def time_readings(text: str) -> list[int]:
    """Return the readings, in seconds, of a folded text that is a time and nothing else."""
    match = TIME.fullmatch(text)
    return [] if match is None else [*_readings_of_time(match)]


def readings(match: re.Match[str]) -> list[Date]:
    """Return the dates that a match of a pattern of dates may mean."""
    parts = match.groupdict()
    year = None if parts["y"] is None else int(parts["y"])
    if year is not None and year < 100:
        year += 2000 if year < _LAST_CENTURY else 1900
    if "a" in parts:
        days = {(int(parts["a"]), int(parts["b"])), (int(parts["b"]), int(parts["a"]))}
    else:
        month = MONTHS_BY_NAME[parts["n"]] if "n" in parts else int(parts["m"])
        days = {(month, int(parts["d"]))}
    dates = []
    for month, day in days:
        try:
            date(year or 2000, month, day)
        except ValueError:
            continue
        dates.append(Date(year, month, day))
    return dates


def _readings_of_time(match: re.Match[str]) -> Iterator[int]:
    hour, day_half = int(match["h"]), match["half"] or match["half_alone"]
    seconds = int(match["m"] or 0) * 60 + int(match["s"] or 0)
    if hour > 23 or seconds >= 3600 or (day_half and not 1 <= hour <= 12):
        return
    if day_half:
        yield (hour % 12 + (12 if day_half == "p" else 0)) * 3600 + seconds
        return
    yield hour * 3600 + seconds
    if 1 <= hour <= 11:  # "at 2:30" may be meant of the afternoon
        yield (hour + 12) * 3600 + seconds
