"""Turn elements of HTML into text: paragraphs, lists, tables, code, and where sections begin.

Raised and lowered numbers are marked: 10^6 is not 106, and a note's mark is no part of a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final, TypeAlias

from moothall.build import shorten
from moothall.research.findings import Section
from moothall.research.reading.office.list_numbers import number_text

HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
LINK_SIGNS: Final = "¶#🔗 "  # of links from a heading to itself
Anchors: TypeAlias = dict[Any, tuple[str, str, int]]
"""Headings and terms by their element: the text, the anchor and the level; 7 for a term."""

_LONGEST_HEADING: Final = 100
_TAGS: Final = {
    "paragraphs": "p ul ol dl table blockquote pre div section article figure figcaption address "
    "main header aside details summary fieldset form body center hr footer menu h1 h2 h3 h4 h5 h6",
    "lines": "li tr dt dd br caption",
    "inline": "span em b i strong code tt var kbd samp small big font u abbr acronym cite q sub "
    "sup dfn mark a ins nobr bdi bdo time label data wbr img thead tbody tfoot colgroup "
    "col",
    "without text": "script style noscript template svg iframe object audio video canvas select "
    "button textarea datalist head nav map",
    "around": "footer aside",
    "maybe beside": "div ul ol dl section table p header form",
    "roles": "navigation banner contentinfo search complementary menu",
}
(
    _PARAGRAPH_TAGS,
    _LINE_TAGS,
    _INLINE_TAGS,
    _NO_TEXT_TAGS,
    _AROUND_TAGS,
    _BESIDE_TAGS,
    _ASIDE_ROLES,
) = (frozenset(each.split()) for each in _TAGS.values())
_MARGIN_NAMES = re.compile(
    r"(?:^|\s)related(?=$|\s)|(?:^|[\s_-])(?:nav(?:bar|header|footer|igation|links?)?|side-?bar|sphinxsidebar|breadcrumbs?"
    r"|(?:site|page)-?(?:header|footer)|footer|cookies?|skip-?links?|pagination|pager|menu"
    r"|share|social|toc|mini-?toc|table-of-contents)(?=$|[\s_-])",
    re.IGNORECASE,
)
_BESIDE_PATH: Final = (
    f".//*[@role or ({' or '.join(f'self::{tag}' for tag in sorted(_BESIDE_TAGS))}) "
    "and (@class or @id)]"
)
_MENU_LINKS: Final = 5
_MENU_LINK_SHARE: Final = 0.9
_RAISED_NUMBER: Final = re.compile(r"\s*[-+\u2212]?\d{1,9}\s*")
_UNIT: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}\Z")  # m2 is as usual as m²
_NOTE_MARK: Final = re.compile(r"[\[(]?\w{1,3}[\])]?")
# What stands before each part: of the power `ab`, a^b; a space: no brackets, either.
_SIGNS_IN_FORMULAS: Final = {
    **dict.fromkeys(("msup", "mover"), (" ", "^")),
    **dict.fromkeys(("msub", "munder"), (" ", "_")),
    **dict.fromkeys(("msubsup", "munderover"), (" ", "_", "^")),
    "mfrac": ("", "/"),
    "mroot": ("\u221a", "_"),
}
_UNSEEN_IN_FORMULAS: Final = ("annotation", "annotation-xml", "mphantom")
_SPACED_TAGS: Final = ("mspace", "mtd", "munder", "munderover")
_LONGEST_MERGED: Final = 200  # characters of a cell that is repeated
_MAX_ROWS: Final = 200  # in which it is, at most
_MAX_COPIES: Final = 50_000  # elements that are repeated in a page
_GAPS: Final = ("", " ", "\n", "\n\n")


def sub_or_superscript(text: str, before: str, sign: str = "^") -> str:
    """Return a text that is raised (`^`), lowered (`_`) or neither, as written behind another."""
    if sign == "_":  # H2O is as usual as H₂O
        is_marked = before[-1:].isdecimal()
    else:
        is_behind = before[-1:].isalnum() or before[-1:] == ")"
        is_marked = is_behind and not _UNIT.search(before[-3:])
    return f"{sign}{text}" if sign and is_marked and _RAISED_NUMBER.fullmatch(text) else text


def formula_part(sign: str, text: str) -> str:
    """Return a part of a formula behind its sign (a space is none), in brackets if it is long."""
    is_one = text.isalnum() or len(text) == 1 or sign == " "
    return sign.strip() + (text if is_one else f"({text})")


def formula_line(parts: Iterable[str]) -> str:
    """Return the parts of a formula in one line; 3 and 1/2 is not 31/2."""
    line = ""
    for part in parts:
        is_mixed = line[-1:].isdecimal() and part[:1].isdecimal() and "/" in part
        line += f" {part}" if is_mixed else part
    return line


def show_formulas(tree: Any) -> None:
    """Put a hidden formula in the place of the picture beside it that shows it, as in wikis."""
    for picture in list(tree.iter("img")):
        before, alt = picture.getprevious(), picture.get("alt")
        formula = None if before is None or not alt else before.find(".//math")
        if formula is not None and formula.get("alttext") == alt:
            formula.tail, picture.tail = picture.tail, None
            formula.attrib.pop("style", None)
            picture.getparent().replace(picture, formula)


def write_formulas(tree: Any) -> None:
    """Write each formula of a page as one line, such as `(a+b)/2` or `x^2`: what it shows."""
    from lxml.etree import iterwalk

    for formula in list(tree.iter("math")):
        if next(formula.iter("p", "div", "table"), None) is not None:  # it is never closed
            formula.drop_tag()
            continue
        texts: dict[Any, str] = {}
        for _, element in iterwalk(formula, events=("end",)):
            tag, parts = element.tag, [texts.pop(each) for each in element]
            text = formula_line(parts) or re.sub(r"[ \t\n]+", " ", element.text or "").strip(" ")
            if parts and len(parts) == len(signs := _SIGNS_IN_FORMULAS.get(tag, "")):
                text = "".join(map(formula_part, signs, parts))
            elif tag == "msqrt":
                text = formula_part("\u221a", text)
            elif tag == "mfenced":
                text = f"({','.join(parts)})"
            texts[element] = text * (tag not in _UNSEEN_IN_FORMULAS) + " " * (tag in _SPACED_TAGS)
        before, text = _text_before(formula)[-1:], texts[formula].strip()
        formula.clear(keep_tail=True)
        formula.text = formula_line((before, text)).removeprefix(before)
        formula.drop_tag()


def mark_script_number(element: Any, sign: str = "^") -> None:
    """Mark the number of a raised, or lowered, element of a tree."""
    text = "".join(element.itertext())
    if sub_or_superscript(text, _text_before(element), sign) != text:
        element.text = f"{sign}{element.text or ''}"


def _text_before(element: Any) -> str:
    before, parent = element.getprevious(), element.getparent()
    text = parent.text if before is None else before.tail or "".join(before.itertext())
    return text or ""


def mark_script_numbers(tree: Any) -> None:
    """Mark the raised and lowered numbers of a page; those that link to a note are left out."""
    for element in list(tree.iter("sub")):
        mark_script_number(element, "_")
    for element in list(tree.iter("sup")):
        parent = element.getparent()
        if parent is None:
            continue
        link = element if parent.tag != "a" or len(parent) > 1 or parent.text else parent
        is_linked = link is parent or element.find(".//a") is not None
        if is_linked and _NOTE_MARK.fullmatch("".join(element.itertext()).strip()):
            link.drop_tree()
        else:
            mark_script_number(element)


def write_merged_cells(tree: Any) -> None:
    """Write what a cell over several rows says into each of them, unless it is long."""
    copies_left = _MAX_COPIES
    rows_by_table: dict[Any, list[Any]] = {}
    for row in tree.iter("tr"):
        rows_by_table.setdefault(next(row.iterancestors("table"), None), []).append(row)
    for table_rows in rows_by_table.values():
        # By column: how many rows are left, how many columns it has, and the cell.
        open_cells: dict[int, tuple[int, int, list[Any]]] = {}
        for row in table_rows:
            column = 0
            for cell in [*row.iterchildren("td", "th"), None]:
                while open_cells.get(column, (0,))[0]:
                    rows_left, columns, copies = open_cells[column]
                    open_cells[column] = rows_left - 1, columns, copies
                    column += columns
                    copies_left -= 1 + sum(1 for each in copies for _ in each.iter())
                    if copies_left < 0:
                        return
                    for copy in deepcopy(copies):
                        copy.tail = None
                        row.append(copy) if cell is None else cell.addprevious(copy)
                if cell is None:
                    continue
                columns = span_of(cell, "colspan")
                if (rows := span_of(cell, "rowspan")) > 1:
                    # One without a text is such as a picture.
                    is_repeated = 0 < len("".join(cell.itertext()).strip()) <= _LONGEST_MERGED
                    open_cells[column] = rows - 1, columns, [cell] * is_repeated
                column += columns


def span_of(cell: Any, name: str) -> int:
    """Return over how many columns or rows a cell goes, by an attribute; 1 without it."""
    value = cell.get(name) or ""
    return min(max(int(value[:4]), 1), _MAX_ROWS) if value.isdecimal() else 1


def flow_text(root: Any, anchors: Anchors, *, is_main: bool) -> tuple[str, list[Section]]:
    """Return an element's text and sections, without margins unless it is main; it is changed."""
    from lxml import etree

    for element in root.xpath(".//a[string-length(normalize-space()) < 2]"):
        if "".join(element.itertext()).strip(LINK_SIGNS + "\n\t") == "":
            element.drop_tree()
    for element in root.xpath(".//a[contains(@class, 'footnote-ref') or @role = 'doc-noteref']"):
        element.drop_tree()
    margins = set() if is_main else set(_margin_elements(root))
    etree.strip_tags(root, *_INLINE_TAGS)
    return _FlowWriter(anchors).text_of(root, margins, is_main)


def _margin_elements(root: Any) -> list[Any]:
    """Return the elements that stand beside the text."""
    margins = []
    length = None
    for element in root.xpath(_BESIDE_PATH):
        names = f"{element.get('class') or ''} {element.get('id') or ''}"
        is_named = element.tag in _BESIDE_TAGS and _MARGIN_NAMES.search(names)
        if is_named or element.get("role") in _ASIDE_ROLES:
            if length is None:
                length = root.xpath("string-length()")
            if element.xpath("string-length()") < length / 2:
                margins.append(element)
    for element in root.xpath(
        f".//*[self::ul or self::ol or self::dl or self::table][count(.//a) >= {_MENU_LINKS}]"
    ):
        link_text = "".join("".join(each.itertext()) for each in element.iter("a"))
        if len("".join(link_text.split())) >= _MENU_LINK_SHARE * len(
            "".join("".join(element.itertext()).split())
        ):
            margins.append(element)
    return margins


def _integer(text: str | None, default: int) -> int:
    return int(text) if text and re.fullmatch(r"-?\d{1,9}", text.strip()) else default


class _FlowWriter:
    """Writes text without recursion: pages may be nested to any depth."""

    def __init__(self, anchors: Anchors) -> None:
        self.sections: list[Section] = []
        self._anchors = anchors
        self._pieces: list[str] = []
        self._length = 0
        self._gap = self._prefix = ""  # what goes before the next text
        self._has_space = False  # whether a space stood before the next text
        self._open_section: Section | None = None  # begins with the next text
        self._headings: list[tuple[int, str]] = []
        self._item_numbers: dict[Any, int] = {}  # the last one of each list

    def text_of(self, root: Any, margins: set[Any], is_main: bool) -> tuple[str, list[Section]]:
        """Return the text of an element with its descendants, and the sections."""
        from lxml.etree import iterwalk

        code_depth = cell_depth = item_depth = 0  # how many are open
        is_tight = False  # whether nothing was written yet in a definition
        walk = iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag
            is_start = event == "start"
            is_skipped = (
                tag in _NO_TEXT_TAGS or element in margins or (not is_main and tag in _AROUND_TAGS)
            ) and element is not root
            if is_skipped and is_start:
                walk.skip_subtree()
                continue
            is_cell = tag in ("td", "th")
            if not is_start:
                cell_depth -= is_cell
                item_depth -= tag == "li"
            gap = "\n\n" if tag in _PARAGRAPH_TAGS else "\n" if tag in _LINE_TAGS else ""
            if gap:
                if cell_depth:
                    gap = " "
                elif item_depth or (is_tight and is_start):
                    gap = "\n"
                if _GAPS.index(gap) > _GAPS.index(self._gap):
                    self._gap = gap
            if is_start:
                cell_depth += is_cell
                code_depth += tag == "pre"
                if tag == "li":
                    item_depth += 1
                    self._prefix = f"{self._item_mark(element)} "
                elif tag == "dd":
                    is_tight = True
                elif is_cell and element.getprevious() is not None:
                    self._gap, self._has_space = " ", False
                    self._write("| ", True)
                elif element in self._anchors:
                    self._add_heading(*self._anchors[element], tag)
                text = element.text
            else:
                code_depth -= tag == "pre"
                text = None if element is root else element.tail
            if text:
                if code_depth or not text.isspace():
                    is_tight = False
                self._write(text, code_depth > 0)
        return "".join(self._pieces).rstrip(), self.sections

    def _item_mark(self, item: Any) -> str:
        """Return what stands before an item: its number in its list, or a mark."""
        items = item.getparent()
        if items is None or items.tag != "ol":
            return "-"
        before = self._item_numbers.get(items)
        step = -1 if items.get("reversed") is not None else 1
        start = _integer(items.get("start"), 1 if step > 0 else len(items.findall("li")))
        number = _integer(item.get("value"), start if before is None else before + step)
        self._item_numbers[items] = number
        return f"{number_text(number, item.get('type') or items.get('type') or '1')}."

    def _add_heading(self, heading: str, anchor: str, level: int, tag: str) -> None:
        if not heading:
            return
        anchor = anchor or re.sub(r"[^\w-]+", "-", heading.lower()).strip("-")
        if tag == "dt":  # only the name of a signature
            heading = re.sub(r"(?<=\w)\(.*", "()", heading)
        heading = shorten(heading, _LONGEST_HEADING)
        self._headings = [each for each in self._headings if each[0] < level] + [(level, heading)]
        headings = [each for depth, each in self._headings if depth > 1] or [heading]
        self._open_section = Section(0, anchor, " – ".join(headings))

    def _write(self, text: str, is_preformatted: bool) -> None:
        is_spaced = self._has_space or (not is_preformatted and text[0].isspace())
        piece = text if is_preformatted else " ".join(text.split())
        if is_preformatted and (self._gap or not self._pieces):
            piece = text.lstrip("\n")
        if not piece:
            self._has_space = is_spaced
            return
        self._has_space = not is_preformatted and text[-1].isspace()
        if self._gap and self._pieces:
            last_text = self._pieces[-1].rstrip()
            self._length += len(last_text) - len(self._pieces[-1]) + len(self._gap)
            self._pieces[-1] = last_text
            self._pieces.append(self._gap)
        elif is_spaced and self._pieces and not self._pieces[-1].endswith((" ", "\n")):
            piece = f" {piece}"
        if self._open_section is not None:
            self._open_section.start = self._length
            self.sections.append(self._open_section)
        piece = self._prefix + piece
        self._gap = self._prefix = ""
        self._open_section = None
        self._pieces.append(piece)
        self._length += len(piece)
