"""Users whom a model plays, in conversations that are evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import Budget, ConfigError, Conversation, ReActAgent, ScriptedModel, action
from moothall.evals import Case, Evaluation, SimulatedPerson, calls_in_order


@action(idempotent=True)
async def find(order: str) -> str:
    """Find an order."""
    return f"order {order}"


@action()
async def refund(order: str) -> str:
    """Pay money back."""
    return "paid"


def person_model(messages: list[dict[str, Any]], actions: Any) -> Any:
    """Tell the number when asked, and leave once something is done."""
    assert [each.name for each in actions] == ["end_conversation"]
    last = messages[-1]["content"]
    if "number" in last:
        number = messages[0]["content"].partition("the order ")[2][:2]
        return f"It is {number}."
    if "done" in last:
        return {"name": "end_conversation", "args": {"last_words": "Thank you."}}
    return "My mug is broken."


def desk_model(messages: list[dict[str, Any]], actions: Any) -> Any:
    last = messages[-1]
    done = [each["name"] for each in messages if each["role"] == "tool"]
    if last["role"] == "tool" and done[-1] == "find":
        return {"name": "refund", "args": {"order": "A7"}}
    if last["role"] == "tool":
        return "It is done."
    if "A7" in last["content"]:
        return {"name": "find", "args": {"order": "A7"}}
    return "What is its number?"


def lazy_model(messages: list[dict[str, Any]], actions: Any) -> Any:
    return "It is done."


def talk(case: Case, model: Any = desk_model) -> Conversation:
    goal, knows = case.metadata["goal"], case.metadata["knows"]
    ann = SimulatedPerson("ann", ScriptedModel(person_model), goal=goal, knows=knows)
    desk = ReActAgent("desk", ScriptedModel(model), actions=[find, refund])
    return Conversation([ann, desk], until=ann.has_left, max_turns=12)


CASES = [
    Case("mug", "How can I help?", metadata={"goal": "money back", "knows": "the order A7"}),
    Case("cup", "How can I help?", metadata={"goal": "money back", "knows": "the order B9"}),
]


async def test_simulated_person_tells_what_it_knows_when_asked_and_ends_the_conversation(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {"journal": tmp_path / "evals.db", "leaves": lambda name, args: "ok"}
    graders = [calls_in_order("find", "refund")]
    conditions: dict[str, Any] = {
        "as it is": {},
        "lazy": {"agent": lambda case: talk(case, lazy_model)},
    }
    results = await Evaluation(talk, CASES, graders, conditions, **options).run()
    assert results.errors == []
    cells = {(each.condition, each.case.name): each for each in results.cells}
    done = cells["as it is", "mug"]
    assert (done.text, done.stop_reason) == ("Thank you.", "done")
    assert done.grades == {"calls_in_order": True}
    assert cells["as it is", "cup"].stop_reason == "max_iterations"  # its number helps nobody
    assert cells["lazy", "mug"].grades == {"calls_in_order": False}
    assert cells["lazy", "mug"].text == "Thank you."


async def test_simulated_person_without_a_budget_left_says_nothing_more() -> None:
    ann = SimulatedPerson(
        "ann", ScriptedModel(person_model), goal="money back", budget=Budget(model_calls=1)
    )
    desk = ReActAgent("desk", ScriptedModel(desk_model), actions=[find])
    reply = await Conversation([ann, desk], until=ann.has_left, max_turns=6).reply("Hello?")
    assert reply.stop_reason == "budget"


def test_simulated_person_has_a_goal_of_any_length_and_what_it_knows_as_texts() -> None:
    goal = "Your money back.\n" * 200
    ann = SimulatedPerson("ann", ScriptedModel(person_model), goal=goal, knows="A7\n{A8}")
    assert goal in ann.system_prompt
    assert "A7\n{A8}" in ann.system_prompt
    for parts in ({"goal": " "}, {"goal": None}, {"goal": "money back", "knows": ["A7"]}):
        with pytest.raises(ConfigError, match=r"SimulatedPerson: \w+= must be a text, got"):
            SimulatedPerson("ann", ScriptedModel(person_model), **parts)
