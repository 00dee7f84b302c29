"""Events of services: at their own times, in one order, saved; queues wait as Erlang says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from examples.models.waiting import Counter

from moothall import Journal, Society
from moothall.foundation.errors import ConfigError, DefinitionError, StateError
from moothall.society import Answer, Buy, EventService


class Bell(EventService):
    """Notes when it rings, and what for."""

    takes = (Buy,)

    def __init__(self) -> None:
        super().__init__("bell")
        self.rung: list[Any] = []

    def ring(self, books: Any, why: str = "", again_s: float = 0, pays: int = 0) -> None:
        self.rung.append([self.now, books.step, why])
        if again_s:
            self.after(again_s, "ring", why="again", again_s=again_s)
        if pays and (failed := books.pay("bell", "nobody", pays)):
            raise ValueError(failed)

    async def toll(self, books: Any) -> None:
        """Ring, if anybody awaited it."""

    def settle(self, books: Any, sender: str, want: Any) -> Answer:
        self.after(0.5, "ring", why="bought")
        return Answer(want, True)


async def rings(step: str | int, steps: int, *, at: Any = ()) -> list[Any]:
    bell = Bell()
    for time, args in at:
        bell.at(time, "ring", **args)
    async with Society(services=[bell]) as society:
        await society.run(steps=steps, step=step)
    return bell.rung


async def test_events_run_by_time_then_by_scheduling_in_the_step_that_has_their_time() -> None:
    at = [
        (90.5, {"why": "late"}),
        (0, {"why": "first"}),
        (59.999, {"why": "old"}),
        (60, {"why": "next"}),
        (60.0, {"why": "after"}),
        (180, {"why": "never"}),
    ]
    assert await rings(60, 3, at=at) == [
        [0.0, 0, "first"],
        [59.999, 0, "old"],
        [60.0, 1, "next"],
        [60.0, 1, "after"],
        [90.5, 1, "late"],
    ]


async def test_event_schedules_others_in_its_own_step_whatever_the_length_of_steps() -> None:
    at = [(10, {"again_s": 25})]
    minutes = await rings("1min", 60, at=at)
    hour = await rings("1h", 1, at=at)
    assert [each[0] for each in hour] == [10 + 25.0 * n for n in range(144)]
    assert [each[0] for each in minutes] == [each[0] for each in hour]
    assert minutes[-1][1] == 59


async def test_events_of_a_state_and_of_a_resumed_run_come_as_without_it(journal: Journal) -> None:
    def counter() -> Counter:
        return Counter(3, arrive=30, serve=12, servers=3)

    async with Society(services=[counter()]) as whole, Society(services=[counter()]) as other:
        await whole.run(steps=20, step="7min")
        other.load_state_dict(whole.state_dict())
        for each in (whole, other):
            await each.run(steps=30, step="7min")
        state = whole.state_dict()
        assert other.state_dict() == state
        assert whole.services["counter"].came > 100  # type: ignore[attr-defined]

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 37:
            raise KeyError

    options: Any = {"steps": 50, "step": "7min", "run_id": "r", "save_every": 10}
    async with Society(services=[counter()], journal=journal) as cut:
        with pytest.raises(KeyError):
            await cut.run(**options, progress=stop)
    async with Society(services=[counter()], journal=journal) as resumed:
        await resumed.run(**options)
        assert resumed.state_dict() == state


async def test_event_that_fails_ends_the_run_and_names_the_service() -> None:
    with pytest.raises(StateError, match=r"service 'bell', after_step of step 1: .*nobody"):
        await rings("1min", 5, at=[(61, {"pays": 5})])


@pytest.mark.parametrize(
    ("schedule", "text"),
    (
        (lambda bell: bell.at(-1, "ring"), "time must be a number of seconds from 0.0"),
        (lambda bell: bell.at(math.nan, "ring"), "time must be a number of seconds"),
        (lambda bell: bell.at(math.inf, "ring"), "time must be a number of seconds"),
        (lambda bell: bell.at("08:00", "ring"), 'got "08:00"'),
        (
            lambda bell: bell.at(1, "rings"),
            'must be the name of a plain method of Bell, got "rings"',
        ),
        (lambda bell: bell.at(1, bell.ring), "must be the name of a plain method of Bell"),
        (lambda bell: bell.at(1, "toll"), 'must be the name of a plain method of Bell, got "toll"'),
        (lambda bell: bell.at(1, "ring", why={1}), "arguments must be JSON data"),
    ),
)
def test_event_that_cannot_be_is_refused(schedule: Any, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedule(Bell())
    assert text in str(refused.value)


def test_event_service_with_a_state_of_its_own_is_refused() -> None:
    with pytest.raises(DefinitionError, match="Own must not define state_dict"):

        class Own(EventService):
            def state_dict(self) -> dict[str, Any]:
                return {}


def erlang_c_wait_s(arrive: float, serve: float, servers: int) -> float:
    """The mean wait of M/M/c in seconds, by Erlang's formula C; rates by the hour."""
    load = arrive / serve
    all_busy = load**servers / math.factorial(servers) * servers / (servers - load)
    some = sum(load**k / math.factorial(k) for k in range(servers))
    return 3600 * all_busy / (all_busy + some) / (servers * serve - arrive)


@pytest.mark.parametrize(
    ("arrive", "serve", "servers"), ((30, 60, 1), pytest.param(60, 20, 5, marks=pytest.mark.long))
)
async def test_queue_waits_as_long_as_erlang_says(
    arrive: float, serve: float, servers: int
) -> None:
    counter = Counter(7, arrive=arrive, serve=serve, servers=servers)
    async with Society(services=[counter]) as society:
        await society.run(days=40, step="1h")
    assert abs(counter.came / (40 * 24 * arrive) - 1) < 0.03
    assert counter.mean_wait_s == pytest.approx(erlang_c_wait_s(arrive, serve, servers), rel=0.1)
