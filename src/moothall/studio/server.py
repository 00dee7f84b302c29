"""The studio's application: its page, its routes and its one stream of events.

`Studio.launch` imports this module late: FastAPI takes a moment to load.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Body, Depends, FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from websockets import http11

from moothall import CardGone, ConfigError, MoothallError, NoSuchRun, SlashError
from moothall.serving.doors import Front
from moothall.studio.event_feed import as_json
from moothall.studio.page import AGREED_END, STATIC, FormError, Tab, WouldEnd, shell_html
from moothall.studio.page_guard import KEY_HEADER, PageGuard, ServedRoutes
from moothall.studio.prose import prose
from moothall.studio.run_view import LINK, shared_page

if TYPE_CHECKING:
    from moothall.studio.hub import Hub

_HEADERS_BYTES: Final = 1 << 20
"""More than a browser keeps of cookies for a host; programs at other ports may set some, too."""
# Not by the environment: the library may have been imported, and have read it, before.
http11.MAX_LINE_LENGTH = max(http11.MAX_LINE_LENGTH, _HEADERS_BYTES)

OPTIONS: Final[Mapping[str, Any]] = {
    "factory": True,
    "loop": "asyncio",
    "ws": "websockets-sansio",
    "ws_max_size": 1 << 16,
    "ws_per_message_deflate": False,
    "h11_max_incomplete_event_size": _HEADERS_BYTES,
}
"""How the studio's port is served: options of uvicorn."""
_SEND_TIMEOUT_S: Final = 30.0
"""A page that takes no event for so long is disconnected; it reconnects by itself."""


class _Json(JSONResponse):
    """JSON that every browser reads."""

    def render(self, content: Any) -> bytes:
        return as_json(content).encode()


def application(hub: Hub, secret: str, host: str, front: Front, *, is_password: bool) -> PageGuard:
    """Return the ASGI application of the studio's port."""
    app = FastAPI(
        title="moothall studio",
        default_response_class=_Json,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(_note_agreed_ends)],
    )
    app.add_exception_handler(HTTPException, _http_error_response)
    app.add_exception_handler(MoothallError, _error_response)
    app.add_exception_handler(RequestValidationError, _invalid_response)
    _add_shared_routes(app, hub)

    def add(tab: Tab) -> None:
        router = APIRouter(prefix=f"/studio/{tab.name}")
        tab.routes(router)
        _add_form_routes(router, tab)
        app.include_router(router)

    tabs = [tab for tab in hub.tabs if hub.add_routes(tab, add)]
    _add_script_route(app, {tab.name: tab.script for tab in tabs if tab.script})
    app.mount("/studio/static", StaticFiles(directory=STATIC))

    @app.get("/shared/{token}/{run:path}")
    def send_shared_run(token: str, run: str) -> Response:
        return shared_page(hub.journal, run, token)

    page = HTMLResponse(shell_html(tabs, hub.opens, front.base, hub.faults))

    async def send_page() -> HTMLResponse:
        return page

    names = "|".join(re.escape(tab.name) for tab in tabs)
    paths = [path for tab in tabs for path in (f"/{tab.name}", f"/{tab.name}/{{rest:path}}")]
    for path in ("/", *paths, "/styleguide"):
        app.get(path)(send_page)
    routes = ServedRoutes(
        pages=re.compile(rf"/|/(?:{names}|styleguide)(?:/.{{0,500}})?"),
        shell=re.compile(r"/studio/static/.{0,240}"),
        shared=LINK,
        requests=re.compile(r"(?!SOCKET)\w+ /studio/.{0,247}|SOCKET /studio/events"),
    )
    return PageGuard(app, secret, host, routes, is_password=is_password, front=front)


def _error_response(request: Request, error: Exception) -> JSONResponse:
    """Return an error in words, `{"error": …}`, with the column of a wrong line."""
    body: dict[str, Any] = {"error": str(error)}
    if isinstance(error, SlashError):
        body["column"] = error.column
    if isinstance(error, FormError):
        body["field"] = error.argument
    if isinstance(error, WouldEnd):
        body["ends"] = error.ends
    is_late = isinstance(error, CardGone | WouldEnd)
    status = 404 if isinstance(error, NoSuchRun) else 409 if is_late else 400
    return _refusal_json(request, body, status)


def _refusal_json(request: Request, body: dict[str, Any], status: int) -> JSONResponse:
    if KEY_HEADER in request.headers:  # of a page, where another status is an error of its script
        return _Json(body, headers={"X-Moothall-Refused": str(status)})
    return _Json(body, status)


async def _note_agreed_ends(ends: int = 0) -> None:
    """Note what the person at the page has agreed to end."""
    AGREED_END.set(ends)


def _http_error_response(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # of the framework: a body that is no JSON, no route
    return _Json({"error": error.detail}, error.status_code, error.headers)


def _invalid_response(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()[:5]]
    return _refusal_json(request, {"error": "; ".join(faults)}, 422)


def _add_shared_routes(app: FastAPI, hub: Hub) -> None:
    """Add the routes of the events and of the cards."""

    @app.websocket("/studio/events")
    async def events(socket: WebSocket, epoch: str = "", after: int = 0) -> None:
        await socket.accept()

        async def send_frames() -> None:
            async for frame in hub.feed.frames(epoch, after):
                async with asyncio.timeout(_SEND_TIMEOUT_S):
                    await socket.send_text(frame)

        async def wait_for_close() -> None:
            # A page sends nothing here: it posts.
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass

        tasks = [asyncio.create_task(send_frames()), asyncio.create_task(wait_for_close())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(WebSocketDisconnect, TimeoutError, asyncio.CancelledError):
                    await task

    app.get("/studio/cards")(hub.cards.to_json)
    app.get("/studio/tabs")(hub.shown_tabs)
    app.get("/studio/growing")(hub.partial_answers.to_json)

    @app.post("/studio/prose")
    def read_prose(texts: list[str] = Body(max_length=200)) -> list[Any]:  # noqa: B008
        return [prose(each) for each in texts]

    @app.post("/studio/cards/{number}")
    def decide_card(number: int, answer: dict[str, Any]) -> dict[str, Any]:
        return {"said": hub.cards.decide(number, answer)}


def _add_script_route(app: FastAPI, scripts: Mapping[str, Path]) -> None:
    """Add the route of the tabs' scripts, which stand in packages of others."""

    @app.get("/studio/static/tabs/{name}.js")
    def script(name: str) -> Response:
        path = scripts.get(name)
        if path is None or not path.is_file():
            raise HTTPException(404)
        return Response(path.read_bytes(), media_type="text/javascript")


def _add_form_routes(router: APIRouter, tab: Tab) -> None:
    """Add the routes of a tab's forms: `forms`, and `forms/NAME` to begin what one asks for."""

    @router.get("/forms")
    def forms() -> list[dict[str, Any]]:
        return [each.to_json() for each in tab.forms()]

    @router.post("/forms/{name}")
    def begin_form(
        name: str,
        values: dict[str, Any] = Body(),  # noqa: B008
    ) -> dict[str, Any]:
        form = next((each for each in tab.forms() if each.name == name), None)
        if form is None:
            raise ConfigError(f"there is no form {name!r:.80}: load the page again")
        return form.begin(values)
