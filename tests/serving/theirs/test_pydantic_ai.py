"""Agents of Pydantic AI as agents of ours, with its own scripted models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, CallDeferred, ModelRetry, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from moothall import (
    Budget,
    CallbackApprover,
    ConfigError,
    Journal,
    Later,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    TextPiece,
)
from moothall.models import Call, ModelReply
from moothall.serving.theirs.pydantic_ai import AsSteps
from moothall.serving.theirs.pydantic_ai_agent import PydanticAIAgent
from serving.theirs.kills import Points, Store, kill_everywhere, reply_once_decided


def returns(messages: Any) -> list[Any]:
    return [p for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]


def answer(*parts: Any) -> ModelResponse:
    return ModelResponse(parts=[*parts], usage=RequestUsage(input_tokens=10, output_tokens=5))


def say(text: str) -> ModelResponse:
    return answer(TextPart(text))


def call(name: str, id: str = "c1", **args: Any) -> ModelResponse:
    return answer(ToolCallPart(name, args, id))


class Shop:
    """An agent that pays and then says what came of it."""

    def __init__(self) -> None:
        self.payments: list[tuple[str, int]] = []
        self.asked = 0

    def model(self, messages: Any, info: Any) -> ModelResponse:
        self.asked += 1
        results = returns(messages)
        return say(f"paid: {results[-1].content}") if results else call("pay", to="Anna", amount=3)

    def agent(self, **options: Any) -> Agent[Any, Any]:
        agent = Agent(FunctionModel(self.model), instructions="You pay.", deps_type=object)

        @agent.tool_plain(**options)
        def pay(to: str, amount: int) -> str:
            self.payments.append((to, amount))
            return f"{amount} to {to}"

        return agent


class Paying(Shop):
    """A shop that pays once each time that it is asked."""

    def model(self, messages: Any, info: Any) -> ModelResponse:
        return say("paid") if returns(messages[-1:]) else call("pay", to="Anna", amount=3)


async def test_framework_replies_with_its_calls_as_steps(tmp_path: Path) -> None:
    shop, path = Shop(), tmp_path / "runs.db"
    clerk = PydanticAIAgent("clerk", shop.agent(), journal=path)
    reply = await clerk.reply("Pay Anna", run_id="r")
    assert reply.text == "paid: 3 to Anna"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 10)
    assert [(each.action, each.args) for each in reply.steps] == [
        ("pay", {"to": "Anna", "amount": 3})
    ]
    assert [each["role"] for each in reply.messages] == ["user", "assistant", "tool", "assistant"]
    with Journal(path) as journal:
        assert journal.replay("r").text == reply.text
        assert journal.check() == []
        prompts = [e.data["prompt"] for e in journal.entries("r") if "prompt" in e.data]
        assert [each["own"] for each in prompts] == [[0, 1], [0, 3]]
    assert (await clerk.reply("Pay Anna", run_id="r")).text == reply.text
    assert (shop.asked, len(shop.payments)) == (2, 1)


async def test_framework_agent_that_has_as_steps_already_is_asked_and_calls_once(
    tmp_path: Path,
) -> None:
    shop, asked = Shop(), list[str]()
    inner = shop.agent(requires_approval=True)
    agent = Agent(inner.model, toolsets=inner.toolsets, capabilities=[AsSteps()])
    approver = CallbackApprover(lambda request: not asked.append(request.action))
    clerk = PydanticAIAgent("clerk", agent, journal=tmp_path / "runs.db", approver=approver)
    reply = await clerk.reply("Pay Anna", run_id="r")
    assert reply.text == "paid: 3 to Anna"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 10)
    assert (shop.asked, shop.payments, asked) == (2, [("Anna", 3)], ["pay"])
    with Journal(tmp_path / "runs.db") as journal:
        steps = {e.data["key"] for e in journal.entries("r") if "key" in e.data}
    assert steps == {"1", "1.0", "2"}


class Receipt(BaseModel):
    to: str
    amount: int


async def test_framework_typed_output_is_the_value_also_of_a_recorded_reply(tmp_path: Path) -> None:
    def model(messages: Any, info: Any) -> ModelResponse:
        return call("final_result", to="Anna", amount=3)

    agent = Agent(FunctionModel(model), output_type=Receipt)
    clerk = PydanticAIAgent("clerk", agent, journal=tmp_path / "runs.db")
    for _ in range(2):
        reply = await clerk.reply("Go", run_id="r")
        assert reply.value == Receipt(to="Anna", amount=3)
    assert reply.text == '{"to": "Anna", "amount": 3}'


async def test_framework_schema_of_the_reply_is_its_output_type() -> None:
    def model(messages: Any, info: Any) -> ModelResponse:
        (tool,) = info.output_tools
        return call(tool.name, to="Anna", amount=3)

    clerk = PydanticAIAgent("clerk", Agent(FunctionModel(model)))
    assert (await clerk.reply("Go", Receipt)).value == Receipt(to="Anna", amount=3)


async def test_framework_thread_goes_on_after_a_restart(tmp_path: Path) -> None:
    def model(messages: Any, info: Any) -> ModelResponse:
        return say(f"{[type(p).__name__ for m in messages for p in m.parts]}")

    for count in (1, 2):
        agent = Agent(FunctionModel(model), system_prompt="You count.")
        clerk = PydanticAIAgent("clerk", agent, memory=SQLiteMemory(tmp_path / "memory.db"))
        text = (await clerk.reply("Go", thread="anna")).text
        assert text.count("UserPromptPart") == count
        assert text.count("SystemPromptPart") == 1


async def test_framework_later_reply_of_a_thread_remembers_its_calls_as_the_first_does() -> None:
    clerk = PydanticAIAgent("clerk", Paying().agent())
    for _ in range(2):
        reply = await clerk.reply("Pay Anna", thread="anna")
        assert [m["role"] for m in reply.messages] == ["user", "assistant", "tool", "assistant"]


async def test_framework_reads_what_was_said_before_by_who_said_it() -> None:
    def model(messages: Any, info: Any) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        return say(" ".join(f"{type(part).__name__}:{part.content}" for part in parts))

    said = (("system", "She pays."), ("user", "Hi."), ("assistant", "Hello."))
    history: list[dict[str, Any]] = [{"role": role, "content": text} for role, text in said]
    reply = await PydanticAIAgent("c", Agent(FunctionModel(model))).reply("Go", history=history)
    assert reply.text == (
        "SystemPromptPart:She pays. UserPromptPart:Hi. TextPart:Hello. UserPromptPart:Go"
    )


@pytest.mark.parametrize("kind", ("requires", "raises"))
@pytest.mark.parametrize("decision", (True, False))
async def test_framework_approvals_wait_in_the_journal(
    tmp_path: Path, decision: bool, kind: str
) -> None:
    path, shop = tmp_path / "runs.db", Shop()

    def make() -> PydanticAIAgent:
        agent = shop.agent(requires_approval=True) if kind == "requires" else raising(shop)
        approver = CallbackApprover(lambda request: Later())
        return PydanticAIAgent("clerk", agent, journal=path, approver=approver)

    reply = await reply_once_decided(make, path, decision, shop.payments)
    assert (len(shop.payments), shop.asked) == (decision, 2)
    assert ("not permitted" in reply.text.lower()) == (not decision)


def raising(shop: Shop) -> Agent[Any, Any]:
    agent = Agent(FunctionModel(shop.model))

    @agent.tool
    def pay(ctx: RunContext[Any], to: str, amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        shop.payments.append((to, amount))
        return f"{amount} to {to}"

    return agent


async def test_framework_deferred_call_waits_for_its_result(tmp_path: Path) -> None:
    path, shop = tmp_path / "runs.db", Shop()
    agent = Agent(FunctionModel(shop.model))

    @agent.tool_plain
    def pay(to: str, amount: int) -> str:
        raise CallDeferred(metadata={"name": "bank"})

    clerk = PydanticAIAgent("clerk", agent, journal=path)
    assert (await clerk.reply("Pay Anna", run_id="r")).stop_reason == "waiting"
    with Journal(path) as journal:
        journal.answer("r", "bank", "done by the bank")
    assert (await clerk.reply("Pay Anna", run_id="r")).text == "paid: done by the bank"


async def test_framework_retry_is_told_and_is_not_repeated(tmp_path: Path) -> None:
    tries, cuts = [], [1]

    def model(messages: Any, info: Any) -> ModelResponse:
        results = returns(messages)
        if not results:
            return call("find", what="x")
        if len(results) == 1:
            assert "try y" in results[0].model_response_str()
            if cuts:
                cuts.pop()
                raise ConnectionError("cut off")
            return call("find", "c2", what="y")
        return say(results[-1].content)

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def find(what: str) -> str:
        tries.append(what)
        if what == "x":
            raise ModelRetry("try y")
        return "found"

    clerk = PydanticAIAgent("clerk", agent, journal=tmp_path / "runs.db")
    assert (await clerk.reply("Go", run_id="r")).stop_reason == "error"
    assert (await clerk.reply("Go", run_id="r")).text == "found"
    assert tries == ["x", "y"]


async def test_framework_text_is_streamed() -> None:
    clerk = PydanticAIAgent("clerk", Agent(TestModel(custom_output_text="one two three")))
    pieces = [each.text async for each in clerk.stream("Go") if isinstance(each, TextPiece)]
    assert "".join(pieces) == "one two three"
    assert len(pieces) > 1


async def test_framework_budget_ends_the_run_before_a_request() -> None:
    shop = Shop()
    reply = await PydanticAIAgent("clerk", shop.agent(), budget=Budget(model_calls=1)).reply("Go")
    assert (reply.stop_reason, shop.asked) == ("budget", 1)


async def test_framework_inner_agent_whose_tool_may_be_repeated_goes_on(tmp_path: Path) -> None:
    asked: list[str] = []
    fails = [1]

    def inner_model(messages: Any, info: Any) -> ModelResponse:
        asked.append("inner")
        return say(returns(messages)[0].content) if returns(messages) else call("look")

    inner = Agent(FunctionModel(inner_model), capabilities=[AsSteps()])

    @inner.tool_plain
    def look() -> str:
        asked.append("look")
        return "seen"

    def outer_model(messages: Any, info: Any) -> ModelResponse:
        if returns(messages):
            if fails:
                fails.pop()
                raise ConnectionError("cut off")
            return say(returns(messages)[0].content)
        return call("research")

    outer = Agent(FunctionModel(outer_model))

    @outer.tool_plain
    async def research() -> str:
        return (await inner.run("look")).output

    tools = {"research": {"idempotent": True}}
    clerk = PydanticAIAgent("clerk", outer, tools=tools, journal=tmp_path / "runs.db")
    assert (await clerk.reply("Go", run_id="r")).stop_reason == "error"
    reply = await clerk.reply("Go", run_id="r")
    assert (reply.text, asked) == ("seen", ["inner", "look", "inner"])
    with Journal(tmp_path / "runs.db") as journal:
        keys = {e.data["key"] for e in journal.entries("r") if e.kind == "ended"}
    assert {"1.0/1", "1.0/1.0", "1.0/2"} <= keys


async def test_framework_one_of_ours_asks_it() -> None:
    shop = Shop()
    clerk = PydanticAIAgent("clerk", shop.agent(), description="pays")
    answers = [ModelReply(calls=(Call("a", "clerk", {"text": "Pay"}),)), ModelReply("done")]
    boss = ReActAgent("boss", ScriptedModel(answers), actions=[clerk.as_action("clerk")])
    assert (await boss.reply("Go")).text == "done"
    assert len(shop.payments) == 1


def test_options_of_a_tool_that_it_has_not_are_refused() -> None:
    with pytest.raises(ConfigError, match="'pya', which its program has not; it has pay"):
        PydanticAIAgent("clerk", Shop().agent(), tools={"pya": {"outside": True}})
    with pytest.raises(ConfigError, match="guard= must name parameters of the action, got 'too'"):
        PydanticAIAgent("clerk", Shop().agent(), tools={"pay": {"guard": ("too",)}})
    with pytest.raises(ConfigError, match="must be of the class AbstractAgent of pydantic_ai"):
        PydanticAIAgent("clerk", Shop())


@pytest.mark.timeout(600)
def test_framework_killed_run_does_nothing_twice_and_loses_nothing(
    tmp_path: Path, is_on_server: bool, journal_store: Store
) -> None:
    def make(points: Points, path: str) -> PydanticAIAgent:
        def model(messages: Any, info: Any) -> ModelResponse:
            points.model()
            results = returns(messages)
            if not results:
                parts = [ToolCallPart("pay", {"to": to}, to) for to in ("Anna", "Bob")]
                return answer(*parts)
            if len(results) == 2:
                return call("note", text="both")
            return say(" ".join(each.content for each in results))

        agent = Agent(FunctionModel(model))

        @agent.tool_plain
        async def pay(to: str) -> str:
            return points.effect(f"pay-{to}")

        @agent.tool_plain(requires_approval=is_on_server)  # it waits in between, too
        async def note(text: str) -> str:
            return points.effect(f"note-{text}")

        approver = CallbackApprover(lambda request: Later())
        return PydanticAIAgent("clerk", agent, journal=path, approver=approver)

    kill_everywhere(make, tmp_path, journal_store)
