"""The source of manual pages, roff: its lines, escapes and conditions, and a page written from it.

No request runs anything, reads another file, or defines what later lines mean but for strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from moothall.foundation.errors import UnreadableDocument
from moothall.research.findings import Section
from moothall.research.reading.html import Document

LARGEST: Final = 4 * 2**20
"""Characters of a page, at most; those of its strings count as often as it uses them."""
BREAK: Final = "\x02"  # a line ends here
GLUED: Final = "\x01"  # what follows is joined without a space
_STRING: Final = 200  # characters that a string holds
_TERM: Final = 120  # characters of a paragraph that what is indented below it explains
_NESTED: Final = 10  # conditions in one line
_DEEPEST: Final = 8  # how far text is indented
_WORDS: Final = 500  # arguments of a macro
_INDENT: Final = "    "


def paired(text: str) -> dict[str, str]:
    """Return names and what each stands for, from a text that lists them in turn."""
    listed = text.split()
    return dict(zip(listed[::2], listed[1::2], strict=True))


_GLYPHS: Final = paired(
    """aq ' cq ' oq ' fm ' aa ' ga ` dq " lq “ rq ” bu • ci ○ em — en - hy - mi - pl + sl / rs \\
    ha ^ ti ~ at @ ul _ ru _ bv | or | br | de ° co © rg ® tm ™ mu x tmu x di ÷ +- ± <= ≤ >= ≥ != ≠
    == ≡ -> → <- ← <> ↔ ua ↑ da ↓ la < ra > lB [ rB ] lC { rC } sh # Do $ Eu € Fo « Fc » mc µ *m µ
    ss ß if ∞ sc § dg † dd ‡ 14 ¼ 12 ½ 34 ¾ :a ä :o ö :u ü :A Ä :O Ö :U Ü 'e é `e è 'a á `a à ^o ô
    ^e ê ,c ç ~n ñ /o ø"""
)
_STRINGS: Final = paired("R ® Tm ™ lq “ rq ” Aq ' Gt > Lt <")
_NAME: Final = r"(?:\[([^\]\n]{0,80})\]|\((..)|(.))"
_ESCAPE: Final = re.compile(
    rf"\\(?:\*{_NAME}|\((?P<two>..)|\[(?P<long>[^\]\n]{{0,80}})\]|[fFnmMgkV]{_NAME}"
    rf"|s[-+]?(?:\(..|\[[^\]\n]{{0,9}}\]|'[^'\n]{{0,9}}'|\d)|(?P<quoted>[hvwlLoXbDNCRSHxZ])(?P<end>['\"!|])"
    r"(?P<inside>(?:(?!(?P=end))[^\n]){0,200})(?P=end)|(?P<one>.)|$)"
)
_ONES: Final = {
    "-": "-",
    "e": "\\",
    "\\": "\\",
    " ": "\xa0",
    "~": "\xa0",
    "0": "\xa0",
    "'": "'",
    "`": "`",
    ".": ".",
    "t": "\t",
    "c": GLUED,
    "p": BREAK,
}
_COMMENT: Final = re.compile(r'(?<!\\)((?:\\\\)*)\\["#].*')
_CONDITION: Final = re.compile(r"(?:if|ie)[ \t]*(!?)[ \t]*(\S+)[ \t]*(.*)", re.DOTALL)
_DEFINES: Final = frozenset(("de", "de1", "dei", "am", "am1", "ig"))
_HOLDS: Final = ("n", "\\n(.g", "\\n[.g]")  # of conditions: it is for a terminal, by groff
_NAMED: Final = re.compile(r"^NAME\n+\s*([^\s,–—]+)(?:,[^\n–—]*)?(?: -+ | [–—] )", re.M)
_WORD: Final = re.compile(r'"((?:[^"]|"")*)(?:"|$)|(\S+)')


class Line(NamedTuple):
    """A line of a page: a macro with its arguments, or text if it has no name."""

    name: str
    words: list[str]
    text: str


class Lines:
    """The lines of a page, without comments, definitions and conditions that do not hold."""

    def __init__(self, source: str) -> None:
        self.defined: set[str] = set()  # macros of the page's own
        self._lines = iter(source.replace("\\\n", "").split("\n"))
        self._strings = dict(_STRINGS)
        self._room = LARGEST - len(source)
        if self._room < 0:
            raise UnreadableDocument(f"the manual page has more than {LARGEST // 2**20} MiB")

    def __iter__(self) -> Iterator[Line]:
        held = True
        for line in self._lines:
            line = _COMMENT.sub(r"\1", line)
            nested = 0
            while line[:1] in (".", "'") and (nested := nested + 1) < _NESTED:
                asked = line[1:].lstrip()
                name = re.split(r"[\s\\]", asked, maxsplit=1)[0]
                rest = asked[len(name) :].strip()
                if name in ("if", "ie"):
                    found = _CONDITION.match(asked)
                    holds = found is not None and (found[2] in _HOLDS) != bool(found[1])
                    held = holds if name == "ie" else held
                    line = self._chosen(holds, found[3] if found else "")
                elif name == "el":
                    line = self._chosen(not held, rest)
                elif name in _DEFINES:
                    self._define(name, rest)
                    break
                elif name in ("ds", "as"):
                    self._store(name, rest)
                    break
                elif not name:
                    break
                else:
                    words = [self.plain(w) for w in _words(rest)]
                    yield Line(name, words, " ".join(words))
                    break
            else:
                yield Line("", [], self.plain(line))

    def plain(self, text: str) -> str:
        """Return a text without escapes: fonts, sizes, moves, and glyphs by their names."""
        return _ESCAPE.sub(self._escaped, text) if "\\" in text else text

    def _chosen(self, holds: bool, rest: str) -> str:
        """Return what a condition says, without the block that it skips."""
        opened = rest.startswith("\\{")
        if holds:
            return rest[2:].lstrip() if opened else rest
        depth = rest.count("\\{") - rest.count("\\}")
        while depth > 0 and (line := next(self._lines, None)) is not None:
            depth += line.count("\\{") - line.count("\\}")
        return "."

    def _define(self, name: str, rest: str) -> None:
        given = rest.split()
        self.defined.update(given[:1] if name != "ig" else ())
        end = given[1] if len(given) > 1 else given[0] if name == "ig" and given else "."
        for line in self._lines:
            if line[:1] in (".", "'") and line[1:].split()[:1] == [end]:
                break

    def _store(self, name: str, rest: str) -> None:
        key, _, value = rest.partition(" ")
        before = self._strings.get(key, "") if name == "as" else ""
        value = self.plain(value.strip().removeprefix('"'))
        self._strings[key] = (before + value)[:_STRING]

    def _escaped(self, found: re.Match[str]) -> str:
        if found[0].startswith("\\*"):
            text = self._strings.get(found[1] or found[2] or found[3] or "", "")
            self._room -= len(text)
            if self._room < 0:
                raise UnreadableDocument(
                    f"the manual page's strings make more than {LARGEST // 2**20} MiB of it"
                )
            return text
        if name := found["two"] or found["long"]:
            return _glyph(name)
        if found["quoted"]:
            inside = found["inside"]
            if found["quoted"] == "N" and inside.isdecimal() and len(inside) < 7:
                return _character(int(inside))
            return " " if found["quoted"] == "h" and not inside.startswith("-") else ""
        return _ONES.get(found["one"] or "", "")


def _glyph(name: str) -> str:
    if re.fullmatch(r"u[0-9A-F]{4,6}(?:_[0-9A-F]{4,6})*", name):
        return "".join(_character(int(each, 16)) for each in name[1:].split("_"))
    if re.fullmatch(r"char\d{1,6}", name):
        return _character(int(name[4:]))
    return _GLYPHS.get(name, "")


def _character(code: int) -> str:
    return chr(code) if 32 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else ""


def _words(text: str) -> list[str]:
    """Return the arguments of a macro; a space after a backslash ends none."""
    found = islice(_WORD.finditer(text.replace("\\ ", "\\~")), _WORDS)
    return [(e[1] if e[2] is None else e[2]).replace('""', '"') for e in found]


class _Piece(NamedTuple):
    depth: int
    kind: str  # head, tag, text, item, code
    text: str


class Page:
    """A page as it is written: headings, terms with what explains them, paragraphs, lists."""

    def __init__(self) -> None:
        self.title: str = ""
        self.section: str = ""  # of the manual, such as `1`
        self.depth: int = 0
        self.mark: str = ""  # of the item of a list that begins
        self.is_code: bool = False
        self._pieces: list[_Piece] = []
        self._said: list[str] = []

    def entitle(self, words: list[str]) -> None:
        """Take the name and the section of a page from its first line."""
        self.title = words[0].lower() if len(words) > 1 else " ".join(words)
        self.section = words[1] if len(words) > 1 else ""

    def say(self, text: str) -> None:
        """Add text to the paragraph that is being written."""
        if text.strip() or (self.is_code and self._said):
            self._said.append(text)

    def end(self, kind: str = "text", depth: int | None = None) -> None:
        """End the paragraph, if any was begun; it is of some kind."""
        if self._said:
            joined = ("\n" if self.is_code else " ").join(self._said)
            joined = re.sub(rf"{GLUED}[ \n]?", "", joined).replace("\xa0", " ")
            if self.is_code:
                lines = [each.rstrip() for each in joined.replace(BREAK, "\n").split("\n")]
                kind = "code"
            else:
                lines = [" ".join(each.split()) for each in joined.split(BREAK)]
            text = "\n".join(filter(str.strip, lines))
            if self.mark:
                kind, text, self.mark = "item", f"{self.mark} {text.removeprefix('• ')}", ""
            elif text.startswith("• ") and kind == "text":
                kind, text = "item", f"- {text[2:]}"
            if text:
                self._pieces.append(_Piece(self.depth if depth is None else depth, kind, text))
        self._said = []

    def head(self, text: str, level: int) -> None:
        """Write a heading."""
        self.end()
        self.depth, self.mark = 0, ""
        if text := " ".join(text.replace("\xa0", " ").split()):
            self._pieces.append(_Piece(level, "head", text.replace(GLUED, "")))

    def document(self) -> Document:
        """Return the page; what explains a term stands below it, in one paragraph."""
        self.end()
        text: list[str] = []
        sections: list[Section] = []
        length, above = 0, ""
        item: int | None = None  # the depth of the term that is explained
        before: _Piece | None = None
        for place, each in enumerate(self._pieces):
            following = self._pieces[place + 1] if place + 1 < len(self._pieces) else None
            inside = item is not None and each.depth > item and each.kind != "head"
            listed = before is not None and before.kind == each.kind == "item"
            gap = "" if not text else "\n" if inside or listed else "\n\n"
            indent = "" if each.kind == "head" else _INDENT * min(each.depth, _DEEPEST)
            if not inside:
                item = each.depth if _is_term(each, following) else None
            if each.kind == "head":
                above = each.text if each.depth == 1 else above
                named = each.text if each.depth == 1 else f"{above} – {each.text}"
                anchor = re.sub(r"[^\w]+", "-", each.text.lower()).strip("-")
                sections.append(Section(length + len(gap), anchor, named))
            written = gap + "\n".join(indent + line for line in each.text.split("\n"))
            text.append(written)
            length += len(written)
            before = each
        own = _NAMED.search("".join(text))
        title = own[1] if own and self.section else self.title
        title = f"{title}({self.section})" if self.section else title
        return Document(title, "".join(text), sections)


def _is_term(piece: _Piece, following: _Piece | None) -> bool:
    """Return whether what follows, indented, explains a paragraph: a term or an option."""
    if piece.kind == "tag":
        return True
    deeper = following is not None and following.kind != "head" and following.depth > piece.depth
    short = len(piece.text) <= _TERM and piece.text[-1] not in ".:;,!?"
    return piece.kind == "text" and deeper and short
