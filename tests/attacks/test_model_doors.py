"""Requests that no client of OpenAI's interface or AG-UI sends: each is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from moothall import ReActAgent, ScriptedModel, action
from moothall.serving import asgi

ASKED: list[Any] = []


@action
def look() -> str:
    """Look."""
    ASKED.append("looked")
    return "seen"


def never(messages: Any, actions: Any) -> str:
    """Answer as a model, and note that somebody got this far."""
    ASKED.append(messages)
    return "asked"


@pytest.fixture(scope="module")
def app() -> Any:
    return asgi(ReActAgent("one", ScriptedModel(never), actions=[look]))


def sent(app: Any, path: str, body: bytes, method: str = "POST") -> tuple[int, str]:
    async def main() -> tuple[int, str]:
        here = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=here, base_url="http://127.0.0.1") as client:
            answer = await client.request(method, path, content=body)
            return answer.status_code, answer.text

    ASKED.clear()
    return asyncio.run(main())


def chat(*messages: Any, **more: Any) -> bytes:
    return json.dumps({"model": "one", "messages": list(messages), **more}).encode()


def response(input: Any = "x", **more: Any) -> bytes:
    return json.dumps({"model": "one", "input": input, **more}).encode()


def tool(name: Any = "paint", parameters: Any = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object"} if parameters is None else parameters
    function = {"name": name, "parameters": schema, **more}
    return {"type": "function", "function": function, **function}


USER = {"role": "user", "content": "x"}
BROKEN = (b"", b"{", b"[]", b"null", b"5", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"NaN")


@pytest.mark.parametrize("path", ("/v1/chat/completions", "/v1/responses", "/ag-ui"))
@pytest.mark.parametrize("body", BROKEN)
def test_body_that_is_no_object_is_refused(app: Any, path: str, body: bytes) -> None:
    status, text = sent(app, path, body)
    assert status == 400, text
    assert "Traceback" not in text
    assert json.loads(text)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    (
        chat(),
        chat(5),
        chat({"role": "root", "content": "x"}),
        chat({"role": "user"}),
        chat({"role": "user", "content": {"text": "x"}}),
        chat(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///x"}}]}
        ),
        chat({"role": "user", "content": [{"type": "file", "file": {"file_id": "../x"}}]}),
        chat(USER, model={"$ne": ""}),
        chat(USER, model="../one"),
        chat(USER, n=1000),
        chat(USER, stream="yes"),
        chat(USER, tools="look"),
        chat(USER, tools=[tool("look")]),
        chat(USER, tools=[tool("__class__" * 10)]),
        chat(USER, tools=[tool("a b")]),
        chat(USER, tools=[tool("paint"), tool("paint")]),
        chat(USER, tools=[tool(parameters=[1])]),
        chat(USER, tools=[tool(parameters={"$ref": "http://127.0.0.1:9/x"})]),
        chat(USER, tools=[{"name": "code_interpreter"}]),
        chat(USER, response_format={"type": "json_schema", "json_schema": {"schema": 5}}),
        chat(USER, functions=[{"name": "x"}]),
    ),
)
def test_chat_completion_of_wrong_parts_is_refused(app: Any, body: bytes) -> None:
    status, text = sent(app, "/v1/chat/completions", body)
    assert status in (400, 404), text
    assert not ASKED


@pytest.mark.parametrize(
    "body",
    (
        response(5),
        response([]),
        response([5]),
        response([{"type": "item_reference", "id": "../x"}]),
        response([{"type": "mcp_approval_response", "approve": True}]),
        response(previous_response_id="resp_../../runs"),
        response(previous_response_id="resp_" + "0" * 32 + ".1"),
        response(previous_response_id=["resp_x"]),
        response(background=True),
        response(conversation="x"),
        response(tools=[{"name": "web_search"}]),
        response(tools=[tool("look")]),
        response(instructions=["x"]),
        response("\ud800"),
        response(instructions="\udfff"),
        response(metadata=5),
        response(text={"format": {"type": "json_schema", "schema": "x"}}),
        response(stream=1),
    ),
)
def test_response_of_wrong_parts_is_refused(app: Any, body: bytes) -> None:
    status, text = sent(app, "/v1/responses", body)
    assert status in (400, 404), text
    assert not ASKED


@pytest.mark.parametrize(
    "more",
    (
        {"threadId": 5},
        {"runId": None},
        {"messages": 5},
        {"messages": []},
        {"messages": [5]},
        {"messages": [{"role": "root", "content": "x"}]},
        {"tools": 5},
        {"tools": ["look"]},
        {"tools": [{"name": "look", "description": "x", "parameters": {}}]},
        {"tools": [{"name": "a b", "description": "x", "parameters": {}}]},
        {"resume": "yes"},
        {"resume": [{"interruptId": "x", "status": "resolved", "payload": {"approved": True}}]},
    ),
)
def test_ag_ui_input_of_wrong_parts_is_refused(app: Any, more: dict[str, Any]) -> None:
    given = {"threadId": "t", "runId": "r", "messages": [{"id": "m", **USER}], **more}
    status, text = sent(app, "/ag-ui", json.dumps(given).encode())
    assert status == 400, text
    assert "Traceback" not in text
    assert not ASKED


@pytest.mark.parametrize(
    ("method", "path"),
    (
        ("GET", "/v1/responses/resp_..%2f..%2fruns.db"),
        ("DELETE", "/v1/responses/resp_*"),
        ("DELETE", "/v1/responses/"),
        ("GET", "/v1/responses/x/input_items?limit=-1"),
        ("PUT", "/v1/responses/resp_x"),
        ("GET", "/v1/chat/completions"),
        ("GET", "/ag-ui"),
        ("POST", "/ag-ui/two"),
        ("GET", "/v1/models/two"),
    ),
)
def test_path_of_nothing_is_refused(app: Any, method: str, path: str) -> None:
    status, text = sent(app, path, b"{}", method)
    assert status in (307, 400, 404, 405), text
    assert not ASKED


def test_openai_path_of_nothing_is_refused_in_the_form_of_the_protocol(app: Any) -> None:
    for method, path in (("POST", "/v1/embeddings"), ("GET", "/v1/files")):
        status, text = sent(app, path, b"{}", method)
        assert status == 404
        assert json.loads(text)["error"]["message"] == f"{path} is not offered by this server"


def test_schema_that_leads_to_too_many_others_is_refused_by_every_door(app: Any) -> None:
    definitions: dict[str, Any] = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)
    }
    definitions["a60"] = {"type": "object"}
    schema = {"type": "object", "$defs": definitions, "$ref": "#/$defs/a0"}
    form = {"type": "json_schema", "name": "x", "schema": schema}
    asked = {"role": "user", "content": "x", "id": "1"}
    run = {"threadId": "t", "runId": "r", "messages": [asked]}
    for path, body in (
        ("/v1/chat/completions", chat(asked, response_format={**form, "json_schema": form})),
        ("/v1/chat/completions", chat(asked, tools=[tool(parameters=schema)])),
        ("/v1/responses", response(text={"format": form})),
        ("/v1/responses", response(tools=[tool(parameters=schema)])),
        ("/ag-ui", json.dumps({**run, "tools": [tool(parameters=schema)]}).encode()),
    ):
        status, text = sent(app, path, body)
        assert status == 400
        assert "leads through more than 100,000 schemas" in text
        assert ASKED == []
