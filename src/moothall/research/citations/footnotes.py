"""Check the footnotes of a narrative against their passages, and renumber them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from moothall.research.citations.comparison import SEPARATOR
from moothall.research.citations.exact_support import exact_support
from moothall.research.findings import Citation, Passage, Support, SupportLabel
from moothall.research.sentences import FOOTNOTE, TITLE_UNDERLINE, sentence_spans

UNSUPPORTED = "[unsupported]"
"""The mark after a sentence of which each of its citations lacks something."""
PARTLY = "[partly supported]"
"""The mark after a sentence of which its citations support only a part."""
NOT_CHECKED = "[not checked]"
"""The mark after a sentence whose meaning nobody has compared with its citations."""
NO_SOURCE = "[no source]"
"""The mark after a sentence of a report that never had a footnote."""

_MARKS: dict[SupportLabel, str] = {"partly": f" {PARTLY}", "not checked": f" {NOT_CHECKED}"}
_LABEL_ORDER: tuple[SupportLabel, ...] = ("supported", "partly", "not checked")
MIN_COPIED_CHARS = 80
"""Characters of a text that two addresses do not have by chance."""
_MAX_JOINT_PASSAGES = 8  # passages that are tried together for one sentence, at most
_MIN_SHARE = 0.6  # of a sentence's words that a section must have to take the place of those cited
_MIN_GAIN = 0.25  # how much more it must have to stand beside those that lack nothing


@dataclass(frozen=True)
class CheckedNarrative:
    """A narrative in which no footnote is for a passage that lacks something of its sentence."""

    markdown: str
    citations: list[Citation]  # one for each footnote that was kept, in order
    unsupported: list[tuple[str, str]]  # sentences that lost all footnotes, with reasons
    uncited: int  # how many sentences had no footnote


Verdict: TypeAlias = tuple[dict[int, Support], str]
"""The passages of a sentence's best label, by number; if none has any, why."""
SectionFinder: TypeAlias = Callable[[str, Iterable[Passage], float], tuple[int, Passage] | None]
"""Finds another section of the cited pages that has at least so much of a sentence's words."""

_NOTE = re.compile(rf"((?<![ \t])[ \t]*)({FOOTNOTE}(?:[ \t]*{FOOTNOTE})*)")
# Text that would become a footnote once a footnote inside it is dropped.
_OUTER_BRACKET = re.compile(r"\[\^(?=[^\]\[\n]*\[)")
_NUMBERED = re.compile(r"\[\^([\d\s,;^]+)\]")
_MARK_PATTERN = re.compile(
    r"\s{0,20}\\?\[\s{0,9}(?:unsupported|no\s{1,9}source|partly\s{1,9}supported|not\s{1,9}checked)\s{0,9}\\?\]\Z",
    re.IGNORECASE,
)
_MARK_AFTER = re.compile(
    rf"\s*(?:{'|'.join(map(re.escape, (UNSUPPORTED, PARTLY, NOT_CHECKED)))})\s*"
)
_MARK_LENGTH = 80
_DEFINITION = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+)?\[\^[^\[\]\n]{1,60}\]:[^\n]*(?:\n[ \t]+[^\n]*)*\n?", re.MULTILINE
)
_HEADINGS = (
    r"(?:sources?|references?|footnotes?|citations?|bibliography|works cited|further reading|"
    r"quellen(?:verzeichnis|angaben)?|literatur(?:verzeichnis)?|fußnoten|einzelnachweise|"
    r"références|bibliographie|fuentes|referencias|bibliografía|fonti|riferimenti|bibliografia|"
    r"bronnen|referências|источники|(?:список )?литератур[аы]|参考文献|المراجع)"
    r"(?: used| cited| and notes)?"
)
_LIST_START = re.compile(  # a heading; else a label above items, or with what it lists behind it
    rf"^[ \t]*(?:(?:#{{1,6}}[ \t]*|\*\*|__){_HEADINGS}[ \t]*:?(?:\*\*|__)?:?[ \t#]*"
    rf"(?=\n|\Z|\\?\[|https?:)|{_HEADINGS}[ \t]*:?[ \t]*\n(?:[-=]{{3,}}[ \t]*\n)?"
    rf"(?=\s*(?:[-*+]|\d{{1,3}}[.)]|\\?\[|https?:|<))|{_HEADINGS}[ \t]*:[ \t]*(?=[^\n]*\n*\Z))",
    re.MULTILINE | re.IGNORECASE,
)
_LIST_ITEM = re.compile(r"\d|https?:|^[ \t]*[-*+][ \t]", re.MULTILINE)
_NO_LIST = re.compile(r"^[ \t]*#|(?<!^\d)(?<!^\d\d)[.!?…][\"”’)*_]*[ \t]?\[\^\d", re.MULTILINE)
"""What stands below no list of sources: a heading, a sentence with a footnote. “2. [^1^]” has an
item's number in front."""
_HORIZONTAL_RULE = re.compile(r"\n[ \t]*(?:-{3,}|\*{3,}|_{3,})\s*\Z")


def without_list(text: str) -> str:
    """Return a text of a model without the list of sources at its end."""
    for match in _LIST_START.finditer(text):
        end = match.end()
        is_list = not text[end:].strip() or _LIST_ITEM.search(text, end)
        if is_list and not _NO_LIST.search(text, end):
            return _HORIZONTAL_RULE.sub("\n", text[: match.start()])
    return text


def check(
    markdown: str,
    passages: Mapping[int, Passage],
    *,
    by_rules: bool = False,
    judged: Mapping[str, Verdict] | None = None,
    keeps_all: bool = False,
    find_section: SectionFinder | None = None,
) -> CheckedNarrative:
    """Keep the footnotes whose passages do not lack anything of their sentences, and mark these.

    A sentence that cites several passages keeps those of the best label, alone or, if none has it
    alone, together: it is supported, partly supported, or not checked. If all lack something, it
    loses its footnotes. All but supported sentences get a mark. A fence around the text, the
    text's own definitions of footnotes, a list of sources at its end and every mark of ours in it
    are removed first. Rules write no list and no mark: of theirs, what looks like one is the
    objective “References”, or a source's word.

    `judged` has what a model said of sentences; of others, only what is exact is checked. With
    `keeps_all` every footnote stays whose passage exists, without a mark: a model will judge. If
    the cited passages lack something, a section that `find_section` finds on their pages is cited.
    """
    citations: list[Citation] = []
    unsupported: list[tuple[str, str]] = []
    uncited = 0

    text = _DEFINITION.sub("", _without_our_marks(markdown, removes_marks=not by_rules))
    text = text if by_rules else without_list(text)
    pieces: list[str] = []
    at = 0
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        # Nothing outside a sentence, such as code, can cite.
        pieces.append(_NOTE.sub("", text[at:start]))
        at = end
        notes = [*_NOTE.finditer(sentence)]
        if not notes:
            uncited += not (by_rules or _claims_nothing(text, start, end))
            pieces.append(sentence)
            continue
        bare_sentence = " ".join(re.sub(r"\n[ \t]*>(?!>>)", " ", _NOTE.sub("", sentence)).split())
        if not any(map(str.isalnum, bare_sentence)):  # a footnote in a paragraph of its own
            continue
        cited_numbers = dict.fromkeys(number for note in notes for number in _note_numbers(note))
        cited_passages = {n: passages[n] for n in cited_numbers if n in passages}
        supports, reason = _verdict_of(bare_sentence, cited_passages, judged or {})
        if find_section and cited_passages and (keeps_all or not supports):
            min_share = (
                max((each.overlap for each in supports.values()), default=_MIN_SHARE - _MIN_GAIN)
                + _MIN_GAIN
            )
            if section := find_section(bare_sentence, cited_passages.values(), min_share):
                sentence = (
                    f"{sentence[: notes[0].start(2)]}[^{section[0]}^]{notes[0][2]}"
                    + (sentence[notes[0].end() :])
                )
                cited_passages = dict([section]) | cited_passages
                supports, reason = _verdict_of(bare_sentence, cited_passages, {})
        if keeps_all:
            supports = {
                n: supports.get(n) or exact_support(bare_sentence, p.text, p.title)
                for n, p in cited_passages.items()
            }
        # What was judged of the same sentence elsewhere, with other footnotes, is cited here too.
        numbers = {n: n for n in supports if n in cited_passages} or dict(
            zip(cited_passages, supports, strict=False)
        )
        citations.extend(
            Citation(n, bare_sentence, passages[n], supports[n]) for n in numbers.values()
        )
        marked_sentence = _renumbered(sentence, numbers)
        if not supports:
            unsupported.append((bare_sentence, reason))
            marked_sentence = f"{marked_sentence} {UNSUPPORTED}"
        elif not keeps_all:  # all have the same label
            marked_sentence += _MARKS.get(next(iter(supports.values())).label, "")
        pieces.append(marked_sentence)
    pieces.append(_NOTE.sub("", text[at:]))
    return CheckedNarrative("".join(pieces), citations, unsupported, uncited)


def as_one_text(passages: Iterable[Passage]) -> tuple[str, str]:
    """Return the text of passages that are read as one, and their titles."""
    listed = [*passages]
    return SEPARATOR.join(each.text for each in listed), "\n".join(each.title for each in listed)


def sentences_without_source(markdown: str) -> list[str]:
    """Return the sentences of a checked narrative that never had a footnote."""
    unmarked = markdown.replace(f" {NO_SOURCE}", "")
    statements = [
        " ".join(_MARK_AFTER.sub("", unmarked[start:end]).split())
        for start, end in _spans_without_source(unmarked)
    ]
    return [each for each in statements if any(map(str.isalnum, each))]


def mark_uncited(markdown: str) -> str:
    """Return a checked narrative with a mark after each sentence that never had a footnote."""
    result, at = "", 0
    for start, end in _spans_without_source(markdown):
        line = markdown[markdown.rfind("\n", 0, start) + 1 : start]
        statement = _MARK_AFTER.sub(" ", markdown[start:end]).rstrip()
        # A row of a table, and what leads in to a list, say nothing by themselves.
        if any(map(str.isalnum, statement)) and "|" not in line and not statement.endswith(":"):
            result, at = f"{result}{markdown[at:end].rstrip()} {NO_SOURCE}", end
    return result + markdown[at:]


def _spans_without_source(markdown: str) -> Iterator[tuple[int, int]]:
    for start, end in sentence_spans(markdown):
        if (
            not _NOTE.search(markdown, start, end)
            and not _MARK_AFTER.match(markdown, end)  # it had one, and a mark says that
            and not _claims_nothing(markdown, start, end)
        ):
            yield start, end


def _claims_nothing(text: str, start: int, end: int) -> bool:
    """Return whether a sentence is a heading or a question."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    is_heading = line.lstrip(" >").startswith("#") or TITLE_UNDERLINE.match(text, end) is not None
    return is_heading or text[start:end].rstrip("*_ \n").endswith(("?", "\uff1f"))


def renumber_footnotes(markdown: str, citations: list[Citation]) -> tuple[str, list[Citation]]:
    """Number footnotes from 1 in their order; a long text of several addresses has one."""
    passages = {each.number: each.passage for each in citations}
    new_numbers: dict[int, int] = {}
    numbers: dict[tuple[str, str], int] = {}
    for number in (n for note in _NOTE.finditer(markdown) for n in _note_numbers(note)):
        if number in passages:
            text = " ".join(passages[number].text.split())
            key = ("" if len(text) >= MIN_COPIED_CHARS else passages[number].url, text)
            new_numbers[number] = numbers.setdefault(key, len(numbers) + 1)
    kept_citations = [each for each in citations if each.number in new_numbers]
    renumbered_marks = [replace(each, number=new_numbers[each.number]) for each in kept_citations]
    return _renumbered(markdown, new_numbers), list(dict.fromkeys(renumbered_marks))


def _without_our_marks(markdown: str, *, removes_marks: bool) -> str:
    """Return a narrative without what looks like our marks, or becomes a footnote, even nested."""
    parts: list[str] = []
    for piece in re.split(r"(?<=\])", markdown.replace("\0", "")):
        parts.append(piece)
        if removes_marks and piece.endswith("]"):
            # What a mark leaves may close another one: only the end of the text can be one.
            tail = ""
            while parts and len(tail) < _MARK_LENGTH:
                tail = parts.pop() + tail
            parts.append(tail[:-_MARK_LENGTH] if len(tail) > _MARK_LENGTH else "")
            parts.append(_MARK_PATTERN.sub("", tail[-_MARK_LENGTH:]))
    return _OUTER_BRACKET.sub("", "".join(parts))


def _note_numbers(notes: re.Match[str]) -> list[int]:
    """Return the numbers of adjoining footnotes; named footnotes have none."""
    return [int(n) for each in _NUMBERED.findall(notes[2]) for n in re.findall(r"\d+", each)]


def _renumbered(text: str, new_numbers: Mapping[int, int]) -> str:
    """Give footnotes their new numbers; drop those without one."""

    def renumber(match: re.Match[str]) -> str:
        numbers = dict.fromkeys(
            new_numbers[number] for number in _note_numbers(match) if number in new_numbers
        )
        return match[1] + "".join(f"[^{each}^]" for each in numbers) if numbers else ""

    return _NOTE.sub(renumber, text)


def _verdict_of(sentence: str, cited: dict[int, Passage], judged: Mapping[str, Verdict]) -> Verdict:
    """Return the passages of the best label with what was found; if none has any, the reason."""

    def support_of(numbers: list[int]) -> Support:
        return exact_support(sentence, *as_one_text(cited[number] for number in numbers))

    if sentence in judged and cited:
        supports, reason = judged[sentence]
        return {n: each for n, each in supports.items() if n in cited} or supports, reason

    if not cited:
        return {}, "cites an unknown source"
    single_supports = {number: support_of([number]) for number in cited}
    if full := {
        n: support for n, support in single_supports.items() if support.label == "supported"
    }:
        return full, ""
    needed = list(cited)[:_MAX_JOINT_PASSAGES]
    joint_support = support_of(needed) if len(needed) > 1 else None
    for label in _LABEL_ORDER:
        if labelled := {
            n: support for n, support in single_supports.items() if support.label == label
        }:
            return labelled, ""
        if joint_support is not None and joint_support.label == label:
            for number in list(needed):
                fewer = [each for each in needed if each != number]
                if fewer and support_of(fewer).label == label:
                    needed = fewer
            return {n: replace(joint_support, window=single_supports[n].window) for n in needed}, ""
    return {}, max(single_supports.values(), key=lambda support: support.overlap).why
