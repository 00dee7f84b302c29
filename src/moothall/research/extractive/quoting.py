"""Quote what was chosen: with what leads to it, its code and list, in one line, without markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from moothall.foundation.text.terms import terms
from moothall.research.citations import fault
from moothall.research.extractive.asked import Asked
from moothall.research.extractive.facts import Candidate
from moothall.research.extractive.units import Unit
from moothall.research.extractive.windows import LONGEST
from moothall.research.findings import Passage
from moothall.research.writing.safe_markdown import has_html

_CLAUSE: Final = re.compile(r"[,;:]\s+|[\uff0c\uff1b\uff1a\u3001]|\n")
# The next line of a comment, or of what a block quote or a mail quotes.
_COMMENTED: Final = re.compile(r"\n[ \t]*(?:#[ \t]+|(?:>[ \t]?)+)")
_WHOLE: Final = re.compile(r"(?s).*(?=[\s\uff0c\uff1b\uff1a\u3001])")  # words or clauses
_DRAWN: Final = re.compile(r"(?:\s[^\w\s…,'\"]{1,3}(?=\s)){3}")  # signs without a word
_CELL_DRAWN: Final = re.compile(r"[\\/^<>+=~_│┌└├─-]*[\\/^<>+=~_│┌└├─]")  # `-` is no drawing
_DRAWN_CELLS: Final = 3
_LINKED: Final = re.compile(r"```|\]\(|!\[|\[\^")
_PAGES: Final = re.compile(r"(?: - .*){4}|(?: · .*){2}")  # a list of them


class Quote(NamedTuple):
    """What is quoted for an answer."""

    passage: Passage
    text: str  # in one line
    code: str  # code that follows the text; empty for none

    @property
    def shown(self) -> str:
        """The quote as Markdown."""
        return " ".join(
            filter(None, (self.text and f"“{self.text}”", self.code and f"`{self.code}`"))
        )


def quoted(candidate: Candidate, asked: Asked) -> Quote | None:
    """Return a candidate's quote; shorter if not all can be quoted, None if nothing can."""
    for quote in _quotes(candidate, asked):
        if fault(quote.shown, quote.passage.text) is None:
            return quote
    return None


def _quotes(candidate: Candidate, asked: Asked) -> Iterator[Quote]:
    """Yield what could be quoted, the best first."""
    passage, text, unit = candidate.passage, candidate.passage.text, candidate.unit
    lead = " ".join(text[slice(*candidate.lead)].split()) if candidate.lead else ""
    if unit.kind == "code" and (code := _code(text, unit)):
        if lead.endswith(":") and not _is_marked(lead):
            yield Quote(passage, lead, code)
        yield Quote(passage, "", code)
    start, end = candidate.window
    for first, last in dict.fromkeys(((start, end), (unit.start, unit.end))):
        said = shortened(text[first:last], asked.weights)
        for each in (f"{lead} … {said}", said) if lead else (said,):
            # A page's links, images and HTML must not become the report's.
            if _is_marked(each):
                continue
            if candidate.follows and last == end:
                yield from _with_what_follows(candidate, each)
            yield Quote(passage, each, "")


def _is_marked(text: str) -> bool:
    """Return whether a text has markup of a page, lists its pages, or is of a drawing."""
    cells = text.split(" | ")
    drawn = sum(bool(_CELL_DRAWN.fullmatch(each.strip())) for each in cells) >= _DRAWN_CELLS
    drawn = drawn or any(_DRAWN.search(f" {each} ") for each in cells)
    return bool(drawn or _LINKED.search(text) or _PAGES.search(text) or has_html(text))


def _with_what_follows(candidate: Candidate, said: str) -> Iterator[Quote]:
    """Yield a quote with the code or the list that it leads to."""
    passage, follows = candidate.passage, candidate.follows
    if follows[0].kind != "code":
        items = ""
        for before, each in zip((None, *follows), follows, strict=False):
            between = passage.text[before.end : each.start] if before else ""
            left_out = any(map(str.isalnum, between))
            items += f"{' … ' if left_out else between}{passage.text[each.start : each.end]}"
        if not (_LINKED.search(items) or has_html(items)):
            yield Quote(passage, f"{said} … {' '.join(items.split())}", "")
    elif code := _code(passage.text, follows[0]):
        yield Quote(passage, said, code)


def _code(text: str, unit: Unit) -> str:
    """Return code in one line; empty if it cannot stand between backticks."""
    code = " ".join(text[unit.start : unit.end].split())
    return code if len(code) <= LONGEST and "`" not in code else ""


def shortened(sentence: str, wanted: dict[str, float]) -> str:
    """Return a sentence in one line; of a long one, the clauses or lines that say most."""
    sentence = _COMMENTED.sub("\n", sentence)
    if len(sentence) > LONGEST:
        starts = [0, *(found.end() for found in _CLAUSE.finditer(sentence))]
        # Of text without marks, such as a transcript, the words in the middle of a clause.
        amid = (sentence.find(" ", at) + 1 for at in range(200, len(sentence), 200))
        cuts = {at: sentence[at : at + LONGEST] for at in (*starts, *amid)}
        at = max(cuts, key=lambda at: (_worth(wanted, cuts[at]), at in starts, at == 0, at))
        to_end = at + len(cuts[at]) == len(sentence)
        whole = None if to_end else _WHOLE.match(cuts[at])
        sentence = f"{'… ' * (at > 0)}{whole[0] if whole else cuts[at]}{' …' * (not to_end)}"
    return " ".join(sentence.split())


def _worth(wanted: dict[str, float], text: str) -> float:
    there = {*terms(text)}
    return sum(weight for term, weight in wanted.items() if term in there)
