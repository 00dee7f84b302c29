"""A schema beside actions: the form that the server can do, decided once and remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from models.openai_server import (
    Answer,
    OpenAIServer,
    Request,
    call,
    calls,
    delta,
    events,
    status,
    text,
)
from moothall import OpenAIModel, ReActAgent
from moothall.models import ModelReply, ReasoningPiece
from moothall.testing.model_suite import (
    ACTIONS,
    PERSON_SCHEMA,
    joined_text,
    parts_of,
    run,
    user_message,
)

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
        parts = run(parts_of(model, user_message("Who?"), ACTIONS[:1], PERSON_SCHEMA))
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    assert (joined_text(parts), reply.calls, reply.finish_reason) == (reply.text, (), "stop")
    assert json.loads(reply.text) == {"name": "A"}
    assert joined_text(parts, ReasoningPiece) == reply.reasoning == "Let me see."
