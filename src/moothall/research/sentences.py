"""Split prose and Markdown into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from moothall.build import Language, Words

_FULL_STOPS = "。\uff01\uff1f"
_FENCE = re.compile(r"[ \t>]*(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(
    r"[ \t]*(?:>[ \t]?)*[ \t]*"
    r"(?P<item>(?:[-*+•]|\d{1,3}[.)]|\[\d{1,3}\]|\.\. \w+::)[ \t]+(?:\[[ xX]\][ \t]+)?)?"
)
_HEADING = re.compile(r"[ \t]*(?:>[ \t]?)*#{1,6}[ \t]+")
# A comment of source: `# …` beside another such line, above code, or far to the right.
_HASH_LINE = re.compile(r"[ \t]*#(?![#\w])")
_CODE_LINE = re.compile(
    r"[ \t]*(?:[\w.$\"'\[\]-]+[ \t]*(?:\+?=|\()|(?:if|for|while|case|def|class|import|from|export|"
    r"return|local|function|alias|let|my|use)\b[^.]*$|[\w-]+:[ \t]*\S*$|[{}\[\])]|\w+;$)"
)
_INDENT = 4
_RULE_LINE = re.compile(r"[ \t>]*[-=*_~^#+|:\s]{3,}$")
_ADORNED_TITLE = re.compile(
    r"^(?:(~{4,}) *\n)? *([^~\s](?:[^\n]*[^\n:])?)\n(~{4,}) *$", re.MULTILINE
)
TITLE_UNDERLINE = re.compile(r"[ \t|]*\n[ \t|:]*(?:---|===|\+==|~{4}|\^{4}|\"{4})")  # after a title
_LINE = re.compile(r".*\S")
_TABLE_ROW = re.compile(r"[ \t>]*\|[ \t|]*")
COLUMNS = re.compile(
    r"[ \t]*(?:\S+(?: \S+){0,2} {4,}|(?:\w\S* )?--?\w\S*(?: \S+){0,2} {2,})(?=[^\W\d_])"
)
"""What a line of a manual explains, such as a code or an option, with the gap after it."""
FOOTNOTE = r"\[\^(?:[\d\s,;^]{1,60}|[^\[\]\n]{0,60}\^)\]"
"""A footnote: `[^1^]`, `[^1]`, `[^1,2^]`, `[^name^]`; `[^a-z]` is a pattern in code."""
NOTE = re.compile(r"\[\^(\d{1,6})\^\]")
"""A footnote of a report, with its number."""
SENTENCE_END = re.compile(
    rf"[.!?…]+[\"'”’»“)\]*_`]*(?:\s*{FOOTNOTE})*(?=\s|$)"
    rf"|[{_FULL_STOPS}]+[」』”’\uff09]*(?:\s*{FOOTNOTE})*"
)
_UNSPLIT = re.compile(
    r'`[^`\n]+`|“[^”]{1,2000}”|«[^»]{1,800}»|„[^“”]{1,800}[“”]|(?<!\w)"(?=\S)[^"]{1,800}"(?!\w)'
)
_ABBREVIATION = re.compile(
    r"(?:^|(?<!\d)[\s(\[\"'“«*_])(?:[Ee]\.g|[Ii]\.e|[Cc]f|vs|Dr|Mr|Mrs|Ms|Prof|St|Sr|Jr|eds?|[Cc]a|"
    r"[Rr]esp|al|Inc|Ltd|Gen|Gov|Sen|Rep|[Zz]|[Zz]\.\s?B|d|d\.\s?h|[Uu]|[Uu]\.\s?a|bzw|[Vv]gl|[Bb]spw|"
    r"ggf|usw|evtl|sog|M|Mme|Mlle|[Pp]\.\s?ex)$"
)
_BEFORE_NUMBER = re.compile(r"(?:^|[\s(])[^\W\d_]{1,6}$")  # max. 5 m, Fig. 3, Aug. 4
_MAYBE_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:etc|[A-Z]|(?:[A-Za-z]\.)+[A-Za-z])$")
_IDENTIFIER = re.compile(r"\w+(?:[._]\w|\(\))")
_MONTH = re.compile(r"(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")


BlockKind: TypeAlias = Literal["prose", "head", "item", "row", "code"]


class TextSpan(NamedTuple):
    """A paragraph, heading, item, row of a table or fenced code, without its markers."""

    start: int
    end: int
    kind: BlockKind


def sentence_spans(text: str, code: bool = False) -> list[tuple[int, int]]:
    """Return where sentences, headings, items and rows are; with `code`, lines of code too."""
    spans: list[tuple[int, int]] = []
    for start, end, kind in blocks(text):
        if kind != "code":
            spans += sentences_in(text, start, end)
        elif code:
            for line in _LINE.finditer(text, start, end):
                spans += sentences_in(text, *line.span())
    return spans


@lru_cache(maxsize=64)
def comment_starts(text: str) -> frozenset[int]:
    """Return where the lines begin that are comments of source, not headings: `# …`."""
    if "#" not in text:
        return frozenset()
    lines = text.splitlines(keepends=True)
    are_hash_lines = [bool(_HASH_LINE.match(line)) for line in lines]
    starts, at = set(), 0
    for number, line in enumerate(lines):
        if are_hash_lines[number]:
            next_line = lines[number + 1] if number + 1 < len(lines) else ""
            has_neighbour = any(
                are_hash_lines[max(number - 1, 0) : number]
                + are_hash_lines[number + 1 : number + 2]
            )
            indent = len(line) - len(line.lstrip(" "))
            if has_neighbour or indent >= _INDENT or _CODE_LINE.match(next_line.rstrip()):
                starts.add(at)
        at += len(line)
    return frozenset(starts)


@lru_cache(maxsize=64)
def adornment_starts(text: str) -> frozenset[int]:
    """Return where the lines of `~` begin that are above or below a title, and fence no code."""
    matches = _ADORNED_TITLE.finditer(text if "~~~~" in text else "")
    titles = (each for each in matches if len(each[2]) <= len(each[3]))
    return frozenset(at for each in titles for at in (each.start(1), each.start(3)))


def blocks(text: str) -> Iterator[TextSpan]:
    """Yield what a text is made of, in order."""
    begin = -1  # of the paragraph that is being read
    kind: BlockKind = "prose"
    at = code_start = 0
    fence = ""
    comments, adornments = comment_starts(text), adornment_starts(text)
    is_comment = False
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        start, at = at, at + len(line)
        bare = line.rstrip()
        fence_mark = None if not fence and start in adornments else _FENCE.match(bare)
        if fence:
            if fence_mark and fence_mark[1].startswith(fence) and not bare[fence_mark.end() :]:
                fence = ""
                yield TextSpan(code_start, start, "code")
            continue
        was_comment, is_comment = is_comment, start in comments
        if is_comment or was_comment:
            mark = _HEADING.match(bare) if is_comment else None
            if begin >= 0 and (was_comment != is_comment or mark is None):
                yield TextSpan(begin, start, kind)
                begin, kind = -1, "prose"
            if is_comment:
                if begin < 0 and mark is not None:
                    begin = start + mark.end()
                continue
        marker = _MARKER.match(bare)
        marker_end = marker.end() if marker else 0
        is_empty = not bare.strip("> \t") or _RULE_LINE.match(bare)
        heading = _HEADING.match(bare)
        single_line = _TABLE_ROW.match(bare) or heading or _row_start(lines, number)
        is_item = (marker and marker["item"]) or COLUMNS.match(bare)
        if begin >= 0 and (
            fence_mark or is_empty or single_line or is_item or _is_title(text, begin, start, bare)
        ):
            yield TextSpan(begin, start, kind)
            begin = -1
        if fence_mark:
            fence, code_start = fence_mark[1], at
        elif single_line and not is_empty:
            end = start + len(bare.rstrip("| "))
            yield TextSpan(start + single_line.end(), end, "head" if heading else "row")
        elif begin < 0 and not is_empty:
            begin, kind = start + marker_end, "item" if is_item else "prose"
    if fence:
        yield TextSpan(code_start, at, "code")
    elif begin >= 0:
        yield TextSpan(begin, at, kind)


def _row_start(lines: list[str], number: int) -> re.Match[str] | None:
    """Return where a row begins that has cells as a line beside it has; None if it is no row."""
    neighbours = (*lines[max(number - 1, 0) : number], *lines[number + 1 : number + 2])
    is_row = " | " in lines[number] and any(" | " in each for each in neighbours)
    return _MARKER.match(lines[number]) if is_row else None


def _is_title(text: str, begin: int, end: int, following: str) -> bool:
    """Return whether the line before is a short title, before a capital or an indented line."""
    first = text.rfind("\n", 0, end - 1) + 1
    last = text[max(begin, first) : end].strip()
    if len(last) >= 45 or last[-1:] in ".,:;!?…":
        return False
    next_text = following.lstrip("> \t")
    column = text.index(last[0], max(begin, first)) - first
    is_deeper = len(following) - len(next_text) > column
    return is_deeper or (last[-1:].isalnum() and next_text[:1].isupper())


def sentences_in(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of a paragraph."""
    unsplit = [each.span() for each in _UNSPLIT.finditer(text, start, end)][::-1]
    for match in SENTENCE_END.finditer(text, start, end):
        while unsplit and unsplit[-1][1] <= match.start():
            unsplit.pop()
        if unsplit and unsplit[-1][0] <= match.start() and match.end() < unsplit[-1][1]:
            continue
        following = text[match.end() : min(end, match.end() + 60)].lstrip()
        preceding = text[max(start, match.start() - 40) : match.start()]
        if following and not _ends_sentence(preceding, match[0], following):
            continue
        yield from _trimmed_span(text, start, match.end())
        start = match.end()
    yield from _trimmed_span(text, start, end)


def _ends_sentence(preceding: str, mark: str, following: str) -> bool:
    """Return whether a mark that is followed by more text ends a sentence."""
    if mark[0] in _FULL_STOPS:
        return True
    if following.lstrip("\"'“«„(*_")[:1].islower() and "[^" not in mark:
        # A sentence may begin with `asyncio.run`, and with no other word in small letters.
        return bool(_IDENTIFIER.match(following) and not _ABBREVIATION.search(preceding))
    if mark[0] != "." or mark.startswith(".."):
        return True
    if _ABBREVIATION.search(preceding) or (preceding[-1:].isdigit() and _MONTH.match(following)):
        return False
    if following[0].isdecimal() and _BEFORE_NUMBER.search(preceding) and "[^" not in mark:
        return False
    if _MAYBE_ABBREVIATION.search(preceding):
        first = Words.pattern.search(following)
        return bool(first and first[0].casefold() in Language().stop_words) or preceding.endswith(
            "etc"
        )
    return True


def _trimmed_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    stop = start + len(piece.strip())
    if any(c.isalnum() for c in text[start:stop]):
        yield start, stop
