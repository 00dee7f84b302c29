"""Read PDF: the title, the text of each page. Hostile files cost much: see process.py."""

from __future__ import annotations

import re
from typing import Any, Final

from moothall.errors import MissingExtra, UnreadableDocument
from moothall.research.findings import Section
from moothall.research.reading.html import Document, plain
from moothall.text import counted

PAGES: Final = 2000
CHARACTERS: Final = 20_000_000
_HYPHEN = re.compile(r"(?<=[a-zß-öø-ÿ])-\n(?=[a-zß-öø-ÿ])")  # at the end of a line
_OF_TOOL = re.compile(
    r"(?i)\A(?:\(?(?:anonymous|unspecified|untitled)\)?\Z|microsoft (?:word|excel|powerpoint) - )"
)
"""What programs write as a title where a person has given none."""
_PRINTED = re.compile(
    r"(?m)^(?:\d{1,2}[/.]\d{1,2}[/.]\d{2,4}, \d{1,2}:\d\d(?: [AP]M)?\n)?\w+://\S+ (\d+)/(\d+)\Z"
)
"""The foot of a page that a browser has printed: when, its address, and which page it is."""
_CUT: Final = "\ufffe"  # so PDFium joins the two lines that a hyphen divides


def read_pdf_bytes(data: bytes) -> Document:
    """Return a PDF's title and text, with a section for each page with text.

    A page that cannot be read is `missing`; the others are read.
    """
    MissingExtra.unless("reading PDF", "research", "pypdfium2")
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableDocument("the PDF is encrypted: a password is needed") from error
        raise UnreadableDocument(f"the PDF is damaged: {error}") from error
    if len(pdf) > PAGES:
        raise UnreadableDocument(f"the PDF has {len(pdf)} pages, {PAGES} are read at most")
    title = _OF_TOOL.sub("", plain(pdf.get_metadata_value("Title")).strip())
    written: list[str] = []
    sections: list[Section] = []
    damaged: list[str] = []
    length = 0
    for number in range(len(pdf)):
        try:
            text = _text_of(pdf, number)
        except pypdfium2.PdfiumError:
            damaged.append(str(number + 1))
            continue
        if text:
            sections.append(Section(length, f"page={number + 1}", f"page {number + 1}"))
            written.append(text)
            length += len(text) + 2
        if length > CHARACTERS:
            raise UnreadableDocument(f"the PDF has more than {CHARACTERS} characters of text")
    missing = f"{counted(len(damaged), 'damaged page')}: {', '.join(damaged)}" if damaged else ""
    if not written:
        raise UnreadableDocument(f"the PDF has {missing or 'no text: its pages may be pictures'}")
    return Document(title, "\n\n".join(written), sections, missing=missing)


def _text_of(pdf: Any, number: int) -> str:
    page = pdf[number]
    try:
        text = page.get_textpage().get_text_range()
    finally:
        page.close()
    text = _HYPHEN.sub("", plain(text.replace(_CUT, "-\n"))).strip()
    foot = _PRINTED.search(text)
    is_foot = foot is not None and (foot[1], foot[2]) == (str(number + 1), str(len(pdf)))
    return text[: foot.start()].strip() if foot and is_foot else text
