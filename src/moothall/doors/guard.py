"""The outermost layer of the doors: it refuses requests that are not from a caller."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from typing import Any, Final

from moothall.doors.callers import LOCAL, NOBODY, Callers, note_caller
from moothall.doors.checks import (
    Attempts,
    Hosts,
    Receive,
    Refused,
    Scope,
    Send,
    again,
    answer,
    body_of,
    check_length,
    check_once,
    check_origin,
    header,
    sent_event,
)
from moothall.doors.refusals import TOO_OFTEN, TooOften, fault_of, openai_error, run_error

MOST_BYTES: Final = 4 << 20
"""The longest body of a request."""

_REST: Final = re.compile(r"/v1/(message:|tasks|extendedAgentCard)")
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class Guard:
    """An ASGI application that checks each request of another: its form, host, origin and token.

    Without a token, only programs of this machine may call. With one, a request sends it as
    `Authorization: Bearer TOKEN`, under any host name. Web pages of other origins are refused in
    both cases.

    Args:
        app: the application behind it
        callers: the callers, their tokens and rates
        open_paths: paths that need no token; their caller is then `NOBODY`
    """

    def __init__(
        self, app: Any, callers: Callers, open_paths: frozenset[str] = frozenset()
    ) -> None:
        self.app = app
        self._open = open_paths
        self._callers = callers
        self._hosts = Hosts("127.0.0.1")
        self._attempts = Attempts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no door has a socket
            await send({"type": "websocket.close"})
            return
        try:
            caller = self._check(scope)
            self._callers.note_place(_place(scope))
            note_caller(scope, caller)
            body = await body_of(receive, MOST_BYTES)
        except Refused as refused:
            asks = ((b"www-authenticate", b"Bearer"),) if refused.status == 401 else ()
            text, kind = str(refused), b"text/plain; charset=utf-8"
            if scope["path"].startswith("/v1/"):  # OpenAI's interface has a form for errors
                error = openai_error(text, "invalid_request_error")
                text, kind = json.dumps({"error": error}), b"application/json"
            await answer(send, refused.status, text, (*_HEADERS, *asks), kind)
            return
        if wait_s := self._callers.wait_s(caller):
            await _answer_later(scope, body, math.ceil(wait_s), send)
            return
        await self.app(scope, again(body, receive), send)

    def _check(self, scope: Scope) -> str:
        """Return the caller of a request; refuse a request without one."""
        check_once(scope)
        check_length(scope, MOST_BYTES)
        host = header(scope, "host") or ""
        if self._callers.tokens is None and not (self._hosts.has(host) and _is_here(scope)):
            raise Refused(403, f"{host[:80]!r} is not a host of this server, which has no token")
        check_origin(scope, (f"http://{host}", f"https://{host}"), "server")
        if self._callers.tokens is None:
            return LOCAL
        if scope["path"] in self._open and header(scope, "authorization") is None:
            return NOBODY
        if self._attempts.are_over(scope):
            raise Refused(429, "too many wrong tokens: wait a minute")
        scheme, _, given = (header(scope, "authorization") or "").partition(" ")
        caller = self._callers.named(given.strip().encode("latin-1"))
        if scheme.lower() != "bearer" or caller is None:
            if given:
                self._attempts.note(scope)
            raise Refused(401, "the token is missing or wrong")
        return caller


def _place(scope: Scope) -> str:
    """Return the address at which the server got a request."""
    host, port = scope.get("server") or ("", None)
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{scope.get('scheme', 'http')}://{name}:{port}"
    return f"{place}{scope.get('root_path', '')}"


async def _answer_later(scope: Scope, body: bytes, wait_s: int, send: Send) -> None:
    """Tell a caller that asks too often when it may ask again, in the form of the protocol."""
    path, status, kind = scope["path"], 429, b"application/json"
    refused = TooOften(f"too many requests: wait {wait_s} s")
    if path.startswith("/v1/"):
        said = json.dumps(
            {"error": openai_error(str(refused), TOO_OFTEN.kind, code=TOO_OFTEN.code)}
        )
    elif path.startswith("/ag-ui"):  # its client reads events, and no other answer
        status, kind = 200, b"text/event-stream"
        said = sent_event(run_error(refused)).decode()
    elif path == "/mcp" or path.startswith("/a2a/"):
        fault = fault_of(refused)
        said = json.dumps({"jsonrpc": "2.0", "id": _id_in(body), "error": fault.to_json()})
        if _REST.search(path):
            said = json.dumps({"error": fault.to_status()})
        elif path != "/mcp":  # a client of A2A over JSON-RPC reads no body of another status
            status = 200
    else:
        said, kind = str(refused), b"text/plain; charset=utf-8"
    await answer(send, status, said, (*_HEADERS, (b"retry-after", str(wait_s).encode())), kind)


def _id_in(body: bytes) -> Any:
    """Return the id of a request of JSON-RPC, if its body has one."""
    try:
        found = json.loads(body)["id"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return found if isinstance(found, str | int) else None


def _is_here(scope: Scope) -> bool:
    """Return whether a request comes from this machine; a Unix socket has no address."""
    client = scope.get("client")
    if not client:
        return True
    try:
        return ipaddress.ip_address(client[0].partition("%")[0]).is_loopback
    except ValueError:
        return False
