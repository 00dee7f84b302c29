"""Read spreadsheets, presentations, OpenDocument texts and mails; what they hide is left out."""

from __future__ import annotations

import csv
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Final

from moothall.errors import MissingExtra, UnreadableDocument
from moothall.research.findings import Section
from moothall.research.reading.documents import table
from moothall.research.reading.html import Document, plain, read_html
from moothall.research.reading.packed import Packed
from moothall.text import counted

_ROWS: Final = 200_000  # of a spreadsheet
_MAILS: Final = 10_000
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW: Final = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_OFFICE: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_NOT_SHOWN: Final = frozenset(
    (f"{_OFFICE}annotation", f"{_TEXT}tracked-changes", f"{_TEXT}hidden-text")
)
# A cell with a formula and no value, as programs write it that do not reckon; "str" may be empty.
_UNRECKONED: Final = re.compile(
    rb"<(?:\w+:)?c\b(?![^>]*\bt=[\"']str)[^>]*>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</[^>]*>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</[^>]*>)?\s*</(?:\w+:)?c>"
)
_SAID: Final = ("Subject", "From", "To", "Cc", "Date")
_MAIL: Final = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n")


class _Writer:
    """The text of a document as it is put together, with its sections."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.sections: list[Section] = []
        self._length = 0

    def section(self, anchor: str, title: str) -> None:
        """Begin a section here."""
        self.sections.append(Section(self._length, anchor, title))

    def write(self, text: str) -> None:
        """Add a paragraph."""
        if text := plain(text).strip():
            self._pieces.append(text)
            self._length += len(text) + 2

    def document(self, what: str, title: str = "", missing: str = "") -> Document:
        """Return what was written."""
        if not self._pieces:
            raise UnreadableDocument(f"the {what} has no text{f', {missing}' if missing else ''}")
        return Document(title, "\n\n".join(self._pieces), self.sections, missing=missing)


def read_spreadsheet(data: bytes) -> Document:
    """Return the rows of each sheet that is shown, as `column: value; …`."""
    MissingExtra.unless("reading spreadsheets", "research", "python_calamine")
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    made = _Writer()
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        shown = [e.name for e in book.sheets_metadata if e.visible == SheetVisibleEnum.Visible]
        for number, name in enumerate(shown, 1):
            rows = book.get_sheet_by_name(name).to_python()
            if len(rows) > _ROWS:
                raise UnreadableDocument(f"it has more than {_ROWS:,} rows, in sheet {name[:80]!r}")
            written = io.StringIO(newline="")
            csv.writer(written).writerows([*map(_cell, row)] for row in rows)
            read = table(written.getvalue(), ",")
            for each, text in _parts(read):
                where = each.title.removesuffix("row 1").removesuffix(" – ")
                title = " – ".join(filter(None, (name if len(shown) > 1 else "", where)))
                made.section(f"sheet={number}&{each.anchor}", title)
                made.write(text)
    except CalamineError as error:
        locked = "password" in str(error).lower()
        why = "is encrypted: a password is needed" if locked else f"is damaged: {error}"
        raise UnreadableDocument(f"the spreadsheet {why}") from error
    return made.document("spreadsheet", missing=_unreckoned(data))


def _unreckoned(data: bytes) -> str:
    """Return how many cells of a workbook have a formula whose value nobody has stored."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return ""
    packed = Packed(data, "spreadsheet")
    sheets = [each for each in packed.names if re.fullmatch(r"xl/worksheets/[^/]+\.xml", each)]
    try:
        count = sum(len(_UNRECKONED.findall(packed.read(each))) for each in sheets)
    except UnreadableDocument:  # too large to be looked through; its rows are read
        count = 0
    if not count:
        return ""
    return f"{counted(count, 'formula')} without a stored value: save it in a spreadsheet program"


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " ".join(str(value).split())


def _parts(read: Document) -> Iterator[tuple[Section, str]]:
    sections = read.sections or [Section(0, "row-1", "")]
    ends = [*(each.start for each in sections[1:]), len(read.text)]
    for each, end in zip(sections, ends, strict=True):
        yield each, read.text[each.start : end]


def read_presentation(data: bytes) -> Document:
    """Return the text of each slide that is shown, with the speaker's notes."""
    packed = Packed(data, "presentation")
    if "content.xml" in packed.names:
        return _open_presentation(packed)
    made = _Writer()
    whole = packed.tree("ppt/presentation.xml")
    to = _relations(packed, "ppt/presentation.xml")
    slides = [to.get(each.get(f"{_R}id"), "") for each in whole.iter(f"{_P}sldId")]
    for number, name in enumerate(slides, 1):
        if name not in packed.names or (slide := packed.tree(name)).get("show") in ("0", "false"):
            continue
        title = " ".join(_title_of(slide).split())[:200]
        made.section(f"slide={number}", title or f"slide {number}")
        made.write("\n".join(filter(None, _drawn(slide))))
        notes = (each for each in _relations(packed, name).values() if "/notesSlides/" in each)
        for each in notes:
            if each in packed.names:
                made.write("\n".join(_drawn(packed.tree(each))))
    return made.document("presentation")


def _relations(packed: Packed, name: str) -> dict[str, str]:
    """Return the parts that a part names, by their ids."""
    folder, _, file = name.rpartition("/")
    rels = f"{folder}/_rels/{file}.rels"
    if rels not in packed.names:
        return {}
    return {
        each.get("Id") or "": posixpath.normpath(posixpath.join(folder, each.get("Target") or ""))
        for each in packed.tree(rels)
        if each.get("TargetMode") != "External"
    }


def _title_of(slide: Any) -> str:
    for shape in slide.iter(f"{_P}sp"):
        kind = shape.find(f".//{_P}ph")
        if kind is not None and kind.get("type") in ("title", "ctrTitle"):
            return " ".join(_drawn(shape))
    return ""


def _drawn(part: Any) -> Iterator[str]:
    """Yield the paragraphs of a slide, and the rows of its tables."""
    for each in part.iter(f"{_A}tr", f"{_A}p"):
        if each.tag == f"{_A}tr":
            cells = (" ".join(map(_run, cell.iter(f"{_A}p"))) for cell in each.iter(f"{_A}tc"))
            yield " | ".join(cells)
        elif not any(above.tag == f"{_A}tc" for above in each.iterancestors()):
            yield _run(each).strip()


def _run(paragraph: Any) -> str:
    written = (
        "\n" if e.tag == f"{_A}br" else e.text or "" for e in paragraph.iter(f"{_A}t", f"{_A}br")
    )
    return "".join(written)


def _open_presentation(packed: Packed) -> Document:
    made = _Writer()
    for number, page in enumerate(packed.tree("content.xml").iter(f"{_DRAW}page"), 1):
        made.section(f"slide={number}", f"slide {number}")
        made.write("\n".join(map(_said, page.iter(f"{_TEXT}p", f"{_TEXT}h"))))
    return made.document("presentation")


def read_odt(data: bytes) -> Document:
    """Return an OpenDocument text, with a section for each heading."""
    packed = Packed(data, "ODT")
    body = packed.tree("content.xml").find(f".//{_OFFICE}text")
    made, title, number = _Writer(), "", 0
    for block in () if body is None else _blocks(body):
        text = " | ".join(map(_said, block)) if isinstance(block, list) else _said(block)
        if not isinstance(block, list) and block.tag == f"{_TEXT}h" and text.strip():
            number += 1
            heading = " ".join(text.split())[:200]
            made.section(f"heading={number}", heading if title else "")
            title = title or heading
        made.write(text)
    return made.document("ODT", title)


def _blocks(body: Any) -> Iterator[Any]:
    """Yield headings and paragraphs, and each row of a table as a list of cells."""
    for each in body:
        if each.tag in (f"{_TEXT}h", f"{_TEXT}p"):
            yield each
        elif each.tag == f"{_TABLE}table-row":
            yield [*each.iter(f"{_TABLE}table-cell")]
        elif each.tag not in _NOT_SHOWN:
            yield from _blocks(each)


def _said(element: Any) -> str:
    """Return the text of an element of OpenDocument, without comments and what is hidden."""
    if element.tag in _NOT_SHOWN:
        return ""
    if element.tag == f"{_TEXT}s":
        return " " * min(int(element.get(f"{_TEXT}c") or 1), 100)
    if element.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
        return "\n" if element.tag.endswith("break") else "\t"
    return (element.text or "") + "".join(f"{_said(each)}{each.tail or ''}" for each in element)


def read_mail(data: bytes) -> Document:
    """Return a mail, or the mails of a mailbox: who says what to whom; attachments are missing."""
    starts = [each.end() for each in _MAIL.finditer(data)][:_MAILS]
    ends = [*(each.start() for each in _MAIL.finditer(data)), len(data)][1:] if starts else []
    mails = [data[a:b] for a, b in zip(starts, ends, strict=False)] or [data]
    made, left_out, title = _Writer(), [], ""
    for number, each in enumerate(mails, 1):
        mail: EmailMessage = message_from_bytes(each, policy=default)
        subject = " ".join(str(mail.get("Subject", "")).split())[:200]
        title = title or subject
        made.section(f"mail={number}", subject if len(mails) > 1 else "")
        made.write("\n".join(f"{name}: {mail[name]}" for name in _SAID if mail[name]))
        made.write(_body(mail))
        left_out += [part.get_filename() or "?" for part in mail.iter_attachments()]
    missing = ", ".join(left_out[:10]) + ", …" * (len(left_out) > 10)
    missing = f"{counted(len(left_out), 'attachment')} not read: {missing}" if left_out else ""
    return made.document("mail", title if len(mails) == 1 else "", missing)


def _body(mail: EmailMessage) -> str:
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
    content: Any = part.get_content()
    if part.get_content_type() != "text/html":
        return str(content)
    return read_html(str(content).encode(), "utf-8", "mail", local=True).text
