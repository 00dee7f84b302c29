"""Plain A2A requests, and the agent that the A2A tests serve."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from moothall import ACCESS_REQUESTED, Call, Context, ReActAgent, ScriptedModel, action

BEGUN, CANCELLED = threading.Event(), threading.Event()
BOUGHT: list[str] = []


@action(access_policy=ACCESS_REQUESTED)
async def buy(item: str) -> str:
    """Buy an item."""
    BOUGHT.append(item)
    return f"bought {item}"


@action
async def ask(context: Context) -> str:
    """Ask a person."""
    return await context.ask_person("What colour?")


@action
async def wait() -> None:
    """Wait for ever."""
    BEGUN.set()
    try:
        await asyncio.Event().wait()
    finally:
        CANCELLED.set()


def call(name: str, **args: Any) -> Call:
    return Call(name, name, args)


def shop(*answers: Any, id: str = "shop", **options: Any) -> ReActAgent:
    BOUGHT.clear()
    BEGUN.clear()
    CANCELLED.clear()
    return ReActAgent(id, ScriptedModel(list(answers)), actions=[buy, ask, wait], **options)


def rpc(url: str, method: str, params: Any, source: str = "127.0.0.1", **headers: str) -> Any:
    """Return the answer to a plain request from an address of this machine."""
    http, answer = requested(url, method, params, source, headers)
    with closing(http):
        found = answer.read().decode()
    if found.startswith("data:"):
        return [json.loads(line[6:])["result"] for line in found.splitlines() if line[:1] == "d"]
    return json.loads(found)


def requested(
    url: str, method: str, params: Any, source: str = "127.0.0.1", headers: Any = ()
) -> tuple[HTTPConnection, HTTPResponse]:
    """Send a plain request from an address of this machine."""
    host, port = url.removeprefix("http://").split(":")
    http = HTTPConnection(host, int(port), timeout=30, source_address=(source, 0))
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    given = {"Content-Type": "application/json", "A2A-Version": "1.0", **dict(headers)}
    http.request("POST", "/a2a/shop", body, given)
    return http, http.getresponse()


def when_asked(url: str, id: str) -> dict[str, Any]:
    """Follow a task until it asks something; return its status."""
    http, answer = requested(url, "SubscribeToTask", {"id": id})
    with closing(http):
        for line in answer:
            if line.startswith(b"data:"):
                update = json.loads(line[5:])["result"]
                status: dict[str, Any] = update.get("task") or update.get("statusUpdate") or {}
                if status.get("status", {}).get("state") == "TASK_STATE_INPUT_REQUIRED":
                    return status
    raise AssertionError("it has asked nothing")


def plain(text: str, **about: str) -> dict[str, Any]:
    return _message({"text": text}, about)


def data(value: Any, **about: str) -> dict[str, Any]:
    return _message({"data": value}, about)


def _message(part: dict[str, Any], about: dict[str, str]) -> dict[str, Any]:
    id = secrets.token_hex(8)  # the same one again would be the same message, sent again
    return {"message": {"messageId": id, "role": "ROLE_USER", "parts": [part], **about}}


def started(url: str, text: str, **about: str) -> dict[str, Any]:
    """Return the task that a message leads to, when it has ended or asks something."""
    found: dict[str, Any] = rpc(url, "SendMessage", plain(text, **about))["result"]["task"]
    return found


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"])


def asked(task: dict[str, Any]) -> dict[str, Any]:
    """Return the data by which a task states what it asks."""
    (found,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
    return dict(found)
