"""Who may come in: the token, Host and Origin, the routes of Gradio that are open, and limits."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OWN_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
MOST_BYTES: Final = 1 << 20
"""The longest body of a request."""
_BODY_S: Final = 20.0
_ATTEMPTS: Final = 20
"""So many wrong tokens in a minute, and no further one is looked at."""

# Everything else of Gradio is closed: its uploads, files, proxies and components' own servers.
_GRADIO: Final = {
    "GET": (
        *("/config", "/theme.css", "/favicon.ico", "/manifest.json", "/gradio_api/queue/data"),
        *("/assets/", "/static/", "/svelte/"),
    ),
    "POST": ("/gradio_api/queue/join", "/gradio_api/cancel"),
}
_CSP: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; "
    "manifest-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Guard:
    """Refuses what does not come from a page of this studio. Stands before everything else.

    Args:
        app: what is guarded
        secret: the token or password
        host: the address that is listened at; one that is not loopback adds its own names to the
            hosts that may be asked for
        is_password: whether the secret is one that a person has chosen
    """

    def __init__(self, app: Any, secret: str, host: str, *, is_password: bool) -> None:
        self._app = app
        self._secret = secret.encode()
        self._hosts = OWN_HOSTS
        self._anywhere = host not in ("127.0.0.1", "localhost", "::1")
        if self._anywhere:
            self._hosts |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        self._name = "password" if is_password else "token"
        self._most = _ATTEMPTS if is_password else 0  # nobody guesses a token
        # Survives a restart with the same secret, and does not tell it.
        self._pass = hmac.new(self._secret, b"civitas studio", hashlib.sha256).hexdigest()
        self._failed: deque[float] = deque(maxlen=_ATTEMPTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = _single(scope["headers"])
        fault = self._foreign(scope, headers)
        if fault:
            await _refuse(scope, send, 403, fault)
            return
        path = scope["path"]
        length = (headers or {}).get(b"content-length", "0")
        if not (length.isascii() and length.isdigit() and int(length[:20]) <= MOST_BYTES):
            await _refuse(scope, send, 413, f"a request must be of at most {MOST_BYTES:,} bytes")
            return
        if not self._is_known(headers):
            if scope["type"] == "http":
                await self._enter(scope, headers, receive, send)
            else:
                await _refuse(scope, send, 401, "no token")
            return
        if not _is_open(scope["type"], scope.get("method", "GET"), path):
            await _refuse(scope, send, 404, "there is no such page")
            return
        await self._app(scope, _limited(receive), _with_headers(send, path))

    # -- where it comes from -----------------------------------------------------------------------

    def _foreign(self, scope: Scope, headers: dict[bytes, str] | None) -> str:
        """Why a request is not from a page of this studio; empty if it is."""
        if headers is None:
            return "a header is there twice"
        host = headers.get(b"host", "")
        if not self._is_own(host):
            return (
                f"{host[:80]!r} is not a host of this studio: open it at 127.0.0.1, or start it "
                "with --host"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return f"a page of {origin[:80]!r} may not use this studio"
        navigates = headers.get(b"sec-fetch-mode") == "navigate" and scope.get("method") == "GET"
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site") and not (
            navigates and headers.get(b"sec-fetch-dest") == "document"
        ):
            return "a page from elsewhere may not use this studio"
        if origin is None and scope["type"] == "websocket":
            return "a socket needs an Origin"
        return ""

    def _is_own(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not colon or name.startswith("[") != name.endswith("]"):
            name, port = host.lower(), "0"
        if not (port.isascii() and port.isdigit()):
            return False
        if name in self._hosts:
            return True
        if not self._anywhere:
            return False
        try:  # an address is nobody's name, and so cannot be made to point here by somebody else
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    # -- the token ---------------------------------------------------------------------------------

    def _is_known(self, headers: dict[bytes, str] | None) -> bool:
        assert headers is not None
        for cookie in headers.get(b"cookie", "").split(";"):
            key, _, value = cookie.strip().partition("=")
            if key == "civitas_studio" and secrets.compare_digest(
                value.encode(), self._pass.encode()
            ):
                return True
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_secret(given)

    def _is_secret(self, given: str) -> bool:
        now = time.monotonic()
        while self._failed and now - self._failed[0] > 60:
            self._failed.popleft()
        if self._is_tried_out():
            return False
        right = secrets.compare_digest(given.strip().encode(errors="replace"), self._secret)
        if not right:
            self._failed.append(now)
        return right

    def _is_tried_out(self) -> bool:
        return bool(self._most) and len(self._failed) == self._most

    async def _enter(
        self, scope: Scope, headers: dict[bytes, str] | None, receive: Receive, send: Send
    ) -> None:
        """Answer whoever has not said the token yet."""
        given = None
        if scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        elif scope["path"] == "/login" and scope["method"] == "POST":
            form = await _body(_limited(receive))
            given = parse_qs(form.decode("utf-8", "replace")).get("secret", [""])[0]
        if given is not None and self._is_secret(given):
            cookie = f"civitas_studio={self._pass}; HttpOnly; SameSite=Strict; Path=/"
            # Not a redirect: a browser that follows one from elsewhere leaves the cookie out.
            page = _PAGE.format(
                head='<meta http-equiv="refresh" content="0; url=/">', body="<p>Come in …</p>"
            )
            await _answer(send, 200, page, [(b"set-cookie", cookie.encode())])
            return
        wrong = "" if given is None else f"<p role=alert>This is not the {self._name}.</p>"
        if self._is_tried_out():
            wrong = "<p role=alert>Too many wrong attempts: wait a minute.</p>"
        if "text/html" in (headers or {}).get(b"accept", ""):
            hint = "The program that serves this page has printed it."
            body = _LOGIN.format(name=self._name, wrong=wrong, hint=hint)
            await _answer(send, 401, _PAGE.format(head="", body=body))
        else:
            await _refuse(scope, send, 401, f"the {self._name} is missing or wrong")


def _is_open(kind: str, method: str, path: str) -> bool:
    if kind == "websocket":
        return path == "/studio/events"
    if path == "/" or path.startswith("/studio/"):
        return True
    method = "GET" if method == "HEAD" else method
    return any(
        path == each or (path.startswith(each) and each.endswith("/"))
        for each in _GRADIO.get(method, ())
    )


def _single(headers: list[tuple[bytes, bytes]]) -> dict[bytes, str] | None:
    """The headers that decide, each once; None if one is there twice."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in (b"host", b"origin", b"authorization", b"sec-fetch-site") and name in found:
            return None
        if name == b"cookie" and name in found:
            found[name] += "; " + value.decode("latin-1")
        else:
            found[name] = value.decode("latin-1")
    return found


def _limited(receive: Receive) -> Receive:
    """`receive`, of a body that is neither too long nor too slow."""
    seen = 0
    whole = False

    async def limited() -> MutableMapping[str, Any]:
        nonlocal seen, whole
        if whole:
            return await receive()  # waits for the end of the connection
        try:
            message = await asyncio.wait_for(receive(), _BODY_S)
        except TimeoutError:
            return {"type": "http.disconnect"}
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if seen > MOST_BYTES:
                return {"type": "http.disconnect"}
        else:
            whole = True
        return message

    return limited


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


def _with_headers(send: Send, path: str) -> Send:
    cached = path.startswith(("/assets/", "/static/", "/svelte/"))

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"] = [*message.get("headers", []), *_HEADERS]
            names = {name for name, _ in headers}
            if b"content-security-policy" not in names:
                headers.append((b"content-security-policy", _CSP.encode()))
            if not cached and b"cache-control" not in names:
                headers.append((b"cache-control", b"no-store"))
        await send(message)

    return sending


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why[:100]})
        return
    await _answer(send, status, why + "\n", kind=b"text/plain; charset=utf-8")


async def _answer(
    send: Send,
    status: int,
    text: str,
    headers: list[tuple[bytes, bytes]] | None = None,
    kind: bytes = b"text/html; charset=utf-8",
) -> None:
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", kind), *(headers or [])],
    }
    await _with_headers(send, "")(start)
    await send({"type": "http.response.body", "body": text.encode()})


_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>civitas studio</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<style>:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 26rem; margin: 20vh auto; padding: 1rem }}
input, button {{ font: inherit; padding: .4rem .6rem; box-sizing: border-box; width: 100%;
  margin-top: .5rem }}</style></head><body><main>{body}</main></body></html>
"""
_LOGIN: Final = """<h1>civitas studio</h1>
<form method="post" action="/login"><label>The {name} of this studio
<input type="password" name="secret" autofocus required autocomplete="current-password"></label>
<button>Open</button></form>{wrong}<p>{hint}</p>"""
