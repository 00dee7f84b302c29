"""Open Responses: the cases of its compliance suite, read by the types that it publishes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openresponses_types as published
import pytest

from moothall import ReActAgent, ScriptedModel
from moothall.serving import asgi
from serving.doors.conftest import serving

EVENTS = {
    kind.value: each
    for name, each in vars(published).items()
    if name.endswith("StreamingEvent")
    for kind in each.model_fields["type"].annotation
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
PDF = "data:application/pdf;base64,JVBERi0xLjEKJSVFT0Y="
FILE = {"type": "input_file", "filename": "a.pdf", "file_data": PDF}


def said(content: Any, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def shown(file: dict[str, Any]) -> list[dict[str, Any]]:
    return [said([{"type": "input_text", "text": "What is it?"}, file])]


CASES: dict[str, dict[str, Any]] = {
    "basic": {"input": [said("Say hello.")]},
    "streaming": {"input": [said("Count.")], "stream": True},
    "system prompt": {"input": [said("Be a pirate.", "system"), said("Say hello.")]},
    "tool": {"input": [said("Weather?")], "tools": [WEATHER]},
    "tool, streaming": {"input": [said("Weather?")], "tools": [WEATHER], "stream": True},
    "image": {"input": shown(IMAGE)},
    "file": {"input": shown(FILE)},
    "several turns": {"input": [said("I am Al."), said("Hello!", "assistant"), said("Who?")]},
}


def model(messages: Any, actions: Any) -> Any:
    calls = actions and messages[-1]["role"] != "tool"
    return {"name": "get_weather", "args": {"location": "Bonn"}} if calls else "Hello."


@pytest.fixture(scope="module")
def door() -> Iterator[httpx2.Client]:
    app = asgi(ReActAgent("clerk", ScriptedModel(model)))
    with serving(app) as url, httpx2.Client(base_url=f"{url}/v1", timeout=20) as client:
        yield client


def answered(door: httpx2.Client, **body: Any) -> dict[str, Any]:
    """Return a whole response that the published types have read, with its events."""
    answer = door.post("/responses", json={"model": "clerk", **body})
    assert answer.status_code == 200, answer.text
    if body.get("stream"):
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
        events = [json.loads(line) for line in lines if line != "[DONE]"]
        for event in events:
            EVENTS[event["type"]].model_validate(event)
        found = events[-1]["response"]
    else:
        found = answer.json()
    published.ResponseResource.model_validate(found)
    assert found["status"] == "completed"
    return dict(found)


@pytest.mark.parametrize("case", CASES)
def test_open_responses_case_has_the_published_form(door: httpx2.Client, case: str) -> None:
    last = answered(door, **CASES[case])["output"][-1]
    assert last["type"] == ("function_call" if "tools" in CASES[case] else "message")


def test_open_responses_result_of_a_call_continues_its_response(door: httpx2.Client) -> None:
    choice = {"type": "function", "name": "get_weather"}
    first = answered(door, input="Weather?", tools=[WEATHER], tool_choice=choice)
    id = first["output"][-1]["call_id"]
    result = {"type": "function_call_output", "call_id": id, "output": "64 degrees"}
    second = answered(door, previous_response_id=first["id"], input=[result])
    assert second["output"][-1]["type"] == "message"


def test_open_responses_earlier_response_is_continued(door: httpx2.Client) -> None:
    first = answered(door, input="Remember: papaya.")
    assert answered(door, previous_response_id=first["id"], input="Which word?")["output"]
