"""Days and times that a user named in another form: tomorrow, next Friday, an hour after ten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Final

from moothall.foundation.text.values import Key, keys_in
from moothall.foundation.text.values.languages import any_of, numbered, words_of

_DAY_OFFSETS: Final = {
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "heute": 0,
    "tomorrow": 1,
    "morgen": 1,
    "the day after tomorrow": 2,
    "übermorgen": 2,
    "yesterday": -1,
    "gestern": -1,
    "the day before yesterday": -2,
    "vorgestern": -2,
}
_WEEKDAYS: Final = numbered("weekdays", 0)
_NUMBER_WORDS: Final = {
    **dict.fromkeys(words_of("articles"), 1),
    **numbered("ones", 1),
    **{word: 10 for word, number in numbered("teens", 10).items() if number == 10},
}
_COUNT: Final = rf"\d{{1,3}}|{any_of(_NUMBER_WORDS)}"
_DAY: Final = re.compile(
    rf"(?<!\w)(?:(?P<word>{any_of(_DAY_OFFSETS)})"
    rf"|in (?P<count>{_COUNT}) (?P<weeks>weeks?|wochen?)?(?P<days>days?|tage?n?)?"
    r"|(?P<which>(?:next|last|nächste[nrs]?|letzte[nrs]?) )?"
    rf"(?P<weekday>{any_of(_WEEKDAYS)})s?)(?!\w)"
)
_DURATION: Final = re.compile(
    rf"(?<![\w.,])(?:(?P<half>half an?|eine halbe)|(?P<count>{_COUNT}|\d[.,]5))(?: |-)?"
    r"(?P<unit>hours?|hrs?|h|stunden?|minutes?|mins?|minuten?)(?!\w)"
)
_SEPARATORS: Final = re.compile(r"(?:[ ,.]|and|und)*")
_TODAY: Final = re.compile(r"(?<!\w)(?:today|current (?:date|day)|heute)(?!\w)")
_NEAR_CHARS: Final = 40
_MAX_NUMBERS: Final = 50


def days_named(text: str) -> set[int]:
    """Return the days that a folded text names, each as the number of days from today."""
    days: set[int] = set()
    for each in _DAY.finditer(text):
        if (word := each["word"]) is not None:
            days.add(_DAY_OFFSETS[word])
        elif (count := each["count"]) is not None and (each["weeks"] or each["days"]):
            days.add(int(_number(count)) * (7 if each["weeks"] else 1))
    return days


def weekdays_named(text: str) -> set[tuple[int, int, int]]:
    """Return the weekdays that a folded text names, each with the first and last day from today."""
    weekdays: set[tuple[int, int, int]] = set()
    for each in _DAY.finditer(text):
        if (name := each["weekday"]) is not None:
            day = _WEEKDAYS[name]
            direction = (each["which"] or "").split(" ")[0][:2]
            first, last = {"ne": (1, 14), "nä": (1, 14), "la": (-14, -1), "le": (-14, -1)}.get(
                direction, (-7, 7)
            )
            weekdays.add((day, first, last))
    return weekdays


def dates_of_today(text: str, is_result: bool) -> list[date]:
    """Return the day that a folded text says is today, or that a result consists of."""
    excerpts = [text[match.end() :][:_NEAR_CHARS] for match in _TODAY.finditer(text)]
    if not excerpts and is_result and len(text) <= _NEAR_CHARS:
        excerpts = [text]
    dates = [key for each in excerpts for key in keys_in(each) if key[0] == "date"]
    return [date(*key[1:]) for key in dates[:_MAX_NUMBERS] if key[1] is not None]


def is_day_named(key: Key, texts: Iterable[str], today_dates: Iterable[date]) -> bool:
    """Whether one of the user's folded texts names a day, counted from what is today."""
    named_days = [(days_named(text), weekdays_named(text)) for text in texts]
    for today in today_dates:
        try:
            day = date(key[1] or today.year, *key[2:])
        except ValueError:  # the 29th of February is in no such year
            continue
        days_away = (day - today).days
        for days, weekdays in named_days:
            if days_away in days or any(
                day.weekday() == each and first <= days_away <= last
                for each, first, last in weekdays
            ):
                return True
    return False


def ends_at(time: Key, texts: Iterable[str]) -> bool:
    """Whether a time is as long after one that a folded text names as the text says it takes."""
    for text in texts:
        durations = [_seconds(each) for each in _DURATION.finditer(text)][:_MAX_NUMBERS]
        if durations:
            starts = {key[1] for key in keys_in(text) if key[0] == "time"}
            if any((time[1] - each) % 86400 in starts for each in durations):
                return True
    return False


def duration_of(text: str) -> int | None:
    """Return how many seconds a folded text lasts that is a length of time and nothing else."""
    durations = [*_DURATION.finditer(text)][:_MAX_NUMBERS]
    if not durations or not _SEPARATORS.fullmatch(_DURATION.sub("", text)):
        return None
    return sum(map(_seconds, durations))


def _seconds(match: re.Match[str]) -> int:
    unit = 3600 if match["unit"][0] in "hs" else 60
    return unit // 2 if match["half"] else round(_number(match["count"]) * unit)


def _number(text: str) -> float:
    return _NUMBER_WORDS[text] if text in _NUMBER_WORDS else float(text.replace(",", "."))
