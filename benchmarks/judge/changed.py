"""Wrong pairs made of right ones: one thing of the sentence is changed, in a known way."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from benchmarks.judge.public import Pair
from moothall.research.citations.lexicon import _AGAINST, _ALIKE
from moothall.research.citations.parsed import Sentence, parsed, said
from moothall.research.citations.quantities import Quantity

Change = Callable[[str, str, random.Random], str | None]

_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-])")
_UNIT_TURNS = [
    ("mg", "g"), ("g", "mg"), ("kg", "g"), ("km", "m"), ("kilometres", "metres"),
    ("kilometers", "meters"), ("metres", "kilometres"), ("meters", "kilometers"),
    ("miles", "kilometres"), ("feet", "metres"), ("million", "billion"), ("billion", "million"),
    ("thousand", "million"), ("days", "weeks"), ("weeks", "days"), ("months", "years"),
    ("years", "months"), ("hours", "minutes"), ("minutes", "hours"), ("seconds", "minutes"),
    ("year", "month"), ("$", "€"), ("€", "$"), ("£", "$"), ("%", " million"),
]  # fmt: skip
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|will|would|must|should|may|does|do|did)\b"
    r"(?! not\b)(?!n't)"
)


def number_changed(sentence: str, passage: str, draw: random.Random) -> str | None:
    found = [*_NUMBER.finditer(sentence)]
    if not found:
        return None
    one = draw.choice(found)
    digits = one[0]
    at = draw.randrange(len(digits))
    for _ in range(9):
        if digits[at].isdigit():
            new = digits[:at] + draw.choice("123456789") + digits[at + 1 :]
            if new != digits and new not in passage:
                return sentence[: one.start()] + new + sentence[one.end() :]
        at = draw.randrange(len(digits))
    return None


def number_of_passage(sentence: str, passage: str, draw: random.Random) -> str | None:
    ours = said(sentence)
    for each in draw.sample(ours.quantities, len(ours.quantities)):
        others = [
            (s, q) for s in parsed(passage) for q in s.quantities
            if q.dimension == each.dimension and q.value != each.value
            and not any(q.value == o.value for o in ours.quantities)
        ]  # fmt: skip
        if others:
            s, q = draw.choice(others)
            return _put(ours, each, s.text[s.spans[q.at][0] : s.spans[q.end - 1][1]])
    return None


def _put(ours: Sentence, each: Any, text: str) -> str:
    start, end = ours.spans[each.at][0], ours.spans[each.end - 1][1]
    return ours.text[:start] + text + ours.text[end:]


def numbers_swapped(sentence: str, passage: str, draw: random.Random) -> str | None:
    ours = said(sentence)
    same: dict[str, list[Quantity]] = {}
    for each in ours.quantities:
        same.setdefault(each.dimension, []).append(each)
    for group in same.values():
        if len(group) > 1 and group[0].value != group[1].value:
            one, other = group[0], group[1]
            texts = [
                ours.text[ours.spans[q.at][0] : ours.spans[q.end - 1][1]] for q in (one, other)
            ]
            changed = _put(ours, other, texts[0])
            start, end = ours.spans[one.at][0], ours.spans[one.end - 1][1]
            return changed[:start] + texts[1] + changed[end:]
    return None


def unit_changed(sentence: str, passage: str, draw: random.Random) -> str | None:
    turns = draw.sample(_UNIT_TURNS, len(_UNIT_TURNS))
    for old, new in turns:
        pattern = (
            rf"{re.escape(old)}(?=\s?\d)" if old in "$€£" else
            rf"(?<=\d){re.escape(old)}(?!\w)" if old == "%" else rf"(?<=\d)(\s?|-){old}\b"
        )  # fmt: skip
        found = re.search(pattern, sentence)
        if found and not re.search(rf"(?<=\d)\s?{re.escape(new.strip())}\b", passage):
            kept = found[1] if found.groups() else ""
            return sentence[: found.start()] + kept + new + sentence[found.end() :]
    return None


def compared_otherwise(sentence: str, passage: str, draw: random.Random) -> str | None:
    turns = [
        ("more than", "less than"), ("less than", "more than"), ("at least", "at most"),
        ("over", "under"), ("above", "below"), ("below", "above"), ("up to", "at least"),
        ("fewer than", "more than"), ("at most", "at least"), ("under", "over"),
        ("or less", "or more"), ("or more", "or less"), ("higher", "lower"), ("lower", "higher"),
        ("larger", "smaller"), ("more often", "less often"), ("longer", "shorter"),
    ]  # fmt: skip
    for old, new in draw.sample(turns, len(turns)):
        if found := re.search(
            rf"\b{old}\b(?=\W*\d)" if old in ("over", "under", "up to") else rf"\b{old}\b", sentence
        ):
            return sentence[: found.start()] + new + sentence[found.end() :]
    ours = said(sentence)
    plain = [q for q in ours.quantities if q.comparison == "=" and q.dimension not in ("times",)]
    if plain:
        at = ours.spans[draw.choice(plain).at][0]
        before = ours.text[:at].rstrip("$€£ ")
        sign = draw.choice(("more than", "less than", "over", "under"))
        return f"{before} {sign} {ours.text[len(before) :].lstrip()}"
    return None


def date_changed(sentence: str, passage: str, draw: random.Random) -> str | None:
    ours = said(sentence)
    if not ours.dates:
        return None
    each = draw.choice(ours.dates)
    others = [
        s.text[s.spans[d.at][0] : s.spans[d.end - 1][1]] for s in parsed(passage) for d in s.dates
        if not d.fits(each) and bool(d.month) == bool(each.month)
        and not any(d.fits(o) for o in ours.dates)
    ]  # fmt: skip
    if others:
        return _put(ours, each, draw.choice(others))
    if each.year and not each.month:
        return _put(ours, each, str(each.year + draw.choice((-3, -2, -1, 1, 2, 4, 10))))
    return None


def name_of_passage(sentence: str, passage: str, draw: random.Random) -> str | None:
    ours = said(sentence)
    names = [n for n in ours.names if n.said]
    others = [
        n for s in parsed(passage) for n in s.names
        if n.said and not any(n.words & o.words for o in ours.names)
    ]  # fmt: skip
    if not names or not others:
        return None
    one = draw.choice(names)
    alike = [n for n in others if len(n.said.split()) == len(one.said.split())]
    return _put(ours, one, draw.choice(alike or others).said)


def names_swapped(sentence: str, passage: str, draw: random.Random) -> str | None:
    ours = said(sentence)
    names = [n for n in ours.names if n.said]
    for one, other in pairwise(names):
        between = ours.small[one.end : other.at]
        if (
            ours.clauses[one.at] == ours.clauses[other.at]
            and any(ours.about[p].is_verb for p in range(one.end, other.at))
            and "and" not in between
        ):
            text = _put(ours, other, one.said)
            start, end = ours.spans[one.at][0], ours.spans[one.end - 1][1]
            return text[:start] + other.said + text[end:]
    return None


def negated(sentence: str, passage: str, draw: random.Random) -> str | None:
    if found := re.search(r"\b(?:not|never) |n't\b", sentence):
        return sentence[: found.start()] + sentence[found.end() :]
    found_all = [*_AUXILIARY.finditer(sentence)]
    if not found_all:
        return None
    one = found_all[0]
    return sentence[: one.end()] + draw.choice((" not", " not", " never")) + sentence[one.end() :]


def opposite(sentence: str, passage: str, draw: random.Random) -> str | None:
    lines = [line.split(" | ") for line in _AGAINST.strip().splitlines()]
    for left, right in draw.sample(lines, len(lines)):
        for one, other in ((left, right), (right, left)):
            for word in one.split():
                if re.search(rf"\b{word}\b", sentence) and not re.search(
                    rf"\b{word}\b \d", sentence
                ):
                    return re.sub(rf"\b{word}\b", draw.choice(other.split()), sentence, count=1)
    return None


def all_for_some(sentence: str, passage: str, draw: random.Random) -> str | None:
    for old, new in [
        ("some", "all"), ("most", "all"), ("many", "all"), ("often", "always"),
        ("usually", "always"), ("generally", "always"), ("mostly", "entirely"),
        ("sometimes", "always"), ("several", "all"), ("one of the", "the only"),
    ]:  # fmt: skip
        if found := re.search(rf"\b{old}\b", sentence):
            return sentence[: found.start()] + new + sentence[found.end() :]
    return None


def surer(sentence: str, passage: str, draw: random.Random) -> str | None:
    for old, new in [
        ("may", "must"), ("might", "will certainly"), ("plans to", "has decided to"),
        ("plan to", "have begun to"), ("could", "did"), ("suggests that", "proves that"),
        ("expected to", "made to"), ("proposed to", "agreed to"), ("likely", "certainly"),
        ("should", "must"), ("can", "must"),
    ]:  # fmt: skip
        if found := re.search(rf"\b{old}\b", sentence):
            return sentence[: found.start()] + new + sentence[found.end() :]
    return None


def caused(sentence: str, passage: str, draw: random.Random) -> str | None:
    others = [s for s in parsed(passage) if 5 < len(s.small) < 22 and s.text[:40] not in sentence]
    body = sentence.rstrip(". ")
    if not others or len(body.split()) > 22 or re.search("because|due to|result|led to", passage):
        return None
    other = draw.choice(others).text.rstrip(". ")
    joint = draw.choice((" because ", ", which led to the fact that ", " because "))
    return f"{body}{joint}{other[0].lower()}{other[1:]}."


def merged(sentence: str, strange: str, draw: random.Random) -> str | None:
    """With a clause of another passage: the other argument is a sentence that is not there."""
    body, tail = sentence.rstrip(". "), strange.strip().rstrip(".")
    if not 4 < len(tail.split()) < 18 or len(body.split()) > 25:
        return None
    return f"{body}, and {tail[0].lower() if tail[1:2].islower() else tail[0]}{tail[1:]}."


CHANGES: dict[str, Change] = {
    "number": number_changed, "number_there": number_of_passage, "numbers_swapped": numbers_swapped,
    "unit": unit_changed, "comparison": compared_otherwise, "date": date_changed,
    "entity": name_of_passage, "role": names_swapped, "negation": negated, "opposite": opposite,
    "scope": all_for_some, "modality": surer, "cause": caused,
}  # fmt: skip


def reworded(sentence: str, draw: random.Random) -> str:
    """The same with a word or two of nearly the same meaning, or an opening put before it."""
    groups = [line.split() for line in _ALIKE.strip().splitlines()]
    words = sentence.split(" ")
    done = 0
    for at in draw.sample(range(len(words)), len(words)):
        bare = words[at].strip(".,;").casefold()
        choices = [w for g in groups if bare in g for w in g if w[-2:] == bare[-2:] and w != bare]
        if choices and words[at].islower() and done < 2:
            words[at] = words[at].replace(bare, draw.choice(choices))
            done += 1
    text = " ".join(words)
    if draw.random() < 0.3:
        opening = draw.choice(("According to the source, ", "The text says that ", "As reported, "))
        text = opening + (text[0].lower() if text[1:2].islower() else text[0]) + text[1:]
    return text


def changed(right: Iterable[Pair], seed: int = 11) -> Iterator[Pair]:
    """For each right pair: itself in other words, up to three changes, a merged one, a strange."""
    draw = random.Random(seed)
    rows = list(right)
    for pair in rows:
        yield Pair(
            "reworded", pair.group, reworded(pair.sentence, draw), pair.passage, 1.0, "reworded"
        )
        made = 0
        for kind in draw.sample(list(CHANGES), len(CHANGES)):
            text = CHANGES[kind](pair.sentence, pair.passage, draw)
            if text and text != pair.sentence:
                yield Pair("changed", pair.group, text, pair.passage, 0.0, kind)
                made += 1
            if made == 3:
                break
        other = draw.choice(rows)
        if other.group != pair.group and (text := merged(pair.sentence, other.sentence, draw)):
            yield Pair("changed", pair.group, text, pair.passage, 0.25, "merged")
        if other.group != pair.group and draw.random() < 0.4:
            yield Pair("changed", pair.group, pair.sentence, other.passage, 0.0, "another")


def quoted(passages: Iterable[tuple[str, str]], seed: int = 5) -> Iterator[Pair]:
    """Sentences of a passage beside itself, as right pairs; of each passage at most two."""
    draw = random.Random(seed)
    for group, passage in passages:
        fit = [s.text for s in parsed(passage) if 7 < len(s.small) < 35 and s.text[:1].isupper()]
        for text in draw.sample(fit, min(2, len(fit))):
            yield Pair("quoted", group, text, passage, 1.0, "quoted")
