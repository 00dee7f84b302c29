"""The times of a schedule: at a fixed interval, or by a cron expression."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice, takewhile
from typing import Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

from moothall import ConfigError, MissingExtra

Missed: TypeAlias = Literal["skip", "once", "all"]
"""Which of the missed times fire later; a time is missed if it passes while no process runs."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_CLOCK_CHANGE: Final = timedelta(hours=3)
"""So much a clock goes back at most."""

MAX_TIMES: Final = 1000
"""The most missed times that fire later."""


@dataclass(frozen=True)
class Schedule:
    """The times of a schedule.

    Args:
        every: seconds between two firings; they are at multiples of it since 1970 in UTC, so that
            all processes agree on the times
        cron: a cron expression of five fields, as Debian's cron reads it, instead of `every`
        timezone: the time zone of `cron`, such as `Europe/Berlin`. A time that daylight saving
            leaves out fires right after the gap, one that comes twice fires once
        missed: what to do about times that passed while no process ran: `skip` them, fire `once`,
            for the last one, or fire for `all`, a thousand at most

    Raises:
        ConfigError: an argument is not valid
        MissingExtra: `cron` needs the extra `company`
    """

    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    missed: Missed = "once"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.every is None) is (self.cron is None):
            raise ConfigError("a schedule needs either every or cron")
        if self.every is not None and (
            type(self.every) not in (int, float) or not 0.01 <= self.every <= 1e8
        ):
            raise ConfigError(f"every must be 0.01 to 1e8 seconds, got {self.every!r:.80}")
        if self.missed not in ("skip", "once", "all"):
            raise ConfigError(f"missed must be skip, once or all, got {self.missed!r:.80}")
        try:
            object.__setattr__(self, "_zone", ZoneInfo(self.timezone))
        except (ValueError, LookupError, OSError, TypeError):
            raise ConfigError(
                f"timezone must be the name of a time zone, such as Europe/Berlin, "
                f"got {self.timezone!r:.80}"
            ) from None
        if self.cron is not None:
            self._check_cron()

    @property
    def times(self) -> str:
        """What its times follow, as text: another one means other times."""
        return f"every {self.every} s" if self.cron is None else f"{self.cron} {self.timezone}"

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times of the firings after a moment, in UTC, in order."""
        _check_moment(moment)
        if self.every is not None:
            number = self._interval_number(moment) + 1
            while True:
                yield self._time_of_interval(number)
                number += 1
        yield from (
            at for each in self._cron_times(moment) if (at := each.astimezone(UTC)) > moment
        )

    def due(self, last: datetime, now: datetime) -> list[datetime]:
        """Return the times after `last` up to `now` at which to fire, by the rule for missed ones.

        If a firing's time is exactly `now`, it is not missed; the caller excludes it by `last`.
        """
        if self.missed == "all":
            times: list[datetime] = []
            for at in islice(self.after(last), MAX_TIMES):
                if at > now:
                    break
                times.append(at)
            return times
        if self.missed == "skip":
            return []
        latest = self.latest(last, now)
        return [] if latest is None else [latest]

    def latest(self, last: datetime, now: datetime) -> datetime | None:
        """Return the last firing after `last` and up to `now`, or None."""
        _check_moment(last)
        _check_moment(now)
        if self.every is not None:
            at = self._time_of_interval(self._interval_number(now))
            return at if last < at <= now else None
        since, hours, latest = now, 1, None
        while latest is None and since > last:  # the nearest first: a cron may fire each minute
            since = max(last, now - timedelta(hours=hours))
            latest = max(takewhile(now.__ge__, self.after(since)), default=None)
            hours *= 24
        return latest

    def _time_of_interval(self, number: int) -> datetime:
        """Return the time of a firing, which the number of intervals since 1970 names."""
        return _EPOCH + timedelta(microseconds=round(number * self._microseconds()))

    def _interval_number(self, moment: datetime) -> int:
        """Return the number of the last firing up to a moment, in exact arithmetic."""
        since = (moment - _EPOCH) // timedelta(microseconds=1)
        number = math.floor(since / self._microseconds())
        # A time is a whole number of microseconds, which may lie before the multiple itself.
        return number + 1 if self._time_of_interval(number + 1) <= moment else number

    def _microseconds(self) -> Fraction:
        return Fraction(repr(self.every)) * 1_000_000

    def _cron_times(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times of `cron` after a moment, and perhaps some before it, in order."""
        from cronsim import CronSim

        assert self.cron is not None
        local_time = moment.astimezone(self._zone)
        cron_times = CronSim(self.cron, local_time)
        if cron_times.fixup_tz is not None:  # at set times of the day, each once a day
            yield from cron_times
            return
        # CronSim leaves times out where a clock changes by half an hour, so it gets none here.
        second_times: deque[datetime] = deque()
        for wall_time in CronSim(
            self.cron, local_time.replace(tzinfo=None) - _LONGEST_CLOCK_CHANGE
        ):
            first, second = (
                wall_time.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1)
            )
            while second_times and second_times[0] < first:
                yield second_times.popleft()
            if first <= second:  # else the clock leaves it out
                yield first
            if first < second:
                second_times.append(second)

    def _check_cron(self) -> None:
        MissingExtra.unless("a schedule with cron", "company", "cronsim")
        from cronsim import CronSimError

        if not isinstance(self.cron, str) or len(self.cron.split()) != 5:
            raise ConfigError(
                "cron must be five fields: minute, hour, day of the month, month and day of the "
                f'week, such as "0 7 * * mon", got {self.cron!r:.80}'
            )
        try:
            first = next(self._cron_times(datetime(2024, 1, 1, tzinfo=UTC)), None)
        except CronSimError as error:
            raise ConfigError(f"cron {self.cron!r:.80}: {str(error).lower()}") from None
        if first is None:
            raise ConfigError(f"cron {self.cron!r:.80} never fires")


def _check_moment(moment: object) -> None:
    """Raise ConfigError unless a moment is the same everywhere."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigError(f"moment must be a datetime with a time zone, got {moment!r:.80}")


def time_text(at: datetime) -> str:
    """Return a firing's time as the id of its run has it: `2026-11-24T07:00:00Z`."""
    text = at.astimezone(UTC).isoformat(timespec="auto" if at.microsecond else "seconds")
    return text.replace("+00:00", "Z")
