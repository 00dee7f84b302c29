"""What an action tells of its progress: to whom, in which order, and what is dropped."""

from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

import pytest

from moothall import (
    Agent,
    CallProgress,
    Context,
    DualActAgent,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
    show,
)

WAIT = 30


async def dig(depth: int, context: Context[Any]) -> str:
    """Dig."""
    for metre in range(1, depth + 1):
        context.progress(f"{metre} m")
    return "deep"


def dig_plainly(depth: int, context: Context[Any]) -> str:
    """Dig."""
    for metre in range(1, depth + 1):
        context.progress(f"{metre} m")
    return "deep"


def digger(dig: Any) -> ReActAgent:
    script = [{"name": dig.__name__, "args": {"depth": 2}}, "Done."]
    return ReActAgent("digger", ScriptedModel(script), actions=[dig])


@pytest.mark.parametrize("dig", (dig, dig_plainly))
def test_progress_of_an_action_comes_between_its_beginning_and_its_end(dig: Any) -> None:
    async def calls() -> list[Any]:
        async with digger(dig).stream("Dig.", thread="ada", run_id="r") as events:
            return [each async for each in events if each.kind.startswith("call_")]

    got = asyncio.run(calls())
    assert [each.kind for each in got] == [
        *("call_started", "call_progress", "call_progress", "call_ended")
    ]
    first = got[1]
    assert isinstance(first, CallProgress)
    assert (first.agent, first.action, first.text) == ("digger", dig.__name__, "1 m")
    assert (first.call_id, first.iteration) == (got[0].call_id, 1)
    assert (first.run_id, first.thread, first.past) == ("r", "ada", False)


@pytest.mark.parametrize("dig", (dig, dig_plainly))
def test_progress_without_a_reader_is_dropped(dig: Any) -> None:
    assert digger(dig).reply_sync("Dig.").text == "Done."


def test_progress_is_watched_and_comes_from_the_worker_of_a_dual_act() -> None:
    agent, seen = digger(dig), list[str]()
    agent.watch(lambda event: seen.append(event.kind))
    agent.reply_sync("Dig.")
    assert seen.count("call_progress") == 2
    accept = ScriptedModel(['{"action": "TERMINATE", "new_instruction": "", "reasoning": ""}'])
    human = ReActAgent("H", accept)
    pair, told = DualActAgent(human=human, reactive=digger(dig), first="reactive"), list[str]()
    pair.watch(lambda event: told.append(event.kind))
    pair.reply_sync("Dig.")
    assert told.count("call_progress") == 2


def test_progress_is_printed() -> None:
    shown = io.StringIO()
    asyncio.run(show(digger(dig).stream("Dig."), shown))
    assert shown.getvalue().splitlines()[1:4] == ["· dig: 1 m", "· dig: 2 m", "← dig: deep"]


async def test_progress_after_the_end_of_a_call_is_dropped() -> None:
    ended, told = threading.Event(), threading.Event()

    @action(timeout=0.05)
    def slow(context: Context[Any]) -> str:
        """Take long."""
        ended.wait(WAIT)
        context.progress("too late")
        told.set()
        return "deep"

    agent = ReActAgent("a", ScriptedModel([{"name": "slow"}, "Done."]), actions=[slow])
    kinds: list[str] = []
    async with agent.stream("Go.") as events:
        async for event in events:
            kinds.append(event.kind)
            if event.kind == "call_ended":
                ended.set()
                await asyncio.to_thread(told.wait, WAIT)
    assert "call_ended" in kinds
    assert "call_progress" not in kinds


def test_progress_in_an_action_that_another_agent_asked_for_is_dropped() -> None:
    class Digger(Agent):
        @action
        async def dig(self, context: Context[Any]) -> str:
            """Dig."""
            context.progress("1 m")
            return "deep"

    with NativeSpace() as space:
        space.add(Digger("digger"))
        assert space.add(Agent("me")).ask("digger", "dig").result(timeout=WAIT) == "deep"


def test_progress_must_be_a_text() -> None:
    async def wrong(context: Context[Any]) -> None:
        """Tell a number."""
        context.progress(3)  # type: ignore[arg-type]

    agent = ReActAgent("a", ScriptedModel([{"name": "wrong"}, "Done."]), actions=[wrong])
    assert agent.reply_sync("Go.").steps[0].error == "progress takes a text, got int"
