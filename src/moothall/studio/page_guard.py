"""Access control: the token, Host and Origin, the served routes, the proxy in front, and limits."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote

from fastapi.datastructures import Headers
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from moothall.serving.doors import Front, checks
from moothall.studio.page import read_html, style_hash

_MAX_WRONG: Final = 100
"""After this many wrong passwords in a minute, no stranger's is checked, whatever the address."""
_MAX_ADDRESSES: Final = 1_000
"""How many addresses are known that have given the right one, the last ones."""
MAX_BYTES: Final = 1 << 20
"""The longest body of a request."""
_ERRORS: Final = "surrogateescape"
KEY_HEADER: Final = "x-moothall-key"
"""The header in which an opened page sends its key; a link or socket sends `?key=`."""

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"SAMEORIGIN",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True, kw_only=True)
class ServedRoutes:
    """Which paths of an application are open to who has the token, and how its page is shown.

    Attributes:
        pages: matches the page's paths, which alone the cookie opens, and a link from elsewhere
        shell: matches static parts of the page, which the cookie opens
        requests: matches the others that are answered, as `METHOD /path`; `SOCKET` is a method
        cached_prefixes: prefixes of files that a browser may keep
        policy: the Content-Security-Policy of what states none
        shared: matches the paths whose own token opens them, and nothing else; read only
    """

    pages: re.Pattern[str]
    shell: re.Pattern[str]
    requests: re.Pattern[str]
    cached_prefixes: tuple[str, ...] = ()
    policy: str = _POLICY
    shared: re.Pattern[str] | None = None

    def is_shared(self, scope: checks.Scope) -> bool:
        """Return whether a request is for a page whose address has a token of its own."""
        is_read = scope.get("method") in ("GET", "HEAD")
        return self.shared is not None and is_read and bool(self.shared.fullmatch(scope["path"]))

    def is_page(self, path: str) -> bool:
        """Return whether a path is one of the page's."""
        return self.pages.fullmatch(path) is not None

    def is_shell(self, scope: checks.Scope) -> bool:
        """Return whether a request is for the page itself or its static parts."""
        path = scope["path"]
        return scope.get("method") in ("GET", "HEAD") and (
            self.is_page(path) or self.shell.fullmatch(path) is not None
        )

    def is_route(self, scope: checks.Scope) -> bool:
        """Return whether a request is answered at all."""
        method, path = scope.get("method", "SOCKET"), scope["path"]
        method_path = f"{'GET' if method == 'HEAD' else method} {path}"
        is_page = method != "SOCKET" and self.is_page(path)
        return is_page or self.is_shell(scope) or self.requests.fullmatch(method_path) is not None


class PageGuard:
    """The outermost ASGI layer: refuses what does not come from a page of this studio.

    At an address that is not loopback, requests may also name this machine as their host.
    """

    def __init__(
        self,
        app: Any,
        secret: str,
        host: str,
        routes: ServedRoutes,
        *,
        is_password: bool,
        front: Front | None = None,
    ) -> None:
        self.app = app
        self._routes, self._front = routes, front or Front()
        self._secret = secret.encode()
        self._is_password = is_password
        self._label = "password" if is_password else "token"
        self._hosts = checks.Hosts(host)
        # The cookie survives a restart with the same secret. It does not tell the secret: scrypt is
        # slow to guess. Browsers send it to the programs at all ports of this host: so it opens the
        # empty page alone, and each studio's has a name of its own. What fills the page also needs
        # the key, which the browser keeps for this port.
        derived = hashlib.scrypt(self._secret, salt=b"moothall studio", n=1 << 14, r=8, p=1).hex()
        self._cookie_name, self._cookie_value, self._key = (
            f"moothall_studio_{derived[:8]}",
            derived[8:64],
            derived[64:],
        )
        self._attempts = checks.Attempts(in_all=_MAX_WRONG)
        self._addresses: dict[str, None] = {}  # the addresses that have given the right secret

    async def __call__(
        self, scope: checks.Scope, receive: checks.Receive, send: checks.Send
    ) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        scope, is_below_base = self._without_base(scope)
        send = self._with_headers(send, scope["path"])
        try:
            if not is_below_base:
                raise checks.RequestRefused(404, "there is no such page")
            await self._answer(scope, receive, send)
        except checks.RequestRefused as refused:
            if scope["type"] == "websocket":  # with words, uvicorn would log each as a failure
                await send({"type": "websocket.close"})
            else:
                await PlainTextResponse(f"{refused}\n", refused.status)(scope, receive, send)

    async def _answer(
        self, scope: checks.Scope, receive: checks.Receive, send: checks.Send
    ) -> None:
        headers = Headers(scope=scope)
        checks.check_once(scope)
        self._check_origin(scope, headers)
        checks.check_length(scope, MAX_BYTES)
        if self._routes.is_shared(scope):
            await self.app(scope, receive, send)
            return
        path, is_socket = scope["path"], scope["type"] == "websocket"
        is_known = self._is_known(scope, headers)
        is_entering = path == "/login" or (
            self._routes.is_page(path) and b"token=" in scope["query_string"]
        )
        if not is_socket and (is_entering or not is_known):
            await (await self._enter(scope, headers, receive, is_known))(scope, receive, send)
            return
        if not is_known:
            raise checks.RequestRefused(401, "no token")
        if not self._routes.is_route(scope):
            raise checks.RequestRefused(404, "there is no such page")
        if not is_socket:
            receive = checks.replayed(await checks.body_of(receive, MAX_BYTES), receive)
        await self.app(scope, receive, send)

    def _without_base(self, scope: checks.Scope) -> tuple[checks.Scope, bool]:
        """Return a request with its path below the base, and whether it is below it."""
        path, base = scope["path"], self._front.base
        if base == "/":
            return scope, True
        if path == base[:-1]:
            path += "/"
        if not path.startswith(base):
            return scope, False
        return {**scope, "path": path[len(base) - 1 :], "raw_path": None}, True

    def _with_headers(self, send: checks.Send, path: str) -> checks.Send:
        """Return a `send` that adds the headers of every answer."""
        is_cached = (
            path.startswith(self._routes.cached_prefixes) if self._routes.cached_prefixes else False
        )
        own_headers = {**_HEADERS, b"content-security-policy": self._routes.policy.encode()}

        async def send_with_headers(message: checks.Message) -> None:
            if message["type"].endswith("http.response.start"):
                headers = dict(message.get("headers", ()))
                may_cache = is_cached and message["status"] < 400
                added = [
                    (name, value)
                    for name, value in own_headers.items()
                    if name not in headers and not (may_cache and name == b"cache-control")
                ]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        return send_with_headers

    def _check_origin(self, scope: checks.Scope, headers: Headers) -> None:
        """Refuse a request that is not from a page of this studio."""
        host = headers.get("host", "")
        front = self._front
        if not self._hosts.has(host) and not (front.host and host.lower() == front.host):
            raise checks.RequestRefused(
                403,
                f"{host[:80]!r} is not a host of this studio: open it at 127.0.0.1, or start it "
                "with --host, or for an address that is forwarded to it with --public-url",
            )
        # A studio that others can reach may be behind a proxy that speaks TLS.
        own_origins = (f"http://{host}", f"https://{host}")[: 1 + self._hosts.is_public]
        if front.origin:  # a proxy may pass another Host on; a browser states this Origin
            own_origins = (
                (front.origin,) if host.lower() == front.host else (*own_origins, front.origin)
            )
        is_link = (  # a link may open the page, and nothing else
            (self._routes.is_page(scope["path"]) or self._routes.is_shared(scope))
            and scope.get("method") == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        checks.check_origin(scope, own_origins, "studio", is_link=is_link)
        if "origin" not in headers and scope["type"] == "websocket":
            raise checks.RequestRefused(403, "a socket needs an Origin")

    def _has_cookie(self, headers: Headers) -> bool:
        """Return whether a browser asks that has given the secret before."""
        for cookie in ";".join(headers.getlist("cookie")).split(";"):
            key, _, value = cookie.strip().partition("=")
            if key == self._cookie_name and secrets.compare_digest(
                value.encode(), self._cookie_value.encode()
            ):
                return True
        return False

    def _is_known(self, scope: checks.Scope, headers: Headers) -> bool:
        if self._has_cookie(headers):
            key = headers.get(KEY_HEADER) or _form_value(scope["query_string"], "key") or ""
            has_key = secrets.compare_digest(key.encode("utf-8", _ERRORS), self._key.encode())
            if has_key or self._routes.is_shell(scope):
                return True
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._check_secret(scope, token.encode("latin-1"))

    def _check_secret(self, scope: checks.Scope, secret: bytes) -> bool:
        """Return whether a secret is the right one; count a wrong password."""
        if self._is_throttled(scope):
            return False
        is_right = secrets.compare_digest(secret, self._secret)
        if self._is_password and not is_right:  # a token is too long to guess
            self._attempts.note(scope)
        if is_right:
            self._addresses[checks.client_of(scope)] = None
            if len(self._addresses) > _MAX_ADDRESSES:
                del self._addresses[next(iter(self._addresses))]
        return is_right

    def _is_throttled(self, scope: checks.Scope) -> bool:
        """Return whether no secret is checked for now; who has come in waits for no stranger."""
        if self._has_cookie(Headers(scope=scope)):
            return False
        return self._attempts.are_over(scope, is_known=checks.client_of(scope) in self._addresses)

    async def _enter(
        self, scope: checks.Scope, headers: Headers, receive: checks.Receive, is_known: bool
    ) -> Response:
        """Return the answer to a request that gives the secret or lacks it."""
        secret: str | None = None
        path, method = scope["path"], scope["method"]
        target = path if self._routes.is_page(path) else "/"
        if target == path and method in ("GET", "HEAD") and not self._is_password:
            secret = _form_value(scope["query_string"], "token")
        elif path == "/login" and method == "POST":
            form = await checks.body_of(receive, MAX_BYTES)
            secret = _form_value(form, "secret") or ""
            target = self._page_address(form)
        elif path == "/login":
            target = self._page_address(scope["query_string"])
        is_right = secret is not None and self._check_secret(scope, secret.encode("utf-8", _ERRORS))
        if is_right or is_known:
            answer = self._entry_page(target, self._key if is_right else "")
            if is_right:
                front = self._front
                secure = "; Secure" if front.origin.startswith("https:") else ""
                cookie = f"{self._cookie_name}={self._cookie_value}; HttpOnly; SameSite=Strict"
                answer.headers["set-cookie"] = f"{cookie}; Path={front.base}{secure}"
            return answer
        wants_html = "text/html" in headers.get("accept", "")
        if wants_html and self._has_cookie(headers) and not self._is_login_or_route(scope):
            return self._missing_page()  # a person who is in has mistyped it
        if not wants_html:
            raise checks.RequestRefused(401, f"the {self._label} is missing or wrong")
        error_text = "" if secret is None else f"This is not the {self._label}."
        if self._is_throttled(scope):
            error_text = "Too many wrong attempts: wait a minute."
        return self._login_page(target, error_text)

    def _is_login_or_route(self, scope: checks.Scope) -> bool:
        """Return whether a request is of the login page, or of a route of the studio."""
        return scope["path"] == "/login" or self._routes.is_route(scope)

    def _missing_page(self) -> HTMLResponse:
        """Return the page of an unknown address, with a link to a known one."""
        base = quote(self._front.base, safe="/%")
        body = f'<h1>There is no such page</h1><p><a href="{base}">moothall studio</a></p>'
        return self._page("", body, "no-referrer", 404)

    def _page_address(self, form: bytes) -> str:
        """Return the address of the page that a form or query names, or `/`."""
        address = unquote(_form_value(form, "to") or "/")
        return address if self._routes.is_page(address) else "/"

    def _entry_page(self, target: str, key: str) -> HTMLResponse:
        """Return a page that keeps the key and opens the studio, whose address has no token."""
        # Not a redirect: a browser that follows one from elsewhere leaves the cookie out.
        base = quote(self._front.base, safe="/%")
        head = f'<meta http-equiv="refresh" content="0; url={base}{quote(target[1:])}">'
        if key:  # a script of the studio's own keeps it, before the page is left
            script = f'<script src="{base}studio/static/enter.js"></script>'
            head = f'<meta name="moothall-studio-key" content="{key}">{script}{head}'
        return self._page(head, "<p>Come in …</p>", "no-referrer")

    def _login_page(self, target: str, error_text: str) -> HTMLResponse:
        """Return a page that asks for the secret; `error_text` says why one was refused."""
        hint = "The program that serves this page has printed it." if self._label == "token" else ""
        alert = f"<p role=alert>{error_text}</p>" if error_text else ""
        base = quote(self._front.base, safe="/%")
        form = _FORM.format(name=self._label, wrong=alert, hint=hint, base=base, to=quote(target))
        # With `no-referrer`, a browser sends the form with the Origin `null`, which is foreign.
        return self._page("", form, "same-origin", 401)

    def _page(self, head: str, body: str, referrer: str, status: int = 200) -> HTMLResponse:
        page = _PAGE.format(head=head, body=body)
        policy = f"default-src 'none'; script-src 'self'; style-src {style_hash(page)}; " + (
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        headers = {"Referrer-Policy": referrer, "Content-Security-Policy": policy}
        return HTMLResponse(page, status, headers)


def _form_value(form: bytes, name: str) -> str | None:
    return parse_qs(form.decode("latin-1"), errors=_ERRORS).get(name, [None])[0]


_PAGE: Final = read_html("enter")
_FORM: Final = read_html("secret")
