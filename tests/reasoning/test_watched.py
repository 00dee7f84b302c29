"""Who watches an agent sees its answers come, whoever asked."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from moothall import (
    Agent,
    Call,
    Conversation,
    DualActAgent,
    DualActConfig,
    MaxTurns,
    NativeSpace,
    ReActAgent,
    action,
)
from moothall.agents import ChattyAI, OpenAIFunctionAgent
from moothall.errors import DefinitionError
from moothall.models import ScriptedModel


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


def pieces(events: list[Any], agent: str) -> list[str]:
    return [e.text for e in events if e.kind == "text" and e.agent == agent]


def test_a_chat_agents_answer_is_seen_in_pieces_with_the_message_that_it_answers() -> None:
    chatty = ChattyAI("Chatty", ScriptedModel(["Good morning, Ann!\n"]))
    seen: list[Any] = []
    answered: list[Any] = []

    def watch(event: Any) -> None:
        seen.append(event)
        answered.append(chatty._current_message)

    chatty.watch(watch)
    with NativeSpace() as space:
        space.add(chatty)
        ann = space.add(Agent("Ann"))
        message = {"id": "7", "to": "Chatty", "action": {"name": "say", "args": {"content": "Hi"}}}
        assert ann.request(message).result(timeout=10) == "Good morning, Ann!"
    assert pieces(seen, "Chatty") == ["Good", " morning,", " Ann!", "\n"]
    assert {(each["from"], each["id"]) for each in answered} == {("Ann", "7")}


def test_an_agent_that_acts_is_seen_in_a_space_and_outside_of_one() -> None:
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


async def _streamed(agent: Any) -> list[Any]:
    async with agent.stream("Go") as events:
        return [event async for event in events]


def test_who_streams_and_who_watches_see_the_same() -> None:
    import asyncio

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


def test_a_watcher_that_fails_is_called_no_more(caplog: pytest.LogCaptureFixture) -> None:
    agent = ReActAgent("R", ScriptedModel(["One two.", "Three."]))
    seen: list[Any] = []

    def broken(event: Any) -> None:
        seen.append(event)
        raise ValueError("no luck")

    agent.watch(broken)
    with caplog.at_level(logging.ERROR, "moothall.reasoning"):
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
