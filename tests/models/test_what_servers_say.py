"""What servers say in their own ways: ends, passing failures, refused calls, marks of reasoning."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest

from conformance.model import ACTIONS, parts_of, run, user
from models import messages_format
from models.openai_server import (
    OpenAIServer,
    Request,
    answer,
    call,
    calls,
    completion,
    delta,
    http,
    status,
    text,
)
from moothall import AnthropicModel, FallbackModel, OpenAIModel, ReActAgent, Reply
from moothall.models import ModelReply
from moothall.models.ask import ask_value

ADD = call("add", '{"a": 1, "b": 2}', "c1")


@dataclass
class Sum:
    total: int


def said(content: str | None, reason: Any = "stop", **more: Any) -> Any:
    return answer(completion({"role": "assistant", "content": content, **more}, reason))


def ask(*answers: Any, **more: Any) -> ModelReply:
    with OpenAIServer(*answers) as server:
        return run(OpenAIModel("m", server.url, **more).complete(user("Hi")))  # type: ignore[no-any-return]


def agent_says(*answers: Any, schema: Any = None, **more: Any) -> Reply:
    with OpenAIServer(*answers) as server:
        model = OpenAIModel("m", server.url, **more)
        return ReActAgent("a", model, actions=ACTIONS[:1]).reply_sync("Add", schema=schema)


# -- ends ------------------------------------------------------------------------------------------


def test_refusal_of_a_schema_is_not_asked_again() -> None:
    reply = agent_says(said(None, refusal="I will not."), schema=Sum)
    assert (reply.stop_reason, reply.detail) == ("unreadable", "refused by the model: I will not.")


def test_call_that_was_cut_says_so_to_the_model() -> None:
    cut = completion({"content": None, "tool_calls": [call("add", '{"a": 1,', "c1")]}, "length")
    with OpenAIServer(answer(cut), text("3")) as server:
        ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[:1]).reply_sync("Add")
    assert "cut at its length limit" in server.requests[1].body["messages"][-1]["content"]


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
            parts = run(parts_of(model, user("Hi")))
            assert run(model.complete(user("Hi"))).text == "Hi"
        assert [part.text for part in parts] == ["Hi", "Hi"]


def test_answer_without_a_byte_is_asked_for_again() -> None:
    with OpenAIServer(http(b""), text("Hi")) as server:
        assert run(OpenAIModel("m", server.url, max_retries=1).complete(user("Hi"))).text == "Hi"


def test_json_that_the_server_finds_wrong_is_asked_for_again() -> None:
    error = {"message": "Failed to generate JSON", "code": "json_validate_failed"}
    error |= {"failed_generation": '{"total": "many"}'}
    refusal = http(json.dumps({"error": error}).encode(), 400)
    with OpenAIServer(refusal, text('{"total": 3}')) as server:
        reply = ReActAgent("a", OpenAIModel("m", server.url)).reply_sync("Sum?", schema=Sum)
        assert reply.value == Sum(3)
        assert '"many"' in server.requests[1].body["messages"][1]["content"]


# -- calls that the server refuses -----------------------------------------------------------------

FAILED = {"message": "tool call validation failed", "code": "tool_use_failed"}


@pytest.mark.parametrize("inside", (False, True), ids=("400", "200"))
@pytest.mark.parametrize(
    "generated",
    (
        '{"name": "add", "arguments": {"foo": 1}}',
        '<function=add{"foo": 1}</function>',
        '<tool_call>\n{"name": "add", "arguments": {"foo": 1}}\n</tool_call>',
        '{"tool_calls": [{"function": {"name": "add", "arguments": "{\\"foo\\": 1}"}}]}',
    ),
)
def test_call_that_the_server_refuses_is_asked_for_again(generated: str, inside: bool) -> None:
    body = json.dumps({"error": FAILED | {"failed_generation": generated}}).encode()
    with OpenAIServer(http(body, 200 if inside else 400), calls(ADD), text("3")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[:1])
        reply = agent.reply_sync("Add")
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"])
    told = server.requests[1].body["messages"]
    assert told[1]["tool_calls"][0]["function"]["name"] == "add"
    assert told[2]["role"] == "tool"


def test_text_that_the_server_refuses_for_a_call_is_the_answer() -> None:
    body = json.dumps({"error": FAILED | {"failed_generation": "It is 3."}}).encode()
    assert ask(http(body, 400)).text == "It is 3."


def test_call_that_a_provider_behind_another_refuses_is_asked_for_again() -> None:
    behind = {"error": FAILED | {"failed_generation": '{"name": "add", "arguments": {"foo": 1}}'}}
    about = {"raw": json.dumps(behind), "provider_name": "Groq"}
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": about}}
    reply = agent_says(http(json.dumps(body).encode(), 400), calls(ADD), text("3"))
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"])


@pytest.mark.parametrize(
    "refusal",
    (
        answer(completion({"content": None}, "MALFORMED_FUNCTION_CALL")),
        answer(completion({"content": ""}, "function_call_filter: UNEXPECTED_TOOL_CALL")),
        http(b'{"error": "error parsing tool call: raw=\'{\', err=unexpected end"}', 500),
        http(b'{"error": {"message": "Parsing failed", "code": "output_parse_failed"}}', 400),
    ),
    ids=("gemini", "gemini-filter", "ollama", "groq"),
)
def test_call_that_the_server_cannot_read_is_asked_for_again(refusal: Any) -> None:
    reply = agent_says(refusal, calls(ADD), text("3"), max_retries=0)
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"])


# -- reasoning in the text -------------------------------------------------------------------------


def test_marked_reasoning_is_no_part_of_a_typed_answer() -> None:
    content = '<think>\nTwo and one.\n</think>\n\n{"total": 3}'
    assert agent_says(said(content), schema=Sum).value == Sum(3)
    with OpenAIServer(said(content)) as server:
        found = ask_value(OpenAIModel("m", server.url), user("Hi"), None, json.loads)
        assert run(found) == {"total": 3}


# -- forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ('{}{"a": 1, "b": 2}', '{} {"a": 1, "b": 2}'))
def test_call_with_an_empty_object_before_its_arguments_is_read(arguments: str) -> None:
    reply = agent_says(calls(call("add", arguments, "c1")), text("3"))
    assert [step.args for step in reply.steps] == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("arguments", ("null", "[]"))
def test_null_or_an_empty_list_is_no_arguments(arguments: str) -> None:
    with OpenAIServer(calls(call("list_files", arguments, "c1")), text("none")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[1:2])
        assert [step.args for step in agent.reply_sync("List").steps] == [{}]


def test_server_that_wants_the_other_field_of_a_length_gets_it() -> None:
    refusal = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    with OpenAIServer(status(400, refusal), text("Hi")) as server:
        model = OpenAIModel("gpt-5", server.url, max_tokens=9)
        assert [run(model.complete(user("Hi"))).text for _ in range(2)] == ["Hi", "Hi"]
    sent = [request.body.get("max_completion_tokens") for request in server.requests]
    assert sent == [None, 9, 9]


def test_anthropic_gets_an_image_whose_address_has_more_than_its_type() -> None:
    url = "data:image/JPEG;charset=utf-8;base64,aGk="
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    with OpenAIServer(messages_format.text("A cat.")) as server:
        run(AnthropicModel("m", server.url, "k").complete([message]))
    source = server.requests[0].body["messages"][0]["content"][0]["source"]
    assert (source["type"], source["media_type"]) == ("base64", "image/jpeg")
    assert source["data"] == "aGk="


def test_anthropic_gets_a_text_file_as_its_text() -> None:
    file = {"filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"}
    message = {"role": "user", "content": [{"type": "file", "file": file}]}
    with OpenAIServer(messages_format.text("Two.")) as server:
        run(AnthropicModel("m", server.url, "k").complete([message]))
    block = server.requests[0].body["messages"][0]["content"][0]
    assert (block["type"], block["source"]["data"]) == ("document", "a,b")


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
        *user("Add"),
        {"role": "assistant", "content": "", "tool_calls": made},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]

    async def asked(model: Any) -> list[ModelReply]:
        return list(await asyncio.gather(*(model.complete(messages) for _ in range(8))))

    with OpenAIServer(wants_nine) as server:
        replies = run(asked(OpenAIModel("m", server.url)))
    assert [each.text for each in replies] == ["3"] * 8


def alternates(request: Request) -> Any:
    roles = [m["role"] for m in request.body["messages"]]
    if roles[0] == "system" or any(a == b for a, b in itertools.pairwise(roles)):
        return status(400, "Conversation roles must alternate user/assistant/user/assistant/...")
    return text("ok")


def wants_one_system(request: Request) -> Any:
    if "system" in [m["role"] for m in request.body["messages"][1:]]:
        return status(400, "System message must be at the beginning.")
    return text("ok")


def takes_no_system(request: Request) -> Any:
    if request.body["messages"][0]["role"] == "system":
        return status(400, "System role not supported")
    return text("ok")


def takes_no_names(request: Request) -> Any:
    if any("name" in m for m in request.body["messages"]):
        detail = {"type": "extra_forbidden", "loc": ["body", "messages", 1, "user", "name"]}
        return http(json.dumps({"message": {"detail": [detail]}}).encode(), 422)
    return text("ok")


@pytest.mark.parametrize("server", (alternates, wants_one_system, takes_no_system, takes_no_names))
def test_conversation_has_the_roles_that_the_server_takes(server: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One.", "name": "ann"},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Two."}, image], "name": "bob"},
    ]
    with OpenAIServer(server) as it:
        model = OpenAIModel("m", it.url)
        assert [run(model.complete(messages)).text for _ in range(2)] == ["ok", "ok"]
    body = it.requests[-1].body["messages"]
    sent = json.dumps(body)
    assert all(each in sent for each in ("Be brief.", "Be kind.", "One.", "Two.", "aGk="))
    assert it.requests[-1].body == it.requests[-2].body
