"""Numbers, times and days that a user wrote in words, or as a range, in figures."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from moothall.provenance.values import MONTHS_BY_NAME


def _numbered(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {word: first + step * place for place, word in enumerate(words.split())}


_UNITS: Final = {
    **_numbered("one two three four five six seven eight nine", 1),
    **_numbered("zwei drei vier fünf sechs sieben acht neun", 2),
}
_TEENS: Final = {
    **_numbered("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen", 10),
    **_numbered("zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn", 10),
    **dict.fromkeys(("nineteen", "neunzehn"), 19),
}
_TENS: Final = {
    **_numbered("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10),
    **_numbered("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", 20, 10),
}
_SCALES: Final = {
    **dict.fromkeys(("thousand", "tausend"), 1000),
    **dict.fromkeys(("million", "millionen"), 1_000_000),
    **dict.fromkeys(("billion", "milliarde", "milliarden"), 1_000_000_000),
}
_COUNTS: Final = {"dozen": 12, "dutzend": 12}
_OTHERS: Final = {"twice": "2", "zweimal": "2", "thrice": "3", "dreimal": "3"}
_HOURS: Final = {
    **dict.fromkeys(("noon", "midday", "mittag", "mittags"), "12:00"),
    **dict.fromkeys(("midnight", "mitternacht"), "0:00"),
}


def _any(*words: dict[str, int]) -> str:
    return "|".join(sorted((word for each in words for word in each), key=len, reverse=True))


_SMALL: Final = rf"(?:(?:{_any(_TENS)})(?:[ -](?:{_any(_UNITS)}))?|{_any(_TEENS, _UNITS)})"
_GROUP: Final = rf"(?:(?:{_SMALL}|an?) hundred(?: (?:and )?{_SMALL})?|{_SMALL})"
_FIGURES: Final = r"(?<![\w.,])\d{1,4}(?:[.,]\d{1,3})?"
_SCALED: Final = rf"(?:{_GROUP}|an?|{_FIGURES}) (?:{_any(_SCALES)})"
_NUMBER: Final = re.compile(
    rf"(?<![\w-])(?:{_SCALED}(?: (?:and )?{_SCALED})*(?: (?:and )?{_GROUP})?"
    rf"|{_GROUP}(?: (?:{_any(_COUNTS)}))?|an? (?:{_any(_COUNTS)}))(?![\w-])"
)
_WORD: Final = re.compile(rf"(?<!\w)(?:{'|'.join((*_OTHERS, *_HOURS))})(?!\w)")
_HOUR: Final = rf"(?P<hour>\d{{1,2}}|{_any(_TEENS, _UNITS)})"
_CLOCK: Final = re.compile(
    rf"(?<!\w)(?:(?P<part>half|quarter|viertel|halb)(?: (?P<way>past|to|after|nach|vor))? {_HOUR}"
    rf"|{_HOUR.replace('hour', 'sharp')} (?:o['’]clock|uhr(?: (?P<minute>\d{{2}}))?))(?!\w)"
)
_MONTH: Final = _any(MONTHS_BY_NAME)
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_TO: Final = r" ?(?:-|–|to|and|until|till|bis|und|or|oder) ?(?:the |zum )?"
_RANGE: Final = re.compile(
    rf"(?<![\w.])(?P<first>{_DAY}){_TO}(?P<last>{_DAY}) (?:of )?(?P<month>{_MONTH})\b\.?"
    r"(?P<year>,? \d{4})?"
    rf"|(?<!\w)(?P<named>{_MONTH})\.? (?P<begin>{_DAY}){_TO}(?P<end>{_DAY})(?![\d:])"
    r"(?P<of>,? \d{4})?"
)


def spelled_out(text: str) -> str:
    """Return a folded text with its words for numbers, times and ranges of days in figures."""
    text = _RANGE.sub(_days, text)
    text = _CLOCK.sub(_time, text)
    text = _WORD.sub(lambda found: {**_OTHERS, **_HOURS}[found[0]], text)
    return _NUMBER.sub(_figures, text)


def _days(found: re.Match[str]) -> str:
    if found["month"]:
        month, year, days = found["month"], found["year"], (found["first"], found["last"])
    else:
        month, year, days = found["named"], found["of"], (found["begin"], found["end"])
    of = f"{month} {(year or '').strip(', ')}".strip()
    first, last = (f"{day.rstrip('.stndrh')} {of}" for day in days)
    return f"{first} to {last}"


def _time(found: re.Match[str]) -> str:
    given = found["hour"] or found["sharp"]
    hour = int(given) if given.isdigit() else {**_TEENS, **_UNITS}[given]
    minute = int(found["minute"] or 0)
    if found["part"]:
        before = found["way"] in ("to", "vor") or found["part"] == "halb"
        if (found["way"] is None) is (found["part"] != "halb"):
            return found[0]
        hour, minute = hour - before, 30 if found["part"] in ("half", "halb") else 15
        if found["way"] in ("to", "vor"):
            minute = 60 - minute
    return f"{hour % 24}:{minute:02}" if hour < 25 else found[0]


def _figures(found: re.Match[str]) -> str:
    if found[0] == "one":  # "the one from Bo" names no number
        return found[0]
    whole, group = Decimal(0), Decimal(0)
    for word in re.split("[ -]", found[0]):
        if word in _SCALES:
            whole += (group or Decimal(1)) * _SCALES[word]
            group = Decimal(0)
        elif word in _COUNTS:
            group = (group or Decimal(1)) * _COUNTS[word]
        elif word == "hundred":
            group = (group or Decimal(1)) * 100
        elif word[0].isdigit():
            group += Decimal(word.replace(",", "."))
        elif word not in ("a", "an", "and"):
            group += {**_TENS, **_TEENS, **_UNITS}[word]
    total = whole + group
    return str(int(total)) if total == total.to_integral_value() else str(total)
