"""Where a passage has the words and figures of a sentence, and what stands near them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moothall.research.citations.figures import Figures
from moothall.research.citations.lexicon import ALIKE
from moothall.research.citations.parsed import BEGINNING, Place, Sentence, Stored, Word

_WIDEST: Final = 3  # sentences of a window
_MOST_SPOTS: Final = 6  # places of one word in a sentence
_FAR: Final = 40  # words around an item that are looked at


class Unit(NamedTuple):
    """A word of the sentence and where the passage has it, by sentence."""

    at: int
    clause: int
    weight: float
    word: Word
    hits: dict[int, list[tuple[int, float]]]
    best: float
    kind: str  # word, name, number or date


def units_of(ours: Sentence, there: Stored, numbers: Figures) -> list[Unit]:
    """Return the words and figures of a sentence, with the places where the passage has them."""
    taken = {place for each in numbers.items for place in range(each.at, each.end)}
    units = []
    for at, word in enumerate(ours.about):
        if not word.stem or at in taken:
            continue
        hits, best = _hits(word, there)
        kind = "name" if word.is_capital and at else "word"
        units.append(Unit(at, ours.clauses[at], word.weight, word, hits, best, kind))
    for each in numbers.items:
        by: dict[int, list[tuple[int, float]]] = {}
        for number, at, quality in each.hits:
            by.setdefault(number, []).append((at, quality))
        word = ours.about[each.at]
        units.append(Unit(each.at, ours.clauses[each.at], 1.6, word, by, each.quality, each.kind))
    return sorted(units, key=lambda unit: unit.at)


def _hits(word: Word, there: Stored) -> tuple[dict[int, list[tuple[int, float]]], float]:
    hits: dict[int, dict[int, float]] = {}
    best = 0.0

    def add(places: Sequence[Place], quality: float) -> None:
        nonlocal best
        for number, at in places:
            spots = hits.setdefault(number, {})
            if spots.get(at, 0.0) < quality and (at in spots or len(spots) < _MOST_SPOTS):
                spots[at] = quality
        if places and quality > best:
            best = quality

    parts = word.terms[1:]
    if word.terms and word.terms[0] in there.where:
        add(there.where[word.terms[0]], 1.0)
    elif parts:
        whole = all(part in there.where for part in parts)
        for part in parts:
            add(there.where.get(part, ()), 0.8 if whole else 0.3)
    stem = word.stem
    if len(stem) >= BEGINNING and not parts and not stem[0].isdigit():
        add(there.begun.get(stem[:BEGINNING], ()), 0.85)
    for group in ALIKE.get(stem, ()):
        add(there.groups.get(group, ()), 0.75)
    if best < 0.95 and not there.title.isdisjoint(word.terms):
        best = max(best, 0.9)
    return {number: [*spots.items()] for number, spots in hits.items()}, best


def window_of(units: list[Unit], count: int) -> tuple[tuple[int, int], float, float]:
    """Return the neighbouring sentences that have most of the units, their share, and one's."""
    total = sum(unit.weight for unit in units) or 1.0
    rows: dict[int, list[float]] = {}
    for place, unit in enumerate(units):
        for number, hits in unit.hits.items():
            row = rows.setdefault(number, [0.0] * len(units))
            row[place] = unit.weight * max(quality for _, quality in hits)
    if not rows:
        return (0, min(count, 1)), 0.0, 0.0
    best, top, single = (0, 1), -1.0, 0.0
    for first in rows:
        row = rows[first]
        for wide in range(1, _WIDEST + 1):
            if wide > 1:
                if (other := rows.get(first + wide - 1)) is None:
                    continue
                row = [max(pair) for pair in zip(row, other, strict=True)]
            score = sum(row) / total
            single = max(single, score) if wide == 1 else single
            if score - 0.03 * (wide - 1) > top:
                best, top = (first, first + wide), score - 0.03 * (wide - 1)
    return best, top + 0.03 * (best[1] - best[0] - 1), single


def near(
    ours: Sentence, units: list[Unit], at: int, end: int, there: Sentence, number: int,
    begin: int, stop: int,
) -> float:  # fmt: skip
    """Return how near the words around an item stand to a mention in the passage, from 0 to 1."""
    clause = ours.clauses[at]
    total = near = 0.0
    for unit in units:
        if at <= unit.at < end:
            continue
        distance = at - unit.at if unit.at < at else unit.at - end + 1
        if distance > _FAR:
            continue
        weight = unit.weight / (1 + 0.25 * distance) * (1.0 if unit.clause == clause else 0.35)
        total += weight
        spots = unit.hits.get(number)
        if not spots:
            continue
        best = 0.0
        for place, quality in spots:
            if begin <= place < stop:
                continue
            gap = begin - place if place < begin else place - stop + 1
            fit = quality * quality / (1 + 0.15 * (gap - 1))
            if there.clauses[place] != there.clauses[begin]:
                fit *= 0.6
            best = max(best, fit)
        near += weight * best
    return near / total if total else 0.0


def word_at(ours: Sentence, at: int) -> str:
    """Return a word as it stands in the sentence."""
    return ours.text[slice(*ours.spans[at])]


def text_of(ours: Sentence, at: int, end: int) -> str:
    """Return words as they stand in the sentence."""
    return ours.text[ours.spans[at][0] : ours.spans[end - 1][1]]
