"""What the studio answers itself: refusals, the page that asks for the token; and headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

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


def with_headers(send: Send, path: str) -> Send:
    """`send`, with the headers that every answer has."""
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


async def refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    """Answer a request, or the opening of a socket, by why it is refused."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        before = "websocket." if scope["type"] == "websocket" else ""
        await send({**message, "type": before + message["type"]})

    await answer(sending, status, why + "\n", kind=b"text/plain; charset=utf-8")


async def answer(
    send: Send,
    status: int,
    text: str,
    headers: list[tuple[bytes, bytes]] | None = None,
    kind: bytes = b"text/html; charset=utf-8",
) -> None:
    """Answer a request by a text."""
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", kind), *(headers or [])],
    }
    await with_headers(send, "")(start)
    await send({"type": "http.response.body", "body": text.encode()})


# -- before a browser has said the token: one small page -------------------------------------------

_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>civitas studio</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<style>:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 26rem; margin: 20vh auto; padding: 1rem }}
input, button {{ font: inherit; padding: .4rem .6rem; box-sizing: border-box; width: 100%;
  margin-top: .5rem }}</style></head><body><main>{body}</main></body></html>
"""
_FORM: Final = """<h1>civitas studio</h1>
<form method="post" action="/login"><label>The {name} of this studio
<input type="password" name="secret" autofocus required autocomplete="current-password"></label>
<button>Open</button></form>{wrong}<p>{hint}</p>"""


def opens(key: str) -> str:
    """Leads to the studio itself, without the token in its address; the browser keeps the key."""
    # Not a redirect: a browser that follows one from elsewhere leaves the cookie out.
    head = '<meta http-equiv="refresh" content="0; url=/">'
    if key:
        head += f'<script>localStorage.setItem("civitas-studio-key", "{key}")</script>'
    return _PAGE.format(head=head, body="<p>Come in …</p>")


def asks(name: str, wrong: str) -> str:
    """Asks for the token or password; `wrong` says what was wrong with that given."""
    hint = "The program that serves this page has printed it." if name == "token" else ""
    alert = f"<p role=alert>{wrong}</p>" if wrong else ""
    return _PAGE.format(head="", body=_FORM.format(name=name, wrong=alert, hint=hint))
