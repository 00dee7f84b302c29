"""Read manual pages, in the macros `man` or `mdoc`, as text."""

from __future__ import annotations

import re
from typing import Final

from moothall.research.reading.html import Document
from moothall.research.reading.mdoc import write_mdoc
from moothall.research.reading.roff import BREAK, GLUED, Line, Lines, Page

_IS_PAGE: Final = re.compile(r"^[.'][ \t]*(?:TH|Dd|SH|Sh|so)\b", re.MULTILINE)
_LOOKED_AT: Final = 20_000  # characters, for the first macro of a page
_ALTERNATE: Final = frozenset(("BI", "BR", "IB", "IR", "RB", "RI"))
_FONTS: Final = frozenset(("B", "I", "SB", "SM", "R", "CW"))
_PARAGRAPHS: Final = frozenset(("PP", "P", "LP", "HP", "sp", "Sp", "SY", "YS"))
_LITERAL: Final = {"nf": True, "EX": True, "Vb": True, "fi": False, "EE": False, "Ve": False}
_IN: Final = frozenset(("RS", "INDENT"))
_OUT: Final = frozenset(("RE", "UNINDENT"))
_LEFT_OUT: Final = {"TS": "TE", "EQ": "EN", "PS": "PE"}
_NUMBERED: Final = re.compile(r"\(?(\d{1,3})[.)]")
_BULLETS: Final = frozenset("•*o○+-—–·")
_IGNORED: Final = frozenset(("IX", "UN", "EE", "UE", "ME"))


def read_manual(source: str) -> Document | None:
    """Return a manual page's title, text and sections; None if it is not a manual page.

    A term stands above what explains it, which is indented. Fonts are left out.
    """
    first = _IS_PAGE.search(source[:_LOOKED_AT])
    if not first:
        return None
    lines, page = Lines(source), Page()
    if first[0][-2:] in ("Dd", "Sh"):
        write_mdoc(lines, page)
    else:
        _Man(lines, page).write()
    return page.document()


class _Man:
    """Writes a page of the macros `man`."""

    def __init__(self, lines: Lines, page: Page) -> None:
        self._lines, self._page = lines, page
        self._base = 0  # how often it is indented
        self._awaits = ""  # the macro that the next text belongs to

    def write(self) -> None:
        """Write the page, line by line."""
        lines = iter(self._lines)
        for line in lines:
            if line.name in _LEFT_OUT:
                self._page.end()
                end = _LEFT_OUT[line.name]
                inside = []
                for each in lines:
                    if each.name == end:
                        break
                    inside.append(each.text if not each.name else f".{each.name} {each.text}")
                if line.name == "TS":
                    self._table(inside)
            elif line.name:
                self._macro(line)
            elif self._page.is_code or line.text.strip():
                if line.text[:1] == " " and not self._page.is_code:
                    self._page.say(BREAK)
                self._say(line.text)
            else:
                self._paragraph()

    def _say(self, text: str) -> None:
        awaits, self._awaits = self._awaits, ""
        if awaits in ("SH", "SS"):
            self._page.head(text, 1 + (awaits == "SS"))
        elif awaits:  # a term
            self._page.say(text)
            if text.endswith(GLUED):
                self._awaits = awaits
                return
            self._page.end("tag", self._base)
            self._page.depth = self._base + 1
        else:
            self._page.say(text)

    def _paragraph(self, inside: bool = False) -> None:
        self._page.end()
        self._page.depth = self._base + inside

    def _macro(self, line: Line) -> None:
        name, words = line.name, line.words
        if name == "TH":
            self._page.entitle(words)
        elif name in ("SH", "SS"):
            self._base, self._page.is_code = 0, False
            self._awaits = name
            if words:
                self._say(line.text)
        elif name in ("TP", "TQ"):
            self._paragraph()
            self._awaits = name
        elif name == "IP":
            self._item(words)
        elif name in _PARAGRAPHS:
            self._paragraph(inside=name in ("sp", "Sp") and self._page.depth > self._base)
            if name == "SY":
                self._say(line.text)
        elif name in _IN or name in _OUT:
            self._base = max(self._base + (1 if name in _IN else -1), 0)
            self._paragraph()
        elif name in _LITERAL:
            self._page.end()
            self._page.is_code = _LITERAL[name]
        elif name in _ALTERNATE:
            self._say("".join(words))
        elif (name in _FONTS and words) or name in ("UR", "MT", "URL"):
            self._say(line.text)
        elif name == "OP":
            self._say(f"[{line.text}]")
        elif name == "br":
            self._page.say(BREAK)
        elif name == "so":
            self._page.say(f"See {line.text}.")
        elif name in self._lines.defined and name not in _IGNORED:
            if words:
                self._say(line.text)
            else:
                self._paragraph()

    def _item(self, words: list[str]) -> None:
        tag = words[0].strip("\xa0 ") if words else ""
        self._paragraph(inside=True)
        if not tag:
            return
        if number := _NUMBERED.fullmatch(tag):
            self._page.mark = f"{number[1]}."
        elif tag in _BULLETS:
            self._page.mark = "-"
        else:
            self._page.say(tag)
            self._page.end("tag", self._base)

    def _table(self, lines: list[str]) -> None:
        """Write the rows of a table with `|` between their cells."""
        rows = "\n".join(lines)
        split = re.search(r"tab ?\((.)\)[^;\n]{0,200};", rows)
        body = re.split(r"^[^;\n]*\.[ \t]*$", rows, maxsplit=1, flags=re.MULTILINE)[-1]
        first, *blocks = body.split("T{")
        held = (block.partition("T}") for block in blocks)
        body = first + "".join(" ".join(inside.split()) + after for inside, _, after in held)
        cut = split[1] if split else "\t"
        for row in body.split("\n"):
            if row[:1] != "." and any(map(str.isalnum, row)):
                cells = (re.sub(r"^\.\w+ ", "", each.strip()) for each in row.split(cut))
                self._page.say(" | ".join(cells) + BREAK)
        self._page.end()
