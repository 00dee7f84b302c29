"""Servers at an address that forget their sessions, as each does that is deployed anew."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from moothall import (
    ACCESS_PERMITTED,
    ActionError,
    Agent,
    ApprovalRequest,
    CallbackApprover,
    MCPServerError,
    NativeSpace,
)
from moothall.serving import MCPAgent
from serving.company.conftest import until

JSON, TEXT = "application/json", "text/plain"


def fault(code: int, message: str, id: Any = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


class Server:
    """A server with sessions; `forget` has it be deployed anew. What it refuses, it does not run.

    Args:
        refusal: status, type and body of its answer to a session that it does not know
    """

    def __init__(self, refusal: tuple[int, str, str] = (404, TEXT, "")) -> None:
        self.refusal = refusal
        self.valid = 0  # the one session that it knows
        self.begun = 0  # sessions
        self.ran: list[str] = []  # what the calls said that it ran
        self.tool: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}
        self.answers: dict[str, tuple[int, str, str]] = {}  # in a session, to what a call says
        self.forgets_all = False
        self.keeps = True  # connections
        self.stateless = False  # as long as it has no sessions
        self.barrier: threading.Barrier | None = None
        self.events: Callable[[str | None], Iterator[str]] | None = None  # after the last one
        self.guard = threading.Lock()

    def forget(self) -> None:
        self.valid, self.stateless = -1, False

    def answer(self, message: dict[str, Any], session: str | None) -> tuple[int, str, str]:
        kind, id = message.get("method"), message.get("id")
        if kind == "server/discover":
            return 404, TEXT, ""
        if kind == "initialize":
            with self.guard:
                self.begun += 1
                self.valid = self.begun
            about = {"name": "x", "version": "1"}
            result: Any = {"protocolVersion": "2025-06-18", "serverInfo": about}
            return (
                200,
                JSON,
                json.dumps(
                    {"jsonrpc": "2.0", "id": id, "result": result | {"capabilities": {"tools": {}}}}
                ),
            )
        said = (message.get("params") or {}).get("arguments", {}).get("say", "")
        if self.barrier is not None and kind == "tools/call" and session == "1":
            self.barrier.wait(20)  # all calls of the old session are under way
        known = session == str(self.valid) or (self.stateless and session is None)
        if not known or (self.forgets_all and kind != "tools/list"):
            return self.refusal
        if said in self.answers:
            status, media, body = self.answers[said]
            return status, media, body.replace('"ITS"', json.dumps(id))
        if kind == "tools/call":
            self.ran.append(said)
        if kind == "tools/list":
            result = {"tools": [self.tool]}
        else:
            result = {"content": [{"type": "text", "text": f"did {said}"}]}
        return 200, JSON, json.dumps({"jsonrpc": "2.0", "id": id, "result": result})


@contextmanager
def served(server: Server, port: int = 0) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if server.keeps else "HTTP/1.0"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            session = self.headers.get("Mcp-Session-Id")
            status, media, body = server.answer(message, session)
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            if message.get("method") == "initialize" and not server.stateless:
                self.send_header("Mcp-Session-Id", str(server.valid))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            if server.events is None:
                self.send_error(405)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in server.events(self.headers.get("Last-Event-ID")):
                self.wfile.write(f"{len(event):x}\r\n{event}\r\n".encode())
            self.close_connection = True  # it breaks off

        def do_DELETE(self) -> None:
            self.send_error(405)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/mcp"
    finally:
        http.shutdown()
        http.server_close()


REFUSALS = {
    "mcp 1.30": (404, JSON, fault(-32600, "Session not found")),
    "javascript": (404, JSON, fault(-32001, "Session not found")),
    "its own id": (404, JSON, fault(-32001, "gone", 17)),
    "go": (404, TEXT, "session not found\n"),
    "empty": (404, TEXT, ""),
    "html": (404, "text/html", "<h1>Not Found</h1>"),
    "other words": (404, JSON, fault(-32000, "Sitzung unbekannt")),
    "examples of javascript": (400, JSON, fault(-32000, "Bad Request: No valid session ID")),
    "mcp 1.9": (400, TEXT, "Bad Request: No valid session ID provided"),
    "not initialized": (400, JSON, fault(-32000, "Bad Request: Server not initialized")),
    "an id of the server's": (400, JSON, fault(-32600, "Bad Request", "server-error")),
    "rust": (401, TEXT, "Unauthorized: Session not found"),
    "gone": (410, JSON, "{}"),
    "another revision": (
        400,
        JSON,
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 17,
                "error": {"code": -32022, "message": "x", "data": {"supported": ["2025-06-18"]}},
            }
        ),
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=[*REFUSALS])
def test_mcp_server_that_forgot_its_sessions_gets_a_new_one_and_the_call_again(
    refusal: tuple[int, str, str],
) -> None:
    server = Server(refusal)
    with served(server) as url, NativeSpace() as space:
        space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        for number in range(2):
            assert me.ask("kit", "t", say=str(number)).result(20) == f"did {number}"
            server.forget()
        assert server.ran == ["0", "1"]
        assert server.begun == 2


@pytest.mark.parametrize("refusal", ("examples of javascript", "mcp 1.9", "empty"))
def test_mcp_server_that_has_sessions_since_it_started_anew_gets_one(refusal: str) -> None:
    """As one that was without them, and is deployed in an older version."""
    server = Server(REFUSALS[refusal])
    server.stateless = True
    with served(server) as url, NativeSpace() as space:
        space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        for number in range(3):
            assert me.ask("kit", "t", say=str(number)).result(20) == f"did {number}"
            server.forget()
        assert server.ran == ["0", "1", "2"]


@pytest.mark.parametrize("refusal", ("empty", "mcp 1.9"))
def test_mcp_calls_side_by_side_are_all_made_again_in_one_new_session(refusal: str) -> None:
    server = Server(REFUSALS[refusal])
    with served(server) as url, NativeSpace() as space:
        space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        server.barrier = threading.Barrier(12)
        server.forget()
        calls = [me.ask("kit", "t", say=str(number)) for number in range(12)]
        assert [each.result(30) for each in calls] == [f"did {number}" for number in range(12)]
        assert sorted(map(int, server.ran)) == [*range(12)]
        assert server.begun == 2


def test_mcp_server_that_forgets_each_session_is_called_twice_and_says_why() -> None:
    server = Server(REFUSALS["mcp 1.30"])
    server.forgets_all = True
    with served(server) as url, NativeSpace() as space:
        space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match="Session not found"):
            me.ask("kit", "t", say="x").result(20)
        assert server.begun == 2
        assert server.ran == []
        server.forgets_all = False
        assert me.ask("kit", "t", say="y").result(20) == "did y"


def test_mcp_call_while_a_server_is_away_has_run_nothing_and_says_so() -> None:
    server = Server()
    server.keeps = False
    with NativeSpace() as space:
        with served(server) as url:
            space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
            me = space.add(Agent("me"))
        for _ in range(2):
            with pytest.raises(ActionError) as caught:
                me.ask("kit", "t", say="a").result(20)
            assert "nothing answers there" in str(caught.value)
            assert "took effect" not in str(caught.value)
        server.forget()
        with served(server, urlsplit(url).port or 0):
            assert me.ask("kit", "t", say="b").result(20) == "did b"
    assert server.ran == ["b"]


ANSWERS = {
    "an answer to the call": (400, JSON, fault(-32602, "wrong arguments", "ITS")),
    "a firewall": (400, TEXT, "Request blocked"),
    "forbidden": (403, TEXT, "not yours"),
    "too often": (429, TEXT, "slower"),
    "a failure": (500, TEXT, "oops"),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=[*ANSWERS])
def test_mcp_refusal_in_a_session_that_lives_keeps_the_session(
    answer: tuple[int, str, str],
) -> None:
    """Whatever a server keeps for its session, such as an open page, would be lost with it."""
    server = Server()
    server.answers["bad"] = answer
    with served(server) as url, NativeSpace() as space:
        space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError):
            me.ask("kit", "t", say="bad").result(20)
        assert me.ask("kit", "t", say="good").result(20) == "did good"
        assert (server.begun, server.ran) == (1, ["good"])


def test_mcp_tool_that_is_gone_when_its_server_starts_anew_is_named_with_the_server() -> None:
    server = Server()
    with served(server) as url, NativeSpace() as space:
        kit = space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        server.forget()
        server.tool = {**server.tool, "name": "u"}
        with pytest.raises(ActionError, match="MCP server 'kit' has no tool \"t\" any more, so it"):
            me.ask("kit", "t", say="old").result(20)
        assert [*kit.offers] == ["help", "u"] or "u" in kit.offers
        assert me.ask("kit", "u", say="new").result(20) == "did new"
        assert server.ran == ["new"]


def outcome(result: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": "ITS", **result})


UNKNOWN = {
    "as a result": {
        "result": {"isError": True, "content": [{"type": "text", "text": "Unknown tool: t"}]}
    },
    "as a fault": {"error": {"code": -32602, "message": "Unknown tool: t"}},
}


@pytest.mark.parametrize("answer", UNKNOWN.values(), ids=UNKNOWN)
def test_mcp_server_without_sessions_that_refuses_a_call_has_its_list_read_again(
    answer: dict[str, Any],
) -> None:
    server = Server()
    server.stateless = True
    server.answers["old"] = (200, JSON, outcome(answer))
    with served(server) as url, NativeSpace() as space:
        kit = space.add(MCPAgent("kit", url, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match="Unknown tool: t") as refused:
            me.ask("kit", "t", say="old").result(20)
        assert refused.value.type != "ToolGone"  # it is listed, whatever the server says
        server.tool = {**server.tool, "name": "u"}  # it started anew, and nobody heard of it
        with pytest.raises(ActionError, match="MCP server 'kit' has no tool \"t\" any more: Unk"):
            me.ask("kit", "t", say="old").result(20)
        assert "u" in kit.offers
        assert "t" not in kit.offers
        assert me.ask("kit", "u", say="new").result(20) == "did new"
        assert (server.begun, server.ran) == (1, ["new"])


@pytest.mark.parametrize(
    ("change", "problem"),
    (
        ({"name": "u"}, 'has no tool "t" any more, so it was not called'),
        ({"description": "Deletes all."}, r"has changed .* so it was not sent"),
    ),
)
def test_mcp_call_of_a_locked_tool_that_changed_meanwhile_is_not_sent_again(
    tmp_path: Path, change: dict[str, str], problem: str
) -> None:
    server, asked = Server(), list[ApprovalRequest]()
    approver = CallbackApprover(lambda request: asked.append(request) or True)
    with served(server) as url, NativeSpace(approver=approver) as space:
        kit = MCPAgent("kit", url, access=ACCESS_PERMITTED, lock=tmp_path / "lock")
        kit.accept_definitions()
        space.add(kit)
        me = space.add(Agent("me"))
        assert me.ask("kit", "t", say="a").result(20) == "did a"
        server.forget()
        server.tool = {**server.tool, **change}
        with pytest.raises(ActionError, match=problem):
            me.ask("kit", "t", say="b").result(20)
        assert server.ran == ["a"]
        name = change.get("name", "t")
        assert me.ask("kit", name, say="c").result(20) == "did c"  # once it has been asked for
        assert len(asked) == 1
        assert asked[0].note


def test_mcp_server_of_a_later_revision_alone_is_told_with_the_revisions_of_both() -> None:
    server = Server()
    said = {"code": -32022, "message": "Unsupported", "data": {"supported": ["2031-01-01"]}}
    refusal = json.dumps({"jsonrpc": "2.0", "id": None, "error": said})
    server.answer = lambda message, session: (400, JSON, refusal)  # type: ignore[method-assign]
    told = r"speaks .*2031-01-01.* moothall .*2026-07-28"
    with (
        served(server) as url,
        MCPAgent("kit", url) as kit,
        pytest.raises(MCPServerError, match=told),
    ):
        _ = kit.offers


def test_mcp_call_by_its_action_alone_is_made_again_too() -> None:
    server = Server()

    async def main(url: str) -> None:
        async with MCPAgent("kit", url, access=ACCESS_PERMITTED) as kit:
            server.forget()
            assert await kit.offers["t"].execute(say="x") == "did x"

    with served(server) as url:
        asyncio.run(main(url))
    assert server.ran == ["x"]


def test_mcp_stream_of_a_session_that_breaks_off_again_and_again_is_resumed() -> None:
    server, resumed = Server(), list[str | None]()

    def events(last: str | None) -> Iterator[str]:
        resumed.append(last)
        yield f"id: e{len(resumed)}\nretry: 10\ndata: \n\n"
        if len(resumed) == 5:
            server.tool["name"] = "u"
            changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            yield f"data: {json.dumps(changed)}\n\n"

    server.events = events

    async def main(url: str) -> None:
        async with MCPAgent("kit", url) as kit:
            await until(lambda: "u" in kit.offers)

    with served(server) as url:
        asyncio.run(asyncio.wait_for(main(url), 20))
    assert resumed[:5] == [None, "e1", "e2", "e3", "e4"]
