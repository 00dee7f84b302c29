"""Cited sentences of different sources that state other numbers or dates of one matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from moothall.research.citations.comparison import sentence_of
from moothall.research.findings import Citation

_MAX_SENTENCES: Final = 150  # sentences that are compared with each other
_SHARED: Final = 0.7  # of the words, without numbers, that the shorter sentence shares
_OF_LONGER: Final = 0.5


def differing_citations(citations: Sequence[Citation]) -> list[tuple[Citation, Citation, str]]:
    """Return pairs of cited sentences of different sources that differ, with a remark."""
    first: dict[str, Citation] = {}
    for each in citations:
        first.setdefault(each.sentence, each)
    pairs = []
    for earlier, other in combinations([*first.values()][:_MAX_SENTENCES], 2):
        is_one_page = _page(earlier) == _page(other)
        if is_one_page and earlier.passage.fetched_at == other.passage.fetched_at:
            continue
        if remark := _remark(earlier.sentence, other.sentence):
            remark += " in one page, read at two times" * is_one_page
            pairs.append((earlier, other, remark))
    return pairs


def _page(citation: Citation) -> str:
    return citation.passage.url.partition("#")[0]


def _remark(sentence: str, other: str) -> str:
    ours, theirs = sentence_of(sentence), sentence_of(other)
    own_terms, foreign = (
        {each for each in s.terms if not each[0].isdigit()} for s in (ours, theirs)
    )
    shared = len(own_terms & foreign)
    least, most = sorted((len(own_terms), len(foreign)))
    # As two farms, of which each has its own figures.
    differ = own_terms - foreign and foreign - own_terms
    if differ or shared < 2 or shared < _SHARED * least or shared < _OF_LONGER * most:
        return ""
    for number in ours.figures.quantities:
        comparable = [
            each for each in theirs.figures.quantities if each.dimension == number.dimension
        ]
        if (
            comparable
            and len(comparable) == len(ours.figures.quantities)
            and not number.is_in(comparable)
        ):
            return "they state different numbers"
    dates = ours.figures.dates and theirs.figures.dates
    fits = any(
        a.fits(b) for x in ours.figures.dates for a in x for y in theirs.figures.dates for b in y
    )
    return "they state different dates" if dates and not fits else ""
