"""A server at an address: streamable HTTP, with bounds on what an answer may have."""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from moothall import MCPServerError
from moothall.build import ServerURL, Tracing, one_line
from moothall.serving.mcp.process import MAX_LINE
from moothall.serving.mcp.target import checked_headers

if TYPE_CHECKING:
    import httpx2
    from mcp import MCPError

Headers: TypeAlias = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Returns the headers of a request."""
_REFUSAL_MARK: Final = secrets.token_hex(16)
"""By which an error of the transport's is known: no server can send it as its answer to a call."""
_UNREACHED_STATUSES: Final = {"POST": 503, "DELETE": 204}
"""By which a server that nobody reaches answers for us; a session of it has ended."""
_FORGOTTEN_SESSION: Final = f"{_REFUSAL_MARK} 404"
_UNSURE_STATUSES: Final = (400, 401, 410)
"""By which servers refuse a session that they do not know, or that is missing, beside a 404."""
_NO_TOKEN_HINT: Final = ' (it may want a token: headers={"Authorization": "Bearer …"})'


def shown_address(url: str) -> str:
    """Return an address without a user, a query or a fragment, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@asynccontextmanager
async def over_http(
    url: str,
    headers: Mapping[str, str] | Headers,
    name: str,
    auth: Any = None,
    on_session: Callable[[], None] = lambda: None,
) -> AsyncIterator[Any]:
    """Yield the streams of a session with a server at an address. A transport of the SDK."""
    ServerURL(url).check_allowed(name)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def bound_answer(response: httpx2.Response) -> None:
        """Bound an answer that is no stream of events; the SDK bounds each event of one."""
        if "mcp-session-id" in response.headers:
            on_session()
        if response.headers.get("content-encoding", "identity") != "identity":
            raise MCPServerError("it compressed its answer, which nobody asked for")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _classes()[0](response.stream)
        elif response.request.method == "GET":
            response.stream = _classes()[3](response.stream)
        if response.status_code >= 400 and response.request.method == "POST":
            await _make_status_an_error(response)
        if response.status_code in (404, *_UNSURE_STATUSES) and response.request.method == "DELETE":
            response.status_code = 204  # a session that is forgotten has ended

    async def add_headers(request: httpx2.Request) -> None:
        """Add the headers of this request, and the trace that its message states."""
        if request.method == "POST":
            request.headers.update(_trace_in(request.content))
        if callable(headers):
            result = headers()
            extra_headers = await result if inspect.isawaitable(result) else result
            request.headers.update(checked_headers(extra_headers, name))

    fixed_headers = {} if callable(headers) else headers
    client = _classes()[2](
        headers={"accept-encoding": "identity", **fixed_headers},
        auth=auth,
        timeout=httpx2.Timeout(30.0, connect=10.0, read=None),  # a request has a limit of its own
        event_hooks={"request": [add_headers], "response": [bound_answer]},
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as streams,
    ):
        yield streams


def _trace_in(body: bytes) -> dict[str, str]:
    """Return the headers of the trace that a message states in `_meta`."""
    if b"traceparent" not in body:
        return {}
    try:
        meta = json.loads(body)["params"]["_meta"]
        return {each: str(meta[each]) for each in Tracing.HEADERS if each in meta}
    except (ValueError, RecursionError, LookupError, TypeError):
        return {}


def refusal_in(error: MCPError) -> int:
    """Return the status by which a server refused to read a request; 0 if it read it.

    A request that was refused has run nothing. 404 says that its session is forgotten.
    """
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

    words = str(error.data).split()
    is_of_another_revision = error.code == UNSUPPORTED_PROTOCOL_VERSION
    return 404 if is_of_another_revision else int(words[1]) if words[0] == _REFUSAL_MARK else 0


async def _make_status_an_error(response: httpx2.Response) -> None:
    """Make an answer that is only a status an error of the protocol, which the SDK passes on."""
    from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

    stream, request, status = response.stream, response.request, response.status_code
    body = b"".join([piece async for piece in stream])  # type: ignore[union-attr]
    answer = _message_in(body)
    error = answer.get("error") if "jsonrpc" in answer else None
    if not (isinstance(error, dict) and type(error.get("code")) is int and "message" in error):
        code = METHOD_NOT_FOUND if status == 404 else INTERNAL_ERROR
        text = _status_text(response, body, "authorization" in request.headers)
        error = {"code": code, "message": text}
    answers_request = "id" in answer and answer["id"] == _message_in(request.content).get("id")
    is_unsure = (
        status in (404, *_UNSURE_STATUSES)
        and not answers_request
        and "www-authenticate" not in response.headers
    )
    is_forgotten = status == 404 and "mcp-session-id" in request.headers
    if (is_unsure or is_forgotten) and error["code"] != UNSUPPORTED_PROTOCOL_VERSION:
        error["data"] = (
            _FORGOTTEN_SESSION if is_forgotten else f"{_REFUSAL_MARK} {_UNSURE_STATUSES[0]}"
        )
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    response.headers["content-type"] = "application/json"
    response.headers.pop("content-length", None)
    response.stream = _classes()[1](body, stream)


def _status_text(response: httpx2.Response, body: bytes, has_token: bool) -> str:
    """Return what an answer says that is only a status."""
    status = response.status_code
    text = f"it answered HTTP {status} {response.reason_phrase}".rstrip()
    body_text = one_line(body[:1000].decode(errors="replace"), 200)
    if body_text and not body_text.startswith("<"):
        text += f": {body_text}"
    if status in (401, 403):
        text += " (the token in headers= may be wrong)" if has_token else _NO_TOKEN_HINT
    return text


def _message_in(body: bytes) -> dict[str, Any]:
    """Return the object that a body is; empty if it is none."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


@cache
def _classes() -> tuple[Any, ...]:
    """Return the streams of answers, and the client, whose base classes are loaded when needed."""
    import httpx2
    from mcp_types import INTERNAL_ERROR

    class BoundedBody(httpx2.AsyncByteStream):
        """The body of an answer, which ends with an error where it is too long."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > MAX_LINE:
                    raise MCPServerError(f"it sent an answer of more than {MAX_LINE:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class ReplacedBody(httpx2.AsyncByteStream):
        """A body in the place of another."""

        def __init__(self, body: bytes, stream: Any) -> None:
            self._body = body
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield self._body

        async def aclose(self) -> None:
            await self._stream.aclose()

    class ResumedStream(BoundedBody):
        """The events of a session: where they break off they end, and so are always resumed."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            with suppress(httpx2.TransportError):
                async for piece in self._stream:
                    yield piece

    class SessionClient(httpx2.AsyncClient):
        """A client for which a request of a session that reaches nobody was refused."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                return await super().send(request, **options)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if request.method == "GET" or "mcp-session-id" not in request.headers:
                    raise
                message = {
                    "code": INTERNAL_ERROR,
                    "message": "nothing answers",
                    "data": _FORGOTTEN_SESSION,
                }
                error = {"jsonrpc": "2.0", "id": None, "error": message}
                return httpx2.Response(
                    _UNREACHED_STATUSES[request.method], json=error, request=request
                )

    return BoundedBody, ReplacedBody, SessionClient, ResumedStream
