"""What is known of each sentence that could answer a question, as numbers from 0 to 1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from moothall.foundation.text.terms import terms
from moothall.research.extractive.asked import Asked
from moothall.research.extractive.needed import is_contents, is_licence
from moothall.research.extractive.units import PROPERTY, Unit
from moothall.research.extractive.windows import (
    NOTHING,
    Prepared,
    following,
    is_above,
    is_term,
    lead_of,
    prepared,
    reasons,
    window_of,
)
from moothall.research.findings import Passage
from moothall.research.relevance import Index, titled

PASSAGES: Final = 30  # the best of an index, whose sentences are looked at
_OPTIONS: Final = 60  # the same for an option, as a passage explains many
_COPULA: Final = re.compile(
    r"\b(?:is|are|was|were|means?|refers?|stands?|describes?|denotes?|specif(?:y|ies)|defines?|"
    r"controls?|sets?)\b"
)
_LATER: Final = 0.7  # how much a later sentence about an option has it, against the first
_MENTIONED: Final = 0.3  # the same of a sentence that names it beside several, or beside its own
_PROPERTIES: Final = 5  # lines of an option before what it is, at most
_SEVERAL: Final = 4  # options of one sentence that answer no question for one
# What a line such as `#tries = 20` is, which does not say so.
_OF_SETTINGS: Final = frozenset(terms("default value setting set option parameter directive"))


class Candidate(NamedTuple):
    """A sentence that could answer, in its window, and what is known of it."""

    passage: Passage
    unit: Unit
    window: tuple[int, int]  # where it is in the text of the passage
    lead: tuple[int, int] | None
    follows: tuple[Unit, ...]  # the code or list that its window leads to
    facts: dict[str, float]
    says: frozenset[str]  # the terms of the window and its lead
    under: frozenset[str]  # those of its heading and titles


def candidates(index: Index, asked: Asked) -> Iterator[Candidate]:
    """Yield the sentences of the best passages that have a word of the question in or near them."""
    found = index.search(asked.text, _OPTIONS if asked.kind.name == "option" else PASSAGES)
    for rank, (passage, score, _) in enumerate(found):
        if not asked.is_of_licence and is_licence(titled(passage)):
            continue
        of_passage = {"passage": score / found[0].score, "top": float(rank == 0)}
        yield from _of_passage(asked, passage, of_passage)


def _of_passage(asked: Asked, passage: Passage, known: dict[str, float]) -> Iterator[Candidate]:
    text = passage.text
    read = prepared(titled(passage), text)
    wanted = asked.weights.keys()
    head: Unit | None = None
    above = read.heading
    about_page = max(map(asked.about, read.pages), default=0.0)
    about_section = asked.about(above)
    for place, unit in enumerate(read.units):
        said = text[unit.start : unit.end]
        if unit.kind == "head":
            head, above = unit, read.heading | read.has[place]
            about_section = max(asked.about(read.heading), asked.about(read.has[place]))
        elif not asked.is_of_licence and is_licence("", said):
            continue
        lead, entry = lead_of(asked, text, unit, head), unit.entry
        if not asked.is_listed or entry == (unit.start, unit.end):
            entry = None
        if entry and asked.has_named(text[slice(*entry)]):
            entry = None
        if entry and entry[0] < unit.start:
            lead = entry
        elif entry and lead and text[lead[1] - 1] != ":":  # a line of usage
            lead = None
        of_lead = frozenset(terms(text[lead[0] : lead[1]])) if lead else NOTHING
        own = read.has[place]
        tells = called = worth = 0.0
        if entry:
            name = frozenset(terms(text[slice(*entry)]))
            worth = asked.fits(text[slice(*entry)]) * (1.0 if unit.is_first else _LATER)
            if unit.is_first:
                called = asked.share(name) * worth
                after = own if lead == entry else frozenset(terms(text[entry[1] : unit.end]))
                tells = _tells(asked, after, name | (asked.named & read.title)) * worth
            own |= asked.classes | (asked.named & read.title)  # its page says whose option it is
        beside = NOTHING.union(
            *read.has[max(place - 1, 0) : place], *read.has[place + 1 : place + 2]
        )
        if asked.needed.is_headed(said, above):
            own |= (above | read.title) & wanted
        # Of a setting the file says whose it is, and nothing says that it is one.
        if unit.is_setting and not wanted.isdisjoint(own - _OF_SETTINGS - read.title):
            own |= (_OF_SETTINGS | read.title) & wanted
        if wanted.isdisjoint(own | of_lead | beside):
            continue
        first, last = window_of(asked, text, read, place)
        before, because = reasons(asked, text, read, first, last)
        if before:
            lead, of_lead = before, frozenset(terms(text[slice(*before)]))
        told = _told(asked, read, place, said)  # what has this value
        if told is not None and unit.entry:
            named = terms(text[slice(*unit.entry)])
            lead, own = unit.entry, own.union(read.has[told], named)
            called = float(not wanted.isdisjoint(named[:1]))
        window = read.units[first].start, read.units[last].end
        if is_contents(text[slice(*window)]):
            continue
        says = of_lead.union(own, *read.has[first : last + 1])
        follows = place + 1 < len(read.units) and read.units[place + 1].block == unit.block
        is_setting = unit.is_setting and asked.is_listed
        kind = 1.0 if is_setting or asked.has_kind(said) else 0.0
        if entry:  # what it mentions is another
            kind = worth
        elif kind and asked.is_listed and (unit.entry or _lists(asked, said)):
            kind = _MENTIONED
        if before or because or told is not None:
            kind = 1.0
        if not kind and lead and asked.has_kind(text[lead[0] : lead[1]]):
            kind = 0.7
        if not kind and follows and asked.has_kind(text[unit.end : read.units[place + 1].end]):
            kind = 0.4
        at = {term: n for n, term in reversed([*enumerate(read.said[place])])}
        pairs = [
            one in at and other in at and abs(at[one] - at[other]) <= 3
            for one, other in asked.pairs
        ]
        near = beside | of_lead
        share = asked.share(own)
        length = len(said.split())
        is_head, is_strong = unit.kind == "head", asked.is_strong
        begins = read.said[place][:3]
        defines = asked.defined(said)
        if lead:
            defines = max(defines, asked.defined(f"{text[slice(*lead)]}: {said}"))
        at_home = max(about_page, about_section)
        facts = {
            **known,
            "top": known["top"] if not entry else 0.0,  # of many, one is as good as another
            "own": share,
            "cover": _cover(asked, own, of_lead, near, above, read),
            "window": asked.share(says),
            "beside": asked.share(near - own - of_lead),
            "heading": asked.share(above),
            "title": asked.share(read.title),
            "pairs": sum(pairs) / max(len(pairs), 1),
            "rarest": float(bool(asked.rarest) and asked.rarest[0] in (own | near | above)),
            "kind": kind if is_strong else 0.0,
            "loose kind": kind if not is_strong else 0.0,
            "explains": tells,
            "called": called,
            "kind in window": float(is_strong and asked.has_kind(text[slice(*window)])),
            "own and kind": share * kind if is_strong else 0.0,
            "head": float(is_head),
            "code": float(unit.kind == "code"),
            "term": float(unit.kind == "term" and told is None),
            "dangles": float(unit.dangles),
            "short": min(length, 8) / 8,
            "long": max(0, min(length, 100) - 40) / 60,
            "first": float(place == 0),
            "nothing new": float(own <= wanted and not unit.is_setting),  # `ForwardAgent no`
            "new": min(len(own - wanted), 10) / 10,
            "asks": float(said[-1:] in "?\uff1f؟"),
            "about page": about_page,
            "about section": about_section,
            "opens": about_page * (place == read.opens),
            "defines": defines,
            "defines at home": defines * at_home,
            "subject": float(
                any(term in wanted for term in begins)
                and (unit.is_setting or bool(_COPULA.search(said)))
            ),
        }
        # A lead is shown if it says more: not `Fees` before “The fees are low.”
        is_shown = (
            lead
            and ((is_entry := is_above(text, unit, lead)) or not of_lead <= own)
            and (
                is_entry
                or before
                or text[lead[1] - 1] == ":"
                or unit.kind == "row"
                or (unit.kind == "item" and said[0].islower())  # half a sentence
                or is_term(text, read.units[place - 1 : place], unit, lead)
                or not wanted.isdisjoint(of_lead - own)
                or (is_strong and asked.has_kind(text[slice(*lead)]))
            )
        )
        shown = lead if is_shown else None
        of_value = (read.units[told],) if told is not None and told > place else ()
        led = of_value or because or following(text, read, last, wanted - says)
        yield Candidate(passage, unit, window, shown, led, facts, says, above | read.title)


def _told(asked: Asked, read: Prepared, place: int, said: str) -> int | None:
    """Return which unit says what an option is, of a line such as `Default: 10` beside that."""
    unit = read.units[place]
    if not unit.entry or unit.is_first or not PROPERTY.fullmatch(said):
        return None
    near = [*range(place + 1, min(place + 1 + _PROPERTIES, len(read.units)))]
    if not asked.weights.keys().isdisjoint(terms(said.partition(":")[0])):
        near += range(max(place - _PROPERTIES, 0), place)
    same = (at for at in near if read.units[at].entry == unit.entry)
    return next((at for at in same if read.units[at].is_first), None)


def _lists(asked: Asked, said: str) -> bool:
    """Return whether a text lists options, such as a synopsis."""
    is_option = asked.kind.name == "option"
    return is_option and len({*asked.kind.answers.findall(said)}) >= _SEVERAL


def _tells(asked: Asked, says: frozenset[str], name: frozenset[str]) -> float:
    """Return how far the first sentence about an option says what is asked for, and no more."""
    exactly = len(says & asked.weights.keys()) / max(len(says), 1)
    return asked.share(says | name) * (1 + 2 * exactly) / 3


def _cover(
    asked: Asked,
    own: frozenset[str],
    of_lead: frozenset[str],
    near: frozenset[str],
    above: frozenset[str],
    read: Prepared,
) -> float:
    """Return the share of the question's words, each counted less the further away it is."""
    total = 0.0
    for term, weight in asked.weights.items():
        if term in own:
            total += weight
        elif term in of_lead:
            total += 0.9 * weight
        elif term in near or term in above:
            total += 0.6 * weight
        elif term in read.title:
            total += 0.4 * weight
        elif term in read.every:
            total += 0.25 * weight
    return total / asked.total
