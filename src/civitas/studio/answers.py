"""The headers of every answer, and the small pages that ask for the token and let in."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse
from starlette.types import Message, Send

_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; "
        "manifest-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "SAMEORIGIN",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def with_headers(send: Send, path: str) -> Send:
    """`send`, with the headers that every answer has."""
    cached = path.startswith(("/assets/", "/static/", "/svelte/"))

    async def sending(message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            headers = MutableHeaders(raw=message["headers"])
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if not cached:
                headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


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


def opens(key: str) -> HTMLResponse:
    """Leads to the studio itself, without the token in its address; the browser keeps the key."""
    # Not a redirect: a browser that follows one from elsewhere leaves the cookie out.
    head = '<meta http-equiv="refresh" content="0; url=/">'
    if key:
        head += f'<script>localStorage.setItem("civitas-studio-key", "{key}")</script>'
    return HTMLResponse(_PAGE.format(head=head, body="<p>Come in …</p>"))


def asks(name: str, wrong: str) -> HTMLResponse:
    """Asks for the token or password; `wrong` says what was wrong with that given."""
    hint = "The program that serves this page has printed it." if name == "token" else ""
    alert = f"<p role=alert>{wrong}</p>" if wrong else ""
    form = _FORM.format(name=name, wrong=alert, hint=hint)
    return HTMLResponse(_PAGE.format(head="", body=form), 401)
