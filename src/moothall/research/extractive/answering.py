"""Choose the sentences that answer a question, and judge whether they do."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from moothall.research.citations import fault
from moothall.research.extractive.asked import Asked
from moothall.research.extractive.facts import Candidate, candidates
from moothall.research.extractive.needed import is_of_changes
from moothall.research.extractive.units import Unit
from moothall.research.extractive.windows import LONGEST
from moothall.research.findings import Passage
from moothall.research.relevance import Index
from moothall.research.sentences import terms
from moothall.research.writing.safe_markdown import has_html

QUOTES: Final = 8  # of an answer, at most
FOUND: Final = 0.55  # the probability from which a question counts as answered
_CUT: Final = 0.5  # what scores less than this share of the best is left out
_FREE: Final = 2.4  # what a sentence of a good passage scores whatever it says; it counts for none
_OF_PAGE: Final = 4  # quotes of one page, at most
_SHARED: Final = 0.6  # the share of the first quote's words of a question, that others need
_SAME: Final = 0.7  # the share of words in common from which two quotes are one
_MANY: Final = 6  # words of a question in one quote, from which on more say no more
_LONG: Final = 10  # words of a question, from which on it has words that no answer must have
# The likelihood, at most, if one of several words is there, no acronym, or no date if one is asked.
_LACKING: Final = 0.3
_UNSPACED_ODDS: Final = 1.5  # of pairs of characters, an answer has fewer than of words
_CLAUSE: Final = re.compile(r"[,;:]\s+|[\uff0c\uff1b\uff1a\u3001]|\n")
_COMMENTED: Final = re.compile(r"\n[ \t]*#[ \t]+")  # the next line of a comment
_WHOLE: Final = re.compile(r"(?s).*(?=[\s\uff0c\uff1b\uff1a\u3001])")  # words or clauses
_DRAWN: Final = re.compile(r"(?:\s[^\w\s…,'\"]{1,3}(?=\s)){3}")  # signs without a word
_CELL_DRAWN: Final = re.compile(r"[\\/^<>+=~_│┌└├─-]*[\\/^<>+=~_│┌└├─]")  # `-` is no drawing
_SIGNATURE: Final = re.compile(r"[\w\s*&:<>]*\w\([^()]*\)")
_DRAWN_CELLS: Final = 3
_LINKED: Final = re.compile(r"```|\]\(|!\[|\[\^")
_PAGES: Final = re.compile(r"(?: - .*){4}|(?: · .*){2}")  # a list of them

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
    "bare name": -0.1,
    "dangles": -0.49,
    "antecedent lacks": -0.01,
    "short": 0.59,
    "long": -0.11,
    "first": -0.69,
    "nothing new": -0.33,
    "new": -0.24,
    "asks": -0.24,
    "leads on": 0.02,
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


class Quote(NamedTuple):
    """What is quoted for an answer."""

    passage: Passage
    text: str  # in one line
    code: str  # code that follows the text; empty for none

    @property
    def shown(self) -> str:
        """The quote as Markdown."""
        return " ".join(
            filter(None, (self.text and f"“{self.text}”", self.code and f"`{self.code}`"))
        )


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
    quotes = [quote for _, quote in made]
    if not asked.is_of_past:  # what was changed once may have been changed again
        quotes.sort(key=lambda each: is_of_changes(each.passage.url))
    return Answer(quotes, probability, missing)


@lru_cache(maxsize=2)
def _indexed(passages: tuple[Passage, ...]) -> Index:
    return Index(passages)


def chosen(index: Index, asked: Asked) -> list[tuple[Candidate, Quote]]:
    """Return the sentences that are quoted, the best first."""
    found = [
        (_score(each.facts), place, each) for place, each in enumerate(candidates(index, asked))
    ]
    found.sort(key=lambda each: (-each[0], each[1]))
    made: list[tuple[Candidate, Quote]] = []
    words: list[Counter[str]] = []
    of: Counter[str] = Counter()
    shared = 0.0  # of the question, that the first quote has
    for score, _, each in found:
        if len(made) == QUOTES or score < max(_FREE, _FREE + _CUT * (found[0][0] - _FREE)):
            break
        page = each.passage.url.partition("#")[0]
        if of[page] == _OF_PAGE or _says_nothing(each, asked) or _is_told(each, made):
            continue
        there = asked.share(each.says | each.under)
        if made and there < _SHARED * shared:
            continue
        quote = _quote(each, asked)
        if quote is None:
            continue
        said = Counter(quote.text.casefold().split() + quote.code.split())
        if any(_is_same(said, other) for other in words):
            continue
        shared = shared or there
        made.append((each, quote))
        words.append(said)
        of[page] += 1
    # Of who wrote it and when, what names somebody or a year beside it, if anything does.
    told = [each for each in made if asked.needed.verb and _bound(asked, each[0])]
    return told or made


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
    if unit.is_setting and text[unit.end - 1] in "=:":  # it has no value
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


def _is_same(one: Counter[str], other: Counter[str]) -> bool:
    """Return whether two quotes say the same, such as a page and its text file."""
    least = min(one.total(), other.total())
    return (one & other).total() >= _SAME * least


def _bound(asked: Asked, each: Candidate) -> float:
    """Return how much of a question stands beside what it asks for."""
    is_code = each.unit.kind == "code" and asked.kind.name == "number"
    if is_code and asked.classes.isdisjoint(each.says):
        return 0.0  # a number of a program's own
    said = each.passage.text[slice(*each.window)]
    named = asked.needed.named <= each.says | each.under
    if each.unit.is_setting and not asked.needed.verb and named and asked.has_kind(said):
        return asked.share(each.says)
    entry = asked.is_listed and each.unit.entry
    if entry and not asked.has_named(each.passage.text[slice(*entry)]):
        beside = asked.share(each.says) + asked.share(each.under - each.says) / 2
        return beside * asked.fits(each.passage.text[slice(*entry)]) if named else 0.0
    lead = each.passage.text[slice(*each.lead)] if each.lead else ""
    follows = each.follows and each.passage.text[each.follows[0].start : each.follows[-1].end]
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
            is_exact and asked.is_silent(t for t, of in zip(both, bound, strict=True) if of)
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


def _quote(candidate: Candidate, asked: Asked) -> Quote | None:
    """Return a candidate's quote; shorter if not all can be quoted, None if nothing can."""
    for quote in _quotes(candidate, asked):
        if fault(quote.shown, quote.passage.text) is None:
            return quote
    return None


def _quotes(candidate: Candidate, asked: Asked) -> Iterator[Quote]:
    """Yield what could be quoted, the best first."""
    passage, text, unit = candidate.passage, candidate.passage.text, candidate.unit
    lead = " ".join(text[slice(*candidate.lead)].split()) if candidate.lead else ""
    if unit.kind == "code" and (code := _code(text, unit)):
        if lead.endswith(":") and not _is_marked(lead):
            yield Quote(passage, lead, code)
        yield Quote(passage, "", code)
    start, end = candidate.window
    for first, last in dict.fromkeys(((start, end), (unit.start, unit.end))):
        said = shortened(text[first:last], asked.weights)
        for each in (f"{lead} … {said}", said) if lead else (said,):
            # A page's links, images and HTML must not become the report's.
            if _is_marked(each):
                continue
            if candidate.follows and last == end:
                yield from _with_what_follows(candidate, each)
            yield Quote(passage, each, "")


def _is_marked(text: str) -> bool:
    """Return whether a text has markup of a page, lists its pages, or is of a drawing."""
    cells = text.split(" | ")
    drawn = sum(bool(_CELL_DRAWN.fullmatch(each.strip())) for each in cells) >= _DRAWN_CELLS
    drawn = drawn or any(_DRAWN.search(f" {each} ") for each in cells)
    return bool(drawn or _LINKED.search(text) or _PAGES.search(text) or has_html(text))


def _with_what_follows(candidate: Candidate, said: str) -> Iterator[Quote]:
    """Yield a quote with the code or the list that it leads to."""
    passage, follows = candidate.passage, candidate.follows
    if follows[0].kind != "code":
        items = ""
        for before, each in zip((None, *follows), follows, strict=False):
            between = passage.text[before.end : each.start] if before else ""
            left_out = any(map(str.isalnum, between))
            items += f"{' … ' if left_out else between}{passage.text[each.start : each.end]}"
        if not (_LINKED.search(items) or has_html(items)):
            yield Quote(passage, f"{said} … {' '.join(items.split())}", "")
    elif code := _code(passage.text, follows[0]):
        yield Quote(passage, said, code)


def _code(text: str, unit: Unit) -> str:
    """Return code in one line; empty if it cannot stand between backticks."""
    code = " ".join(text[unit.start : unit.end].split())
    return code if len(code) <= LONGEST and "`" not in code else ""


def shortened(sentence: str, wanted: dict[str, float]) -> str:
    """Return a sentence in one line; of a long one, the clauses or lines that say most."""
    sentence = _COMMENTED.sub("\n", sentence)
    if len(sentence) > LONGEST:
        starts = [0, *(found.end() for found in _CLAUSE.finditer(sentence))]
        # Of text without marks, such as a transcript, the words in the middle of a clause.
        amid = (sentence.find(" ", at) + 1 for at in range(200, len(sentence), 200))
        cuts = {at: sentence[at : at + LONGEST] for at in (*starts, *amid)}
        at = max(cuts, key=lambda at: (_worth(wanted, cuts[at]), at in starts, at == 0, at))
        to_end = at + len(cuts[at]) == len(sentence)
        whole = None if to_end else _WHOLE.match(cuts[at])
        sentence = f"{'… ' * (at > 0)}{whole[0] if whole else cuts[at]}{' …' * (not to_end)}"
    return " ".join(sentence.split())


def _worth(wanted: dict[str, float], text: str) -> float:
    there = {*terms(text)}
    return sum(weight for term, weight in wanted.items() if term in there)
