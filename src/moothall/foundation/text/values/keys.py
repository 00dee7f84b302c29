"""The normal form of numbers, amounts, dates and times, in which values are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from moothall.foundation.text.values.dates import date_readings, dates_in, time_readings, times_in
from moothall.foundation.text.values.numbers import (
    FINE_CURRENCIES,
    Number,
    decimal,
    number_of,
    numbers_in,
)

Key: TypeAlias = tuple[Any, ...]
"""A value of a kind: `("number", Decimal)`, `("amount", Decimal, "eur")`, `("percent", Decimal)`,
`("date", y, m, d)` with y None for a date without a year, `("time", seconds)`."""

_MAX_CHARS: Final = 64
"""The most characters of a number or a date."""
_LETTERS: Final = "st nd rd th x m km cm mm g kg h min s"
_NEUTRAL_LETTERS: Final = frozenset(("", *_LETTERS.split(" ")))
"""The letters after a number that do not make another value of it."""


def keys_of(value: Any) -> list[Key]:
    """Return the readings of a value that is a number, an amount, a date or a time."""
    if isinstance(value, int | float):
        return [("number", decimal(repr(value)))]
    if len(value) > _MAX_CHARS:
        return []
    number = number_of(value)
    if number is not None:
        if not number.currency and number.digits[0] == "0" and number.digits.isdigit():
            # An account, not a number.
            return [] if len(value) > 1 else [("number", decimal("0"))]
        is_amount = bool(number.currency)
        keys = [each for each in _numbers(number) if (each[0] == "amount") == is_amount]
        if keys:
            return keys
    dates: list[Key] = [("date", *each) for each in date_readings(value)]
    return dates + [("time", each) for each in time_readings(value)]


def keys_in(text: str) -> Iterator[Key]:
    """Yield every reading of the numbers, amounts, dates and times in a folded text.

    The day and the year of a date do not count as numbers: "June 13" does not name file 13.
    """
    dates = dates_in(text)
    spans = sorted(span for span, _ in dates)
    next_span = 0
    for number in numbers_in(text):
        while next_span < len(spans) and spans[next_span][1] <= number.start:
            next_span += 1
        if next_span == len(spans) or number.digits_start < spans[next_span][0]:
            yield from _numbers(number)
    for _, readings in dates:
        yield from (("date", *each) for each in readings)
    yield from (("time", each) for times in times_in(text) for each in times)


def _numbers(number: Number) -> Iterator[Key]:
    if number.letters not in _NEUTRAL_LETTERS:
        return
    readings = number.readings
    if len(readings) > 1:
        # 1.250 may be a thousand or little more than one: cents decide, else it names neither.
        readings = (
            readings[:1] if number.currency and number.currency not in FINE_CURRENCIES else ()
        )
    for reading in readings:
        if number.percent:  # a part of something: no amount of anything
            yield "percent", reading
            continue
        yield "number", reading
        if number.currency:
            yield "amount", reading, number.currency
