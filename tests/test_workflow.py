"""The step of an agent, and its blocks: the order, and cleanup whatever came."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from civitas import Agent, action
from civitas.block import Block, BlockParams


class Noted(Block):
    """Notes what is called, and fails where it is told to."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        super().__init__()
        self.name = name
        self._log = log
        self._fails = fails

    async def before_forward(self) -> None:
        self._do("before_forward")

    async def forward(self) -> None:
        self._do("forward")

    async def after_forward(self) -> None:
        self._do("after_forward")

    def _do(self, step: str) -> None:
        self._log.append(f"{self.name}.{step}")
        if step == self._fails:
            raise ValueError(f"{self.name} broke")


class Stepping(Agent):
    def __init__(self, log: list[str], blocks: list[Block], fails: str = "") -> None:
        super().__init__("a", blocks=blocks)
        self._log = log
        self._fails = fails

    async def before_forward(self) -> None:
        self._do("before_forward")

    async def forward(self) -> str:
        for block in self.blocks:
            await block.forward()
        self._do("forward")
        return "done"

    async def after_forward(self) -> None:
        self._do("after_forward")

    def _do(self, step: str) -> None:
        self._log.append(step)
        if step == self._fails:
            raise KeyError(step)


def test_a_step_prepares_acts_and_cleans_up_in_order() -> None:
    log: list[str] = []
    blocks = [Noted("one", log), Noted("two", log)]
    assert asyncio.run(Stepping(log, list(blocks)).run()) == "done"
    assert log == [
        "before_forward",
        "one.before_forward",
        "two.before_forward",
        "one.forward",
        "two.forward",
        "forward",
        "one.after_forward",
        "two.after_forward",
        "after_forward",
    ]


@pytest.mark.parametrize("fails", ("before_forward", "forward"))
def test_cleanup_runs_whatever_failed_and_the_failure_is_raised(fails: str) -> None:
    log: list[str] = []
    agent = Stepping(log, [Noted("one", log), Noted("two", log)], fails)
    with pytest.raises(KeyError) as raised:
        asyncio.run(agent.run())
    assert log[-3:] == ["one.after_forward", "two.after_forward", "after_forward"]
    assert raised.value.__notes__ == [f"in agent 'a': {fails}"]


def test_a_block_that_fails_is_named_and_keeps_no_other_from_cleaning_up() -> None:
    log: list[str] = []
    blocks: list[Block] = [Noted("one", log, "after_forward"), Noted("two", log, "after_forward")]
    with pytest.raises(ValueError, match="one broke") as raised:
        asyncio.run(Stepping(log, blocks).run())
    assert log[-3:] == ["one.after_forward", "two.after_forward", "after_forward"]
    assert raised.value.__notes__[0] == "in agent 'a', block 'one': after_forward"
    assert "two broke" in raised.value.__notes__[1]


def test_the_first_failure_is_raised_and_later_ones_are_its_notes() -> None:
    log: list[str] = []
    agent = Stepping(log, [Noted("one", log, "after_forward")], "forward")
    with pytest.raises(KeyError) as raised:
        asyncio.run(agent.run())
    assert any("one broke" in note for note in raised.value.__notes__)


def test_a_cancelled_step_cleans_up() -> None:
    log: list[str] = []

    class Waiting(Stepping):
        async def forward(self) -> Any:
            started.set()
            await asyncio.Event().wait()

    async def main() -> None:
        nonlocal started
        started = asyncio.Event()
        task = asyncio.create_task(Waiting(log, [Noted("one", log)]).run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started: asyncio.Event
    asyncio.run(main())
    assert log[-2:] == ["one.after_forward", "after_forward"]


def test_an_agent_or_block_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="agent 'a': Agent must define"):
        asyncio.run(Agent("a").run())
    with pytest.raises(NotImplementedError, match="Block must define"):
        asyncio.run(Block().forward())


def test_a_block_describes_its_actions_and_what_is_stated_by_hand() -> None:
    class Walking(Block):
        actions = {"dream": "only forward does this"}  # noqa: RUF012 - as users write it

        @action
        async def walk(self, to: str) -> str:
            """Walk to a place.

            Args:
                to: where
            """
            return to

    class Running(Walking):
        name = "legs"

        @action
        async def run_to(self, to: str) -> str:
            """Run to a place.

            Args:
                to: where
            """
            return to

    assert Walking().name == "Walking"
    assert Walking.actions == {"dream": "only forward does this", "walk": "Walk to a place."}
    assert Running().name == "legs"
    assert Running.actions.keys() == {"dream", "walk", "run_to"}
    assert Block.actions == {}


def test_a_block_has_parameters_of_its_type() -> None:
    class SpeedParams(BlockParams):
        speed: float = 1.4

    class Legs(Block):
        ParamsType = SpeedParams

    assert Legs().params == SpeedParams(speed=1.4, block_memory=None)
    given = SpeedParams(speed=2.0, block_memory={"home": "here"})
    assert Legs(block_params=given).params is given
