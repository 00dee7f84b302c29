"""The numbers in a folded text, with their currencies and the letters that follow them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from moothall.foundation.text.values.languages import any_of, table_of

CURRENCY_SIGNS: Final[dict[str, str]] = table_of("signs")
_WORDS: Final[dict[str, str]] = table_of("currencies")
_CURRENCY_CODES: Final = frozenset(
    "aed aud bgn brl btc cad chf cny czk dkk eth eur gbp hkd huf idr ils inr jpy krw mxn nok nzd "  # noqa: SIM905
    "pln ron rub sar sek sgd thb try uah usd usdt zar".split()
)
FINE_CURRENCIES: Final = frozenset(("btc", "eth", "usdt"))
"""Currencies with more places than two."""
CURRENCIES: Final = _CURRENCY_CODES.union(_WORDS)
_CURRENCY: Final = any_of(CURRENCIES, CURRENCY_SIGNS)
_DIGITS: Final = r"[-+−]?\d+(?:[.,'’]\d+| \d{3}(?!\d))*"
_NUMBER: Final = re.compile(
    rf"(?:(?<![\w$€£¥₹₩₽₺₪฿₴])(?P<before>{_CURRENCY}) ?|(?<![\w.,'’/:@^\\-])(?<![\w/]#))"
    rf"(?P<digits>{_DIGITS})(?: ?(?P<after>{_CURRENCY})(?!\w)"
    r"| ?(?P<part>%|‰|per ?cent(?:age)?|prozent|pour cent|por ciento)(?!\w)"
    r"|(?P<unit>[^\W\d_]{1,12})?(?![\w@]|[:.]\d))"
)
_SCALES: Final = {"k": 3, "m": 6, "mn": 6, "bn": 9, "b": 9, "tn": 12}
"""Powers of ten by the letters after an amount of money; `k` is one after any number."""


class Number(NamedTuple):
    """A number as it stands in a text, with all that it may mean."""

    start: int  # where it begins, with its currency
    digits_start: int  # where its digits begin
    end: int  # where it ends, with its currency, its `%` or its letters
    readings: tuple[Decimal, ...]  # several for 1.250; none for 3.11.2
    currency: str  # a code in lower case, or empty
    percent: bool
    letters: str  # what follows without a space, such as `mg`, `th` or `am`, or empty
    digits: str  # as they stand there


def numbers_in(text: str) -> Iterator[Number]:
    """Yield the numbers in a folded text."""
    return map(_number, _NUMBER.finditer(text))


def number_of(text: str) -> Number | None:
    """Return the number that a folded text is; None if it is anything else."""
    match = _NUMBER.fullmatch(text)
    return None if match is None else _number(match)


def _number(match: re.Match[str]) -> Number:
    name, letters = match["before"] or match["after"], match["unit"] or ""
    currency = CURRENCY_SIGNS.get(name) or _WORDS.get(name) or name if name else ""
    numbers = tuple(_readings(match["digits"]))
    if letters == "k" or (currency and letters in _SCALES):
        numbers = tuple(each.scaleb(_SCALES[letters]) for each in numbers)
        letters = ""
    if match["part"] == "‰":
        numbers = tuple(each.scaleb(-1) for each in numbers)
    start, digits_start, end = match.start(), match.start("digits"), match.end()
    is_percent, digits = bool(match["part"]), match["digits"]
    return Number(start, digits_start, end, numbers, currency, is_percent, letters, digits)


def _readings(digits: str) -> Iterator[Decimal]:
    """Yield the numbers that digits with separators may mean."""
    sign = "-" if digits[0] in "-−" else ""
    digits = digits.lstrip("-+−")
    separators = [each for each in digits if not each.isdigit()]
    groups = re.split(r"\D", digits)
    is_grouped = all(len(each) == 3 for each in groups[1:]) and len(groups[0]) <= 3
    integer = "".join(groups)
    if not separators:
        yield decimal(sign + integer)
    elif len(set(separators)) == 1:
        if is_grouped and groups[0] != "0":
            yield decimal(sign + integer)
        if len(separators) == 1 and separators[0] in ".,":
            yield decimal(f"{sign}{groups[0]}.{groups[1]}")
        if separators[0] == " ":
            yield from (decimal(each) for each in groups)
    elif (
        separators[-1] in ".,"
        and separators[-1] not in separators[:-1]
        and len(set(separators)) == 2
        and all(len(each) == 3 for each in groups[1:-1])
    ):
        yield decimal(f"{sign}{''.join(groups[:-1])}.{groups[-1]}")


def decimal(text: str) -> Decimal:
    """Return a text as a number, or as NaN."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")
