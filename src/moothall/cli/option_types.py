"""Values that options take: numbers within limits, one of some words, a file."""

from __future__ import annotations

import math
import os
import re
import time
from datetime import date, datetime, timedelta
from datetime import time as clock
from typing import Any, Final

import click

from moothall.build import nearest


class NumberType(click.FloatRange):
    """A number, not infinity or NaN, which click accepts as numbers; `unit` is what it counts."""

    def __init__(self, unit: str = "", **limits: Any) -> None:
        super().__init__(**limits)
        self._description = f"a number{f' of {unit}' if unit else ''}"

    def _describe_range(self) -> str:  # of no limits, click's says `x<=None`
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        return _convert_value(self, click.FLOAT, self._description, value, param, ctx)


class WholeNumberType(click.IntRange):
    """A whole number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        return _convert_value(self, click.INT, "a whole number", value, param, ctx)


class NonEmptyText(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A text that is not empty: an empty one must not stand for the default."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text."""
        if value == "":
            self.fail('must not be "": it may be an unset variable')
        return value


class OneOf(click.Choice):  # type: ignore[type-arg]
    """One of some words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the error text."""
        *leading, last = names = [*map(str, self.choices)]
        near = nearest(str(value), names)
        return f"must be {', '.join(leading)} or {last}, got {str(value)!r:.80}{near}"


_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAY_WORDS: Final = {"today": timedelta(0), "yesterday": timedelta(days=1)}
_AGE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])")


class Age(click.ParamType):  # type: ignore[type-arg]
    """A length of time, such as 30d, in seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"must be a number with s, m, h, d or w, such as 30d, got {value!r:.80}")
        return float(match[1]) * _UNIT_SECONDS[match[2]]


class MomentType(click.ParamType):  # type: ignore[type-arg]
    """A date, with or without a time, a day in words, or how long ago, in seconds since 1970."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        match = _AGE.fullmatch(str(value))
        if value in _DAY_WORDS:
            return datetime.combine(date.today() - _DAY_WORDS[value], clock()).timestamp()
        try:
            if match is not None:
                moment = time.time() - float(match[1]) * _UNIT_SECONDS[match[2]]
                return datetime.fromtimestamp(moment).timestamp()  # as early as there are dates
            return datetime.fromisoformat(value).timestamp()
        except (TypeError, ValueError, OverflowError, OSError):
            self.fail(
                "must be a date (2026-11-24), with a time (2026-11-24T18:00), today, yesterday, or "
                f"how long ago (7d), got {value!r:.80}",
                param,
                ctx,
            )


class FileToWrite(click.Path):
    """The path of a file in a folder that is there."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        folder = os.path.dirname(os.fspath(value)) or "."
        if not os.path.isdir(folder):
            self.fail(f"there is no folder {folder!r}: make it first", param, ctx)
        return super().convert(value, param, ctx)


def above_0(unit: str = "seconds") -> NumberType:
    """Return the type of an amount that must be above 0."""
    return NumberType(unit, min=0, min_open=True)


def _convert_value(
    kind: click.IntRange | click.FloatRange,
    number_type: click.ParamType[Any],
    description: str,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    low, high = kind.min, kind.max
    try:
        number = number_type.convert(value, param, ctx)
        at_least = low is None or (number > low if kind.min_open else number >= low)
        if math.isfinite(number) and at_least and (high is None or number <= high):
            return number
    except click.BadParameter:
        pass
    limits = ""
    if low is not None:
        limits = f" above {low:,g}" if kind.min_open else f", {low:,g} or more"
    if high is not None:
        limits = f" from {int(low or 0):,} to {int(high):,}"
    raise click.BadParameter(f"must be {description}{limits}, got {value!r:.80}", ctx, param)
