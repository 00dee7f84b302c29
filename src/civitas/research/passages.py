"""Cutting the text of a resource into passages, each short enough to be read as one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator

from civitas.research.findings import Passage, Resource, Section

LONGEST = 1000  # no passage has more characters, unless a single word has
_ENOUGH = 400
"""A passage with more characters takes in no further paragraph that would make it too long."""

_PARAGRAPH = re.compile(r"[^\n]+(?:\n(?![^\S\n]*\n)[^\n]+)*")
_BREAK = re.compile(r"(?<=[.!?;:])\s+|\n")


def pieces(content: str, sections: list[Section]) -> Iterator[tuple[str, Section]]:
    """The passages of a text, word for word, each with the section that it is of."""
    starts = [*sections] if sections and sections[0].start == 0 else [Section(0), *sections]
    ends = [each.start for each in starts[1:]] + [len(content)]
    for section, end in zip(starts, ends, strict=True):
        for begin, stop in _packed(content, section.start, end):
            text = content[begin:stop].strip()
            if text:
                yield text, section


def passages_of(resource: Resource) -> list[Passage]:
    """The passages of a resource that was read."""
    title = resource.description or ""
    made = []
    for text, section in pieces(resource.content or "", resource.sections):
        url = f"{resource.url}#{section.anchor}" if section.anchor else resource.url
        named = " – ".join(each for each in (title, section.title) if each)
        made.append(Passage.of(url, text, resource.fetched_at or "", named))
    return made


def _packed(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Paragraphs, short ones together, long ones cut between two sentences."""
    begin = stop = start
    for found in _PARAGRAPH.finditer(content, start, end):
        for first, last in _cut(content, found.start(), found.end()):
            if stop > begin and (last - begin > LONGEST or stop - begin > _ENOUGH):
                yield begin, stop
                begin = first
            elif stop == begin:
                begin = first
            stop = last
    if stop > begin:
        yield begin, stop


def _cut(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > LONGEST:
        breaks = [found.end() for found in _BREAK.finditer(content, start, start + LONGEST)]
        space = content.rfind(" ", start, start + LONGEST)
        at = breaks[-1] if breaks else space + 1 if space > start else start + LONGEST
        yield start, at
        start = at
    if end > start:
        yield start, end
