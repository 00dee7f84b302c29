"""A call of the A2A door, of version 1.0 or 0.3, and how it is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from moothall import JournalError, NoSuchRun
from moothall.build import UnreadableText, one_line
from moothall.serving.a2a.wire import VERSION, A2AFault
from moothall.serving.a2a.wire_03 import (
    METHODS_03,
    STREAMING_03,
    VERSION_03,
    params_from_03,
    results_of_03,
)
from moothall.serving.doors.checks import SSE_COMMENT, json_of, sse_event, with_keepalives
from moothall.serving.doors.protocols import REFUSALS, TooOften, caller_text, fault_of
from moothall.serving.doors.served.served_run import RunRefused

_RUN_FAULTS: Final = {
    "unknown": "TASK_NOT_FOUND",
    "full": "INTERNAL_ERROR",
    "unexpected": "UNSUPPORTED_OPERATION",
    "not_cancelable": "TASK_NOT_CANCELABLE",
}
"""The protocol's errors for the reasons of `RunRefused`."""

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class A2ACall:
    """A call of JSON-RPC. Its method and parameters are those of 1.0, its answer of its version."""

    def __init__(self) -> None:
        self.method: str = ""
        self.params: Any = None
        self._id: Any = None
        self._name = ""  # of the method, as it was sent
        self._is_03 = False

    async def read(self, request: Request) -> None:
        """Read it from a request; raise A2AFault for one that is no call."""
        body, content_type = await request.body(), request.headers.get("content-type", "")
        call = _read_call(body, content_type)
        self._id, self._name = call.get("id"), call["method"]
        self.method, self.params = self._name, call.get("params") or {}
        version = request.headers.get("a2a-version") or request.query_params.get("A2A-Version")
        version = version or VERSION_03  # which states none
        if version.partition(".")[0] == VERSION.partition(".")[0]:
            return
        method = one_line(self._name, 100)
        if version.split(".")[:2] != VERSION_03.split("."):
            text = f"version {one_line(version, 20)!r} is not supported"
        elif self._name in METHODS_03:
            self.method, self.params = METHODS_03[self._name], params_from_03(self.params)
            self._is_03 = True
            return
        elif "/" in method:
            raise A2AFault("METHOD_NOT_FOUND", f"there is no method {method!r}")
        else:
            text = f"{method!r} is no method of version {VERSION_03}"
        raise A2AFault("VERSION_NOT_SUPPORTED", f"{text}: state A2A-Version: {VERSION}")

    def answer(self, result: dict[str, Any]) -> Response:
        """Answer it with a result of 1.0."""
        from starlette.responses import JSONResponse

        (result,) = results_of_03(result) if self._is_03 else (result,)
        return JSONResponse(self._body(result=result))

    def stream(self, updates: AsyncIterator[dict[str, Any]]) -> Response:
        """Answer it with updates of 1.0, as they come."""
        from starlette.responses import StreamingResponse

        return StreamingResponse(self._events(updates), media_type="text/event-stream")

    def refusal(self, fault: A2AFault) -> Response:
        """Answer it with an error."""
        from starlette.responses import JSONResponse, Response

        body = self._body(error=fault.to_json())
        if self._name in STREAMING_03:  # its client reads events, and no other answer
            return Response(sse_event(body), media_type="text/event-stream")
        return JSONResponse(body)

    async def _events(self, updates: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
        """Yield updates as server-sent events, and a comment after a while without updates."""
        is_first = True
        try:
            with protocol_faults():
                async with aclosing(with_keepalives(updates)) as stream:
                    async for update in stream:
                        if update is None:
                            yield SSE_COMMENT
                            continue
                        for each in results_of_03(update, is_first) if self._is_03 else (update,):
                            yield sse_event(self._body(result=each))
                        is_first = False
        except A2AFault as fault:  # such as of a task that was deleted meanwhile
            yield sse_event(self._body(error=fault.to_json()))

    def _body(self, **outcome: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self._id, **outcome}


@contextmanager
def protocol_faults() -> Iterator[None]:
    """Raise moothall's errors in the `with` block as the protocol's errors."""
    try:
        yield
    except TooOften:  # answered in the form of its protocol
        raise
    except REFUSALS as error:
        raise fault_of(error) from error
    except RunRefused as error:
        raise A2AFault(_RUN_FAULTS[error.reason], str(error)) from error
    except NoSuchRun as error:
        raise A2AFault("TASK_NOT_FOUND", "there is no such task any more") from error
    except JournalError as error:
        raise A2AFault("INTERNAL_ERROR", caller_text(error)) from error


def _read_call(body: bytes, content_type: str) -> dict[str, Any]:
    """Return a request of JSON-RPC, or refuse it; a wrong type matters for a body that is wrong."""
    try:
        call = json_of(body)
    except UnreadableText as error:
        kind = "PARSE_ERROR" if "json" in content_type else "CONTENT_TYPE_NOT_SUPPORTED"
        raise A2AFault(kind, f"the body is not JSON: {error}") from None
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0":
        raise A2AFault("INVALID_REQUEST", 'a call must be one object with "jsonrpc": "2.0"')
    if not isinstance(call.get("method"), str):
        raise A2AFault("INVALID_REQUEST", "a call must have a method")
    if isinstance(call.get("id"), bool) or not isinstance(call.get("id"), str | int | None):
        raise A2AFault("INVALID_REQUEST", "the id of a call must be a text, an integer or null")
    return call
