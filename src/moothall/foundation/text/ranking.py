"""Texts ranked by the words of a query: BM25."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_K1: Final = 1.2
_B: Final = 0.6


class Ranked(NamedTuple):
    """A text that has words of a query."""

    place: int  # among the texts
    score: float
    terms: list[str]  # those of the query that it has


class Ranking:
    """An index of texts, each given as its words, counted or weighed.

    The score is BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009). So many
    imagined texts without any of the words are counted, too: where these were searched for,
    the words of the search are more frequent in them than elsewhere.
    """

    def __init__(self, texts: Iterable[Mapping[str, float]], imagined: int = 0) -> None:
        self._texts = list(texts)
        self._lengths = [sum(each.values()) for each in self._texts]
        self._mean = sum(self._lengths) / max(len(self._texts), 1)
        self._imagined = imagined
        self.text_counts: Counter[str] = Counter()
        """How many of the texts have a word."""
        for each in self._texts:
            self.text_counts.update(each.keys())

    def weight(self, term: str) -> float:
        """Return how much a word says: the rarer it is, the more."""
        count, total = self.text_counts[term], len(self._texts) + self._imagined
        return math.log(1 + (total - count + 0.5) / (count + 0.5))

    def best(self, weights: Mapping[str, float]) -> list[Ranked]:
        """Return the texts that have any of the weighed words, the best first."""
        ranked = []
        for place, counts in enumerate(self._texts):
            hits = [term for term in weights if term in counts]
            if hits:
                length = _K1 * (1 - _B + _B * self._lengths[place] / self._mean)
                parts = (weights[t] * counts[t] * (_K1 + 1) / (counts[t] + length) for t in hits)
                ranked.append(Ranked(place, sum(parts), hits))
        return sorted(ranked, key=lambda each: (-each.score, each.place))
