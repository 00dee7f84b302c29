"""A society that nobody holds ends by itself, whatever lives in it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import pytest

from moothall import Society
from moothall.society import CitizenAgent, City, Population, make_economy


def small() -> Society:
    city = City.generate(seed=1, citizens=20)
    return Society(20, city, seed=1, services=make_economy(city, seed=1))


MAKE: dict[str, Callable[[], Society]] = {
    "drawn citizens": small,
    "an agent": lambda: Society([CitizenAgent("a")]),
    "rows": lambda: Society(Population(20, City.generate(seed=1, citizens=20), seed=1)),
    "citizens in columns": lambda: Society(1000, City.generate(seed=1, citizens=1000)),
}


@pytest.mark.parametrize("what", MAKE)
def test_society_that_nobody_holds_ends_its_thread(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = {*threading.enumerate()}

    def left_open() -> list[threading.Thread]:
        MAKE[what]().run_sync(steps=2)
        made = {*threading.enumerate()} - before
        return [each for each in made if each.name.startswith("moothall-Society")]

    (thread,) = left_open()
    for _ in range(200):  # the loop may still hold its last step
        gc.collect()
        thread.join(0.1)
        if not thread.is_alive():
            break
    assert not thread.is_alive()
    assert not caplog.records


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("closed", (False, True))
def test_society_that_never_ran_or_is_closed_ends_without_a_word(
    closed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    society = Society()
    if closed:
        society.run_sync(steps=1)
        society.close()
    del society
    gc.collect()
    assert not capsys.readouterr().err


def test_society_that_an_agent_holds_goes_on() -> None:
    agent = CitizenAgent("a")

    def run() -> None:
        Society([agent]).run_sync(steps=1)

    run()
    gc.collect()
    assert isinstance(agent.space, Society)
    assert agent.space.run_sync(steps=1)[0]["step"] == 1
    agent.space.close()
