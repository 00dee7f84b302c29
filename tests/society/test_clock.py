"""Simulated time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.foundation.errors import ConfigError
from moothall.society.clock import Clock, seconds_of


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    st.integers(1, 200_000),
    st.integers(0, 10_000),
)
def test_clock_time_is_the_calendars(start: datetime, step: int, index: int) -> None:
    start = start.replace(microsecond=0)
    now = Clock(start, step).at(index)
    moment = start + timedelta(seconds=step * index)
    assert now.moment == moment
    assert now.time == moment.hour * 3600 + moment.minute * 60 + moment.second
    assert now.day == (moment.date() - start.date()).days
    assert (now.weekday, now.hour) == (moment.weekday(), moment.hour)
    assert now.is_weekend == (moment.weekday() >= 5)
    assert now == Clock(start, step).after(index)
    assert now.after() == Clock(start, step, index + 1)


def test_clock_continues_from_steps_of_another_length() -> None:
    clock = Clock("2026-01-05T06:00", "2d", 1, before=30 * 3600).after()
    assert (clock.day, clock.time, clock.elapsed) == (5, 12 * 3600, 126 * 3600)
    assert str(clock) == "Saturday 2026-01-10 12:00:00"


def test_clock_knows_how_long_its_last_steps_have_taken() -> None:
    clock = Clock(step="1min").after(3).with_step(10).after(2).with_step(1).after(4)
    assert [clock.seconds_ago(steps) for steps in (4, 5, 6, 7, 9)] == [4, 14, 24, 84, 204]


def test_clock_begins_on_a_monday_and_never_changes() -> None:
    clock = Clock()
    assert str(clock.after(5)) == "Monday 2026-01-05 01:15:00"
    assert (clock.time, clock.day, clock.elapsed, clock.index) == (0, 0, 0, 0)
    assert clock.at(96).day == 1
    with pytest.raises(AttributeError):
        clock.index = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("length", "seconds"),
    (
        ("30s", 30),
        ("15min", 900),
        ("1 h", 3600),
        ("2d", 172_800),
        (timedelta(minutes=5), 300),
        (45, 45),
    ),
)
def test_lengths_of_time(length: str | timedelta | int, seconds: int) -> None:
    assert seconds_of(length) == seconds


@pytest.mark.parametrize(
    "length",
    (
        *("", "15", "min", "-1min", "0s", "1.5h", "15 minutes", "٣s", "1w", "9" * 40 + "s"),
        *(0, -5, 1.0, True, None),
        *(timedelta(0), timedelta(seconds=-1), timedelta(milliseconds=1500)),
    ),
)
def test_clock_wrong_step_is_refused(length: object) -> None:
    with pytest.raises(ConfigError, match="step must be a length of time in whole seconds"):
        Clock(step=length)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "start",
    (
        *("", "morgen früh", "2026-13-01", "2026-01-05T00:00Z", "2026-01-05T00:00:00.5"),
        *(5, None, datetime(2026, 1, 5, tzinfo=UTC)),
    ),
)
def test_clock_wrong_start_is_refused(start: object) -> None:
    with pytest.raises(ConfigError, match="start must be a date and time") as raised:
        Clock(start)  # type: ignore[arg-type]
    if isinstance(start, str):
        assert str(raised.value).endswith(f'got "{start}"')


@pytest.mark.parametrize("number", (-1, 1.0, True, None, "1"))
def test_steps_are_counted_from_0(number: int) -> None:
    for move in (Clock().at, Clock().after):
        with pytest.raises(ConfigError, match="a number of steps must be a whole number"):
            move(number)


def test_time_ends_with_the_calendar() -> None:
    with pytest.raises(ConfigError, match="after the year 9999"):
        Clock(step="1d").at(10**7)
    with pytest.raises(ConfigError, match="after the year 9999"):
        Clock(step="1d").at(10**40)


def test_clock_length_is_a_whole_number_of_steps() -> None:
    clock = Clock(step="15min")
    assert clock.steps_in("1d") == 96
    with pytest.raises(ConfigError, match="100 s are not a whole number of steps of 900 s"):
        clock.steps_in("100s")
    with pytest.raises(ConfigError, match="length must be a length of time"):
        clock.steps_in("a day")
