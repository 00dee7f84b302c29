"""A question, prepared to be compared with passages: its words by weight, names and kind."""

from __future__ import annotations

import re
from collections.abc import Set
from itertools import pairwise
from typing import Final

from moothall.research.extractive.question import STRONG, Kind, kind_of
from moothall.research.relevance import Index
from moothall.research.sentences import subject, terms, terms_of, words
from moothall.sqlite.fulltext import UNSPACED

_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_CLASS: Final = 0.35  # the weight of a word such as `option` after `which`, against 1


class Asked:
    """A question, its words weighed by how rare they are in an index."""

    def __init__(self, index: Index, question: str) -> None:
        self.text = question
        self.kind: Kind = kind_of(question)
        self.is_strong: bool = self.kind.name in STRONG
        self.weights: dict[str, float] = index.weights(question)
        said = words(subject(question))
        for term in (term for word in said if self.kind.is_class(word) for term in terms_of(word)):
            if term in self.weights:
                self.weights[term] *= _CLASS
        self.total: float = sum(self.weights.values()) or 1.0
        self.pairs: list[tuple[str, str]] = [*pairwise(dict.fromkeys(terms(subject(question))))]
        self.rarest: list[str] = sorted(self.weights, key=lambda term: -self.weights[term])
        shouted = question.isupper()
        self.names: set[str] = {
            terms_of(word)[0]
            for place, word in enumerate(said)
            if terms_of(word) and not shouted and _is_name(word, place)
        }
        self.acronyms: set[str] = {
            term for word in said if not shouted and word[1:].isupper() for term in terms_of(word)
        }
        self.is_unspaced: bool = sum(map(_is_unspaced, self.weights)) > len(self.weights) / 2
        self._small = question.casefold()

    def share(self, there: Set[str]) -> float:
        """Return the share of the question's words, by weight, that a set has."""
        return sum(weight for term, weight in self.weights.items() if term in there) / self.total

    def has_kind(self, text: str) -> bool:
        """Return whether a text has what is asked for, and the question has not."""
        found = self.kind.answers.finditer(text)
        return any(each[0].casefold() not in self._small for each in found)


def _is_unspaced(term: str) -> bool:
    return bool(_UNSPACED.match(term))


def _is_name(word: str, place: int) -> bool:
    """Return whether a word of a question, at a place in it, names something."""
    if any(character.isdigit() or character in "_./" for character in word):
        return True
    return (place > 0 and word[:1].isupper()) or word[1:].isupper()
