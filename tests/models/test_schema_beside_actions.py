"""A schema beside actions: the form that the server can do, decided once and remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from conformance.model import ACTIONS, PERSON, joined, parts_of, run, user
from models.openai_server import (
    Answer,
    OpenAIServer,
    Request,
    answer,
    call,
    calls,
    completion,
    delta,
    events,
    status,
    text,
)
from moothall import OpenAIModel, ReActAgent, Reply
from moothall.models import ModelReply, ReasoningPiece

ADD = call("add", '{"a": 1, "b": 2}', "c1")


@dataclass
class Sum:
    total: int


def is_after(request: Request) -> bool:
    """Whether a request has the result of a call."""
    return any(each["role"] == "tool" for each in request.body["messages"])


def final(arguments: str) -> dict[str, Any]:
    return call("final_answer", arguments, "f1")


def constrained(request: Request) -> Answer:
    """A server whose schema leaves no room for a call."""
    if request.body.get("response_format"):
        return text('{"total": 42}')
    return calls(final('{"total": 3}')) if is_after(request) else calls(ADD)


def asked(server: OpenAIServer, schema: Any = Sum, **more: Any) -> Reply:
    model = OpenAIModel("m", server.url, **more)
    return ReActAgent("adder", model, actions=ACTIONS[:1]).reply_sync("Add", schema=schema)


def test_schema_beside_actions_at_a_constraining_server_runs_the_action_first() -> None:
    with OpenAIServer(constrained) as server:
        reply = asked(server)
    assert (reply.value, reply.stop_reason) == (Sum(3), "done")
    assert [step.action for step in reply.steps] == ["add"]


@pytest.mark.parametrize("arguments", ('{"value": [1, 2]}', "[1, 2]"))
def test_schema_of_a_list_is_met_by_the_final_actions_value(arguments: str) -> None:
    with OpenAIServer(calls(ADD), calls(final(arguments))) as server:
        assert asked(server, list[int]).value == [1, 2]
    shown = server.requests[0].body["tools"][-1]["function"]["parameters"]
    assert shown["properties"]["value"]["type"] == "array"


def test_text_that_is_the_answer_is_taken() -> None:
    with OpenAIServer(calls(ADD), text('{"total": 3}')) as server:
        assert asked(server).value == Sum(3)


def test_final_answer_beside_other_calls_waits_for_their_results() -> None:
    both = calls(ADD, final('{"total": 1}'))
    with OpenAIServer(both, calls(final('{"total": 3}'))) as server:
        reply = asked(server)
    assert reply.value == Sum(3)
    assert [step.action for step in reply.steps] == ["add"]


def test_final_action_that_the_server_refuses_is_asked_for_in_words() -> None:
    def answers(request: Request) -> Answer:
        if len(request.body["tools"]) > 1:
            return status(400, "Invalid schema for function 'final_answer'")
        return text('{"total": 3}') if is_after(request) else calls(ADD)

    with OpenAIServer(answers) as server:
        assert asked(server).value == Sum(3)
    assert [len(request.body["tools"]) for request in server.requests] == [2, 1, 1]


@pytest.mark.parametrize(
    "said",
    (
        "Cannot use json response type with tools",
        '"tools" is incompatible with "response_format"',
        "Structured output is not supported with tools for this model",
        "Function calling and structured outputs cannot be used simultaneously",
        "Guided decoding cannot be combined with tool_choice",
    ),
)
def test_final_action_is_used_where_a_server_takes_a_schema_or_actions(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(request: Request) -> Answer:
        if request.body.get("response_format") and request.body.get("tools"):
            return status(400, said)
        return constrained(request)

    with OpenAIServer(picky) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
        model = OpenAIModel("m", api_key="k", provider="azure")
        agent = ReActAgent("adder", model, actions=ACTIONS[:1])
        assert agent.reply_sync("Add", schema=Sum).value == Sum(3)
    assert len(server.requests) == 3  # what was refused once is not sent again


def test_final_action_leaves_its_name_to_a_users_action() -> None:
    def final_answer() -> str:
        return "mine"

    answers = (calls(call("final_answer", "{}")), calls(call("final_answer_", '{"total": 3}')))
    with OpenAIServer(*answers) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=[final_answer])
        reply = agent.reply_sync("Hi", schema=Sum)
    assert (reply.value, reply.steps[0].result["result"]) == (Sum(3), "mine")


def test_final_action_is_the_text_of_a_stream() -> None:
    called = delta(tool_calls=[{"index": 0, **final('{"name": "A"}')}])
    with OpenAIServer(events(delta("Let me see."), called, delta(None, "tool_calls"))) as server:
        model = OpenAIModel("m", server.url)
        parts = run(parts_of(model, user("Who?"), ACTIONS[:1], PERSON))
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    assert (joined(parts), reply.calls, reply.finish_reason) == (reply.text, (), "stop")
    assert json.loads(reply.text) == {"name": "A"}
    assert joined(parts, ReasoningPiece) == reply.reasoning == "Let me see."


def test_schema_without_actions_uses_the_servers_own_field() -> None:
    with OpenAIServer(answer(completion({"role": "assistant", "content": "{}"}))) as server:
        run(OpenAIModel("m", server.url).complete(user("Who?"), schema=PERSON))
    assert "response_format" in server.requests[0].body
