"""Agents of the OpenAI Agents SDK as agents of ours, with its own scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import agents
import pytest
from agents import Agent, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import BaseModel

from moothall import (
    Budget,
    CallbackApprover,
    ConfigError,
    Journal,
    Later,
    SQLiteMemory,
    TextPiece,
)
from moothall.serving.theirs.agents_sdk_agent import AgentsSDKAgent
from moothall.serving.theirs.openai_agents import as_steps
from serving.theirs.kills import Points, Store, kill_everywhere, reply_once_decided

set_tracing_disabled(True)


class FunctionModel(agents.Model):
    """A model that is a function of its input items, which returns output items."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.asked = 0

    async def get_response(self, *parts: Any, **named: Any) -> Any:
        self.asked += 1
        usage = agents.Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(self.function(named["input"]), usage, None)

    def stream_response(self, *parts: Any, **more: Any) -> Any:
        raise NotImplementedError


def outputs(items: Any) -> list[str]:
    return [each["output"] for each in items if each.get("type") == "function_call_output"]


class Shop:
    """An agent that pays and then says what came of it."""

    def __init__(self) -> None:
        self.payments: list[tuple[str, int]] = []
        self.model = FunctionModel(self.answer)

    def answer(self, items: Any) -> list[Any]:
        if results := outputs(items):
            return [assistant_message(f"paid: {results[-1]}")]
        return [function_call("pay", {"to": "Anna", "amount": 3}, call_id="c1")]

    def agent(self, **options: Any) -> Agent[Any]:
        @function_tool(**options)
        def pay(to: str, amount: int) -> str:
            """Pay."""
            self.payments.append((to, amount))
            return f"{amount} to {to}"

        return Agent("shop", instructions="You pay.", model=self.model, tools=[pay])


async def test_framework_replies_with_its_calls_as_steps(tmp_path: Path) -> None:
    shop, path = Shop(), tmp_path / "runs.db"
    clerk = AgentsSDKAgent("clerk", shop.agent(), journal=path)
    reply = await clerk.reply("Pay Anna", run_id="r")
    assert reply.text == "paid: 3 to Anna"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 10)
    assert [each.args for each in reply.steps] == [{"to": "Anna", "amount": 3}]
    assert [each["role"] for each in reply.messages] == ["user", "assistant", "tool", "assistant"]
    with Journal(path) as journal:
        assert journal.replay("r").text == reply.text
        assert journal.check() == []
        prompts = [e.data["prompt"] for e in journal.entries("r") if "prompt" in e.data]
        assert [each["own"] for each in prompts] == [[0, 1], [0, 3]]
    assert (await clerk.reply("Pay Anna", run_id="r")).text == reply.text
    assert (shop.model.asked, len(shop.payments)) == (2, 1)


class Receipt(BaseModel):
    to: str
    amount: int


@pytest.mark.parametrize("by_reply", (True, False))
async def test_framework_typed_output_is_the_value(tmp_path: Path, by_reply: bool) -> None:
    text = json.dumps({"to": "Anna", "amount": 3})
    model = ScriptedModel([[assistant_message(text)]])
    agent = Agent("shop", model=model, output_type=None if by_reply else Receipt)
    clerk = AgentsSDKAgent("clerk", agent, journal=tmp_path / "runs.db")
    for _ in range(2):
        reply = await clerk.reply("Go", Receipt if by_reply else None, run_id="r")
        assert reply.value == Receipt(to="Anna", amount=3)


async def test_framework_thread_goes_on_after_a_restart(tmp_path: Path) -> None:
    for count in (1, 3):
        model = FunctionModel(lambda items: [assistant_message(f"{len(items)} items")])
        memory = SQLiteMemory(tmp_path / "memory.db")
        clerk = AgentsSDKAgent("clerk", Agent("shop", model=model), memory=memory)
        assert (await clerk.reply("Go", thread="anna")).text == f"{count} items"


@pytest.mark.parametrize("decision", (True, False))
async def test_framework_approvals_wait_in_the_journal(tmp_path: Path, decision: bool) -> None:
    path, shop = tmp_path / "runs.db", Shop()

    def make() -> AgentsSDKAgent:
        approver = CallbackApprover(lambda request: Later())
        agent = shop.agent(needs_approval=True)
        return AgentsSDKAgent("clerk", agent, journal=path, approver=approver)

    await reply_once_decided(make, path, decision, shop.payments)
    assert (len(shop.payments), shop.model.asked) == (decision, 2)


async def test_framework_hands_over_within_the_run(tmp_path: Path) -> None:
    shop = Shop()
    first = FunctionModel(lambda items: [function_call("transfer_to_shop", {}, call_id="h1")])
    front = Agent("front", model=first, handoffs=[shop.agent()])

    def answer(items: Any) -> list[Any]:
        return shop.answer([each for each in items if each.get("call_id") != "h1"])

    shop.model.function = answer
    clerk = AgentsSDKAgent("clerk", front, journal=tmp_path / "runs.db")
    reply = await clerk.reply("Pay Anna", run_id="r")
    assert (reply.text, len(reply.steps)) == ("paid: 3 to Anna", 1)
    assert (reply.usage.total, clerk.tools_are_known()) == (45, True)


async def test_framework_inner_agent_with_steps_is_in_the_record(tmp_path: Path) -> None:
    inner = as_steps(Agent("inner", model=ScriptedModel([[assistant_message("seen")]])))
    tool = inner.as_tool("look", "Looks.")

    def answer(items: Any) -> list[Any]:
        results = outputs(items)
        text = results[0] if results else ""
        return [
            assistant_message(text)
            if results
            else function_call("look", {"input": "x"}, call_id="l")
        ]

    outer = Agent("outer", model=FunctionModel(answer), tools=[tool])
    clerk = AgentsSDKAgent("clerk", outer, journal=tmp_path / "runs.db")
    assert (await clerk.reply("Go", run_id="r")).text == "seen"
    with Journal(tmp_path / "runs.db") as journal:
        assert {"1", "1.0/1", "1.0", "2"} <= {
            e.data["key"] for e in journal.entries("r") if e.kind == "ended"
        }


async def test_framework_text_is_streamed() -> None:
    agent = Agent("shop", model=ScriptedModel([[assistant_message("one two three")]]))
    pieces = [
        e.text async for e in AgentsSDKAgent("c", agent).stream("Go") if isinstance(e, TextPiece)
    ]
    assert "".join(pieces) == "one two three"


async def test_framework_budget_ends_the_run_before_a_request() -> None:
    shop = Shop()
    reply = await AgentsSDKAgent("c", shop.agent(), budget=Budget(model_calls=1)).reply("Go")
    assert (reply.stop_reason, shop.model.asked) == ("budget", 1)


def test_framework_tool_that_cannot_be_a_step_is_refused() -> None:
    shell = agents.LocalShellTool(executor=lambda request: "")
    with pytest.raises(ConfigError, match="LocalShellTool cannot be a step"):
        AgentsSDKAgent("clerk", Agent("shop", tools=[shell]))


def test_framework_agent_with_two_tools_of_one_name_is_refused() -> None:
    tools = [agents.function_tool(each, name_override="pay") for each in (len, len)]
    with pytest.raises(ConfigError, match="agent 'shop' has two tools of the name 'pay'"):
        AgentsSDKAgent("clerk", Agent("shop", tools=tools))


@pytest.mark.timeout(600)
def test_framework_killed_run_does_nothing_twice_and_loses_nothing(
    tmp_path: Path, is_on_server: bool, journal_store: Store
) -> None:
    def make(points: Points, path: str) -> AgentsSDKAgent:
        def answer(items: Any) -> list[Any]:
            points.model()
            results = outputs(items)
            if not results:
                return [function_call("pay", {"to": to}, call_id=to) for to in ("Anna", "Bob")]
            if len(results) == 2:
                return [function_call("note", {"text": "both"}, call_id="n")]
            return [assistant_message(" ".join(results))]

        @function_tool
        async def pay(to: str) -> str:
            return points.effect(f"pay-{to}")

        @function_tool(needs_approval=is_on_server)
        async def note(text: str) -> str:
            return points.effect(f"note-{text}")

        agent = Agent("shop", model=FunctionModel(answer), tools=[pay, note])
        approver = CallbackApprover(lambda request: Later())
        return AgentsSDKAgent("clerk", agent, journal=path, approver=approver)

    kill_everywhere(make, tmp_path, journal_store)
