"""What a supervisor does with work that raises."""

from __future__ import annotations

import asyncio
import time

import pytest

from moothall.foundation.errors import ConfigError, DefinitionError, GivenUp
from moothall.serving import Restart, Supervised, Supervisor

QUICK = Restart(first=0.001, longest=0.004)


class Work:
    """Raises so many times, then returns."""

    def __init__(self, deaths: int, runs: bool = True) -> None:
        self.deaths = deaths
        self.runs = runs
        self.times: list[float] = []

    async def __call__(self, part: Supervised) -> None:
        self.times.append(time.monotonic())
        if self.runs:
            part.running()
        if part.deaths < self.deaths:
            raise ConnectionError(f"death {part.deaths + 1}")


def test_supervisor_calls_work_again_until_it_returns() -> None:
    states: list[str] = []
    supervisor = Supervisor(QUICK, changed=lambda part: states.append(part.state))
    work = Work(2)
    asyncio.run(supervisor.keep("line", work))
    part = supervisor.parts["line"]
    assert len(work.times) == 3
    assert (part.deaths, part.restarts, part.error) == (2, 2, "ConnectionError: death 2")
    assert states == [
        *("starting", "running", "waiting") * 2,
        *("starting", "running", "stopped"),
    ]


def test_supervisor_gives_up_after_most_restarts_within_the_time() -> None:
    supervisor = Supervisor(Restart(most=3, first=0.001))
    work = Work(100)
    with pytest.raises(GivenUp, match=r"'line' died 4 times .*: ConnectionError: death 4") as given:
        asyncio.run(supervisor.keep("line", work))
    assert isinstance(given.value.__cause__, ConnectionError)
    assert len(work.times) == 4
    assert supervisor.parts["line"].state == "given up"


def test_supervisor_does_not_give_up_on_deaths_that_are_far_apart() -> None:
    supervisor = Supervisor(Restart(most=1, within=0, first=0.002))
    asyncio.run(supervisor.keep("line", Work(5)))
    assert supervisor.parts["line"].deaths == 5


def test_supervisor_waits_twice_as_long_each_time_and_no_longer_than_the_longest() -> None:
    rule = Restart(first=1.0, longest=5.0)
    for deaths, most in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (500, 5.0)):
        delays = [rule.delay(deaths) for _ in range(300)]
        assert 0.5 * most <= min(delays) < 0.6 * most
        assert 0.9 * most < max(delays) <= most


def test_supervisor_waits_the_longer_the_more_often_work_has_died_in_a_row() -> None:
    work = Work(5)
    asyncio.run(Supervisor(Restart(first=0.02, longest=10)).keep("line", work))
    assert work.times[-1] - work.times[-2] >= 0.16  # the fifth delay


def test_supervisor_begins_anew_after_work_that_was_steady() -> None:
    work = Work(5)
    rule = Restart(first=0.02, longest=10, steady=0)
    asyncio.run(Supervisor(rule).keep("line", work))
    gaps = [after - before for before, after in zip(work.times, work.times[1:], strict=False)]
    assert all(gap >= 0.01 for gap in gaps)
    assert gaps[-1] < 0.16  # doubled each time, the fifth delay would be 0.16 to 0.32 s


def test_supervisor_does_not_count_work_that_never_ran_as_started_again() -> None:
    supervisor = Supervisor(QUICK)
    asyncio.run(supervisor.keep("line", Work(2, runs=False)))
    assert supervisor.parts["line"].restarts == 0


async def test_supervisor_cancelled_stops_its_work() -> None:
    ended: list[str] = []

    async def work(part: Supervised) -> None:
        try:
            part.running()
            await asyncio.Event().wait()
        finally:
            ended.append(part.name)

    supervisor = Supervisor()
    task = asyncio.create_task(supervisor.keep("line", work))
    await asyncio.sleep(0)
    with pytest.raises(DefinitionError, match="supervised already"):
        await supervisor.keep("line", work)
    task.cancel()
    await asyncio.wait((task,))
    assert supervisor.parts["line"].state == "stopped"
    assert ended == ["line"]


def test_restart_has_these_defaults_and_limits() -> None:
    assert Restart() == Restart(most=5, within=600.0, first=0.2, longest=30.0, steady=60.0)
    assert Restart(most=0, within=0, first=0, longest=1e6, steady=1_000_000)


@pytest.mark.parametrize(
    "wrong",
    ({"most": -1}, {"first": -1}, {"longest": "5s"}, {"within": True}, {"steady": 1_000_001}),
)
def test_restart_refuses_what_is_no_rule(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"Restart: {next(iter(wrong))}= must be"):
        Restart(**wrong)  # type: ignore[arg-type]
