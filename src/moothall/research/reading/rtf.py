"""Read rich text (RTF), such as letters and forms of offices, by striprtf."""

from __future__ import annotations

import re
from typing import Final

from moothall import UnreadableDocument
from moothall.research.reading.encodings import plain_text
from moothall.research.reading.html import Document

_BEGINS: Final = b"{\\rtf"
_TITLE: Final = re.compile(r"\{\\title ([^{}]{1,300})\}")


def read_rtf(data: bytes) -> Document:
    """Read a document; raise UnreadableDocument if it is none."""
    from striprtf.striprtf import rtf_to_text

    if not data.lstrip().startswith(_BEGINS):
        raise UnreadableDocument("it is no rich text: it does not begin with {\\rtf")
    source = data.decode("latin-1")  # letters beyond ASCII are escapes, by the code page it names
    match = _TITLE.search(source)
    title = rtf_to_text(f"{{\\rtf1 {match[1]}}}", errors="replace") if match else ""
    return Document(" ".join(title.split()), plain_text(rtf_to_text(source, errors="replace")), [])
