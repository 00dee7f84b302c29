"""The spans of messages, and the context that travels with them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from moothall import (
    Agent,
    Call,
    Message,
    NativeSpace,
    ReActAgent,
    RemoteAgent,
    ScriptedModel,
    action,
)
from serving.telemetry.conftest import Traced

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Calculator(Agent):
    """Adds, and keeps the messages that it was sent."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.received: list[dict[str, Any]] = []

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        assert self.current_message is not None
        self.received.append(self.current_message)
        return a + b

    @action
    def fail(self) -> None:
        """Fail, in a worker thread."""
        raise LookupError("not there")


ADD: Message = {"to": "calculator", "action": {"name": "add", "args": {"a": 1, "b": 2}}}


def test_request_has_a_span_at_each_end(traced: Traced) -> None:
    with NativeSpace() as space:
        calculator = space.add(Calculator("calculator"))
        assert space.add(Agent("me")).request(ADD).result(10) == 3

    sent, handled = traced.spans
    assert (sent.name, sent.kind) == ("send calculator", SpanKind.PRODUCER)
    assert (handled.name, handled.kind) == ("process calculator", SpanKind.CONSUMER)
    assert traced.tree()["process calculator"] == "send calculator"
    assert dict(handled.attributes or {}) == {
        "messaging.system": "moothall",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "calculator",
        "moothall.action": "add",
        "moothall.sender": "me",
    }
    assert sent.context
    (message,) = calculator.received
    given = f"00-{sent.context.trace_id:032x}-{sent.context.span_id:016x}"
    assert message["meta"]["traceparent"].startswith(given)


def test_context_that_a_message_states_is_kept_and_continued(traced: Traced) -> None:
    with NativeSpace() as space:
        calculator = space.add(Calculator("calculator"))
        me = space.add(Agent("me"))
        for _ in range(2):
            me.request({**ADD, "meta": {"traceparent": CALLER, "mine": 1}}).result(10)

    assert [span.name for span in traced.spans] == ["process calculator"] * 2
    assert len({span.context.span_id for span in traced.spans if span.context}) == 2
    for span in traced.spans:
        assert span.context
        assert span.parent
        assert f"{span.context.trace_id:032x}" == CALLER.split("-")[1]
        assert f"{span.parent.span_id:016x}" == CALLER.split("-")[2]
    assert calculator.received[0]["meta"] == {"traceparent": CALLER, "mine": 1}


@pytest.mark.parametrize(
    "given",
    (
        "",
        "00",
        17,
        None,
        {"a": 1},
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        f"{CALLER}\r\nx: y",
        "0" * 100_000,
    ),
)
def test_context_that_is_not_valid_is_ignored(traced: Traced, given: Any) -> None:
    with NativeSpace() as space:
        space.add(Calculator("calculator"))
        me = space.add(Agent("me"))
        assert me.request({**ADD, "meta": {"traceparent": given}}).result(10) == 3

    (handled,) = traced.spans
    assert handled.parent is None


def test_answer_to_a_sent_message_is_in_the_trace_of_the_message(traced: Traced) -> None:
    came = []

    class Sender(Agent):
        @action
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            """Keep the value."""
            came.append(data)
            ended.set()

    async def run() -> None:
        async with NativeSpace() as space:
            space.add(Calculator("calculator"))
            space.add(Sender("me")).send(ADD)
            await asyncio.to_thread(ended.wait, 10)

    ended = threading.Event()
    asyncio.run(run())

    assert came == [3]
    assert traced.tree() == {
        "send calculator": None,
        "process calculator": "send calculator",
        "process me": "process calculator",
    }


def test_action_that_raises_marks_the_span_of_its_message(traced: Traced) -> None:
    with NativeSpace() as space:
        space.add(Calculator("calculator"))
        me = space.add(Agent("me"))
        with pytest.raises(Exception, match="not there"):
            me.ask("calculator", "fail").result(10)

    span = traced.named("process calculator")
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert "not there" not in span.to_json()


def test_call_that_asks_another_agent_continues_in_its_reply(traced: Traced) -> None:
    with NativeSpace() as space:
        asked = ReActAgent("asked", ScriptedModel(["Fine."]))
        space.add(asked)

        async def ask() -> str:
            """Ask the other agent."""
            said: str = await asking.ask("asked", "say", content="How are you?")
            return said

        model = ScriptedModel([Call("1", "ask", {}), "It is fine."])
        asking = space.add(ReActAgent("asking", model, actions=[ask]))
        asking.reply_sync("Ask")

    tree = traced.tree()
    assert tree["invoke_agent asking"] is None
    assert tree["send asked"] == "execute_tool ask"
    assert tree["process asked"] == "send asked"
    assert tree["invoke_agent asked"] == "process asked"


def test_broadcast_has_a_span_for_each_receiver(traced: Traced) -> None:
    with NativeSpace() as space:
        many = [space.add(Calculator(f"c{number}")) for number in range(3)]
        me = space.add(Agent("me", receive_own_broadcasts=False))
        me.send({**ADD, "to": "*"})
        for each in many:
            me.ask(str(each.id), "help").result(10)

    handled = [
        span for span in traced.spans if (span.attributes or {}).get("moothall.action") == "add"
    ]
    assert sorted(span.name for span in handled) == [
        "process c0",
        "process c1",
        "process c2",
        "send *",
    ]
    assert len({span.context.trace_id for span in handled if span.context}) == 1


def test_remote_agent_is_the_client_of_the_agent_that_it_asks(traced: Traced) -> None:
    with NativeSpace() as space:
        space.add(ReActAgent("far", ScriptedModel(["Fine."])))
        near = space.add(Agent("near"))
        assert RemoteAgent(near, "far").reply_sync("How are you?").text == "Fine."

    replies = [span for span in traced.spans if span.name == "invoke_agent far"]
    assert [span.kind for span in replies] == [SpanKind.INTERNAL, SpanKind.CLIENT]
    there, here = (span.context for span in replies)
    assert there
    assert here
    assert there.trace_id == here.trace_id
