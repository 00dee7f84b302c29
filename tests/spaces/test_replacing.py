"""An agent takes the place of another: what waits for the id waits for the new one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from moothall import Agent, NativeSpace, ReActAgent, ScriptedModel, action
from moothall.foundation.errors import (
    AgentNotFound,
    AgentStopped,
    ConfigError,
    DefinitionError,
    SpaceClosed,
)

WAIT_S = 20


class Worker(Agent):
    """Says which one it is; `hold` lasts until it is let go."""

    def __init__(
        self, number: int, log: list[str] | None = None, fails: bool = False, id: str = "worker"
    ) -> None:
        super().__init__(id)
        self.number = number
        self.log = [] if log is None else log
        self.fails = fails
        self.holding = threading.Event()
        self.let_go = threading.Event()

    async def after_add(self) -> None:
        self.log.append(f"{self.number} came")
        if self.fails:
            raise ValueError("no luck")

    async def before_remove(self) -> None:
        self.log.append(f"{self.number} left")

    @action
    async def which(self) -> int:
        """Return its number."""
        return self.number

    @action
    async def hold(self) -> int:
        """Wait."""
        self.holding.set()
        await asyncio.to_thread(self.let_go.wait, WAIT_S)
        return self.number

    @action
    async def hang(self) -> None:
        """Never end."""
        self.holding.set()
        await asyncio.Event().wait()


@pytest.fixture
def me(space: NativeSpace) -> Agent:
    return space.add(Agent("me"))


def test_replace_lets_what_runs_end_and_what_waits_go_to_the_new_one(
    space: NativeSpace, me: Agent
) -> None:
    log: list[str] = []
    old = space.add(Worker(1, log))
    held, waiting = me.ask("worker", "hold"), me.ask("worker", "which")
    assert old.holding.wait(WAIT_S)
    replacing = threading.Thread(target=space.replace, args=(old, Worker(2, log)))
    replacing.start()
    old.let_go.set()
    assert (held.result(WAIT_S), waiting.result(WAIT_S)) == (1, 2)
    replacing.join()
    assert log == ["1 came", "1 left", "2 came"]
    assert old.space is None
    assert space.ids() == ["me", "worker"]


def test_replace_lets_what_runs_take_its_time_within_a_second(
    space: NativeSpace, me: Agent
) -> None:
    old = space.add(Worker(1))
    held = me.ask("worker", "hold")
    assert old.holding.wait(WAIT_S)
    threading.Timer(0.2, old.let_go.set).start()
    space.replace(old, Worker(2))
    assert held.result(WAIT_S) == 1


def test_replace_ends_what_does_not_end_within_a_second(space: NativeSpace, me: Agent) -> None:
    old = space.add(Worker(1))
    hanging = me.ask("worker", "hang")
    assert old.holding.wait(WAIT_S)
    space.replace(old, Worker(2))
    with pytest.raises(AgentStopped, match="died and is started again"):
        hanging.result(WAIT_S)
    assert me.ask("worker", "which").result(WAIT_S) == 2


class Leaver(Worker):
    """Leaves once it is let go."""

    async def before_remove(self) -> None:
        self.holding.set()
        await asyncio.to_thread(self.let_go.wait, WAIT_S)


def test_replace_beside_remove_leaves_the_successor_outside(space: NativeSpace, me: Agent) -> None:
    old, new = space.add(Leaver(1)), Worker(2)

    async def remove() -> None:  # on a loop it does not wait
        space.remove(old)

    with ThreadPoolExecutor() as threads:
        replacing = threads.submit(space.replace, old, new)
        assert old.holding.wait(WAIT_S)
        asyncio.run(remove())
        old.let_go.set()
        with pytest.raises(AgentNotFound, match="not in this space"):
            replacing.result(WAIT_S)
    with suppress(AgentNotFound):  # it has left
        space.remove(old)
    assert (new.space, space.ids()) == (None, ["me"])
    space.add(new)
    assert me.ask("worker", "which").result(WAIT_S) == 2


def test_replace_by_one_that_fails_to_come_keeps_messages_for_the_next(
    space: NativeSpace, me: Agent
) -> None:
    old, failing = space.add(Worker(1)), Worker(2, fails=True)
    with pytest.raises(ValueError, match="no luck"):
        space.replace(old, failing)
    waiting = me.ask("worker", "which")
    space.replace(failing, Worker(3))
    assert waiting.result(WAIT_S) == 3


@pytest.mark.parametrize(
    ("new", "told"),
    (
        (lambda: Agent("other"), "cannot take the place of agent 'worker': make it with that id"),
        (lambda: ReActAgent("worker", ScriptedModel([])), "messages are in other lanes"),
        (lambda: Agent, "replace takes an agent for an agent, got <class"),
    ),
)
def test_replace_refuses_another_id_and_other_lanes(
    space: NativeSpace, me: Agent, new: Callable[[], Agent], told: str
) -> None:
    old = space.add(Worker(1))
    with pytest.raises(DefinitionError, match=told):
        space.replace(old, new())
    with pytest.raises(AgentNotFound):
        space.replace(Worker(5), Worker(6))
    assert me.ask("worker", "which").result(WAIT_S) == 1


def test_replace_refuses_an_agent_that_is_in_another_space(space: NativeSpace, me: Agent) -> None:
    old = space.add(Worker(1))
    with NativeSpace() as other:
        new = other.add(Worker(2))
        with pytest.raises(
            DefinitionError, match="'worker' is in another space; remove it there first"
        ):
            space.replace(old, new)
    space.replace(old, new)  # a closed one has no agents
    assert me.ask("worker", "which").result(WAIT_S) == 2


def test_close_with_grace_lets_started_actions_end_and_begins_no_other() -> None:
    with NativeSpace(grace=WAIT_S) as space:
        me, worker = space.add(Agent("me")), space.add(Worker(1))
        space.add(Worker(2, id="idle"))
        held, waiting = me.ask("worker", "hold"), me.ask("worker", "which")
        assert worker.holding.wait(WAIT_S)

        def ask_idle() -> None:
            while me.ask("idle", "which").result(0.5):
                pass

        closing = threading.Thread(target=space.close)
        closing.start()
        with pytest.raises(TimeoutError):  # once it closes, which another thread begins
            ask_idle()
        worker.let_go.set()
        assert held.result(WAIT_S) == 1
        with pytest.raises(SpaceClosed):
            waiting.result(WAIT_S)
        closing.join()


def test_grace_of_a_native_space_is_checked() -> None:
    with pytest.raises(ConfigError, match="NativeSpace: grace= must be"):
        NativeSpace(grace=-1)
