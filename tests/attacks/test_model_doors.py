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
