"""Choose the sentences that answer a question, and judge whether they do."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple

from moothall.research.extractive.asked import Asked
from moothall.research.extractive.facts import Candidate, candidates
from moothall.research.extractive.moment import NEVER, moment_of
from moothall.research.extractive.needed import is_of_changes
from moothall.research.extractive.quoting import Quote, quoted
from moothall.research.findings import Passage
from moothall.research.relevance import Index

QUOTES: Final = 8  # of an answer, at most
_DEFINED: Final = 4  # the same, if the first says what it is
FOUND: Final = 0.55  # the probability from which a question counts as answered
_CUT: Final = 0.5  # what scores less than this share of the best is left out
_FREE: Final = 2.4  # what a sentence of a good passage scores whatever it says; it counts for none
_NEARLY: Final = 0.9
_OF_PAGE: Final = 4  # quotes of one page, at most
_SHARED: Final = 0.6  # the share of the first quote's words of a question, that others need
_SAME: Final = 0.7  # the share of words in common from which two quotes are one
_MANY: Final = 6  # words of a question in one quote, from which on more say no more
_LONG: Final = 10  # words of a question, from which on it has words that no answer must have
# The likelihood, at most, if one of several words is there, no acronym, or no date if one is asked.
_LACKING: Final = 0.3
_UNSPACED_ODDS: Final = 1.5  # of pairs of characters, an answer has fewer than of words
_HOW: Final = re.compile(r"(?i)\W*how\b")
# What has a digit, and a word with a capital that begins no sentence.
_VALUE: Final = re.compile(r"[\w.,:/-]*\d[\w/-]*|(?<=[\w,;(] )[A-ZÀ-ÖØ-Þ]\w*")
_SIGNATURE: Final = re.compile(r"[\w\s*&:<>]*\w\([^()]*\)")

# How much each fact of a sentence counts, as `python -m benchmarks.answers_fit` found from the
# questions of the split `develop`, of the half `tune` of questions.jsonl, and, the last five, of
# the definitions over our own docs.
WEIGHTS: Final[dict[str, float]] = {
    "passage": 1.68,
    "top": 0.73,
    "own": 1.49,
    "cover": 2.0,
    "window": 2.32,
    "beside": 0.44,
    "heading": 0.43,
    "title": 0.9,
    "pairs": 1.55,
    "rarest": 0.69,
    "kind": 0.84,
    "loose kind": 0.96,
    "kind in window": 0.64,
    "own and kind": 0.44,
    "head": -0.52,
    "code": -0.15,
    "term": -0.66,
    "dangles": -0.49,
    "short": 0.59,
    "long": -0.11,
    "first": -0.69,
    "nothing new": -0.33,
    "new": -0.24,
    "asks": -0.24,
    "subject": 0.79,
    "about page": 0.76,
    "about section": 0.82,
    "opens": 0.63,
    "defines": 1.56,
    "defines at home": 0.62,
    "explains": 4.0,  # this and the next by hand, on options of manual pages
    "called": 2.5,
}
# How much each fact of what was chosen counts for the question being answered, found likewise.
# The last was chosen by hand, on the same questions and those of the split `unknown-develop`.
LIKELY: Final[dict[str, float]] = {
    "bias": -3.4,
    "cover": 0.37,
    "best cover": 0.74,
    "together": 0.83,
    "best together": 0.95,
    "window": 0.57,
    "names": 0.67,
    "best names": 0.63,
    "rarest four": 0.53,
    "kind": -0.83,
    "count": 1.91,
    "length": 1.35,
    "defines": 0.64,
    "unknown": -0.67,
    "rarest unknown": -1.19,
    "name unknown": -0.62,
    "unbound": -6.0,
}


class Answer(NamedTuple):
    """What was found for a question, the best first."""

    quotes: list[Quote]
    probability: float  # that the quotes answer it
    missing: list[str]  # words of the question, as written, that no passage of the quotes has

    @property
    def is_found(self) -> bool:
        """Whether the question counts as answered."""
        return bool(self.quotes) and self.probability >= FOUND


@lru_cache(maxsize=32)
def answer(passages: tuple[Passage, ...], question: str) -> Answer:
    """Return what answers a question in some passages."""
    index = _indexed(passages)
    asked = Asked(index, question)
    made = chosen(index, asked)
    probability = likelihood(index, asked, [each for each, _ in made])
    missing = index.missing(question, [each.passage for each, _ in made])
    later = sorted(made, key=lambda each: _comes_later(asked, each[0], made[0][0]))
    quotes = [quote for _, quote in later]
    if not asked.is_of_past:  # what was changed once may have been changed again
        quotes.sort(key=lambda each: is_of_changes(each.passage.url))
    return Answer(quotes, probability, missing)


def _comes_later(asked: Asked, each: Candidate, best: Candidate) -> bool:
    """Return whether a quote is far from the best, or lacks what is named or the kind asked for."""
    if _score(each.facts) < _FREE + _NEARLY * (_score(best.facts) - _FREE):
        return True
    if asked.names and asked.names.isdisjoint(each.says | each.under):
        return True
    is_how = asked.kind.name == "number" and _HOW.match(asked.text)
    return bool(is_how or asked.kind.name in ("code", "option")) and not _bound(asked, each)


@lru_cache(maxsize=2)
def _indexed(passages: tuple[Passage, ...]) -> Index:
    return Index(passages)


def chosen(index: Index, asked: Asked) -> list[tuple[Candidate, Quote]]:
    """Return the sentences that are quoted, the best first."""
    found = [
        (_score(each.facts), place, each) for place, each in enumerate(candidates(index, asked))
    ]
    found.sort(key=lambda each: (-each[0], each[1]))
    if asked.moment != NEVER:
        found = [each for each in found if _is_of_moment(index, asked, each[2])]
    # Of who wrote it and when, what names somebody or a year, if anything does.
    if asked.needed.verb:
        found = [each for each in found if _bound(asked, each[2])] or found
    made: list[tuple[Candidate, Quote]] = []
    of: Counter[str] = Counter()
    is_told = found and asked.kind.name == "meaning" and found[0][2].facts["defines"] == 1.0
    most = _DEFINED if is_told else QUOTES
    shared = 0.0  # of the question, that the first quote has
    for score, _, each in found:
        if len(made) == most or score < max(_FREE, _FREE + _CUT * (found[0][0] - _FREE)):
            break
        page = each.passage.url.partition("#")[0]
        if each.facts["defines"] and _is_told(each, made):  # alone it may say more
            each = each._replace(window=(each.unit.start, each.unit.end), follows=())
        if of[page] == _OF_PAGE or _says_nothing(each, asked) or _is_told(each, made):
            continue
        there = asked.share(each.says | each.under)
        if made and there < _SHARED * shared:
            continue
        quote = quoted(each, asked)
        if quote is None:
            continue
        if any(_is_same(asked, each, quote, *other) for other in made):
            continue
        shared = shared or there
        made.append((each, quote))
        of[page] += 1
    return made


def _score(facts: dict[str, float]) -> float:
    return sum(WEIGHTS.get(name, 0.0) * value for name, value in facts.items())


def _says_nothing(candidate: Candidate, asked: Asked) -> bool:
    """Return whether it is a title, asks, or has only words of the question and is no sentence.

    A signature such as `int open(const char *)` says what is called, and how, but nothing else.
    """
    unit, text = candidate.unit, candidate.passage.text
    facts = candidate.facts
    is_signature = unit.kind == "code" and _SIGNATURE.fullmatch(text, unit.start, unit.end)
    if is_signature and asked.kind.name not in ("method", "code"):
        return True
    if unit.kind == "head" and not facts["kind"]:
        return True
    # It has no value, or is no sentence about who wrote it.
    if unit.is_setting and (text[unit.end - 1] in "=:" or asked.needed.verb):
        return True
    if text[candidate.window[1] - 1] in "?\uff1f؟" and not candidate.follows:
        return True
    is_sentence = unit.kind == "prose" or (
        unit.kind == "item" and text[unit.end - 1] in ".!。\uff01"
    )
    return bool(facts["nothing new"]) and not is_sentence


def _is_told(candidate: Candidate, made: list[tuple[Candidate, Quote]]) -> bool:
    """Return whether a quote has its sentence, or part of its window."""
    start, end = candidate.window
    unit, text = candidate.unit, candidate.passage.text
    said = " ".join(text[unit.start : unit.end].split())
    return any(
        said in quote.text
        or (
            other.passage == candidate.passage and other.window[0] < end and start < other.window[1]
        )
        for other, quote in made
    )


def _is_of_moment(index: Index, asked: Asked, each: Candidate) -> bool:
    """Return whether a sentence is of the month or year that the question names.

    It has to be of what is asked as well: that another sentence is does not make it so.
    """
    there = each.says | each.under
    about = next((t for t in asked.rarest if t in asked.restricted and t in index.known), None)
    said = each.passage.text[slice(*each.window)]
    return asked.moment.fits(moment_of(said)) and (about is None or about in there)


def _is_same(asked: Asked, each: Candidate, quote: Quote, told: Candidate, other: Quote) -> bool:
    """Return whether two quotes say the same, such as a page and its text file.

    What leads to both, as to items of one list, says nothing. Two that differ in a number, a date
    or a name are two facts, however alike their other words are.
    """
    mine, theirs = ({*_VALUE.findall(of.text)} for of in (quote, other))
    if mine - theirs and theirs - mine:
        # In the same words of something else: of another service than the one that is asked for.
        lacks = asked.weights.keys() & (told.says | told.under) - (each.says | each.under)
        return bool(lacks) and _overlap(each, quote, told, other)
    return _overlap(each, quote, told, other)


def _overlap(each: Candidate, quote: Quote, told: Candidate, other: Quote) -> bool:
    """Return whether two quotes have most of their words in common."""
    one, two = (Counter(of.text.casefold().split() + of.code.split()) for of in (quote, other))
    if each.lead and each.lead == told.lead and each.passage == told.passage:
        lead = Counter(each.passage.text[slice(*each.lead)].casefold().split())
        one, two = one - lead, two - lead
    return (one & two).total() >= _SAME * min(one.total(), two.total())


def _bound(asked: Asked, each: Candidate) -> float:
    """Return how much of a question stands beside what it asks for."""
    is_code = each.unit.kind == "code" and not each.unit.is_setting
    if is_code and asked.kind.name == "number" and asked.classes.isdisjoint(each.says):
        return 0.0  # a number of a program's own
    is_name = asked.kind.name == "name"
    if is_name and (is_code or (asked.needed.verb and is_of_changes(each.passage.url))):
        return 0.0  # each entry has the name of who made it
    said = each.passage.text[slice(*each.window)]
    named = asked.needed.named <= each.says | each.under
    is_kind = asked.is_listed or asked.has_kind(said)
    if each.unit.is_setting and not asked.needed.verb and named and is_kind:
        return asked.share(each.says)
    entry = asked.is_listed and each.unit.entry
    if entry and not asked.has_named(each.passage.text[slice(*entry)]):
        beside = asked.share(each.says) + asked.share(each.under - each.says) / 2
        return beside * asked.fits(each.passage.text[slice(*entry)]) if named else 0.0
    # Heads of a table, such as `Log Writers`, are nobody's name.
    has_lead = each.lead and not (is_name and each.unit.kind == "row")
    lead = each.passage.text[slice(*each.lead)] if each.lead and has_lead else ""
    has_own = asked.kind.name == "number" and each.follows and each.follows[0].kind == "code"
    follows = (
        each.follows
        and not has_own
        and each.passage.text[each.follows[0].start : each.follows[-1].end]
    )
    return asked.bound(f"{lead} {said} {follows or ''}", each.under)


def facts_of_chosen(index: Index, asked: Asked, made: list[Candidate]) -> dict[str, float]:
    """Return what is known of the sentences that were chosen, as numbers from 0 to 1."""
    if not made:
        return {}
    bound = [_bound(asked, each) for each in made]
    # How much of the question is there, but away from the number or name that it asks for.
    is_exact = asked.is_exact and not asked.is_unspaced
    most_bound = max(bound)
    best = made[0]
    known = index.known
    lacks = [term for term in asked.weights if term not in known]
    heaviest = asked.weights[asked.rarest[0]] if asked.rarest else 1.0
    both = [each.says | each.under for each in made]
    four = asked.rarest[:4]
    shared = max(map(asked.share, both))
    most = max(len(asked.weights.keys() & there) for there in both)

    def named(there: frozenset[str]) -> float:
        return len(asked.names & there) / len(asked.names) if asked.names else 1.0

    return {
        "bias": 1.0,
        "cover": best.facts["cover"],
        "best cover": max(each.facts["cover"] for each in made),
        "together": asked.share(both[0]),
        "best together": shared,
        "window": best.facts["window"],
        "names": named(both[0]),
        "best names": max(map(named, both)),
        "rarest four": max(len(there.intersection(four)) for there in both) / max(len(four), 1),
        "kind": max(best.facts["kind"], best.facts["loose kind"]),
        "count": min(most / max(min(len(asked.weights), _MANY), 1), 1.0),
        "length": min(len(asked.weights), _LONG) / _LONG,
        "defines": best.facts["defines"],
        "unknown": sum(asked.weights[term] for term in lacks) / asked.total,
        "rarest unknown": max((asked.weights[term] for term in lacks), default=0.0) / heaviest,
        "name unknown": float(any(name not in known for name in asked.names)),
        "unbound": max(shared - most_bound, 0.0) if is_exact else 0.0,
        "bound": most_bound,
        "silent": float(
            is_exact
            and not (asked.needed.verb and most_bound)  # another may be there in its place
            and asked.is_silent(t for t, of in zip(both, bound, strict=True) if of)
        ),
    }


def likelihood(index: Index, asked: Asked, made: list[Candidate]) -> float:
    """Return how likely it is that what was chosen answers a question."""
    if not made:
        return 0.0
    facts = facts_of_chosen(index, asked, made)
    odds = sum(LIKELY.get(name, 0.0) * value for name, value in facts.items())
    odds += _UNSPACED_ODDS * asked.is_unspaced
    chance = 1 / (1 + math.exp(-odds))
    if asked.kind.name == "place" and asked.needed.named and not facts["bound"]:
        return min(chance, _LACKING)
    if facts["silent"] or (facts["unbound"] and facts["unbound"] == facts["best together"]):
        return min(chance, _LACKING)
    there = max(((each.says | each.under) & asked.weights.keys() for each in made), key=len)
    if len(there) < 2 <= len(asked.weights) and asked.acronyms.isdisjoint(there):
        return min(chance, _LACKING)
    return chance
