"""Read Word documents: the text that a reader sees, formulas and charts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from moothall import MissingExtra
from moothall.research.reading.archives import (
    FALLBACK_TAG,
    PackedFile,
    SectionWriter,
    drawing_texts,
    outermost,
    written_rows,
)
from moothall.research.reading.encodings import plain_text
from moothall.research.reading.flow import formula_line, formula_part, span_of, sub_or_superscript
from moothall.research.reading.html import Document, is_title_of
from moothall.research.reading.office.list_numbers import WordNumbers

_LONGEST_HEADING: Final = 200
_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_WHITE: Final = frozenset(("FFFFFF", "FEFEFE", "FDFDFD"))
_FALSE_VALUES: Final = ("0", "false", "off")
_SIGNS_BY_HEIGHT: Final = {"superscript": "^", "subscript": "_"}
_PARAGRAPH: Final = f"{_W}p"
_TABLE: Final = f"{_W}tbl"
_SIGNS_BY_TAG: Final = {
    f"{_W}tab": "\t",
    f"{_W}ptab": "\t",
    f"{_W}br": "\n",
    f"{_W}cr": "\n",
    f"{_W}noBreakHyphen": "-",
}
_PROPERTIES: Final = tuple(f"{_W}{e}" for e in ("rPr", "pPr", "tcPr", "tblPr"))
_SWITCHES: Final = ("vanish", "strike", "dstrike")  # what one of these is set for is not said
_STYLE_TAGS: Final = tuple(f"{_W}{e}" for e in ("rStyle", "pStyle", "tblStyle"))
_NOT_WRITTEN: Final = frozenset(
    (*(f"{_W}{e}" for e in ("del", "moveFrom", "rPr", "pPr", "instrText", "rt")), FALLBACK_TAG)
)


def read_docx(data: bytes) -> Document:
    """Return a Word document's title and text as shown, a section for each heading."""
    MissingExtra.unless("reading DOCX", "research", "lxml")
    packed = PackedFile(data, "DOCX")
    home = packed.main_part_name("word/document.xml")
    usual_parts = ("styles", "numbering", "footnotes", "endnotes")
    usual_names = {each: f"word/{each}.xml" for each in usual_parts}
    parts = {kind: name for kind, name in usual_names.items() if name in packed.names}
    parts |= {each.kind: each.name for each in packed.related_parts(home)}
    style_elements = packed.parse_xml(parts["styles"]) if "styles" in parts else ()
    numbering = packed.parse_xml(parts["numbering"]) if "numbering" in parts else None
    styles = _read_styles(style_elements, WordNumbers(numbering, style_elements))
    notes = [packed.parse_xml(parts[each]) for each in ("footnotes", "endnotes") if each in parts]
    writer, path = SectionWriter(), list[tuple[int, str]]()
    title = joined_text = ""
    for block in chain.from_iterable(
        outermost(e, _PARAGRAPH, _TABLE) for e in (packed.parse_xml(home), *notes)
    ):
        if block.tag == _TABLE:
            text = written_rows(_rows(block, styles))
        else:
            text = joined_text + "\n".join(filter(None, _paragraph_texts(block, styles)))
            joined_text = ""
            if block.find(f"{_W}pPr/{_W}rPr/{_W}del") is not None:  # it goes on in the next one
                joined_text = text
                continue
        heading = " ".join(plain_text(text).split())[:_LONGEST_HEADING]
        level = (
            _heading_level(block, styles.levels) if block.tag == _PARAGRAPH and heading else None
        )
        if level is not None:
            path = [each for each in path if each[0] < level] + [(level, heading)]
            title = title or heading
            headings = " – ".join(each for _, each in path if each != title)
            writer.begin_section(f"heading={len(writer.sections) + 1}", headings)
        writer.write(text)
    for each in (joined_text, *drawing_texts(packed, home)):
        writer.write(each)
    document, core_title = (
        writer.document("DOCX", title),
        packed.metadata_title("docProps/core.xml"),
    )
    is_own = is_title_of(core_title, document.text)
    return document._replace(title=core_title) if is_own else document


class _Styles(NamedTuple):
    """The styles by their ids: levels of headings, those with a colour behind, switches set.

    `numbers` are those of lists, which count the paragraphs.
    """

    levels: dict[str, int]
    shaded: set[str]
    hidden: set[tuple[str, str]]
    numbers: WordNumbers


def _read_styles(style_elements: Any, numbers: WordNumbers) -> _Styles:
    styles = _Styles({}, set(), set(), numbers)
    for style in style_elements:
        name_element, id = style.find(f"{_W}name"), style.get(f"{_W}styleId") or ""
        value = "" if name_element is None else name_element.get(f"{_W}val") or ""
        name, _, level = value.lower().partition(" ")
        if name == "heading" and level.isdecimal() and len(level) == 1:
            styles.levels[id] = int(level)
        elif value.lower() == "title":
            styles.levels[id] = 0
        if any(map(_is_dark, style.iter(f"{_W}shd"))):
            styles.shaded.add(id)
        switches = (each for each in _SWITCHES if _is_on(style.find(f"{_W}rPr/{_W}{each}")))
        styles.hidden.update((id, each) for each in switches)
    return styles


def _heading_level(paragraph: Any, levels: dict[str, int]) -> int | None:
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    if outline is not None and (outline.get(f"{_W}val") or "").isdecimal():
        level = int(outline.get(f"{_W}val")[:2]) + 1
        return level if level < 10 else None
    return None if style is None else levels.get(style.get(f"{_W}val") or "")


def _rows(table: Any, styles: _Styles) -> Iterator[list[tuple[str | None, int]]]:
    """Yield the cells of each row, with their widths; None goes on from the row above."""
    for row in outermost(table, f"{_W}tr"):
        before = row.find(f"{_W}trPr/{_W}gridBefore")
        cells: list[tuple[str | None, int]] = (
            [] if before is None else [("", span_of(before, f"{_W}val"))]
        )
        for cell in outermost(row, f"{_W}tc"):
            texts = (
                text
                for each in outermost(cell, _PARAGRAPH)
                for text in _paragraph_texts(each, styles)
            )
            text = " ".join(" ".join(texts).split())
            merged, span = (cell.find(f"{_W}tcPr/{_W}{e}") for e in ("vMerge", "gridSpan"))
            goes_on = merged is not None and merged.get(f"{_W}val") != "restart"
            cells.append(
                (
                    text or None if goes_on else text,
                    1 if span is None else span_of(span, f"{_W}val"),
                )
            )
        if not any(_is_on(row.find(f"{_W}trPr/{_W}{each}")) for each in ("del", "hidden")):
            yield cells


def _paragraph_texts(paragraph: Any, styles: _Styles) -> Iterator[str]:
    """Yield a paragraph's text, without what is deleted or hidden; text boxes come alone."""
    from lxml.etree import iterwalk

    pieces: list[str] = []
    walk = iterwalk(paragraph, events=("start",))
    for _, element in walk:
        tag = element.tag
        is_inner = tag == _PARAGRAPH and element is not paragraph
        if tag in _NOT_WRITTEN or is_inner or (tag == f"{_W}r" and _is_hidden(element, styles)):
            walk.skip_subtree()
        elif tag == f"{_M}oMath":
            pieces.append(_formula_text(element))
            walk.skip_subtree()
        elif tag == f"{_W}t":
            height = element.getparent().find(f"{_W}rPr/{_W}vertAlign")
            sign = "" if height is None else _SIGNS_BY_HEIGHT.get(height.get(f"{_W}val"), "")
            pieces.append(sub_or_superscript(element.text or "", "".join(pieces[-3:]), sign))
        elif tag == f"{_W}sym":  # of a font of its own, whose signs have no other number
            pieces.append("\ufffd")
        elif tag in _SIGNS_BY_TAG:
            pieces.append(_SIGNS_BY_TAG[tag])
    text = "".join(pieces)
    label = styles.numbers.label(paragraph) if text.strip() else ""
    yield f"{label} {text}" if label else text
    for each in outermost(paragraph, _PARAGRAPH):
        yield from _paragraph_texts(each, styles)


def _is_hidden(run: Any, styles: _Styles) -> bool:
    properties = {each.tag.removeprefix(_W): each for each in run.iterfind(f"{_W}rPr/*")}
    color, size, style, mark = map(properties.get, ("color", "sz", "rStyle", "highlight"))
    id = "" if style is None else style.get(f"{_W}val")
    for each in _SWITCHES:
        switch = properties.get(each)
        if _is_on(switch) or (switch is None and (id, each) in styles.hidden):
            return True
    is_white = color is not None and (color.get(f"{_W}val") or "").upper() in _WHITE
    if is_white and mark is None and not _has_colour_behind(run, styles):
        return True
    return size is not None and size.get(f"{_W}val") in ("0", "1", "2")


def _has_colour_behind(run: Any, styles: _Styles) -> bool:
    """Return whether a run stands on a colour: its own, or that of what it is in."""
    for element in (run, *run.iterancestors()):
        if element.tag == f"{_W}txbxContent":  # whose colour is that of a shape
            return True
        for properties in element.iterchildren(*_PROPERTIES):
            for each in properties:
                if each.tag == f"{_W}shd" and _is_dark(each):
                    return True
                if each.tag in _STYLE_TAGS and each.get(f"{_W}val") in styles.shaded:
                    return True
    return False


def _is_dark(shade: Any) -> bool:
    fill = (shade.get(f"{_W}fill") or "auto").upper()
    return fill not in (*_WHITE, "AUTO") or shade.get(f"{_W}val") == "solid"


def _is_on(switch: Any) -> bool:
    return switch is not None and switch.get(f"{_W}val") not in _FALSE_VALUES


def _formula_text(part: Any) -> str:
    """Return a formula as one line, such as `(a+b)/2` or `x^2`."""
    tag = part.tag.removeprefix(_M)
    if tag == "t":
        return part.text or ""
    text = formula_line(map(_formula_text, part))
    if not text:
        return ""
    begin, end, sign = (
        None if (element := part.find(f"{_M}{tag}Pr/{_M}{e}")) is None else element.get(f"{_M}val")
        for e in ("begChr", "endChr", "chr")
    )
    if tag == "d":
        return f"{'(' if begin is None else begin}{text}{')' if end is None else end}"
    if tag == "nary":
        return f"{chr(0x222B) if sign is None else sign}{text}"
    part_sign = {"num": "", "den": "/", "sup": "^", "sub": "_", "rad": "\u221a"}.get(tag)
    if part_sign is None:
        return text
    return formula_part(part_sign, text)
