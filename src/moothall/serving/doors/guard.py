"""The outermost layer of the doors: it refuses requests that are not from a caller."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from moothall.foundation import tracing
from moothall.foundation.jsonvalue import UnreadableText
from moothall.serving.a2a.wire import CARD_PATH
from moothall.serving.doors.callers import LOCAL, NOBODY, Callers, note_caller
from moothall.serving.doors.checks import (
    Attempts,
    Hosts,
    Message,
    Receive,
    RequestRefused,
    Scope,
    Send,
    again,
    answer,
    body_of,
    check_length,
    check_once,
    check_origin,
    header,
    json_of,
    path_of,
    sent_event,
)
from moothall.serving.doors.front import ANY, NO_FRONT, Front
from moothall.serving.doors.refusals import TOO_OFTEN, TooOften, fault_of, openai_error, run_error

MOST_BYTES: Final = 4 << 20
"""The longest body of a request."""

_REST: Final = re.compile(r"/v1/(message:|tasks|extendedAgentCard)")
_STREAM: Final = ((b"x-accel-buffering", b"no"), (b"cache-control", b"no-store"))
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class DoorGuard:
    """An ASGI application that checks each request of another: its form, host, origin and token.

    Without a token, only programs of this machine may call. With one, a request sends it as
    `Authorization: Bearer TOKEN`, under any host name. Web pages of other origins are refused in
    both cases, unless the front names them. Cards of agents need no token: they say that one is
    needed.

    Args:
        app: the application behind it
        callers: the callers, their tokens and rates
        open_paths: paths that need no token; their caller is then `NOBODY`
        front: the public address, the proxies, and the pages of others that may call
        begin: has what the application needs begun, where no server runs its lifespan
    """

    def __init__(
        self,
        app: Any,
        callers: Callers,
        open_paths: frozenset[str] = frozenset(),
        front: Front = NO_FRONT,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.app = app
        self._open = open_paths
        self._callers = callers
        self._front = front
        self._begin = begin
        self._hosts = Hosts("127.0.0.1")
        self._attempts = Attempts()
        self._outer: Any = self._answered
        if front.pages:
            from starlette.middleware.cors import CORSMiddleware

            self._outer = CORSMiddleware(
                self._outer,
                allow_origins=front.pages,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=(ANY,),
                expose_headers=("mcp-session-id", "mcp-protocol-version", "retry-after"),
            )
        if front.proxies:
            from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

            self._outer = ProxyHeadersMiddleware(self._outer, [*front.proxies])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            self._begin = None
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._outer(scope, receive, send)
        else:  # no door has a socket
            await send({"type": "websocket.close"})

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope).rstrip("/")
        try:
            caller = self._check(scope, path)
            self._callers.note_place(self._place(scope))
            note_caller(scope, caller)
            body = await body_of(receive, MOST_BYTES)
        except RequestRefused as refused:
            asks = ((b"www-authenticate", b"Bearer"),) if refused.status == 401 else ()
            text, kind = str(refused), b"text/plain; charset=utf-8"
            if path.startswith("/v1/"):  # OpenAI's interface has a form for errors
                error = openai_error(text, "invalid_request_error")
                text, kind = json.dumps({"error": error}), b"application/json"
            await answer(send, refused.status, text, (*_HEADERS, *asks), kind)
            return
        if wait_s := self._callers.wait_s(caller):
            await _answer_later(path, body, math.ceil(wait_s), send)
            return
        if self._begin is not None:
            await self._begin()
        with tracing.joining(scope["headers"]):
            await self.app(scope, again(body, receive), _unbuffered(send))

    def _check(self, scope: Scope, path: str) -> str:
        """Return the caller of a request; refuse a request without one."""
        check_once(scope)
        check_length(scope, MOST_BYTES)
        host, has_tokens = header(scope, "host") or "", self._callers.tokens is not None
        if not has_tokens and not (self._hosts.has(host) and _is_here(scope)):
            raise RequestRefused(
                403, f"{host[:80]!r} is not a host of this server, which has no token"
            )
        if not self._front.has_page(header(scope, "origin")):
            own = [f"http://{host}", f"https://{host}"]
            own += [self._front.origin] if self._front.origin else []
            check_origin(scope, own, "server")
        if not has_tokens:
            return LOCAL
        is_card = path.endswith(CARD_PATH) and scope["method"] in ("GET", "HEAD")
        is_open = path in self._open or is_card
        if is_open and header(scope, "authorization") is None:
            return NOBODY
        scheme, _, token = (header(scope, "authorization") or "").partition(" ")
        caller = self._callers.name_of(token.strip().encode("latin-1"))
        if scheme.lower() == "bearer" and caller is not None:
            return caller  # also where others behind the same proxy have sent wrong ones
        if self._attempts.are_over(scope):
            raise RequestRefused(429, "too many wrong tokens: wait a minute")
        if token:
            self._attempts.note(scope)
        raise RequestRefused(401, "the token is missing or wrong")

    def _place(self, scope: Scope) -> str:
        """Return the address at which the server got a request, for a page."""
        if self._front.origin:
            return f"{self._front.origin}{self._front.base[:-1]}"
        host, port = scope.get("server") or ("", None)
        name = f"[{host}]" if ":" in host else host
        place = name if port is None else f"{scope.get('scheme', 'http')}://{name}:{port}"
        return f"{place}{scope.get('root_path', '')}"


def _unbuffered(send: Send) -> Send:
    """Return a `send` that has proxies pass each event of a stream on at once."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            kinds = [value for name, value in headers if name.lower() == b"content-type"]
            if kinds and kinds[0].startswith(b"text/event-stream"):
                names = {name.lower() for name, _ in headers}
                message = {**message, "headers": headers}
                headers += [each for each in _STREAM if each[0] not in names]
        await send(message)

    return sending


async def _answer_later(path: str, body: bytes, wait_s: int, send: Send) -> None:
    """Tell a caller that asks too often when it may ask again, in the form of the protocol."""
    status, kind = 429, b"application/json"
    refused = TooOften(f"too many requests: wait {wait_s} s")
    if path.startswith("/v1/"):
        body_text = json.dumps(
            {"error": openai_error(str(refused), TOO_OFTEN.kind, code=TOO_OFTEN.code)}
        )
    elif path.startswith("/ag-ui"):  # its client reads events, and no other answer
        status, kind = 200, b"text/event-stream"
        body_text = sent_event(run_error(refused)).decode()
    elif path == "/mcp" or path.startswith("/a2a/"):
        fault = fault_of(refused)
        body_text = json.dumps({"jsonrpc": "2.0", "id": _id_in(body), "error": fault.to_json()})
        if _REST.search(path):
            body_text = json.dumps({"error": fault.to_status()})
        elif path != "/mcp":  # a client of A2A over JSON-RPC reads no body of another status
            status = 200
    else:
        body_text, kind = str(refused), b"text/plain; charset=utf-8"
    await answer(send, status, body_text, (*_HEADERS, (b"retry-after", str(wait_s).encode())), kind)


def _id_in(body: bytes) -> Any:
    """Return the id of a request of JSON-RPC, if its body has one."""
    try:
        request_id = json_of(body)["id"]
    except (UnreadableText, LookupError, TypeError):
        return None
    return request_id if isinstance(request_id, str | int) else None


def _is_here(scope: Scope) -> bool:
    """Return whether a request comes from this machine; a Unix socket has no address."""
    client = scope.get("client")
    if not client:
        return True
    try:
        return ipaddress.ip_address(client[0].partition("%")[0]).is_loopback
    except ValueError:
        return False
