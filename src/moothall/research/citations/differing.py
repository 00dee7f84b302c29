"""Cited sentences of different sources that seem to say different things of one matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from moothall.research.citations.features import NAMES, evidence
from moothall.research.citations.parsed import Sentence, said
from moothall.research.findings import Citation
from moothall.research.sentences import sentences

_MOST: Final = 150  # sentences that are compared with each other
_SHARED: Final = 0.7  # of the words, without numbers, that the shorter sentence shares
_OF_LONGER: Final = 0.5
_PLACE: Final = {name: place for place, name in enumerate(NAMES)}


def differing(citations: Sequence[Citation]) -> list[tuple[Citation, Citation, str]]:
    """Return pairs of cited sentences of different sources that differ, with a remark."""
    first: dict[str, Citation] = {}
    for each in citations:
        first.setdefault(each.sentence, each)
    made = []
    for one, other in combinations([*first.values()][:_MOST], 2):
        if _source(one) != _source(other) and (remark := _remark(one.sentence, other.sentence)):
            made.append((one, other, remark))
    return made


def _source(citation: Citation) -> str:
    return citation.passage.url.partition("#")[0]


def _remark(one: str, other: str) -> str:
    ours, theirs = said(one), said(other)
    mine, others = _words(ours), _words(theirs)
    shared = len(mine & others)
    least, most = sorted((len(mine), len(others)))
    if shared < 2 or shared < _SHARED * least or shared < _OF_LONGER * most:
        return ""
    apart = mine - others and others - mine  # as two farms, of which each has its own figures
    for said_one in ours.quantities:
        same = [q for q in theirs.quantities if q.dimension == said_one.dimension]
        if not apart and same and len(same) == len(ours.quantities) and all(
            not _equal(said_one.value, q.value) for q in same
        ):  # fmt: skip
            return "they state different numbers"
    dated = ours.dates and theirs.dates and not apart
    if dated and not any(a.fits(b) for a in ours.dates for b in theirs.dates):
        return "they state different dates"
    if not (_is_one(one) and _is_one(other)):  # what denies one sentence may not deny the next
        return ""
    values = evidence(one, other).values
    if values[_PLACE["covered_window"]] < _SHARED:
        return ""
    if values[_PLACE["denied_more"]] or values[_PLACE["denied_less"]]:
        return "one denies what the other says"
    if values[_PLACE["opposed"]] > 0.3:
        return "they use opposite words"
    return ""


def _is_one(text: str) -> bool:
    """Return whether a text, or what it quotes, is one sentence."""
    return len(sentences(text.strip("“” "))) == 1


def _words(text: Sentence) -> set[str]:
    return {each.stem for each in text.about if each.weight > 0.5 and not each.small[0].isdigit()}


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= 0.01 * max(abs(one), abs(other))
