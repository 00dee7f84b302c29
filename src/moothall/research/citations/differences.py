"""Cited sentences of different sources that state other numbers or dates of one matter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from moothall.research.citations.comparison import sentence_of
from moothall.research.findings import Citation

_MAX_SENTENCES: Final = 150  # sentences that are compared with each other
_SHARED_OF_SHORTER: Final = 0.7  # of the words, without numbers, that the shorter sentence shares
_SHARED_OF_LONGER: Final = 0.5
_MARKED: Final = re.compile(r"“.*?\*\*(.+?)\*\*.*”", re.DOTALL)


def differing_citations(citations: Sequence[Citation]) -> list[tuple[Citation, Citation, str]]:
    """Return pairs of cited sentences of different sources that differ, with a remark."""
    by_sentence: dict[str, Citation] = {}
    for each in citations:
        # What stands around the marked sentence of a quote is about other matters.
        sentence = _MARKED.sub(r"“\1”", each.sentence)
        by_sentence.setdefault(sentence, replace(each, sentence=sentence))
    pairs = []
    for earlier, other in combinations([*by_sentence.values()][:_MAX_SENTENCES], 2):
        is_one_page = _page_url(earlier) == _page_url(other)
        if is_one_page and earlier.passage.fetched_at == other.passage.fetched_at:
            continue
        if remark := _remark(earlier.sentence, other.sentence):
            remark += " in one page, read at two times" * is_one_page
            pairs.append((earlier, other, remark))
    return pairs


def _page_url(citation: Citation) -> str:
    return citation.passage.url.partition("#")[0]


def _remark(sentence: str, other: str) -> str:
    content, other_content = sentence_of(sentence), sentence_of(other)
    terms, other_terms = (
        {each for each in s.terms if not each[0].isdigit()} for s in (content, other_content)
    )
    shared_count = len(terms & other_terms)
    shorter, longer = sorted((len(terms), len(other_terms)))
    # As two farms, of which each has its own figures.
    both_differ = terms - other_terms and other_terms - terms
    if (
        both_differ
        or shared_count < 2
        or shared_count < _SHARED_OF_SHORTER * shorter
        or shared_count < _SHARED_OF_LONGER * longer
    ):
        return ""
    for number in content.figures.quantities:
        comparable = [
            each for each in other_content.figures.quantities if each.dimension == number.dimension
        ]
        if (
            comparable
            and len(comparable) == len(content.figures.quantities)
            and not number.is_in(comparable)
        ):
            return "they state different numbers"
    dates = content.figures.dates and other_content.figures.dates
    dates_fit = any(
        a.fits(b)
        for x in content.figures.dates
        for a in x
        for y in other_content.figures.dates
        for b in y
    )
    return "they state different dates" if dates and not dates_fit else ""
