"""What a browser is shown before it has said the token: one small page, without a script."""

from __future__ import annotations

from typing import Final

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


def opens() -> str:
    """Leads to the studio itself, without the token in its address."""
    # Not a redirect: a browser that follows one from elsewhere leaves the cookie out.
    refresh = '<meta http-equiv="refresh" content="0; url=/">'
    return _PAGE.format(head=refresh, body="<p>Come in …</p>")


def asks(name: str, wrong: str) -> str:
    """Asks for the token or password; `wrong` says what was wrong with that given."""
    hint = "The program that serves this page has printed it." if name == "token" else ""
    alert = f"<p role=alert>{wrong}</p>" if wrong else ""
    return _PAGE.format(head="", body=_FORM.format(name=name, wrong=alert, hint=hint))
