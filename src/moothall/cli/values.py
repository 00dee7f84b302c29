"""Values that options take: numbers within limits, one of some words, a file."""

from __future__ import annotations

import math
import os
from typing import Any

import click


class Number(click.FloatRange):
    """A number, not infinity or NaN, which click accepts as numbers; `unit` is what it counts."""

    def __init__(self, unit: str = "", **limits: Any) -> None:
        super().__init__(**limits)
        self._what = f"a number{f' of {unit}' if unit else ''}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        return _converted(self, click.FLOAT, self._what, value, param, ctx)


class Whole(click.IntRange):
    """A whole number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        return _converted(self, click.INT, "a whole number", value, param, ctx)


class OneOf(click.Choice[str]):
    """One of some words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the error text."""
        *but_last, last = map(str, self.choices)
        return f"must be {', '.join(but_last)} or {last}, got {value!r:.80}"


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


def above_0(unit: str = "seconds") -> Number:
    """Return the type of an amount that must be above 0."""
    return Number(unit, min=0, min_open=True)


def _converted(
    kind: click.IntRange | click.FloatRange,
    simple: click.ParamType[Any],
    what: str,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    low, high = kind.min, kind.max
    try:
        number = simple.convert(value, param, ctx)
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
    raise click.BadParameter(f"must be {what}{limits}, got {value!r:.80}", ctx, param)
