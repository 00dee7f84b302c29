"""Actions that a function of the Context gives for each reply: tools by customer or role."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Block,
    Context,
    DefinitionError,
    Journal,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
    Waiting,
    action,
)


def look(order: str) -> str:
    """Look up an order."""
    return f"{order} is shipped"


@action(access_policy=ACCESS_REQUESTED)
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is paid back"


def by_role(context: Context[Any]) -> list[Any]:
    return [look, refund] if context.deps == "staff" else [look]


class Seen(ScriptedModel):
    """Calls `refund`, then says its result; keeps the names of the actions of each call."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []
        super().__init__(self.answer)

    def answer(self, messages: list[dict[str, Any]], actions: Any) -> Any:
        self.names.append([each.name for each in actions])
        if messages[-1]["role"] == "user":
            return {"name": "refund", "args": {"order": "A1"}}
        return messages[-1]["content"]


def test_actions_by_context_are_those_of_each_reply() -> None:
    model = Seen()
    agent = ReActAgent("desk", model, actions=by_role)
    refused = agent.reply_sync("Refund A1.", deps="customer")
    assert "the actions are look" in refused.text
    assert agent.reply_sync("Refund A1.", deps="staff").steps[0].action == "refund"
    assert model.names == [["look"]] * 2 + [["look", "refund"]] * 2


def test_actions_by_context_of_replies_at_the_same_time_are_apart() -> None:
    model = Seen()
    agent = ReActAgent("desk", model, actions=by_role)

    async def both() -> list[Any]:
        roles = ("staff", "customer")
        replies = (agent.reply("Refund A1.", thread=each, deps=each) for each in roles)
        return await asyncio.gather(*replies)

    staff, customer = asyncio.run(both())
    assert staff.steps[0].action == "refund"
    assert "the actions are look" in customer.text


def test_actions_by_context_may_be_awaited_and_stand_beside_those_of_blocks() -> None:
    class Hours(Block):
        @action
        def opening(self) -> str:
            """When the shop opens."""
            return "at nine"

    async def later(context: Context[Any]) -> list[Action]:
        await asyncio.sleep(0)
        return [Action("look", look)]

    shown: list[list[str]] = []
    model = ScriptedModel(lambda _, actions: shown.append([a.name for a in actions]) or "Hello")
    ReActAgent("desk", model, actions=later, blocks=[Hours()]).reply_sync("Hello")
    assert shown == [["Hours_opening", "look"]]


def test_actions_by_context_are_asked_for_again_when_a_run_goes_on(tmp_path: Path) -> None:
    def desk() -> ReActAgent:
        journal = Journal(tmp_path / "runs.db")
        return ReActAgent("desk", Seen(), actions=by_role, journal=journal, approver=Waiting())

    first = desk()
    reply = first.reply_sync("Refund A1.", run_id="a", deps="staff")
    assert reply.stop_reason == "waiting"
    first.journal.close()
    second = desk()
    (wait,) = second.journal.waiting("a")
    second.journal.answer("a", wait.key, True)
    (resumed,) = asyncio.run(second.resume_decided(deps=lambda run: "staff"))
    assert "A1 is paid back" in resumed.reply.text
    assert second.reply_sync("Refund A1.", run_id="a").text == resumed.reply.text
    second.journal.close()


def test_run_of_another_function_of_actions_is_another_program(tmp_path: Path) -> None:
    def others(context: Context[Any]) -> list[Any]:
        return [look]

    for function, outcome in ((by_role, "waiting"), (others, "mismatch")):
        journal = Journal(tmp_path / "runs.db")
        agent = ReActAgent("desk", Seen(), actions=function, journal=journal, approver=Waiting())
        if outcome == "waiting":
            assert agent.reply_sync("Hi", run_id="a", deps="staff").stop_reason == outcome
        else:
            with pytest.raises(RunMismatch):
                agent.reply_sync("Hi", run_id="a", deps="staff")
        journal.close()


@pytest.mark.parametrize(
    ("function", "fault"),
    (
        (lambda _: look, "one action: put it in a list"),
        (lambda _: None, "it must return a list of actions, got None"),
        (lambda _: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda _: [look, look], "two of one name"),
    ),
)
def test_function_of_actions_that_fails_ends_the_reply_in_words(function: Any, fault: str) -> None:
    reply = ReActAgent("desk", ScriptedModel(["Hello"]), actions=function).reply_sync("Hello")
    assert reply.stop_reason == "error"
    assert "the function of actions= failed" in reply.detail
    assert fault in reply.detail


@pytest.mark.parametrize("value", (look, refund, str, list))
def test_actions_that_are_one_function_of_something_else_are_refused(value: Any) -> None:
    with pytest.raises(DefinitionError, match="or a function of the Context that returns one"):
        ReActAgent("desk", ScriptedModel(["Hello"]), actions=value)
