"""Read texts and presentations of OpenDocument; what they hide is left out."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, Final

from moothall.research.reading.archives import (
    PackedFile,
    SectionWriter,
    outermost,
    written_rows,
)
from moothall.research.reading.flow import mark_script_number, span_of
from moothall.research.reading.html import Document
from moothall.research.reading.office.list_numbers import LABEL, mark_labels

_MAX_REPEATED: Final = 100  # cells that a file writes as one
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


def slides_of(packed: PackedFile) -> Document:
    """Return the text of each slide that is shown."""
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
        count = min(span_of(cell, f"{_TABLE}number-columns-repeated"), _MAX_REPEATED)
        if cell.tag.endswith("covered-table-cell"):
            yield from [(None, 1)] * (count - covered)
            covered = max(covered - count, 0)
            continue
        width = span_of(cell, f"{_TABLE}number-columns-spanned")
        text = " ".join(" ".join(map(_block_text, _blocks(cell))).split())
        yield from [(text, width)] * count
        covered = width - 1
