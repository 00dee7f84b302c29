"""Calls of a door's callers, which are counted while they are under way, and watched."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from moothall import (
    ACCESS_REQUESTED,
    ActionError,
    ActionNotFound,
    Agent,
    AMQPOptions,
    AMQPSpace,
    Budget,
    BudgetExceeded,
    InvalidArguments,
    Journal,
    MoothallError,
    NativeSpace,
    NotPermitted,
    ReActAgent,
    RunWaiting,
    ScriptedModel,
    action,
)
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.callers import Callers
from moothall.serving.doors.served_agents import Served


class Clerk(Agent):
    """It offers an action to callers."""

    @action(access_policy="permitted")
    async def greet(self) -> str:
        """Name the caller, and who is in the space."""
        assert self.current_message is not None
        assert self.space is not None
        return f"{self.current_message['from']} of {self.space.ids()}"


async def test_call_that_cannot_begin_is_not_under_way() -> None:
    with NativeSpace() as space:
        served = Served(space.add(ReActAgent("Clerk", ScriptedModel([]))))
    caller = Caller(asyncio.get_running_loop(), None)
    with pytest.raises(MoothallError):
        await served.call("ada", "Clerk", "say", {"content": "Hi"}, caller)
    with pytest.raises(MoothallError), served.calling("ada", "Clerk", caller):
        pass
    assert not served.busy


async def test_caller_whose_loop_is_closed_does_not_end_what_others_are_told() -> None:
    agent = ReActAgent("Clerk", ScriptedModel(["One.", "Two."]))
    served = Served(agent)
    told: list[Any] = []
    loop = asyncio.new_event_loop()
    loop.close()
    for caller in (Caller(loop, None), Caller(asyncio.get_running_loop(), None)):
        caller.tell = told.append
        with served.calling("ada", "Clerk", caller):
            await agent.reply("Hi")
    await asyncio.sleep(0)
    assert "Two." in str(told)
    await served.close()


async def test_caller_goes_on_with_its_conversation_after_a_call_of_90_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is idle from the end of its call on."""
    clock, passed_s = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed_s)

    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        nonlocal passed_s
        passed_s += 90 * 60 if messages[-1]["content"] == "Count the hats." else 60
        return " ".join(each["content"] for each in messages if each["role"] == "user")

    served = Served(ReActAgent("Clerk", ScriptedModel(answer)))
    caller = Caller(asyncio.get_running_loop(), None)

    async def said(sender: str, text: str) -> Any:
        args = {"content": text, "thread": "hats"}
        return await served.call(sender, "Clerk", "say", args, caller)

    await said("alice", "Count the hats.")
    await said("bob", "Hi.")
    assert await said("alice", "And now?") == "Count the hats. And now?"
    await served.close()


@pytest.mark.parametrize("run_id", (None, "refund-1"))
async def test_call_of_a_reply_that_waits_names_its_run_which_goes_on_once_it_is_answered(
    journal: Journal, run_id: str | None
) -> None:
    @action(access_policy=ACCESS_REQUESTED)
    async def refund() -> str:
        """Give the money back."""
        return "refunded"

    model = ScriptedModel([{"name": "refund", "args": {}}, "It is refunded."])
    served = Served(ReActAgent("Clerk", model, actions=[refund], journal=journal))
    assert served.journal_of("Clerk") is journal
    say = ("ada", "Clerk", "say", {"content": "Refund it."})
    loop = asyncio.get_running_loop()
    with pytest.raises(RunWaiting, match="the approval of refund") as waiting:
        await served.call(*say, Caller(loop, None, run_id=run_id))
    run = waiting.value.run_id
    assert run is not None
    assert run == (run_id or journal.waiting()[0].run)
    (wait,) = await served.waits("Clerk", run)
    await served.answer(run, lambda: journal.answer(run, wait.key, True, by="ada"))
    caller = Caller(loop, None, run_id=run)
    assert await served.call(*say, caller) == "It is refunded."
    await served.close()


async def test_caller_who_asks_for_a_run_of_anothers_reads_what_one_reads_who_asks_for_none(
    journal: Journal,
) -> None:
    served = Served(ReActAgent("Clerk", ScriptedModel(["Yes."]), journal=journal))
    caller = Caller(asyncio.get_running_loop(), None, run_id="of-ada")
    await served.call("rpc-ada", "Clerk", "say", {"content": "Hello."}, caller)
    assert await served.waits("Clerk", "of-ada", "rpc-ada") == []
    for sender in ("rpc-ad", "rpc-bob"):
        for run in ("of-ada", "nix"):
            with pytest.raises(NotPermitted) as refused:
                await served.waits("Clerk", run, sender)
            assert str(refused.value) == f"you have no run {run!r}"
    await served.close()


async def test_caller_pays_for_no_call_that_is_refused_before_it_begins() -> None:
    class Shop(Agent):
        @action(access_policy="permitted")
        async def sell(self, count: int) -> int:
            """Sell hats."""
            return 10 // count

        @action(access_policy="requested")
        async def close(self) -> None:
            """Close the shop."""

    budget = Budget(actions=2)
    served = Served(Shop("Shop"), Callers("t", budget=lambda name: budget))
    caller = Caller(asyncio.get_running_loop(), None)
    refused: Any = (
        ("sell", {"count": "many"}, InvalidArguments),
        ("close", {}, NotPermitted),
        ("burn", {}, ActionNotFound),
    )
    for name, args, error in refused:
        with pytest.raises(error):
            await served.call("mcp", "Shop", name, args, caller)
    assert (budget.spent.actions, budget.left.actions) == (0, 2)
    assert await served.call("mcp", "Shop", "sell", {"count": 5}, caller) == 2
    with pytest.raises(ActionError, match="ZeroDivisionError"):
        await served.call("mcp", "Shop", "sell", {"count": 0}, caller)
    assert budget.spent.actions == 2
    with pytest.raises(BudgetExceeded):
        await served.call("mcp", "Shop", "sell", {"count": 5}, caller)
    await served.close()


@pytest.mark.parametrize("over", ("no broker", "a broker"))
def test_doors_of_one_space_have_callers_of_one_name(
    over: str, request: pytest.FixtureRequest
) -> None:
    """Two at once, and one after another; over a broker, in two programs, too."""
    with ExitStack() as stack:
        if over == "a broker":
            options = AMQPOptions("127.0.0.1", request.getfixturevalue("broker").port)
            about: Any = {"amqp_options": options, "exchange": f"x{uuid4().hex}"}
            spaces: list[Any] = [stack.enter_context(AMQPSpace(**about)) for _ in range(2)]
        else:
            spaces = [stack.enter_context(NativeSpace())]
        clerks = [each.add(Clerk(f"Clerk{n}")) for n, each in enumerate(spaces)]

        async def main() -> None:
            caller = Caller(asyncio.get_running_loop(), None)
            doors = [Served(each) for each in (*clerks, clerks[0])]
            for each in doors:
                (id,) = each.agents
                assert await each.call("mcp", id, "greet", {}, caller) == f"mcp of [{id!r}]"
            await doors[0].close()
            assert await doors[-1].call("mcp", "Clerk0", "greet", {}, caller)
            assert await Served(clerks[0]).call("mcp", "Clerk0", "greet", {}, caller)

        asyncio.run(main())
