"""The methods of A2A over plain HTTP: the protocol's binding HTTP+JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from moothall.build import UnreadableText, one_line
from moothall.serving.a2a.wire import A2AFault
from moothall.serving.doors.a2a import A2ADoor, check_version, protocol_faults, sse_events
from moothall.serving.doors.checks import json_of
from moothall.serving.doors.protocols import A2A

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MEDIA_TYPE: Final = "application/a2a+json"


class A2ARest:
    """Speaks A2A by HTTP's own verbs and paths, below `/a2a/AGENT/v1`.

    Args:
        door: what answers the methods
    """

    def __init__(self, door: A2ADoor) -> None:
        self._door = door

    def routes(self) -> list[Any]:
        """Return the routes, which come before those of the door."""
        from starlette.routing import Route

        built_routes: list[Any] = []
        for path, method, http_methods, streams in (
            ("message:send", "SendMessage", ("POST",), False),
            ("message:stream", "SendStreamingMessage", ("POST",), True),
            ("tasks", "ListTasks", ("GET",), False),
            ("tasks/{task}:cancel", "CancelTask", ("POST",), False),
            ("tasks/{task}:subscribe", "SubscribeToTask", ("GET", "POST"), True),
            ("tasks/{task}", "GetTask", ("GET",), False),
            ("extendedAgentCard", "GetExtendedAgentCard", ("GET",), False),
            ("tasks/{task}/{rest:path}", "PushNotificationConfig", _HTTP_METHODS, False),
            ("{rest:path}", "", _HTTP_METHODS, False),
        ):
            endpoint = self._endpoint(method, streams)
            built_routes.append(
                Route(f"{A2A.path}/{{agent:path}}/v1/{path}", endpoint, methods=[*http_methods])
            )
        return built_routes

    def _endpoint(self, method: str, streams: bool) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

            agent = self._door.agent_id(request)
            if agent not in self._door.agents():
                return PlainTextResponse("no such agent replies here\n", 404)
            try:
                with protocol_faults():
                    check_version(request)
                    if not method:
                        request_line = one_line(f"{request.method} {request.url.path}", 100)
                        raise A2AFault("METHOD_NOT_FOUND", f"there is no {request_line}")
                    params = await _read_params(request)
                    sender = self._door.sender(request)
                    if streams:
                        updates = await self._door.stream_method(method, agent, sender, params)
                        events = sse_events(
                            updates,
                            lambda update: update,
                            lambda fault: {"error": fault.to_status()},
                        )
                        return StreamingResponse(events, media_type="text/event-stream")
                    result = await self._door.answer_method(method, agent, sender, params)
                    return JSONResponse(result, media_type=MEDIA_TYPE)
            except A2AFault as fault:
                return JSONResponse({"error": fault.to_status()}, fault.status)

        return answer


_HTTP_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


async def _read_params(request: Request) -> dict[str, Any]:
    """Return the parameters of a method: of the body, the path and the query."""
    params: dict[str, Any] = {}
    if body := await request.body():
        try:
            json_body = json_of(body)
        except UnreadableText as error:
            raise A2AFault("PARSE_ERROR", f"the body is not JSON: {error}") from None
        if not isinstance(json_body, dict):
            raise A2AFault("INVALID_REQUEST", "the body must be a JSON object")
        params = json_body
    for name, value in request.query_params.items():
        if name in ("includeArtifacts", "include_artifacts") and value in ("true", "false"):
            params[name] = value == "true"
        elif name != "A2A-Version":
            params[name] = value
    if "task" in request.path_params:
        params["id"] = request.path_params["task"]
    return params
