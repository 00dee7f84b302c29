"""Simulated time: a start, steps of one length, and how many of them have passed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moothall import ConfigError
from moothall.build import check_integer, excerpt

DAY_S = 86_400
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": DAY_S}
_LENGTH = re.compile(r"([0-9]{1,12}) ?(s|min|h|d)", re.ASCII)


def seconds_of(length: str | timedelta | int, label: str = "step") -> int:
    """Return a length of time in whole seconds, above 0; an error names it as `label`."""
    seconds: object = length
    if isinstance(length, timedelta):
        seconds = length // timedelta(seconds=1) if not length.microseconds else None
    elif isinstance(length, str):
        match = _LENGTH.fullmatch(length.strip())
        seconds = int(match[1]) * _UNITS[match[2]] if match else None
    if type(seconds) is not int or seconds <= 0:
        text = str(length) if isinstance(length, timedelta) else excerpt(length)
        raise ConfigError(
            f"{label} must be a length of time in whole seconds, above 0, such as '15min', '30s', "
            f"'1h' or '1d', got {text}"
        )
    return seconds


@dataclass(frozen=True, init=False)
class Clock:
    """A moment of simulated time. It never changes: `after` and `at` give other moments.

    Args:
        start: the first moment, in ISO 8601 without a time zone, or a datetime without one
        step: how long a step is: `30s`, `15min`, `1h`, `1d`, a timedelta, or seconds
        index: how many steps of this length have passed since the start
        before: how many seconds had passed before the first of them
        spans: how many steps of which length, in seconds, these were, in order; () if not known

    Attributes:
        start: the first moment (datetime)
        step_s: the length of a step in seconds
        index: how many steps of this length have passed
        before: seconds that passed in steps of other lengths
        spans: these steps: pairs of a number of steps and their length

    Raises:
        ConfigError: an argument is wrong, or the moment is after the year 9999.
    """

    start: datetime
    step_s: int
    index: int
    before: int
    spans: tuple[tuple[int, int], ...]

    def __init__(
        self,
        start: str | datetime = "2026-01-05T00:00",
        step: str | timedelta | int = "15min",
        index: int = 0,
        before: int = 0,
        spans: Iterable[Iterable[int]] = (),
    ) -> None:
        check_integer("before", before, 0)
        try:
            pairs = tuple((count, length) for count, length in spans)
        except (TypeError, ValueError):
            raise ConfigError(f"spans must be pairs of numbers, got {excerpt(spans)}") from None
        self._set(_moment(start), seconds_of(step), index, before, pairs)

    def _set(
        self,
        start: datetime,
        step_s: int,
        index: int,
        before: int,
        spans: tuple[tuple[int, int], ...],
    ) -> None:
        check_integer("a number of steps", index, 0)
        self.__dict__.update(start=start, step_s=step_s, index=index, before=before, spans=spans)
        try:
            _ = self.moment
        except OverflowError:
            raise ConfigError(
                f"step {index} of {step_s} s from {start.isoformat()} is after the year 9999: "
                "take fewer or shorter steps"
            ) from None

    def at(self, index: int) -> Clock:
        """Return the moment at which `index` steps of this length have passed."""
        clock = Clock.__new__(Clock)
        clock._set(self.start, self.step_s, index, self.before, self.spans)
        return clock

    def with_step(self, step_s: int) -> Clock:
        """Return this moment, after which steps are so many seconds long."""
        spans = (*self.spans, (self.index, self.step_s)) if self.index else self.spans
        return Clock(self.start, step_s, 0, self.elapsed, spans)

    def after(self, steps: int = 1) -> Clock:
        """Return the moment `steps` steps after this one."""
        check_integer("a number of steps", steps, 0)
        return self.at(self.index + steps)

    def steps_in(self, length: str | timedelta | int) -> int:
        """Return how many steps a length of time has.

        Raises:
            ConfigError: `length` is not a length of time, or not a whole number of steps.
        """
        seconds = seconds_of(length, "length")
        if seconds % self.step_s:
            raise ConfigError(f"{seconds} s are not a whole number of steps of {self.step_s} s")
        return seconds // self.step_s

    def as_json(self) -> list[Any]:
        """Return the arguments that make this clock, as JSON data."""
        spans = [self.spans] if self.spans else []
        return [self.start.isoformat(), self.step_s, self.index, self.before, *spans]

    def seconds_ago(self, steps: int) -> int:
        """Return how many seconds the last `steps` steps have taken, of whatever lengths."""
        seconds = 0
        for count, length in ((self.index, self.step_s), *reversed(self.spans)):
            counted = min(steps, count)
            seconds, steps = seconds + counted * length, steps - counted
        return seconds + steps * self.step_s

    @functools.cached_property
    def elapsed(self) -> int:
        """Seconds since the start."""
        return self.before + self.index * self.step_s

    @functools.cached_property
    def moment(self) -> datetime:
        """The date and time."""
        return self.start + timedelta(seconds=self.elapsed)

    @functools.cached_property
    def time(self) -> int:
        """Seconds since midnight: 0 … 86,399."""
        start = self.start
        return (start.hour * 3600 + start.minute * 60 + start.second + self.elapsed) % DAY_S

    @functools.cached_property
    def day(self) -> int:
        """How many midnights have passed since the start: 0 on the first day."""
        start = self.start
        return (start.hour * 3600 + start.minute * 60 + start.second + self.elapsed) // DAY_S

    @property
    def hour(self) -> int:
        """The hour of the day: 0 … 23."""
        return self.time // 3600

    @property
    def weekday(self) -> int:
        """The day of the week: 0 is Monday, 6 Sunday."""
        return (self.start.weekday() + self.day) % 7

    @property
    def is_weekend(self) -> bool:
        """Whether it is Saturday or Sunday."""
        return self.weekday >= 5

    def __str__(self) -> str:
        return f"{WEEKDAYS[self.weekday]} {self.moment:%Y-%m-%d %H:%M:%S}"


def _moment(start: object) -> datetime:
    value = start
    if isinstance(start, str):
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            start = None
    if not isinstance(start, datetime) or start.tzinfo is not None or start.microsecond:
        text = value.isoformat() if isinstance(value, datetime) else excerpt(value)
        raise ConfigError(
            "start must be a date and time in whole seconds without a time zone, such as "
            f"'2026-01-05T00:00', got {text}"
        )
    return start
