"""Something in a task of an agent that would end the space's loop: the loop goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Log
from conformance.conftest import log as log  # the fixture
from moothall import Agent, NativeSpace, action
from moothall.foundation.errors import SpaceClosed


def leave() -> None:
    sys.exit(1)


def interrupt() -> None:
    raise KeyboardInterrupt


def stop() -> None:
    asyncio.get_running_loop().stop()


def cancel_everybody() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


WAYS = {
    leave: "SystemExit",
    interrupt: "KeyboardInterrupt",
    stop: "stopped",
}


class Server(Agent):
    """Starts something in the background that ends in a way of its own."""

    def __init__(self, id: str, way: Callable[[], None]) -> None:
        super().__init__(id, concurrency=4)
        self.way = way
        self.begun = asyncio.Event()

    async def background(self) -> None:
        """Wait, and then do it."""
        await self.begun.wait()
        self.way()

    @action
    async def serve(self) -> str:
        """Start it."""
        self.task = asyncio.create_task(self.background(), name="the server's task")
        return "starting"

    @action
    async def schedule(self) -> str:
        """Have it done by a callback."""
        asyncio.get_running_loop().call_soon(self.way)
        return "starting"

    @action
    async def ping(self, until: str = "") -> str:
        """Answer, once the background has done it."""
        self.begun.set()
        for _ in range(3 * bool(until)):
            await asyncio.sleep(0)
        return "pong"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("how", ("serve", "schedule"))
def test_stray_exit_keeps_the_loop_running_and_logs_the_source(
    way: Callable[[], None], how: str, log: Log
) -> None:
    with NativeSpace() as space:
        space.add(Server("server", way))
        me = space.add(Agent("me"))
        assert me.ask("server", how).result(timeout=WAIT_S) == "starting"
        under_way = me.ask("server", "ping", until="it is done")
        assert under_way.result(timeout=WAIT_S) == "pong"
        line = log.wait_for(WAYS[way])
        assert "continues" in line
        if way is not stop:
            assert "'server'" in line
            assert how != "serve" or "the server's task" in line
        assert me.ask("server", "ping").result(timeout=WAIT_S) == "pong"
        assert space.add(Agent("new")).ask("server", "ping").result(timeout=WAIT_S) == "pong"
    with pytest.raises(SpaceClosed):
        space.add(Agent("late"))


def test_cancelling_every_task_leaves_the_space_to_close_in_order() -> None:
    with NativeSpace() as space:
        space.add(Server("server", cancel_everybody))
        me = space.add(Agent("me"))
        me.ask("server", "schedule").result(timeout=WAIT_S)
        assert me.ask("server", "ping").result(timeout=WAIT_S) == "pong"


def test_observer_that_exits_is_removed(log: Log) -> None:
    def exits(message: dict[str, Any]) -> None:
        sys.exit(2)

    with NativeSpace() as space:
        space.add(Server("server", leave))
        me = space.add(Agent("me"))
        space.observe(exits)
        assert me.ask("server", "ping").result(timeout=WAIT_S) == "pong"
        assert "called no more" in log.wait_for("SystemExit")
