"""Read manual pages, in the macros `man` or `mdoc`, by mandoc."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Final

from moothall import UnreadableDocument
from moothall.research.reading.html import Document, read_html

_PAGE_MACRO: Final = re.compile(r"^[.'][ \t]*(?:TH|Dd|SH|Sh)\b", re.MULTILINE)
_SEARCHED_CHARS: Final = 20_000  # characters, for the first macro of a page
_TIMEOUT_S: Final = 20.0
_TITLE: Final = re.compile(r'<td class="head-ltitle">([^<]*)(\([^<]*)</td>')
_NAME: Final = re.compile(r"NAME\s+([^\s,]+)")
_CODE: Final = re.compile(r"<pre.*?</pre>", re.DOTALL)
# The lines above and below each printed page; ids of terms, which would each begin a section.
_PAGE_FRAME: Final = re.compile(
    r'<table class="(?:head|foot)">.*?</table>|(?<=<dt) id="[^"]*"', re.DOTALL
)


def is_manual(source: str) -> bool:
    """Return whether a text is the source of a manual page, and a program is there to read it."""
    is_page = _PAGE_MACRO.search(source[:_SEARCHED_CHARS]) is not None
    return is_page and shutil.which("mandoc") is not None and find_spec("lxml") is not None


def read_manual(data: bytes) -> Document:
    """Return a manual page's title, text and sections."""
    command = ["mandoc", "-K", "utf-8", "-T", "html", "-O", "fragment"]
    with TemporaryDirectory(dir="/tmp") as empty_folder:  # where `.so` finds no file
        try:
            result = subprocess.run(
                command,
                input=data,
                capture_output=True,
                timeout=_TIMEOUT_S,
                cwd=empty_folder,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f"mandoc took longer than {_TIMEOUT_S:g} s for the manual page"
            raise UnreadableDocument(reason) from None
    if result.returncode < 0:
        raise UnreadableDocument(f"mandoc was ended by signal {-result.returncode}")
    page = result.stdout.decode(errors="replace")
    title = _TITLE.search(page)
    body = _CODE.sub(lambda code: re.sub(r"\n?<br/?>", "", code[0]), _PAGE_FRAME.sub("", page))
    document = read_html(body.encode(), "utf-8", "the manual page", is_local=True)
    name_match = _NAME.match(document.text)
    if title is None:
        return document
    own_title = html.unescape(title[1])
    name = name_match[1] if name_match else own_title.lower() if own_title.isupper() else own_title
    return document._replace(title=f"{name}{title[2]}")
