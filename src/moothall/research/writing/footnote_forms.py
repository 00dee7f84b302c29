"""The forms in which models write footnotes, turned into the one that reports have: `[^1^]`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final

from moothall.research.sentences import NOTE

_LONGEST_RANGE: Final = 20
_DIGITS: Final = "\u2070\u00b9\u00b2\u00b3\u2074-\u2079"  # 0 to 9, raised
_MAX_NUMBERS: Final = 20  # numbers of one list
_SKIPPED_CODE: Final = (  # code cites nothing
    r"^(?P<fence>```+|~~~+)[^\n]*\n(?:.*?\n)??(?P=fence)[^\n]*$|^(?:```|~~~)[^\n]*\n.*\Z"
    r"|(?<!`)(?P<tick>`+)(?!`)[^\n]{1,400}?(?<!`)(?P=tick)(?!`)|\\[!-/:-@\[-`{-~]"
)
_NUMBER: Final = r"\^?\d{1,4}\^?"
_NUMBERS: Final = rf"{_NUMBER}(?:\s{{0,2}}(?:[,;]|[-–—]|\band\b|&)\s{{0,2}}{_NUMBER})*"
_SOURCE_WORD: Final = (
    r"(?:(?:sources?|refs?\.?|references?|see|cite|citations?|passages?|docs?|documents?)"
    r"[ :_-]{0,2}(?:no\.? )?)"
)
_OPTIONAL_SOURCE_WORD: Final = f"{_SOURCE_WORD}?"
_LINKED: Final = r"(?:\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"\n]*\")?\))"
_NOTE_IN_ANY_FORM: Final = re.compile(
    rf"{_SKIPPED_CODE}"
    rf"|(?P<sup><sup>\s*)?(?:"
    rf"\[\[(?P<double>{_NUMBERS})\]\](?P<link1>{_LINKED})?"
    rf"|\[{_OPTIONAL_SOURCE_WORD}(?P<square>{_NUMBERS})\](?P<link2>{_LINKED})?"
    rf"|[【\uff3b]{_OPTIONAL_SOURCE_WORD}(?P<wide>{_NUMBERS})(?:[†:][^】\uff3d\n]{{0,80}})?[】\uff3d]"
    rf"|[\uff08(]{_SOURCE_WORD}(?P<round>{_NUMBERS})[)\uff09]"
    rf"|(?(sup)(?P<tag>{_NUMBERS})|(?P<small>[{_DIGITS}]{{1,3}}(?:[,\u02d2 ][{_DIGITS}]{{1,3}})*))"
    rf")(?(sup)\s*</sup>)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_IN_EMPHASIS: Final = re.compile(r"((?:\[\^\d{1,4}\^\])+)(\*{1,3}|_{1,3})(?=\s|\Z)")
# `(Sources: [1], [2])`, `(Quelle: [1])`, `([1] and [2])`: brackets around footnotes alone.
_WRAPPED_NOTES: Final = re.compile(
    rf"[(\uff08](?:[^\W\d_]{{1,15}}:\s{{0,2}}|{_OPTIONAL_SOURCE_WORD})"
    r"((?:\[\^\d{1,4}\^\](?:\s{0,2}(?:[,;&]|[^\W\d_]{1,3}\s)\s{0,2})?){1,20})[)\uff09]",
    re.IGNORECASE,
)
_GROUPS: Final = ("double", "square", "wide", "round", "tag", "small")
_FENCED: Final = re.compile(  # models write Markdown as code, with a line before and after
    r"[^`\[]{0,200}```(?:markdown|md)[ \t]*\n(.*)\n```[^`\[]{0,200}"
    r"|\s*```[ \t]*\n((?:(?!\n```).)*)\n```\s*",
    re.DOTALL | re.IGNORECASE,
)
# A raised number after one of these is a power: `10<sup>6</sup>`, `m²`, `x²`, `log²`.
_POWER_BASE: Final = re.compile(
    r"(?:(?<![\d.,])\d{1,3}|(?<![^\W\d_])(?:[^\W\d_]{1,2}|log|sin|cos|tan))\Z"
)
_NUMBER_RANGE: Final = re.compile(r"(\d+)(?:\^?\s*[-–—]\s*\^?(\d+))?")
_INDEX_WORDS: Final = re.compile(
    r"\b(?:range|interval|array|list|tuple|vector|index|indices|argv|values)\s?\Z", re.IGNORECASE
)


def with_footnotes(markdown: str, sources: Collection[int]) -> str:
    """Return a text with the footnotes of known sources as `[^1^]`, in whatever form they are."""
    sources = frozenset(sources)
    if fenced := _FENCED.fullmatch(markdown):
        markdown = fenced[1] or fenced[2]
    marks = [each for each in _NOTE_IN_ANY_FORM.finditer(markdown) if _may_be_note(each, markdown)]
    notes = [each for each in marks if _numbers(each, sources)]
    has_footnotes, has_brackets = bool(notes), not all(map(_is_raised, notes))

    def rewrite(match: re.Match[str]) -> str:
        numbers = _numbers(match, sources)
        if not _may_be_note(match, markdown):
            return match[0]
        if has_brackets and _is_raised(match) and markdown[match.start() - 1].isalnum():
            return match[0]  # a power: 1024²
        if not numbers and has_footnotes and re.fullmatch(r"\d{1,3}", match["square"] or ""):
            numbers = [int(match["square"])]  # beside known ones: a source that does not exist
        return "".join(f"[^{each}^]" for each in numbers) or match[0]

    text = _WRAPPED_NOTES.sub(
        lambda wrapped: "".join(each[0] for each in NOTE.finditer(wrapped[1])),
        _NOTE_IN_ANY_FORM.sub(rewrite, markdown),
    )
    return _IN_EMPHASIS.sub(r"\2\1", text)


def _numbers(match: re.Match[str], sources: Collection[int]) -> list[int]:
    """Return the numbers of a footnote; none if one of them is no known source."""
    number_text = next((match[each] for each in _GROUPS if match[each]), "")
    numbers: list[int] = []
    for first, last in _NUMBER_RANGE.findall(unicodedata.normalize("NFKC", number_text)):
        low, high = int(first), int(last or first)
        if not low <= high < low + _LONGEST_RANGE:
            return []
        numbers.extend(range(low, high + 1))
    are_known = (
        numbers and all(each in sources for each in numbers) and len(numbers) <= _MAX_NUMBERS
    )
    return [*dict.fromkeys(numbers)] if are_known else []


def _is_raised(match: re.Match[str]) -> bool:
    return bool(match["tag"] or match["small"])


def _may_be_note(match: re.Match[str], text: str) -> bool:
    """Return whether brackets may be a footnote: no index, link label or definition."""
    start, end = match.span()
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    line = text[text.rfind("\n", 0, start) + 1 : start].strip(" \t>*-+")
    if _is_raised(match):
        return bool(line) and not _POWER_BASE.search(text, max(start - 4, 0), start)
    if before == "!" and (match["link1"] or match["link2"]):
        return False  # an image
    if match["square"] and "^" in match["square"]:
        return True
    if _INDEX_WORDS.search(text, max(start - 20, 0), start):
        return False
    if (after and (after.isalnum() or after in "_(")) or re.match(r"\s*=", text[end : end + 3]):
        return False  # `a[1]x`, `[1] = 2`
    if not line:  # `[1]: http://…` defines one; an item that begins with a number has none
        line_rest = text[end:].partition("\n")[0]
        return after == ":" or not line_rest.strip(" \t.,;[]【】()\uff08\uff09^0123456789")
    return True
