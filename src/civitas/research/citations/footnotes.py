"""The footnotes of a narrative: each is checked against its passage, and renumbered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from civitas.research.citations.evidence import BETWEEN, fault
from civitas.research.findings import Citation, Passage
from civitas.research.sentences import FOOTNOTE, sentences

UNSUPPORTED = "[unsupported]"
"""What stands after a sentence that nothing it cites bears out."""

_TOGETHER = 8  # no more passages are tried together for one sentence


@dataclass(frozen=True)
class Checked:
    """A narrative in which every footnote stands for a passage that bears its sentence out."""

    markdown: str
    citations: list[Citation]  # one for each footnote that was kept, in order
    unsupported: list[tuple[str, str]]  # the sentences that lost all theirs, each with why
    uncited: int  # so many sentences had none


_NOTE = re.compile(rf"([ \t]*)({FOOTNOTE}(?:[ \t]*{FOOTNOTE})*)")
# What would be a footnote once another one in it is dropped.
_AROUND = re.compile(r"\[\^(?=[^\]\n]*\[)")
_NUMBERED = re.compile(r"\[\^([\d\s,;^]+)\]")
_MARK = re.compile(r"\s*\\?\[\s*unsupported\s*\\?\]", re.IGNORECASE)
_DEFINITION = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+)?\[\^[^\[\]\n]{1,60}\]:[^\n]*(?:\n[ \t]+[^\n]*)*\n?", re.MULTILINE
)
_LIST = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|__)?(?:sources?|references?|footnotes?|citations?|bibliography|"
    r"works cited|quellen(?:verzeichnis)?|literatur|fußnoten|références)[ \t]*:?(?:\*\*|__)?:?"
    r"[ \t#]*\n(?:[-=]{3,}[ \t]*\n)?(?=\s*(?:[-*+]|\d{1,3}[.)]|\[|https?:|<))"
    r"(?:(?!^[ \t]*#)[^\n]*+(?:\n|\Z))*+\Z",
    re.MULTILINE | re.IGNORECASE,
)


def check(markdown: str, passages: Mapping[int, Passage]) -> Checked:
    """Keep the footnotes whose passages bear their sentences out, and mark what is left without.

    A sentence that cites several passages keeps each that bears it out alone; if none does, those
    that do it together. Footnotes that the text defines itself and a list of sources at its end are
    taken off, and so is every mark `[unsupported]` that it came with.
    """
    citations: list[Citation] = []
    unsupported: list[tuple[str, str]] = []
    uncited = 0

    text = _LIST.sub("", _DEFINITION.sub("", _unmarked(markdown)))
    made: list[str] = []
    at = 0
    for start, end in sentences(text):
        sentence = text[start:end]
        # Nothing outside a sentence, such as code, can cite.
        made.append(_NOTE.sub("", text[at:start]))
        at = end
        notes = [*_NOTE.finditer(sentence)]
        if not notes:
            line = text[text.rfind("\n", 0, start) + 1 : start]
            uncited += not line.lstrip(" >").startswith("#")
            made.append(sentence)
            continue
        bare = " ".join(re.sub(r"\n[ \t]*>(?!>>)", " ", _NOTE.sub("", sentence)).split())
        cited = dict.fromkeys(number for note in notes for number in _numbers(note))
        kept, why = _borne_out(bare, {n: passages[n] for n in cited if n in passages})
        citations.extend(Citation(number, bare, passages[number]) for number in kept)
        left = _with_notes(sentence, {number: number for number in kept})
        if not kept:
            unsupported.append((bare, why))
            row = left.rstrip(" |") if left.endswith("|") else left
            left = f"{row} {UNSUPPORTED}{left[len(row) :]}"
        made.append(left)
    made.append(_NOTE.sub("", text[at:]))
    return Checked("".join(made), citations, unsupported, uncited)


def renumbered(markdown: str, citations: list[Citation]) -> tuple[str, list[Citation]]:
    """The same with its footnotes numbered from 1 as they come; one passage has one number."""
    passages = {each.number: each.passage for each in citations}
    new: dict[int, int] = {}
    numbers: dict[tuple[str, str], int] = {}
    for number in (n for note in _NOTE.finditer(markdown) for n in _numbers(note)):
        if number in passages:
            key = (passages[number].url, passages[number].text)
            new[number] = numbers.setdefault(key, len(numbers) + 1)
    again = [replace(each, number=new[each.number]) for each in citations]
    return _with_notes(markdown, new), list(dict.fromkeys(again))


def _unmarked(markdown: str) -> str:
    """A narrative without marks that look like ours, even those that another one hides."""
    markdown = markdown.replace("\0", "")
    while (less := _MARK.sub("", markdown)) != markdown:
        markdown = less
    return _AROUND.sub("", markdown)


def _numbers(notes: re.Match[str]) -> list[int]:
    """The numbers of adjoining footnotes; those by name have none."""
    return [int(n) for each in _NUMBERED.findall(notes[2]) for n in re.findall(r"\d+", each)]


def _with_notes(text: str, new: Mapping[int, int]) -> str:
    """A text whose footnotes have the new numbers; those that have none are dropped."""

    def note(found: re.Match[str]) -> str:
        numbers = dict.fromkeys(new[number] for number in _numbers(found) if number in new)
        return found[1] + "".join(f"[^{each}^]" for each in numbers) if numbers else ""

    return _NOTE.sub(note, text)


def _borne_out(sentence: str, cited: dict[int, Passage]) -> tuple[list[int], str]:
    """Which of the passages bear a sentence out, and if none does, why."""

    def fault_of(numbers: list[int]) -> str | None:
        texts = BETWEEN.join(cited[number].text for number in numbers)
        titles = "\n".join(cited[number].title for number in numbers)
        return fault(sentence, texts, titles)

    faults = {number: fault_of([number]) for number in cited}
    alone = [number for number, why in faults.items() if why is None]
    if alone or not cited:
        return alone, "cites what is no source"
    needed = list(cited)[:_TOGETHER]
    if why := faults[needed[0]] if len(needed) == 1 else fault_of(needed):
        return [], why
    for number in list(needed):
        fewer = [each for each in needed if each != number]
        if fault_of(fewer) is None:
            needed = fewer
    return needed, ""
