"""The parser of a kind of document."""

from __future__ import annotations

from moothall import UnreadableDocument
from moothall.research import Document, Section


def read_diary(data: bytes) -> Document:
    """Return the days of a diary, each a section."""
    header, found, days = data.decode("utf-8", "replace").partition("\n\n")
    if not found:
        raise UnreadableDocument("the diary has no day")
    sections, start = [], 0
    for line in days.splitlines(keepends=True):
        if line.startswith("== "):
            sections.append(Section(start, f"day={line[3:].strip()}", line[3:].strip()))
        start += len(line)
    return Document(header.removeprefix("Diary of ").strip(), days, sections)
