"""Read presentations of PowerPoint: the slides that are shown, with their notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moothall.research.reading.archives import (
    PackedFile,
    SectionWriter,
    drawing_texts,
    outermost,
    written_rows,
)
from moothall.research.reading.flow import span_of, sub_or_superscript
from moothall.research.reading.html import Document
from moothall.research.reading.office.open_document import slides_of

_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_TRUE: Final = ("1", "true")


def read_presentation(data: bytes) -> Document:
    """Return the text of each slide that is shown, with the speaker's notes."""
    packed = PackedFile(data, "presentation")
    if "content.xml" in packed.names:
        return slides_of(packed)
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
                span_of(cell, "gridSpan"),
            )
            for cell in row.iter(f"{_A}tc")
            if cell.get("hMerge") not in _TRUE
        ]


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
