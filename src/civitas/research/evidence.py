"""Whether a passage bears out the sentence that cites it, by its words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from civitas.research.claims import LIGHT, SOURCES, Claim, claim, knows, plain
from civitas.research.sentences import sentences, terms_of, words
from civitas.text import shorten

SHARE = 0.6
"""The part of a sentence's content words that its passage must have."""
BETWEEN = "\n\n\0\n\n"
"""What joins passages that are read as one: no quoted span reaches across it."""

_QUOTED = re.compile(
    r"“([^”“]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|(?<![\w\"])\"([^\"]+)\"(?!\w)"
    r"|(?<![\w'])'(\S[^']*(?:'\w[^']*)*\S)'(?!\w)|`([^`]+)`"
)
_GAPS = re.compile(r"\[?(?:…|\.\.\.)\]?|\[[^\]]{0,40}\]")
_EVEN = re.compile(r"[\"“”„«»‘’'`*]+")
_DASH = re.compile(r"\s*(?:[–—]|--)\s*")
_AROUND = 4  # as many words around a word that was replaced are the passage's own
_AFTER_VERBS = frozenset("a an the to its by from".split())
_COMMON = LIGHT | SOURCES
# Of two words of one line, one says what the other does not.
_LINES = """
always never | before after | more less fewer | most least | minimum maximum | min max
enable disable | enabled disabled | true false | increase increases increased decrease decreases decreased
allow allows allowed forbid forbids forbidden prevent prevents prohibits prohibited | above below
older newer | earlier later | larger smaller | longer shorter | greater less lower | higher lower
upper lower | faster slower | left right | add remove | include exclude | includes excludes
success failure | valid invalid | synchronous asynchronous | mutable immutable | required optional
public private | encode decode | ascending descending | positive negative | odd even | like unlike
same different | accept reject | accepts rejects | all none | start end | open closed | must may
first second third last | safe unsafe
"""
_OPPOSITES = [frozenset(each.split()) for each in re.split(r"[|\n]", _LINES)]


def fault(sentence: str, passage: str, title: str = "") -> str | None:
    """Why a passage does not bear out a sentence, in words; None if it does.

    The words alone are compared, not what they mean: each quoted span must stand in the passage,
    0.6 of the content words, all numbers and all names too, with no negation more or less and no
    word put in the place of another.

    Args:
        sentence: the sentence, with or without its footnotes
        passage: the text that it cites
        title: what people call that text: names and words may stand there too
    """
    stored = _stored(passage, title)
    if _even(plain(sentence)).rstrip(".!? ") in stored.sentences:
        return None
    said = claim(sentence)
    quoted = [found[0] for found in _QUOTED.finditer(plain(sentence))]
    best = _best(said, stored)
    return (
        _misquoted(quoted, stored)
        or _miscounted(said, best, stored)
        or _misnamed(said, stored)
        or _unshared(said, sum(len(words(each)) for each in quoted), stored)
        or _turned(said, stored)
        or _replaced(said, best)
    )


@dataclass
class _Stored:
    """A passage, as it is compared."""

    even: str
    sentences: set[str]
    claims: list[Claim]
    forms: set[str]
    readings: set[str]
    pairs: set[tuple[str, str]]  # of a unit and a number


@lru_cache(maxsize=256)
def _stored(passage: str, title: str) -> _Stored:
    pieces = [passage[start:end] for start, end in sentences(passage)]
    claims = [claim(piece) for piece in pieces]
    numbers = [number for each in claims for number in each.numbers]
    return _Stored(
        _even(plain(passage)),
        {_even(plain(piece)).rstrip(".!? ") for piece in pieces},
        claims,
        claim(title).forms.union(*(each.forms for each in claims)),
        {reading for number in numbers for reading in number.readings},
        {(number.unit, reading) for number in numbers for reading in number.readings},
    )


def _even(text: str) -> str:
    """A text in which quote marks, dashes, space and capitals make no difference."""
    return " ".join(_DASH.sub(" - ", _EVEN.sub("", text)).split()).casefold()


def _misquoted(quoted: list[str], stored: _Stored) -> str | None:
    for found in quoted:
        at = 0
        is_code = found[0] == "`"
        for span in [found] if is_code else _GAPS.split(found):
            wanted = _even(span).strip(" ,.;:!?")
            loose = is_code or len(wanted.split()) < 3
            if loose and wanted not in stored.even and _all_known(span, stored):
                continue  # a term, or code put together from what is there
            at = stored.even.find(wanted, at)
            if at < 0:
                return f"quotes “{shorten(span.strip('“”„«»「」` '), 60)}”, which is not there"
            at += len(wanted)
    return None


def _all_known(span: str, stored: _Stored) -> bool:
    return all(knows(stored.forms, word) for word in words(span))


def _miscounted(said: Claim, best: list[Claim], stored: _Stored) -> str | None:
    """A number that is nowhere, or that the passage has of something else."""
    for number in said.numbers:
        if number.needed and stored.readings.isdisjoint(number.readings):
            return f"says {number.said}, which is not there"
        same = [
            other.readings
            for each in best
            for other in each.numbers
            if other.unit == number.unit != ""
        ]
        if same and stored.pairs.isdisjoint((number.unit, each) for each in number.readings):
            return f"says {number.said}, where the passage says {same[0][0]}"
    return None


def _misnamed(said: Claim, stored: _Stored) -> str | None:
    for name in said.names:
        if not knows(stored.forms, name):
            return f"names {shorten(name, 40)}, which is not there"
    return None


def _best(said: Claim, stored: _Stored) -> list[Claim]:
    """The sentences of a passage that a sentence fits best: more than one if they fit alike."""
    terms = said.terms
    shared = [len(terms & each.terms) for each in stored.claims]
    most = max(shared, default=0)
    return [each for each, count in zip(stored.claims, shared, strict=True) if count == most > 0]


def _evidence(said: Claim, stored: _Stored) -> list[Claim]:
    """The one to three sentences of a passage that together have most of a sentence's words."""
    left = set(said.terms)
    chosen: list[Claim] = []
    while len(chosen) < 3 and left:
        best = max(stored.claims, key=lambda each: len(left & each.terms), default=None)
        if best is None or not left & best.terms:
            break
        chosen.append(best)
        left -= best.terms
    return chosen


def _unshared(said: Claim, quoted: int, stored: _Stored) -> str | None:
    if quoted > len(said.words) / 2:
        return None
    content = list(said.content.values())
    shared = sum(not stored.forms.isdisjoint(terms) for terms in content)
    if not content or shared < SHARE * len(content):
        return f"shares {shared} of {len(content)} content words"
    return None


def _turned(said: Claim, stored: _Stored) -> str | None:
    """A negation more or less, or the opposite of a word."""
    evidence = _evidence(said, stored)
    best = evidence[0]
    softly = any(each.softly - said.forms for each in evidence)
    affirmed = set().union(*(each.plain for each in evidence))
    denied = set().union(*(each.denied for each in evidence))
    for head in said.heads:
        if denied.isdisjoint(said.denied if affirmed.isdisjoint(head) else head) and not softly:
            return "has a negation that is not there"
    if said.negations < best.negations and not said.softly - best.forms:
        for small, term, *_ in best.heads:
            for word in (small, term):
                if word in said.plain - said.denied and word not in best.plain:
                    return "lacks a negation that is there"
    if not said.heads and not best.heads:
        for pair in _OPPOSITES:
            here, there = pair & said.forms, pair & best.forms
            if here and there and not here & there:
                return f"says {min(here)}, where the passage says {min(there)}"
    return None


def _replaced(said: Claim, best: list[Claim]) -> str | None:
    """One word in the place of another, in a sentence that is otherwise the passage's."""
    for at, word in enumerate(said.words):
        terms = terms_of(word)
        if not terms or word in _COMMON:
            continue
        for each in best:
            if word in each.forms or not each.forms.isdisjoint(terms):
                continue
            for place, other in enumerate(each.words):
                if other in said.forms or not terms_of(other) or other in _COMMON:
                    continue
                before = _alike(_before(said.words, at), _before(each.words, place))
                after = _alike(_after(said.words, at), _after(each.words, place))
                if not before or not after or before + after < _AROUND:
                    continue
                if not _reworded(word, other, said.words[at + 1 : at + 2]):
                    return f"says {word}, where the passage says {other}"
    return None


def _before(all_words: list[str], at: int) -> list[str]:
    return all_words[max(0, at - _AROUND) : at][::-1]


def _after(all_words: list[str], at: int) -> list[str]:
    return all_words[at + 1 : at + 1 + _AROUND]


def _alike(one: list[str], other: list[str]) -> int:
    """How many words two lists begin with alike; that one of them ends there counts as one."""
    count = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            return count
        count += 1
    return count + 1


def _reworded(word: str, other: str, following: list[str]) -> bool:
    """Whether two words look like verbs or adverbs, for which writers have many."""
    if word.endswith("ly") or other.endswith("ly"):
        return True
    for ending in ("ed", "ing"):
        if word.endswith(ending) and other.endswith(ending):
            return True
    third_person = word.endswith("s") and other.endswith("s")
    return third_person and bool(_AFTER_VERBS.intersection(following))
