"""What can be said exactly of a sentence and the passage that it cites."""

from __future__ import annotations

import re
from typing import Final

from moothall.research.citations.comparison import PassageContent, passage_of, sentence_of
from moothall.research.citations.exact_checks import fault, verbatim
from moothall.research.findings import Support

_SENTENCE_CHARS: Final = 20_000  # characters of a sentence
# Of a quote, or the answer on top of a report.
MARKED_SENTENCE: Final = re.compile(r"(?:(?<=[“ ])|\A)\*\*(\S.*?)\*\*(?=[” ]|\Z)")
_WINDOW_SENTENCES: Final = 3  # sentences


def exact_support(sentence: str, passage: str, title: str = "") -> Support:
    """Return what is found without a model."""
    sentence = sentence[:_SENTENCE_CHARS]
    overlap, (start, end) = _best_window(sentence, passage_of(passage, title))
    window = passage[start:end]
    if verbatim(sentence, passage, title):
        return Support("supported", window, overlap=overlap)
    if reason := fault(sentence, passage, title):
        return Support("unsupported", window, reason, overlap=overlap)
    return Support("not checked", window, overlap=overlap)


def _best_window(sentence: str, passage: PassageContent) -> tuple[float, tuple[int, int]]:
    """Return the share of a sentence's words there, and the one to three sentences with most."""
    match = MARKED_SENTENCE.search(sentence)  # of a quote, the sentence that answers
    terms = sentence_of(match[1] if match else sentence).terms
    best_count, best_span = -1, (0, 0)
    for size in range(1, _WINDOW_SENTENCES + 1):
        for at in range(len(passage.sentences) - size + 1):
            count = len(terms & frozenset().union(*passage.terms[at : at + size]))
            if count > best_count:
                best_count, best_span = (
                    count,
                    (passage.sentences[at][0], passage.sentences[at + size - 1][1]),
                )
    passage_terms = frozenset().union(*passage.terms)
    return round(len(terms & passage_terms) / len(terms), 3) if terms else 0.0, best_span
