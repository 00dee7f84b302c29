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
_NUMBER = re.compile(r"\d[\d.,]*[+\u2212-]?\d+")
_RAISED: Final = 0.2  # of a digit's height
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
    pictures: list[str] = []
    length = 0
    for number in range(len(pdf)):
        try:
            text, is_picture = _read_page(pdf, number)
        except pypdfium2.PdfiumError:
            damaged.append(str(number + 1))
            continue
        if is_picture:
            pictures.append(str(number + 1))
        if text:
            sections.append(Section(length, f"page={number + 1}", f"page {number + 1}"))
            written.append(text)
            length += len(text) + 2
        if length > CHARACTERS:
            raise UnreadableDocument(f"the PDF has more than {CHARACTERS} characters of text")
    kinds = (("damaged page", damaged), ("scanned page", pictures))
    missing = "; ".join(f"{counted(len(e), kind)}: {', '.join(e)}" for kind, e in kinds if e)
    if not written:
        why = missing if damaged else "no text: its pages may be pictures"
        raise UnreadableDocument(f"the PDF has {why}")
    return Document(title, "\n\n".join(written), sections, missing=missing)


def _read_page(pdf: Any, number: int) -> tuple[str, bool]:
    """Return the text of a page, and whether it has none and shows a picture."""
    import pypdfium2.raw

    page = pdf[number]
    try:
        of_page = page.get_textpage()
        text = _with_raised(of_page.get_text_range(), of_page)
        kinds = () if text.strip() else page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])
        is_picture = any(True for _ in kinds)
    finally:
        page.close()
    text = _HYPHEN.sub("", plain(text.replace(_CUT, "-\n"))).strip()
    foot = _PRINTED.search(text)
    is_foot = foot is not None and (foot[1], foot[2]) == (str(number + 1), str(len(pdf)))
    return (text[: foot.start()].strip() if foot and is_foot else text), is_picture


def _with_raised(text: str, of_page: Any) -> str:
    """Return a text with `^` before what is raised after a number: 500 and a note 1 is not 5001."""
    from pypdfium2.raw import FPDFText_GetUnicode

    pieces, last = [], 0
    for found in _NUMBER.finditer(text):
        if any(FPDFText_GetUnicode(of_page, at) != ord(text[at]) for at in range(*found.span())):
            continue  # characters that have no place in the text are counted there
        _, low, _, high = of_page.get_charbox(found.start())
        for at in range(found.start() + 1, found.end()):
            _, bottom, _, top = of_page.get_charbox(at)
            if (
                text[at].isdigit()
                and bottom - low > _RAISED * (high - low) > 0
                and top - bottom < high - low
            ):
                begin = at - (text[at - 1] in "+-\u2212")
                pieces += [text[last:begin], "^"]
                last = begin
                break
    return "".join((*pieces, text[last:]))
