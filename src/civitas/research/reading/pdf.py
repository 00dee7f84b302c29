"""PDF as text: a section for each page."""

from __future__ import annotations

import io
import logging
import time
from typing import Any

from civitas.errors import MissingExtra, UnreadableDocument
from civitas.research.findings import Section
from civitas.research.reading.html import plain

# What is longer, or takes longer, is not read.
PAGES, CHARACTERS, SECONDS = 2000, 20_000_000, 120.0


def read_pdf_bytes(data: bytes) -> tuple[str, str, list[Section]]:
    """The title, text and pages of a PDF, a section for each that has text. It may take long."""
    try:
        import pypdf
    except ImportError as error:
        raise MissingExtra("reading PDF", "research") from error
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of each flaw that it mends
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("the PDF is encrypted: a password is needed")
        if len(reader.pages) > PAGES:
            raise UnreadableDocument(
                f"the PDF has {len(reader.pages)} pages, {PAGES} are read at most"
            )
        title = plain(str((reader.metadata and reader.metadata.title) or "")).strip()
        text, sections = _read(reader)
    except UnreadableDocument:
        raise
    except Exception as error:  # whatever a file made of malice makes the parser raise
        raise UnreadableDocument(f"the PDF is damaged: {type(error).__name__}: {error}") from error
    if not text:
        raise UnreadableDocument("the PDF has no text: its pages may be pictures")
    return title, text, sections


def _read(reader: Any) -> tuple[str, list[Section]]:
    until = time.monotonic() + SECONDS
    written: list[str] = []
    sections: list[Section] = []
    length = 0
    for number, page in enumerate(reader.pages, 1):
        text = plain(page.extract_text()).strip()
        if text:
            sections.append(Section(length, f"page={number}", f"page {number}"))
            written.append(text)
            length += len(text) + 2
        if length > CHARACTERS:
            raise UnreadableDocument(f"the PDF has more than {CHARACTERS} characters of text")
        if time.monotonic() > until:
            raise UnreadableDocument(f"the PDF took longer than {SECONDS:g} s, at page {number}")
    return "\n\n".join(written), sections
