"""`/health`, `/metrics`, `/waiting` and `/runs`, beside the doors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from moothall import ConfigError, NoSuchRun, NotPermitted, RunHeld, StateError
from moothall.journal import Journal
from moothall.serving.company.metrics import CONTENT_TYPE
from moothall.serving.doors.callers import NO_CALLER, caller_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from moothall.serving.company.company_space import CompanySpace
    from moothall.serving.company.probe import Probe

HEALTH: Final = "/health"
LIVE: Final = "/health/live"
METRICS: Final = "/metrics"
WAITING: Final = "/waiting"
RUNS: Final = "/runs/{run:path}/{verb}"
_OPEN_FIELDS: Final = ("live", "ready")


class _WaitAnswer(BaseModel):
    """The body of `POST /waiting`."""

    model_config = ConfigDict(extra="forbid")

    run: StrictStr
    key: StrictStr
    value: Any = None


class _TextToTell(BaseModel):
    """The body of `POST /runs/ID/tell`; the others have none."""

    model_config = ConfigDict(extra="forbid")

    text: StrictStr


_VERBS: Final[dict[str, Callable[[Journal, str, bytes, str], object]]] = {
    "cancel": lambda journal, run, body, by: journal.cancel(run, by=by),
    "pause": lambda journal, run, body, by: journal.pause(run, by=by),
    "go-on": lambda journal, run, body, by: journal.go_on(run, by=by),
    "tell": lambda journal, run, body, by: journal.tell(
        run, _TextToTell.model_validate_json(body).text, by=by
    ),
}
"""What `POST /runs/ID/…` asks of a run, whoever works on it."""


def _status_of(error: Exception) -> int:
    codes = ((NoSuchRun, 404), (NotPermitted, 403), (ConfigError, 400))
    return next((code for kind, code in codes if isinstance(error, kind)), 409)


def routes(
    health_report: Callable[[], dict[str, Any]],
    metrics_text: Callable[[], str],
    space: CompanySpace,
    probe: Probe,
    permits: Callable[[str], bool],
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the routes, and the paths that answer without a token: they say live and ready only.

    `/health` has the status 200 if the company is ready, else 503; `/health/live` if it is live.
    `probe` finds out before each answer what does not answer. `GET /waiting` lists what waits in
    the journal, and `POST /waiting` gives an answer, in the caller's name; `POST /runs/ID/cancel`,
    `pause`, `go-on` and `tell` are a hand on a run. They are for callers who may permit calls.
    """
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    def respond(request: Request, key: str) -> Response:
        report = health_report()
        code = 200 if report[key] else 503
        if caller_of(request.scope) == NO_CALLER:
            report = {each: report[each] for each in _OPEN_FIELDS}
        return JSONResponse(report, code)

    async def health(request: Request) -> Response:
        await probe.ask()
        return respond(request, "ready")

    async def live(request: Request) -> Response:
        await probe.ask()
        return respond(request, "live")

    async def metrics(request: Request) -> Response:
        await probe.ask()
        return PlainTextResponse(await asyncio.to_thread(metrics_text), media_type=CONTENT_TYPE)

    async def operate(
        request: Request, work: Callable[[Journal, bytes, str], dict[str, Any]]
    ) -> Response:
        """Answer what an operator asks of the journal, by a name that may permit calls."""
        journal = space.journal
        if journal is None:
            return JSONResponse({"error": "the company has no journal"}, 404)
        if not permits(name := caller_of(request.scope)):
            return JSONResponse({"error": f"{name} may not permit calls (approves: true)"}, 403)
        try:
            answer = await asyncio.to_thread(work, journal, await request.body(), name)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"])) or "the body"
            return JSONResponse({"error": f"{field}: {first['msg']}"}, 400)
        except (ConfigError, NoSuchRun, NotPermitted, RunHeld, StateError) as error:
            return JSONResponse({"error": str(error)}, _status_of(error))
        return JSONResponse(answer)

    async def waiting(request: Request) -> Response:
        def work(journal: Journal, body: bytes, name: str) -> dict[str, Any]:
            if request.method != "POST":
                return {"waiting": [each.to_json() for each in journal.waiting()]}
            payload = _WaitAnswer.model_validate_json(body)
            journal.answer(payload.run, payload.key, payload.value, by=name)
            return {"answered": payload.key}

        return await operate(request, work)

    async def run(request: Request) -> Response:
        run_id, verb = request.path_params["run"], request.path_params["verb"]

        def work(journal: Journal, body: bytes, name: str) -> dict[str, Any]:
            _VERBS[verb](journal, run_id, body, name)
            outline = journal.run(run_id)
            return {"run": run_id, "state": outline.state, "held": outline.held}

        if verb not in _VERBS:
            return JSONResponse({"error": f"runs take {', '.join(_VERBS)}"}, 404)
        return await operate(request, work)

    built_routes = [
        Route(WAITING, waiting, methods=["GET", "POST"]),
        Route(RUNS, run, methods=["POST"]),
        Route(HEALTH, health, methods=["GET"]),
        Route(LIVE, live, methods=["GET"]),
        Route(METRICS, metrics, methods=["GET"]),
    ]
    return built_routes, (HEALTH, LIVE)
