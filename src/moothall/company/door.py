"""`GET /health` and `GET /metrics`, beside the doors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from moothall.company.metrics import CONTENT_TYPE
from moothall.doors.callers import NOBODY, caller_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HEALTH: Final = "/health"
LIVE: Final = "/health/live"
METRICS: Final = "/metrics"
_SHORT: Final = ("live", "ready")


def routes(
    said_of: Callable[[], dict[str, Any]],
    measured: Callable[[], str],
    ask: Callable[[], Awaitable[None]],
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the routes, and the paths that answer without a token: they say live and ready only.

    `/health` has the status 200 if the company is ready, else 503; `/health/live` if it is live.
    `ask` finds out before each answer what does not answer.
    """
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    def answered(request: Request, key: str) -> Response:
        said = said_of()
        code = 200 if said[key] else 503
        if caller_of(request.scope) == NOBODY:
            said = {each: said[each] for each in _SHORT}
        return JSONResponse(said, code)

    async def health(request: Request) -> Response:
        await ask()
        return answered(request, "ready")

    async def live(request: Request) -> Response:
        await ask()
        return answered(request, "live")

    async def metrics(request: Request) -> Response:
        await ask()
        return PlainTextResponse(await asyncio.to_thread(measured), media_type=CONTENT_TYPE)

    made = [
        Route(HEALTH, health, methods=["GET"]),
        Route(LIVE, live, methods=["GET"]),
        Route(METRICS, metrics, methods=["GET"]),
    ]
    return made, (HEALTH, LIVE)
