"""A door of a user's own: a protocol whose requests are plain text.

What guard, pages and commands know of a door stands in one table. A user cannot add to it, so that
test adds to a copy of the package.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from tests.extending.conftest import Added

from moothall import Agent, Context, action
from moothall.foundation.errors import RequestError
from moothall.serving.doors import DoorGuard
from moothall.serving.doors.application import application
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.callers import Callers, caller_of, sender_of
from moothall.serving.doors.served_agents import Served


class TextDoor:
    """Calls an action by `POST /text/AGENT/ACTION`: the body is its argument, the answer its value.

    A call that needs approval is refused: such a caller cannot be asked.
    """

    def __init__(self, served: Served) -> None:
        self._served = served

    def routes(self) -> list[Any]:
        """Return the door's route."""
        return [Route("/text/{agent}/{action}", self._call, methods=["POST"])]

    async def _call(self, request: Request) -> PlainTextResponse:
        name = caller_of(request.scope)
        caller = Caller(asyncio.get_running_loop(), None, name=name)
        to, action = request.path_params["agent"], request.path_params["action"]
        args = {"text": (await request.body()).decode()}
        try:
            value = await self._served.call(sender_of("text", name), to, action, args, caller)
        except RequestError as error:
            return PlainTextResponse(str(error), 400)
        return PlainTextResponse(str(value))


class Shouter(Agent):
    """Shouts."""

    @action
    async def shout(self, text: str, context: Context) -> str:
        """Say a text in capitals, and to whom."""
        return f"{text.upper()}, {context.sender}!"


async def test_door_of_a_users_own_is_behind_the_same_checks_and_calls_agents() -> None:
    callers = Callers({"ada": "a" * 20, "bob": "b" * 20}, rate=2)
    served = Served(Shouter("Eve"), callers)
    app = application(served, callers, "text", TextDoor(served).routes())

    async def asked(path: str, token: str | None) -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.post(path, content="hello", headers=headers)
            return answer.status_code, answer.text

    assert await asked("/text/Eve/shout", "a" * 20) == (200, "HELLO, text-ada!")
    assert (await asked("/text/Eve/shout", None))[0] == 401
    status, text = await asked("/text/Eve/sing", "a" * 20)
    assert (status, "sing" in text) == (400, True)
    assert (await asked("/text/Eve/shout", "a" * 20))[0] == 429
    assert (await asked("/text/Eve/shout", "b" * 20))[0] == 200
    await served.close()


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


ADDED = (
    (
        "DOORS: Final = (",
        'DoorProtocol("text", "Text", "/text", "each", lambda error, path, body: '
        '(error.status, f"Text: {error}", b"text/x-error"), "x-api-key"), ',
    ),
)
USES = """
import asyncio
import httpx2
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.serving.doors import DoorGuard
from moothall.serving.doors.application import application
from moothall.serving.doors.callers import Callers, caller_of
from moothall.serving.doors.served_agents import Served

async def name(request):
    return PlainTextResponse(caller_of(request.scope))

async def main(journal):
    bot = ReActAgent("bot", ScriptedModel(["Good day."]), journal=journal)
    await bot.reply("Hi", thread="text-ada/1")
    callers, key = Callers({"ada": "a" * 20}, rate=2), ("x-api-key", "a" * 20)
    served = Served(bot, callers)
    app = application(served, callers, "text", [Route("/text/bot", name)])
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path, headers, status, text in (
            ("/text/bot", [], 401, "Text: the token is missing or wrong"),
            ("/text/bot", [key, key], 403, "Text: a header appears twice"),
            ("/mcp", [key], 401, "the token is missing or wrong"),
            ("/text/bot", [key], 200, "ada"),
            ("/text/none", [key], 404, "Text: Not Found"),
            ("/text/bot", [key], 429, "Text: too many requests: wait 30 s"),
        ):
            answer = await client.get(path, headers=headers)
            assert (answer.status_code, answer.text.strip()) == (status, text), answer.text
    assert ("Text", "/text/bot") in Served.rows_here()[0]["paths"]
    await served.close()

with Journal("runs.db") as journal:
    asyncio.run(main(journal))
"""


def test_door_added_to_the_table_has_its_errors_its_header_and_its_data_deleted(
    added: Added,
) -> None:
    run = added({"serving/doors/protocols.py": ADDED})
    run("-c", USES)
    deleted = run("-m", "moothall", "runs", "delete", "--person", "ada", "--journal", "runs.db")
    assert "of the conversations text-ada/1" in deleted
