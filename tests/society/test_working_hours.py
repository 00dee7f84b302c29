"""When people are at work: the shares by the hour are those of the sources."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from moothall.society import City, PlanBlock, Population, Society, all_blocks

CITIZENS = 1500
HOUR = 3600
SURVEYED = 50_000
# Census 2000, table P31: of 1,000 workers, who leave home in the half hours from 6:00 to 9:00, and
# in the hour from then.
LEAVE = np.repeat([84 / 2, 104 / 2, 145 / 2, 153 / 2, 105 / 2, 51 / 2, 53 / 4, 53 / 4], 2)
MONDAY, SATURDAY = "2026-01-05", "2026-01-10"


async def planned(start: str) -> tuple[Any, list[dict[str, Any]], Any]:
    """Return all ages, the statuses of those with work in the first step, and the row at noon."""
    city = City.generate(seed=7, citizens=CITIZENS)
    population = Population(CITIZENS, city, all_blocks(), seed=7)
    async with Society(population, start=f"{start}T00:00") as society:
        await society.run(steps=1)
        statuses = [population.status_of(row) for row in range(CITIZENS)]
        rows = await society.run(steps=48) if start == MONDAY else [None]
    return population.arrays["age"], [each for each in statuses if each.get("work")], rows[-1]


def share_at(statuses: list[dict[str, Any]], time: float, do: str = "work") -> float:
    """Who of them does that at a time of the day, by plan."""
    does = (
        any(i["do"] == do and i["from"] <= time * HOUR < i["until"] for i in each["plan"])
        for each in statuses
    )
    return float(np.mean([*does]))


@pytest.fixture(scope="module")
def monday() -> tuple[Any, list[dict[str, Any]], Any]:
    return asyncio.run(planned(MONDAY))


async def test_working_hours_have_most_of_the_employed_at_eleven_on_a_weekday_and_few_at_three(
    monday: tuple[Any, list[dict[str, Any]], Any],
) -> None:
    ages, employed, _ = monday
    assert 0.43 < len(employed) / len(ages) < 0.52  # Current Population Survey 2022: 47 of 100
    weekday = share_at(employed, 11)
    _, others, _ = await planned(SATURDAY)
    everybody = len(employed) / (ages >= 15).sum()
    average = everybody * (5 * weekday + 2 * share_at(others, 11)) / 7
    # American Time Use Survey 2003 to 2007: 31 of 100 of 15 and older on an average day.
    assert 0.26 < average < 0.36
    assert 0.55 < weekday < 0.72
    assert share_at(employed, 12.25) < weekday  # they have lunch
    assert 0.003 < share_at(employed, 3) < 0.05
    assert 0.02 < share_at(employed, 20) < 0.15


async def test_people_are_at_work_when_the_census_has_them_there(
    monday: tuple[Any, list[dict[str, Any]], Any],
) -> None:
    _, employed, _ = monday
    first = [
        next(
            (i["from"] for i in each["plan"] if (i["do"], i["where"]) == ("work", each["work"])), -1
        )
        for each in employed
    ]
    there = np.array([time for time in first if time > 0]) / HOUR
    # Census 2000: 20 of 100 leave home before 6:30 and 53 until 8:29, for 26 minutes.
    assert 0.15 < (there < 7).mean() < 0.25
    assert 0.47 < ((there >= 7) & (there < 9)).mean() < 0.59
    assert 0.08 < (there >= 12).mean() < 0.2


async def test_metrics_count_who_works_at_home_too(
    monday: tuple[Any, list[dict[str, Any]], Any],
) -> None:
    _, employed, noon = monday
    assert noon["work"] < noon["working"] < len(employed)
    assert 0.5 < noon["working"] / len(employed) < 0.72
    # American Time Use Survey 2022: 69 of 100 of those who work on a day are at their workplace.
    assert 0.3 < noon["work"] / len(employed) < 0.55


async def test_departures_by_survey_are_the_census_at_each_quarter_of_an_hour_from_six_to_ten() -> (
    None
):
    city, by_survey = City.generate(seed=11, citizens=SURVEYED), {"departures": "survey"}
    blocks = [
        PlanBlock(block_params=by_survey) if isinstance(each, PlanBlock) else each
        for each in all_blocks()
    ]
    population = Population(SURVEYED, city, blocks, seed=11)
    arrays, counts = population.arrays, []
    has_left = np.zeros(SURVEYED, bool)
    async with Society(population, start=f"{MONDAY}T00:00") as society:
        for _ in range(40):
            await society.run(steps=1, step="15min")
            goes = (arrays["work"] == arrays["place"]) | (arrays["work"] == arrays["moving_to"])
            goes &= arrays["work"] >= 0
            counts.append((goes & ~has_left).sum())
            has_left |= goes
    shares = np.array(counts[24:]) / sum(counts[24:])
    assert np.abs(shares / (LEAVE / LEAVE.sum()) - 1).max() < 0.15
