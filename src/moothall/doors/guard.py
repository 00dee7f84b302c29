"""The outermost layer of the doors: it refuses what does not come from a caller of theirs."""

from __future__ import annotations

import ipaddress
import json
import secrets
from typing import Any, Final

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
    header,
)

MOST_BYTES: Final = 4 << 20
"""The longest body of a request."""

KNOWN: Final = "moothall.known"

_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class Guard:
    """An ASGI application that checks each request of another: its form, host, origin and token.

    Without a token, only programs of this machine are let in. With one, a request states it as
    `Authorization: Bearer TOKEN`, under any host name; a browser's page of elsewhere is refused in
    either case.

    Args:
        app: the application behind it
        token: the secret that callers state, or None
        open_paths: what answers without a token too; the application finds in `scope[KNOWN]`
            whether the request has stated it
    """

    def __init__(
        self, app: Any, token: str | None, open_paths: frozenset[str] = frozenset()
    ) -> None:
        self.app = app
        self._open = open_paths
        self._token = None if token is None else token.encode()
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
            scope[KNOWN] = self._check(scope)
            body = await body_of(receive, MOST_BYTES)
        except Refused as refused:
            asks = ((b"www-authenticate", b"Bearer"),) if refused.status == 401 else ()
            text, kind = str(refused), b"text/plain; charset=utf-8"
            if scope["path"].startswith("/v1/"):  # OpenAI's interface has a form for errors
                error = {"message": text, "type": "invalid_request_error", "param": None}
                text, kind = json.dumps({"error": {**error, "code": None}}), b"application/json"
            await answer(send, refused.status, text, (*_HEADERS, *asks), kind)
            return
        await self.app(scope, again(body, receive), send)

    def _check(self, scope: Scope) -> bool:
        """Refuse a request that may not be made; return whether it may be told everything."""
        check_once(scope)
        check_length(scope, MOST_BYTES)
        host = header(scope, "host") or ""
        if self._token is None and not (self._hosts.has(host) and _is_here(scope)):
            raise Refused(403, f"{host[:80]!r} is not a host of this server, which has no token")
        origin = header(scope, "origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, f"a page of {origin[:80]!r} may not use this server")
        if header(scope, "sec-fetch-site") in ("cross-site", "same-site"):
            raise Refused(403, "a page from elsewhere may not use this server")
        if self._token is None:
            return True
        if scope["path"] in self._open and header(scope, "authorization") is None:
            return False
        if self._attempts.are_over(scope):
            raise Refused(429, "too many wrong tokens: wait a minute")
        scheme, _, given = (header(scope, "authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(
            given.strip().encode("latin-1"), self._token
        ):
            if given:
                self._attempts.note(scope)
            raise Refused(401, "the token is missing or wrong")
        return True


def _is_here(scope: Scope) -> bool:
    """Return whether a request comes from this machine; a socket of files has no address."""
    client = scope.get("client")
    if not client:
        return True
    try:
        return ipaddress.ip_address(client[0].partition("%")[0]).is_loopback
    except ValueError:
        return False
