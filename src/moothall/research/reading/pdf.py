"""Read PDF: the title, the text of each page. Hostile files cost much: see process.py."""

from __future__ import annotations

import io
import logging
import re
from typing import Final

from moothall.errors import MissingExtra, UnreadableDocument
from moothall.research.findings import Section
from moothall.research.reading.html import Document, plain

PAGES: Final = 2000
CHARACTERS: Final = 20_000_000
_HYPHEN = re.compile(r"(?<=[a-zß-öø-ÿ])-\n(?=[a-zß-öø-ÿ])")  # at the end of a line


def read_pdf_bytes(data: bytes) -> Document:
    """Return a PDF's title and text, with a section for each page with text."""
    MissingExtra.unless("reading PDF", "research", "pypdf")
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of each flaw that it repairs
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("the PDF is encrypted: a password is needed")
        if len(reader.pages) > PAGES:
            raise UnreadableDocument(
                f"the PDF has {len(reader.pages)} pages, {PAGES} are read at most"
            )
        title = plain(str((reader.metadata and reader.metadata.title) or "")).strip()
        written: list[str] = []
        sections: list[Section] = []
        length = 0
        for number, page in enumerate(reader.pages, 1):
            if text := _HYPHEN.sub("", plain(page.extract_text())).strip():
                sections.append(Section(length, f"page={number}", f"page {number}"))
                written.append(text)
                length += len(text) + 2
            if length > CHARACTERS:
                raise UnreadableDocument(f"the PDF has more than {CHARACTERS} characters of text")
    except (UnreadableDocument, MemoryError):
        raise
    except Exception as error:  # a malicious file can make the parser raise anything
        raise UnreadableDocument(f"the PDF is damaged: {type(error).__name__}: {error}") from error
    if not written:
        raise UnreadableDocument("the PDF has no text: its pages may be pictures")
    return Document(title, "\n\n".join(written), sections)
