"""A text as its sentences, and each as words, names, quantities, dates and clauses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from moothall.research.citations.claims import LIGHT, SOURCES, is_negation, plain
from moothall.research.citations.lexicon import ALIKE, BACKWARD, DENYING, OPPOSED
from moothall.research.citations.quantities import Date, Quantity, found
from moothall.research.citations.units import MONTHS
from moothall.research.sentences import sentences
from moothall.text.terms import STOP_WORDS, WORD, listed, stem, terms_of

BEGINNING: Final = 5
"""Words with this many first letters in common count as nearly the same."""
_INSTEAD: Final = frozenset(("rather", "instead"))
_PRONOUNS: Final = listed("he she it they his her its their who him them")
Place: TypeAlias = tuple[int, int]
"""A sentence of a passage, and a word of it."""
_LONGEST: Final = 400  # words of a sentence that are read
_SENTENCES: Final = 400  # sentences of a passage that are read
_REACH: Final = 4  # content words that a denial reaches
_DAYS: Final = listed("monday tuesday wednesday thursday friday saturday sunday")
_JOINS: Final = listed("and but while whereas although because which who where when so or")
_VERBS: Final = listed(
    "is are was were be been has have had does do did will would can could may might must shall "
    "should said says made took gave found led won lost held became began left went came sold "
    "bought built cut put set ran wrote rose fell grew kept paid met told beat sent spent stood "
    "drew drove threw taught thought spoke chose brought caught broke meant let hit"
)
_BREAK: Final = re.compile(r"[;:()—]|\s[-–]\s|\n")
_CODE: Final = re.compile(r"\w_\w|^_|::|\(\)$|^--?[A-Za-z]|\w\.\w|[a-z][A-Z]")


class Word(NamedTuple):
    """What a word is, wherever it stands."""

    small: str
    stem: str  # empty for words of grammar
    terms: tuple[str, ...]
    weight: float
    is_capital: bool
    denies: bool
    is_verb: bool
    side: str  # the stem that others exclude; also of words of grammar, such as `before`


class Name(NamedTuple):
    """Adjoining words with capitals."""

    words: frozenset[str]
    at: int
    end: int
    said: str
    sure: bool = True  # not the first word of a sentence alone, which has a capital anyway

    def same(self, other: Name) -> bool:
        """Return whether two names can be one: all words of one are in the other."""
        return self.words <= other.words or other.words <= self.words


@dataclass(slots=True)
class Sentence:
    """One sentence with its parts; places are numbers of words."""

    text: str
    start: int  # in the passage
    end: int
    small: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    stems: list[str] = field(default_factory=list)
    about: list[Word] = field(default_factory=list)
    clauses: list[int] = field(default_factory=list)  # the clause of each word
    denied: list[bool] = field(default_factory=list)  # whether a denial reaches the word
    denials: list[int] = field(default_factory=list)  # the words that deny
    heads: list[int] = field(default_factory=list)  # the first words that denials reach
    names: list[Name] = field(default_factory=list)
    quantities: list[Quantity] = field(default_factory=list)
    dates: list[Date] = field(default_factory=list)
    where: dict[str, list[int]] = field(default_factory=dict)  # the places of each term
    sides: dict[str, list[int]] = field(default_factory=dict)  # the places of what has an opposite
    forms: set[str] = field(default_factory=set)


@lru_cache(maxsize=1 << 14)
def about(word: str) -> Word:
    """Return what a word is."""
    small = word.casefold()
    terms = () if small in SOURCES else terms_of(word)
    light = bool(terms) and terms[0] in LIGHT
    is_stop = not terms
    weight = 0.0 if is_stop else 0.4 if light else 1.0 + 0.05 * min(len(small), 12) - 0.25
    capital = word[0].isupper() and (not is_stop or small in SOURCES) and small not in MONTHS
    return Word(
        small,
        terms[0] if terms else "",
        terms,
        weight + (0.3 if capital or _CODE.search(word) else 0.0) if not is_stop else 0.0,
        (capital and small not in _DAYS and len(word) > 1) or bool(_CODE.search(word)),
        is_negation(small) or small in DENYING,
        small in _VERBS or (small.endswith("ed") and len(small) > 4),
        next((each for each in (terms[:1] or (stem(small), small)) if each in OPPOSED), ""),
    )


@lru_cache(maxsize=512)
def parsed(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of a passage."""
    spans = sentences(text, code=True)[:_SENTENCES]
    return tuple(sentence(text[start:end], start, end) for start, end in spans)


@lru_cache(maxsize=512)
def said(text: str) -> Sentence:
    """Return one sentence of a report, without its footnotes and marks of Markdown."""
    return sentence(text, 0, len(text))


def sentence(text: str, start: int, end: int) -> Sentence:
    """Return the parts of one sentence."""
    made = Sentence(plain(text), start, end)
    text = made.text
    small, spans, stems, abouts = made.small, made.spans, made.stems, made.about
    clause = left = 0
    last = content = 0
    since = 0  # content words of this clause
    seeks = False  # the first word that a denial reaches
    words = [*WORD.finditer(text)][:_LONGEST]
    for number, match in enumerate(words):
        word = match[0]
        known = about(word)
        begin, after = match.span()
        gap = text[last:begin]
        if gap != " " or known.small in _JOINS:
            if number and _ends_clause(gap, known.small, words, number, since):
                if since >= 2:
                    clause, since = clause + 1, 0
                left = 0
            elif "," in gap:
                left = 0
        last = after
        small.append(known.small)
        spans.append((begin, after))
        stems.append(known.stem)
        abouts.append(known)
        made.clauses.append(clause)
        if known.side:
            made.sides.setdefault(known.side, []).append(number)
        made.denied.append(left > 0 and bool(known.stem))
        if known.stem:
            if seeks and left > 0 and known.stem not in LIGHT and not known.small.endswith("ly"):
                made.heads.append(number)
                seeks = False
            left -= known.stem not in LIGHT
            since += 1
            content += 1
            for term in known.terms:
                made.where.setdefault(term, []).append(number)
        instead = known.small in _INSTEAD and [w[0] for w in words[number + 1 : number + 2]]
        if (known.denies or instead in (["than"], ["of"])) and not _bounds(words, number):
            left, seeks = _REACH, True
            made.denials.append(number)
            if known.small in BACKWARD:
                before = [at for at in range(number) if made.clauses[at] == clause and stems[at]]
                made.heads.extend(before[-1:])
                for place in before:
                    made.denied[place] = True
    if since < 2 and clause:  # a tail such as `too`
        made.clauses = [min(each, clause - 1) for each in made.clauses]
    made.forms = set(small)
    made.quantities, made.dates = found(text, small, spans, stems)
    taken = {place for q in made.quantities for place in range(q.at, q.end)}
    taken |= {place for d in made.dates for place in range(d.at, d.end)}
    made.names = _names(made, taken)
    return made


def _bounds(words: list[re.Match[str]], at: int) -> bool:
    """Return whether a negation belongs to a comparison: not only, never has more than."""
    following = [each[0].casefold() for each in words[at + 1 : at + 6]]
    if following[:1] and following[0] in (
        "only",
        "more",
        "less",
        "fewer",
        "later",
        "matter",
        "least",
        "just",
    ):
        return True
    before = words[at - 1][0].casefold() if at else ""
    is_rule = before in ("must", "should", "do", "may", "can")
    return "than" in following and words[at][0].casefold() in ("no", "not", "never") and not is_rule


def _ends_clause(gap: str, small: str, words: list[re.Match[str]], number: int, since: int) -> bool:
    """Return whether a clause ends before a word, after some content words of it."""
    if _BREAK.search(gap):
        return True
    if "," in gap and (small in _JOINS or (since > 4 and _verb_near(words, number))):
        return True
    return small in _JOINS and small != "or" and _verb_near(words, number + 1)


def _verb_near(words: list[re.Match[str]], at: int) -> bool:
    return any(about(each[0]).is_verb for each in words[at : at + 4])


def _names(made: Sentence, taken: set[int]) -> list[Name]:
    names = []
    at, size = 0, len(made.small)
    while at < size:
        if not made.about[at].is_capital or at in taken:
            at += 1
            continue
        end = at + 1
        while (
            end < size
            and made.about[end].is_capital
            and end not in taken
            and made.text[made.spans[end - 1][1] : made.spans[end][0]].strip()
            in ("", ".", "-", "&")
        ):
            end += 1
        begin = at
        sure = at > 0 or end > 1 or made.about[at].weight > 0.5
        words = frozenset(
            (made.stems[place] or made.small[place]).removesuffix("'s")
            for place in range(begin, end)
            if made.small[place] not in STOP_WORDS
        )
        if words:
            said = made.text[made.spans[begin][0] : made.spans[end - 1][1]]
            names.append(Name(words, begin, end, said, sure))
        at = end
    return names


@dataclass(slots=True)
class Stored:
    """A passage, prepared for comparison; a place is a sentence and a word of it."""

    sentences: tuple[Sentence, ...]
    where: dict[str, list[Place]] = field(default_factory=dict)
    begun: dict[str, list[Place]] = field(default_factory=dict)
    groups: dict[int, list[Place]] = field(default_factory=dict)
    title: frozenset[str] = frozenset()
    capitals: set[str] = field(default_factory=set)  # words that have one within a sentence
    meant: list[tuple[int, int, Name]] = field(default_factory=list)  # by pronouns, perhaps
    names: list[tuple[int, Name]] = field(default_factory=list)
    quantities: list[tuple[int, Quantity]] = field(default_factory=list)
    dates: list[tuple[int, Date]] = field(default_factory=list)


@lru_cache(maxsize=128)
def stored(passage: str, title: str = "") -> Stored:
    """Return a passage, prepared for comparison."""
    made = Stored(parsed(passage))
    made.capitals = {word for s in made.sentences for n in s.names if n.sure for word in n.words}
    for number, each in enumerate(made.sentences):
        for term, places in each.where.items():
            spots = [(number, at) for at in places]
            made.where.setdefault(term, []).extend(spots)
            if len(term) >= BEGINNING:
                made.begun.setdefault(term[:BEGINNING], []).extend(spots)
            for group in ALIKE.get(term, ()):
                made.groups.setdefault(group, []).extend(spots)
        sure = [one for one in each.names if one.sure or not made.capitals.isdisjoint(one.words)]
        made.names.extend((number, one) for one in sure)
        for at, word in enumerate(each.small):
            if word in _PRONOUNS and number:
                known = made.sentences[number - 1].names or made.sentences[max(0, number - 2)].names
                made.meant.extend(
                    (number, at, one)
                    for one in (*known, *each.names)
                    if one.sure and not (one in each.names and one.at > at)
                )
                break
        made.quantities.extend((number, one) for one in each.quantities)
        made.dates.extend((number, one) for one in each.dates)
    made.title = frozenset(term for each in parsed(title) for term in each.where)
    return made
