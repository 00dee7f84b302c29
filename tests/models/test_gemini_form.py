"""What is sent to Gemini fits its OpenAI form, as Google documents it and its server checks it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from models.openai_server import OpenAIServer, Request, call, calls, http, text
from moothall import Action, OpenAIModel, ReActAgent, action
from moothall.foundation.errors import ModelError

# Google's documentation of the form names these; its server refuses any other, such as `seed`.
FIELDS = {
    *("model", "messages", "tools", "tool_choice", "response_format", "reasoning_effort"),
    *("max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop"),
    *("stream", "stream_options", "extra_body"),
}
OF_MESSAGES = {"role", "content", "name", "tool_calls", "tool_call_id", "extra_content"}
# Of a schema of parameters, by Google's type `Schema`.
KEYWORDS = {
    *("type", "format", "title", "description", "nullable", "default", "items", "enum", "anyOf"),
    *("properties", "required", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minimum", "maximum", "minLength", "maxLength", "pattern", "example", "propertyOrdering"),
}
INVALID = "Invalid JSON payload received."
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")


@dataclass
class Point:
    x: int
    y: int | None = None


@dataclass
class Found:
    points: list[Point]


def mark(
    points: list[Point], kind: Literal["a"], level: Literal[1, 2], sizes: dict[str, int]
) -> str:
    return "done"


def refusal(said: str) -> Any:
    about: dict[str, Any] = {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}
    if place := re.search(r" at '([^']+)'", said):
        # As in google/generative-ai-docs, issue 444, of May 2024.
        kind = "type.googleapis.com/google.rpc.BadRequest"
        violations = [{"field": place[1], "description": said}]
        about["details"] = [{"@type": kind, "fieldViolations": violations}]
    return http(json.dumps([{"error": about}]).encode(), 400)


def wrong_schema(schema: Any, at: str) -> str:
    """Return what Google's server says of the first thing in a schema that it does not know."""
    for name, each in schema.items() if isinstance(schema, dict) else ():
        if name not in KEYWORDS:
            return f"{INVALID} Unknown name \"{name}\" at '{at}': Cannot find field."
        if name == "type" and isinstance(each, list):
            said = "Proto field is not repeating, cannot start list."
            return f"{INVALID} Unknown name \"type\" at '{at}': {said}"
        if name == "enum" and not all(isinstance(one, str) for one in each):
            return f"Invalid value at '{at}.enum[0]' (TYPE_STRING), {each[0]}"
        inner = each.values() if name == "properties" else each if name == "anyOf" else [each]
        for n, one in enumerate(inner if name in ("properties", "anyOf", "items") else ()):
            if fault := wrong_schema(one, f"{at}.{name}[{n}].value"):
                return fault
    return ""


class Gemini:
    """Checks each request; then gives the next of its answers."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def __call__(self, request: Request) -> Any:
        body = request.body
        if unknown := body.keys() - FIELDS:
            return refusal(f'{INVALID} Unknown name "{unknown.pop()}": Cannot find field.')
        if body.get("response_format") and body.get("tools"):
            said = "Function calling with a response mime type: 'application/json' is unsupported"
            return refusal(said)
        for each in body["messages"]:
            assert each.keys() <= OF_MESSAGES, each.keys()
            if (made := each.get("tool_calls")) and "extra_content" not in made[0]:
                return refusal(
                    "Function call is missing a thought_signature in functionCall parts."
                )
        for n, tool in enumerate(body.get("tools", ())):
            function = tool["function"]
            assert _NAME.fullmatch(function["name"])
            at = f"tools[0].function_declarations[{n}].parameters"
            if fault := wrong_schema(function["parameters"], at):
                return refusal(fault)
        return self._answers.pop(0)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")


def signed(name: str, args: dict[str, Any], id: str) -> dict[str, Any]:
    extra = {"google": {"thought_signature": f"SIG-{id}"}}
    return call(name, json.dumps(args), id) | {"extra_content": extra}


def test_gemini_agent_with_a_schema_sends_what_the_form_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = {"points": [{"x": 1}], "kind": "a", "level": 1, "sizes": {"b": 2}}
    again = call("mark", json.dumps(args), "c2")  # of calls beside each other one is signed
    gemini = Gemini(
        calls(signed("mark", args, "c1"), again),
        calls(signed("mark", args, "c3")),
        calls(signed("final_answer", {"points": [{"x": 1}]}, "c4")),
        text("Bye."),
    )
    with OpenAIServer(gemini) as server:
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        agent = ReActAgent("marker", "gemini:gemini-3-pro", actions=[mark])
        reply = agent.reply_sync("Mark", schema=Found)
        assert (reply.value, len(reply.steps)) == (Found([Point(1)]), 3)
        assert agent.reply_sync("Bye").text == "Bye."
    sent = [each for m in server.requests[-1].body["messages"] for each in m.get("tool_calls", ())]
    extras = [each.get("extra_content", {}).get("google") for each in sent]
    assert extras[:3] == [{"thought_signature": "SIG-c1"}, None, {"thought_signature": "SIG-c3"}]
    shown = server.requests[-1].body["tools"][0]["function"]["parameters"]["properties"]
    assert shown["points"]["items"]["properties"]["x"]["type"] == "integer"
    assert shown["kind"]["enum"] == ["a"]
    assert shown["level"]["description"] == "One of 1, 2."


def test_names_of_actions_begin_as_the_form_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @action(name="2nd")
    def second() -> str:
        return "done"

    with OpenAIServer(Gemini(calls(signed("_2nd", {}, "c1")), text("Done."))) as server:
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        reply = ReActAgent("a", "gemini:gemini-3-pro", actions=[second]).reply_sync("Go")
    assert [step.action for step in reply.steps] == ["2nd"]


def test_calls_of_another_provider_are_marked_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    args = {"points": [], "kind": "a", "level": 1, "sizes": {}}
    with (
        OpenAIServer(calls(call("mark", json.dumps(args), "c1")), text("Done.")) as other,
        OpenAIServer(Gemini(text("Yes."))) as server,
    ):
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        agent = ReActAgent("a", f"{other.url}#m", actions=[mark])
        agent.reply_sync("Mark")
        agent.model = "gemini:gemini-3-pro"
        assert agent.reply_sync("Did you?").text == "Yes."


def test_schema_of_another_server_has_one_type_for_each_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As many MCP servers describe what may be left out.
    values = {"fields": {"type": ["string", "null"], "description": "Which fields"}}
    find = Action(
        "find",
        lambda fields=None: "3",
        "Find it.",
        parameters={"type": "object", "properties": values},
    )
    with OpenAIServer(Gemini(text("Yes."))) as server:
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        model = OpenAIModel("gemini-3-pro", provider="gemini")
        reply = asyncio.run(model.complete([{"role": "user", "content": "Go"}], [find]))
    sent = server.requests[-1].body["tools"][0]["function"]["parameters"]["properties"]
    assert (reply.text, sent["fields"]) == (
        "Yes.",
        {**values["fields"], "type": "string", "nullable": True},
    )


def test_schema_keeps_its_keywords_if_the_fault_is_of_another_place() -> None:
    said = f"{INVALID} Unknown name \"type\" at 'contents[0].parts[0]': Cannot find field."
    with OpenAIServer(refusal(said)) as server:
        model = OpenAIModel("gemini-3-pro", server.url)
        with pytest.raises(ModelError):
            asyncio.run(
                model.complete([{"role": "user", "content": "Go"}], [Action("mark", mark, "Mark.")])
            )
        assert len(server.requests) == 1
