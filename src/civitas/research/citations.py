"""The footnotes of a narrative: each is checked against its passage, and renumbered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from civitas.research.evidence import BETWEEN
from civitas.research.evidence import fault as fault
from civitas.research.findings import Citation, Passage
from civitas.research.sentences import FOOTNOTE, sentences

UNSUPPORTED = "[unsupported]"
"""What stands after a sentence that nothing it cites bears out."""

_TOGETHER = 8  # no more passages are tried together for one sentence


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
_NOTE = re.compile(
    rf"(?P<code>(?<!`)(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`))"
    rf"|(?P<space>[ \t]*)(?P<note>{FOOTNOTE}(?:[ \t]*{FOOTNOTE})*)",
    re.DOTALL,
)
_NUMBERED = re.compile(r"\[\^([\d\s,;^]+)\]")
_MARK = re.compile(r"\s*\\?\[\s*unsupported\s*\\?\]", re.IGNORECASE)
_DEFINITION = re.compile(
    rf"^[ \t>]*(?:[-*+][ \t]+)?{FOOTNOTE}:[^\n]*(?:\n[ \t]+[^\n]*)*\n?", re.MULTILINE
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

    Args:
        markdown: a narrative with footnotes `[^1^]`
        passages: the passages by the numbers of their footnotes
    """
    citations: list[Citation] = []
    unsupported: list[tuple[str, str]] = []
    supported = uncited = 0

    def checked(sentence: str, is_heading: bool) -> str:
        nonlocal supported, uncited
        if not _notes(sentence):
            uncited += not is_heading
            return sentence
        bare = _NOTE.sub(lambda found: found["code"] or "", sentence)
        bare = " ".join(re.sub(r"\n[ \t]*>", " ", bare).split())
        cited = dict.fromkeys(number for each in _notes(sentence) for number in _numbers(each))
        kept, why = _borne_out(bare, {n: passages[n] for n in cited if n in passages})
        text = _NOTE.sub(lambda found: _kept(found, kept), sentence)
        if kept:
            supported += 1
            citations.extend(Citation(number, bare, passages[number]) for number in kept)
            return text
        unsupported.append((bare, why))
        row = text.rstrip(" |") if text.endswith("|") else text
        return f"{row} {UNSUPPORTED}{text[len(row) :]}"

    text = _LIST.sub("", _DEFINITION.sub("", _unmarked(markdown)))
    return Checked(_each(text, checked), citations, supported, unsupported, uncited)


def renumbered(checked: Checked) -> Checked:
    """The same with its footnotes numbered from 1 as they come; one passage has one number."""
    of = {each.number: each.passage for each in checked.citations}
    numbers: dict[tuple[str, str], int] = {}

    def new(old: int) -> int:
        return numbers.setdefault((of[old].url, of[old].text), len(numbers) + 1)

    def note(found: re.Match[str]) -> str:
        return _kept(found, of, new)

    markdown = _each(checked.markdown, lambda sentence, _: _NOTE.sub(note, sentence))
    citations = [replace(each, number=new(each.number)) for each in checked.citations]
    return replace(checked, markdown=markdown, citations=list(dict.fromkeys(citations)))


def _each(text: str, change: Callable[[str, bool], str]) -> str:
    """A text with each sentence changed, given the sentence and whether it is a heading."""
    made = []
    at = 0
    for start, end in sentences(text):
        line = text[text.rfind("\n", 0, start) + 1 : start]
        made += [text[at:start], change(text[start:end], line.lstrip(" >").startswith("#"))]
        at = end
    return "".join([*made, text[at:]])


def _unmarked(markdown: str) -> str:
    """A narrative without marks that look like ours, even those that another one hides."""
    markdown = markdown.replace("\0", "")
    while (less := _MARK.sub("", markdown)) != markdown:
        markdown = less
    return markdown


def _notes(sentence: str) -> list[re.Match[str]]:
    return [found for found in _NOTE.finditer(sentence) if found["note"]]


def _numbers(notes: re.Match[str]) -> list[int]:
    """The numbers of adjoining footnotes; those by name have none."""
    return [int(n) for each in _NUMBERED.findall(notes["note"]) for n in re.findall(r"\d+", each)]


def _kept(
    found: re.Match[str], kept: Iterable[int], new: Callable[[int], int] = lambda old: old
) -> str:
    """A footnote with those of its numbers that are kept; code as it is."""
    if not found["note"]:
        return found[0]
    numbers = dict.fromkeys(new(number) for number in _numbers(found) if number in kept)
    return found["space"] + "".join(f"[^{each}^]" for each in numbers) if numbers else ""


def _borne_out(sentence: str, cited: dict[int, Passage]) -> tuple[list[int], str]:
    """Which of the passages bear a sentence out, and if none does, why."""

    def fault_of(numbers: list[int]) -> str | None:
        texts = BETWEEN.join(cited[number].text for number in numbers)
        titles = "\n".join(cited[number].title for number in numbers)
        return fault(sentence, texts, titles)

    why = None
    alone = []
    for number in cited:
        found = fault_of([number])
        why = why or found
        if found is None:
            alone.append(number)
    if alone or not cited:
        return alone, "cites what is no source"
    needed = list(cited)[:_TOGETHER]
    if len(needed) == 1 or (why := fault_of(needed)):
        return [], why or ""
    for number in list(needed):
        fewer = [each for each in needed if each != number]
        if fault_of(fewer) is None:
            needed = fewer
    return needed, ""
