"""Images and files that actions return, shown to models that see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models import messages_format, responses_format
from models.openai_server import OpenAIServer, Request, call, calls, status, text
from moothall import AnthropicModel, Call, OpenAIModel, ReActAgent, RecordedModel, ScriptedModel

URL = "data:image/png;base64,aGk="
IMAGE = {"type": "image_url", "image_url": {"url": URL}}
PDF = "data:application/pdf;base64,aGk="
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
LOOKS = call("look", "{}", "c1")


def look() -> list[dict[str, Any]]:
    """Look at it."""
    return [{"type": "text", "text": "Here."}, IMAGE, FILE]


def agent_of(model: Any) -> ReActAgent:
    return ReActAgent("a", model, actions=[look])


def test_chat_model_is_shown_them_after_the_results() -> None:
    both = calls(LOOKS, call("look", "{}", "c2"))
    with OpenAIServer(both, text("A cat."), text("Yes.")) as server:
        agent = agent_of(OpenAIModel("m", server.url))
        assert agent.reply_sync("What is it?").text == "A cat."
        agent.reply_sync("Sure?")
    for request in server.requests[1:]:
        results = request.body["messages"][2:5]
        assert [each["role"] for each in results] == ["tool", "tool", "user"]
        assert "an image, image/png, 3 bytes" in results[0]["content"]
        assert [b for b in results[2]["content"] if b["type"] != "text"] == [IMAGE, FILE] * 2


def test_image_alone_as_a_result_is_shown_to_the_model() -> None:
    def look() -> dict[str, Any]:
        """Look at it."""
        return IMAGE

    with OpenAIServer(calls(LOOKS), text("A cat.")) as server:
        ReActAgent("a", OpenAIModel("m", server.url), actions=[look]).reply_sync("What?")
    assert server.requests[1].body["messages"][-1]["content"][-1] == IMAGE


def test_anthropic_model_is_shown_them_in_the_result() -> None:
    said = (messages_format.call("look", {}), messages_format.text("A cat."))
    with OpenAIServer(*said) as server:
        agent_of(AnthropicModel("m", server.url, "k")).reply_sync("What is it?")
    (result,) = server.requests[1].body["messages"][2]["content"]
    assert [each["type"] for each in result["content"]] == ["text", "image", "document"]


def test_responses_have_them_in_the_output() -> None:
    first = responses_format.response(responses_format.called("look", "{}", "c1"))
    last = responses_format.response(responses_format.said("A cat."))
    with OpenAIServer(first, last) as server:
        agent_of(OpenAIModel("m", server.url, api="responses")).reply_sync("What is it?")
    output = server.requests[1].body["input"][-1]["output"]
    assert [each["type"] for each in output] == ["input_text", "input_image", "input_file"]


def test_server_that_sees_nothing_is_told_what_there_was() -> None:
    def blind(request: Request) -> Any:
        if "image_url" in json.dumps(request.body):
            return status(400, "This model does not support image input")
        return text("A cat.") if len(request.body["messages"]) > 1 else calls(LOOKS)

    with OpenAIServer(blind) as server:
        agent = agent_of(OpenAIModel("m", server.url))
        assert agent.reply_sync("What is it?").text == "A cat."
        agent.reply_sync("Sure?")
    assert len(server.requests) == 4
    assert "an image, image/png" in json.dumps(server.requests[-1].body)


def test_model_that_does_not_see_reads_a_note_also_of_what_another_saw() -> None:
    with OpenAIServer(calls(LOOKS), text("A cat.")) as server:
        agent = agent_of(OpenAIModel("m", server.url))
        agent.reply_sync("What is it?")
    told: list[Any] = []
    script = ScriptedModel([lambda messages, actions: told.extend(messages) or "Yes."])
    agent.model = script
    assert agent.reply_sync("Sure?").text == "Yes."
    assert "base64" not in json.dumps(told)
    assert "an image, image/png" in json.dumps(told)


def test_recording_of_a_model_that_sees_replays(tmp_path: Path) -> None:
    with (
        OpenAIServer(calls(LOOKS), text("A cat.")) as server,
        RecordedModel(OpenAIModel("m", server.url), tmp_path / "a.jsonl") as model,
    ):
        agent_of(model).reply_sync("What is it?")
    with RecordedModel(None, tmp_path / "a.jsonl") as model:
        assert agent_of(model).reply_sync("What is it?").text == "A cat."


@pytest.mark.parametrize("given", ("https://example.com/a.png", 5, None))
def test_image_result_without_data_stays_text(given: Any) -> None:
    def look() -> list[dict[str, Any]]:
        """Look at it."""
        return [{"type": "image_url", "image_url": {"url": given}}]

    with OpenAIServer(calls(LOOKS), text("A cat.")) as server:
        ReActAgent("a", OpenAIModel("m", server.url), actions=[look]).reply_sync("What?")
    messages = server.requests[1].body["messages"]
    assert messages[-1]["role"] == "tool"
    assert run_of(messages) is not None


def run_of(messages: list[Any]) -> Any:
    return json.loads(messages[-1]["content"])


def test_result_that_is_a_json_schema_stays_text() -> None:
    schema = {"type": ["string", "null"]}

    def look() -> list[dict[str, Any]]:
        """Look at it."""
        return [schema]

    model = ScriptedModel([[Call("1", "look", {})], "A schema."])
    ReActAgent("a", model, actions=[look]).reply_sync("go")
    assert json.loads(model.received[1][-1]["content"]) == [schema]


@pytest.mark.parametrize(
    "arranged",
    (lambda *parts: [*parts], lambda *parts: dict(enumerate(parts)), lambda *parts: parts),
)
def test_bytes_of_a_result_are_read_as_text_or_told_of(arranged: Callable[..., Any]) -> None:
    def read() -> Any:
        """Read a file."""
        return arranged("Zürich".encode(), b"\x00\xff" * 500_000)

    model = ScriptedModel([Call("1", "read", {}), "Done."])
    reply = ReActAgent("a", model, actions=[read]).reply_sync("Go.")
    shown = arranged("Zürich", "[1,000,000 bytes, which are no text]")
    assert json.loads(reply.messages[2]["content"]) == json.loads(json.dumps(shown))
    assert reply.steps[0].result["result"][1][:2] == b"\x00\xff"


def test_images_in_a_tuple_are_shown_as_those_in_a_list() -> None:
    def look() -> tuple[Any, ...]:
        """Look at it."""
        return ("Here.", IMAGE)

    with OpenAIServer(calls(LOOKS), text("A cat.")) as server:
        model = OpenAIModel("m", server.url)
        ReActAgent("a", model, actions=[look]).reply_sync("What is it?")
    messages = server.requests[1].body["messages"]
    assert URL not in messages[2]["content"]
    assert messages[3]["content"][-1] == IMAGE
