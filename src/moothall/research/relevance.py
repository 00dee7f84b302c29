"""The relevance of passages to objectives, by words: BM25, and the share that is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from functools import lru_cache
from typing import NamedTuple

from moothall.foundation.text.ranking import Ranking
from moothall.foundation.text.terms import subject, terms, words
from moothall.research.findings import Passage

RELEVANT = 0.34
"""A passage with less than this share of an objective's words, by weight, says nothing about it."""
_BEYOND = 300  # imagined passages beside the known ones, which were searched for
_TITLE = 2  # the weight of a word of the title, against 1 for the text


class Found(NamedTuple):
    """A passage that was found for an objective."""

    passage: Passage
    score: float  # how well it answers, by BM25
    share: float  # of the objective's words, by weight; 0 if it has one of several, no name


class Index:
    """An index of passages by the words of their texts and titles."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages: list[Passage] = list(
            {each.sha256 + each.url: each for each in passages}.values()
        )
        self._ranking = Ranking([_counted(titled(p), p.text) for p in self.passages], _BEYOND)

    @property
    def known(self) -> Set[str]:
        """The words that any passage has."""
        return self._ranking.among.keys()

    def weight(self, term: str) -> float:
        """Return how much a word says: the rarer it is, the more."""
        return self._ranking.weight(term)

    def weights(self, text: str) -> dict[str, float]:
        """Return the words of a question with their weights."""
        return {term: self.weight(term) for term in terms(subject(text))}

    def search(self, query: str, limit: int | None = None) -> list[Found]:
        """Return the passages that have any of a text's words, the best first."""
        # A word that no passage has is as rare as a word can be, and missing everywhere.
        weights = self.weights(query)
        whole = sum(weights.values()) or 1.0
        spelled = [] if query.isupper() else words(query)
        names = {term for word in spelled if word[1:].isupper() for term in terms(word)}
        found = []
        for place, score, there in self._ranking.best(weights)[:limit]:
            share = sum(weights[t] for t in there) / whole
            if len(there) == 1 < len(weights) and there[0] not in names:
                share = 0.0
            found.append(Found(self.passages[place], score, share))
        return found

    def best(self, queries: Iterable[str]) -> dict[Passage, float]:
        """Return the passages that have any word of some texts, each with its highest score."""
        best: dict[Passage, float] = {}
        for found in (found for query in queries for found in self.search(query)):
            best[found.passage] = max(best.get(found.passage, 0.0), found.score)
        return best

    def missing(self, query: str, among: Iterable[Passage]) -> list[str]:
        """Return the words of a text, as written, that no passage of `among` has."""
        known = {term for each in among for term in _counted(titled(each), each.text)}
        all = {word: terms(word) for word in words(subject(query))}
        return [word for word, own in all.items() if own and known.isdisjoint(own)]


def titled(passage: Passage) -> str:
    """Return a passage's title; empty for an action, whose title repeats the query."""
    return "" if passage.url.startswith("action:") else passage.title


@lru_cache(maxsize=20_000)
def _counted(title: str, text: str) -> Counter[str]:
    counts = Counter(terms(text))
    for term in terms(title):
        counts[term] += _TITLE
    return counts
