"""What of a text is no prose: settings such as `#Port 22`, `max_size = 100`, and code of reST."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_LONGEST: Final = 400  # characters of a setting with its comments
# What follows one mark and one space is a comment, unless it is assigned.
ASSIGNED: Final = re.compile(
    r"[ \t]*(?:[#;][ \t]*)*[A-Za-z][\w.-]*[ \t]*=(?![=>])[^#(]*(?<![;{\[,\s])[ \t]*(?:#.*)?$"
)
_WORDED: Final = re.compile(
    r"[ \t]*(?:[#;]+(?: {2,}|\t+)?)?[A-Za-z][\w.-]*:?[ \t]+[^\s#]+(?:[ \t]+[^\s#]+)?(?<![.,:;(){}])"
    r"[ \t]*(?:#.*)?$"
)
_COMMENTED: Final = re.compile(
    r"[ \t]*[#;]+[ \t]*[A-Za-z][\w.-]*[ \t]*[=:][ \t]*[^\s#]+[ \t]*(?:#.*)?$"
)
_REMARK: Final = re.compile(r"[ \t]*[#;](?!!)[^\w\n]*\w")
# A part's name, or a line that is empty but for marks.
_BESIDE: Final = re.compile(r"[ \t]*(?:\[[^\]]*\]|[\w-]+:|#!.*|[#;\W]*)?[ \t]*$")
# A setting that a heading of Markdown would not stand above: `HuntTimeout 90`, `listen-port: x`.
_VALUE: Final = re.compile(
    r"[ \t]*#?(?:\w*[a-z][A-Z]\w*|\w+[-_.:]\S*)[ \t]+\S|.*[ \t](?:\d\S*|yes|no|on|off|true|false)$"
)
_FEWEST: Final = 3  # lines of words alone that are settings
_PARAGRAPH: Final = re.compile(r"\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_MARKS: Final = re.compile(r"[ \t]*(?:[#;]+[ \t]+)?")
# Code below `.. code-block:: sh` or a line that ends with `::`.
_LITERAL: Final = re.compile(
    r"^([ \t]*)(?:(?P<directive>\.\. (?:code(?:-block)?|sourcecode|parsed-literal)::[^\n]*)|"
    r"(?!\.\. )[^\n]*::)[ \t]*\n(?:\1[ \t]+:[\w-]+:[^\n]*\n)*(?:[ \t]*\n)+"
    r"(?P<code>(?:\1[ \t]+\S[^\n]*(?:\n|\Z)(?:[ \t]*\n)*)+)",
    re.MULTILINE,
)


def settings(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the settings of paragraphs of nothing else: with its comments, alone, and its end.

    A comment says what the next setting is, or the one before, if it is indented more.
    """
    for block in _PARAGRAPH.finditer(text):
        lines = block[0].split("\n")
        valued = [bool(ASSIGNED.match(each) or _COMMENTED.match(each)) for each in lines]
        sets = [of or bool(_WORDED.match(line)) for of, line in zip(valued, lines, strict=True)]
        remarks = [not of and bool(_REMARK.match(e)) for of, e in zip(sets, lines, strict=True)]
        told = (of and _VALUE.match(e) for of, e in zip(remarks, lines[1:], strict=False))
        enough = any(valued) or sum(sets) >= _FEWEST or (any(sets) and any(told))
        beside = map(_BESIDE.match, lines)
        if not (enough and all(map(any, zip(sets, remarks, beside, strict=True)))):
            continue
        at, first, depth = block.start(), -1, 0
        made: list[tuple[int, int, int]] = []
        for line, is_setting, is_remark in zip(lines, sets, remarks, strict=True):
            end, wide = at + len(line), line.expandtabs()
            indent = len(wide) - len(wide.lstrip())
            if is_setting:
                own = at + len(_MARKS.match(line)[0])  # type: ignore[index]
                start = first if first >= 0 and end - first <= _LONGEST else own
                made.append((start, own, end))
                first, depth = -1, indent
            elif is_remark and made and first < 0 and indent > depth:
                made[-1] = (*made[-1][:2], end)
            else:
                first = (first if first >= 0 else at) if is_remark else -1
            at = end + 1
        yield from made


def literals(text: str) -> tuple[tuple[int, int, int], ...]:
    """Return the code of reStructuredText: where it begins with its directive, and its own span."""
    made = []
    for found in _LITERAL.finditer(text) if "::" in text else ():
        start, end = found.span("code")
        directive = found.start() if found["directive"] else start
        made.append((directive, start, start + len(text[start:end].rstrip())))
    return tuple(made)
