"""An agent elsewhere in a space, as one that replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from moothall import (
    Agent,
    AgentNotFound,
    AMQPOptions,
    AMQPSpace,
    Call,
    Conversation,
    DualActAgent,
    DualActConfig,
    NativeSpace,
    NotInSpace,
    ReActAgent,
    RemoteAgent,
    RequestTimeout,
    ScriptedModel,
)
from moothall.actions import action
from moothall.agents import ChattyAI
from moothall.foundation.errors import DefinitionError


@pytest.fixture(params=("native", "amqp"))
def spaces(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """Where the agent is, and where the one is that speaks with it: over a broker, two spaces."""
    if request.param == "native":
        with NativeSpace() as space:
            yield space, space
        return
    options = AMQPOptions(port=request.getfixturevalue("broker").port)
    exchange = f"test.{uuid4().hex}"
    with (
        AMQPSpace(amqp_options=options, exchange=exchange, grace=0) as there,
        AMQPSpace(amqp_options=options, exchange=exchange, grace=0) as here,
    ):
        yield there, here


def test_remote_agent_via_without_request_is_refused() -> None:
    with pytest.raises(DefinitionError, match="agent 'worker': via= needs an object with request"):
        RemoteAgent("me", "worker")  # type: ignore[arg-type]


def decide(action: str, instruction: str = "") -> str:
    return json.dumps({"action": action, "new_instruction": instruction, "reasoning": ""})


def test_remote_agent_replies_and_forwards_observations(spaces: tuple[Any, Any]) -> None:
    there, here = spaces
    model = ScriptedModel(["Hello.", "Fine."])
    me = here.add(Agent("me"))
    remote = RemoteAgent(me, "worker")
    asyncio.run(remote.observe("It rains."))
    with pytest.raises(AgentNotFound):
        remote.reply_sync("Who is there?")
    there.add(ReActAgent("worker", model))
    assert remote.reply_sync("Hi").text == "Hello."
    assert remote.reply_sync("How are you?").stop_reason == "done"
    assert [messages[-1]["content"] for messages in model.received] == [
        "It rains.\n\nHi",
        "How are you?",
    ]


def test_remote_agent_forwards_the_last_hundred_observations_and_the_thread() -> None:
    threads, model = ScriptedModel(["one", "two"]), ScriptedModel(["three"])
    with NativeSpace() as space:
        space.add(ReActAgent("worker", threads))
        space.add(ChattyAI("chatty", model))
        me = space.add(Agent("me"))
        remote = RemoteAgent(me, "worker")

        async def watch() -> None:
            for number in range(101):
                await remote.observe(str(number))

        asyncio.run(watch())
        assert remote.reply_sync("Hi").text == "one"
        assert remote.reply_sync("Hi", thread="other").text == "two"
        assert RemoteAgent(me, "chatty").reply_sync("Hi", thread="other").text == "three"
    assert threads.received[0][-1]["content"].split("\n\n") == [*map(str, range(1, 101)), "Hi"]
    assert [each["content"] for each in threads.received[1] if each["role"] != "system"] == ["Hi"]


def test_remote_agent_replies_after_its_peer_was_replaced_by_one_without_threads() -> None:
    class Plain(Agent):
        @action
        def say(self, content: str) -> str:
            """Say."""
            return content

    with NativeSpace() as space:
        remote = RemoteAgent(space.add(Agent("me")), "worker")
        worker = space.add(ReActAgent("worker", ScriptedModel(["Hello."])))
        assert remote.reply_sync("Hi", thread="other").text == "Hello."
        space.remove(worker)
        space.add(Plain("worker"))
        assert remote.reply_sync("Hi", thread="other").text == "Hi"


@pytest.mark.parametrize(
    ("answers", "value", "reason"),
    ((["[1, 2]"], [1, 2], "done"), (["two", "[2]"], [2], "done"), (["1", "2"], None, "unreadable")),
)
def test_remote_agent_answer_is_read_by_the_schema_and_asked_for_once_more(
    answers: list[str], value: Any, reason: str
) -> None:
    model = ScriptedModel(answers)
    with NativeSpace() as space:
        space.add(ReActAgent("worker", model))
        reply = RemoteAgent(space.add(Agent("me")), "worker").reply_sync("Which?", list[int])
    assert (reply.value, reply.stop_reason, reply.text) == (value, reason, answers[-1])
    assert reply.messages[0]["content"] == "Which?"
    assert len(model.received) == len(answers)
    faults = [each[-1]["content"] for each in model.received[1:]]
    assert all("Answer with JSON alone" in fault for fault in faults)
    assert reply.detail == "" if reason == "done" else "Answer with JSON alone" in reply.detail


def add_numbers(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def read_all(stream: Any) -> list[Any]:
    return [event async for event in stream]


def test_remote_agent_streams_what_the_other_agent_streams(spaces: tuple[Any, Any]) -> None:
    there, here = spaces
    turns = [Call("1", "add_numbers", {"a": 1, "b": 2}), "It is three."]
    worker = there.add(ReActAgent("worker", ScriptedModel(turns), actions=[add_numbers]))
    shown: list[Any] = []
    worker.watch(shown.append)
    remote = RemoteAgent(here.add(Agent("me")), "worker")
    watched: list[Any] = []
    remote.watch(watched.append)
    events = asyncio.run(read_all(remote.stream("How much?", thread="sums", run_id="r")))
    assert [each.kind for each in events] == [each.kind for each in shown]
    assert [each.kind for each in watched] == [each.kind for each in events]
    assert "".join(each.text for each in events if each.kind == "text") == "It is three."
    (call,) = (each for each in events if each.kind == "call_started")
    assert (call.agent, call.action, call.args) == ("worker", "add_numbers", {"a": 1, "b": 2})
    assert {(each.run_id, each.thread) for each in events} == {("r", "sums")}
    assert events[-1].reply.text == "It is three."


def test_remote_agent_streams_a_group_and_a_chat_agent(spaces: tuple[Any, Any]) -> None:
    there, here = spaces
    members = [ReActAgent(id, ScriptedModel([f"I am {id}."])) for id in ("Ann", "Bob")]
    there.add(Conversation(members, max_turns=2, id="team"))
    there.add(ChattyAI("chatty", ScriptedModel(["Hello there."])))
    me = here.add(Agent("me"))
    events = asyncio.run(read_all(RemoteAgent(me, "team").stream("Hi")))
    assert [each.speaker for each in events if each.kind == "turn_started"] == ["Ann", "Bob"]
    assert [each.utterance.text for each in events if each.kind == "turn_ended"] == [
        "I am Ann.",
        "I am Bob.",
    ]
    assert [each.agent for each in events if each.kind == "done"] == ["Ann", "Bob", "team"]
    events = asyncio.run(read_all(RemoteAgent(me, "chatty").stream("Hi")))
    assert "".join(each.text for each in events[:-1]) == "Hello there."


@pytest.mark.parametrize("far", ("H", "R"))
def test_dual_act_works_with_either_agent_elsewhere(spaces: tuple[Any, Any], far: str) -> None:
    there, here = spaces
    human = ReActAgent("H", ScriptedModel([decide("CONTINUE", "Count."), decide("TERMINATE")]))
    worker = ReActAgent("R", ScriptedModel(["3"]))
    there.add(human if far == "H" else worker)
    me = here.add(Agent("me"))
    remote = RemoteAgent(me, far)
    config = DualActConfig(*((remote, worker) if far == "H" else (human, remote)))
    reply: Any = DualActAgent(config).reply_sync("How many?")
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("3", "terminated", 1)


def test_remote_agent_failed_request_raises_its_error(spaces: tuple[Any, Any]) -> None:
    there, here = spaces
    me = here.add(Agent("me"))
    with pytest.raises(AgentNotFound):
        RemoteAgent(me, "nobody").reply_sync("Hi")
    there.add(Agent("mute"))
    with pytest.raises(Exception, match='"say" not found on "mute"'):
        RemoteAgent(me, "mute").reply_sync("Hi")

    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    there.add(ReActAgent("slow", ScriptedModel([never])))
    with pytest.raises(RequestTimeout):
        RemoteAgent(me, "slow", timeout=0.05).reply_sync("Hi")
    with pytest.raises(NotInSpace):
        RemoteAgent(Agent("alone"), "worker").reply_sync("Hi")


def test_remote_agent_as_r_that_is_not_there_is_for_h_to_judge() -> None:
    model = ScriptedModel([decide("CONTINUE", "Count."), decide("TERMINATE")])
    with NativeSpace() as space:
        me = space.add(Agent("me"))
        dual = DualActAgent(DualActConfig(ReActAgent("H", model), RemoteAgent(me, "nobody")))
        assert dual.reply_sync("How many?").stop_reason == "terminated"
    assert "AgentNotFound" in model.received[1][-1]["content"]
