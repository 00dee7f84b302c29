"""The spans of replies, calls of models and calls of actions, and their metrics."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from moothall import (
    Budget,
    BudgetedModel,
    Call,
    ChattyAI,
    CitizenAgent,
    ConfigError,
    DualActAgent,
    FallbackModel,
    ModelError,
    ModelReply,
    ReActAgent,
    ScriptedModel,
    Society,
    Usage,
    action,
)
from moothall.serving.telemetry import instrument, uninstrument
from serving.telemetry.conftest import Traced
from society.life import living


@action(facts={"cost_usd": 0.2})
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def fail() -> None:
    """Fail."""
    raise LookupError("the password is secret-7")


def adder(**options: Any) -> ReActAgent:
    called = ModelReply(
        calls=(Call("c1", "add", {"a": 1, "b": 2}),),
        usage=Usage(10, 5, cache_read_tokens=4, cache_write_tokens=3, reasoning_tokens=2),
        finish_reason="calls",
    )
    model = ScriptedModel([called, ModelReply("It is 3.", usage=Usage(20, 4))])
    return ReActAgent("adder", model, actions=[add], **options)


def test_reply_with_a_call_has_the_spans_of_the_conventions(traced: Traced) -> None:
    adder().reply_sync("What is 1 + 2?", thread="t1")

    assert [span.name for span in traced.spans] == [
        "chat scripted",
        "execute_tool add",
        "chat scripted",
        "invoke_agent adder",
    ]
    assert set(traced.tree().values()) == {"invoke_agent adder", None}
    assert len({span.context.trace_id for span in traced.spans if span.context}) == 1
    reply = traced.named("invoke_agent adder")
    assert reply.kind == SpanKind.INTERNAL
    assert dict(reply.attributes or {}) | {"moothall.run.id": ""} == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "moothall",
        "gen_ai.agent.name": "adder",
        "gen_ai.conversation.id": "t1",
        "gen_ai.request.model": "scripted",
        "moothall.usage.input_tokens": 30,
        "moothall.usage.output_tokens": 9,
        "gen_ai.response.finish_reasons": ("done",),
        "moothall.run.id": "",
        "moothall.stop_reason": "done",
    }
    assert dict(traced.named("execute_tool add").attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "adder",
        "gen_ai.conversation.id": "t1",
        "moothall.action.facts.cost_usd": 0.2,
    }
    assert dict(traced.spans[0].attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "moothall",
        "gen_ai.request.model": "scripted",
        "gen_ai.conversation.id": "t1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "gen_ai.response.finish_reasons": ("calls",),
    }


def test_backend_that_adds_up_all_spans_counts_each_call_of_a_model_once(traced: Traced) -> None:
    helper = ReActAgent("helper", ScriptedModel([ModelReply("Yes.", usage=Usage(100, 7))] * 2))
    calls = (Call("1", "helper", {"text": "?"}), Call("2", "once", {"text": "?"}))
    used = Usage(1000, 70)
    answers = [
        ModelReply(calls=calls, usage=used, finish_reason="calls"),
        ModelReply("", usage=used),
    ]
    clerk = ReActAgent(
        "clerk",
        FallbackModel([ScriptedModel([]), ScriptedModel([*answers, ModelReply("4", usage=used)])]),
        actions=[helper.as_action(), helper.as_action("once", fresh=True)],
    )
    accepts = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "good"}'
    boss = ReActAgent("boss", ScriptedModel([ModelReply(accepts, usage=Usage(10_000, 700))]))
    both = DualActAgent(id="both", human=boss, reactive=clerk, first="reactive")
    both.reply_sync("What is 2 + 2?")

    def total(spans: Iterable[ReadableSpan], prefix: str) -> int:
        names = [f"{prefix}.usage.{kind}_tokens" for kind in ("input", "output")]
        given: list[Any] = [
            (each.attributes or {}).get(name, 0) for each in spans for name in names
        ]
        return sum(given)

    assert total(traced.spans, "gen_ai") == 14_124
    # A sub-agent's reply has a span, and a sum, of its own.
    assert total([traced.named("invoke_workflow both")], "moothall") == 13_910


def test_call_that_raises_has_the_type_of_its_error_and_no_text(traced: Traced) -> None:
    agent = ReActAgent("a", ScriptedModel([Call("1", "fail", {}), "It failed."]), actions=[fail])
    agent.reply_sync("Try")

    span = traced.named("execute_tool fail")
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert "secret-7" not in "".join(each.to_json() for each in traced.spans)


def test_model_that_fails_marks_its_span_and_the_reply(traced: Traced) -> None:
    ReActAgent("a", ScriptedModel([ModelError("key secret-7 refused")])).reply_sync("Hello")

    for name in ("chat scripted", "invoke_agent a"):
        span = traced.named(name)
        assert (span.attributes or {})["error.type"] == "ModelError"
        assert span.status.status_code == StatusCode.ERROR
    assert "secret-7" not in "".join(each.to_json() for each in traced.spans)


def test_content_is_in_spans_only_if_asked_for(traced: Traced) -> None:
    adder(system_prompt="Be brief.").reply_sync("What is 1 + 2?")
    assert "1 + 2" not in "".join(each.to_json() for each in traced.spans)
    traced.exporter.clear()

    traced.instrument(content=True)
    adder(system_prompt="Be brief.").reply_sync("What is 1 + 2?")

    chat = traced.spans[0].attributes or {}
    system = json.loads(str(chat["gen_ai.system_instructions"]))
    assert system == [{"type": "text", "content": "Be brief."}]
    given = json.loads(str(chat["gen_ai.input.messages"]))
    said = [{"type": "text", "content": "What is 1 + 2?"}]
    assert given == [{"role": "user", "parts": said}]
    answer = json.loads(str(chat["gen_ai.output.messages"]))
    call = {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}
    assert answer == [{"role": "assistant", "parts": [call], "finish_reason": "tool_call"}]
    (tool,) = json.loads(str(chat["gen_ai.tool.definitions"]))
    assert (tool["type"], tool["name"]) == ("function", "add")
    executed = traced.named("execute_tool add").attributes or {}
    assert json.loads(str(executed["gen_ai.tool.call.arguments"])) == {"a": 1, "b": 2}
    assert json.loads(str(executed["gen_ai.tool.call.result"])) == 3


def test_wrapped_models_have_one_span_for_each_call_of_a_model(traced: Traced) -> None:
    first, second = ScriptedModel([ModelError("down")], "first"), ScriptedModel(["Hi."], "second")
    model = BudgetedModel(FallbackModel([first, second]), Budget(model_calls=5))
    ReActAgent("a", model).reply_sync("Hello")

    assert [span.name for span in traced.spans] == [
        "chat first",
        "chat second",
        "invoke_agent a",
    ]


class OwnModel:
    """A model of the user's own, without anything of ours."""

    name = "own"
    context_tokens = None

    async def complete(self, messages: list[Any], actions: Any = None) -> ModelReply:
        return ModelReply("Hello.")

    async def stream(self, messages: list[Any], actions: Any = None) -> AsyncIterator[Any]:
        yield ModelReply("Hello.")


@pytest.mark.parametrize("streams", (False, True))
def test_model_of_the_users_own_has_spans_too(traced: Traced, streams: bool) -> None:
    agent = ReActAgent("a", OwnModel())
    if streams:
        agent.watch(lambda event: None)
    agent.reply_sync("Hello")

    assert [span.name for span in traced.spans] == ["chat own", "invoke_agent a"]


def test_model_of_the_users_own_that_asks_others_leaves_the_span_to_them(traced: Traced) -> None:
    class Shouting:
        name, context_tokens, asks_others = "shouting", None, True
        quiet = ScriptedModel(["Hello."], "quiet")

        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            answer = await self.quiet.complete(messages, actions, schema)
            return ModelReply(answer.text.upper())

    assert ReActAgent("a", Shouting()).reply_sync("Hi").text == "HELLO."
    assert [span.name for span in traced.spans] == ["chat quiet", "invoke_agent a"]


def test_model_of_the_users_own_with_a_usage_that_is_no_number_has_its_span(traced: Traced) -> None:
    class Odd:
        name, context_tokens = "odd", None

        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            return ModelReply("Hello.", usage=Usage(None, "few"))  # type: ignore[arg-type]

    ReActAgent("a", Odd()).reply_sync("Hi")
    assert (traced.named("chat odd").attributes or {})["gen_ai.usage.input_tokens"] == 0


async def test_streamed_reply_states_the_time_to_its_first_piece(traced: Traced) -> None:
    async with ReActAgent("a", ScriptedModel(["One two three."])).stream("Count") as events:
        async for _ in events:
            pass

    chat = traced.named("chat scripted").attributes or {}
    assert chat["gen_ai.request.stream"] is True
    assert float(str(chat["gen_ai.response.time_to_first_chunk"])) > 0
    assert traced.tree()["chat scripted"] == "invoke_agent a"


def test_groups_are_workflows_with_their_members_below(traced: Traced) -> None:
    accepted = {"action": "TERMINATE", "new_instruction": "", "reasoning": "done"}
    again = {"action": "CONTINUE", "new_instruction": "Do it.", "reasoning": ""}
    human = ReActAgent("h", ScriptedModel([json.dumps(again), json.dumps(accepted)]))
    worker = ReActAgent("r", ScriptedModel(["Done."]))
    DualActAgent(id="pair", human=human, reactive=worker).reply_sync("Do it")

    tree = traced.tree()
    assert tree["invoke_workflow pair"] is None
    assert tree["invoke_agent h"] == tree["invoke_agent r"] == "invoke_workflow pair"
    pair = traced.named("invoke_workflow pair").attributes or {}
    assert (pair["gen_ai.operation.name"], pair["gen_ai.agent.name"]) == ("invoke_workflow", "pair")
    assert not any(
        {"gen_ai.workflow.name", "gen_ai.agent.id"} & {*(span.attributes or {})}
        for span in traced.spans
    )
    data = traced.reader.get_metrics_data()
    assert data is not None
    counted = {
        (metric.name, (point.attributes or {})["gen_ai.operation.name"])
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if "gen_ai.agent.name" in (point.attributes or {})
    }
    replies = "gen_ai.invoke_agent.duration"
    assert counted == {(replies, "invoke_agent"), (replies, "invoke_workflow")}


def test_chat_agent_has_a_span_for_each_answer(traced: Traced) -> None:
    asyncio.run(ChattyAI("c", ScriptedModel(["Hello."])).say("Hi"))

    assert traced.tree() == {"chat scripted": "invoke_agent c", "invoke_agent c": None}


def test_spans_of_actions_and_of_the_caller_nest(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("mine")

    def look(where: str) -> str:
        """Look somewhere."""
        with tracer.start_as_current_span("http request"):
            return where

    agent = ReActAgent(
        "a", ScriptedModel([Call("1", "look", {"where": "x"}), "Found."]), actions=[look]
    )
    with tracer.start_as_current_span("server request"):
        agent.reply_sync("Look")

    tree = traced.tree()
    assert tree["http request"] == "execute_tool look"
    assert tree["invoke_agent a"] == "server request"
    assert not trace.get_current_span().get_span_context().is_valid


def test_agent_called_within_a_span_of_an_action_is_below_that_span(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("mine")
    inner = ReActAgent("inner", ScriptedModel(["Yes."]))

    async def ask() -> str:
        """Ask the other agent."""
        with tracer.start_as_current_span("asking"):
            return (await inner.reply("Really?")).text

    agent = ReActAgent("outer", ScriptedModel([Call("1", "ask", {}), "Yes."]), actions=[ask])
    agent.reply_sync("Well?")

    tree = traced.tree()
    assert tree["invoke_agent inner"] == "asking"
    assert tree["asking"] == "execute_tool ask"


def test_metrics_have_the_tokens_and_the_duration_of_each_call(traced: Traced) -> None:
    adder().reply_sync("What is 1 + 2?")

    data: Any = traced.reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in found["gen_ai.client.token.usage"].data.data_points
    }
    assert tokens == {"input": 30, "output": 9}
    (duration,) = found["gen_ai.client.operation.duration"].data.data_points
    assert duration.count == 2


def test_metrics_have_the_buckets_that_the_conventions_advise(traced: Traced) -> None:
    async def stream() -> None:
        async for _ in adder().stream("What is 1 + 2?"):
            pass

    asyncio.run(stream())
    data: Any = traced.reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    found = {
        metric.name.removeprefix("gen_ai.client."): metric.data.data_points[0].explicit_bounds
        for metric in scope.metrics
    }
    first = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
    assert tuple(found["operation.time_to_first_chunk"]) == first
    assert tuple(found["operation.duration"]) == pytest.approx([0.01 * 2**n for n in range(14)])
    assert tuple(found["token.usage"]) == tuple(4**n for n in range(14))


def test_uninstrument_ends_tracing(traced: Traced) -> None:
    uninstrument()
    adder().reply_sync("What is 1 + 2?")

    assert traced.spans == ()


def test_opentelemetry_is_not_imported_without_instrument() -> None:
    program = """
import sys
from moothall import Agent, Call, NativeSpace, ReActAgent, ScriptedModel
import moothall.serving.telemetry
agent = ReActAgent("a", ScriptedModel(["Hello."]))
agent.reply_sync("Hi")
with NativeSpace() as space:
    space.add(Agent("b"))
    me = space.add(Agent("me"))
    me.ask("b", "help").result(10)
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert made.stdout == "[]\n", made.stderr


def test_instrument_refuses_what_is_not_a_truth_value() -> None:
    with pytest.raises(ConfigError, match="content= must be True or False"):
        instrument(content="yes")  # type: ignore[arg-type]


def test_instrument_refuses_what_is_no_provider() -> None:
    with pytest.raises(ConfigError, match="tracer_provider= must be a TracerProvider"):
        instrument("http://127.0.0.1:4318")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="meter_provider= must be a MeterProvider"):
        instrument(None, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("breaks", ("on_start", "on_end"))
def test_processor_that_raises_breaks_no_reply(
    breaks: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if breaks == "on_start":
                raise OSError("no room")

        def on_end(self, span: Any) -> None:
            if breaks == "on_end":
                raise OSError("no room")

    provider = TracerProvider()
    provider.add_span_processor(Broken())
    instrument(provider)
    try:
        assert adder().reply_sync("What is 1 + 2?").text == "It is 3."
    finally:
        uninstrument()
    assert "a span could not be" in caplog.text
    assert "no room" in caplog.text


def test_step_of_a_society_has_the_calls_of_its_citizens_below(traced: Traced) -> None:
    async def ask(me: CitizenAgent) -> None:
        await me.llm.complete([{"role": "user", "content": f"{me.id}"}])

    citizens = [living(ask, id=number) for number in range(3)]

    async def run() -> None:
        model = ScriptedModel(lambda messages, actions: "Fine.")
        async with Society(citizens, model=model) as society:
            await society.run(step=60, steps=2)

    asyncio.run(run())

    steps = [span for span in traced.spans if span.name == "invoke_workflow Society"]
    assert [(span.attributes or {})["moothall.step"] for span in steps] == ["0", "1"]
    run_span = traced.named("invoke_workflow society")
    assert all(each.parent == run_span.context for each in steps)
    calls = [span for span in traced.spans if span.name == "chat scripted"]
    below = [span.parent.span_id for span in calls if span.parent is not None]
    assert sorted(below) == sorted(
        span.context.span_id for span in steps if span.context for _ in citizens
    )


def test_tags_of_a_run_are_on_the_spans_of_its_replies(traced: Traced) -> None:
    asked = ReActAgent("asked", ScriptedModel(["In."]))
    model = ScriptedModel([Call("1", "asked", {"text": "Well?"}), "Out."])
    asks = ReActAgent("asks", model, actions=[asked.as_action()])
    asks.reply_sync("Go", tags={"customer": "acme"})
    for name in ("invoke_agent asks", "invoke_agent asked"):
        assert (traced.named(name).attributes or {})["moothall.run.tags.customer"] == "acme"
