"""What is known of each sentence that could answer a question, as numbers from 0 to 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from moothall.research.extractive.asked import Asked
from moothall.research.extractive.needed import is_contents, is_licence
from moothall.research.extractive.units import Unit, units
from moothall.research.findings import Passage
from moothall.research.relevance import Index, titled
from moothall.research.sentences import terms

PASSAGES: Final = 30  # the best of an index, whose sentences are looked at
LONGEST: Final = 400  # characters of a window
_WINDOW: Final = 3  # sentences of a window, at most
_ITEMS: Final = 8  # of a list that is quoted after what leads to it, at most
_COPULA: Final = re.compile(
    r"\b(?:is|are|was|were|means?|refers?|stands?|describes?|denotes?|specif(?:y|ies)|defines?|"
    r"controls?|sets?)\b"
)
_PART: Final = re.compile(r"\s+[–—|-]\s+|\s*[»\u203a]\s*|:\s")  # of a title
_LETTER: Final = re.compile(r"[^\W\d_]")
_NOTHING: Final[frozenset[str]] = frozenset()
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


class _Prepared(NamedTuple):
    """A passage, split and read once."""

    units: tuple[Unit, ...]
    said: tuple[tuple[str, ...], ...]  # the terms of each unit, in order
    has: tuple[frozenset[str], ...]
    heading: frozenset[str]
    title: frozenset[str]
    every: frozenset[str]
    pages: tuple[frozenset[str], ...]  # the parts of the page's title, each as terms
    opens: int  # the sentence that a page begins with; -1 if it is of a later section


@lru_cache(maxsize=2_000)
def _prepared(title: str, text: str) -> _Prepared:
    heading = title.rpartition(" – ")[2] if " – " in title else ""
    split = units(text, heading)
    said = tuple(tuple(terms(text[each.start : each.end])) for each in split)
    has = tuple(map(frozenset, said))
    of_title = frozenset(terms(title))
    every = _NOTHING.union(of_title, *has)
    own = title.removesuffix(heading).strip(" –") if heading else title
    pages = tuple(filter(None, (frozenset(terms(each)) for each in _PART.split(own or title))))
    of_heading = frozenset(terms(heading))
    is_top = not heading or of_heading == frozenset(terms(own)) or of_heading in pages
    prose = (n for n, each in enumerate(split) if each.kind == "prose")
    opens = next(prose, -1) if is_top else -1
    return _Prepared(split, said, has, of_heading, of_title, every, pages, opens)


def candidates(index: Index, asked: Asked) -> Iterator[Candidate]:
    """Yield the sentences of the best passages that have a word of the question in or near them."""
    found = index.search(asked.text, PASSAGES)
    for rank, (passage, score, _) in enumerate(found):
        if not asked.is_of_licence and is_licence(titled(passage)):
            continue
        of_passage = {"passage": score / found[0].score, "top": float(rank == 0)}
        yield from _of_passage(asked, passage, of_passage)


def _of_passage(asked: Asked, passage: Passage, known: dict[str, float]) -> Iterator[Candidate]:
    text = passage.text
    read = _prepared(titled(passage), text)
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
        lead = _lead(asked, text, unit, head)
        of_lead = frozenset(terms(text[lead[0] : lead[1]])) if lead else _NOTHING
        own = read.has[place]
        beside = _NOTHING.union(
            *read.has[max(place - 1, 0) : place], *read.has[place + 1 : place + 2]
        )
        if asked.needed.is_headed(said, above):
            own |= (above | read.title) & wanted
        # Of a setting the file says whose it is, and nothing says that it is one.
        if unit.is_setting and not wanted.isdisjoint(own - _OF_SETTINGS - read.title):
            own |= (_OF_SETTINGS | read.title) & wanted
        if wanted.isdisjoint(own | of_lead | beside):
            continue
        first, last = _window(asked, text, read, place)
        window = read.units[first].start, read.units[last].end
        if is_contents(text[slice(*window)]):
            continue
        says = of_lead.union(own, *read.has[first : last + 1])
        follows = place + 1 < len(read.units) and read.units[place + 1].block == unit.block
        kind = 1.0 if asked.has_kind(said) else 0.0
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
            "kind in window": float(is_strong and asked.has_kind(text[slice(*window)])),
            "own and kind": share * kind if is_strong else 0.0,
            "head": float(is_head),
            "code": float(unit.kind == "code"),
            "term": float(unit.kind == "term"),
            "bare name": float(
                asked.kind.name == "code" and kind == 1.0 and unit.kind in ("term", "item", "head")
            ),
            "dangles": float(unit.dangles),
            "antecedent lacks": float(unit.dangles and first == place),
            "short": min(length, 8) / 8,
            "long": max(0, min(length, 100) - 40) / 60,
            "first": float(place == 0),
            "nothing new": float(own <= wanted and not unit.is_setting),  # `ForwardAgent no`
            "new": min(len(own - wanted), 10) / 10,
            "asks": float(said[-1:] in "?\uff1f؟"),
            "leads on": float(said.endswith(":")),
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
            and not of_lead <= own
            and (
                text[lead[1] - 1] == ":"
                or unit.kind == "row"
                or (unit.kind == "item" and said[0].islower())  # half a sentence
                or _is_term(text, read.units[place - 1 : place], unit, lead)
                or not wanted.isdisjoint(of_lead - own)
                or (is_strong and asked.has_kind(text[slice(*lead)]))
            )
        )
        shown = lead if is_shown else None
        after = _following(text, read, last, wanted - says)
        yield Candidate(passage, unit, window, shown, after, facts, says, above | read.title)


def _is_term(text: str, before: tuple[Unit, ...], unit: Unit, lead: tuple[int, int]) -> bool:
    """Return whether a lead stands right above a unit, as what it explains, and is no heading."""
    above = [(each.start, each.end) for each in before if each.block == unit.block]
    return above == [lead] and not text[slice(*lead)].isupper()


def _lead(asked: Asked, text: str, unit: Unit, head: Unit | None) -> tuple[int, int] | None:
    """Return what leads to a unit: a term or its list's, or a heading that names what is asked."""
    if unit.lead and _LETTER.search(text, *unit.lead):
        return unit.lead
    # A heading such as `ON_ERROR_STOP`, whose section says what the question asks about.
    is_named = asked.is_strong and asked.kind.name != "number"
    if head and unit is not head and unit.block <= head.block + 2 and is_named:
        return (head.start, head.end) if asked.has_kind(text[head.start : head.end]) else None
    return None


def _window(asked: Asked, text: str, read: _Prepared, place: int) -> tuple[int, int]:
    """Return the first and last unit of a window around one, all of its paragraph."""
    split = read.units
    first = last = place
    unit = split[place]

    def fits(first: int, last: int) -> bool:
        inside = first >= 0 and last < len(split) and last - first < _WINDOW
        if not inside or not split[first].block == split[last].block == unit.block:
            return False
        return split[last].end - split[first].start <= LONGEST

    if unit.kind == "row":
        return place, place
    refers = unit.dangles and fits(place - 1, place)  # to what was said before
    if refers and split[first - 1].kind not in ("term", "head"):
        first -= 1
    while fits(first, last + 1) and split[last + 1].kind == "prose":
        last += 1
    if first == place and fits(first - 1, last) and split[first - 1].kind in ("prose", "item"):
        before = split[first - 1]
        is_near = not read.has[first - 1].isdisjoint(asked.weights)
        first -= is_near or asked.has_kind(text[before.start : before.end])
    return first, last


def _following(text: str, read: _Prepared, last: int, lacks: Set[str]) -> tuple[Unit, ...]:
    """Return the code, or the items of the list, that a window leads to by its last unit.

    Of a list these are the items with words of the question that the window lacks, if any has.
    """
    after = read.units[last + 1 :]
    end = text[read.units[last].end - 1]
    is_led = bool(after) and (after[0].is_setting and after[0].block == read.units[last].block)
    if not after or not (is_led or end == ":" or (end.isalnum() and after[0].kind == "code")):
        return ()
    if after[0].kind == "code":
        return after[:1] if after[0].end - after[0].start <= LONGEST else ()
    items = [*takewhile(lambda each: each.kind == "item", after)]
    has = read.has[last + 1 : last + 1 + len(items)]
    told = [each for each, of in zip(items, has, strict=True) if not lacks.isdisjoint(of)]
    made, size = [], 0
    for each in (told or items)[:_ITEMS]:
        size += each.end - each.start
        made += [each] * (size <= LONGEST)
    return tuple(made)


def _cover(
    asked: Asked,
    own: frozenset[str],
    of_lead: frozenset[str],
    near: frozenset[str],
    above: frozenset[str],
    read: _Prepared,
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
