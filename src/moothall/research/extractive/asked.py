"""A question, prepared to be compared with passages: its words by weight, names and kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from itertools import pairwise
from typing import Final

from moothall.foundation.text.scripts import UNSPACED
from moothall.foundation.text.terms import listed, stem, subject, terms, terms_of, words
from moothall.research.extractive.moment import Moment, asked_moment
from moothall.research.extractive.needed import MADE, VERSION, Needed, asks_for_licence, needed
from moothall.research.extractive.question import EXACT, STRONG, Kind, kind_of
from moothall.research.relevance import Index

_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_NEAR: Final = 10  # words before and after a number, a name or an option that belong to it
_UNCOUNTED: Final = 0.4  # what a number is worth away from what `how many` counts, against 1
_NO_OPTION: Final = 0.6  # how far `save-exact` is an option, against `--save-exact`
_CLASS: Final = 0.35  # the weight of a word such as `option` after `which`, against 1
# Verbs in whose place an answer may have many another: `uses port 4711`, `listens on port 4711`.
_LIGHT: Final = listed(
    "use uses used using need needs needed want wants take takes give gives happen happens "
    "offer offers provide provides work works"
)
_IN_LISTS: Final = re.compile(
    r"(?i)\b(?:which|what)\s(?:\S+\s){0,2}(?:setting|parameter|command)s?\b"
)
# The same of an option: `sets the label`, `Specify the label`.
_SETTING: Final = listed("set sets setting specify specifies define defines give gives control")
# Of `when was version 1.2 released`: `1.2 (2019-04-01)`.
_OF_VERSION: Final = re.compile(r"(?i)versions?|releas\w+|publish\w+|appear\w*")
# What is told by changes, rather than by what holds now.
_PAST: Final = re.compile(
    r"(?i)\b(?:when|since|versions?|releas\w+|chang\w+|new|introduc\w+|add(?:ed|ition)|remov(?:ed|al)|fix(?:ed|es)?|"
    r"was|were|did|has|have|had|no longer|anymore|history|deprecat\w+|bugs?|year|date|first)\b"
)
_FIRST: Final = re.compile(r"[.?!]\s+([A-Z][a-z]+)")
_ABOUT: Final = re.compile(
    r"(?i)\W*(?:what(?:['’]s| (?P<verb>is|are|was|were|does|do|did|may|might|can|could|will|would|"
    r"should|must)\b)|was (?:ist|sind)\b|qu['’]est-ce qu(?:e |['’])|que sont\b)"
    r"(?P<rest>.*)"
)
_TO_BE: Final = frozenset(("is", "are", "was", "were"))
# Where what a question is about ends: `the port | of alpha`, `a purge | used for`.
_ENDS: Final = re.compile(
    r"(?i)\s(?:of|in|on|for|with|to|from|at|by|when|if|that|which|used|called|named|meant|good)\b"
)
_COPULA: Final = (
    r"(?:(?:is|are|was|were)\b(?! (?:not|never|no longer)\b)"
    r"|(?:means?|refers?|stands?|denotes?|represents?)\b)"
)
_VERB: Final = r"(?!(?:has|does|always|as|its|plus|perhaps|sometimes|keys)\b)[a-z]{2,}(?<![su])s\b"
_DAY: Final = re.compile(r"\b(\d{4})-\d\d-\d\d\b")  # whose 12 is not that of `Debian 12`
_GIVEN: Final = re.compile(r"(?<!\S)--[\w-]+=$")
_LOOSELY: Final = 0.6  # how much `A budget limits …` defines a budget, against `A budget is …`
_CALLED: Final = r"\b(?:called|named|known as|termed|referred to as)\b"
_ARTICLE: Final = r"(?:(?:an?|the|every|each|one|any|der|die|das|eine?|une?|les?|la)\s+)?"


class Asked:
    """A question, its words weighed by how rare they are in an index."""

    def __init__(self, index: Index, question: str) -> None:
        self.text = question
        self.kind: Kind = kind_of(question)
        self.is_strong: bool = self.kind.name in STRONG
        self.is_exact: bool = self.kind.name in EXACT
        # What lists explain.
        self.is_listed: bool = self.kind.name == "option" or (
            self.kind.name == "code" and bool(_IN_LISTS.search(question))
        )
        self.weights: dict[str, float] = index.weights(question)
        said = words(subject(question))
        verbs = _LIGHT | _SETTING if self.is_listed else _LIGHT
        light = [word for word in said if self.kind.is_class(word) or word.lower() in verbs]
        if self.kind.name == "name":  # `developed by` answers who wrote it
            light += filter(MADE.fullmatch, said)
        if self.kind.name == "date" and VERSION.search(question):
            for term in (
                term for word in filter(_OF_VERSION.fullmatch, said) for term in terms_of(word)
            ):
                self.weights.pop(term, None)
        self.classes: set[str] = {
            term for word in said if self.kind.is_class(word) for term in terms_of(word)
        }
        weak = {term for word in light for term in terms_of(word)}
        for term in weak & self.weights.keys():
            self.weights[term] *= _CLASS
        moment, rest = asked_moment(question)
        self.moment: Moment = moment
        self.restricted: Set[str] = {*terms(subject(rest))} - weak  # words beside the moment
        self.total: float = sum(self.weights.values()) or 1.0
        self.pairs: list[tuple[str, str]] = [*pairwise(dict.fromkeys(terms(subject(question))))]
        self.rarest: list[str] = sorted(self.weights, key=lambda term: -self.weights[term])
        shouted = question.isupper()
        first = {*words(" ".join(_FIRST.findall(question)))}  # of a second sentence
        self.names: set[str] = {
            terms_of(word)[0]
            for place, word in enumerate(said)
            if terms_of(word) and not shouted and word not in first and _is_name(word, place)
        }
        self.acronyms: set[str] = {
            term for word in said if not shouted and word[1:].isupper() for term in terms_of(word)
        }
        self.is_of_past: bool = bool(_PAST.search(question) or VERSION.search(question))
        self.is_of_licence: bool = asks_for_licence(question)
        self.needed: Needed = needed(
            question, self.kind, [each for each in self.rarest if each in self.names]
        )
        # What is asked of the named thing: `follows redirects`.
        self.named: Set[str] = self.needed.object or self.names
        self.asks: Set[str] = self.weights.keys() - weak - self.named
        self.is_unspaced: bool = sum(map(_is_unspaced, self.weights)) > len(self.weights) / 2
        about, verb = _about(question)
        self.topic: frozenset[str] = frozenset(term for word in about for term in terms_of(word))
        if self.is_listed and not self.topic:
            self.topic = self.needed.named
        self._defined = _definition(about, verb) if about else None
        self._small = question.casefold()

    def share(self, there: Set[str]) -> float:
        """Return the share of the question's words, by weight, that a set has."""
        return sum(weight for term, weight in self.weights.items() if term in there) / self.total

    def is_silent(self, all: Iterable[Set[str]]) -> bool:
        """Return whether none of some texts says anything that is asked of the named thing.

        `curl -V` follows no redirects; an option fits whose text says half of what it shall do.
        A path says itself what it is.
        """
        if self.kind.name == "path":
            return False
        whole = sum(self.weights[term] for term in self.asks)
        most = max((sum(self.weights[t] for t in self.asks & each) for each in all), default=0.0)
        return bool(self.asks) and most <= (whole / 2 if self.kind.name == "option" else 0.0)

    def about(self, title: Set[str]) -> float:
        """Return how far a title, as its terms, is what the question is about: `Budgets`."""
        shared = title & self.weights.keys()
        if not shared:
            return 0.0
        reached = self.share(title & self.topic) / (self.share(self.topic) or 1.0)
        return len(shared) / len(title) * (reached if self.topic else self.share(shared))

    def defined(self, text: str) -> float:
        """Return how far a text says what the question is about: `A budget limits …`."""
        found = self._defined and self._defined.search(text)
        return 0.0 if not found else _LOOSELY if found["verb"] else 1.0

    def bound(self, text: str, above: Set[str]) -> float:
        """Return how much of the question stands beside something of the kind that it asks for.

        A word of `above`, the headings, counts half.
        """
        most = 0.0
        whole = {*terms(_DAY.sub(r"\1", text))}
        for found in self._found(self.needed.thing or self.kind.answers, text):
            before, after = text[: found.start()], text[found.end() :]
            if self.is_unspaced:
                beside = (before[-2 * _NEAR :], after[: 2 * _NEAR])
            else:
                beside = (" ".join(before.split()[-_NEAR:]), " ".join(after.split()[:_NEAR]))
            said = f"{beside[0]} {found[0]} {beside[1]}"
            near = {*terms(_DAY.sub(r"\1", said))}
            if not self.needed.is_met(said, whole, above):
                continue
            worth = self.share(near) + self.share(above - near) / 2
            most = max(most, worth if self.needed.counts(near | above) else worth * _UNCOUNTED)
        return min(most, 1.0)

    def has_named(self, entry: str) -> bool:
        """Return whether the question names an entry of a list."""
        return entry.casefold() in self._small

    def fits(self, entry: str) -> float:
        """Return how far an entry of a list is what is asked for: an option begins with a sign."""
        is_option = entry.lstrip("`*")[:1] in "-+/"
        if self.kind.name == "option":
            return 1.0 if is_option else _NO_OPTION
        return 1.0 if not is_option else _NO_OPTION / 2

    def has_kind(self, text: str) -> bool:
        """Return whether a text has what is asked for, and the question has not."""
        return any(self._found(self.kind.answers, text))

    def _found(self, kind: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
        """Yield what is of a kind and not of the question, and is no value such as `--size=0`."""
        for found in kind.finditer(text):
            is_asked = found[0].casefold().removeprefix("by ") in self._small
            if not (is_asked or _GIVEN.search(text, max(found.start() - 40, 0), found.start())):
                yield found


def _about(question: str) -> tuple[list[str], str]:
    """Return the words of what `what` asks about, and its verb: budget, limit."""
    found = _ABOUT.match(question)
    if not found:
        return [], ""
    rest = _ENDS.split(found["rest"].strip(), maxsplit=1)
    said = [word for word in words(rest[0]) if terms_of(word)]
    asks_verb = (found["verb"] or "is").lower() not in _TO_BE and len(rest) == 1
    return (said[:-1], said[-1]) if asks_verb and len(said) > 1 else (said, "")


def _definition(about: list[str], verb: str) -> re.Pattern[str]:
    """Return a pattern of what begins by saying what something is, or ends by naming it."""
    named = r"\W{1,4}".join(map(_inflected, about))
    opened = rf"\W{{0,4}}{_ARTICLE}\W{{0,4}}(?:{named})\b"
    beside = r"(?:\W{0,3}\([^()]{1,60}\))?"
    asked = rf"|(?i:{re.escape(stem(verb.lower()))})\w*" if verb else ""
    verbs = rf"\s(?:also |then |always )?(?:{_COPULA}{asked}|(?P<verb>{_VERB}))"
    return re.compile(
        rf"(?i:\A{opened}){beside}[^\w\s=(]{{0,3}}(?:{verbs}|\s*(?:\||::|:\s|–\s|—\s))"
        rf"|(?i:{_CALLED}{opened})"
    )


def _inflected(word: str) -> str:
    """Return a pattern of a word with its plural, and of `storing` for `stores`."""
    base = re.escape(word.removesuffix("s") if len(word) > 4 and word[-2:] != "ss" else word)
    return rf"{base}(?:e?s)?" if word.isalpha() else re.escape(word)


def _is_unspaced(term: str) -> bool:
    return bool(_UNSPACED.match(term))


def _is_name(word: str, place: int) -> bool:
    """Return whether a word of a question, at a place in it, names something."""
    if any(character.isdigit() or character in "_./" for character in word):
        return True
    return (place > 0 and word[:1].isupper() and len(word) > 1) or word[1:].isupper()
