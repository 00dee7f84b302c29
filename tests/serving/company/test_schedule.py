"""When schedules fire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from moothall.foundation.errors import ConfigError
from moothall.serving import Schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first(schedule: Schedule, moment: str, count: int) -> list[str]:
    found = islice(schedule.after(at(moment)), count)
    return [f"{each:%Y-%m-%dT%H:%M:%S}" for each in found]


@pytest.mark.parametrize(
    ("schedule", "moment", "times"),
    (
        (
            Schedule(every=600),
            "2026-01-31T23:55:00",
            ["2026-02-01T00:00:00", "2026-02-01T00:10:00"],
        ),
        (
            Schedule(every=600),
            "2026-02-01T00:00:00",
            ["2026-02-01T00:10:00", "2026-02-01T00:20:00"],
        ),
        (
            Schedule(cron="0 7 * * mon"),
            "2026-11-24T00:00:00",
            ["2026-11-30T07:00:00", "2026-12-07T07:00:00"],
        ),
        (
            Schedule(cron="0 7 * * *", timezone="Europe/Berlin"),
            "2026-03-28T00:00:00",  # the clocks go forward on the 29th
            ["2026-03-28T06:00:00", "2026-03-29T05:00:00"],
        ),
        (
            Schedule(cron="30 2 * * *", timezone="Europe/Berlin"),
            "2026-03-28T12:00:00",  # on the 29th there is no 2:30
            ["2026-03-29T01:00:00", "2026-03-30T00:30:00"],
        ),
        (
            Schedule(cron="30 2 * * *", timezone="Europe/Berlin"),
            "2026-10-24T12:00:00",  # on the 25th there are two
            ["2026-10-25T00:30:00", "2026-10-26T01:30:00"],
        ),
        (
            Schedule(cron="0 */2 * * *", timezone="Australia/Lord_Howe"),
            "2026-04-04T13:00:00",  # at 2:00 the clocks go back by half an hour
            ["2026-04-04T15:30:00", "2026-04-04T17:30:00"],
        ),
        (
            Schedule(cron="45 * * * *", timezone="Australia/Lord_Howe"),
            "2026-04-04T14:00:00",  # there are two 1:45, half an hour apart
            ["2026-04-04T14:45:00", "2026-04-04T15:15:00"],
        ),
        (
            Schedule(cron="*/20 2 * * *", timezone="Australia/Lord_Howe"),
            "2026-10-03T14:00:00",  # at 2:00 the clocks go forward to 2:30
            ["2026-10-03T15:40:00", "2026-10-04T15:00:00"],
        ),
    ),
)
def test_schedule_fires_at_its_times(schedule: Schedule, moment: str, times: list[str]) -> None:
    assert first(schedule, moment, 2) == times
    for each in map(at, times):
        assert schedule.latest(at(moment), each + timedelta(seconds=59)) == each


@pytest.mark.parametrize("rule", ({"every": 3600.0}, {"cron": "0 * * * *"}))
@pytest.mark.parametrize(("missed", "hours"), (("skip", []), ("once", [5]), ("all", [3, 4, 5])))
def test_schedule_makes_up_for_missed_times_by_its_rule(
    rule: dict[str, Any], missed: Any, hours: list[int]
) -> None:
    schedule = Schedule(missed=missed, **rule)
    due = schedule.due(at("2026-05-01T02:00:00"), at("2026-05-01T05:00:00"))
    assert [each.hour for each in due] == hours
    assert schedule.due(at("2026-05-01T02:00:00"), at("2026-05-01T02:59:59.9")) == []


def test_latest_time_is_that_of_the_moment_itself() -> None:
    for schedule in (Schedule(every=60), Schedule(cron="* * * * *")):
        moment = at("2026-05-01T05:07:00")
        assert schedule.latest(at("2026-05-01T00:00:00"), moment) == moment
        assert schedule.latest(moment, moment) is None


@pytest.mark.parametrize(
    ("given", "told"),
    (
        ({}, "either every or cron"),
        ({"every": 5, "cron": "* * * * *"}, "either every or cron"),
        ({"every": 0}, "every must be 0.01"),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "* * * *"}, "five fields"),
        ({"cron": "* * * * * *"}, "five fields"),
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"cron": "0 0 * * */20"}, None),
        ({"every": 5, "timezone": "Berlin"}, "the name of a time zone"),
        ({"every": 5, "timezone": "../../etc/passwd"}, "the name of a time zone"),
        ({"every": 5, "missed": "twice"}, "missed must be"),
    ),
)
def test_schedule_refuses_what_is_no_time(given: dict[str, Any], told: str | None) -> None:
    if told is None:
        Schedule(**given)
        return
    with pytest.raises(ConfigError, match=told):
        Schedule(**given)


@pytest.mark.parametrize("every", (0.01, 0.05, 0.1, 0.2, 0.3, 1 / 3, 0.7, 1, 60.1, 86400))
def test_schedule_of_any_interval_comes_to_each_time_once(every: float) -> None:
    schedule = Schedule(every=every)
    last = next(schedule.after(datetime(2026, 11, 25, 12, 20, 55, 600000, tzinfo=UTC)))
    for _ in range(2000):
        following = next(schedule.after(last))
        assert abs((following - last).total_seconds() - every) <= 2e-6
        assert schedule.latest(last, following) == following
        assert schedule.latest(last, following - timedelta(microseconds=1)) is None
        last = following


@pytest.mark.parametrize("schedule", (Schedule(every=60), Schedule(cron="0 7 * * *")))
@pytest.mark.parametrize("moment", (datetime(2026, 5, 1), 1.5))
def test_schedule_refuses_a_moment_without_a_time_zone(schedule: Schedule, moment: Any) -> None:
    told = "moment must be a datetime with a time zone, got"
    with pytest.raises(ConfigError, match=told):
        next(schedule.after(moment))
    with pytest.raises(ConfigError, match=told):
        schedule.due(moment, datetime(2026, 5, 2, tzinfo=UTC))
    with pytest.raises(ConfigError, match=told):
        schedule.latest(datetime(2026, 5, 1, tzinfo=UTC), moment)
