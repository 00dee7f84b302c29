"""A day in a town with all blocks, firms, a bank, a government and a feed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moothall import Journal
from moothall.society import City, Society
from moothall.society.services.economy import make_economy
from moothall.society.services.feed import Feed
from society.life import Shuffled, state_of

CITIZENS = 60


def town(city: City, **options: Any) -> Society:
    return Society(
        CITIZENS,
        city,
        seed=2,
        services=[*make_economy(city, seed=2), Feed()],
        start="2026-01-05T06:00",
        **options,
    )


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=2, citizens=CITIZENS)


async def lived(city: City, **options: Any) -> tuple[bytes, str, list[dict[str, Any]]]:
    """What a day comes to: the state, every message, the metrics."""
    shown: list[Any] = []
    async with town(city, **options) as society:
        society.observe(shown.append)
        rows = await society.run(days=1)
        return state_of(society), json.dumps(shown), rows


async def test_town_day_is_the_same_in_whatever_order_citizens_have_their_turns(city: City) -> None:
    state, shown, rows = await lived(city)
    assert [row["failures"] for row in rows] == [0] * 96
    assert len({row["money"] for row in rows}) == 1
    assert sum(row["moving"] for row in rows) > CITIZENS
    assert sum(row["messages"] for row in rows) > 0
    assert max(row["work"] for row in rows) > 5
    assert max(row["home"] for row in rows) > CITIZENS // 2
    assert (state, shown) == (await lived(city, engine=Shuffled(1)))[:2]


async def test_town_day_that_stops_at_noon_continues_to_the_same_evening(
    city: City, journal: Journal
) -> None:
    class Stop(Exception):
        pass

    def stop(row: Any) -> None:
        if row["step"] == 30:
            raise Stop

    whole = await lived(city)
    async with town(city, journal=journal) as society:
        with pytest.raises(Stop):
            await society.run(days=1, run_id="R", save_every=12, progress=stop)
    async with town(city, journal=journal) as society:
        rows = await society.run(days=1, run_id="R", save_every=12)
        assert rows == whole[2]
        assert state_of(society) == whole[0]


async def test_days_and_posts_go_on_where_the_length_of_a_step_changes(city: City) -> None:
    feed = Feed()
    async with Society(CITIZENS, city, seed=2, services=[feed]) as society:
        for day, step in enumerate(("1h", "30min", "90min")):
            await society.run(days=1, step=step)
            assert {each.status["day"] for each in society.agents} == {day}
            assert {each.status["paid_day"] for each in society.agents} == {day}
        times = [each.posted for each in feed.posts.values()]
    assert times == sorted(times)
    assert times[-1] < society.clock.elapsed == 3 * 86_400
