"""A reply as it comes about: events in order, closing, loops and threads, slow readers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from moothall import (
    Action,
    Agent,
    Budget,
    Call,
    CallbackApprover,
    CallEnded,
    CallStarted,
    ConfigError,
    Context,
    Conversation,
    DecisionAction,
    Done,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    MaxTurns,
    MessageAdded,
    ModelError,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ReasoningPiece,
    ScriptedModel,
    TextPiece,
    Usage,
    action,
)
from moothall.actions import ACCESS_REQUESTED

WAIT = 20


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Speaker:
    """Streams what it is given: texts, thoughts, whole answers, exceptions, waits for an event."""

    name = "speaker"
    context_tokens: int | None = None

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.closed = 0

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        parts = [part async for part in self.stream(messages, actions, schema)]
        assert isinstance(parts[-1], ModelReply)
        return parts[-1]

    async def stream(
        self, messages: Any, actions: Any = None, schema: Any = None
    ) -> AsyncIterator[Any]:
        said = ""
        try:
            for part in self.answers.pop(0):
                if isinstance(part, str):
                    said += part
                    yield TextPiece(part)
                elif isinstance(part, asyncio.Event):
                    await part.wait()
                elif isinstance(part, BaseException):
                    raise part
                elif isinstance(part, Call):
                    yield ModelReply(said, (part,), Usage(1, 1), "calls")
                    return
                else:
                    yield part
            yield ModelReply(said, (), Usage(3, 4))
        finally:
            self.closed += 1


def kinds(events: list[Any]) -> list[str]:
    return [event.kind for event in events]


def test_stream_has_the_events_of_a_reply_in_order() -> None:
    model = Speaker(
        [ReasoningPiece("I add."), "Let me ", "see.", Call("c1", "add", {"a": 1, "b": 2})],
        ["It is ", "3."],
    )
    agent = ReActAgent("thinker", model, actions=[add])

    async def main() -> list[Any]:
        return [event async for event in agent.stream("What is 1 + 2?", None, "t", "r")]

    events = asyncio.run(main())
    assert {(event.run_id, event.thread) for event in events} == {("r", "t")}
    assert [replace(event, run_id=None, thread=None) for event in events[:5]] == [
        MessageAdded("thinker", {"role": "user", "content": "What is 1 + 2?"}),
        ReasoningPiece("I add.", "thinker"),
        TextPiece("Let me ", "thinker"),
        TextPiece("see.", "thinker"),
        CallStarted("thinker", 1, "c1", "add", {"a": 1, "b": 2}),
    ]
    assert isinstance(events[5], CallEnded)
    assert (events[5].call_id, events[5].result["result"], events[5].error) == ("c1", 3, None)
    assert kinds(events[6:]) == ["message", "message", "text", "text", "message", "done"]
    reply = events[-1].reply
    assert (reply.text, reply.stop_reason, reply.usage) == ("It is 3.", "done", Usage(4, 5))
    added = [event.message for event in events if isinstance(event, MessageAdded)]
    assert added == reply.messages == agent.state_dict()["threads"]["t"]["items"]
    assert "I add." not in json.dumps(reply.messages)


def test_stream_of_a_model_that_does_not_stream_gives_its_answer_in_one_piece() -> None:
    class Whole:
        name = "whole"
        context_tokens = None

        async def complete(self, messages: Any, actions: Any = None) -> ModelReply:
            return ModelReply("all at once")

    class WithSchema(Whole):
        async def complete(
            self, messages: Any, actions: Any = None, schema: Any = None
        ) -> ModelReply:
            return ModelReply("all at once")

    async def main(model: Any) -> list[Any]:
        return [event async for event in ReActAgent("thinker", model).stream("Hi", run_id="r")]

    for model in (Whole(), WithSchema()):
        events = asyncio.run(main(model))
        assert kinds(events) == ["message", "text", "message", "done"]
        assert events[1] == TextPiece("all at once", "thinker", "r")


def test_stream_and_reply_give_the_same_reply() -> None:
    def script() -> ScriptedModel:
        return ScriptedModel([{"name": "add", "args": {"a": 1, "b": 1}}, "not done", "done"])

    async def streamed(agent: ReActAgent) -> list[Any]:
        return [event async for event in agent.stream("go", run_id="r")]

    done = asyncio.run(streamed(ReActAgent("a", script(), actions=[add])))[-1].reply
    whole = ReActAgent("a", script(), actions=[add]).reply_sync("go", run_id="r")
    for each in (done, whole):
        for step in each.steps:
            step.result.pop("timestamp")
    assert done == whole


@pytest.mark.parametrize("how", ("closed", "left", "dropped", "cancelled"))
async def test_stream_that_is_not_read_to_its_end_cancels_the_reply(how: str) -> None:
    never = asyncio.Event()
    model = Speaker(["One, ", never], ["ok"])
    agent = ReActAgent("thinker", model)
    if how == "left":
        async with agent.stream("count") as events:
            async for event in events:
                if event.kind == "text":
                    break
    else:
        stream = agent.stream("count")
        while (await anext(stream)).kind != "text":
            pass
        if how == "closed":
            await stream.aclose()
            await stream.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        elif how == "dropped":
            del stream
            gc.collect()
        else:
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert [event async for event in stream] == []
    # The next reply waits until that one is over, so its end is the other's.
    async with asyncio.timeout(WAIT):
        assert (await agent.reply("again")).text == "ok"
    assert model.closed == 2


async def test_closing_waits_until_what_was_under_way_has_ended() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    agent = ReActAgent("thinker", ScriptedModel([{"name": "slow"}]), actions=[slow])
    async with agent.stream("go") as events:
        async for event in events:
            if isinstance(event, CallStarted):
                break
    assert ended == ["cleaned up"]


async def test_stream_that_breaks_off_ends_the_reply_and_is_not_remembered() -> None:
    model = Speaker(["Half an ans", ModelError("the connection broke")])
    agent = ReActAgent("thinker", model)
    events = [event async for event in agent.stream("go")]
    assert kinds(events) == ["message", "text", "done"]
    reply = events[-1].reply
    assert (reply.stop_reason, reply.text) == ("error", "")
    assert "the connection broke" in reply.detail
    assert [item["role"] for item in agent.memory.get_memories()] == ["user"]


async def test_wrong_arguments_are_named_at_once_and_errors_of_a_reply_by_the_stream() -> None:
    agent = ReActAgent("thinker", ScriptedModel(["ok"]))
    with pytest.raises(TypeError, match="a text or a list of blocks"):
        agent.stream(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="schema="):
        agent.stream("go", schema=object())
    agent.budget = Budget(model_calls=5)
    stream = agent.stream("go", budget=Budget(model_calls=1))
    with pytest.raises(ConfigError, match="budget"):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


def test_stream_that_is_never_read_does_nothing() -> None:
    model = ScriptedModel(["ok"])
    agent = ReActAgent("thinker", model)
    agent.stream("go")
    gc.collect()
    assert (model.received, agent.memory.get_memories()) == ([], [])


def test_stream_of_an_agent_in_a_space_is_read_on_another_loop() -> None:
    class Calculator(Agent):
        @action
        async def add(self, a: int, b: int) -> int:
            """Add."""
            return a + b

    model = ScriptedModel(
        [{"name": "Calculator_add", "args": {"a": 1, "b": 2}}, "It is 3."], name="scripted"
    )
    with NativeSpace() as space:
        space.add(Calculator("Calculator"))
        agent = space.add(ReActAgent("thinker", model, discover="*"))

        async def main() -> list[Any]:
            async with asyncio.timeout(WAIT):
                return [event async for event in agent.stream("What is 1 + 2?")]

        events = asyncio.run(main())
    assert [e.action for e in events if isinstance(e, CallStarted)] == ["Calculator.add"]
    assert [e.result["result"] for e in events if isinstance(e, CallEnded)] == [3]
    assert isinstance(events[-1], Done)
    assert events[-1].reply.text == "It is 3."
    assert "".join(e.text for e in events if isinstance(e, TextPiece)) == "It is 3."


async def test_stream_with_a_slow_reader_misses_nothing() -> None:
    pieces = [f"{n} " for n in range(5000)]
    model = Speaker([*pieces])
    agent = ReActAgent("thinker", model)
    with NativeSpace() as space:
        space.add(agent)
        read = ""
        async for event in agent.stream("count"):
            if isinstance(event, TextPiece):
                read += event.text
                await asyncio.sleep(0)
        assert read == "".join(pieces)


async def test_parallel_calls_start_together_and_each_ends_once() -> None:
    async def one(n: int) -> int:
        await asyncio.sleep(0)
        return n

    calls = [{"name": "one", "args": {"n": n}} for n in range(5)]
    agent = ReActAgent("thinker", ScriptedModel([calls, "ok"]), actions=[one])
    events = [event async for event in agent.stream("go")]
    started = [e.call_id for e in events if isinstance(e, CallStarted)]
    ended = {e.call_id: e.result["result"] for e in events if isinstance(e, CallEnded)}
    assert len(set(started)) == 5
    assert [ended[id] for id in started] == list(range(5))
    places = [place for place, e in enumerate(events) if isinstance(e, CallStarted)]
    assert places == list(range(places[0], places[0] + 5))


@pytest.mark.parametrize("of", ("loop", "dual act"))
@pytest.mark.parametrize("form", ("sync", "async"))
def test_stream_shows_a_call_before_its_approval_is_asked(of: str, form: str) -> None:
    order: list[str] = []

    @action(access_policy=ACCESS_REQUESTED)
    def refund(x: int) -> str:
        order.append("done")
        return "refunded"

    def permit(_: Any) -> bool:
        order.append("asked")
        return True

    async def permit_later(_: Any) -> bool:
        return permit(_)

    approver = CallbackApprover(permit if form == "sync" else permit_later)
    worker = ReActAgent(
        "a",
        ScriptedModel([{"name": "refund", "args": {"x": 1}}, "ok"]),
        actions=[refund],
        approver=approver,
    )
    asyncio.run(read_calls(worker if of == "loop" else worked_by(worker), order))
    assert order == ["call_started", "asked", "done", "call_ended"]


def worked_by(worker: ReActAgent) -> DualActAgent:
    """Return a dual act that has a worker work once."""
    both = DualActAgent(DualActConfig(ReActAgent("H", ScriptedModel([])), worker))
    both.set_decision_func(
        lambda conclusion, _: HumanDecision(
            DecisionAction.CONTINUE if conclusion is None else DecisionAction.TERMINATE, "go"
        )
    )
    return both


async def read_calls(agent: ReActAgent | DualActAgent, order: list[str]) -> None:
    """Note when the reader of a stream sees calls."""
    async for event in agent.stream("x"):
        await asyncio.sleep(0)
        if event.kind in ("call_started", "call_ended"):
            order.append(event.kind)


@pytest.mark.parametrize("of", ("loop", "dual act"))
@pytest.mark.parametrize("form", ("sync", "async"))
def test_stream_shows_a_call_before_its_question_is_asked(of: str, form: str) -> None:
    order: list[str] = []

    async def paint(context: Context) -> str:
        return "painted " + await context.ask_person("Which colour?")

    def paint_in_a_thread(context: Context) -> str:
        return "painted " + context.ask_person("Which colour?").result()

    def blue(_: Any) -> str:
        order.append("asked")
        return "blue"

    worker = ReActAgent(
        "a",
        ScriptedModel([{"name": "paint"}, "ok"]),
        actions=[Action("paint", paint if form == "async" else paint_in_a_thread)],
        approver=CallbackApprover(lambda _: True, answer=blue),
    )
    asyncio.run(read_calls(worker if of == "loop" else worked_by(worker), order))
    assert order == ["call_started", "asked", "call_ended"]


async def test_leaving_a_stream_before_the_question_asks_nobody() -> None:
    @action(access_policy=ACCESS_REQUESTED)
    def refund() -> str:
        raise AssertionError

    def permit(_: Any) -> bool:
        raise AssertionError

    agent = ReActAgent(
        "a",
        ScriptedModel([{"name": "refund"}]),
        actions=[refund],
        approver=CallbackApprover(permit),
    )
    async with agent.stream("x") as events:
        async for event in events:
            if event.kind == "call_started":
                break
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_stream_left_by_its_reader_asks_for_no_approval() -> None:
    @action(access_policy=ACCESS_REQUESTED)
    def refund() -> str:
        raise AssertionError

    def permit(_: Any) -> bool:
        raise AssertionError

    begun = asyncio.Event()

    async def stubborn(_: Any, __: Any) -> Any:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {"name": "refund"}

    agent = ReActAgent(
        "a",
        ScriptedModel([stubborn]),
        actions=[refund],
        approver=CallbackApprover(permit),
    )
    async with asyncio.timeout(WAIT):
        async with agent.stream("x") as events:
            reading = asyncio.ensure_future(anext(events))
            await begun.wait()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
            await reading


async def test_stream_of_a_conversation_is_as_the_others() -> None:
    talk = Conversation([ReActAgent("a", ScriptedModel(["x", "y"]))], until=MaxTurns(2))
    async with talk.stream("go", thread="t", run_id="r") as events:
        seen = [(event.kind, event.run_id, event.thread) async for event in events]
    assert [kind for kind, _, _ in seen if kind.startswith("turn")] == [
        *["turn_started", "turn_ended"] * 2
    ]
    assert {each[2] for each in seen} == {"t"}
    assert events.reply is not None
    assert (events.reply.text, seen[-1]) == ("y", ("done", "r", "t"))
