"""Sentences of different sources that state other numbers or dates of one matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias

from moothall.build import TextValues, Words
from moothall.research.citations.comparison import passage_of, sentence_of
from moothall.research.citations.exact_support import MARKED_SENTENCE
from moothall.research.findings import Citation, Passage, Support
from moothall.research.sentences import sentence_spans

Difference: TypeAlias = tuple[Citation, Citation, str]
"""Two sentences that differ, the first of which a report cites, with a remark."""

_MAX_SENTENCES: Final = 150  # sentences that are compared with each other
_MAX_PASSAGES: Final = 2000  # with whose sentences they are compared
_SHARED_OF_SHORTER: Final = 0.7  # of the words, without numbers, that the shorter sentence shares
_SHARED_OF_LONGER: Final = 0.5
_FEWEST_WORDS: Final = 4  # of a sentence that another one has as a part
_MARKED: Final = re.compile(r"“.*?\*\*(.+?)\*\*.*”", re.DOTALL)
_JUDGED: Final = "they say different things, as a model judged"
_NUMBERS, _DATES = "they state different numbers", "they state different dates"


class _Statement(NamedTuple):
    """The words of a sentence without its values, and its values."""

    text: str
    terms: frozenset[str]
    figures: TextValues
    years: frozenset[object]  # its plain numbers that may be years


def differing_citations(
    citations: Sequence[Citation],
    passages: Sequence[Passage] = (),
    judged: Sequence[tuple[str, str, str]] = (),
) -> list[Difference]:
    """Return sentences of different sources that differ: a cited one, and one that was read.

    The other one is cited, or stands in one of the passages; then its number is 0. A page that
    has a sentence with the same figures differs from none. A model has `judged` that the pages of
    these addresses say otherwise than these sentences, and where.
    """
    by_sentence: dict[str, Citation] = {}
    for each in citations:
        # What stands around the marked sentence of a quote is about other matters.
        sentence = MARKED_SENTENCE.sub(r"\1", _MARKED.sub(r"“\1”", each.sentence))
        by_sentence.setdefault(sentence, replace(each, sentence=sentence))
    cited = [*by_sentence.values()][:_MAX_SENTENCES]
    pairs = []
    for earlier, other in combinations(cited, 2):
        is_one_page = _page_url(earlier.passage) == _page_url(other.passage)
        if is_one_page and earlier.passage.fetched_at == other.passage.fetched_at:
            continue
        if remark := _remark(_statement(earlier.sentence), _statement(other.sentence)):
            remark += " in one page, read at two times" * is_one_page
            pairs.append((earlier, other, remark))
    if passages:
        words_of = {each: each.text.casefold() for each in passages[:_MAX_PASSAGES]}
        paired = {(a.sentence, _page_url(b.passage)) for x in pairs for a, b in (x[:2], x[1::-1])}
        for each in cited:
            pairs += _read_differently(each, words_of, paired)
    by_url = {each.url: each for each in reversed(passages)}
    named_pairs = {(first.sentence, _page_url(other.passage)) for first, other, _ in pairs}
    for sentence, url, text in judged:
        plain_sentence = MARKED_SENTENCE.sub(r"\1", sentence)
        if (
            plain_sentence in by_sentence
            and url in by_url
            and (plain_sentence, url.partition("#")[0]) not in named_pairs
        ):
            support = Support("supported", text, overlap=1.0)
            pairs.append(
                (by_sentence[plain_sentence], Citation(0, text, by_url[url], support), _JUDGED)
            )
    return pairs


def numbered(
    differences: Sequence[Difference], citations: Sequence[Citation]
) -> tuple[list[Difference], list[Citation]]:
    """Return differences whose passages are numbered after the cited ones, and the citations."""
    numbers = {each.passage: each.number for each in citations}
    pairs: list[Difference] = []
    other_sides: list[Citation] = []
    for first, other, remark in differences:
        if not other.number:
            number = numbers.setdefault(other.passage, max(numbers.values(), default=0) + 1)
            other = replace(other, number=number)
            other_sides.append(other)
        pairs.append((first, other, remark))
    return pairs, other_sides


def _read_differently(
    citation: Citation, words_of: dict[Passage, str], paired: set[tuple[str, str]]
) -> Iterator[Difference]:
    """Yield the sentence of each other page that differs from a cited one."""
    own_texts = [citation.sentence, *_sentences(citation.window)]
    if not (figures := _figures(_statement(citation.sentence))):
        return
    statements = [each for each in own_texts if figures & _figures(_statement(each))]
    words = [each for each in Words.pattern.findall(citation.sentence.casefold()) if len(each) > 2]
    differing: dict[str, Difference] = {}
    fitting = {_page_url(citation.passage)}
    fitting.update(page for sentence, page in paired if sentence == citation.sentence)
    for passage, text in words_of.items():
        page = _page_url(passage)
        if page in fitting or sum(each in text for each in words) < len(words) / 2:
            continue
        for sentence in _sentences(passage.text):
            for own_text in statements:
                first, other = _statement(own_text), _statement(_same_part(own_text, sentence))
                if not _is_of_one_matter(first, other):
                    continue
                if _fits(first, other):
                    fitting.add(page)
                elif (remark := _remark(first, other)) and _knows(
                    citation.passage, first, sentence
                ):
                    support = Support("supported", sentence, overlap=1.0)
                    other_side = Citation(0, sentence, passage, support)
                    differing.setdefault(page, (citation, other_side, remark))
    yield from (each for page, each in differing.items() if page not in fitting)


def _sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def _page_url(passage: Passage) -> str:
    return passage.url.partition("#")[0]


def _knows(passage: Passage, statement: _Statement, sentence: str) -> bool:
    """Return whether what another sentence has besides the words of one is known to its passage.

    Where it has them all beside each other, as in "the council heard that …", a name alone counts.
    """
    other_content = sentence_of(sentence)
    content = passage_of(passage.text, passage.title)
    if _same_part(statement.text, sentence) != sentence:
        return all(map(content.has_name, other_content.names))
    passage_terms = sentence_of(passage.title).terms.union(*content.terms)
    return _statement(sentence).terms - statement.terms <= passage_terms


def _same_part(sentence: str, other: str) -> str:
    """Return the part of another sentence that has all words of one, but for the values."""
    words, other_words = _masked(sentence), _masked(other)
    texts, other_texts = [each[0] for each in words], [each[0] for each in other_words]
    for at in range(len(other_words) - len(words) + 1 if len(words) >= _FEWEST_WORDS else 0):
        if other_texts[at : at + len(words)] == texts:
            return other[other_words[at][1] : other_words[at + len(words) - 1][2]]
    return other


@lru_cache(maxsize=4096)
def _masked(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a sentence with their places; a value, with its unit, is an empty one."""
    words: list[tuple[str, int, int]] = []
    matches = [*Words.pattern.finditer(text)]
    texts = [each[0].casefold() for each in matches]
    for match, word, is_value in zip(matches, texts, TextValues.among(texts), strict=True):
        if not (is_value or TextValues.is_month(word)):
            words.append((word, *match.span()))
        elif words and not words[-1][0]:
            words[-1] = ("", words[-1][1], match.end())
        else:
            words.append(("", *match.span()))
    return words


@lru_cache(maxsize=4096)
def _statement(text: str) -> _Statement:
    content = sentence_of(text)
    words = [each.casefold() for each in Words.pattern.findall(content.text)]
    values = [
        word
        for word, is_value in zip(words, TextValues.among(words), strict=True)
        if is_value or TextValues.is_month(word)
    ]
    terms = content.terms - sentence_of(" ".join(values)).terms
    years = {
        each.values for each in content.figures.quantities if not (each.digits or each.dimension)
    }
    return _Statement(
        text,
        frozenset(each for each in terms if not each[0].isdigit()),
        content.figures,
        frozenset(years),
    )


def _figures(statement: _Statement) -> frozenset[object]:
    """Return the numbers, by their kind, and dates of a sentence."""
    figures = statement.figures
    amounts = {
        (each.dimension, value)
        for each in (*figures.quantities, *figures.single_units)
        for value in each.values
    }
    return frozenset(amounts.union(date for readings in figures.dates for date in readings))


def _is_of_one_matter(first: _Statement, second: _Statement) -> bool:
    """Return whether two sentences have most words in common, and one of them all of its own."""
    shared_count = len(first.terms & second.terms)
    shorter, longer = sorted((len(first.terms), len(second.terms)))
    # As two farms, of which each has its own figures.
    both_differ = first.terms - second.terms and second.terms - first.terms
    return not both_differ and shared_count >= max(
        2, _SHARED_OF_SHORTER * shorter, _SHARED_OF_LONGER * longer
    )


def _remark(first: _Statement, second: _Statement) -> str:
    """Return in what two sentences of one matter differ; empty if they do not."""
    if not _is_of_one_matter(first, second):
        return ""
    misses = [
        sum(not number.is_in(_of_kind(number, b)) for number in _numbers(a))
        for a, b in ((first, second), (second, first))
    ]
    if _dates_fit(first, second) is False:
        return "" if any(misses) else _DATES
    # What is said of another time is no other number of one matter.
    is_of_other_time = first.years and second.years and not first.years & second.years
    if is_of_other_time and (_amounts(first) or _amounts(second)):
        return ""
    are_comparable = all(
        len(_of_kind(number, first)) == len(_of_kind(number, second))
        for each in (first, second)
        for number in _numbers(each)
    )
    # With two other numbers it is another thing: crane 3 lifts 20 tonnes.
    return _NUMBERS if are_comparable and max(misses) == min(misses) == 1 else ""


def _numbers(statement: _Statement) -> list[Any]:
    """Return the numbers of a sentence that are no parts of its dates."""
    parts = {part for readings in statement.figures.dates for e in readings for part in e[:3]}
    return [
        each
        for each in statement.figures.quantities
        if each.dimension or parts.isdisjoint(each.values)
    ]


def _of_kind(number: Any, statement: _Statement) -> list[Any]:
    """Return what a sentence has in the unit of a number: a figure, or an hour."""
    figures = statement.figures
    return [each for each in _numbers(statement) if each.dimension == number.dimension] or [
        each for each in figures.single_units if each.dimension == number.dimension
    ]


def _amounts(statement: _Statement) -> list[object]:
    """Return the numbers of a sentence that are no years."""
    return [each for each in statement.figures.quantities if each.digits or each.dimension]


def _fits(first: _Statement, second: _Statement) -> bool:
    """Return whether another sentence has all figures of one."""
    return _dates_fit(first, second) is not False and all(
        number.is_in(_of_kind(number, second)) for number in _numbers(first)
    )


def _dates_fit(first: _Statement, second: _Statement) -> bool | None:
    """Return whether a date of two sentences is the same; None if one of them has none."""
    if not (first.figures.dates and second.figures.dates):
        return None
    dates: Iterable[tuple[object, object]] = (
        (a, b) for x in first.figures.dates for a in x for y in second.figures.dates for b in y
    )
    return any(a.fits(b) for a, b in dates)  # type: ignore[attr-defined]
