"""Access control: the token, Host and Origin, the open routes of Gradio, and limits."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi.datastructures import Headers
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from moothall.doors.checks import (
    Attempts,
    Hosts,
    Message,
    Receive,
    Refused,
    Scope,
    Send,
    again,
    body_of,
    check_length,
    check_once,
)

MOST_BYTES: Final = 1 << 20
"""The longest body of a request."""
_KEEP: Final = "surrogateescape"
KEY: Final = "x-moothall-key"
"""The header in which an opened page sends its key; a link or socket sends `?key=`."""

_SHELL: Final = (
    *("/config", "/theme.css", "/favicon.ico", "/manifest.json"),
    *("/assets/", "/static/", "/svelte/", "/studio/static/"),
)
"""The static parts of a page, before it shows anything."""
# Everything else of Gradio is closed: its uploads, files, proxies and components' own servers.
_GRADIO: Final = {
    "GET": (*_SHELL, "/gradio_api/queue/data"),
    "POST": ("/gradio_api/queue/join", "/gradio_api/cancel"),
}
_HEADERS: Final = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; "
        b"manifest-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"SAMEORIGIN",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Guard:
    """The outermost ASGI layer: refuses what does not come from a page of this studio.

    At an address that is not loopback, requests may also name this machine as their host.
    """

    def __init__(self, app: Any, secret: str, host: str, *, is_password: bool) -> None:
        self.app = app
        self._secret = secret.encode()
        self._is_password = is_password
        self._name = "password" if is_password else "token"
        self._hosts = Hosts(host)
        # The cookie survives a restart with the same secret. It does not tell the secret: scrypt is
        # slow to guess. Browsers send it to the programs at all ports of this host: so it opens the
        # empty page alone, and each studio's has a name of its own. What fills the page also needs
        # the key, which the browser keeps for this port.
        made = hashlib.scrypt(self._secret, salt=b"moothall studio", n=1 << 14, r=8, p=1).hex()
        self._cookie, self._pass, self._key = f"moothall_studio_{made[:8]}", made[8:64], made[64:]
        self._attempts = Attempts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        send = _with_headers(send, scope["path"])
        try:
            await self._answer(scope, receive, send)
        except Refused as refused:
            if scope["type"] == "websocket":  # with words, uvicorn would log each as a failure
                await send({"type": "websocket.close"})
            else:
                await PlainTextResponse(f"{refused}\n", refused.status)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        check_once(scope)
        if fault := self._foreign(scope, headers):
            raise Refused(403, fault)
        check_length(scope, MOST_BYTES)
        path, is_socket = scope["path"], scope["type"] == "websocket"
        known = self._is_known(scope, headers)
        enters = path == "/login" or (path == "/" and b"token=" in scope["query_string"])
        if not is_socket and (enters or not known):
            await (await self._enter(scope, headers, receive, known))(scope, receive, send)
            return
        if not known:
            raise Refused(401, "no token")
        if not _is_open(scope.get("method", ""), path, is_socket):
            raise Refused(404, "there is no such page")
        if not is_socket:
            receive = again(await body_of(receive, MOST_BYTES), receive)
        await self.app(scope, receive, send)

    def _foreign(self, scope: Scope, headers: Headers) -> str:
        """Return why a request is not from a page of this studio; empty if it is."""
        host = headers.get("host", "")
        if not self._hosts.has(host):
            return (
                f"{host[:80]!r} is not a host of this studio: open it at 127.0.0.1, or start it "
                "with --host"
            )
        origin = headers.get("origin")
        # A studio that others can reach may be behind a proxy that speaks TLS.
        own = (f"http://{host}", f"https://{host}")[: 1 + self._hosts.anywhere]
        if origin is not None and origin not in own:
            return f"a page of {origin[:80]!r} may not use this studio"
        is_link = (  # a link may open the page, and nothing else
            scope["path"] == "/"
            and scope.get("method") == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link:
            return "a page from elsewhere may not use this studio"
        if origin is None and scope["type"] == "websocket":
            return "a socket needs an Origin"
        return ""

    def _is_known(self, scope: Scope, headers: Headers) -> bool:
        for cookie in ";".join(headers.getlist("cookie")).split(";"):
            key, _, value = cookie.strip().partition("=")
            if key == self._cookie and secrets.compare_digest(value.encode(), self._pass.encode()):
                found = headers.get(KEY) or _field(scope["query_string"], "key") or ""
                has_key = secrets.compare_digest(found.encode("utf-8", _KEEP), self._key.encode())
                if has_key or _is_shell(scope):
                    return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_secret(scope, given.encode("latin-1"))

    def _is_secret(self, scope: Scope, given: bytes) -> bool:
        if self._attempts.are_over(scope):
            return False
        right = secrets.compare_digest(given, self._secret)
        if self._is_password and not right:  # a token is too long to guess
            self._attempts.note(scope)
        return right

    async def _enter(
        self, scope: Scope, headers: Headers, receive: Receive, known: bool
    ) -> Response:
        """Return the answer to a request that gives the secret or lacks it."""
        given: str | None = None
        path, method = scope["path"], scope["method"]
        if path == "/" and method in ("GET", "HEAD") and not self._is_password:
            given = _field(scope["query_string"], "token")
        elif path == "/login" and method == "POST":
            given = _field(await body_of(receive, MOST_BYTES), "secret") or ""
        right = given is not None and self._is_secret(scope, given.encode("utf-8", _KEEP))
        if right or known:
            answer = _opens(self._key if right else "")
            if right:
                cookie = f"{self._cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/"
                answer.headers["set-cookie"] = cookie
            return answer
        if "text/html" not in headers.get("accept", ""):
            raise Refused(401, f"the {self._name} is missing or wrong")
        wrong = "" if given is None else f"This is not the {self._name}."
        if self._attempts.are_over(scope):
            wrong = "Too many wrong attempts: wait a minute."
        return _asks(self._name, wrong)


def _is_open(method: str, path: str, is_socket: bool) -> bool:
    if is_socket:
        return path == "/studio/events"
    if path == "/" or path.startswith("/studio/"):
        return True
    return _is_among(path, _GRADIO.get("GET" if method == "HEAD" else method, ()))


def _is_shell(scope: Scope) -> bool:
    """Return whether a request is for the page itself or its static parts."""
    path = scope["path"]
    return scope.get("method") in ("GET", "HEAD") and (path == "/" or _is_among(path, _SHELL))


def _is_among(path: str, listed: tuple[str, ...]) -> bool:
    if len(path) > 255:  # too long for a file's name
        return False
    return any(path == each or (path.startswith(each) and each.endswith("/")) for each in listed)


def _field(form: bytes, name: str) -> str | None:
    return parse_qs(form.decode("latin-1"), errors=_KEEP).get(name, [None])[0]


def _with_headers(send: Send, path: str) -> Send:
    """Return a `send` that adds the headers of every answer."""
    cached = path.startswith(("/assets/", "/static/", "/svelte/"))

    async def sending(message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            headers = dict(message.get("headers", ()))
            may_keep = cached and message["status"] < 400
            own = [
                (name, value)
                for name, value in _HEADERS.items()
                if name not in headers and not (may_keep and name == b"cache-control")
            ]
            message["headers"] = [*message.get("headers", ()), *own]
        await send(message)

    return sending


_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>moothall studio</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<style>:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 26rem; margin: 20vh auto; padding: 1rem }}
input, button {{ font: inherit; padding: .4rem .6rem; box-sizing: border-box; width: 100%;
  margin-top: .5rem }}</style></head><body><main>{body}</main></body></html>
"""
_FORM: Final = """<h1>moothall studio</h1>
<form method="post" action="/login"><label>The {name} of this studio
<input type="password" name="secret" autofocus required autocomplete="current-password"></label>
<button>Open</button></form>{wrong}<p>{hint}</p>"""


def _opens(key: str) -> HTMLResponse:
    """Return a page that stores the key and opens the studio, without the token in its address."""
    # Not a redirect: a browser that follows one from elsewhere leaves the cookie out.
    head = '<meta http-equiv="refresh" content="0; url=/">'
    if key:
        head += f'<script>localStorage.setItem("moothall-studio-key", "{key}")</script>'
    return HTMLResponse(_PAGE.format(head=head, body="<p>Come in …</p>"))


def _asks(name: str, wrong: str) -> HTMLResponse:
    """Return a page that asks for the token or password; `wrong` says why one was refused."""
    hint = "The program that serves this page has printed it." if name == "token" else ""
    alert = f"<p role=alert>{wrong}</p>" if wrong else ""
    form = _FORM.format(name=name, wrong=alert, hint=hint)
    # With `no-referrer`, a browser sends the form with the Origin `null`, which is foreign.
    return HTMLResponse(_PAGE.format(head="", body=form), 401, {"Referrer-Policy": "same-origin"})
