"""The normal form of values: numbers, amounts, dates, times, addresses, paths and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any, Final, TypeAlias
from unicodedata import normalize

Key: TypeAlias = tuple[Any, ...]
"""A value of a kind: `("number", Decimal)`, `("amount", Decimal, "eur")`, `("percent", Decimal)`,
`("date", y, m, d)` with y None for a date without a year, `("time", seconds)`."""

# NFC and lower() make letters of these: they only look like letters, so they stay what they are.
_LOOKALIKES: Final = {0x212A: "\ue12a", 0x212B: "\ue12b", 0x2126: "\ue126"}
_WIDE: Final = re.compile("[\u3000\uff01-\uffee]+")

_OPENS: Final = frozenset(" \n\"'“”„‘’«»([{<>|,;:=*`—–…¿¡")
_CLOSES: Final = frozenset(' \n"“”‘»«)]}><|*`—–…=')
_ENDING: Final = re.compile("[.!?,;:'’]+(?=[\\s\"'”’»)\\]}>*`]|$)")
TRIES: Final = 64
"""In how many places of a text one value is looked for."""
DEPTH: Final = 50
"""How deep a value is looked into."""
_LONGEST: Final = 64
"""The most characters of a number, a date or an account."""
_LONGEST_LIST: Final = 4000
"""The most characters of a list of values."""

CURRENCY_SIGNS: Final = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy", "₹": "inr"}
_WORDS: Final = {
    "dollar": "usd",
    "dollars": "usd",
    "euro": "eur",
    "euros": "eur",
    "pound": "gbp",
    "pounds": "gbp",
    "yen": "jpy",
    "franken": "chf",
    "francs": "chf",
}
_CODES: Final = frozenset(
    "aed aud bgn brl btc cad chf cny czk dkk eth eur gbp hkd huf idr ils inr jpy krw mxn nok nzd "  # noqa: SIM905
    "pln ron rub sar sek sgd thb try uah usd usdt zar".split()
)
_FINE: Final = frozenset(("btc", "eth", "usdt"))
"""Currencies with more places than two."""
_CURRENCY: Final = "|".join((*sorted(_CODES, key=len, reverse=True), *_WORDS, "[$€£¥₹]"))
_DIGITS: Final = r"[-+−]?\d+(?:[.,'’]\d+| \d{3}(?!\d))*"
_NUMBER: Final = re.compile(
    rf"(?:(?<![\w$€£¥₹])(?P<before>{_CURRENCY}) ?|(?<![\w.,'’/:@\\-])(?<![\w/]#))"
    rf"(?P<digits>{_DIGITS})(?: ?(?P<after>{_CURRENCY})(?!\w)"
    r"| ?(?P<part>%|per ?cent(?:age)?|prozent)(?!\w)"
    r"|(?P<unit>st|nd|rd|th|k|x|[kcm]?m|k?g|h|min|s|am|pm)?(?![\w@]|[:.]\d))"
)
MONTHS_BY_NAME: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner",
            "february feb februar",
            "march mar märz",
            "april apr",
            "may mai",
            "june jun juni",
            "july jul juli",
            "august aug",
            "september sep sept",
            "october oct oktober okt",
            "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}
_MONTH: Final = "|".join(sorted(MONTHS_BY_NAME, key=len, reverse=True))
_DATES: Final = (
    re.compile(r"(?<![\w.-])(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<![\w./-])(?P<a>\d{1,2})([./-])(?P<b>\d{1,2})\2(?P<y>\d{4}|\d{2})(?!\d)"),
    re.compile(
        rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)? ?(?:of )?(?P<n>{_MONTH})\b\.?"
        r"(?:,? (?P<y>\d{4}))?"
    ),
    re.compile(
        rf"(?<!\w)(?P<n>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (?P<y>\d{{4}}))?"
    ),
)
_TIME: Final = re.compile(
    r"(?:(?<=\dt)|(?<![\w.:+]))(?P<h>\d{1,2})(?::(?P<m>\d{2})(?::(?P<s>\d{2})(?:\.0+)?)?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?|(?: ?(?P<just>[ap])\.?m\b\.?))(?![\d:])"
)
_DATE_AND_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[t ](\d{2}:\d{2}(?::\d{2})?)(?:\.0+)?z?")
_LAST: Final = re.compile(r"(?<=\w)[.!?]+$")
_PARTS: Final = re.compile("[,;\n]")
_BREAKS: Final = re.compile("[;\n]")  # they also part commands, which are no list of values
_NAMED: Final = re.compile("([^<>]*)<([^<>]+)>")
_SPACED: Final = re.compile(r"[a-z]{0,4}[\d ./()+-]*\d[a-z\d ./()+-]*")
_HOST: Final = re.compile(r"https?://([^/?#@\s]+)/?$")
_LINK: Final = re.compile(
    r"(?:://|(?<![\w@.-])www\.|(?<=\S)\?(?=[\w.%-]{1,64}=))(?:(?![,;]\w{2,15}://)[^\s<>\"'`|\\^{}\[\]“”«»])+"
)


def fold(text: str) -> str:
    """Return a text with case, width and whitespace made the same; lookalikes stay different."""
    if not text.isascii():
        text = normalize("NFC", text.translate(_LOOKALIKES))
        text = _WIDE.sub(lambda found: normalize("NFKC", found[0]), text)
    return " ".join(text.lower().split())


def narrow(text: str) -> str:
    """Return a text with its wide characters made the usual ones; its lines and case stay."""
    if text.isascii():
        return text
    return _WIDE.sub(lambda found: normalize("NFKC", found[0]), text)


def texts_in(value: Any, depth: int = 0) -> list[str]:
    """Return the texts, numbers and keys within a value; what lies too deep is one text."""
    if depth > DEPTH:
        return [repr(value)]
    if isinstance(value, dict):
        parts: Iterable[Any] = chain.from_iterable(value.items())
    elif isinstance(value, list | tuple):
        parts = value
    else:
        return [] if value is None else [str(value)]
    return [text for each in parts for text in texts_in(each, depth + 1)]


def links_in(text: str) -> list[tuple[int, int]]:
    """Return where the web addresses of a text are, each from after its scheme on.

    What stands within one comes from its author, not from those who passed it on.
    """
    return [found.span() for found in _LINK.finditer(text)] if _may_link(text) else []


def unlinked(text: str) -> str:
    """Return a text with nothing within its web addresses."""
    return _LINK.sub(" ", text) if _may_link(text) else text


def _may_link(text: str) -> bool:
    return "://" in text or "www." in text or "?" in text


def stands(text: str, value: str, start: int = 0) -> int:
    """Return where a folded text has a folded value as a whole, not within a word; or -1."""
    at = text.find(value, start)
    for _ in range(TRIES):
        if at < 0:
            return -1
        if _opens(text, at) and _closes(text, at + len(value)):
            return at
        at = text.find(value, at + 1)
    return -1


def whole_at(text: str, value: str) -> int:
    """Return where a text has a value that is no part of a longer word or number; or -1."""
    at = text.find(value)
    for _ in range(TRIES):
        if at < 0 or not (
            _runs_on(text[max(at - 2, 0) : at][::-1], value[:1])
            or _runs_on(text[at + len(value) :][:2], value[-1:])
        ):
            return at
        at = text.find(value, at + 1)
    return -1


def _runs_on(beside: str, edge: str) -> bool:
    """Whether a word or a number goes on beyond its edge."""
    if not edge.isalnum() or not beside:
        return False
    return beside[0].isalnum() or (edge.isdigit() and beside[0] in ".,:-/" and beside[1:].isdigit())


def _opens(text: str, at: int) -> bool:
    if not at or text[at - 1] in _OPENS:
        return at < 2 or text[at - 1] not in "'’" or not text[at - 2].isalnum()
    return text[at - 1] in "#@" and (at == 1 or text[at - 2] in _OPENS)


def _closes(text: str, end: int) -> bool:
    if end == len(text) or (last := text[end]) in _CLOSES:
        return True
    if last in "'’":  # it closes a quotation, or a genitive follows
        if text[end + 1 : end + 2] == "s":
            return _closes(text, end + 2)
        return not text[end + 1 : end + 2].isalnum()
    if last in ",;":
        return not text[end + 1 : end + 2].isdigit()
    return _ENDING.match(text, end) is not None


def spellings(value: str) -> list[str]:
    """Return the ways to write a folded value, besides the value itself."""
    made = []
    bare = value.removeprefix("mailto:").strip("\"'“”„‘’")  # what "`" holds, a shell executes
    bare = _LAST.sub("", bare) if " " in bare else bare
    if "\\" in bare:
        bare = bare.replace("\\", "/")
    while bare.startswith("./"):
        bare = bare[2:]
    if bare:
        made.append(bare)
        if bare[0] in "#@":
            made.append(bare[1:])
        if "/" in bare or "." in bare:
            made += [f"./{bare}", bare.replace("/", "\\"), bare.rstrip("/"), f"{bare}/"]
        if (host := _HOST.match(bare)) is not None:
            made += [host[1], f"{host[1]}/"]
    return [each for each in dict.fromkeys(made) if each.strip() == each not in ("", value)]


def spaced(value: str) -> re.Pattern[str] | None:
    """Return a pattern of an account number however it is grouped; None for other texts."""
    if len(value) > _LONGEST or not _SPACED.fullmatch(value):
        return None
    characters = [each for each in value if each.isalnum() or each == "+"]
    if sum(map(str.isdigit, characters)) < 6:
        return None
    return re.compile(
        r"(?<![\w.,])" + r"[ ./()-]{0,2}".join(map(re.escape, characters)) + r"(?!\w)"
    )


def parts_of(value: str) -> list[str]:
    """Return the parts of a text that lists several values; empty if it is one."""
    if len(value) > _LONGEST_LIST:
        return []
    if (found := _DATE_AND_TIME.fullmatch(value.strip().lower())) is not None:
        return [found[1], found[2]]
    if "<" in value and (named := _NAMED.fullmatch(value.strip())) is not None:
        return [each.strip() for each in named.groups() if each.strip()]
    parts = [each.strip() for each in _PARTS.split(value) if each.strip()]
    words = 0 if _BREAKS.search(value.strip()) else 4
    if len(parts) < 2 or any(each.count(" ") > words for each in parts):
        return []
    return parts


def keys_of(value: Any) -> list[Key]:
    """Return the readings of a value that is a number, an amount, a date or a time."""
    if isinstance(value, int | float):
        return [("number", _decimal(repr(value)))]
    if len(value) > _LONGEST:
        return []
    found = _NUMBER.fullmatch(value)
    if found is not None:
        sort = found["before"] or found["after"]
        if sort is None and found["digits"][0] == "0" and found["digits"].isdigit():
            return [] if len(value) > 1 else [("number", Decimal(0))]  # an account, not a number
        keys = [each for each in _numbers(found) if (each[0] == "amount") == (sort is not None)]
        if keys:
            return keys
    return [key for pattern in (*_DATES, _TIME) for key in _whole(pattern, value)]


def _whole(pattern: re.Pattern[str], value: str) -> Iterator[Key]:
    found = pattern.fullmatch(value)
    if found is not None:
        yield from _times(found) if pattern is _TIME else _dates(found)


def keys_in(text: str) -> Iterator[Key]:
    """Yield every reading of the numbers, amounts, dates and times in a folded text.

    The day and the year of a date do not count as numbers: "June 13" does not name file 13.
    """
    dates = [
        (found.span(), [*_dates(found)]) for pattern in _DATES for found in pattern.finditer(text)
    ]
    spans = sorted(span for span, keys in dates if keys)
    place = 0
    for found in _NUMBER.finditer(text):
        while place < len(spans) and spans[place][1] <= found.start():
            place += 1
        if place == len(spans) or found.start("digits") < spans[place][0]:
            yield from _numbers(found)
    for _, keys in dates:
        yield from keys
    for found in _TIME.finditer(text):
        yield from _times(found)


def _numbers(found: re.Match[str]) -> Iterator[Key]:
    sort = found["before"] or found["after"]
    currency = CURRENCY_SIGNS.get(sort) or _WORDS.get(sort) or sort if sort else None
    readings = [*_readings(found["digits"])]
    if found["unit"] in ("am", "pm"):  # a time
        return
    if len(readings) > 1:
        # 1.250 may be a thousand or little more than one: cents decide, else it names neither.
        readings = readings[:1] if currency and currency not in _FINE else []
    for number in readings:
        if found["part"]:  # a part of something: no amount of anything
            yield "percent", number
            continue
        if found["unit"] == "k":
            number *= 1000
        yield "number", number
        if currency:
            yield "amount", number, currency


def _readings(digits: str) -> Iterator[Decimal]:
    """Yield the numbers that digits with separators may mean."""
    sign = "-" if digits[0] in "-−" else ""
    digits = digits.lstrip("-+−")
    marks = [each for each in digits if not each.isdigit()]
    groups = re.split(r"\D", digits)
    grouped = all(len(each) == 3 for each in groups[1:]) and len(groups[0]) <= 3
    whole = "".join(groups)
    if not marks:
        yield _decimal(sign + whole)
    elif len(set(marks)) == 1:
        if grouped and groups[0] != "0":
            yield _decimal(sign + whole)
        if len(marks) == 1 and marks[0] in ".,":
            yield _decimal(f"{sign}{groups[0]}.{groups[1]}")
        if marks[0] == " ":
            yield from (_decimal(each) for each in groups)
    elif (
        marks[-1] in ".,"
        and marks[-1] not in marks[:-1]
        and len(set(marks)) == 2
        and all(len(each) == 3 for each in groups[1:-1])
    ):
        yield _decimal(f"{sign}{''.join(groups[:-1])}.{groups[-1]}")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def _dates(found: re.Match[str]) -> Iterator[Key]:
    parts = found.groupdict()
    year = None if parts["y"] is None else int(parts["y"])
    if year is not None and year < 100:
        year += 2000
    if "a" in parts:
        days = {(int(parts["a"]), int(parts["b"])), (int(parts["b"]), int(parts["a"]))}
    else:
        month = MONTHS_BY_NAME[parts["n"]] if "n" in parts else int(parts["m"])
        days = {(month, int(parts["d"]))}
    for month, day in days:
        try:
            date(year or 2000, month, day)
        except ValueError:
            continue
        yield "date", year, month, day


def _times(found: re.Match[str]) -> Iterator[Key]:
    hour, half = int(found["h"]), found["half"] or found["just"]
    rest = int(found["m"] or 0) * 60 + int(found["s"] or 0)
    if hour > 23 or rest >= 3600 or (half and not 1 <= hour <= 12):
        return
    if half:
        yield "time", (hour % 12 + (12 if half == "p" else 0)) * 3600 + rest
        return
    yield "time", hour * 3600 + rest
    if 1 <= hour <= 11:  # "at 2:30" may be meant of the afternoon
        yield "time", (hour + 12) * 3600 + rest
