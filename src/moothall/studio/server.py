"""The studio's application: its routes, its one stream of events, and Gradio mounted in it.

`Studio.launch` imports this module late, because Gradio takes seconds to load.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # else Gradio reports usage to its makers

import gradio
import uvicorn
from fastapi import APIRouter, FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from websockets import http11

from moothall.errors import CardGone, MoothallError, NoSuchRun, SlashError
from moothall.studio.feed import as_json
from moothall.studio.guard import Guard
from moothall.studio.page import STATIC, blocks, look

if TYPE_CHECKING:
    from moothall.studio.hub import Hub

_HEADERS_BYTES: Final = 1 << 20
"""More than a browser keeps of cookies for a host; programs at other ports may set some, too."""
# Not by the environment: the library may have been imported, and have read it, before.
http11.MAX_LINE_LENGTH = max(http11.MAX_LINE_LENGTH, _HEADERS_BYTES)

_READS_S: Final = 30.0
"""A page that takes no event for so long is disconnected; it reconnects by itself."""


class _Json(JSONResponse):
    """JSON that every browser reads."""

    def render(self, content: Any) -> bytes:
        return as_json(content).encode()


def application(hub: Hub, secret: str, host: str, *, is_password: bool) -> Guard:
    """Return the ASGI application of the studio's port."""
    app = FastAPI(
        title="moothall studio",
        default_response_class=_Json,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.add_exception_handler(MoothallError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    _shared(app, hub)
    for tab in hub.tabs:
        router = APIRouter(prefix=f"/studio/{tab.name}")
        tab.routes(router)
        app.include_router(router)
    app.mount("/studio/static", StaticFiles(directory=STATIC))
    # These stay off, whatever Gradio's environment variables say.
    off = {"mcp_server": False, "ssr_mode": False, "run_history": False}
    gradio.mount_gradio_app(
        app, blocks(hub.tabs, hub.opens), path="/", footer_links=[], **off, **look()
    )
    return Guard(app, secret, host, is_password=is_password)


def serving(app: Guard) -> uvicorn.Server:
    """Return a server for an application; its `serve` takes sockets that listen already."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=1 << 16,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=_HEADERS_BYTES,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def _failed(request: Request, error: Exception) -> JSONResponse:
    """Return an error in words, `{"error": …}`, with the column of a wrong line."""
    body: dict[str, Any] = {"error": str(error)}
    if isinstance(error, SlashError):
        body["column"] = error.column
    status = 404 if isinstance(error, NoSuchRun) else 409 if isinstance(error, CardGone) else 400
    return _Json(body, status)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()[:5]]
    return _Json({"error": "; ".join(faults)}, 422)


def _shared(app: FastAPI, hub: Hub) -> None:
    """Add the routes of the events and of the cards."""

    @app.websocket("/studio/events")
    async def events(socket: WebSocket, epoch: str = "", after: int = 0) -> None:
        await socket.accept()

        async def tell() -> None:
            async for frame in hub.feed.frames(epoch, after):
                await asyncio.wait_for(socket.send_text(frame), _READS_S)

        async def watch() -> None:
            # A page sends nothing here: it posts.
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass

        tasks = [asyncio.create_task(tell()), asyncio.create_task(watch())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(WebSocketDisconnect, TimeoutError, asyncio.CancelledError):
                    await task

    app.get("/studio/cards")(hub.cards.to_json)

    @app.post("/studio/cards/{number}")
    def card(number: int, answer: dict[str, Any]) -> dict[str, Any]:
        return {"said": hub.cards.decide(number, answer)}
