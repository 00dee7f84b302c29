"""What callers read of what fails behind a door: the kind of failure, and no address or path."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from moothall import (
    ActionError,
    AskAgain,
    BrokerError,
    Call,
    ContextOverflow,
    Conversation,
    ConversationalAgent,
    DualActAgent,
    DualActConfig,
    Journal,
    JournalError,
    ModelError,
    NotPermitted,
    ReActAgent,
    Reply,
    ScriptedModel,
    action,
)
from moothall.agents import ReplyRequest
from moothall.serving import asgi

SECRETS = ("10.1.2.3", ":5432", "gateway", "/srv", "keys.pem", "SELECT", "postgresql", "anna:")
FAILURES: dict[str, Callable[[], Exception]] = {
    "model": lambda: ModelError("openai:m: no answer from https://gateway.internal:8443/v1"),
    "database": lambda: JournalError("postgresql://anna:pw@10.1.2.3:5432/runs", "it is away"),
    "broker": lambda: BrokerError("amqp://anna:pw@10.1.2.3:5672/ cannot be reached"),
    "file": lambda: FileNotFoundError(2, "No such file or directory", "/srv/keys.pem"),
    "query": lambda: sqlite3.OperationalError("SELECT * FROM /srv/shop.db failed"),
    "value": lambda: ValueError("cannot read /srv/keys.pem"),
    "lines": lambda: RuntimeError("one\nat /srv/keys.pem\nmoothall.NotPermitted: 10.1.2.3"),
    "group": lambda: ExceptionGroup("/srv", [OSError("10.1.2.3")]),
}
DOORS = ("chat", "chat-stream", "responses", "responses-stream", "mcp", "a2a", "a2a-stream")
DOORS += ("a2a-0.3", "ag-ui", "mcp-action")


def request_of(door: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return the path, the body and the headers of a request that says something to `bot`."""
    way, streams = door.removesuffix("-stream"), door.endswith("-stream")
    user = {"id": "m", "role": "user", "content": "Hi"}
    if way == "chat":
        return "/v1/chat/completions", {"model": "bot", "messages": [user], "stream": streams}, {}
    if way == "responses":
        return "/v1/responses", {"model": "bot", "input": "Hi", "stream": streams}, {}
    if way == "ag-ui":
        return "/ag-ui/bot", {"threadId": "t", "runId": "r", "messages": [user]}, {}
    call = {"jsonrpc": "2.0", "id": 1}
    id = secrets.token_hex(8)
    if way == "a2a-0.3":
        message = {"messageId": id, "role": "user", "parts": [{"kind": "text", "text": "Hi"}]}
        params: dict[str, Any] = {"message": {**message, "kind": "message"}}
        return "/a2a/bot", {**call, "method": "message/send", "params": params}, {}
    if way == "a2a":
        params = {"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "Hi"}]}}
        method = "SendStreamingMessage" if streams else "SendMessage"
        return "/a2a/bot", {**call, "method": method, "params": params}, {"a2a-version": "1.0"}
    tool = {"name": "say", "arguments": {"content": "Hi"}}
    if way == "mcp-action":
        tool = {"name": "fetch", "arguments": {}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
    }
    return "/mcp", {**call, "method": "tools/call", "params": tool}, headers


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[None]:
    """Run an application as a server does, so that its end closes what it has opened."""
    received, sent = asyncio.Queue[Any](), asyncio.Queue[Any]()
    life = asyncio.create_task(app({"type": "lifespan"}, received.get, sent.put))
    await received.put({"type": "lifespan.startup"})
    await sent.get()
    try:
        yield
    finally:
        await received.put({"type": "lifespan.shutdown"})
        await life


def answer(agent: Any, door: str) -> str:
    """Return all that a caller reads of its request."""

    async def main() -> str:
        app = asgi(agent, token="s")
        here = httpx2.ASGITransport(app, raise_app_exceptions=False)
        headers = {"authorization": "Bearer s"}
        async with (
            running(app),
            httpx2.AsyncClient(
                transport=here, base_url="http://127.0.0.1", headers=headers
            ) as client,
        ):
            path, body, more = request_of(door)
            if path == "/mcp":
                capabilities: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
                start = {**capabilities, "clientInfo": {"name": "x", "version": "1"}}
                call = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}
                begun = await client.post(path, json=call, headers=more)
                more = {**more, "mcp-session-id": begun.headers["mcp-session-id"]}
                note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                await client.post(path, json=note, headers=more)
            text = (await client.post(path, json=body, headers=more)).text
            if door == "a2a":
                task = json.loads(text).get("result", {}).get("task", {}).get("id", "none")
                again = {"jsonrpc": "2.0", "id": 2, "method": "GetTask", "params": {"id": task}}
                text += (await client.post(path, json=again, headers=more)).text
            if door == "responses" and '"id":"resp_' in text:
                id = json.loads(text)["id"]
                text += (await client.get(f"/v1/responses/{id}")).text
            return str(text)

    return asyncio.run(main())


def agent_that_fails(place: str, failure: Exception, folder: Path) -> Any:
    """Return an agent whose model, action, member, hook or own code fails."""

    def fail(*_: Any) -> Any:
        raise failure

    @action
    def look() -> str:
        """Look."""
        raise failure

    class Bot(ReActAgent):
        @action
        def fetch(self) -> str:
            """Fetch."""
            raise failure

    class Broken(ConversationalAgent):
        async def respond(self, request: ReplyRequest) -> Reply:
            raise failure

        @action
        def fetch(self) -> str:
            """Fetch."""
            raise failure

    if place == "model":
        return Bot("bot", ScriptedModel(fail))
    if place == "recorded":
        return Bot("bot", ScriptedModel(fail), journal=folder / "runs.db")
    if place == "action":
        return Bot("bot", ScriptedModel([Call("c", "look", {}), "Done."]), actions=[look])
    if place == "conversation":
        return Conversation([Bot("one", ScriptedModel(fail))], id="bot", max_turns=2)
    if place == "dual act":
        model = ScriptedModel(fail)
        return DualActAgent(DualActConfig(ReActAgent("h", model), Bot("r", model)), "bot")
    return Broken("bot")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", FAILURES)
def test_caller_of_a_door_reads_no_address_of_what_fails(
    kind: str, door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    groups = ("recorded", "conversation", "dual act") if kind in ("model", "database") else ()
    for place in ("model", "action", "own", *groups):
        told = answer(agent_that_fails(place, FAILURES[kind](), tmp_path), door)
        found = [each for each in SECRETS if each in told]
        assert not found, (place, told)
        if place in ("model", "recorded", "own") and door != "mcp-action":
            assert type(FAILURES[kind]()).__name__ in told, (place, told)
            assert "its log has the reason, under run " in told, (place, told)
            assert any(
                record.name == "moothall.serving.doors" and record.levelno == logging.ERROR
                for record in caplog.records
            ), place


@pytest.mark.parametrize("door", [each for each in DOORS if each != "mcp-action"])
def test_caller_of_a_door_reads_nothing_of_a_journal_that_is_away(
    door: str, tmp_path: Path
) -> None:
    (tmp_path / "secret-folder").mkdir()
    journal = Journal(tmp_path / "secret-folder" / "runs.db")
    agent = ReActAgent("bot", ScriptedModel(["Hi"]), journal=journal)
    journal.close()
    told = answer(agent, door)
    assert told
    assert "secret-folder" not in told, told


@pytest.mark.parametrize(
    ("failure", "text"),
    (
        (ActionError("OutOfStock", "there is no tea left"), "OutOfStock: there is no tea left"),
        (AskAgain("name a tea that we have"), "name a tea that we have"),
        (NotPermitted("tea is for members"), "tea is for members"),
    ),
)
def test_caller_reads_what_an_action_says_to_it(failure: Exception, text: str) -> None:
    @action
    def look() -> str:
        """Look."""
        raise failure

    class Shop(ReActAgent):
        @action
        def fetch(self) -> str:
            """Fetch."""
            raise failure

    for door in ("mcp-action", "ag-ui"):
        model = ScriptedModel([Call("c", "look", {}), "Sorry."])
        assert text in answer(Shop("bot", model, actions=[look]), door), door


def test_caller_reads_what_is_wrong_with_its_own_argument() -> None:
    class Shop(ReActAgent):
        @action
        def fetch(self, count: int) -> str:
            """Fetch."""
            return str(count)

    told = answer(Shop("bot", ScriptedModel([])), "mcp-action")
    assert "count" in told


@pytest.mark.parametrize("door", [each for each in DOORS if each != "mcp-action"])
def test_caller_reads_that_the_models_server_refused_what_it_said(door: str) -> None:
    def overflows(*_: Any) -> Any:
        raise ContextOverflow("m at https://gateway.internal: 9 tokens of 8; nothing was cut")

    def refuses(*_: Any) -> Any:
        error = ModelError("https://gateway.internal: 400: this image is not allowed")
        vars(error)["of_content"] = True
        raise error

    for model, text in (
        (overflows, "what was said does not fit the model's context"),
        (refuses, "the model's server refused what you said or attached"),
    ):
        told = answer(ReActAgent("bot", ScriptedModel(model)), door)
        assert text in told
        assert "gateway" not in told
