"""Who does not fit into a budget only for what others hold waits until they have settled."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from moothall import (
    ActionError,
    Agent,
    Budget,
    BudgetedModel,
    BudgetExceeded,
    Call,
    Context,
    ModelReply,
    NativeSpace,
    ReActAgent,
    Reply,
    Usage,
    action,
)

QUESTION = [{"role": "user", "content": "Hi"}]


class Gated:
    """A call is bounded by some 600 tokens, waits to be let through, and takes what it is told."""

    name = "gated"
    context_tokens: int | None = None
    max_tokens = 500

    def __init__(self, usage: int = 10) -> None:
        self.usage = usage
        self.begun = 0
        self.changed = asyncio.Event()
        self.gate = asyncio.Event()

    def count_tokens(self, text: str) -> int:
        return 0

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        self.begun += 1
        self.changed.set()
        await self.gate.wait()
        return ModelReply("Hello.", usage=Usage(self.usage - 1, 1))


class Calling:
    """Calls an action, then says what came of it."""

    name = "calling"
    context_tokens: int | None = None
    max_tokens = 10

    def count_tokens(self, text: str) -> int:
        return 0

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        if messages[-1]["role"] == "tool":
            return ModelReply(messages[-1]["content"], usage=Usage(1, 1))
        return ModelReply("", (Call("1", "ask_other", {}),), Usage(1, 1), "calls")


@pytest.mark.parametrize("child", (False, True))
async def test_budget_turns_replies_wait_and_all_end_within_the_limit(child: bool) -> None:
    budget = Budget(tokens=1000)
    model = Gated()
    agent = ReActAgent("a", model, budget=budget)
    parts = [budget.child() if child else None for _ in range(4)]
    replies = [
        asyncio.create_task(agent.reply("Hi", thread=str(n), budget=part))
        for n, part in enumerate(parts)
    ]
    await model.changed.wait()
    assert budget.reserved.tokens > 500
    assert model.begun == 1
    model.gate.set()
    assert [(await reply).stop_reason for reply in replies] == ["done"] * 4
    assert budget.spent.tokens == 40


async def test_budget_turns_reply_that_still_does_not_fit_fails() -> None:
    budget, model = Budget(tokens=1000), Gated(usage=500)
    agent = ReActAgent("a", model, budget=budget)
    replies = [asyncio.create_task(agent.reply("Hi", thread=str(n))) for n in range(3)]
    await model.changed.wait()
    model.gate.set()
    reasons = [(await reply).stop_reason for reply in replies]
    assert reasons == ["done", "budget", "budget"]
    assert (budget.spent.tokens, budget.reserved.tokens) == (500, 0)


async def test_budget_turns_child_limit_used_up_fails_without_waiting() -> None:
    budget = Budget(name="whole")
    mine, other = budget.child(actions=1, name="mine"), budget.child()
    mine.reserve(actions=1).settle()
    held = await asyncio.to_thread(other.reserve, actions=5)
    async with asyncio.timeout(10):
        with pytest.raises(BudgetExceeded, match="'mine'"):
            await mine.in_turn(lambda: mine.reserve(actions=1))
    held.release()


async def test_budget_turns_call_waits_beside_an_overspent_limit_that_it_does_not_need() -> None:
    budget = Budget(tokens=10, actions=1)
    with pytest.raises(BudgetExceeded):
        budget.charge(tokens=20)
    held = await asyncio.to_thread(budget.reserve, actions=1)
    waiting = asyncio.create_task(budget.in_turn(lambda: budget.reserve(actions=1)))
    await asyncio.sleep(0)
    held.release()
    async with asyncio.timeout(10):
        assert (await waiting).actions == 1


async def test_budget_turns_waiting_call_proceeds_after_a_release_in_another_thread() -> None:
    budget, model = Budget(tokens=1000, model_calls=1), Gated()
    model.gate.set()
    held = await asyncio.to_thread(budget.reserve, tokens=900, model_calls=1)
    call = asyncio.create_task(BudgetedModel(model, budget).complete(QUESTION))
    cancelled = asyncio.create_task(BudgetedModel(model, budget).complete(QUESTION))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert model.begun == 0
    await asyncio.to_thread(held.release)
    assert (await call).text == "Hello."


async def test_deadline_ends_the_wait() -> None:
    budget, model = Budget(tokens=1000, seconds=0.05), Gated()
    held = await asyncio.to_thread(budget.reserve, tokens=900)
    reply = await ReActAgent("a", model, budget=budget).reply("Hi")
    assert (reply.stop_reason, model.begun) == ("deadline", 0)
    held.release()


def caller(id: str, budget: Budget, other: ReActAgent, ready: Any = None) -> ReActAgent:
    """An agent whose action holds tokens while it asks another agent of the same budget."""

    async def ask_other(context: Context) -> str:
        """Ask the other agent."""
        assert context.budget is not None
        with context.budget.reserve(tokens=450) as held:
            if ready is not None:
                await ready()
            reply: Reply = await other.reply("Hi", thread=id)
            held.settle(tokens=1)
        return reply.stop_reason

    return ReActAgent(id, Calling(), actions=[ask_other], budget=budget)


async def test_budget_turns_nested_reply_does_not_wait_for_its_caller() -> None:
    budget, model = Budget(tokens=1000), Gated()
    other = ReActAgent("other", model, budget=budget)
    reply = await caller("a", budget, other).reply("Go on")
    assert (reply.text, model.begun) == ("budget", 0)


class Between(Agent):
    """Passes a question on, and reserves nothing itself."""

    @action
    async def pass_on(self) -> str:
        """Ask the other agent."""
        try:
            return str(await self.ask("other", "say", content="Hi"))
        except ActionError as error:
            return str(error)


@pytest.mark.parametrize("by_message", (False, True))
def test_budget_turns_requested_agent_does_not_wait_for_its_caller(by_message: bool) -> None:
    budget, model = Budget(tokens=1000), Gated()

    async def ask_other(context: Context) -> str:
        """Ask the other agent."""
        with budget.reserve(tokens=450):
            if by_message:
                return str(await context.agent.ask("between", "pass_on"))
            return (await other.reply("Hi")).detail

    with NativeSpace() as space:
        other = space.add(ReActAgent("other", model, budget=budget))
        first = ReActAgent("first", Calling(), actions=[ask_other], budget=budget)
        if by_message:
            space.add(first)
            space.add(Between("between"))
        reply = asyncio.run(asyncio.wait_for(first.reply("Go on"), 10))
    assert "of 1000 are left" in reply.text
    assert model.begun == 0


async def test_budget_turns_finished_waiter_is_waited_for_again() -> None:
    budget = Budget(tokens=1000)
    elsewhere = await asyncio.to_thread(budget.reserve, tokens=600)
    mine = budget.reserve(tokens=300)
    inner = asyncio.create_task(budget.in_turn(lambda: budget.reserve(tokens=200)))
    await asyncio.sleep(0)
    elsewhere.release()
    (await inner).release()
    late = asyncio.create_task(
        budget.in_turn(lambda: budget.reserve(tokens=800)), context=contextvars.Context()
    )
    await asyncio.sleep(0)
    assert not late.done()
    mine.release()
    (await late).release()


async def test_budget_turns_mutual_waits_do_not_deadlock() -> None:
    budget, model = Budget(tokens=1200), Gated()
    model.gate.set()
    other = ReActAgent("other", model, budget=budget)
    barrier = asyncio.Barrier(2)
    both = [caller(id, budget, other, barrier.wait).reply("Go on") for id in ("a", "b")]
    texts = [reply.text for reply in await asyncio.gather(*both)]
    assert sorted(texts) == ["budget", "done"]
