"""Replies within a budget: where they stop, what is not begun, who shares it."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Call,
    CallbackApprover,
    Context,
    Conversation,
    DecisionAction,
    DefinitionError,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    Journal,
    ModelError,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    UnknownPrice,
    Usage,
    action,
)
from moothall.agents.agent import Agent
from standing_clock import StandingClock


class Spender:
    """Answers with a call for ever, at a stated cost."""

    name = "scripted:spender"
    context_tokens: int | None = None

    def __init__(self, calls: int = 1, usage: Usage | None = None, max_tokens: int = 50) -> None:
        self.asked = 0
        self.calls = calls
        self.usage = usage or Usage(100, 20)
        self.max_tokens = max_tokens

    def count_tokens(self, text: str) -> int:
        return 20

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        self.asked += 1
        calls = tuple(
            Call(f"c{self.asked}.{n}", "work", {"n": self.asked}) for n in range(self.calls)
        )
        return ModelReply("", calls, self.usage, "calls")


async def work(n: int) -> int:
    """Work."""
    await asyncio.sleep(0)
    return n


def agent(budget: Budget, model: Any = None, **options: Any) -> ReActAgent:
    options.setdefault("actions", [work])
    return ReActAgent("thinker", model or Spender(), budget=budget, max_iterations=100, **options)


def test_model_calls_stop_the_reply_before_the_one_too_many() -> None:
    budget = Budget(model_calls=3)
    model = Spender()
    thinker = agent(budget, model)
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, model.asked, len(reply.steps)) == ("budget", 3, 3)
    assert "model calls" in reply.detail
    assert reply.error is None
    assert budget.spent.model_calls == 3
    assert thinker.reply_sync("again").stop_reason == "budget"
    assert model.asked == 3


def test_tokens_are_held_to() -> None:
    budget = Budget(tokens=1000)
    model = Spender()
    reply = agent(budget, model).reply_sync("go")
    assert reply.stop_reason == "budget"
    assert reply.usage.input_tokens + reply.usage.output_tokens == budget.spent.tokens <= 1000
    assert model.asked > 2


@pytest.mark.parametrize("parallel", (1, 3))
def test_actions_are_counted_all_of_an_answer_or_none(parallel: int) -> None:
    budget = Budget(actions=7)
    done: list[int] = []

    async def work(n: int) -> int:
        """Work."""
        done.append(n)
        return n

    thinker = agent(budget, Spender(parallel), actions=[work])
    reply = thinker.reply_sync("go")
    assert reply.stop_reason == "budget"
    assert "actions" in reply.detail
    assert len(done) == budget.spent.actions == 7 // parallel * parallel
    last = reply.steps[-parallel:]
    assert all("not executed" in (step.error or "") and not step.executed for step in last)
    roles = [item["role"] for item in thinker.memory.get_memories()]
    assert roles[-parallel:] == ["tool"] * parallel


def test_budget_counts_only_actions_that_are_executed(tmp_path: Path) -> None:
    def sell(n: int) -> int:
        """Sell."""
        return n

    def even(_: Any, about: dict[str, Any]) -> None:
        if about["args"]["n"] % 2:
            raise ValueError("odd")

    selling = Action("sell", sell, "Sell.", {}, access_policy=ACCESS_REQUESTED)
    person = CallbackApprover(lambda request: request.args["n"] < 3)
    calls = [Call(str(n), "sell", {"n": n}) for n in range(5)]
    answers = [calls, calls[4], ModelError("down"), "Sold."]
    with Journal(tmp_path / "j") as kept:
        for journal, reason in ((None, "error"), (kept, "error"), (kept, "done")):
            budget = Budget(actions=5)  # of another process
            seller = agent(budget, ScriptedModel(answers), actions=[selling], approver=person)
            seller.journal = journal
            seller.register_hook("pre_acting", "even", even)
            assert seller.reply_sync("go", run_id="R").stop_reason == reason
            assert (budget.spent.actions, budget.reserved.actions) == (2, 0)


@pytest.mark.parametrize("where", ("model", "action"))
def test_budget_deadline_cancels_what_is_under_way(where: str) -> None:
    cancelled: list[str] = []

    async def hang(what: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(what)
            raise

    class Slow(Spender):
        async def complete(self, *args: Any, **more: Any) -> ModelReply:
            if where == "model":
                await hang("model")
            return await super().complete(*args, **more)

    async def work(n: int) -> None:
        """Work."""
        await hang("action")

    clock = StandingClock()
    thinker = agent(Budget(seconds=0.3, clock=clock), Slow(), actions=[work])
    reply = thinker.reply_sync("go")
    assert (reply.stop_reason, cancelled) == ("deadline", [where])
    assert len(reply.steps) == (where == "action")
    clock.over()
    assert thinker.reply_sync("again").stop_reason == "deadline"


async def test_budget_holds_for_a_streamed_reply() -> None:
    reply = [event async for event in agent(Budget(model_calls=2)).stream("go")][-1].reply
    assert (reply.stop_reason, len(reply.steps)) == ("budget", 2)


async def test_agents_that_share_one_never_pass_it_together() -> None:
    budget = Budget(model_calls=50, actions=45)
    models = [Spender() for _ in range(20)]
    thinkers = [ReActAgent(f"a{n}", m, actions=[work], budget=budget) for n, m in enumerate(models)]
    replies = await asyncio.gather(*(thinker.reply("go") for thinker in thinkers))
    assert sum(model.asked for model in models) == budget.spent.model_calls <= 50
    assert budget.spent.actions <= 45
    assert {reply.stop_reason for reply in replies} == {"budget"}


@pytest.mark.parametrize(("limit", "delegates"), ((3, 2), (5, 4), (9, 8)))
def test_budget_delegates_at_once_make_exactly_the_calls_of_the_limit(
    limit: int, delegates: int, journal: Journal
) -> None:
    """Without a limit they would make two calls each: 4, 8 and 16."""

    class Together(Spender):
        """Answers its first call when all delegates have begun theirs."""

        async def complete(self, *args: Any, **more: Any) -> ModelReply:
            if not self.asked:
                begun.append(self)
                if len(begun) == delegates:
                    all_begun.set()
                await all_begun.wait()
            return await super().complete(*args, **more)

    for budget in (
        Budget(model_calls=limit),
        Budget(model_calls=limit, journal=journal, name="all"),
    ):
        begun: list[Together] = []
        all_begun = asyncio.Event()
        models = [Together() for _ in range(delegates)]

        async def delegate(number: int) -> str:
            """Delegate."""
            helper = ReActAgent(
                f"helper {number}",
                models[number],  # noqa: B023
                actions=[work],
                budget=budget.child(model_calls=2),  # noqa: B023
                max_iterations=2,
            )
            return (await helper.reply("go")).stop_reason

        async def main() -> list[str]:
            return await asyncio.gather(*map(delegate, range(delegates)))

        reasons = asyncio.run(main())
        assert sum(model.asked for model in models) == budget.spent.model_calls == limit
        assert reasons.count("budget") == 2 * delegates - limit


def test_actions_find_it_and_give_parts_of_it_away() -> None:
    budget = Budget(model_calls=4)

    async def delegate(context: Context[Any]) -> str:
        """Delegate."""
        assert context.budget is budget
        helper = ReActAgent("helper", Spender(), actions=[work], budget=budget.child(model_calls=2))
        return (await helper.reply("go")).stop_reason

    class Chief(Spender):
        async def complete(self, *args: Any, **more: Any) -> ModelReply:
            self.asked += 1
            return ModelReply("", (Call(f"c{self.asked}", "delegate", {}),), self.usage)

    reply = agent(budget, Chief(), actions=[delegate]).reply_sync("go")
    assert [step.result["result"] for step in reply.steps] == ["budget", "budget"]
    assert (reply.stop_reason, budget.spent.model_calls) == ("budget", 4)


def test_budget_of_an_agent_in_a_space_is_found_by_its_action() -> None:
    class Worker(ReActAgent):
        @action
        async def left(self, context: Context[Any]) -> int | None:
            """What is left."""
            return None if context.budget is None else context.budget.left.model_calls

    with NativeSpace() as space:
        space.add(Worker("poor", Spender(), budget=Budget(model_calls=7)))
        space.add(Worker("free", Spender()))
        me = space.add(Agent("me"))
        assert me.ask("poor", "left").result(20) == 7
        assert me.ask("free", "left").result(20) is None


def test_budget_of_an_unknown_price_is_an_error_before_the_first_call() -> None:
    class Unknown(Spender):
        name = "openai:a-model-of-next-year"

    model = Unknown()
    thinker = agent(Budget(usd=1.0), model)
    with pytest.raises(UnknownPrice, match="no price is known for"):
        thinker.reply_sync("go")
    assert (model.asked, thinker.memory.get_memories()) == (0, [])


def test_agent_wrong_budget_is_refused() -> None:
    with pytest.raises(DefinitionError, match="budget= needs an object with reserve"):
        agent(100)  # type: ignore[arg-type]
    free = ReActAgent("a", Spender())
    made: list[Any] = [
        lambda budget: Conversation([free], budget=budget),
        lambda budget: DualActAgent(DualActConfig(free, ReActAgent("b", Spender())), budget=budget),
    ]
    for make in made:
        for wrong, shown in ((5, "5"), (Budget, "the class Budget")):
            told = f"budget= needs an object with reserve, .* not {shown}"
            with pytest.raises(DefinitionError, match=told):
                make(wrong)
    assert free.budget is None


def test_scripted_model_states_the_tokens_that_its_replies_take() -> None:
    usage = Usage(0, 40)
    answer = ModelReply("", (Call("c", "work", {"n": 1}),), usage, "calls")
    assert ScriptedModel([answer, "short"]).max_tokens == 40
    assert ScriptedModel(["four", "three"]).max_tokens == 5
    assert ScriptedModel([lambda *_: "?"]).max_tokens == 1000
    assert ScriptedModel(["four"], max_tokens=7).max_tokens == 7
    budget = Budget(tokens=2000)
    answers = [replace(answer, calls=(Call("c", "work", {"n": n}),)) for n in range(99)]
    reply = agent(budget, ScriptedModel(answers)).reply_sync("go")
    assert reply.stop_reason == "budget"
    assert 0 < budget.spent.tokens <= 2000


def test_budget_that_r_has_overrun_ends_a_dual_act() -> None:
    budget = Budget(tokens=100_000)
    worker = agent(budget.child(), Spender(usage=Usage(100, 200), max_tokens=50))
    dual = DualActAgent(human=agent(budget), reactive=worker, budget=budget)
    dual.set_decision_func(lambda *_: HumanDecision(DecisionAction.CONTINUE, "Go on."))
    reply = dual.reply_sync("go")
    assert (reply.stop_reason, reply.r_runs, budget.spent.tokens) == ("budget", 1, 300)


def test_run_settles_what_it_reserved(caplog: pytest.LogCaptureFixture) -> None:
    budget = Budget(actions=10, model_calls=3, tokens=10_000)
    assert agent(budget, Spender(calls=2)).reply_sync("go").stop_reason == "budget"
    gc.collect()
    assert budget.spent.actions == 6
    assert "a reservation was dropped" not in caplog.text
