"""A door of a user's own: a protocol whose requests are plain text."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from moothall import Agent, Context, action
from moothall.foundation.errors import RequestError
from moothall.serving.doors.application import application
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.callers import Callers, caller_of, sender_of
from moothall.serving.doors.served import Served


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


def test_door_of_a_users_own_is_behind_the_same_checks_and_calls_agents() -> None:
    callers = Callers({"ada": "a" * 20, "bob": "b" * 20}, rate=2)
    served = Served(Shouter("Eve"), callers)
    app = application(served, callers, "text", TextDoor(served).routes())

    async def asked(path: str, token: str | None) -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.post(path, content="hello", headers=headers)
            return answer.status_code, answer.text

    async def main() -> None:
        assert await asked("/text/Eve/shout", "a" * 20) == (200, "HELLO, text-ada!")
        assert (await asked("/text/Eve/shout", None))[0] == 401
        status, text = await asked("/text/Eve/sing", "a" * 20)
        assert (status, "sing" in text) == (400, True)
        assert (await asked("/text/Eve/shout", "a" * 20))[0] == 429
        assert (await asked("/text/Eve/shout", "b" * 20))[0] == 200
        await served.close()

    asyncio.run(main())
