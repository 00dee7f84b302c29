"""Who does what to whom: what stands before and after each verb, in a sentence and its passage."""

from __future__ import annotations

from typing import Final, NamedTuple

from moothall.research.citations.lexicon import CONVERSE, OPPOSED
from moothall.research.citations.matching import Unit, word_at
from moothall.research.citations.parsed import Sentence, Stored
from moothall.text.terms import listed

_BEING: Final = listed("was were is are been be being got get gets")
_BEFORE_VERBS: Final = listed(
    "will would can could may might must shall should to not never did does do who"
)
_OBJECT: Final = listed("the a an its his her their all both each two three it them")
_RELATIVE: Final = listed("who which that")
_MEANT: Final = listed("he she it they this these those one")
_MOST: Final = 8  # verbs of a sentence that are looked at
_REACH: Final = 14  # words on a side of a verb


class Frame(NamedTuple):
    """A verb, and the places of the words on the doer's side, and on the other."""

    doers: frozenset[int]
    others: frozenset[int]


def frame_of(each: Sentence, at: int) -> Frame:
    """Return what stands on the two sides of a verb; in the passive the sides are exchanged."""
    clause, small, size = each.clauses[at], each.small, len(each.small)
    begin = at
    while begin and each.clauses[begin - 1] == clause and at - begin < _REACH:
        begin -= 1
    end = at + 1
    while end < size and each.clauses[end] == clause and end - at <= _REACH:
        end += 1
    left = _about(each, begin, at)
    if not left and begin and not _MEANT.intersection(small[begin:at]):
        left = _carried(each, begin)
    being = not _BEING.isdisjoint(small[max(begin, at - 3) : at]) and not small[at].endswith("ing")
    by = small.index("by", at, end) if "by" in small[at:end] else 0
    if being or (0 < by <= at + 2 and small[at].endswith("ed")):
        return Frame(_about(each, by, end) if by else frozenset(), left)
    return Frame(left, _about(each, at + 1, end))


def _about(each: Sentence, begin: int, end: int) -> frozenset[int]:
    return frozenset(at for at in range(begin, end) if each.stems[at])


def _carried(each: Sentence, begin: int) -> frozenset[int]:
    """Return the doer of a clause without one: `who` is named last, else the first of before."""
    before = [at for at in range(begin) if each.clauses[at] == each.clauses[begin - 1]]
    content = [at for at in before if each.stems[at]]
    if not content:
        return frozenset()
    if each.small[begin] in _RELATIVE or (each.small[begin - 1] in _RELATIVE):
        names = [n for n in each.names if n.end - 1 in (content[-1], content[-1] - 1)]
        return frozenset(range(names[-1].at, names[-1].end)) if names else frozenset(content[-1:])
    names = [n for n in each.names if n.at == content[0]]
    return frozenset(range(names[0].at, names[0].end)) if names else frozenset(content[:1])


def _is_verb(each: Sentence, at: int) -> bool:
    word = each.small[at]
    before = each.small[at - 1] if at else ""
    return (
        each.about[at].is_verb
        or before in _BEFORE_VERBS
        or before in _BEING
        or (word.endswith("s") and not _OBJECT.isdisjoint(each.small[at + 1 : at + 2]))
    ) and not each.about[at].is_capital


def acting(
    ours: Sentence, there: Stored, units: list[Unit], inside: range
) -> tuple[list[float], list[str]]:
    """Whether doer and other of a verb are exchanged, and whether another is named as the doer."""
    by_place = {unit.at: unit for unit in units if unit.kind in ("word", "name")}
    named = {at for name in ours.names for at in range(name.at, name.end)}
    near = range(max(0, inside.start - 1), min(len(there.sentences), inside.stop + 1))
    kept = turned = 0
    strange, why = 0.0, []
    verbs = [u for u in by_place.values() if u.kind == "word" and _is_verb(ours, u.at)]
    pivots = [(u.at, _verbs_there(u, there, near)) for u in verbs[:_MOST]]
    pivots += [(at, _than_there(ours, there, near)) for at in _all(ours, "than")]
    for verb, found in pivots:
        mine = frame_of(ours, verb)
        if not mine.doers:
            continue
        same = other = 0
        for number, place, is_converse in found:
            each = there.sentences[number]
            theirs = frame_of(each, place)
            if each.denied[place] != ours.denied[verb]:
                continue
            if is_converse:
                theirs = Frame(theirs.others, theirs.doers)
            doers = [_sides(by_place[p], number, theirs) for p in mine.doers if p in by_place]
            others = [_sides(by_place[p], number, theirs) for p in mine.others if p in by_place]
            if doers.count(-1) and others.count(1) and not doers.count(1):
                turned += 1
                why = [f"turns round who did it to whom: {word_at(ours, verb)}"]
            if doers.count(1):
                same += 1
            elif others.count(-1) and not others.count(1) and named & mine.doers:
                strangers = any(n.sure and n.at in theirs.doers for n in each.names)
                other += strangers and not doers.count(-1)
        kept += same
        if other and not same:
            strange = 1.0
            why = why or [f"says of another than the passage who did it: {word_at(ours, verb)}"]
    return [float(turned > kept), strange], why


def _verbs_there(verb: Unit, there: Stored, near: range) -> list[tuple[int, int, bool]]:
    found = [
        (number, at, False)
        for number in near
        for at, quality in verb.hits.get(number, ())
        if quality >= 0.75 and not there.sentences[number].about[at].is_capital
    ]
    side = verb.word.side
    if side in CONVERSE:
        found += [
            (number, at, True)
            for number in near
            for stem in OPPOSED[side] & CONVERSE & there.sentences[number].sides.keys()
            for at in there.sentences[number].sides[stem]
        ]
    return found[:_MOST]


def _than_there(ours: Sentence, there: Stored, near: range) -> list[tuple[int, int, bool]]:
    """Return the comparisons of a passage, and whether each has the opposite of ours."""
    found = []
    for number in near:
        sides = there.sentences[number].sides.keys()
        is_converse = any(OPPOSED[side] & CONVERSE & sides for side in ours.sides)
        found += [(number, at, is_converse) for at in _all(there.sentences[number], "than")]
    return found


def _all(each: Sentence, word: str) -> list[int]:
    return [at for at, small in enumerate(each.small) if small == word]


def _sides(unit: Unit, number: int, frame: Frame) -> int:
    """Return 1 for a word that is on the doer's side, -1 on the other's, 0 on both or neither."""
    places = {at for at, quality in unit.hits.get(number, ()) if quality >= 0.75}
    return bool(places & frame.doers) - bool(places & frame.others)
