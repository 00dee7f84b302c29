"""An agent as a tool of another one, outside of a space."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moothall import Budget, Context, DualActAgent, Journal, ReActAgent, ScriptedModel, SQLiteMemory
from moothall.foundation.errors import DefinitionError
from moothall.models.protocol import Call


def ask(name: str, text: str) -> Call:
    return Call("c", name, {"text": text})


async def test_agent_as_action_answers_in_the_callers_thread_with_its_deps_and_budget() -> None:
    seen: list[Context[Any]] = []

    def prompt(context: Context[Any]) -> str:
        seen.append(context)
        return ""

    inner = ScriptedModel(["42"])
    maths = ReActAgent("maths", inner, system_prompt=prompt)
    model = ScriptedModel([ask("maths", "6 * 7?"), "It is 42."])
    whole = Budget(model_calls=10)
    boss = ReActAgent("boss", model, actions=[maths.as_action()], budget=whole)
    share = whole.child(model_calls=5)
    reply = await boss.reply("6 * 7?", thread="ada", deps="Ada", budget=share)
    assert (reply.text, reply.steps[0].result["result"]) == ("It is 42.", "42")
    assert share.spent.model_calls == 3
    (context,) = seen
    assert (context.thread, context.deps, context.budget) == ("boss/ada", "Ada", share)


async def test_agent_as_action_keeps_threads_apart() -> None:
    inner = ScriptedModel(["Noted."] * 3)
    notes = ReActAgent("notes", inner).as_action("note", "Keeps notes.")
    assert (notes.name, notes.description) == ("note", "Keeps notes.")
    assert [*notes.parameters["properties"]] == ["text"]
    script = [ask("note", "A"), "Done.", ask("note", "B"), "Done.", ask("note", "C"), "Done."]
    boss = ReActAgent("boss", ScriptedModel(script), actions=[notes])
    for thread in ("ada", "bo", "ada"):
        await boss.reply("Note it.", thread=thread)
    heard = [[m["content"] for m in each if m["role"] == "user"] for each in inner.received]
    assert heard == [["A"], ["B"], ["A", "C"]]


async def test_agents_as_actions_stand_side_by_side_and_one_keeps_its_own_budget() -> None:
    own = Budget(model_calls=1)
    experts = [
        ReActAgent("law", ScriptedModel(["Legal."]), budget=own),
        DualActAgent(
            human=ReActAgent(
                "H",
                ScriptedModel(
                    ['{"action": "TERMINATE", "new_instruction": "", "reasoning": "Fine."}']
                ),
            ),
            reactive=ReActAgent("R", ScriptedModel([])),
            id="review",
        ),
    ]
    whole = Budget()
    model = ScriptedModel([(ask("law", "?"), Call("d", "review", {"text": "?"})), "Both."])
    boss = ReActAgent("boss", model, actions=[each.as_action() for each in experts], budget=whole)
    reply = await boss.reply("Ask both.")
    assert [step.result["result"] for step in reply.steps] == ["Legal.", "Fine."]
    assert (own.spent.model_calls, whole.spent.model_calls) == (1, 3)


async def test_agent_as_action_is_cancelled_with_its_callers_reply() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(messages: Any, actions: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    inner = ReActAgent("inner", ScriptedModel([slow]))
    boss = ReActAgent("boss", ScriptedModel([ask("inner", "?")]), actions=[inner.as_action()])
    task = asyncio.create_task(boss.reply("Go."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_agent_as_action_tells_the_model_its_failure() -> None:
    inner = ReActAgent("inner", ScriptedModel([]))
    model = ScriptedModel([ask("inner", "?"), "It does not work."])
    reply = await ReActAgent("boss", model, actions=[inner.as_action()]).reply("Go.")
    assert reply.text == "It does not work."
    assert "asked for reply 1, but it was given 0" in (reply.steps[0].error or "")


async def test_agent_as_action_is_not_asked_again_by_a_run_that_has_ended(tmp_path: Path) -> None:
    inner = ScriptedModel(["42"])
    with Journal(tmp_path / "runs.db") as journal, SQLiteMemory(tmp_path / "m.db") as memory:
        tool = ReActAgent("maths", inner, memory=memory).as_action()
        model = ScriptedModel([ask("maths", "?"), "It is 42."])
        boss = ReActAgent("boss", model, actions=[tool], journal=journal)
        for _ in range(2):
            assert (await boss.reply("Go.", thread="t", run_id="r")).text == "It is 42."
    assert len(inner.received) == 1


def test_agents_that_offer_the_same_action_are_refused_with_what_helps() -> None:
    agents = [ReActAgent(name, ScriptedModel([])) for name in "ab"]
    with pytest.raises(DefinitionError, match=r"as_action\(name\)"):
        ReActAgent("boss", ScriptedModel([]), actions=agents)
