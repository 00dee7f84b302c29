"""An agent that holds the loop is named; one that waits is not."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Log
from conformance.gate import Doer, Holder
from moothall import Agent, action


class Hog(Agent):
    """Holds the loop until it is told to let go, or for ten seconds."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.let_go = threading.Event()

    def block(self) -> None:
        self.let_go.wait(WAIT_S)

    @action
    async def hog(self) -> str:
        self.block()
        return "done"

    @action
    async def hog_that_computes(self) -> str:
        end = time.monotonic() + WAIT_S
        while not self.let_go.is_set() and time.monotonic() < end:
            pass
        return "done"

    @action
    async def hog_later(self) -> str:
        await self.ask("other", "echo")
        self.block()
        return "done"

    @action
    async def hog_in_a_task(self) -> str:
        async def later() -> None:
            self.block()

        await asyncio.create_task(later())
        return "done"


@pytest.mark.parametrize("name", ("hog", "hog_that_computes", "hog_later", "hog_in_a_task"))
def test_watchdog_names_the_agent_and_the_action(space: Any, log: Log, name: str) -> None:
    hog = space.add(Hog("hog"))
    space.add(Doer("other"))
    me = space.add(Agent("me"))
    request = me.ask("hog", name)
    line = log.wait_for("has held the loop")
    assert not request.done()
    hog.let_go.set()
    assert request.result(timeout=WAIT_S) == "done"
    assert line.startswith("WARNING ")
    assert "agent 'hog'" in line
    assert (f'"hog.{name}"' in line) is (name != "hog_in_a_task")
    assert "test_watchdog.py" in line
    assert "agent 'hog'" in log.wait_for("released the loop")


def test_watchdog_watches_on_after_an_agent_was_made_slowly_on_the_loop(
    space: Any, log: Log
) -> None:
    class Slow(Hog):
        def __init__(self) -> None:
            made.wait(WAIT_S)
            super().__init__("slow")

    class Maker(Agent):
        @action
        async def make(self) -> None:
            asyncio.get_running_loop().call_soon(Slow)

    made = threading.Event()
    request = space.add(Agent("me")).ask(space.add(Maker("maker")).id, "make")
    assert "something that belongs to no agent" in log.wait_for("has held the loop")
    made.set()
    assert "something that belongs to no agent" in log.wait_for("released the loop")
    assert request.result(timeout=WAIT_S) is None


def test_watchdog_names_the_agent_that_handles_a_broadcast(space: Any, log: Log) -> None:
    hog = space.add(Hog("hog"))
    space.add(Agent("me")).send({"to": "*", "action": {"name": "hog"}})
    line = log.wait_for("has held the loop")
    hog.let_go.set()
    assert "agent 'hog'" in line
    assert '"hog.hog"' in line


def test_watchdog_names_a_holder_that_lets_go_by_itself_after_some_seconds(
    space: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Busy(Agent):
        @action
        async def busy(self) -> None:
            threading.Event().wait(2)

    space.add(Busy("busy"))
    me = space.add(Agent("me"))
    with caplog.at_level(logging.WARNING, logger="moothall.spaces.watchdog"):
        me.ask("busy", "busy").result(timeout=WAIT_S)
    named = [r.getMessage() for r in caplog.records if r.name == "moothall.spaces.watchdog"]
    assert any("agent 'busy'" in text and '"busy.busy"' in text for text in named)


def test_watchdog_is_silent_of_actions_that_wait_or_block_a_thread(space: Any, log: Log) -> None:
    class Busy(Agent):
        @action
        def busy(self) -> None:
            threading.Event().wait(1.5)

    holder = space.add(Holder("holder"))
    space.add(Busy("busy"))
    me = space.add(Agent("me"))
    request = me.ask("holder", "hold")
    me.ask("busy", "busy").result(timeout=WAIT_S)
    holder.gate("one").open()
    assert request.result(timeout=WAIT_S) == "one"
    # Where the machine itself stands still, nobody's name is given.
    assert not any("agent 'b" in line or "agent 'h" in line for line in log.lines)
