"""Servers at an address that refuse, or that nobody serves: the error says what to look at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moothall import ACCESS_PERMITTED, ActionError, Agent, MCPServerError, NativeSpace
from moothall.serving import MCPAgent
from serving.doors.conftest import serving


@pytest.mark.parametrize(
    ("status", "kind", "body", "headers", "told"),
    (
        (401, "text/plain", b"", {}, r"HTTP 401 Unauthorized \(it may want a token: headers="),
        (
            403,
            "application/json",
            b'{"why": "a bad key"}',
            {"Authorization": "Bearer x"},
            "a bad key",
        ),
        (404, "text/html", b"<html>", {}, "HTTP 404 Not Found$"),
        (500, "text/plain", b"out of paper", {}, "HTTP 500 Internal Server Error: out of paper"),
    ),
)
def test_mcp_address_that_answers_with_a_status_says_which(
    status: int,
    kind: str,
    body: bytes,
    headers: dict[str, str],
    told: str,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        stated = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": status, "headers": stated})
        await send({"type": "http.response.body", "body": body})

    with serving(app) as at, pytest.raises(MCPServerError, match=told) as caught:
        _ = MCPAgent("far", f"{at}/mcp", headers=headers).offers
    assert f"connecting to {at}/mcp failed" in str(caught.value)


def test_mcp_address_that_nobody_serves_is_named_without_what_may_be_secret() -> None:
    with pytest.raises(
        MCPServerError, match=r"connecting to http://127\.0\.0\.1:1/mcp failed"
    ) as caught:
        _ = MCPAgent("far", "http://me:s3cret@127.0.0.1:1/mcp?key=s3cret").offers
    assert "s3cret" not in str(caught.value)


@pytest.mark.long  # test_failing_servers.py has a program that floods
def test_mcp_address_that_floods_has_an_end() -> None:
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}\n\n'

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = json.loads((await receive()).get("body") or b"{}")
        method, kind, body = message.get("method"), b"application/json", b""
        if method == "initialize":
            about = {"name": "flood", "version": "1"}
            tools: Any = {"capabilities": {"tools": {}}, "serverInfo": about}
            body = answered(message, protocolVersion="2025-11-25", **tools)
        elif method == "tools/list":
            body = answered(message, tools=[{"name": "t", "inputSchema": {"type": "object"}}])
        elif method == "tools/call":
            kind, body = b"text/event-stream", note * 100_000
        status = 200 if body else 404 if "id" in message else 202
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    with serving(app) as url, NativeSpace() as space:
        space.add(MCPAgent("far", f"{url}/mcp", access=ACCESS_PERMITTED))
        with pytest.raises(ActionError, match="sent 100,000 messages, and answered nothing"):
            space.add(Agent("me")).ask("far", "t").result(50)


def answered(message: dict[str, Any], **result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def test_mcp_headers_of_a_function_are_those_of_each_request() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        body = b""
        while (part := await receive()).get("more_body") or part.get("body"):
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        message = json.loads(body or b"{}")
        about = {"name": "x", "version": "1"}
        made: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": about,
            },
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        result = made.get(message.get("method", ""))
        said = answered(message, **result) if result else b""
        status = 200 if said else 404 if "id" in message else 202
        kind = (b"content-type", b"application/json")
        await send({"type": "http.response.start", "status": status, "headers": [kind]})
        await send({"type": "http.response.body", "body": said})

    tokens = iter(range(1000))

    async def headers() -> dict[str, str]:
        return {"authorization": f"Bearer {next(tokens)}"}

    with serving(app) as url, NativeSpace() as space:
        space.add(MCPAgent("far", f"{url}/mcp", headers=headers, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        assert [me.ask("far", "t").result(20) for _ in range(2)] == ["done", "done"]
    stated = [each for each in seen if each]
    assert len(stated) > 3
    assert len({*stated}) == len(stated)
