"""Read spreadsheets, presentations, OpenDocument texts and mails; what they hide is left out."""

from __future__ import annotations

import csv
import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Final

from moothall import MissingExtra, UnreadableDocument
from moothall.build import counted
from moothall.research.findings import Section
from moothall.research.reading.archives import (
    PackedFile,
    SectionWriter,
    drawing_texts,
    outermost,
    written_rows,
)
from moothall.research.reading.encodings import decode_text
from moothall.research.reading.flow import mark_script_number, sub_or_superscript
from moothall.research.reading.html import AttachedFile, Document, read_html
from moothall.research.reading.list_numbers import LABEL, mark_labels
from moothall.research.reading.sheet_formats import (
    SheetLook,
    sheet_looks,
    shown_number,
    without_stale_values,
    write_as_shown,
)
from moothall.research.reading.tables import table_document

_MAX_ROWS: Final = 200_000  # of a spreadsheet
_MAX_MAILS: Final = 10_000
_MAX_REPEATED: Final = 100  # cells that a file of OpenDocument writes as one
_TRUE: Final = ("1", "true")
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW: Final = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_OFFICE: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_NOT_SHOWN: Final = frozenset(
    (
        *(f"{_TEXT}{e}" for e in ("tracked-changes", "hidden-text", "ruby-text", "note-citation")),
        f"{_OFFICE}annotation",
    )
)
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_PARAGRAPHS: Final = (f"{_TEXT}h", f"{_TEXT}p")
_STYLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_HIDDEN_MARK: Final = "hidden"  # an attribute of ours
_SIGNS_BY_HEIGHT: Final = {"sup": "^", "sub": "_"}
_STUB_WORDS: Final = 100  # words of a mail's text, below which its page may say more
_MAIL_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")
_MAIL_START: Final = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n(?=[\w-]+:)")
_PATCH_START: Final = re.compile(rb"From [0-9a-f]{40} ")  # of a mail that Git writes
_QUOTED_FROM: Final = re.compile(rb"^>(?=>*From )", re.MULTILINE)  # so a mailbox keeps it


def read_spreadsheet(data: bytes) -> Document:
    """Return the rows of each sheet that is shown, as `column: value; …`."""
    MissingExtra.unless("reading spreadsheets", "research", "python_calamine", "xlrd")
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    writer = SectionWriter()
    looks_by_sheet, hidden = sheet_looks(data), Counter[str]()
    data, missing = (
        without_stale_values(data) if zipfile.is_zipfile(io.BytesIO(data)) else (data, "")
    )
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        visible_names = [
            e.name for e in book.sheets_metadata if e.visible == SheetVisibleEnum.Visible
        ]
        for number, name in enumerate(visible_names, 1):
            sheet = book.get_sheet_by_name(name)
            rows = sheet.to_python()
            if len(rows) > _MAX_ROWS:
                raise UnreadableDocument(
                    f"it has more than {_MAX_ROWS:,} rows, in sheet {name[:80]!r}"
                )
            look = looks_by_sheet.get(name) or SheetLook({}, set(), set())
            hidden += write_as_shown(rows, sheet, look)
            rows_as_csv = io.StringIO(newline="")
            csv.writer(rows_as_csv).writerows([*map(_cell_text, row)] for row in rows)
            document = table_document(rows_as_csv.getvalue(), ",")
            for each, text in _section_texts(document):
                sheet_name = each.title.removesuffix("row 1").removesuffix(" – ")
                title = " – ".join(
                    filter(None, (name if len(visible_names) > 1 else "", sheet_name))
                )
                writer.begin_section(f"sheet={number}&{each.anchor}", title)
                writer.write(text)
    except CalamineError as error:
        is_locked = "password" in str(error).lower()
        reason = "is encrypted: a password is needed" if is_locked else f"is damaged: {error}"
        raise UnreadableDocument(f"the spreadsheet {reason}") from error
    faults = [missing, *(counted(count, kind) for kind, count in hidden.items() if count)]
    return writer.document("spreadsheet", missing="; ".join(filter(None, faults)))


def _cell_text(value: Any) -> str:
    if isinstance(value, timedelta):  # hours may be more than a day has
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return shown_number(value) if isinstance(value, float) else " ".join(str(value).split())


def _section_texts(document: Document) -> Iterator[tuple[Section, str]]:
    sections = document.sections or [Section(0, "row-1", "")]
    ends = [*(each.start for each in sections[1:]), len(document.text)]
    for each, end in zip(sections, ends, strict=True):
        yield each, document.text[each.start : end]


def read_presentation(data: bytes) -> Document:
    """Return the text of each slide that is shown, with the speaker's notes."""
    packed = PackedFile(data, "presentation")
    if "content.xml" in packed.names:
        return _open_presentation(packed)
    writer = SectionWriter()
    home = packed.main_part_name("ppt/presentation.xml")
    names_by_id = {each.id: each.name for each in packed.related_parts(home)}
    slides = [
        names_by_id.get(e.get(f"{_R}id"), "") for e in packed.parse_xml(home).iter(f"{_P}sldId")
    ]
    for number, name in enumerate(slides, 1):
        if name not in packed.names or (slide := packed.parse_xml(name)).get("show") in (
            "0",
            "false",
        ):
            continue
        for each in [e for e in slide.iter(f"{_P}cNvPr") if e.get("hidden") in _TRUE]:
            shape = each.getparent().getparent()
            shape.getparent().remove(shape)
        title = " ".join(_first_title(slide).split())[:200]
        writer.begin_section(f"slide={number}", title or f"slide {number}")
        writer.write("\n\n".join(_shape_texts(slide)))
        for each in drawing_texts(packed, name):
            writer.write(each)
        for part in packed.related_parts(name):
            if part.kind == "notesSlide":
                writer.write("\n\n".join(_shape_texts(packed.parse_xml(part.name))))
    return writer.document("presentation")


def _first_title(slide: Any) -> str:
    """Return a slide's title, which comes first now, wherever the file has it."""
    for shape in slide.iter(f"{_P}sp"):
        kind = shape.find(f".//{_P}ph")
        if kind is not None and kind.get("type") in ("title", "ctrTitle"):
            shape.getparent().insert(0, shape)
            return " ".join(_shape_texts(shape))
    return ""


def _shape_texts(part: Any) -> Iterator[str]:
    """Yield the paragraphs of a slide, those of its body as items, and its tables."""
    for each in outermost(part, f"{_A}tbl", f"{_A}p"):
        if each.tag == f"{_A}tbl":
            yield written_rows(_rows(each))
        elif text := _paragraph_text(each).strip():
            yield f"- {text}" if _is_item(each) else text


def _is_item(paragraph: Any) -> bool:
    """Return whether a mark stands before a paragraph, as before those of a slide's body."""
    for mark in paragraph.iterfind(f"{_A}pPr/*"):
        if mark.tag in (f"{_A}buNone", f"{_A}buChar", f"{_A}buAutoNum"):
            return not mark.tag.endswith("buNone")
    shape = next(paragraph.iterancestors(f"{_P}sp"), None)
    kind = None if shape is None else shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return kind is not None and kind.get("type") in (None, "obj", "body")


def _rows(table: Any) -> Iterator[list[tuple[str | None, int]]]:
    """Yield the cells of each row, with their widths; None goes on from the row above."""
    for row in table.iter(f"{_A}tr"):
        yield [
            (
                " ".join(map(_paragraph_text, cell.iter(f"{_A}p")))
                if cell.get("vMerge") not in _TRUE
                else None,
                _count(cell, "gridSpan"),
            )
            for cell in row.iter(f"{_A}tc")
            if cell.get("hMerge") not in _TRUE
        ]


def _count(cell: Any, name: str) -> int:
    value = cell.get(name) or ""
    return int(value[:3]) if value.isdecimal() else 1


def _paragraph_text(paragraph: Any) -> str:
    text = ""
    for each in paragraph.iter(f"{_A}t", f"{_A}br"):
        run_properties = each.getparent().find(f"{_A}rPr")
        properties = {} if run_properties is None else run_properties
        height = properties.get("baseline") or ""
        sign = "_" if height.startswith("-") else "^" if height.strip("0%.") else ""
        if each.tag == f"{_A}br":
            text += "\n"
        elif properties.get("strike", "noStrike") == "noStrike":
            text += sub_or_superscript(each.text or "", text, sign)
    return text


def _open_presentation(packed: PackedFile) -> Document:
    writer = SectionWriter()
    for number, page in enumerate(_marked_content(packed).iter(f"{_DRAW}page"), 1):
        if page.get(_HIDDEN_MARK) is None:
            writer.begin_section(f"slide={number}", f"slide {number}")
            for block in _blocks(page):
                writer.write(_block_text(block))
    return writer.document("presentation")


def read_odt(data: bytes) -> Document:
    """Return an OpenDocument text, with a section for each heading."""
    packed = PackedFile(data, "ODT")
    tree = _marked_content(packed)
    mark_labels(tree, packed.parse_xml("styles.xml") if "styles.xml" in packed.names else None)
    body = tree.find(f".//{_OFFICE}text")
    writer, title, number = SectionWriter(), "", 0
    for block in () if body is None else _blocks(body):
        text = _block_text(block)
        if block.tag == f"{_TEXT}h" and text.strip():
            number += 1
            heading = " ".join(text.split())[:200]
            writer.begin_section(f"heading={number}", heading if title else "")
            title = title or heading
        writer.write(text)
    return writer.document("ODT", title)


def _marked_content(packed: PackedFile) -> Any:
    """Return the content of OpenDocument, with what its styles hide, strike and raise marked."""
    tree = packed.parse_xml("content.xml")
    for each in tree.iter(f"{_DRAW}object"):  # such as a chart, which has its title and its table
        name = posixpath.normpath(f"{each.get(_LINK) or ''}/content.xml")
        if (
            name in packed.names
            and (body := packed.parse_xml(name).find(f"{_OFFICE}body")) is not None
        ):
            each.append(body)
    hidden, raised = set[str](), dict[str, str]()
    for style in tree.iter(f"{_STYLE}style"):
        values = {name.rpartition("}")[2]: value for e in style for name, value in e.items()}
        is_hidden = values.get("display") == "none" or values.get("visibility") == "hidden"
        if is_hidden or values.get("text-line-through-style", "none") != "none":
            hidden.add(style.get(f"{_STYLE}name"))
        if sign := _SIGNS_BY_HEIGHT.get(values.get("text-position", "")[:3]):
            raised[style.get(f"{_STYLE}name")] = sign
    for each in [*tree.iter()] if hidden or raised else ():
        names = {each.get(f"{_TEXT}style-name"), each.get(f"{_DRAW}style-name")}
        if names & hidden:
            each.set(_HIDDEN_MARK, "true")
        for name in names & raised.keys():
            mark_script_number(each, raised[name])
    return tree


def _is_hidden(element: Any) -> bool:
    is_hidden = element.get(_HIDDEN_MARK) or element.get(f"{_TEXT}display") == "none"
    return bool(is_hidden) or element.tag in _NOT_SHOWN


def _is_separate(element: Any) -> bool:
    """Return whether an element in a paragraph is a text of its own: a note, or in a drawing."""
    return element.tag == f"{_TEXT}note" or str(element.tag).startswith(_DRAW)


def _separate_texts(element: Any) -> Iterator[Any]:
    for each in element:
        if _is_separate(each):
            yield each
        else:
            yield from _separate_texts(each)


def _blocks(body: Any) -> Iterator[Any]:
    """Yield headings, paragraphs with their notes below, and tables."""
    for each in body:
        if _is_hidden(each):
            continue
        if each.tag == f"{_TABLE}table":
            yield each
        elif each.tag in _PARAGRAPHS:
            yield each
            for inside in _separate_texts(each):
                yield from _blocks(inside)
        else:
            yield from _blocks(each)


def _text_in(element: Any) -> str:
    """Return the text of an element of OpenDocument, without comments and what is hidden."""
    if _is_hidden(element) or _is_separate(element):
        return ""
    if element.tag == f"{_TEXT}s":
        return " " * min(int(element.get(f"{_TEXT}c") or 1), 100)
    if element.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
        return "\n" if element.tag.endswith("break") else "\t"
    return (element.text or "") + "".join(f"{_text_in(each)}{each.tail or ''}" for each in element)


def _block_text(block: Any) -> str:
    """Return the text of a paragraph, or of a table."""
    if block.tag == f"{_TABLE}table":
        rows = outermost(block, f"{_TABLE}table-row")
        return written_rows([*_cells(row)] for row in rows if not _is_hidden(row))
    text, label = _text_in(block), block.get(LABEL)
    return f"{label} {text}" if label and text.strip() else text


def _cells(row: Any) -> Iterator[tuple[str | None, int]]:
    """Yield what each cell says, in one line, and its width; None goes on from the row above."""
    covered = 0  # cells that the one before goes over
    for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
        count = min(_count(cell, f"{_TABLE}number-columns-repeated"), _MAX_REPEATED)
        if cell.tag.endswith("covered-table-cell"):
            yield from [(None, 1)] * (count - covered)
            covered = max(covered - count, 0)
            continue
        width = _count(cell, f"{_TABLE}number-columns-spanned")
        text = " ".join(" ".join(map(_block_text, _blocks(cell))).split())
        yield from [(text, width)] * count
        covered = width - 1


def read_mail(data: bytes) -> Document:
    """Return a mail, or the mails of a mailbox, with what is attached: who says what to whom."""
    borders = [*_MAIL_START.finditer(data)] if data.startswith(b"From ") else []
    if not _PATCH_START.match(data):  # a patch in a mail is none of its own
        borders = [each for each in borders if not _PATCH_START.match(each[0])]
    ends = [*(each.start() for each in borders), len(data)][1:]
    mails = [
        _QUOTED_FROM.sub(b"", data[each.end() : end])
        for each, end in zip(borders[:_MAX_MAILS], ends, strict=False)
    ] or [data]
    writer, title = SectionWriter(), ""
    attached: list[AttachedFile] = []
    damaged_count = 0
    for number, each in enumerate(mails, 1):
        mail: EmailMessage = message_from_bytes(each, policy=default)
        subject = " ".join(_header(mail, "Subject").split())[:200]
        title = title or subject
        writer.begin_section(f"mail={number}", subject if len(mails) > 1 else "")
        try:
            _write_mail(mail, writer, attached)
        except Exception:  # the parser of mails raises anything
            damaged_count += 1
    unread_count = max(len(ends) - _MAX_MAILS, 0)
    kinds = (
        ("damaged mail", damaged_count),
        (f"mail beyond the first {_MAX_MAILS:,}", unread_count),
    )
    missing = "; ".join(counted(count, kind) for kind, count in kinds if count)
    return writer.document("mail", title if len(mails) == 1 else "", missing, attached)


def _header(mail: EmailMessage, name: str) -> str:
    """Return a header, as it is written if it cannot be parsed."""
    try:
        return str(mail.get(name, ""))
    except Exception:  # such as an address without an end
        return str(next(value for key, value in mail.raw_items() if key.lower() == name.lower()))


def _write_mail(mail: EmailMessage, writer: SectionWriter, attached: list[AttachedFile]) -> None:
    """Write a mail with those that it forwards, and collect what is attached."""
    headers = ((name, _header(mail, name)) for name in _MAIL_HEADERS)
    writer.write("\n".join(f"{name}: {value}" for name, value in headers if value))
    if (body := mail.get_body(("plain", "html"))) is not None:
        writer.write(_fuller_text(mail, _text_of(body)))
    elif mail.get_content_maintype() == "multipart" and not mail.is_multipart():
        writer.write(str(mail.get_payload()))  # its parts have no border
    elif not mail.is_multipart():
        attached.append((mail.get_filename() or "?", _bytes_of(mail)))
    for part in mail.iter_attachments():
        name = part.get_filename()
        if part.get_content_type() == "message/rfc822":
            _write_mail(part.get_content(), writer, attached)
        elif name is None and part.get_content_type() in ("text/plain", "text/html"):
            writer.write(_text_of(part))
        else:
            attached.append((name or "?", _bytes_of(part)))


def _fuller_text(mail: EmailMessage, text: str) -> str:
    """Return the text of a mail, or that of its page if the text is only a stub of it."""
    page, words = mail.get_body(("html",)), len(text.split())
    if page is not None and words < _STUB_WORDS:
        with suppress(UnreadableDocument):
            page_text = _text_of(page)
            return page_text if len(page_text.split()) > 2 * words else text
    return text


def _bytes_of(part: Any) -> bytes:
    return part.get_payload(decode=True) or b""


def _text_of(part: Any) -> str:
    data, charset = _bytes_of(part), part.get_content_charset()
    if part.get_content_type() == "text/html":
        return read_html(data, charset, "mail", is_local=True).text
    return decode_text(data, charset)
