"""Whether a passage bears out the sentence that cites it, by its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from civitas.research.claims import LIGHT, SOURCES, Claim, claim, knows, plain
from civitas.research.findings import Citation, Passage
from civitas.research.sentences import FOOTNOTE, sentences, terms_of, words
from civitas.text import shorten

SHARE = 0.6
"""The part of a sentence's content words that its passage must have."""
UNSUPPORTED = "[unsupported]"
"""What stands after a sentence that nothing it cites bears out."""

_BETWEEN = "\n\n\0\n\n"  # no quoted span reaches from one passage into the next
_QUOTED = re.compile(
    r"“([^”“]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|(?<![\w\"])\"([^\"]+)\"(?!\w)"
    r"|(?<![\w'])'(\S[^']*(?:'\w[^']*)*\S)'(?!\w)|`([^`]+)`"
)
_GAPS = re.compile(r"\[?(?:…|\.\.\.)\]?|\[[^\]]{0,40}\]")
_EVEN = re.compile(r"[\"“”„«»‘’'`*]+")
_DASH = re.compile(r"\s*(?:[–—]|--)\s*")
_AROUND = 4  # as many words around a word that was replaced are the passage's own
_AFTER_VERBS = frozenset("a an the to its by from".split())
_COMMON = LIGHT | SOURCES
# Of two words of one line, one says what the other does not.
_LINES = """
always never | before after | more less fewer | most least | minimum maximum | min max
enable disable | enabled disabled | true false | increase increases increased decrease decreases decreased
allow allows allowed forbid forbids forbidden prevent prevents prohibits prohibited | above below
older newer | earlier later | larger smaller | longer shorter | greater less lower | higher lower
upper lower | faster slower | left right | add remove | include exclude | includes excludes
success failure | valid invalid | synchronous asynchronous | mutable immutable | required optional
public private | encode decode | ascending descending | positive negative | odd even | like unlike
same different | accept reject | accepts rejects | all none | start end | open closed | must may
first second third last | safe unsafe
"""
_OPPOSITES = [frozenset(each.split()) for each in re.split(r"[|\n]", _LINES)]


def fault(sentence: str, passage: str) -> str | None:
    """Why a passage does not bear out a sentence, in words; None if it does.

    The words alone are compared, not what they mean: each quoted span must stand in the passage,
    0.6 of the content words, all numbers and all names too, with no negation more or less.

    Args:
        sentence: the sentence, with or without its footnotes
        passage: the text that it cites
    """
    stored = _stored(passage)
    if _even(plain(sentence)).rstrip(".!? ") in stored.sentences:
        return None
    said = claim(sentence)
    quoted = [found[0] for found in _QUOTED.finditer(plain(sentence))]
    best = _best(said, stored)
    return (
        _misquoted(quoted, stored)
        or _miscounted(said, best, stored)
        or _misnamed(said, stored)
        or _unshared(said, sum(len(words(each)) for each in quoted), stored)
        or _turned(said, stored)
        or _replaced(said, best)
    )


@dataclass
class _Stored:
    """A passage, as it is compared."""

    even: str
    sentences: set[str]
    claims: list[Claim]
    forms: set[str]
    readings: set[str]
    pairs: set[tuple[str, str]]  # of a unit and a number


@lru_cache(maxsize=512)
def _stored(passage: str) -> _Stored:
    pieces = [passage[start:end] for start, end in sentences(passage)]
    claims = [claim(piece) for piece in pieces]
    numbers = [number for each in claims for number in each.numbers]
    return _Stored(
        _even(plain(passage)),
        {_even(plain(piece)).rstrip(".!? ") for piece in pieces},
        claims,
        set().union(*(each.forms for each in claims)),
        {reading for number in numbers for reading in number.readings},
        {(number.unit, reading) for number in numbers for reading in number.readings},
    )


def _even(text: str) -> str:
    """A text in which quote marks, dashes, space and capitals make no difference."""
    return " ".join(_DASH.sub(" - ", _EVEN.sub("", text)).split()).casefold()


def _misquoted(quoted: list[str], stored: _Stored) -> str | None:
    for found in quoted:
        at = 0
        is_code = found[0] == "`"
        for span in [found] if is_code else _GAPS.split(found):
            wanted = _even(span).strip(" ,.;:!?")
            loose = is_code or len(wanted.split()) < 3
            if loose and wanted not in stored.even and _all_known(span, stored):
                continue  # a term, or code put together from what is there
            at = stored.even.find(wanted, at)
            if at < 0:
                return f"quotes “{shorten(span.strip('“”„«»「」` '), 60)}”, which is not there"
            at += len(wanted)
    return None


def _all_known(span: str, stored: _Stored) -> bool:
    return all(knows(stored.forms, word) for word in words(span))


def _miscounted(said: Claim, best: list[Claim], stored: _Stored) -> str | None:
    """A number that is nowhere, or that the passage has of something else."""
    for number in said.numbers:
        if number.needed and stored.readings.isdisjoint(number.readings):
            return f"says {number.said}, which is not there"
        same = [
            other.readings
            for each in best
            for other in each.numbers
            if other.unit == number.unit != ""
        ]
        if same and stored.pairs.isdisjoint((number.unit, each) for each in number.readings):
            return f"says {number.said}, where the passage says {same[0][0]}"
    return None


def _misnamed(said: Claim, stored: _Stored) -> str | None:
    for name in said.names:
        if not knows(stored.forms, name):
            return f"names {shorten(name, 40)}, which is not there"
    return None


def _best(said: Claim, stored: _Stored) -> list[Claim]:
    """The sentences of a passage that a sentence fits best: more than one if they fit alike."""
    terms = said.terms
    shared = [len(terms & each.terms) for each in stored.claims]
    most = max(shared, default=0)
    return [each for each, count in zip(stored.claims, shared, strict=True) if count == most > 0]


def _evidence(said: Claim, stored: _Stored) -> list[Claim]:
    """The one to three sentences of a passage that together have most of a sentence's words."""
    left = set(said.terms)
    chosen: list[Claim] = []
    while len(chosen) < 3 and left:
        best = max(stored.claims, key=lambda each: len(left & each.terms), default=None)
        if best is None or not left & best.terms:
            break
        chosen.append(best)
        left -= best.terms
    return chosen


def _unshared(said: Claim, quoted: int, stored: _Stored) -> str | None:
    if quoted > len(said.words) / 2:
        return None
    content = list(said.content.values())
    shared = sum(not stored.forms.isdisjoint(terms) for terms in content)
    if not content or shared < SHARE * len(content):
        return f"shares {shared} of {len(content)} content words"
    return None


def _turned(said: Claim, stored: _Stored) -> str | None:
    """A negation more or less, or the opposite of a word."""
    evidence = _evidence(said, stored)
    best = evidence[0]
    softly = any(each.softly - said.forms for each in evidence)
    affirmed = set().union(*(each.plain for each in evidence))
    denied = set().union(*(each.denied for each in evidence))
    for head in said.heads:
        if denied.isdisjoint(said.denied if affirmed.isdisjoint(head) else head) and not softly:
            return "has a negation that is not there"
    if said.negations < best.negations and not said.softly - best.forms:
        for small, term, *_ in best.heads:
            for word in (small, term):
                if word in said.plain - said.denied and word not in best.plain:
                    return "lacks a negation that is there"
    if not said.heads and not best.heads:
        for pair in _OPPOSITES:
            here, there = pair & said.forms, pair & best.forms
            if here and there and not here & there:
                return f"says {min(here)}, where the passage says {min(there)}"
    return None


def _replaced(said: Claim, best: list[Claim]) -> str | None:
    """One word in the place of another, in a sentence that is otherwise the passage's."""
    for at, word in enumerate(said.words):
        terms = terms_of(word)
        if not terms or word in _COMMON:
            continue
        for each in best:
            if word in each.forms or not each.forms.isdisjoint(terms):
                continue
            for place, other in enumerate(each.words):
                if other in said.forms or not terms_of(other) or other in _COMMON:
                    continue
                before = _alike(said.words[:at][::-1], each.words[:place][::-1])
                after = _alike(said.words[at + 1 :], each.words[place + 1 :])
                if not before or not after or before + after < _AROUND:
                    continue
                if not _reworded(word, other, said.words[at + 1 : at + 2]):
                    return f"says {word}, where the passage says {other}"
    return None


def _alike(one: list[str], other: list[str]) -> int:
    """How many words two lists begin with alike; that one of them ends there counts as one."""
    count = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            return count
        count += 1
    return count + 1


def _reworded(word: str, other: str, following: list[str]) -> bool:
    """Whether two words look like verbs or adverbs, for which writers have many."""
    if word.endswith("ly") or other.endswith("ly"):
        return True
    for ending in ("ed", "ing"):
        if word.endswith(ending) and other.endswith(ending):
            return True
    third_person = word.endswith("s") and other.endswith("s")
    return third_person and bool(_AFTER_VERBS.intersection(following))


@dataclass(frozen=True)
class Checked:
    """A narrative in which every footnote stands for a passage that bears its sentence out.

    Attributes:
        markdown: the text; `[unsupported]` stands after a sentence that lost all its footnotes
        citations: one for each footnote that was kept, in order
        supported: how many sentences have a footnote
        unsupported: the sentences that lost all theirs, each with why
        uncited: how many sentences had none
    """

    markdown: str
    citations: list[Citation] = field(default_factory=list)
    supported: int = 0
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    uncited: int = 0


# Code is skipped: what looks like a footnote there, such as `[^1]` in a pattern, is none.
_CODE = r"^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*(?P=fence)|\Z)|(?<!`)(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`)"
_NOTES = re.compile(
    rf"(?P<code>{_CODE})|(?P<space>[ \t]*)(?P<note>{FOOTNOTE})", re.MULTILINE | re.DOTALL
)
_MARKED = re.compile(r"\s*\\?\[\s*un-?supported\s*\\?\]", re.IGNORECASE)
_DEFINITION = re.compile(
    rf"(?P<code>{_CODE})|^[ \t>]*(?:[-*+][ \t]+)?{FOOTNOTE}:[^\n]*(?:\n(?:[ \t]+[^\n]*))*\n?",
    re.MULTILINE | re.DOTALL,
)
_LIST = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|__)?(?:sources?|references?|footnotes?|citations?|bibliography|"
    r"works cited|quellen(?:verzeichnis)?|literatur|fußnoten|références|notes)[ \t]*:?(?:\*\*|__)?:?"
    r"[ \t]*#*[ \t]*(?:\n[-=]{3,}[ \t]*)?\n(?=\s*(?:[-*+]|\d{1,3}[.)]|\[|https?:|<))(?:(?!^[ \t]*#).*\n?)*\Z",
    re.MULTILINE | re.IGNORECASE,
)


def check(markdown: str, passages: Mapping[int, Passage]) -> Checked:
    """Keep the footnotes whose passages bear their sentences out, and mark what is left without.

    A sentence that cites several passages keeps each that bears it out alone; if none does, those
    that do it together. Footnotes that the text defines itself and a list of sources at its end are
    taken off, and so is every mark `[unsupported]` that it came with.

    Args:
        markdown: a narrative with footnotes `[^1^]`
        passages: the passages by the numbers of their footnotes
    """
    text = _LIST.sub("", _DEFINITION.sub(lambda found: found["code"] or "", _unmarked(markdown)))
    made: list[str] = []
    done = Checked("")
    supported = uncited = at = 0
    for start, end in sentences(text):
        sentence = text[start:end]
        if not any(found["note"] for found in _NOTES.finditer(sentence)):
            is_heading = text[text.rfind("\n", 0, start) + 1 : start].lstrip(" >").startswith("#")
            uncited += not is_heading
            continue
        bare = " ".join(plain(sentence).split())
        numbers = _cited(sentence)
        kept, why = _borne_out(sentence, {n: passages[n] for n in numbers if n in passages})
        made += [text[at:start], _with(sentence, kept)]
        at = end
        if kept:
            supported += 1
            done.citations.extend(Citation(number, bare, passages[number]) for number in kept)
        else:
            done.unsupported.append((bare, why))
    made.append(text[at:])
    return replace(done, markdown="".join(made), supported=supported, uncited=uncited)


def renumbered(checked: Checked) -> Checked:
    """The same with its footnotes numbered from 1 as they come; one passage has one number."""
    of = {each.number: each.passage for each in checked.citations}
    numbers: dict[tuple[str, str], int] = {}

    def number(old: int) -> int:
        return numbers.setdefault((of[old].url, of[old].text), len(numbers) + 1)

    def note(found: re.Match[str]) -> str:
        if not found["note"]:
            return found[0]
        return found["space"] + "".join(f"[^{number(n)}^]" for n in _numbers(found) if n in of)

    return replace(
        checked,
        markdown=_NOTES.sub(note, checked.markdown),
        citations=[replace(each, number=number(each.number)) for each in checked.citations],
    )


def _unmarked(markdown: str) -> str:
    while (less := _MARKED.sub("", markdown)) != markdown:
        markdown = less
    return markdown


def _numbers(note: re.Match[str]) -> list[int]:
    """The numbers of a footnote; none for one by name."""
    inside = note["note"].strip("[]^ ")
    return (
        [int(n) for n in re.findall(r"\d+", inside)] if re.fullmatch(r"[\d\s,;^]+", inside) else []
    )


def _cited(sentence: str) -> list[int]:
    """The numbers that a sentence cites, each once, in order."""
    notes = (found for found in _NOTES.finditer(sentence) if found["note"])
    return list(dict.fromkeys(n for found in notes for n in _numbers(found)))


def _borne_out(sentence: str, cited: dict[int, Passage]) -> tuple[list[int], str]:
    """Which of the passages bear a sentence out, and why none does."""
    if not cited:
        return [], "cites what is no source"
    whys = {number: fault(sentence, passage.text) for number, passage in cited.items()}
    alone = [number for number, why in whys.items() if why is None]
    if alone:
        return alone, ""
    needed = list(cited)

    def together(numbers: list[int]) -> str | None:
        return fault(sentence, _BETWEEN.join(cited[number].text for number in numbers))

    if len(needed) == 1 or (why := together(needed)):
        return [], why if len(needed) > 1 else whys[needed[0]] or ""
    for number in cited:
        fewer = [each for each in needed if each != number]
        if fewer and together(fewer) is None:
            needed = fewer
    return needed, ""


def _with(sentence: str, kept: list[int]) -> str:
    """A sentence with the footnotes that were kept, each where it stood, or marked."""

    def note(found: re.Match[str]) -> str:
        if not found["note"]:
            return found[0]
        left = "".join(f"[^{number}^]" for number in _numbers(found) if number in kept)
        return found["space"] + left if left else ""

    text = _NOTES.sub(note, sentence)
    if kept:
        return text
    row = text.rstrip(" |") if text.endswith("|") else text
    return f"{row} {UNSUPPORTED}{text[len(row) :]}"
