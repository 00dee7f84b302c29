"""Passages compared with a question by its words: how rare each is, and who has it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Final, NamedTuple
from urllib.parse import unquote

from moothall.build import Language, Ranking, Words
from moothall.research.findings import Passage

RELEVANT_SHARE: Final = 0.25
"""A passage with less than this share of a question's words, by weight, says nothing about it."""
_IMAGINED_PASSAGES: Final = 300  # imagined passages beside the known ones, which were searched for
_NAME_WEIGHT: Final = 2  # the weight of a name, against 1 for another word
# The same of a word such as `long` after `how`.
_LIGHT_WEIGHT: Final = 0.25
_ABSENT_WEIGHT: Final = 1.6  # the same of a word that no passage has
_TITLE_WEIGHT: Final = 2  # the weight of a word of the title, against 1 for the text
_QUESTION_MARKS: Final = ("?", "\uff1f", "؟")
_NAME_LIKE: Final = re.compile(r".*[^\W_].*[\d._:/-]|[\d-].*|.+[A-ZÀ-ÖØ-Þ]", re.DOTALL)


class RankedPassage(NamedTuple):
    """A passage that has words of a question."""

    passage: Passage
    score: float  # how well it fits, by BM25
    share: float  # of the question's words; 0 if it has one of several, no name


class QuestionWords:
    """A question's words, as stems of its language, with their weights in an index."""

    def __init__(self, text: str, passages: Sequence[Passage]) -> None:
        question_words = Words(text)
        self._folded_words = Words(text.casefold())
        self.language: Language = question_words.language
        self.words_by_term: dict[str, str] = {}
        """Each term, and the word that it is of."""
        for word in question_words:
            for term in self.language.terms_of(word):
                self.words_by_term.setdefault(term, word)
        self._terms_by_word: dict[str, tuple[str, ...]] = {}
        self._passages = passages
        texts = [self._term_counts(each) for each in passages]
        self._ranking = Ranking(texts, _IMAGINED_PASSAGES)
        first_word = next(iter(self.words_by_term.values()), "")
        degree, pairs = self.language.degree, pairwise(question_words)
        measures = {word for before, word in pairs if degree and before.casefold() == degree}
        self._asks_why = question_words.asks_why
        # Where no stop words are known, the words that ask are unknown ones, as are pairs of
        # characters across the border of two words.
        has_stop_words = not Language().stop_words.isdisjoint(map(str.casefold, question_words))
        is_foreign = text.rstrip().endswith(_QUESTION_MARKS) and not has_stop_words
        self._light_terms: frozenset[str] = frozenset(
            term
            for term, word in self.words_by_term.items()
            if word in measures or (is_foreign and not self._ranking.text_counts[term])
        )
        self.weights: dict[str, float] = {}
        for term, word in self.words_by_term.items():
            # Of `Exim`, `3.11`, `max_size`.
            is_name = _NAME_LIKE.match(word) or (word[:1].isupper() and word != first_word)
            is_known = self._ranking.text_counts[term] or Words.is_unspaced(term)
            factor = (_NAME_WEIGHT if is_name else 1) * (1 if is_known else _ABSENT_WEIGHT)
            factor = _LIGHT_WEIGHT if term in self._light_terms else factor
            self.weights[term] = sqrt(self._ranking.weight(term)) * factor
        most = max(self.weights.values(), default=0.0)
        self.rarest_terms: frozenset[str] = frozenset(
            term for term, weight in self.weights.items() if weight == most
        )
        self.total_weight: float = sum(self.weights.values()) or 1.0
        self.pairs: frozenset[tuple[str, str]] = frozenset(pairwise(self.words_by_term))
        """Terms that follow each other in the question."""

    def terms_of_word(self, word: str) -> tuple[str, ...]:
        """Return the question's terms that a word of a text has."""
        if word not in self._terms_by_word:
            all_terms = self.language.terms_of(word)
            self._terms_by_word[word] = tuple(
                term for term in all_terms if term in self.words_by_term
            )
        return self._terms_by_word[word]

    def terms_in(self, text: str) -> frozenset[str]:
        """Return the question's terms that a text has."""
        return frozenset(term for word in words_in(text) for term in self.terms_of_word(word))

    def terms_in_order(self, text: str) -> list[str]:
        """Return the question's terms that a text has, in its order; empty for other words."""
        return [term for word in words_in(text) for term in self.terms_of_word(word) or ("",)]

    def is_repeated_in(self, text: str) -> bool:
        """Return whether a text has the question itself, word for word."""
        text_words = f" {' '.join(words_in(text.casefold()))} "
        return len(self._folded_words) > 1 and f" {' '.join(self._folded_words)} " in text_words

    def has_all_words_of(self, text: str) -> bool:
        """Return whether a text has no words but the question's."""
        text_words = words_in(text)
        return all(self.terms_of_word(word) and not Words.is_unspaced(word) for word in text_words)

    def share(self, terms: Iterable[str]) -> float:
        """Return the share of the question's words, by weight, that some terms are."""
        return sum(self.weights[each] for each in terms) / self.total_weight

    def adjusted_share(self, terms: Collection[str]) -> float:
        """Return the share of some terms; 0 for one of several that is no name: max_size."""
        if len(terms) == 1 < len(self.weights) - len(self._light_terms):
            (term,) = terms
            if not _NAME_LIKE.match(self.words_by_term[term]):
                return 0.0
        return self.share(terms)

    def is_said(self, terms: Collection[str]) -> bool:
        """Return whether some terms are all that is asked; of a reason, words cannot tell."""
        pairs = (each for each in self._light_terms if Words.is_unspaced(each))
        return not self._asks_why and self.words_by_term.keys() <= {*terms, *pairs}

    def evidence_weight(self, terms: Iterable[str]) -> float:
        """Return how much some terms say together, by how rare they are."""
        return sum(
            self._ranking.weight(each) * (_LIGHT_WEIGHT if each in self._light_terms else 1)
            for each in terms
        )

    def best(self, limit: int | None = None) -> list[RankedPassage]:
        """Return the passages that have any of the words, the best first."""
        ranked = []
        for number, score, terms in self._ranking.best(self.weights)[:limit]:
            ranked.append(RankedPassage(self._passages[number], score, self.adjusted_share(terms)))
        return ranked

    def has_passages(self) -> bool:
        """Return whether any passage says something about the question."""
        return any(each.share >= RELEVANT_SHARE for each in self.best())

    def missing_words(self, passages: Iterable[Passage]) -> list[str]:
        """Return the words, as written, of which none of some passages has a term."""
        terms = {term for each in passages for term in self._term_counts(each)}
        missing_by_word: dict[str, bool] = {}
        for term, word in self.words_by_term.items():
            missing_by_word[word] = missing_by_word.get(word, True) and term not in terms
        return [word for word, is_missing in missing_by_word.items() if is_missing]

    def _term_counts(self, passage: Passage) -> Counter[str]:
        counts = Counter(self.terms_in_order(passage.text))
        for term in self.terms_in_order(full_title(passage)):
            counts[term] += _TITLE_WEIGHT
        return counts


def similarity_scores(passages: Iterable[Passage], queries: Iterable[str]) -> dict[Passage, float]:
    """Return the passages that have any word of some texts, each with its highest score."""
    distinct = [*dict.fromkeys(passages)]
    scores: dict[Passage, float] = {}
    for ranked in (ranked for query in queries for ranked in QuestionWords(query, distinct).best()):
        scores[ranked.passage] = max(scores.get(ranked.passage, 0.0), ranked.score)
    return scores


def title_of_passage(passage: Passage) -> str:
    """Return a passage's title; empty for an action, whose title repeats the query."""
    return "" if passage.url.startswith("action:") else passage.title


def full_title(passage: Passage) -> str:
    """Return a passage's title with the name of its file, by which a question may ask for it."""
    name = passage.url.partition("#")[0].rpartition("/")[2].partition(".")[0]
    return f"{title_of_passage(passage)} {unquote(name)}"


@lru_cache(maxsize=1 << 14)
def words_in(text: str) -> tuple[str, ...]:
    """Return the words of a text, read once."""
    return tuple(Words(text))
