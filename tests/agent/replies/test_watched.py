"""Who watches an agent sees its answers come, whoever asked."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Agent,
    Call,
    Conversation,
    DualActAgent,
    DualActConfig,
    Journal,
    MaxTurns,
    NativeSpace,
    ReActAgent,
    RunMismatch,
    action,
)
from moothall.agents import ChattyAI, OpenAIFunctionAgent
from moothall.foundation.errors import DefinitionError
from moothall.models import ScriptedModel
from moothall.research import Researcher


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


def pieces(events: list[Any], agent: str) -> list[str]:
    return [e.text for e in events if e.kind == "text" and e.agent == agent]


def test_watcher_sees_a_chat_agents_answer_in_pieces_with_the_message_it_answers() -> None:
    chatty = ChattyAI("Chatty", ScriptedModel(["Good morning, Ann!\n"]))
    seen: list[Any] = []
    answered: list[Any] = []

    def watch(event: Any) -> None:
        seen.append(event)
        answered.append(chatty.current_message)

    chatty.watch(watch)
    with NativeSpace() as space:
        space.add(chatty)
        ann = space.add(Agent("Ann"))
        message = {"id": "7", "to": "Chatty", "action": {"name": "say", "args": {"content": "Hi"}}}
        assert ann.request(message).result(timeout=10) == "Good morning, Ann!"
    assert pieces(seen, "Chatty") == ["Good", " morning,", " Ann!", "\n"]
    assert {(each["from"], each["id"]) for each in answered} == {("Ann", "7")}


def test_watcher_sees_an_agent_that_acts_in_a_space_and_outside_of_one() -> None:
    replies = [Call("1", "Calculator_add", {"a": 1, "b": 2}), "It is 3.", "Well."]
    agent = OpenAIFunctionAgent("F", ScriptedModel(replies), user_id="Ann")
    seen: list[Any] = []
    agent.watch(seen.append)
    with NativeSpace() as space:
        for each in (agent, Calculator("Calculator")):
            space.add(each)
        ann = space.add(Agent("Ann"))
        assert ann.ask("F", "say", content="1 + 2?").result(timeout=10) == "It is 3."
    assert [e.action for e in seen if e.kind == "call_started"] == ["Calculator.add"]
    assert pieces(seen, "F") == ["It", " is", " 3."]
    assert seen[-1].reply.text == "It is 3."
    assert agent.reply_sync("And now?").text == "Well."
    assert pieces(seen, "F")[3:] == ["Well."]


def a_loop(model: Any) -> Any:
    return ReActAgent("it", model)


def a_dual_act(model: Any) -> Any:
    config = DualActConfig(ReActAgent("H", ScriptedModel([])), ReActAgent("R", model))
    config.first = "reactive"
    return DualActAgent(config, "it")


def a_conversation(model: Any) -> Any:
    return Conversation([ReActAgent("A", model)], until=MaxTurns(1), id="it")


def a_function_agent(model: Any) -> Any:
    return OpenAIFunctionAgent("it", model, user_id="Ann")


def a_researcher(model: Any) -> Any:
    def find(query: str) -> str:
        """Find something."""
        return "nothing"

    return Researcher("it", model, ["alpha"], [find])


@pytest.mark.parametrize(
    "kind", (a_loop, a_dual_act, a_conversation, a_function_agent, a_researcher)
)
async def test_watcher_sees_the_end_of_a_cancelled_reply(kind: Any) -> None:
    started = asyncio.Event()

    async def never(messages: Any, actions: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = kind(ScriptedModel([never]))
    seen: list[Any] = []
    agent.watch(seen.append)
    reply = asyncio.create_task(agent.reply("Go", thread="t", run_id="r"))
    await started.wait()
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply
    last = seen[-1]
    assert (last.kind, last.agent, last.run_id, last.thread) == ("done", "it", "r", "t")
    assert (last.reply.stop_reason, last.reply.run_id) == ("cancelled", "r")
    assert [each.kind for each in seen].count("done") == 1


def test_watcher_sees_the_end_of_a_reply_that_raises(tmp_path: Path) -> None:
    seen: list[Any] = []
    with Journal(tmp_path / "j") as journal:
        agent = ReActAgent("it", ScriptedModel(["one", "two"]), journal=journal)
        agent.reply_sync("Go", run_id="r")
        agent.watch(seen.append)
        with pytest.raises(RunMismatch):
            agent.reply_sync("Go elsewhere", run_id="r")
    assert [(each.kind, each.reply.stop_reason) for each in seen] == [("done", "error")]
    assert isinstance(seen[0].reply.error, RunMismatch)


async def _streamed(agent: Any) -> list[Any]:
    async with agent.stream("Go") as events:
        return [event async for event in events]


def test_watchers_and_streams_see_the_same_events() -> None:
    agent = ReActAgent("R", ScriptedModel(["One two."]))
    seen: list[Any] = []
    agent.watch(seen.append)
    assert asyncio.run(_streamed(agent)) == seen


def test_agents_of_several_are_watched_too() -> None:
    judge = {"action": "TERMINATE", "new_instruction": "", "reasoning": "good"}
    human = ReActAgent("H", ScriptedModel([str(judge).replace("'", '"')]))
    dual = DualActAgent(
        DualActConfig(human, ReActAgent("R", ScriptedModel(["Done it."])), first="reactive"), "D"
    )
    several = Conversation([ReActAgent("A", ScriptedModel(["I say."]))], until=MaxTurns(1), id="C")
    for agent, inner, said in ((dual, "R", "Done it."), (several, "A", "I say.")):
        seen: list[Any] = []
        agent.watch(seen.append)
        agent.reply_sync("Go")
        assert "".join(pieces(seen, inner)) == said
        assert (seen[-1].kind, seen[-1].agent) == ("done", agent.id)


def test_watcher_that_fails_is_called_no_more(caplog: pytest.LogCaptureFixture) -> None:
    agent = ReActAgent("R", ScriptedModel(["One two.", "Three."]))
    seen: list[Any] = []

    def broken(event: Any) -> None:
        seen.append(event)
        raise ValueError("no luck")

    agent.watch(broken)
    with caplog.at_level(logging.ERROR, "moothall.agents"):
        assert agent.reply_sync("Go").text == "One two."
        assert agent.reply_sync("Go").text == "Three."
    assert len(seen) == 1
    assert "is called no more" in caplog.text


def test_watching_ends() -> None:
    agent = ReActAgent("R", ScriptedModel(["One two."]))
    seen: list[Any] = []
    agent.watch(seen.append)
    agent.unwatch(seen.append)
    agent.reply_sync("Go")
    assert seen == []
    with pytest.raises(KeyError):
        agent.unwatch(seen.append)
    with pytest.raises(DefinitionError, match="takes a plain function"):
        agent.watch(7)  # type: ignore[arg-type]
