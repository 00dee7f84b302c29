"""Requests that no caller of the A2A door sends: each is refused, and the door serves on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from moothall import ReActAgent, ScriptedModel
from moothall.serving import asgi
from serving.doors.conftest import serving

ASKED: list[Any] = []


def never(messages: Any, actions: Any) -> str:
    """Answer as a model, and note that somebody got this far."""
    ASKED.append(messages)
    return "asked"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    agents = [ReActAgent(id, ScriptedModel(never)) for id in ("one", "two")]
    with serving(asgi(agents)) as url:
        yield url


def sent(url: str, body: bytes, path: str = "/a2a/one", **headers: str) -> tuple[int, str]:
    host, port = url.removeprefix("http://").split(":")
    http = HTTPConnection(host, int(port), timeout=20)
    http.request("POST", path, body, {"A2A-Version": "1.0", **headers})
    answer = http.getresponse()
    text = answer.read().decode()
    http.close()
    return answer.status, text


def call(method: Any, params: Any, **more: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more
    ).encode()


def message(**about: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], **about}}


@pytest.mark.parametrize(
    "body",
    (
        b"[" * 100_000,
        b'{"a":' * 100_000,
        call("SendMessage", message(parts=[{"text": "x"}] * 1001)),
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "GetTask"}',
    ),
)
def test_a2a_body_of_great_size_that_is_no_call_is_refused(url: str, body: bytes) -> None:
    ASKED.clear()
    status, text = sent(url, body)
    assert status == 200
    assert -32701 < json.loads(text)["error"]["code"] < -32000
    assert not ASKED


@pytest.mark.parametrize(
    "path", ("/a2a/", "/a2a/three", "/a2a/../mcp/", "/a2a/one//", "/a2a/one%00", "/a2a/%2e%2e/one")
)
def test_a2a_path_of_no_agent_is_refused(url: str, path: str) -> None:
    ASKED.clear()
    assert sent(url, call("SendMessage", message()), path)[0] == 404
    assert not ASKED


@pytest.mark.parametrize(
    "headers",
    (
        {"Origin": "http://elsewhere.example"},
        {"Host": "elsewhere.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ),
)
def test_a2a_page_of_elsewhere_is_refused(url: str, headers: dict[str, str]) -> None:
    ASKED.clear()
    assert sent(url, call("SendMessage", message()), **headers)[0] == 403
    assert not ASKED


def test_a2a_task_of_one_agent_is_not_found_at_another(url: str) -> None:
    task = json.loads(sent(url, call("SendMessage", message()))[1])["result"]["task"]["id"]
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        _, text = sent(url, call(method, {"id": task}), "/a2a/two")
        assert json.loads(text)["error"]["code"] == -32001
