"""What can be quoted of a passage: sentences, items, rows and lines of code, each with its lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from moothall.research.extractive.blocks import ASSIGNED, literals, settings
from moothall.research.sentences import COLUMNS, UNDERLINED, adornments, comments, sentences

_CODE: Final = re.compile(
    r">>> |(?:[({\[:=]\n[ \t]|;\n)(?![^;{}=]*\.$)|\n[ \t]*(?:[)}\]]|#(?! )|//)"
    r"|^(?:import|from|return|def|class|\$) [^.]*$| = (?!.*\.$)|\w\([^)]*\)$"
)
_EXPLAINED: Final = re.compile(r"[^\n]{1,80}::[ \t]*\n")  # a term of AsciiDoc, and what it is
_ENDS: Final = re.compile(r"[.!?…:][\"'”’»)\]*_`]*$|[。\uff01\uff1f][」』”’\uff09]*$")
_DANGLING: Final = re.compile(
    r"(?:(?:In|On|For|At|To|By|From|With) (?:this|that|these|those|such|both|either|each) |This |"
    r"These |Those |That |Such |It |They |Its |Their |He |She |His |Her |Thus|Therefore|Hence|"
    r"However|Also|Then |Otherwise|Instead|But |And |So |As a result|For (?:example|instance)|"
    r"In addition|Furthermore|Moreover|Similarly|Likewise|Both |Here|Consequently|Dies|Diese|Es |"
    r"Sie |Er |Daher|Deshalb|Cela|Ceci|Ces |Ce |Elle|Il )"
)
NUMBERED: Final = re.compile(r"(?:[\dA-Z]{1,3}\.)+\d*\s+")  # of a heading
_ADDRESSES: Final = re.compile(r"(?:<?https?://\S+\s*)+")
_GRID: Final = re.compile(r"[ \t|]*\n[ \t]*\+-")  # below a row: no head of a table in reST
_GAP: Final = re.compile(r"\n[ \t]*#?[ \t]*\n")
_LONGEST_TERM: Final = 120
_LONGEST_LEAD: Final = 300
_LONGEST_CODE: Final = 400
_FENCED: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?[ \t]*(?:\1|\Z)", re.M | re.S)
_TYPED: Final = re.compile(r"^[ \t]*[$#%>] \S", re.M)  # at a prompt
_WORDS: Final = 3
# What a list of options explains: `-x, --extract`, `save-exact`, `max_files (integer)`.
_WORD: Final = re.compile(r"[`*-]*[A-Za-z]\S*")
PROPERTY: Final = re.compile(r"[A-Z]\w*: [^.]*\.?")  # of an option, such as `Default: 10`
_ENTRY: Final = re.compile(
    r"[`*]*(?:--?[\w?]|[+/]\w\b)[^\n]*"
    r"|[`*]*[A-Za-z][\w.-]*(?:[a-z0-9][A-Z]|\w[_.-]\w)[\w.-]*[`*]*(?:\s*[(<\[=][^\n]*)?|`+[\w.-]+`+"
)
# The same where an item begins with it: `-x: extracts`, `-x    extracts`.
# Of an item: `verify:`, `**keys** are …`.
_NAMED: Final = re.compile(r"[`*]*[a-z][\w.-]*[`*]*(?=:\n)|\*\*`?[a-z][\w.-]*`?\*\*(?=\s)")
_BEGINS: Final = re.compile(r"[`*]*--?[\w?][^\n:]{0,80}?(?=:{1,2}\s|[ \t]{2,}|\s[–—-]\s|\n)")


class Unit(NamedTuple):
    """A sentence, an item or a row of a passage, by its place in the text."""

    start: int
    end: int
    kind: str  # prose, item, row, head, code, term
    lead: tuple[int, int] | None  # the term that it explains, the row of heads or what leads to it
    block: int  # which paragraph it is of
    dangles: bool  # begins with a word for something that was said before
    is_setting: bool = False  # a line that gives something its value
    entry: tuple[int, int] | None = None  # the option or setting that it is about, of a list
    is_first: bool = False  # says first what the entry is


@lru_cache(maxsize=2_000)
def units(text: str, heading: str = "") -> tuple[Unit, ...]:
    """Return the units of a text in order; `heading` is the title of its section."""
    made: list[Unit] = []
    block = before = 0
    lead: tuple[int, int] | None = None
    leads_list = False  # whether it ends with a colon, and so leads to all items that follow
    heads: tuple[int, int] | None = None  # the first row of a table
    about: tuple[int, int] | None = None  # the entry that is being explained
    lasts, told = 0, False  # the block in which it ends, 0 for none; whether it was explained
    commented = comments(text)
    for start, end, how in _spans(text, heading):
        is_fenced = how == "fenced"
        said = text[start:end]
        # What stands before it in its line: a marker, if no other unit does.
        line = text.rfind("\n", 0, start) + 1
        marker = text[max(line, before) : start].strip()
        if line in commented:
            marker = marker.replace("#", "")
        new = not made or bool(marker) or bool(_GAP.search(text, before, start)) or is_fenced
        new = bool(new or COLUMNS.match(said)) or made[-1].kind == "head"
        block += new
        underlined = bool(UNDERLINED.match(text, end))
        kind = "code" if how else _kind(said, marker, heading, underlined)
        if kind == "item" and not new:
            kind = "prose"
        if kind == "row":
            if heads is None or not made or made[-1].kind != "row":
                heads = (start, end)
            # A list of options has no row of heads.
            bare = heads == (start, end) or text[heads[0]] == "-" or _GRID.match(text, heads[1])
            own = None if bare else heads
        else:
            heads = None
            beneath = new or (bool(made) and made[-1].kind == "term")
            explains = kind in ("item", "code") or (kind == "prose" and not leads_list)
            own = lead if beneath and explains else None
        sets = how == "setting" or (kind == "code" and bool(ASSIGNED.fullmatch(said)))
        directive = marker[:2] == ".."
        begun = bool(_WORD.fullmatch(said)) if directive else kind in ("head", "term")
        # A heading in small letters names an option, too: `hold time number`.
        named = directive or bool(_ENTRY.fullmatch(said)) or (said == heading and said[0].islower())
        begun = begun and end - start <= _LONGEST_TERM and named
        if begun:
            goes_on = about and about[1] == before and not text[before:start].strip(" ")[1:]
            about, lasts, told = (about[0] if about and goes_on else start, end), 0, False
        elif kind != "row" and (found := _BEGINS.match(said) or (marker and _NAMED.match(said))):
            about, lasts, told = (start, start + found.end()), block, False
        elif kind == "head" or (lasts and lasts != block):
            about = None
        is_first = bool(about) and not (begun or told or PROPERTY.fullmatch(said))
        told = told or is_first
        dangles = bool(_DANGLING.match(said))
        made.append(Unit(start, end, kind, own, block, dangles, sets, about, is_first))
        if said.endswith(":") and len(said) <= _LONGEST_LEAD and kind != "head":
            lead, leads_list = (start, end), True
        elif kind == "term" and not (_ENDS.search(said[-20:]) or _ADDRESSES.fullmatch(said)):
            lead, leads_list = (start, end), False
        elif kind == "head" or (kind in ("prose", "term") and new):
            lead = None
        before = end
    return tuple(made)


def _spans(text: str, heading: str) -> Iterator[tuple[int, int, str]]:
    """Yield sentences, settings and blocks of fenced code, in the order of the text."""
    found = literals(text)
    spans, taken = [], [(first, last) for first, _, last in found]
    for start, own, end in settings(text):
        spans.append((start, end, "setting"))
        taken.append((own, end))
    for start, end in sentences(text):
        if any(start < last and first < end for first, last in taken):
            continue
        # What a heading names is no part of it.
        if heading and text.startswith(f"{heading}\n", start, end):
            spans.append((start, start + len(heading), ""))
            start += len(heading) + 1
        spans.append((start, end - text.endswith("::", start, end), ""))
    codes = [(start, end) for _, start, end in found]
    titled = adornments(text)
    end = 0
    while fenced := _FENCED.search(text, end):
        end = fenced.end(1)
        if fenced.start() not in titled:
            end = fenced.end()
            codes.append(fenced.span(2))
    for at, end in codes:
        code = text[at:end]
        typed = bool(_TYPED.search(code))  # what stands apart is printed
        for part in _GAP.split(code) if len(code) > _LONGEST_CODE else [code]:
            start = text.index(part, at)
            at = start + len(part)
            if part.strip() and (not typed or _TYPED.search(part)):
                spans.append((start, at, "fenced"))
    yield from sorted(spans)


def _kind(said: str, marker: str, heading: str, underlined: bool) -> str:
    """Return what kind of unit it is; `marker` stands before it in its line."""
    bare = NUMBERED.sub("", heading)
    # A row of a table as the readers write it has `|` between its cells.
    if said != heading and ("|" in marker or (" | " in said and "\n" not in said)):
        return "row"
    cut = bare.endswith("…") and said.startswith(bare[:-1])  # of a long title
    if "#" in marker or underlined or said in (heading, bare) or cut:
        return "head"
    if marker:
        return "item"
    if _EXPLAINED.match(said) or COLUMNS.match(said):
        return "item"
    if _CODE.search(said):
        return "code"
    whole = _ENDS.search(said[-20:]) and (
        said[-1:] in "。\uff01\uff1f" or len(said.split()) >= _WORDS
    )
    return "prose" if whole or len(said) > _LONGEST_TERM else "term"
