"""`OpenAIModel` over OpenAI's Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from models import responses_format as form
from models.openai_server import OpenAIServer, Request, call, calls, events, status, text
from models.server_conformance import ServerConformance
from moothall import OpenAIModel, ReActAgent
from moothall.foundation.errors import ConfigError, ModelError
from moothall.models import Model, TextPiece
from moothall.models.ask import ask_value
from moothall.testing.model_suite import ACTIONS, PERSON_SCHEMA, parts_of, run, user_message

ADD = form.called("add", '{"a": 1, "b": 2}', "c1")
ONLY_THERE = (
    (400, "Function tools with reasoning_effort are not supported. Use /v1/responses."),
    (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
    (400, "The chatCompletion operation does not work with the specified model, gpt-5-codex."),
    (400, 'model "gpt-5.3-codex" is not accessible via the /chat/completions endpoint'),
)


def of(server: OpenAIServer, **more: Any) -> OpenAIModel:
    return OpenAIModel("m", server.url, **{"api": "responses"} | more)


def stream(*answers: Any, **more: Any) -> list[Any]:
    with OpenAIServer(*answers) as server:
        return run(parts_of(of(server), user_message("Hi"), **more))  # type: ignore[no-any-return]


class TestResponses(ServerConformance):
    def of(self, server: OpenAIServer) -> Model:
        return of(server)

    def text(self, said: str, stream: bool) -> Any:
        return (form.streamed if stream else form.response)(form.said(said))

    def call(self, name: str, args: Any, id: str, stream: bool) -> Any:
        item = form.called(name, json.dumps(args), id)
        return (form.streamed if stream else form.response)(item)

    def echo(self, request: Request) -> Any:
        schema = request.body["text"]["format"]["schema"]
        return form.response(form.said(json.dumps(schema["const"])))


# -- requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "said"), ONLY_THERE)
def test_openai_model_that_needs_responses_is_asked_there_from_then_on(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(request: Request) -> Any:
        if request.path == "/v1/chat/completions":
            return status(code, said)
        results = [each for each in request.body["input"] if "output" in each]
        return form.response(form.said("3")) if results else form.response(form.thought(), ADD)

    with OpenAIServer(answers) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        agent = ReActAgent("adder", "openai:gpt-5.6", actions=ACTIONS[:1])
        assert [agent.reply_sync("Add 1 and 2").text for _ in range(2)] == ["3", "3"]
    paths = [request.path.rpartition("/")[2] for request in server.requests]
    assert paths == ["completions", *["responses"] * 3]


def test_user_may_keep_to_the_chat_interface() -> None:
    with OpenAIServer(status(*ONLY_THERE[0]), text("no")) as server:
        with pytest.raises(ModelError, match="v1/responses"):
            run(OpenAIModel("m", server.url, api="chat").complete(user_message("Hi")))
        assert len(server.requests) == 1


def test_api_that_is_unknown_is_refused() -> None:
    with pytest.raises(ConfigError, match="api= must be"):
        OpenAIModel("m", "http://127.0.0.1:1/v1", api="batch")  # type: ignore[arg-type]


CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf"}},
        ],
    },
    {
        "role": "assistant",
        "content": "I add.",
        "tool_calls": [{"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "3"},
    {"role": "assistant", "content": "Three."},
    {"role": "user", "content": "Thanks"},
]


def test_requests_fit_openais_published_types() -> None:
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    options = {"reasoning_effort": "low", "tools": [{"type": "web_search"}]}
    with OpenAIServer(form.response(form.thought("Hm"), ADD), form.response(form.said("3"))) as it:
        model = of(it, options=options, temperature=0)
        ReActAgent("adder", model, actions=ACTIONS[:1]).reply_sync("Add")
        run(model.complete(CONVERSATION, ACTIONS, PERSON_SCHEMA))
    adapter = TypeAdapter(ResponseCreateParamsNonStreaming)
    for request in it.requests:
        # An iterable of items is validated when it is read.
        made = adapter.validate_python(request.body, strict=True)
        list(made["input"])
        assert made["reasoning"] == {"effort": "low"}
        assert [each["type"] for each in made["tools"]][:2] == ["web_search", "function"]
        assert "include" in made
        assert made["store"] is False


def test_call_without_a_text_goes_back_as_the_call_alone() -> None:
    called = {**CONVERSATION[2], "content": ""}
    with OpenAIServer(form.response(form.said("3"))) as it:
        run(of(it).complete([CONVERSATION[5], called, CONVERSATION[3]]))
    assert it.requests[0].body["input"] == [
        {"role": "user", "content": "Thanks"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1, "b": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]


# -- answers ---------------------------------------------------------------------------------------


def test_chat_answers_are_still_read_before_the_switch() -> None:
    with OpenAIServer(calls(call("add", "{}"))) as server:
        assert run(OpenAIModel("m", server.url).complete(user_message("Hi"), ACTIONS)).calls


# -- a stream that does not number its items: llama.cpp's ------------------------------------------


def _item(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "item": item}


def _ended(*output: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "r", "status": "completed", "output": list(output)}
    return {"type": "response.completed", "response": response}


def test_responses_stream_of_endless_items_is_refused() -> None:
    made = [_item("done", ADD) for _ in range(5000)]
    with pytest.raises(ModelError, match="output_index"):
        stream(events(*made, _ended()))


# -- what the model comments before its answer -----------------------------------------------------

COMMENT = form.said("I will add them.", phase="commentary")


def test_comment_before_a_text_that_is_asked_for_as_a_value_is_left_out() -> None:
    with OpenAIServer(form.response(COMMENT, form.said("It is 3.", phase="final_answer"))) as it:
        value = run(ask_value(of(it), user_message("Add 1 and 2"), None, str))
    assert value == "It is 3."


def test_comment_before_json_is_no_part_of_the_value_so_far() -> None:
    answer = form.said('{"name": "Ann", "age": 30}', phase="final_answer", id="msg_2")

    async def partials(server: OpenAIServer) -> list[Any]:
        async with ReActAgent("a", of(server)).stream("Who?", schema=PERSON_SCHEMA) as parts:
            return [each.partial async for each in parts if isinstance(each, TextPiece)]

    with OpenAIServer(form.streamed(COMMENT, answer)) as server:
        found = run(partials(server))
    assert len(found) > 2
    assert None not in found
    assert found[-1] == {"name": "Ann", "age": 30}
