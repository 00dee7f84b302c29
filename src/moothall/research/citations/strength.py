"""Negations, opposites, and whether a sentence says more than its passage: a plan as done."""

from __future__ import annotations

import re
from typing import Final

from moothall.research.citations import lexicon
from moothall.research.citations.lexicon import CONVERSE, OPPOSED
from moothall.research.citations.matching import Unit, near, word_at
from moothall.research.citations.parsed import Sentence, Stored
from moothall.text.terms import listed

_WEAK: Final = listed("will would shall can")
_EXCEPTING: Final = listed("unless except excluding only")
_CONDITIONS: Final = frozenset(
    ("unless", "if", "otherwise", "other", "only", "not", "no", "need", "needs")
)
_IS_TO: Final = re.compile(r"\b(?:is|are|was|were|has|have) (?:yet )?to \w+")
_SOME_OF: Final = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|half|few|\d+) (?:out )?of "
    r"(?:the|its|his|her|their|our|these|those|every|\d+|two|three|four|five|six|ten)\b",
    re.I,
)
_COMPARED: Final = re.compile(r"\b(?:more|less|fewer|better|worse|[a-z]{3,}er)\b.{0,60}? than\b")
_EQUAL: Final = re.compile(
    r"\bnot differ|\bno (?:significant )?difference|\bequally\b|\bas (?:\w+ )as\b|\bunchanged\b"
    r"|\b(?:was|were|is|are|remained|had) (?:similar|identical|the same|comparable)\b"
)
_UNEQUAL: Final = re.compile(r"\b(?:than|more|less|fewer|higher|lower|twice)\b")
_BACKWARD: Final = listed("planned considered proposed disputed expected scheduled discussed")
_BEING: Final = listed("is are was were be been")
_NO_MORE: Final = listed("not no never neither nor rather other")


def strength(
    ours: Sentence, there: Stored, units: list[Unit], inside: range
) -> tuple[list[float], list[str]]:
    """Whether a sentence is stronger than its window: a plan told as done, all for some."""
    mine = ours.forms
    window = [there.sentences[n] for n in inside]
    forms: set[str] = set().union(*(each.forms for each in window)) if window else set()
    if any("at most" in each.text for each in window):
        forms = forms - {"most"}
    if _EVERY.search(ours.text):
        mine = mine - {"every"}
    if "than" in mine:  # never more than
        mine = mine - lexicon.NONE
    planned = possible = exception = 0.0
    places: dict[int, set[int]] = {n: set() for n in inside}
    for unit in units:
        if unit.kind == "word" and unit.word.weight > 0.5:
            for n in inside:
                places[n].update(at for at, q in unit.hits.get(n, ()) if q >= 0.75)
    most = max(map(len, places.values()), default=0)
    for n, hits in places.items():
        each = there.sentences[n]
        for at, word in enumerate(each.small if 2 * len(hits) >= most else ()):
            if each.small[at + 1 : at + 2] == ["not"]:
                continue  # may not: it is forbidden
            clause = each.clauses[at]
            after = any(p in hits and each.clauses[p] == clause for p in range(at + 1, at + 5))
            if word in _BACKWARD and each.small[at - 1] in _BEING:
                after = after or any(p < at and each.clauses[p] == clause for p in hits)
            if word in lexicon.PLANNED and after:
                weak = word in _WEAK and each.small[at + 1 : at + 2] != ["have"]
                planned = max(planned, 0.4 if weak else 1.0)
            elif word in lexicon.POSSIBLE and after:
                possible = max(possible, 0.4 if word in _WEAK else 1.0)
            elif word in _EXCEPTING and each.small[at - 1] != "not" and any(p < at for p in hits):
                exception = 1.0 if mine & lexicon.ALL or "exception" in mine else 0.5
    hedged = mine & (lexicon.PLANNED | lexicon.POSSIBLE | lexicon.NEEDED)
    # What is planned is not yet done.
    unreal = max(planned, possible) >= 1 and bool(ours.denials) and not hedged
    planned = 0.0 if unreal or mine & lexicon.PLANNED or _IS_TO.search(ours.text) else planned
    possible = 0.0 if unreal or mine & lexicon.POSSIBLE else possible
    exception = 0.0 if mine & (lexicon.SOME - {"exception"} | _CONDITIONS) else exception
    needed = float(bool(mine & lexicon.NEEDED and not forms & lexicon.NEEDED))
    if needed and "only" in forms:  # may only with: needs
        needed = possible = 0.0
    if needed and forms & lexicon.POSSIBLE:
        needed = 2.0
    strong = mine & lexicon.ALL and not mine & {"almost", "nearly", "not"}
    if "in all" in ours.text.casefold() or (
        any(each.denials for each in window) and mine & lexicon.ALL <= lexicon.NONE
    ):
        strong = False
    all_added = float(bool(strong and not forms & lexicon.ALL))
    none = mine & lexicon.NONE and not forms & lexicon.NONE and forms & {"most", "many", "some"}
    all_for_some = float(bool((all_added or none) and forms & lexicon.SOME))
    cause = _cause(ours, there, units, inside)
    rates = set().union(*(_rates(each) for each in window)) if window else set()
    rate = float(bool(rates and _rates(ours) - rates))
    text = " ".join(each.text for each in window)
    if all_added and _SOME_OF.search(text) and not _SOME_OF.search(ours.text):
        all_for_some = 1.0
    is_compared = _COMPARED.search(ours.text) and not mine & _NO_MORE
    compared = float(bool(is_compared and _EQUAL.search(text) and not _UNEQUAL.search(text)))
    whys = []
    for flag, why in (
        (planned >= 1, "says as done what the passage says is planned"),
        (possible >= 1, "says as certain what the passage says is possible"),
        (needed > 1, "says as required what the passage says is possible"),
        (all_for_some, "says of all what the passage says of some"),
        (rate, "says how often or per what otherwise than the passage"),
        (cause >= 1, "gives a cause that the passage does not give"),
        (compared, "tells apart what the passage says is equal"),
        (exception, "leaves out an exception that the passage makes"),
    ):
        if flag:
            whys.append(why)
    values = [
        planned, possible, needed, all_for_some, all_added, cause, exception, compared, rate,
        float(unreal),
    ]  # fmt: skip
    return values, whys


def _cause(ours: Sentence, there: Stored, units: list[Unit], inside: range) -> float:
    """Return 1 if a sentence joins as cause and effect what its passage does not; 0.5: perhaps."""
    worst = 0.0
    heavy = [u for u in units if u.word.weight > 0.5]
    near = range(max(0, inside.start - 1), min(len(there.sentences), inside.stop + 1))
    joins = [
        (n, at)
        for n in near
        for at, small in enumerate(there.sentences[n].small)
        if small in lexicon.CAUSAL or small in _LOOSELY_CAUSAL
    ]
    for at, word in enumerate(ours.small):
        if word not in lexicon.SURELY_CAUSAL or "no" in ours.small[at + 1 : at + 2]:
            continue
        clause = ours.clauses[at]
        after = [u for u in heavy if u.at > at and u.clause == clause]
        before = [u for u in heavy if u.at < at and u.clause >= clause - 1]
        before = before or [u for u in heavy if u.clause == clause + 1]
        if before and after and not any(_joined(n, q, before, after) for n, q in joins):
            are_there = all(any(u.best >= 0.7 for u in side) for side in (before, after))
            worst = max(worst, 1.0 if are_there else 0.5)
    return worst


def _joined(n: int, q: int, before: list[Unit], after: list[Unit]) -> bool:
    """Return whether the words of two sides stand on the two sides of a word of the passage."""
    (left, right), (other_left, other_right) = (_sides(n, q, part) for part in (before, after))
    return (left and other_right) or (right and other_left)


def _sides(n: int, q: int, part: list[Unit]) -> tuple[bool, bool]:
    """Return whether words stand before the word at `q` of sentence `n`, and after it."""
    sentences = (n - 1, n) if q < 2 else (n,)  # a word that begins it joins the one before
    is_left = is_right = False
    for unit in [each for each in part if each.kind != "name"] or part:
        for sentence in sentences:
            for place, quality in unit.hits.get(sentence, ()):
                if quality >= 0.7 and sentence == n and place > q:
                    is_right = True
                elif quality >= 0.7:
                    is_left = True
    return is_left, is_right


_LOOSELY_CAUSAL: Final = listed("as for after by with through when from of to")
_RATE: Final = re.compile(
    r"\b(?:(?:per|each|every|once an?|twice an?|times an?|\d[\d.,]*[^.,;]{0,24}? an?) "
    r"(hour|day|night|weekday|week|month|quarter|year)\b(?! (?:ago|earlier|later|before|after|old))"
    r"|(hourly|daily|weekly|monthly|quarterly|yearly|annually|annual)\b)",
    re.I,
)
_EVERY: Final = re.compile(
    r"\bevery (?:\w+ )?(?:second|minute|hour|day|night|weekday|week|month|quarter|year)s?\b"
)
_RATES: Final = {"daily": "day", "annually": "year", "annual": "year"}


def _rates(each: Sentence) -> set[str]:
    """Return per what a sentence counts: a day, a month."""
    found = (one[1] or one[2] for one in _RATE.finditer(each.text))
    return {_RATES.get(one, one.removesuffix("ly")) for one in map(str.casefold, found)}


def denials(
    ours: Sentence, there: Stored, units: list[Unit], inside: range
) -> tuple[list[float], list[str]]:
    """Whether a negation was added or lost, or a word became its opposite."""
    more, less, reach, opposed = 0.0, 0.0, 0.0, 0.0
    whys: list[str] = []
    by_place = {unit.at: unit for unit in units}
    denying = {ours.clauses[at] for at in ours.denials}
    back = {
        (n, at): unit
        for unit in units
        for n in inside
        for at, q in unit.hits.get(n, ())
        if q >= 0.75
    }
    for at in ours.heads:
        unit = by_place.get(at)
        spots = (
            [(n, p) for n in inside for p, q in unit.hits.get(n, ()) if q >= 0.75] if unit else []
        )
        more += bool(spots) and not any(_denied_in(there.sentences[n], p) for n, p in spots)
    for n in inside:
        for at in there.sentences[n].heads:
            unit = back.get((n, at))
            if unit and unit.clause not in denying and not _denies_at(ours, unit.at):
                less += all(there.sentences[m].denied[p] for m, p in _spots(unit, inside))
    for unit in units:
        if unit.kind != "number" and unit.word.weight > 0.5:
            flags = [there.sentences[n].denied[p] for n, p in _spots(unit, inside)]
            is_denied = ours.denied[unit.at]
            reach += bool(flags) and (not any(flags) if is_denied else all(flags))
    for side, places in ours.sides.items():
        against = OPPOSED[side]
        for at in places[:4]:
            mine, against_it, theirs = 0.0, 0.0, ""
            for n in inside:
                each = there.sentences[n]
                unit = by_place.get(at)
                same = (
                    [p for p, q in unit.hits.get(n, ()) if q > 0.7]
                    if unit
                    else each.sides.get(side, [])
                )
                for p in same:
                    mine = max(mine, near(ours, units, at, at + 1, each, n, p, p + 1))
                for stem in against & each.sides.keys():
                    for p in each.sides[stem][:4]:
                        if stem in CONVERSE and _conversely(ours, at, each, p):
                            mine = max(mine, 0.9)
                        elif each.denied[p] == ours.denied[at] and not _turned_by(each, p):
                            fit = near(ours, units, at, at + 1, each, n, p, p + 1)
                            if fit > against_it:
                                against_it, theirs = fit, word_at(each, p)
            if against_it - mine > opposed:
                opposed = against_it - mine
                if opposed > 0.1:
                    whys.append(f"says {word_at(ours, at)}, where the passage says {theirs}")
    if more:
        whys.append("has a negation that the passage lacks")
    if less:
        whys.append("lacks a negation that the passage has")
    return [min(more, 2.0), min(less, 2.0), min(reach, 4.0), opposed], whys


def _spots(unit: Unit, inside: range) -> list[tuple[int, int]]:
    return [(n, p) for n in inside for p, q in unit.hits.get(n, ()) if q >= 0.75]


def _denied_in(each: Sentence, at: int) -> bool:
    """Return whether the clause of a word has a negation."""
    return each.denied[at] or any(each.clauses[p] == each.clauses[at] for p in each.denials)


def _denies_at(each: Sentence, at: int) -> bool:
    """Return whether a word itself, or the one before it, denies."""
    return each.about[at].denies or (at > 0 and each.about[at - 1].denies)


def _conversely(ours: Sentence, at: int, each: Sentence, place: int) -> bool:
    """Return whether what stands before a word stands after its opposite: A beat B, B lost to A."""
    for name in ours.names:
        for other in each.names:
            if name.same(other) and (name.at < at) != (other.at < place):
                return True
    return False


def _turned_by(each: Sentence, at: int) -> bool:
    return "not" in each.small[max(0, at - 3) : at]
