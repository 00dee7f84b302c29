"""Rank the sentences of passages for a question, and judge whether they answer it.

One weighted sum: the question's words in and around a sentence, weighed by how rare they are, words
that stand together, the heading, and the passage's rank. One rule refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from math import exp
from typing import Final, NamedTuple

from moothall.research.extractive.question_words import (
    QuestionWords,
    full_title,
    title_of_passage,
    words_in,
)
from moothall.research.extractive.quoting import Candidate, Quote, quote_of
from moothall.research.extractive.units import units
from moothall.research.findings import Passage
from moothall.research.reading.documents import kind_of

MAX_QUOTES: Final = 10  # of an answer, at most
_MAX_PASSAGES: Final = 40  # the best, whose sentences are looked at
_MAX_SENTENCES: Final = 200  # the best, of which some are quoted
_CUT_SHARE: Final = 0.6  # what scores less than this share of the best is left out
_MAX_OF_PAGE: Final = 4  # quotes of one page, at most
_CHARS_BEFORE, _CHARS_AFTER = 250, 350  # characters beside a sentence that a quote may show
# How much a word of the question counts, by where it is.
_IN_SENTENCE, _IN_LEAD, _NEARBY, _IN_HEADING, _IN_TITLE, _IN_PASSAGE = 1.0, 0.9, 0.7, 0.6, 0.4, 0.25
# How much each fact says for the first quote to answer: the share of the question's words that the
# best quotes have, and how rare the words are together that one sentence of the first says, with
# what stands above it. Both are the logistic regression of the questions `develop`,
# `kinds-develop`, `unknown-develop`, `folders` and `definitions` of benchmarks/data/answers.jsonl,
# rounded; no others were looked at.
_WEIGHTS: Final = {"share": 5.0, "evidence": 0.2}
_LOG_ODDS: Final = -6.0  # without any of them
FOUND_LIKELIHOOD: Final = 1 / 6  # from which on a question counts as answered, perhaps
_BEST_QUOTES: Final = 3  # quotes of which the share is the mean
# How much each fact counts beside the words, found on the splits `develop`, `kinds-develop` and
# `definitions` of benchmarks/data/answers.jsonl. Half or twice of one changes few first quotes.
_WORDS, _WINDOW, _TOGETHER, _RANK, _HEADING = 4.0, 1.5, 0.5, 1.4, 1.6
_CODE, _HEADS, _ASKS, _REPEATS, _ENTRY, _SOURCE = 0.5, 1.5, 1.0, 2.0, 8.0, 1.0
_NO_TERMS: Final[frozenset[str]] = frozenset()


def candidates(question: QuestionWords) -> Iterator[Candidate]:
    """Yield the sentences of the best passages that have a word of the question in or near them."""
    ranked = question.best(_MAX_PASSAGES)
    for passage, score, _ in ranked:
        yield from _passage_candidates(question, passage, score / ranked[0].score)


def _passage_candidates(
    question: QuestionWords, passage: Passage, rank: float
) -> Iterator[Candidate]:
    text = passage.text
    page, _, heading = title_of_passage(passage).rpartition(" – ")
    heading = heading if page else ""
    passage_units = units(text, heading)
    ordered_terms = [question.terms_in_order(text[each.start : each.end]) for each in passage_units]
    unit_terms = [frozenset(filter(None, each)) for each in ordered_terms]
    heading_terms, title_terms = question.terms_in(heading), question.terms_in(full_title(passage))
    all_terms = title_terms.union(*unit_terms)
    is_source = kind_of(passage.url.partition("#")[0]) in ("source", "python")
    repeats_question = any(
        question.is_repeated_in(text[u.start : u.end]) for u in passage_units if u.kind != "head"
    )
    for number, unit in enumerate(passage_units):
        if unit.kind == "head":
            heading_terms |= unit_terms[number]
        lead_terms = question.terms_in(text[slice(*unit.lead)]) if unit.lead else _NO_TERMS
        near_terms = _NO_TERMS.union(*unit_terms[max(number - 1, 0) : number + 2])
        if unit.kind == "head" or not (near_terms or lead_terms):
            continue
        levels = (
            *((unit_terms[number], _IN_SENTENCE), (lead_terms, _IN_LEAD), (near_terms, _NEARBY)),
            *((heading_terms, _IN_HEADING), (title_terms, _IN_TITLE), (all_terms, _IN_PASSAGE)),
        )
        word_score = sum(
            weight * next((level for terms, level in levels if term in terms), 0.0)
            for term, weight in question.weights.items()
        )
        window_terms = (
            terms
            for terms, each in zip(unit_terms, passage_units, strict=True)
            if each.start >= unit.start - _CHARS_BEFORE and each.end <= unit.end + _CHARS_AFTER
        )
        sentence = text[unit.start : unit.end]
        next_units = passage_units[number + 1 : number + 2]
        is_table_head = unit.kind == "row" and bool(next_units) and next_units[0].lead == unit[:2]
        score = (
            _WORDS * word_score / question.total_weight
            + _WINDOW * question.share(_NO_TERMS.union(*window_terms))
            + _TOGETHER
            * sum(map(question.share, question.pairs.intersection(pairwise(ordered_terms[number]))))
            + _RANK * rank
            + _HEADING * question.share(heading_terms)
            - _CODE * (unit.kind == "code")
            - _HEADS * is_table_head
            - _ASKS * (sentence[-1:] in "?\uff1f؟")
            - _REPEATS * question.is_repeated_in(sentence)
            - _ENTRY * (unit.kind == "entry")
            - _SOURCE * is_source
        )
        yield Candidate(
            score,
            passage,
            passage_units,
            number,
            near_terms | lead_terms | heading_terms | title_terms,
            repeats_question,
        )


class ExtractiveAnswer(NamedTuple):
    """What was found for a question, the best first."""

    quotes: list[Quote]
    likelihood: float  # that the first quote answers, from 0 to 1
    is_said: bool  # whether one sentence of the first quote, with what is above, has all words
    missing: list[str]  # words of the question, as written, that no passage of the quotes has

    @property
    def is_found(self) -> bool:
        """Whether the question counts as answered, perhaps."""
        return self.likelihood >= FOUND_LIKELIHOOD

    @property
    def is_sure(self) -> bool:
        """Whether nothing speaks against it."""
        return self.is_found and self.is_said


@lru_cache(maxsize=32)
def answer(passages: tuple[Passage, ...], question: str) -> ExtractiveAnswer:
    """Return what answers a question in some passages."""
    question_words = QuestionWords(question, [*dict.fromkeys(passages)])
    pairs = choose_quotes(question_words)
    if not pairs:
        return ExtractiveAnswer([], 0.0, False, question_words.missing_words(()))
    quotes = [quote for _, quote in pairs]
    term_sets = [
        each.terms | question_words.terms_in(quote.passage.text[slice(*quote.span)])
        for each, quote in pairs
    ]
    said_sets = [*_said_terms(question_words, pairs[0][0], quotes[0].span)]
    facts = {
        "share": _mean_of_best(map(question_words.adjusted_share, term_sets)),
        "evidence": max(map(question_words.evidence_weight, said_sets), default=0.0),
    }
    log_odds = _LOG_ODDS + sum(_WEIGHTS[name] * fact for name, fact in facts.items())
    is_said = any(map(question_words.is_said, said_sets))
    likelihood = 1 / (1 + exp(-log_odds))
    pages = {each.passage.page for each in quotes if each.passage.page}
    if sum(map(question_words.has_all_words_of, pages)) > 1:  # it asks of both, by their titles
        likelihood = max(likelihood, FOUND_LIKELIHOOD)
    missing = question_words.missing_words(each.passage for each in quotes)
    return ExtractiveAnswer(quotes, likelihood, is_said, missing)


def _said_terms(
    question: QuestionWords, candidate: Candidate, span: tuple[int, int]
) -> Iterator[frozenset[str]]:
    """Yield what each sentence of a quote says of a question, with what stands above it.

    Words of several sentences may be there by chance; but “it” may stand for the rarest of them in
    the sentence before.
    """
    text = candidate.passage.text
    above_terms, terms_before = question.terms_in(full_title(candidate.passage)), _NO_TERMS
    for unit in candidate.units:
        terms = question.terms_in(text[unit.start : unit.end])
        if unit.kind == "head":
            above_terms |= terms
        elif span[0] <= unit.start and unit.end <= span[1]:
            lead_terms = question.terms_in(text[slice(*unit.lead)]) if unit.lead else _NO_TERMS
            yield terms | lead_terms | above_terms | (terms_before & question.rarest_terms)
        terms_before = terms


def _mean_of_best(values: Iterable[float]) -> float:
    """Return what several quotes have, of which each word of one may be chance."""
    best = sorted(filter(None, values))[-_BEST_QUOTES:]
    return (best[-1] + sum(best) / len(best)) / 2 if best else 0.0


def choose_quotes(question: QuestionWords) -> list[tuple[Candidate, Quote]]:
    """Return the quotes: in turn the best sentence, and the best of the passage that fits best."""
    ranked = sorted(candidates(question), key=lambda each: -each.score)
    # A sentence that repeats the question may have less than 0.
    least = min(_CUT_SHARE * ranked[0].score, ranked[0].score) if ranked else 0.0
    ranked = [each for each in ranked if each.score >= least]
    best = {each.passage: each for each in reversed(ranked)}
    queue = [best[each.passage] for each in question.best(_MAX_PASSAGES) if each.passage in best]
    queue = [each for each in queue if not each.repeats_question]
    del ranked[_MAX_SENTENCES:]
    pairs: list[tuple[Candidate, Quote]] = []
    counts: Counter[str] = Counter()
    while (ranked or queue) and len(pairs) < MAX_QUOTES:
        is_sentence = bool(ranked) and (len(pairs) % 2 == 0 or not queue)
        candidate = (ranked if is_sentence else queue).pop(0)
        spans = [quote.span for _, quote in pairs if quote.passage == candidate.passage]
        if counts[_page_of(candidate)] == _MAX_OF_PAGE or (spans and not is_sentence):
            continue
        if any(_is_shown(candidate, quote) for _, quote in pairs):
            continue
        quote = quote_of(question, candidate, spans)
        if quote is not None:
            pairs.append((candidate, quote))
            counts[_page_of(candidate)] += 1
    return pairs


def _page_of(candidate: Candidate) -> str:
    return candidate.passage.url.partition("#")[0]


def _is_shown(candidate: Candidate, quote: Quote) -> bool:
    """Return whether a quote shows a sentence."""
    (first, last, *_), (start, end) = candidate.units[candidate.number], quote.span
    if candidate.passage == quote.passage:
        return start <= first and last <= end
    sentence = words_in(candidate.passage.text[first:last].casefold())
    quoted_words = words_in(quote.passage.text[start:end].casefold())
    return f" {' '.join(sentence)} " in f" {' '.join(quoted_words)} "
