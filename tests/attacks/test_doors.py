"""Requests that no caller of the doors sends: each is refused, whatever it asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from moothall import Agent, action
from moothall.serving import asgi
from serving.doors.conftest import serving

CALLED: list[str] = []


class Safe(Agent):
    """An agent whose one action must not run."""

    @action
    async def open(self) -> str:
        """Open it."""
        CALLED.append("opened")
        return "open"


@pytest.fixture(scope="module", params=(None, "t0ken"))
def door(request: pytest.FixtureRequest) -> Iterator[tuple[str, str | None]]:
    with serving(asgi(Safe("safe"), token=request.param)) as url:
        yield url, request.param


Send = Callable[..., tuple[int, str]]


@pytest.fixture
def send(door: tuple[str, str | None]) -> Send:
    url, token = door
    host = url.removeprefix("http://")

    def send(
        headers: dict[str, str | None] | None = None,
        body: bytes | None = None,
        method: str = "POST",
        path: str = "/mcp",
        twice: tuple[str, str] | None = None,
    ) -> tuple[int, str]:
        call = {"name": "open", "arguments": {}, "_meta": META}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        body = json.dumps(sent).encode() if body is None else body
        given: dict[str, str | None] = {
            "Host": host,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "open",
            "Authorization": f"Bearer {token}",
            **(headers or {}),
        }
        connection = HTTPConnection(host, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if twice is not None:
                connection.putheader(*twice)
            # A server that refuses the headers closes: a body on its way would cost us its answer.
            connection.endheaders(body if twice is None else None)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    CALLED.clear()
    return send


META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_doors_let_a_caller_in(send: Send) -> None:
    status, said = send()
    assert (status, CALLED) == (200, ["opened"]), said


@pytest.mark.parametrize(
    "headers",
    (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ),
)
def test_doors_refuse_pages_of_elsewhere(send: Send, headers: dict[str, str | None]) -> None:
    for method in ("POST", "GET", "DELETE", "OPTIONS"):
        assert send(headers, method=method)[0] == 403
    assert CALLED == []


@pytest.mark.parametrize(
    "host", ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "10.0.0.1")
)
def test_doors_without_a_token_refuse_foreign_hosts(
    send: Send, door: tuple[str, str | None], host: str
) -> None:
    status, _ = send({"Host": host})
    assert status in ((400, 403) if door[1] is None else (200, 400))


@pytest.mark.parametrize(
    "given",
    (None, "", "Bearer", "Bearer ", "Bearer t0ke", "Bearer t0ken0", "Basic t0ken", "t0ken"),
)
def test_doors_with_a_token_refuse_who_does_not_state_it(
    send: Send, door: tuple[str, str | None], given: str | None
) -> None:
    for path in ("/mcp", "/", "/nowhere"):
        status, _ = send({"Authorization": given}, path=path)
        assert status == 401 or door[1] is None
    assert door[1] is None or CALLED == []


@pytest.mark.parametrize("name", ("Host", "Origin", "Authorization", "Content-Length"))
def test_doors_refuse_a_header_that_comes_twice(send: Send, name: str) -> None:
    headers = {"Origin": "http://a"} if name == "Origin" else None
    assert send(headers, twice=(name, "5"))[0] in (400, 403)
    assert CALLED == []


def test_doors_refuse_a_body_that_is_too_long(send: Send) -> None:
    assert send({"Content-Length": str(5 << 20)}, b"")[0] == 413
    assert send({"Content-Length": "x"}, b"")[0] in (400, 413)
    assert CALLED == []


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "tools/call"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
    ),
)
def test_doors_answer_what_is_no_message_with_an_error(send: Send, body: bytes) -> None:
    status, said = send(body=body)
    assert 400 <= status < 500, said
    assert "Traceback" not in said
    assert CALLED == []


def test_doors_know_no_other_path(send: Send) -> None:
    for path in ("/", "/mcp/../x", "//mcp", "/MCP", "/mcp%00", "/openapi.json", "/docs"):
        assert send(path=path)[0] in (404, 307)
    assert CALLED == []
