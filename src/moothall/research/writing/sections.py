"""A narrative as sections: split at its headings, and joined again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from moothall.research.sentences import SENTENCE_END
from moothall.research.writing.safe_markdown import FENCE

# Signs at its end belong to it, such as those of "C#", unless a space is before them.
_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*(?:(?<=[ \t])#+[ \t]*)?")
_FEWEST_HEADINGS: Final = 2  # headings of a text that is a text of sections


def heading_of(heading: str) -> str:
    """Return a heading as `split_sections` reads it in a narrative; empty if it cannot be one."""
    match = _HEADING.fullmatch("## " + heading.replace("\n", " "))
    return "" if match is None else match[2]


def split_sections(markdown: str) -> tuple[str, dict[str, str]]:
    """Return what stands before the first `## ` of a narrative, and the text below each."""
    before: list[str] = []
    sections: dict[str, list[str]] = {}
    current_lines = before
    for line, match in _lines_with_headings(markdown):
        if match is not None and len(match[1]) == 2 and match[2]:
            current_lines = sections.setdefault(match[2], [])
        else:
            current_lines.append(line)
    texts = {heading: "\n".join(lines).strip() for heading, lines in sections.items()}
    return "\n".join(before).strip(), texts


def join_sections(text_before: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return a narrative of sections; a section without text is left out."""
    texts = [f"## {heading}\n\n{text}" if heading else text for heading, text in sections if text]
    return "\n\n".join(filter(None, [text_before, *texts]))


def as_section(markdown: str, heading: str) -> str:
    """Return the text of a section: without its own heading, its subheadings below it."""
    out, words = list[str](), re.findall(r"\w+", heading.casefold())
    for line, match in _lines_with_headings(markdown.strip()):
        if match is None:
            out.append(line)
        elif not heading and len(match[1]) == 1 and not any(out):
            out.append(line)  # the title, before the first section
        elif any(out) or [*map(str.casefold, re.findall(r"\w+", match[2]))] != words:
            out.append(f"{'#' * max(len(match[1]), 3)} {match[2]}")
    return "\n".join(out).strip()


def with_sections(markdown: str) -> str:
    """Return a text whose sections begin with `## `, if it has several below its title."""
    lines = markdown.split("\n")
    levels = [
        (at, len(match[1])) for at, (_, match) in enumerate(_lines_with_headings(markdown)) if match
    ]
    if levels and levels[0] == (0, 1):
        del levels[0]
    for level in (1, 2, 3):
        if sum(each == level for _, each in levels) >= _FEWEST_HEADINGS:
            for at, each in levels:
                lines[at] = "#" * min(max(each - level + 2, 2), 6) + " " + lines[at].lstrip("# ")
            break
    return "\n".join(lines)


def _lines_with_headings(markdown: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield each line with its match as a heading, which code has none of."""
    fence = ""
    for line in markdown.split("\n"):
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1].startswith(fence) and not line.strip(fence[0]).strip():
            fence = ""
        yield line, None if fence else _HEADING.fullmatch(line)


def whole_sentences(text: str) -> str:
    """Return a text that was cut, up to the end of its last whole sentence."""
    end = max((match.end() for match in SENTENCE_END.finditer(text)), default=0)
    return text[:end]
