"""Check by words whether a passage supports the sentence that cites it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from moothall.research.citations.claims import (
    LOOSE,
    SOURCES,
    Claim,
    claim,
    is_negation,
    knows,
    plain,
)
from moothall.research.sentences import sentences
from moothall.text import shorten
from moothall.text.terms import STOP_WORDS, stem, terms_of, words

_NEGATION_MORE = "has a negation that the passage lacks"
_NEGATION_LESS = "lacks a negation that the passage has"
SHARE = 0.6  # the part of a sentence's content words that its passage must have
BETWEEN = "\n\n\0\n\n"  # what joins passages that are read as one: no quoted span reaches across it

_QUOTED = re.compile(
    r"“[^”“]+”|„[^„“”]+[“”]|«[^«»]+»|「[^「」]+」|(?<![\w\"])\"[^\"]+\"(?!\w)"
    r"|(?<![\w'])'\S[^']{0,200}(?:'\w[^']{0,200}){0,3}(?<=\S)'(?!\w)|`[^`]+`"
)
_LETTER = re.compile(r"\[(\w)\](?=\w)")  # “[T]he”
_GAPS = re.compile(r"\[?(?:…|\.\.\.)\]?|\[[^\]]{0,40}\]")
_EVEN = re.compile(r"[\"“”„«»‘’'`*]+")
_DASH = re.compile(r"\s*(?:[–—]|--)\s*")
_BEGINNING = 5  # words with this many first letters in common count as the same
_AROUND = 4  # words around a replaced word that must equal the passage's
_LONGEST = 300  # words of a sentence that are aligned: the time is quadratic
_AFTER_VERBS = {"a", "an", "the", "to", "its", "by", "from"}
# Groups of words that exclude each other, separated by `|` or a new line.
_LINES = """
always never | before after | more less fewer | most least | maximum minimum | max min
enable disable | true false | allow forbid prevent prohibit | increase decrease | rise fall
above below | old new | early late | large small | high low | add remove | like unlike
start stop end | required optional | ascending descending | same different | all none | must may
first second third last | read write | input output | accept reject refuse | include exclude
import export | open close | send receive | local remote | public private | success failure
inside outside | gain lose | win lose | rich poor
"""
_OPPOSITES = [
    frozenset(word if word in STOP_WORDS else stem(word) for word in each.split())
    for each in re.split(r"[|\n]", _LINES.strip())
]


def fault(sentence: str, passage: str, title: str = "") -> str | None:
    """Return why a passage does not support a sentence, in words; None if it does.

    Words are compared, not their meaning. The passage must have each quoted span, 0.6 of the
    content words, all numbers and all names, with no negation added or lost and no word replaced
    by another. Names and words may also be in the passage's title.
    """
    stored = _stored(passage, title)
    said = claim(sentence)
    even = _even(said.text).strip(".!?… ")
    if even in stored.sentences:
        return None
    quoted = [found[0] for found in _QUOTED.finditer(said.text)]
    for span in quoted:
        if why := _misquoted(span, stored):
            return why
    is_quoted = sum(len(words(each)) for each in quoted) > len(said.words) / 2
    if why := _unknown(said, stored) or (None if is_quoted else _unshared(said, stored)):
        return why
    best = max(stored.claims, key=lambda each: len(said.terms & each.terms), default=Claim(""))
    is_part = quoted == [said.text] and even in stored.even  # and nothing else
    if (why := _turned(said, best, stored)) or is_part:
        return why
    return _opposed(said, best) or _altered(said, best)


def verbatim(sentence: str, passage: str, title: str = "") -> bool:
    """Return whether a passage has a sentence word for word, or all that it mostly quotes."""
    stored, said = _stored(passage, title), claim(sentence)
    if _even(said.text).strip(".!?… ") in stored.sentences:
        return True
    quoted = [found[0] for found in _QUOTED.finditer(said.text) if found[0][0] != "`"]
    most = sum(len(words(each)) for each in quoted) > len(said.words) / 2
    return most and fault(sentence, passage, title) is None


class _Stored(NamedTuple):
    """A passage, prepared for comparison."""

    even: str
    sentences: set[str]
    claims: list[Claim]
    forms: set[str]
    terms: set[str]
    denied: set[str]
    readings: set[str]


@lru_cache(maxsize=256)
def _stored(passage: str, title: str) -> _Stored:
    claims = [claim(passage[start:end]) for start, end in sentences(passage, code=True)]
    return _Stored(
        _even(plain(passage)),
        {_even(each.text).strip(".!?… ") for each in claims},
        claims,
        claim(title).forms.union(*(each.forms for each in claims)),
        claim(title).terms.union(*(each.terms for each in claims)),
        set().union(*(each.denied for each in claims)),
        {reading for each in claims for number in each.numbers for reading in number.readings},
    )


def _even(text: str) -> str:
    """Return a text with quote marks, dashes, space and capitals made uniform, no lone `#`."""
    said = _DASH.sub(" - ", _EVEN.sub("", text)).split()
    return " ".join(each for each in said if each != "#").casefold()


def _misquoted(quoted: str, stored: _Stored) -> str | None:
    at = 0
    is_code = quoted[0] == "`"
    for span in [quoted] if is_code else _GAPS.split(_LETTER.sub(r"\1", quoted)):
        wanted = _even(span).strip(" ,.;:!?")
        if not wanted:  # before a gap at the beginning
            continue
        found = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)").search(stored.even, at)
        if found:
            at = found.end()
        elif (len(wanted.split()) > 2 and not is_code) or not all(
            knows(stored.forms, stored.terms, word) for word in words(span)
        ):
            # A term may be inflected, and code may be composed of words that are there.
            return f"quotes “{shorten(span.strip('“”„«»「」` '), 60)}”, which is not in the passage"
    return None


def _unknown(said: Claim, stored: _Stored) -> str | None:
    for number in said.numbers:
        if number.said not in LOOSE and stored.readings.isdisjoint(number.readings):
            return f"says {number.said}, which is not in the passage"
    for name in said.names:
        if not knows(stored.forms, stored.terms, name):
            return f"names {shorten(name, 40)}, which is not in the passage"
    return None


def _unshared(said: Claim, stored: _Stored) -> str | None:
    there = {term[:_BEGINNING] for term in stored.terms}  # endings do not count
    # Of a number only the value counts, which is there: 1000 and a thousand for 1,000.
    sure = (number.said.split() for number in said.numbers if number.said not in LOOSE)
    there |= {term[:_BEGINNING] for each in sure for word in each for term in terms_of(word)}
    shared = sum(any(t[:_BEGINNING] in there for t in terms) for terms in said.content.values())
    if not said.content or shared < SHARE * len(said.content):
        return f"shares {shared} of {len(said.content)} content words"
    return None


def _turned(said: Claim, best: Claim, stored: _Stored) -> str | None:
    """Return the fault of an added or lost negation."""
    if said.denied and not best.softly - said.forms and stored.denied.isdisjoint(said.denied):
        return _NEGATION_MORE
    near = [best, *(each for each in stored.claims if _is_near(said, each))]
    plain = set().union(*(each.plain for each in near))
    if any(plain.intersection(head) and stored.denied.isdisjoint(head) for head in said.heads):
        return _NEGATION_MORE
    left = said.plain - best.plain if not said.denies and not said.softly else set()
    if any(left.intersection(head) for each in near for head in each.heads):
        return _NEGATION_LESS
    return None


def _opposed(said: Claim, best: Claim) -> str | None:
    """Return the fault of a word's opposite in its place."""
    for pair in _OPPOSITES:
        here, there = pair & (said.forms | said.terms), pair & (best.forms | best.terms)
        if here and there and not here & there:
            return f"says {min(here)}, where the passage says {min(there)}"
    return None


def _is_near(said: Claim, other: Claim) -> bool:
    return 5 * len(said.terms & other.terms) >= 2 * min(len(said.terms), len(other.terms))


def _altered(said: Claim, best: Claim) -> str | None:
    """Return the fault of a single changed word or negation in the passage's own sentence."""
    ours, theirs = said.words[:_LONGEST], best.words[:_LONGEST]
    ops = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    for place, (kind, start, end, begin, stop) in enumerate(ops):
        if kind == "equal":
            continue
        same_before = start - ops[place - 1][1] if place else 0
        same_after = ops[place + 1][2] - end if place + 1 < len(ops) else 0
        # The beginning or end of a sentence counts like an equal word.
        at_ends = (place < 2) + (place > len(ops) - 3)
        if same_before + same_after + at_ends < _AROUND:
            continue
        here, there = ours[start:end], theirs[begin:stop]
        if same_before and same_after and len(here) < 2 and len(there) < 2:
            denied, denies = any(map(is_negation, here)), any(map(is_negation, there))
            if denied != denies:
                return _NEGATION_MORE if denied else _NEGATION_LESS
        there = there if same_before else there[-1:]
        there = there if same_after else there[:1]
        if len(here) == len(there) == 1 and _differs(said, here[0], best, there[0], ours[end:]):
            return f"says {here[0]}, where the passage says {there[0]}"
    return None


def _differs(said: Claim, word: str, best: Claim, other: str, following: list[str]) -> bool:
    """Return whether a word says something else than the word that it replaces."""
    counts = {number.said: number.readings for number in said.numbers}
    theirs = {number.said: number.readings for number in best.numbers}
    if any(word in number.split() for number in counts):
        return other in theirs and set(counts.get(word, ())).isdisjoint(theirs[other])
    if not terms_of(word) or not terms_of(other) or {word, other} & SOURCES:
        return False  # words of grammar, or of a source
    last = {re.split(r"\.|::|/", each.removesuffix("()"))[-1] for each in (word, other)}
    if len(last) == 1 or terms_of(word)[0] == terms_of(other)[0]:
        return False  # one stem, or one name with and without its prefix
    # Verbs and adverbs have many synonyms: two verbs, or any adverb, are no fault.
    endings = ("ed", "ing", "s") if _AFTER_VERBS.intersection(following[:1]) else ("ed", "ing")
    alike = any(word.endswith(ending) and other.endswith(ending) for ending in endings)
    return not (alike or word.endswith("ly") or other.endswith("ly"))
