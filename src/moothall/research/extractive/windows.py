"""What a sentence is quoted with: what leads to it, its neighbours, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from moothall.foundation.text.terms import terms
from moothall.research.extractive.asked import Asked
from moothall.research.extractive.units import NUMBERED, Unit, units

LONGEST: Final = 400  # characters of a window
NOTHING: Final[frozenset[str]] = frozenset()
_WINDOW: Final = 3  # sentences of a window, at most
_ITEMS: Final = 8  # of a list that is quoted after what leads to it, at most
_PART: Final = re.compile(r"\s+[–—|-]\s+|\s*[»\u203a]\s*|:\s")  # of a title
_LETTER: Final = re.compile(r"[^\W\d_]")
# How a sentence begins whose reason stands in the paragraph before, and one that gives a reason.
_FOR_THAT: Final = re.compile(
    r"(?:For (?:this|that|these|those) reasons?|Th(?:is|at) is why|Because of (?:this|that)"
    r"|Therefore|Hence|Thus|Consequently|Accordingly|As a (?:result|consequence)|So|Deshalb|Daher"
    r"|Darum|Aus diesem Grund|C'est pourquoi|Par conséquent)\b"
)
_BECAUSE: Final = re.compile(
    r"(?:(?:(?:One|Another|The) )?(?:main )?(?:reasons?|rationale|purpose|motivation|idea)\b"
    r"|(?:This|That|It|They)(?:'s| is| was| are| were) (?:because|due|since|so that|to \w+|meant|"
    r"intended|done)\b|Because|Otherwise|Without (?:this|that|it)"
    r"|(?:This|That|It|They|Doing so) (?:avoids?|prevents?|ensures?|allows?|makes?|keeps?|"
    r"lets?|means|helps?|would|guarantees?|protects?|reduces?|saves?)\b|This way|That way"
    r"|Denn|Sonst|Andernfalls|Der Grund|Grund dafür|Car|Sinon|La raison)\b"
)


class Prepared(NamedTuple):
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
def prepared(title: str, text: str) -> Prepared:
    """Return a passage with its units, and their terms."""
    heading = title.rpartition(" – ")[2] if " – " in title else ""
    split = units(text, heading)
    said = tuple(tuple(terms(text[each.start : each.end])) for each in split)
    has = tuple(map(frozenset, said))
    of_title = frozenset(terms(title))
    every = NOTHING.union(of_title, *has)
    own = title.removesuffix(heading).strip(" –") if heading else title
    pages = tuple(filter(None, (frozenset(terms(each)) for each in _PART.split(own or title))))
    of_heading = frozenset(terms(heading))
    is_top = not heading or of_heading == frozenset(terms(own)) or of_heading in pages
    prose = (n for n, each in enumerate(split) if each.kind == "prose")
    opens = next(prose, -1) if is_top else -1
    return Prepared(split, said, has, of_heading, of_title, every, pages, opens)


def is_above(text: str, unit: Unit, lead: tuple[int, int]) -> bool:
    """Return whether a lead is the entry that a unit is about, and does not begin with it."""
    return lead == unit.entry and not text.startswith(text[slice(*lead)], unit.start)


def is_term(text: str, before: tuple[Unit, ...], unit: Unit, lead: tuple[int, int]) -> bool:
    """Return whether a lead stands right above a unit, as what it explains, and is no heading."""
    above = [(each.start, each.end) for each in before if each.block == unit.block]
    is_heading = text[slice(*lead)].isupper() or NUMBERED.match(text, *lead)
    return above == [lead] and not is_heading


def lead_of(asked: Asked, text: str, unit: Unit, head: Unit | None) -> tuple[int, int] | None:
    """Return what leads to a unit: a term or its list's, or a heading that names what is asked."""
    if unit.lead and _LETTER.search(text, *unit.lead):
        return unit.lead
    # A heading such as `ON_ERROR_STOP`, whose section says what the question asks about.
    is_entry = head is not None and unit.entry == (head.start, head.end)
    is_named = asked.is_strong and (is_entry or asked.kind.name != "number")
    if head and unit is not head and unit.block <= head.block + 2 and is_named:
        said = text[head.start : head.end]
        is_plain = said.isupper() and said.replace(" ", "").isalpha()  # of a manual: `DESCRIPTION`
        return (head.start, head.end) if asked.has_kind(said) and not is_plain else None
    return None


def window_of(asked: Asked, text: str, read: Prepared, place: int) -> tuple[int, int]:
    """Return the first and last unit of a window around one, all of its paragraph."""
    split = read.units
    first = last = place
    unit = split[place]

    def fits(first: int, last: int) -> bool:
        inside = first >= 0 and last < len(split) and last - first < _WINDOW
        if not inside or not split[first].block == split[last].block == unit.block:
            return False
        if split[first].entry != split[last].entry:  # of another option
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


def following(text: str, read: Prepared, last: int, lacks: Set[str]) -> tuple[Unit, ...]:
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


def reasons(
    asked: Asked, text: str, read: Prepared, first: int, last: int
) -> tuple[tuple[int, int] | None, tuple[Unit, ...]]:
    """Return what a question after a reason needs from the paragraphs before and after a window.

    These are the sentence before it, if it begins with `For this reason`, or the one after it, if
    that says why and the window does not.
    """
    split = read.units
    if asked.kind.name != "reason" or split[first].kind != "prose":
        return None, ()
    if first and _FOR_THAT.match(text, split[first].start):
        before = split[first - 1]
        if before.kind in ("prose", "item", "row"):
            return (before.start, before.end), ()
    after = split[last + 1 : last + 2]
    says_why = asked.has_kind(text[split[first].start : split[last].end])
    if after and after[0].kind == "prose" and not says_why:
        return None, after if _BECAUSE.match(text, after[0].start) else ()
    return None, ()
