"""Global facts, and the weather."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import Facts, Society, Weather
from moothall.society.clock import Clock


def test_facts_never_change() -> None:
    given = {"tax": 0.1, "closed": ["park"]}
    facts = Facts(given, mayor="Ada")
    given["closed"].append("school")  # type: ignore[attr-defined]
    facts["closed"].append("shop")
    assert dict(facts) == {"closed": ["park"], "mayor": "Ada", "tax": 0.1}
    assert list(facts) == ["closed", "mayor", "tax"]
    with pytest.raises(KeyError):
        facts["nothing"]
    with pytest.raises(TypeError):
        facts["tax"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("values", "text"),
    (
        ({"tax": math.nan}, "facts.tax: nan is not JSON"),
        ({"a": {"b": object()}}, "facts.a.b: object is not JSON"),
        ({"a": "\ud800"}, "facts.a: a lone surrogate"),
        ({"": 1}, "facts: a name must be 1–255 printable characters"),
        ({3: 1}, "facts: a name must be 1–255 printable characters, got 3"),
    ),
)
def test_facts_are_json_by_name(values: dict[Any, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Facts(values)
    assert text in str(caught.value)


def test_weather_of_a_day_is_the_same_whenever_it_is_asked_for() -> None:
    clock = Clock(step="1h")
    late = Weather(3).day(clock.at(24 * 200))
    weather = Weather(3)
    days = [weather.day(clock.at(24 * day)) for day in range(201)]
    assert days[200] == late
    assert days != [Weather(4).day(clock.at(24 * day)) for day in range(201)]


def test_weather_of_a_seed_is_that_of_every_platform() -> None:
    weather, clock = Weather(3), Clock("2023-12-30", "1d")
    days = [weather.day(clock.at(day)) for day in (0, 1, 2, 3, 366, 367, 368)]
    assert [(day.rain, day.low, day.high) for day in days] == [
        *((True, -12, 38), (False, -42, 48), (True, -12, 38), (False, -17, 73)),
        *((False, -38, 52), (False, -6, 84), (False, -27, 63)),  # 2024 has 366 days
    ]


def test_weather_temperature_rises_from_the_low_to_the_high() -> None:
    weather, clock = Weather(3), Clock(step="1h")
    day = weather.day(clock)
    hours = [weather.temperature(clock.at(hour)) for hour in range(24)]
    assert (hours[3], hours[15]) == (day.low, day.high)
    assert hours[3:16] == sorted(hours[3:16])
    assert hours[15:] == sorted(hours[15:], reverse=True)
    assert weather.facts(clock)["weather"] == {"rain": day.rain, "temperature": hours[0]}


def test_weather_over_the_years_is_the_stated_climate() -> None:
    weather, clock = Weather(11), Clock("2001-01-01", "1d")
    years = 20
    days = [(clock.at(n).moment.month, weather.day(clock.at(n))) for n in range(365 * years)]
    wet = [day.rain for _, day in days]
    # A chain's days are not independent: 2.1 days count as one ((1 + r) / (1 − r), r = 0.35).
    assert abs(sum(wet) / len(wet) - 0.25 / 0.65) < 5 * math.sqrt(0.24 * 2.1 / len(wet))
    after_wet = [b for a, b in itertools.pairwise(wet) if a]
    assert abs(sum(after_wet) / len(after_wet) - 0.6) < 5 * math.sqrt(0.24 / len(after_wet))

    def mean(month: int) -> float:
        found = [(day.low + day.high) / 2 for each, day in days if each == month]
        return sum(found) / len(found)

    assert abs(mean(1) - 10) < 20
    assert abs(mean(7) - 190) < 20
    dry, rainy = ([d.high - d.low for _, d in days if d.rain is rain] for rain in (False, True))
    assert min(dry) > max(rainy)


def test_facts_of_a_society_that_are_no_json_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"facts\.a: object is not JSON"):
        Society(3, facts={"a": object()})
