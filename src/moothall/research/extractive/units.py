"""What can be quoted of a passage: sentences, items, rows and lines of code, each with its lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from moothall.research.resource_pool import HEADING_NUMBER
from moothall.research.sentences import TITLE_UNDERLINE, blocks, sentences_in

UnitKind: TypeAlias = Literal["prose", "item", "row", "head", "code", "term", "entry"]

_ENDS: Final = re.compile(r"[.!?…:][\"'”’»)\]*_`]*$|[。\uff01\uff1f][」』”’\uff09]*$")
_GAP: Final = re.compile(r"\n[ \t]*#?[ \t]*\n")
_CODE_PART: Final = re.compile(r"\S(?:.|\n(?![ \t]*\n))*")  # of code, up to an empty line
# What an entry in a list of literature has, in any language: two of these, the year among them.
_ENTRY_SIGN: Final = re.compile(
    r"(?P<year>\b(?:1[5-9]|20)\d\d[a-z]?(?=[).,;:]|\s*\Z))|(?P<initial>\b[^\W\d_]\.(?=[\s,]))"
    r"|(?P<pages>\d\(\d|\d[-–]\d)|(?P<title>[\"“*_][^\"”*_]{3,}[\"”*_])"
    r"|(?P<id>\b97[89][-\d]{9}|\b10\.\d{4,}/|https?:)"
)
_ENTRY_CHARS: Final = 400  # characters of one, at most
_LEADERS: Final = re.compile(r"(?:\.[ \t]?){5,}")  # of a table of contents, before its pages
# Names of pages of manuals alone: `lock(1), seal(8) and gate(3x)`.
_REFERENCES: Final = re.compile(r"(?:(?:\w{1,3}\s+)?[^\s,()]+\(\d\w{0,4}\)[,.;]?(?:\s+|\Z)){2,}")
_LOG_LINES: Final = re.compile(
    r"(?:.{0,20}\d:\d\d.*(?:\n|\Z)){3,}"
)  # lines of a log, with the time
_LONGEST_TERM: Final = 120
_LONGEST_LEAD: Final = 300
_FEWEST_WORDS: Final = 3


class Unit(NamedTuple):
    """A sentence, an item or a row of a passage, by its place in the text."""

    start: int
    end: int
    kind: UnitKind
    lead: tuple[int, int] | None  # the term that it explains, the row of heads or what leads to it


@lru_cache(maxsize=2_000)
def units(text: str, heading: str = "") -> tuple[Unit, ...]:
    """Return the units of a text in order; `heading` is the title of its section."""
    units_so_far: list[Unit] = []
    last_end = 0
    lead: tuple[int, int] | None = None
    head_span: tuple[int, int] | None = None  # the first row of a table
    for start, end, kind in _spans(text, heading):
        content = text[start:end]
        is_new = kind == "prose" and bool(
            _GAP.search(text, last_end, start)
            or not units_so_far
            or units_so_far[-1].kind == "head"
        )
        if kind in ("prose", "item"):
            kind = _unit_kind(text, start, end, kind, heading)
        if kind != "row":
            head_span = None
        elif head_span is None:
            head_span = (start, end)
        own_span = head_span if kind == "row" and head_span != (start, end) else None
        units_so_far.append(Unit(start, end, kind, own_span or (lead if kind != "head" else None)))
        if content.endswith(":") and len(content) <= _LONGEST_LEAD and kind != "head":
            lead = (start, end)
        elif kind == "term":
            lead = None if _ENDS.search(content[-20:]) else (start, end)
        elif kind == "head" or (kind == "prose" and is_new):
            lead = None
        last_end = end
    return tuple(units_so_far)


def _spans(text: str, heading: str) -> Iterator[tuple[int, int, UnitKind]]:
    """Yield sentences, rows, entries and parts of code, in order."""
    parts = [*blocks(text)]
    sign_counts = [
        0,
        *(_count_entry_signs(text[each.start : each.end], each.kind) for each in parts),
        0,
    ]
    for at, (start, end, kind) in enumerate(parts, 1):
        if kind == "code" or _LOG_LINES.fullmatch(text, start, end):
            for part in _CODE_PART.finditer(text, start, end):
                yield *part.span(), "code"
            continue
        # What a heading names is no part of the sentence below it.
        if heading and text.startswith(f"{heading}\n", start, end):
            yield start, start + len(heading), "head"
            start += len(heading) + 1
        # One alone needs more signs.
        if (
            _REFERENCES.fullmatch(text, start, end)
            or len(_LEADERS.findall(text, start, end)) > 1
            or (
                sign_counts[at] > 1
                and max(sign_counts[at] - 1, sign_counts[at - 1], sign_counts[at + 1]) > 1
            )
        ):
            yield start, end, "entry"
            continue
        spans = [(start, end)] if kind == "row" else sentences_in(text, start, end)
        for first, last in spans:
            yield first, last - text.endswith("::", first, last), kind
            kind = "prose" if kind == "item" else kind


def _count_entry_signs(text: str, kind: UnitKind) -> int:
    """Return how many signs a paragraph or item has of an entry in a list of literature."""
    if kind not in ("prose", "item") or len(text) > _ENTRY_CHARS:
        return 0
    signs = {match.lastgroup for match in _ENTRY_SIGN.finditer(text)}
    return len(signs) if "year" in signs else 0


def _unit_kind(text: str, start: int, end: int, kind: UnitKind, heading: str) -> UnitKind:
    """Return what kind of unit a sentence is, of prose or of an item."""
    content, bare = text[start:end], HEADING_NUMBER.sub("", heading)
    is_cut = bare.endswith("…") and content.startswith(bare[:-1])  # of a long title
    if content in (heading, bare) or is_cut or TITLE_UNDERLINE.match(text, end):
        return "head"
    if " | " in content and "\n" not in content:
        return "row"
    if kind == "item":
        return kind
    is_sentence = _ENDS.search(content[-20:]) and (
        content[-1:] in "。\uff01\uff1f" or len(content.split()) >= _FEWEST_WORDS
    )
    return "prose" if is_sentence or len(content) > _LONGEST_TERM else "term"
