"""The numbers that programs count for lists and headings, as programs show them: 3.2, (b), IV."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final, NamedTuple

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_STYLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_XML_ID: Final = "{http://www.w3.org/XML/1998/namespace}id"
LABEL: Final = "label"
"""The attribute of ours that says what stands before a paragraph of OpenDocument."""
_ROMAN: Final = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LEVEL: Final = re.compile(r"%([1-9])")
_MAX_ROMAN: Final = 4000
_FORMS: Final = {
    **dict.fromkeys(("lowerLetter", "a"), "a"),
    **dict.fromkeys(("upperLetter", "A"), "A"),
    **dict.fromkeys(("lowerRoman", "i"), "i"),
    **dict.fromkeys(("upperRoman", "I"), "I"),
    "decimalZero": "01",
}
"""By the names of Word, HTML and OpenDocument; all others count in figures."""


def number_text(number: int, form: str) -> str:
    """Return a number in a form such as `lowerRoman`, or `a` of HTML and OpenDocument."""
    kind = _FORMS.get(form, "1")
    if kind in "aA" and number > 0:  # after z comes aa, then bb
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 % 100 + 1)
    elif kind in "iI" and 0 < number < _MAX_ROMAN:
        text = ""
        for value, sign in _ROMAN:
            text += sign * (number // value)
            number %= value
    else:
        return f"{number:02}" if kind == "01" else str(number)
    return text.upper() if kind in "AI" else text


class Level(NamedTuple):
    """How a level of a list counts: `text` has `%1` for the number of the first level."""

    text: str
    form: str
    start: int = 1
    is_legal: bool = False  # all its numbers are in figures


class Counters:
    """Counts the items of lists, each by its key."""

    def __init__(self) -> None:
        self._counts: defaultdict[Any, dict[int, int]] = defaultdict(dict)

    def label(self, key: Any, at: int, levels: dict[int, Level], start: int | None = None) -> str:
        """Return the label of the next item of a level, from 0; a mark for one without numbers.

        `start` is its number, if it does not go on.
        """
        level = levels.get(at)
        if level is None:
            return ""
        counts = self._counts[key]
        first = level.start if start is None else start
        counts[at] = counts[at] + 1 if at in counts and start is None else first
        for deeper in [each for each in counts if each > at]:
            del counts[deeper]
        if level.form == "bullet":
            return "-"

        def number(match: re.Match[str]) -> str:
            above = int(match[1]) - 1
            if above not in levels:
                return ""
            value = counts.get(above, levels[above].start)
            return number_text(value, "" if level.is_legal else levels[above].form)

        return "" if level.form == "none" else _LEVEL.sub(number, level.text).strip()


class WordNumbers:
    """The labels of a Word document's paragraphs, in their order."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        self._abstract = {
            each.get(f"{_W}abstractNumId"): each for each in _all(numbering, "abstractNum")
        }
        self._numbers = {each.get(f"{_W}numId"): each for each in _all(numbering, "num")}
        self._styles = {each.get(f"{_W}styleId"): each for each in _all(styles, "style")}
        self._levels: dict[str, dict[int, Level]] = {}
        self._used: set[tuple[str, int]] = set()
        self._counters = Counters()

    def label(self, paragraph: Any) -> str:
        """Return what stands before a paragraph; empty for none."""
        number, at = self._place(paragraph)
        if number not in self._numbers:
            return "-" if number != "0" and paragraph.find(f"{_W}pPr/{_W}numPr") is not None else ""
        levels, definition = self._levels_of(number), self._numbers[number]
        start = None
        if (number, at) not in self._used:
            self._used.add((number, at))
            override = definition.find(f"{_W}lvlOverride[@{_W}ilvl='{at}']/{_W}startOverride")
            start = None if override is None else _integer(override.get(f"{_W}val"), 1)
        return self._counters.label(_value(definition, "abstractNumId"), at, levels, start)

    def _place(self, paragraph: Any) -> tuple[str, int]:
        """Return the number of a paragraph's list, by itself or its style, and its level."""
        style_id, holder = _value(paragraph.find(f"{_W}pPr"), "pStyle"), paragraph
        style_ids: set[str] = set()
        while holder is not None:
            properties = holder.find(f"{_W}pPr/{_W}numPr")
            if properties is not None and (number := _value(properties, "numId")):
                level = _value(properties, "ilvl")
                if not level and holder is not paragraph:
                    level = self._linked_level(number, holder.get(f"{_W}styleId"))
                return number, _integer(level, 0)
            holder = self._styles.get(style_id) if style_id not in style_ids else None
            style_ids.add(style_id)
            style_id = _value(holder, "basedOn")
        return "", 0

    def _linked_level(self, number: str, style_id: str) -> str:
        definition = self._abstract.get(_value(self._numbers.get(number), "abstractNumId"))
        for level in _all(definition, "lvl"):
            if _value(level, "pStyle") == style_id:
                return level.get(f"{_W}ilvl") or ""
        return ""

    def _levels_of(self, number: str) -> dict[int, Level]:
        if number not in self._levels:
            definition = self._numbers[number]
            elements = [
                *_all(self._abstract.get(_value(definition, "abstractNumId")), "lvl"),
                *definition.iterfind(f"{_W}lvlOverride/{_W}lvl"),
            ]
            self._levels[number] = {
                _integer(each.get(f"{_W}ilvl"), 0): Level(
                    _value(each, "lvlText"),
                    _value(each, "numFmt") or "decimal",
                    _integer(_value(each, "start"), 1),
                    each.find(f"{_W}isLgl") is not None,
                )
                for each in elements
            }
        return self._levels[number]


def _all(element: Any, name: str) -> list[Any]:
    return [] if element is None else [each for each in element if each.tag == f"{_W}{name}"]


def _value(element: Any, name: str) -> str:
    """Return the value of an element inside another one; empty for none."""
    inside = None if element is None else element.find(f"{_W}{name}")
    return "" if inside is None else inside.get(f"{_W}val") or ""


def _integer(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else default


def mark_labels(tree: Any, styles: Any) -> None:
    """Mark the paragraphs of OpenDocument's lists, and its headings, with their labels."""
    levels_by_style: dict[str, dict[int, Level]] = {}
    for each in (e for part in (styles, tree) if part is not None for e in part.iter()):
        if each.tag == f"{_TEXT}list-style":
            levels_by_style[each.get(f"{_STYLE}name") or ""] = dict(map(_open_level, each))
        elif each.tag == f"{_TEXT}outline-style":
            levels_by_style["outline"] = dict(map(_open_level, each))
    counters = Counters()
    last_keys: dict[str, Any] = {}  # of lists, by their style and their holder name

    def mark(element: Any, label: str) -> None:
        if "".join(element.itertext()).strip():
            element.set(LABEL, label)

    # Each open list with its depth, its style and what it is counted by.
    waiting = [(tree, -1, "", None)]
    while waiting:
        element, depth, style, key = waiting.pop()
        if element.tag == f"{_TEXT}list":
            depth, style = depth + 1, element.get(f"{_TEXT}style-name") or style
            if depth == 0:
                goes_on = element.get(f"{_TEXT}continue-numbering") == "true"
                before = element.get(f"{_TEXT}continue-list")
                key = last_keys.get(before or style, element) if before or goes_on else element
                last_keys |= dict.fromkeys((style, element.get(_XML_ID) or style), key)
        elif element.tag == f"{_TEXT}list-item" and len(element):
            if element[0].tag in (f"{_TEXT}p", f"{_TEXT}h"):
                value = element.get(f"{_TEXT}start-value")
                levels = levels_by_style.get(style, {})
                start = None if value is None else _integer(value, 1)
                mark(element[0], counters.label(key, depth, levels, start))
        elif element.tag == f"{_TEXT}h" and depth < 0:
            at = _integer(element.get(f"{_TEXT}outline-level"), 1) - 1
            mark(element, counters.label("outline", at, levels_by_style.get("outline", {})))
        waiting += [(each, depth, style, key) for each in reversed(element)]


def _open_level(element: Any) -> tuple[int, Level]:
    """Return a level of OpenDocument, from 0, and how it counts."""
    number = _integer(element.get(f"{_TEXT}level"), 1)
    shown_levels = min(_integer(element.get(f"{_TEXT}display-levels"), 1), number)
    numbers = ".".join(f"%{each}" for each in range(number - shown_levels + 1, number + 1))
    prefix, suffix, form = (
        element.get(f"{_STYLE}{name}") or "" for name in ("num-prefix", "num-suffix", "num-format")
    )
    if element.tag.endswith("-bullet") or element.tag.endswith("-image"):
        form = "bullet"
    start = _integer(element.get(f"{_TEXT}start-value"), 1)
    return number - 1, Level(f"{prefix}{numbers}{suffix}", form or "none", start)
