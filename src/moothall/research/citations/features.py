"""What a sentence and its passage have in common, and where they differ, as numbers."""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from moothall.research.citations.binding import names_bound, numbers_bound
from moothall.research.citations.evidence import fault
from moothall.research.citations.figures import Figures, figures
from moothall.research.citations.frames import acting
from moothall.research.citations.matching import Unit, units_of, window_of
from moothall.research.citations.parsed import Sentence, Stored, said, stored
from moothall.research.citations.strength import denials, strength


class Evidence(NamedTuple):
    """The features of a sentence and its passage, and what a reader is told."""

    values: tuple[float, ...]
    window: tuple[int, int]  # the characters of the passage that the sentence rests on
    whys: tuple[str, ...]  # what speaks against it, the worst first
    fault: str  # what the comparison of words found


NAMES: Final = (
    "covered_window", "covered_passage", "covered_sentence", "covered_exactly",
    "covered_clause", "pairs", "longest_run", "missing", "missing_weight", "missing_most",
    "names_missing", "names_covered", "sentences", "in_order", "numbers_missing",
    "numbers_unit", "numbers_against", "dates_missing", "bound_numbers", "bound_dates",
    "stolen_numbers", "crossed_numbers", "bound_names", "doer_turned", "doer_strange",
    "denied_more", "denied_less", "denied_reach", "opposed", "planned", "possible", "needed",
    "all_for_some", "all_added", "cause_added", "exception_lost", "compared", "rate", "misquoted",
    "changed_word", "changed_name", "changed_denial", "lacks_words", "lacks_name",
    "lacks_number", "conflicts", "conflicts_near", "matched", "matched_passage", "overlap",
)  # fmt: skip
"""The names of the features, in their order."""


def evidence(sentence: str, passage: str, title: str = "") -> Evidence:
    """Return the features of a sentence and its passage."""
    ours, there = said(sentence), stored(passage, title)
    numbers = figures(ours, there)
    units = units_of(ours, there, numbers)
    window, score, single = window_of(units, len(there.sentences))
    inside = range(window[0], window[1])
    values, whys = _covered(ours, there, units, inside, score, single)
    more, reasons = numbers_bound(ours, there, units, inside, numbers)
    values += more
    whys = [*reasons, *whys]
    for part in (names_bound, acting, denials, strength):
        more, reasons = part(ours, there, units, inside)
        values += more
        whys = [*reasons, *whys]
    # Nine of fourteen were saved, five were not; what is planned is not done.
    expected = any(each.rest for each in numbers.items) or bool(values[-1])
    if expected:
        values[NAMES.index("denied_more")] = values[NAMES.index("denied_less")] = 0.0
    del values[-1]
    why = fault(sentence, passage, title) or ""
    denied = any(there.sentences[n].denials for n in inside) != bool(ours.denials)
    denied = denied and not expected
    more, reasons = _compared_words(why, ours, there, denied, numbers)
    values += more
    whys = [*reasons, *whys]
    pooled = _pooled(dict(zip(NAMES, values, strict=False)))
    values += [pooled, pooled if values[0] > _NEARLY_ALL else 0.0]
    terms = {term for word in ours.about for term in word.terms}
    # Two of two words say less than nine of ten.
    values += [math.log1p(share * len(units)) for share in values[:2]]
    values.append(len(terms & there.where.keys()) / max(len(terms), 1))
    first, last = (
        (there.sentences[window[0]], there.sentences[window[1] - 1]) if inside else (None, None)
    )
    span = (first.start, last.end) if first and last else (0, 0)
    return Evidence(tuple(values), span, tuple(whys), why)


def _covered(
    ours: Sentence, there: Stored, units: list[Unit], inside: range, score: float, single: float
) -> tuple[list[float], list[str]]:
    total = sum(unit.weight for unit in units) or 1.0
    passage = sum(unit.weight * unit.best for unit in units) / total
    exact = sum(unit.best >= 0.95 for unit in units) / max(len(units), 1)
    lost = [unit for unit in units if unit.best < 0.5]
    names = [unit for unit in units if unit.kind == "name"]
    without = [unit for unit in names if unit.best < 0.5]
    near = pairs = run = longest = ordered = steps = 0
    before: Unit | None = None
    last = -1
    for unit in units:
        spots = [at for number in inside for at, _ in unit.hits.get(number, ())]
        if before is not None:
            pairs += 1
            is_near = any(
                abs(at - other) <= 3
                for number, hits in unit.hits.items()
                for at, _ in hits
                for other, _ in before.hits.get(number, ())
            )
            near += is_near
            run = run + 1 if is_near else 0
            longest = max(longest, run)
        before = unit
        if spots:
            nearest = min(spots, key=lambda at: abs(at - last - 1)) if last >= 0 else spots[0]
            if last >= 0:
                steps += 1
                ordered += nearest > last
            last = nearest
    values = [
        score,
        passage,
        single,
        exact,
        _least_clause(units),
        near / pairs if pairs else 1.0,
        (longest + 1) / max(len(units), 1),
        min(len(lost), 12),
        sum(unit.weight for unit in lost),
        max((unit.weight for unit in lost), default=0.0),
        len(without),
        1 - len(without) / len(names) if names else 1.0,
        math.log1p(len(there.sentences)),
        ordered / steps if steps else 1.0,
    ]
    whys = []
    if lost:
        few = ", ".join(ours.text[slice(*ours.spans[unit.at])] for unit in lost[:5])
        whys.append(f"{len(lost)} of {len(units)} content words are not in the passage: {few}")
    if without:
        few = ", ".join(ours.text[slice(*ours.spans[unit.at])] for unit in without[:3])
        whys.insert(0, f"names {few}, which is not in the passage")
    return values, whys


def _least_clause(units: list[Unit]) -> float:
    """Return how much the passage has of the clause of which it has least."""
    clauses: dict[int, list[Unit]] = {}
    for unit in units:
        clauses.setdefault(unit.clause, []).append(unit)
    made = []
    for part in clauses.values():
        total = sum(unit.weight for unit in part)
        made.append(sum(unit.weight * unit.best for unit in part) / total if total else 1.0)
    return min(made, default=0.0)


_CHANGED: Final = re.compile(r"says (\S+), where the passage says (\S+)")


def _compared_words(
    why: str, ours: Sentence, there: Stored, denied: bool, numbers: Figures
) -> tuple[list[float], list[str]]:
    """The fault that the comparison of words found, by its kind."""
    changed = _CHANGED.match(why)
    word = changed[1] if changed else ""
    # The wrong one of two names, or a name for another.
    name = word in there.where or any(
        each.is_capital and each.small == word for each in ours.about[1:]
    )
    absent = "which is not in the passage" in why
    figure = any(each.quality < 0.5 for each in numbers.items)
    kinds = [
        why.startswith("quotes"),
        changed and not name,
        changed and name,
        "negation" in why and denied,
        why.startswith("shares"),
        absent and why.startswith("names"),
        absent and why.startswith("says") and figure,
    ]
    return [float(bool(each)) for each in kinds], [why] if any(kinds[:4]) else []


# What counts as a conflict, from which value on, and how much: rare ones are judged by their sum.
_CONFLICTS: Final[dict[str, tuple[float, float]]] = {
    "numbers_missing": (1, 1.0), "numbers_unit": (1, 1.0), "numbers_against": (1, 1.0),
    "dates_missing": (1, 1.0), "bound_dates": (-0.05, 1.0), "bound_numbers": (-0.1, 1.0),
    "bound_names": (-0.12, 1.0), "denied_more": (1, 1.0),
    "denied_less": (1, 1.0), "opposed": (0.12, 1.0), "planned": (1, 1.0), "possible": (1, 1.0),
    "needed": (2, 1.0), "all_for_some": (1, 1.0), "all_added": (1, 0.4), "cause_added": (1, 0.8),
    "exception_lost": (1, 0.6), "compared": (1, 1.0),
    "stolen_numbers": (0.25, 1.0), "misquoted": (1, 1.0), "changed_word": (1, 0.6),
    "changed_name": (1, 1.0), "changed_denial": (1, 1.0), "lacks_name": (1, 1.0),
    "lacks_number": (1, 1.0), "doer_turned": (1, 2.0), "doer_strange": (1, 1.0),
    "crossed_numbers": (1, 1.0), "rate": (1, 1.0),
}  # fmt: skip
_NEARLY_ALL: Final = 0.8


def _pooled(values: dict[str, float]) -> float:
    """Return the weight of all conflicts together."""
    total = 0.0
    for name, (limit, weight) in _CONFLICTS.items():
        value = values[name]
        total += weight * (value <= limit if name.startswith("bound") else value >= limit)
    return min(total, 4.0)
