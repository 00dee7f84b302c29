"""The months and years that a question or a sentence names."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moothall.foundation.text.values import MONTHS_BY_NAME, fold, keys_in

_MONTH: Final = re.compile(
    rf"\b(?:{'|'.join(sorted((each.capitalize() for each in MONTHS_BY_NAME), key=len)[::-1])})\b"
)
_YEAR: Final = re.compile(r"(?<![\d.,:-])(?:19|20)\d\d(?![\d:]|[.,]\d)")
# Of `after May 2026` the sentence that answers has another month.
_WITHIN: Final = re.compile(
    rf"\b(?i:in|im|of|during)\s+((?:{_MONTH.pattern}\W+)?{_YEAR.pattern}|{_MONTH.pattern})"
)


class Moment(NamedTuple):
    """Months and years; empty for none."""

    months: frozenset[int]
    years: frozenset[int]

    def fits(self, said: Moment) -> bool:
        """Return whether what is said may be of this moment: of no other month or year."""
        return all(
            not asked or not there or asked & there for asked, there in zip(self, said, strict=True)
        )


NEVER: Final = Moment(frozenset(), frozenset())


def moment_of(text: str) -> Moment:
    """Return the months and years that a text names."""
    dates = [each for each in keys_in(fold(text)) if each[0] == "date"]
    named = (MONTHS_BY_NAME[each.lower()] for each in _MONTH.findall(text))
    years = (int(each) for each in _YEAR.findall(text))
    return Moment(
        frozenset((*named, *(month for _, _, month, _ in dates))),
        frozenset((*years, *(year for _, year, *_ in dates if year))),
    )


def asked_moment(question: str) -> tuple[Moment, str]:
    """Return the moment that a question is restricted to, and the question without it."""
    found = " ".join(each[0] for each in _WITHIN.finditer(question))
    return moment_of(found), _WITHIN.sub(" ", question)
