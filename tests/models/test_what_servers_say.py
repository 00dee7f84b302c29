"""What servers say in their own ways: ends, passing failures, refused calls, marks of reasoning."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from models.openai_server import (
    DONE,
    OpenAIServer,
    Request,
    answer,
    call,
    calls,
    completion,
    counted,
    delta,
    events,
    http,
    status,
    text,
)
from moothall import FallbackModel, OpenAIModel, ReActAgent, Reply, Usage
from moothall.models import ModelReply
from moothall.models.ask import ask_value
from moothall.testing.model_suite import ACTIONS, parts_of, run, user_message

ADD = call("add", '{"a": 1, "b": 2}', "c1")


@dataclass
class Sum:
    total: int


def said(content: str | None, reason: Any = "stop", **more: Any) -> Any:
    return answer(completion({"role": "assistant", "content": content, **more}, reason))


def ask(*answers: Any, **more: Any) -> ModelReply:
    with OpenAIServer(*answers) as server:
        return run(OpenAIModel("m", server.url, **more).complete(user_message("Hi")))  # type: ignore[no-any-return]


def agent_says(*answers: Any, schema: Any = None, **more: Any) -> Reply:
    with OpenAIServer(*answers) as server:
        model = OpenAIModel("m", server.url, **more)
        return ReActAgent("a", model, actions=ACTIONS[:1]).reply_sync("Add", schema=schema)


# -- ends ------------------------------------------------------------------------------------------


def test_refusal_of_a_schema_is_not_asked_again() -> None:
    reply = agent_says(said(None, refusal="I will not."), schema=Sum)
    assert (reply.stop_reason, reply.detail) == ("unreadable", "refused by the model: I will not.")


def test_openai_model_counts_the_usage_that_a_later_event_leaves_out() -> None:
    empty = counted(prompt_tokens=0, completion_tokens=0, total_tokens=0)
    with OpenAIServer(events(delta("Hi", "stop"), counted(), empty, DONE)) as server:
        reply = run(parts_of(OpenAIModel("m", server.url), user_message("Hi")))[-1]
    assert reply.usage == Usage(7, 3)


# -- failures that pass ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ("text/plain", "application/json", "text/event-stream"))
@pytest.mark.parametrize("whole", (False, True), ids=("streamed", "whole"))
def test_stream_is_read_as_what_comes_not_as_what_it_is_called(kind: str, whole: bool) -> None:
    given = completion({"role": "assistant", "content": "Hi"}) if whole else delta("Hi", "stop")
    body = json.dumps(given) if whole else f"data: {json.dumps(given)}\n\ndata: [DONE]\n\n"
    for before in ("\n", ""):
        said = http((before + body).encode(), headers={"Content-Type": kind})
        with OpenAIServer(said) as server:
            model = OpenAIModel("m", server.url)
            parts = run(parts_of(model, user_message("Hi")))
            assert run(model.complete(user_message("Hi"))).text == "Hi"
        assert [part.text for part in parts] == ["Hi", "Hi"]


def test_json_that_the_server_finds_wrong_is_asked_for_again() -> None:
    error = {"message": "Failed to generate JSON", "code": "json_validate_failed"}
    error |= {"failed_generation": '{"total": "many"}'}
    refusal = http(json.dumps({"error": error}).encode(), 400)
    with OpenAIServer(refusal, text('{"total": 3}')) as server:
        reply = ReActAgent("a", OpenAIModel("m", server.url)).reply_sync("Sum?", schema=Sum)
        assert reply.value == Sum(3)
        assert '"many"' in server.requests[1].body["messages"][1]["content"]


# -- reasoning in the text -------------------------------------------------------------------------


def test_marked_reasoning_is_no_part_of_a_typed_answer() -> None:
    content = '<think>\nTwo and one.\n</think>\n\n{"total": 3}'
    assert agent_says(said(content), schema=Sum).value == Sum(3)
    with OpenAIServer(said(content)) as server:
        found = ask_value(OpenAIModel("m", server.url), user_message("Hi"), None, json.loads)
        assert run(found) == {"total": 3}


# -- conversations of another provider -------------------------------------------------------------


def wants_nine(request: Request) -> Any:
    ids = [each["id"] for m in request.body["messages"] for each in m.get("tool_calls", ())]
    ids += [m["tool_call_id"] for m in request.body["messages"] if m["role"] == "tool"]
    if bad := [each for each in ids if len(each) != 9 or not each.isalnum()]:
        form = "must be a-z, A-Z, 0-9, with a length of 9."
        return status(400, f"Tool call id was {bad[0]} but {form}")
    assert len(set(ids)) == len(ids) // 2
    return text("3")


def wants_reasoning(request: Request) -> Any:
    made = [m for m in request.body["messages"] if m["role"] == "assistant"]
    if not all(m.get("reasoning_content") for m in made):
        return status(400, "thinking is enabled but reasoning_content is missing in message 2")
    return text("3")


@pytest.mark.parametrize("server", (wants_nine, wants_reasoning))
def test_fallback_sends_the_calls_of_the_first_model_to_the_next(server: Any) -> None:
    busy = status(503, "busy")
    with (
        OpenAIServer(calls(ADD, call("add", "{}", "functions.add:1")), busy) as one,
        OpenAIServer(server) as two,
    ):
        first = OpenAIModel("m", one.url, max_retries=0)
        model = FallbackModel([first, OpenAIModel("m", two.url)])
        agent = ReActAgent("a", model, actions=ACTIONS[:1])
        assert agent.reply_sync("Add").text == "3"
        agent.model = model.models[1]
        assert agent.reply_sync("Again").text == "3"


def test_requests_at_once_are_all_adapted() -> None:
    made = [{"id": "c1", "name": "add", "args": {}}]
    messages = [
        *user_message("Add"),
        {"role": "assistant", "content": "", "tool_calls": made},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]

    async def asked(model: Any) -> list[ModelReply]:
        return list(await asyncio.gather(*(model.complete(messages) for _ in range(8))))

    with OpenAIServer(wants_nine) as server:
        replies = run(asked(OpenAIModel("m", server.url)))
    assert [each.text for each in replies] == ["3"] * 8
