"""The outermost layer of the doors: it refuses requests that are not from a caller."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

from moothall.build import Tracing
from moothall.serving.a2a.wire import CARD_PATH
from moothall.serving.doors.callers import LOCAL, NO_CALLER, Callers, note_caller
from moothall.serving.doors.checks import (
    Attempts,
    Hosts,
    Message,
    Receive,
    RequestRefused,
    Scope,
    Send,
    answer,
    body_of,
    check_length,
    check_once,
    check_origin,
    header,
    path_of,
    replayed,
)
from moothall.serving.doors.front import NO_FRONT, WILDCARD, Front
from moothall.serving.doors.protocols import DOORS, TooOften, answer_to, protocol_at

MAX_BYTES: Final = 4 << 20
"""The longest body of a request."""

_TOKEN_HEADERS: Final = frozenset(each.token_header for each in DOORS)
_STREAM_HEADERS: Final = ((b"x-accel-buffering", b"no"), (b"cache-control", b"no-store"))
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class DoorGuard:
    """An ASGI application that checks each request of another: its form, host, origin and token.

    The opening of a WebSocket is checked as a request is, its messages are not.

    Without a token, only programs of this machine may call. With one, a request sends it as
    `Authorization: Bearer TOKEN`, under any host name. Web pages of other origins are refused in
    both cases, unless the front names them. Cards of agents need no token: they say that one is
    needed.

    Args:
        app: the application behind it
        callers: the callers, their tokens and rates
        open_paths: paths that need no token; their caller is then `NO_CALLER`
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
        self._open_paths = open_paths
        self._callers = callers
        self._front = front
        self._start_app = begin
        self._hosts = Hosts("127.0.0.1")
        self._attempts = Attempts()
        self._outer_app: Any = self._handle_request
        if front.pages:
            from starlette.middleware.cors import CORSMiddleware

            self._outer_app = CORSMiddleware(
                self._outer_app,
                allow_origins=front.pages,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=(WILDCARD,),
                expose_headers=("mcp-session-id", "mcp-protocol-version", "retry-after"),
            )
        if front.proxies:
            from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

            self._outer_app = ProxyHeadersMiddleware(self._outer_app, [*front.proxies])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            self._start_app = None
            await self.app(scope, receive, send)
        else:
            await self._outer_app(scope, receive, send)

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, body, is_socket = path_of(scope).rstrip("/"), b"", scope["type"] == "websocket"
        try:
            caller = self._checked_caller(scope, path)
            note_caller(scope, caller)
            if not is_socket:
                self._callers.note_server_address(self._server_address(scope))
                body = await body_of(receive, MAX_BYTES)
            # A probe of /health must not be refused for what callers ask.
            wait_s = 0.0 if path in self._open_paths else self._callers.wait_s(caller)
            if wait_s:
                raise TooOften(math.ceil(wait_s))
        except RequestRefused as refusal:
            if is_socket:
                if "websocket.http.response" not in scope.get("extensions", ()):
                    reason = str(refusal)[:100]
                    await send({"type": "websocket.close", "code": 1008, "reason": reason})
                    return
                send = _send_as_socket(send)
            headers = [*_HEADERS]
            if isinstance(refusal, TooOften):
                headers += refusal.headers
            elif refusal.status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
            status, text, media_type = answer_to(refusal, path, body)
            await answer(send, status, text, headers, media_type)
            return
        if self._start_app is not None:
            await self._start_app()
        with Tracing.join_trace(scope["headers"]):
            receive_again = receive if is_socket else replayed(body, receive)
            await self.app(scope, receive_again, _send_unbuffered(send))

    def _checked_caller(self, scope: Scope, path: str) -> str:
        """Return the caller of a request; refuse a request without one."""
        check_once(scope, _TOKEN_HEADERS)
        check_length(scope, MAX_BYTES)
        host, has_tokens = header(scope, "host") or "", self._callers.tokens is not None
        if not has_tokens and not (self._hosts.has(host) and _is_from_this_machine(scope)):
            raise RequestRefused(
                403, f"{host[:80]!r} is not a host of this server, which has no token"
            )
        if not self._front.has_page(header(scope, "origin")):
            own_origins = [f"http://{host}", f"https://{host}"]
            own_origins += [self._front.origin] if self._front.origin else []
            check_origin(scope, own_origins, "server")
        if not has_tokens:
            return LOCAL
        is_card = path.endswith(CARD_PATH) and scope.get("method") in ("GET", "HEAD")
        is_open = path in self._open_paths or is_card
        protocol, credential = protocol_at(path), header(scope, "authorization")
        if credential is None and protocol and (key := header(scope, protocol.token_header)):
            credential = f"Bearer {key}"
        if is_open and credential is None:
            return NO_CALLER
        scheme, _, token = (credential or "").partition(" ")
        caller = self._callers.name_of(token.strip().encode("latin-1"))
        if scheme.lower() == "bearer" and caller is not None:
            return caller  # also where others behind the same proxy have sent wrong ones
        if self._attempts.are_over(scope):
            raise RequestRefused(429, "too many wrong tokens: wait a minute")
        if token:
            self._attempts.note(scope)
        raise RequestRefused(401, "the token is missing or wrong")

    def _server_address(self, scope: Scope) -> str:
        """Return the address at which the server got a request, for a page."""
        if self._front.origin:
            return f"{self._front.origin}{self._front.base[:-1]}"
        host, port = scope.get("server") or ("", None)
        name = f"[{host}]" if ":" in host else host
        address = name if port is None else f"{scope.get('scheme', 'http')}://{name}:{port}"
        return f"{address}{scope.get('root_path', '')}"


def _send_as_socket(send: Send) -> Send:
    """Return a `send` that answers the opening of a socket as a request."""

    async def send_to_socket(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return send_to_socket


def _send_unbuffered(send: Send) -> Send:
    """Return a `send` that has proxies pass each event of a stream on at once."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            content_types = [value for name, value in headers if name.lower() == b"content-type"]
            if content_types and content_types[0].startswith(b"text/event-stream"):
                names = {name.lower() for name, _ in headers}
                message = {**message, "headers": headers}
                headers += [each for each in _STREAM_HEADERS if each[0] not in names]
        await send(message)

    return send_with_headers


def _is_from_this_machine(scope: Scope) -> bool:
    """Return whether a request comes from this machine; a Unix socket has no address."""
    client = scope.get("client")
    if not client:
        return True
    try:
        return ipaddress.ip_address(client[0].partition("%")[0]).is_loopback
    except ValueError:
        return False
