"""Read rich text (RTF), such as letters and forms of offices, by striprtf."""

from __future__ import annotations

import re
from typing import Final

from moothall import UnreadableDocument
from moothall.research.reading.encodings import plain_text
from moothall.research.reading.flow import sub_or_superscript
from moothall.research.reading.html import Document

_RTF_START: Final = b"{\\rtf"
_TOKEN: Final = re.compile(r"\\([a-z]+)(-?\d+)? ?|\\'[0-9a-f]{2}|\\[^a-z]|[{}]|[^\\{}]+|\\", re.S)
_HIDING_CONTROLS: Final = ("strike", "striked", "deleted", "v")
_HEIGHT_SIGNS: Final = {"super": "^", "sub": "_", "nosupersub": ""}
_TITLE: Final = re.compile(r"\{\\title ([^{}]{1,300})\}")


def _shown_source(source: str) -> str:
    """Return rich text without what it strikes or hides, with raised numbers marked."""
    groups: list[tuple[frozenset[str], str]] = []
    hiding, sign, text_before, pieces = frozenset[str](), "", "", list[str]()
    for match in _TOKEN.finditer(source):
        token, word = match[0], match[1] or ""
        if token == "{":
            groups.append((hiding, sign))
        elif token == "}" and groups:
            hiding, sign = groups.pop()
        elif word in _HIDING_CONTROLS:
            hiding = hiding - {word} if match[2] == "0" else hiding | {word}
        elif word == "plain":
            hiding, sign = frozenset(), ""
        elif word in _HEIGHT_SIGNS:
            sign = "" if match[2] == "0" else _HEIGHT_SIGNS[word]
        elif hiding and (not word or word == "u"):
            token = ""
        elif not word and token[0] not in "{}\\":
            token, text_before = sub_or_superscript(token, text_before, sign), token
        pieces.append(token)
    return "".join(pieces)


def read_rtf(data: bytes) -> Document:
    """Read a document; raise UnreadableDocument if it is none."""
    from striprtf.striprtf import rtf_to_text

    if not data.lstrip().startswith(_RTF_START):
        raise UnreadableDocument("it is no rich text: it does not begin with {\\rtf")
    source = data.decode("latin-1")  # letters beyond ASCII are escapes, by the code page it names
    match = _TITLE.search(source)
    title = rtf_to_text(f"{{\\rtf1 {match[1]}}}", errors="replace") if match else ""
    text = rtf_to_text(_shown_source(source), errors="replace")
    return Document(" ".join(title.split()), plain_text(text), [])
