"""One rule for failures: one line in the log, the reason in the reply, the traceback at DEBUG."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    ActionError,
    ActionNotFound,
    Agent,
    CallbackApprover,
    ChattyAI,
    Conversation,
    DefinitionError,
    DualActAgent,
    MaxTurns,
    Memory,
    ModelError,
    NativeSpace,
    NotPermitted,
    OpenAIModel,
    ReActAgent,
    Refused,
    Reply,
    Rule,
    RuleApprover,
    ScriptedModel,
    action,
)


@pytest.fixture
def down() -> Iterator[OpenAIModel]:
    """A model whose server is not there."""
    with socket.socket() as taken:  # bound and not listening: whoever calls is refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        yield OpenAIModel("x", url, max_retries=0)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno > logging.INFO]


@pytest.mark.parametrize("kind", ("loop", "conversation", "dual act"))
def test_model_server_that_is_down_is_one_line_and_the_reason_of_the_reply(
    kind: str, down: OpenAIModel, caplog: pytest.LogCaptureFixture
) -> None:
    agents: dict[str, Any] = {
        "loop": ReActAgent("a", down),
        "conversation": Conversation([ReActAgent("a", down), ReActAgent("b", down)]),
        "dual act": DualActAgent(human=ReActAgent("a", down), reactive=ReActAgent("b", down)),
    }
    reply = agents[kind].reply_sync("Hello")
    assert reply.stop_reason == "error"
    assert "no answer from http://127.0.0.1" in reply.detail
    (line,) = told(caplog)
    assert line.startswith("the model of agent 'a' failed: ModelError: ")
    assert "\n" not in line
    with pytest.raises(ModelError, match="no answer from"):
        reply.raise_for_error()


def test_chat_agents_failure_is_told_to_the_sender_alone(
    down: OpenAIModel, caplog: pytest.LogCaptureFixture
) -> None:
    class Sender(Agent):
        def __init__(self, id: str) -> None:
            super().__init__(id)
            self.told = threading.Event()

        @action
        async def error(self, error: str, original_message_id: str | None = None) -> None:
            await super().error(error, original_message_id)
            self.told.set()

    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", down))
        sender = space.add(Sender("sender"))
        asker = space.add(Agent("asker"))
        sender.send({"to": "Chatty", "action": {"name": "say", "args": {"content": "Hello"}}})
        assert sender.told.wait(20)
        with pytest.raises(ActionError, match=r"ModelError: .*no answer from"):
            asker.ask("Chatty", "say", content="Hello").result(20)
    (line,) = told(caplog)
    assert line.startswith("agent 'sender' got an error from 'Chatty': ModelError: ")


def test_exception_without_a_text_is_the_reason_of_the_reply() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    reply = ReActAgent("a", ScriptedModel([Mute()])).reply_sync("Hello")
    assert reply.stop_reason == "error"
    assert reply.detail == "Mute: (its text cannot be read: RuntimeError)"

    class Broken(Memory):
        def add_memory(self, memory: dict[str, Any]) -> None:
            raise Mute

    reply = ReActAgent("a", ScriptedModel(["Hi."]), memory=Broken()).reply_sync("Hello")
    assert reply.detail == "Mute: (its text cannot be read: RuntimeError)"


# -- a refusal with its reason ---------------------------------------------------------------------


class Full(Memory):
    """A memory whose disk is full when it has so many messages."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def add_memory(self, memory: dict[str, Any]) -> None:
        if len(self.items) >= self.room:
            raise OSError("the disk is full")
        super().add_memory(memory)


@pytest.mark.parametrize("recorded", (False, True))
@pytest.mark.parametrize("room", (0, 1, 3))
def test_memory_that_fails_is_one_line_and_the_reason_of_the_reply(
    room: int, recorded: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedModel([{"name": "add", "args": {"a": 1, "b": 2}}, "It is 3."])
    journal = tmp_path / "runs.db" if recorded else None
    agent = ReActAgent("a", model, actions=[add], memory=Full(room), journal=journal)
    reply = agent.reply_sync("Hello", run_id="r")
    assert (reply.stop_reason, reply.detail) == ("error", "OSError: the disk is full")
    assert isinstance(reply.error, OSError)
    assert told(caplog) == ["the memory of agent 'a' failed: OSError: the disk is full"]


async def in_a_group() -> None:
    """Do two things at once, of which one fails."""

    async def fail() -> None:
        raise ValueError("the till is empty")

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        group.create_task(asyncio.sleep(0))


class Grouped(Agent):
    @action
    async def work(self) -> None:
        """Do two things at once, of which one fails."""
        await in_a_group()


def test_failure_in_a_task_group_is_named() -> None:
    """It was "unhandled errors in a TaskGroup (1 sub-exception)" alone, to a model and a caller."""
    model = ScriptedModel([{"name": "in_a_group"}, "It failed."])
    reply = ReActAgent("a", model, actions=[in_a_group]).reply_sync("Go.")
    assert "ValueError: the till is empty" in (reply.steps[0].error or "")
    with NativeSpace() as space:
        space.add(Grouped("grouped"))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match=r"ExceptionGroup: .*ValueError: the till is empty"):
            me.ask("grouped", "work").result(timeout=20)


class Gone(Full):
    """A memory that cannot be read any more."""

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        raise OSError("the disk is gone")


@pytest.mark.parametrize("memory", (Full(0), Gone(9)), ids=lambda memory: type(memory).__name__)
@pytest.mark.parametrize("kind", ("alone", "dual act", "conversation"))
def test_memory_that_fails_when_a_run_goes_on_is_the_reason_of_the_reply(
    memory: Memory, kind: str, tmp_path: Path
) -> None:
    """`reply` raised it, and only then: the first process had given it as the reason."""

    def go_on(memory: Memory, last: Any) -> Reply:
        first, human = "One.", ScriptedModel([decision("CONTINUE"), *[last] * 3])
        if kind == "alone":
            first = {"name": "pay", "args": {"sum": 1}}
        model = ScriptedModel([first, *[last] * 3])
        agent: Any = ReActAgent("a", model, actions=[pay], memory=memory)
        if kind == "conversation":
            agent = Conversation([agent], until=MaxTurns(2))
        if kind == "dual act":
            agent = DualActAgent(human=ReActAgent("h", human), reactive=agent)
        agent.journal = tmp_path / "runs.db"
        return agent.reply_sync("Hello", run_id="r")

    assert go_on(Memory(), OSError("no network")).stop_reason == "error"
    failed = go_on(memory, decision("TERMINATE"))
    assert failed.stop_reason == "error"
    assert "OSError: the disk is" in failed.detail
    assert go_on(Memory(), decision("TERMINATE")).stop_reason in ("done", "terminated")


def decision(action: str) -> str:
    return json.dumps({"action": action, "new_instruction": "Go on.", "reasoning": ""})


def pay(sum: int) -> str:
    """Pay."""
    return f"paid {sum}"


async def later(request: Any) -> Refused:
    return Refused("at most 100 a day")


@pytest.mark.parametrize(
    "approver",
    (
        CallbackApprover(lambda request: Refused("at most 100 a day")),
        CallbackApprover(later),
        RuleApprover([Rule(action="pay", permit=Refused("at most 100 a day"))]),
        RuleApprover([], CallbackApprover(lambda request: Refused("at most 100 a day"))),
    ),
)
def test_refusal_gives_its_reason_to_the_model_and_to_the_asker(approver: Any) -> None:
    costly = Action("pay", pay, access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([{"name": "pay", "args": {"sum": 500}}, "I may not."])
    agent = ReActAgent("a", model, actions=[costly], approver=approver)
    assert agent.reply_sync("Pay 500").steps[0].error == '"pay" not permitted: at most 100 a day'
    assert "at most 100 a day" in model.received[1][-1]["content"]

    class Bank(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def pay(self, sum: int) -> str:
            return f"paid {sum}"

    with NativeSpace(approver=approver) as space:
        space.add(Bank("bank"))
        with pytest.raises(NotPermitted, match=r'"bank.pay" not permitted: at most 100 a day'):
            space.add(Agent("me")).ask("bank", "pay", sum=500).result(20)


def test_refusal_by_an_agents_own_permission_may_have_a_reason() -> None:
    class Bank(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def pay(self, sum: int) -> str:
            return f"paid {sum}"

        def request_permission(self, proposed_message: dict[str, Any]) -> Any:
            return Refused("closed on Sundays")

    with NativeSpace() as space:
        space.add(Bank("bank"))
        with pytest.raises(NotPermitted, match="closed on Sundays"):
            space.add(Agent("me")).ask("bank", "pay", sum=5).result(20)


def test_refused_is_false() -> None:
    assert not Refused("no")


def test_approver_that_fails_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    costly = Action("pay", pay, access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([{"name": "pay", "args": {"sum": 5}}, "I may not."])
    approver = CallbackApprover(lambda request: 1 / 0)  # type: ignore[arg-type, return-value]
    ReActAgent("a", model, actions=[costly], approver=approver).reply_sync("Pay")
    (line,) = told(caplog)
    assert line.endswith(
        "failed on /a.pay sum:5, so it is refused: ZeroDivisionError: division by zero"
    )


# -- what is not there -----------------------------------------------------------------------------


def test_method_without_the_mark_of_an_action_is_named_in_the_error() -> None:
    class Calculator(Agent):
        def add(self, a: int, b: int) -> int:
            return a + b

        def _secret(self) -> None: ...

    with NativeSpace() as space:
        space.add(Calculator("A"))
        me = space.add(Agent("me"))
        with pytest.raises(
            ActionNotFound, match=r'^"add" not found on "A": its method add lacks @action'
        ):
            me.ask("A", "add", a=1, b=2).result(20)
        with pytest.raises(ActionNotFound, match=r'^"hel" not found on "A"; did you mean help[?]$'):
            me.ask("A", "hel").result(20)
        for name in ("subtract", "_secret", "send", "__init__"):
            with pytest.raises(ActionNotFound, match=f'^"{name}" not found on "A"$'):
                me.ask("A", name).result(20)
        with pytest.raises(DefinitionError, match="arguments by name"):
            me.ask("A", "add", 1, 2)  # type: ignore[arg-type]
