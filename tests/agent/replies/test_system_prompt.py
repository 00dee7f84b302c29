"""A system prompt that is a function: of who asks, in which thread, with which deps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from journal.crash import Crashing
from moothall import (
    Agent,
    Budget,
    ChattyAI,
    Context,
    DualActAgent,
    Goal,
    Journal,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
)
from moothall.actions import action
from moothall.foundation.errors import DefinitionError, RunMismatch
from moothall.models.protocol import Call


def shown(model: ScriptedModel) -> list[str]:
    """The system part of each prompt that a model was given."""
    return [each[0]["content"] for each in model.received if each[0]["role"] == "system"]


def who(context: Context[str]) -> str:
    return f"You serve {context.deps} in {context.thread}."


async def slow(context: Context[str]) -> str:
    return who(context)


class Service:
    def prompt(self, context: Context[str]) -> str:
        return who(context)


@pytest.mark.parametrize("prompt", (who, slow, Service().prompt))
async def test_system_prompt_function_is_called_for_each_reply(prompt: Any) -> None:
    model = ScriptedModel(["Hello."] * 3)
    agent = ReActAgent("a", model, system_prompt=prompt, deps="all")
    await agent.reply("Hi", thread="ada", deps="Ada")
    await agent.reply("Hi", thread="bo", deps="Bo")
    await agent.reply("Hi")
    assert shown(model) == [
        "You serve Ada in ada.",
        "You serve Bo in bo.",
        "You serve all in None.",
    ]


async def test_system_prompt_function_is_called_once_with_run_and_budget() -> None:
    made: list[Context[None]] = []

    def prompt(context: Context[None]) -> str:
        made.append(context)
        return f"Prompt {len(made)}."

    def look() -> str:
        """Look."""
        return "seen"

    budget = Budget(model_calls=5)
    model = ScriptedModel([Call("c", "look", {}), "Seen."])
    goals = [Goal(1, "g", "Look.")]
    agent = ReActAgent("a", model, actions=[look], system_prompt=prompt, goals=goals)
    await agent.reply("Hi", run_id="r", budget=budget)
    (context,) = made
    assert (context.agent, context.run_id, context.budget) == (agent, "r", budget)
    first, second = shown(model)
    assert first == second
    assert first.startswith("Prompt 1.\n\n")
    assert "Look." in first


@pytest.mark.parametrize("prompt", (lambda context: None, lambda context: ""))
async def test_system_prompt_none_adds_no_message(prompt: Any) -> None:
    model = ScriptedModel(["Hello."])
    await ReActAgent("a", model, system_prompt=prompt).reply("Hi")
    assert [each["role"] for each in model.received[0]] == ["user"]


async def test_system_prompt_function_of_a_resumed_run_is_not_called_again(tmp_path: Path) -> None:
    times = iter(("in the morning", "in the evening"))

    def now(context: Context[str]) -> str:
        return f"It is {next(times)}."

    def agent(journal: Journal, crash: Crashing, **more: Any) -> ReActAgent:
        @action(idempotent=True)
        def act() -> Any:
            """Act."""
            return crash(1)

        model = ScriptedModel([Call("c", "act", {}), "Done."])
        known = {"actions": [act], "system_prompt": now}
        return ReActAgent("a", model, journal=journal, **known | more)

    with Journal(tmp_path / "journal") as journal:
        await agent(journal, Crashing(journal, tmp_path / "left")).reply("Go", run_id="r")
    with Journal(tmp_path / "left") as journal:
        crash = Crashing(journal, tmp_path / "again")
        with pytest.raises(RunMismatch, match="system prompt"):
            await agent(journal, crash, system_prompt=who).reply("Go", run_id="r")
        again = agent(journal, crash)
        assert (await again.reply("Go", run_id="r")).text == "Done."
        model: Any = again.model
        assert shown(model) == ["It is in the morning."]
        await again.reply("Go", run_id="another")
        assert shown(model)[-1] == "It is in the evening."


async def test_system_prompt_function_of_a_member_has_the_deps_of_the_group() -> None:
    model = ScriptedModel(["Good."])
    decides = [
        '{"action": "CONTINUE", "new_instruction": "Go."}',
        '{"action": "TERMINATE", "new_instruction": ""}',
    ]
    human = ReActAgent("H", ScriptedModel(decides))
    reactive = ReActAgent("R", model, system_prompt=who)
    await DualActAgent(human=human, reactive=reactive).reply("Go", thread="t", deps="Ada")
    assert shown(model) == ["You serve Ada in t."]


def fails(context: Context[None]) -> str:
    raise LookupError("no such customer")


def number(context: Context[None]) -> Any:
    return 7


@pytest.mark.parametrize(
    ("prompt", "said"), ((fails, "LookupError: no such customer"), (number, "must return a text"))
)
async def test_system_prompt_function_that_fails_ends_the_reply(prompt: Any, said: str) -> None:
    model = ScriptedModel(["Hello."])
    reply = await ReActAgent("a", model, system_prompt=prompt).reply("Hi")
    assert reply.stop_reason == "error"
    assert "system_prompt failed" in reply.detail
    assert said in reply.detail
    assert not model.received


def test_system_prompt_function_of_a_chat_agent_knows_its_sender() -> None:
    async def prompt(context: Context[str]) -> str:
        return f"You talk with {context.sender} about {context.deps}."

    model = ScriptedModel(["Hello."] * 2)
    with NativeSpace() as space:
        space.add(ChattyAI("chatty", model, system_prompt=prompt, deps="chairs"))
        for name in ("ada", "bo"):
            space.add(Agent(name)).ask("chatty", "say", content="Hi").result(timeout=30)
    assert shown(model) == ["You talk with ada about chairs.", "You talk with bo about chairs."]


@pytest.mark.parametrize("make", (ReActAgent, ChattyAI))
@pytest.mark.parametrize("wrong", (7, ["x"]))
def test_system_prompt_of_another_type_is_refused(make: Any, wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="must be a text or a function of the Context, got"):
        make("a", ScriptedModel([]), system_prompt=wrong)
