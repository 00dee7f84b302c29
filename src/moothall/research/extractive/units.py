"""What can be quoted of a passage: sentences, items, rows and lines of code, each with its lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from moothall.research.sentences import COLUMNS, UNDERLINED, adornments, comments, sentences

Kind: TypeAlias = Literal["prose", "item", "row", "head", "code", "term"]

_CODE: Final = re.compile(
    r">>> |(?:[({\[:=]\n[ \t]|;\n)(?![^;{}=]*\.$)|\n[ \t]*(?:[)}\]]|#(?! )|//)"
    r"|^(?:import|from|return|def|class|\$) [^.]*$| = (?!.*\.$)|\w\([^)]*\)$"
)
_ENDS: Final = re.compile(r"[.!?…:][\"'”’»)\]*_`]*$|[。\uff01\uff1f][」』”’\uff09]*$")
_NUMBERED: Final = re.compile(r"(?:[\dA-Z]{1,3}\.)+\d*\s+")  # of a heading
_GAP: Final = re.compile(r"\n[ \t]*#?[ \t]*\n")
_FENCED: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?[ \t]*(?:\1|\Z)", re.M | re.S)
_LONGEST_TERM: Final = 120
_LONGEST_LEAD: Final = 300
_WORDS: Final = 3


class Unit(NamedTuple):
    """A sentence, an item or a row of a passage, by its place in the text."""

    start: int
    end: int
    kind: Kind
    lead: tuple[int, int] | None  # the term that it explains, the row of heads or what leads to it


@lru_cache(maxsize=2_000)
def units(text: str, heading: str = "") -> tuple[Unit, ...]:
    """Return the units of a text in order; `heading` is the title of its section."""
    units_so_far: list[Unit] = []
    before = 0
    lead: tuple[int, int] | None = None
    heads: tuple[int, int] | None = None  # the first row of a table
    commented = comments(text)
    for start, end, is_code in _spans(text, heading):
        content = text[start:end]
        # What stands before it in its line: a marker, if no other unit does.
        line = text.rfind("\n", 0, start) + 1
        marker = text[max(line, before) : start].strip()
        if line in commented:
            marker = marker.replace("#", "")
        is_new = (
            not units_so_far or bool(marker) or is_code or bool(_GAP.search(text, before, start))
        )
        is_new = is_new or bool(COLUMNS.match(content)) or units_so_far[-1].kind == "head"
        underlined = bool(UNDERLINED.match(text, end))
        kind: Kind = "code" if is_code else _kind(content, marker, heading, underlined)
        if kind == "item" and not is_new:
            kind = "prose"
        if kind != "row":
            heads = None
        elif heads is None:
            heads = (start, end)
        own = heads if kind == "row" and heads != (start, end) else None
        units_so_far.append(Unit(start, end, kind, own or (lead if kind != "head" else None)))
        if content.endswith(":") and len(content) <= _LONGEST_LEAD and kind != "head":
            lead = (start, end)
        elif kind == "term":
            lead = None if _ENDS.search(content[-20:]) else (start, end)
        elif kind == "head" or (kind == "prose" and is_new):
            lead = None
        before = end
    return tuple(units_so_far)


def _with_rows(text: str) -> Iterator[tuple[int, int]]:
    """Yield sentences, in order; a row of a table is one, whatever its cells have."""
    last: tuple[int, int] | None = None
    for start, end in sentences(text):
        line = text.rfind("\n", 0, start) + 1
        if last and line <= last[0] and " | " in text[line:end]:
            last = (last[0], end)
            continue
        if last:
            yield last
        last = (start, end)
    if last:
        yield last


def _spans(text: str, heading: str) -> Iterator[tuple[int, int, bool]]:
    """Yield sentences and fenced code, in order, each with whether it is code."""
    spans = []
    for start, end in _with_rows(text):
        # What a heading names is no part of it.
        if heading and text.startswith(f"{heading}\n", start, end):
            spans.append((start, start + len(heading), False))
            start += len(heading) + 1
        spans.append((start, end - text.endswith("::", start, end), False))
    titled = adornments(text)
    end = 0
    while fenced := _FENCED.search(text, end):
        end = fenced.end(1)
        if fenced.start() not in titled:
            end = fenced.end()
            at = fenced.start(2)
            for part in _GAP.split(fenced[2]):
                start = text.index(part, at)
                at = start + len(part)
                if part.strip():
                    spans.append((start, at, True))
    yield from sorted(spans)


def _kind(text: str, marker: str, heading: str, underlined: bool) -> Kind:
    """Return what kind of unit it is; `marker` stands before it in its line."""
    bare = _NUMBERED.sub("", heading)
    # A row of a table as the readers write it has `|` between its cells.
    if text != heading and ("|" in marker or (" | " in text and "\n" not in text)):
        return "row"
    cut = bare.endswith("…") and text.startswith(bare[:-1])  # of a long title
    if "#" in marker or underlined or text in (heading, bare) or cut:
        return "head"
    if marker or COLUMNS.match(text):
        return "item"
    if _CODE.search(text):
        return "code"
    is_sentence = _ENDS.search(text[-20:]) and (
        text[-1:] in "。\uff01\uff1f" or len(text.split()) >= _WORDS
    )
    return "prose" if is_sentence or len(text) > _LONGEST_TERM else "term"
