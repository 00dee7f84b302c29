"""The opening of a WebSocket at a door of a user's own, which the guard checks as each request."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from moothall.serving.doors import Callers, DoorGuard, caller_of


async def echo(socket: WebSocket) -> None:
    """Accept a socket, and say who has opened it and what came."""
    await socket.accept()
    await socket.send_text(f"{caller_of(socket.scope)}: {await socket.receive_text()}")
    await socket.close()


@pytest.mark.parametrize("says_status", (True, False))
@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    (
        ({"authorization": f"Bearer {'a' * 20}"}, 0, ""),
        ({}, 401, "the token is missing or wrong"),
        (
            {"authorization": f"Bearer {'a' * 20}", "origin": "https://evil.example"},
            403,
            "a page of 'https://evil.example' may not use this server",
        ),
    ),
)
async def test_guard_checks_who_opens_a_socket_and_says_why_it_is_refused(
    headers: dict[str, str], status: int, reason: str, says_status: bool
) -> None:
    callers = Callers({"ada": "a" * 20}, rate=1)
    guard = DoorGuard(Starlette(routes=[WebSocketRoute("/lines", echo)]), callers)

    async def open_socket() -> list[dict[str, Any]]:
        received = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "hello"}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return received.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        pairs = [(b"host", b"127.0.0.1")]
        pairs += [(name.encode(), value.encode()) for name, value in headers.items()]
        scope: dict[str, Any] = {"type": "websocket", "path": "/lines", "query_string": b""}
        scope |= {"headers": pairs, "client": ("127.0.0.1", 1), "scheme": "ws"}
        if says_status:  # as uvicorn does
            scope["extensions"] = {"websocket.http.response": {}}
        await guard(scope, receive, send)
        return sent

    sent = await open_socket()
    if not status:
        assert [each.get("text") for each in sent] == [None, "ada: hello", None]
        (first, *_) = await open_socket()  # one more in this minute is too often
        assert first.get("status" if says_status else "code") == (429 if says_status else 1008)
    elif says_status:
        assert sent[0]["status"] == status
        assert sent[1]["body"].decode() == f"{reason}\n"
    else:
        assert sent == [{"type": "websocket.close", "code": 1008, "reason": reason}]
