"""A door for a protocol whose requests are plain text."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from moothall import RequestError
from moothall.serving.doors import Caller, Callers, DoorGuard, Served, caller_of, sender_of


class TextDoor:
    """Calls an action by `POST /text/AGENT/ACTION`: the body is its text, the answer its value.

    The header `X-Customer` tags the run of a reply. A call that needs approval is refused: such a
    caller cannot be asked.
    """

    def __init__(self, agents: Any, callers: Callers) -> None:
        self._served = Served(agents, callers)
        routes = [Route("/text/{agent}/{action}", self._call, methods=["POST"])]
        self.app = DoorGuard(Starlette(routes=routes, lifespan=self._lifespan), callers)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self._served.close()

    async def _call(self, request: Request) -> PlainTextResponse:
        name, customer = caller_of(request.scope), request.headers.get("x-customer")
        tags = {"tags": {"customer": customer}} if customer else {}
        loop, run_id = asyncio.get_running_loop(), secrets.token_hex(16)
        caller = Caller(loop, None, run_id=run_id, name=name, options=tags)
        to, action = request.path_params["agent"], request.path_params["action"]
        args = {"content" if action == "say" else "text": (await request.body()).decode()}
        try:
            value = await self._served.call(sender_of("text", name), to, action, args, caller)
        except RequestError as error:
            return PlainTextResponse(str(error), 400)
        return PlainTextResponse(str(value))
