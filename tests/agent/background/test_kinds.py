"""Agents of each kind that work in the background: their results, and what they are asked again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    A2AAgent,
    Conversation,
    DualActAgent,
    Journal,
    MaxTurns,
    ReActAgent,
    Reply,
    Researcher,
    ScriptedModel,
)
from moothall.models.protocol import Call
from moothall.research import search_folder
from moothall.serving import asgi
from serving.doors.conftest import serving


def repeating(messages: list[dict[str, Any]], actions: Any) -> str:
    """Repeat the last task of the user."""
    tasks = [str(each["content"]) for each in messages if each["role"] == "user"]
    return f"heard: {tasks[-1]}"


def reacting(folder: Path) -> ReActAgent:
    return ReActAgent("helper", ScriptedModel(repeating))


def conversation(folder: Path) -> Conversation:
    members = [ReActAgent(id, ScriptedModel(repeating)) for id in ("anna", "ben")]
    return Conversation(members, id="helper", until=MaxTurns(1))


def dual_act(folder: Path) -> DualActAgent:
    decision = {"reasoning": "It is done.", "action": "TERMINATE", "new_instruction": ""}
    human = ReActAgent("human", ScriptedModel(lambda messages, actions: json.dumps(decision)))
    worker = ReActAgent("worker", ScriptedModel(repeating))
    return DualActAgent(human=human, reactive=worker, first="reactive")


def researcher(folder: Path) -> Researcher:
    (folder / "pump.txt").write_text("The pump must be oiled every 40 days.\n")
    tools = [search_folder(folder, index=folder.parent / "index.db")]
    return Researcher("helper", None, ["How often must the pump be oiled?"], tools)


@pytest.mark.parametrize(
    ("make", "said", "said_again"),
    (
        (reacting, "heard: Oil?", "heard: And the pump?"),
        (conversation, "heard: Oil?", "You were asked before:\nOil?\n\nYour answer:\n"),
        (dual_act, "heard: Oil?", "You were asked before:\nOil?\n\nYour answer:\n"),
        (researcher, "40 days", "40 days"),
    ),
)
def test_background_work_of_an_agent_of_each_kind_is_told_and_asked_again(
    make: Callable[[Path], Any], said: str, said_again: str, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()

    async def main() -> list[str]:
        heard, ended = list[str](), asyncio.Event()

        def direct(messages: list[dict[str, Any]], actions: Any) -> Any:
            last = str(messages[-1]["content"])
            if last == "Go.":
                return Call("1", "helper", {"text": "Oil?"})
            if messages[-1]["role"] == "tool":
                return "I have sent somebody."
            heard.append(last)
            if len(heard) == 1:
                return Call("2", "helper", {"text": "And the pump?", "resume": "r/1.0"})
            return "I see."

        def take(event: Any) -> None:
            if event.kind == "done" and event.reply.text == "I see.":
                ended.set()

        actions = [make(tmp_path / "files").as_action("helper", background=True)]
        journal = Journal(tmp_path / "runs.db")
        agent = ReActAgent("chief", ScriptedModel(direct), actions=actions, journal=journal)
        agent.watch(take)
        reply: Reply = await agent.reply("Go.", thread="t", run_id="r")
        assert reply.under_way == ("r/1.0",)
        await ended.wait()
        return heard

    first, second = asyncio.run(main())
    assert first.startswith("Result of helper (r/1.0), in the background:\n")
    assert said in first
    assert second.startswith("Result of helper (r/woken-1/1.0), in the background:\n")
    assert said_again in second


@pytest.fixture
def remote() -> Iterator[A2AAgent]:
    """An agent of another house, which repeats its last task."""
    with serving(asgi([ReActAgent("helper", ScriptedModel(repeating))])) as url:
        yield A2AAgent("helper", url)


def test_background_work_of_an_a2a_agent_is_told_as_from_outside(
    remote: A2AAgent, tmp_path: Path
) -> None:
    async def main() -> Reply:
        ended = asyncio.get_running_loop().create_future()

        def direct(messages: list[dict[str, Any]], actions: Any) -> Any:
            last = str(messages[-1]["content"])
            return Call("1", "helper", {"text": "Oil?"}) if last == "Go." else last

        agent = ReActAgent(
            "chief",
            ScriptedModel(direct),
            actions=[remote.as_action(background=True)],
            journal=Journal(tmp_path / "runs.db"),
        )
        await agent.reply("Go.", thread="t", run_id="r")
        agent.watch(lambda event: event.kind == "done" and ended.set_result(event.reply))
        reply: Reply = await ended
        return reply

    reply = asyncio.run(main())
    assert reply.text == "Result of helper (r/1.0), in the background:\nheard: Oil?"
    assert reply.outside == ("agent helper",)
