"""Read tables: what divides their cells, which row names the columns, each row as a paragraph."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from contextlib import suppress
from itertools import chain, islice, zip_longest
from typing import Final

from moothall.build import stated_delimiter
from moothall.research.findings import Section
from moothall.research.reading.html import Document

_LINES: Final = 40
_TITLE: Final = 300  # characters of a title that are kept
_TITLE_ROWS: Final = 10  # above the names of the columns, at most
_ROWS: Final = 10
_LOOKED_AT: Final = 20  # rows that show what divides them
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[-+]?[\d.,]+ ?[%€$£]?")
_NAME: Final = 80  # characters of a column's name, which each row repeats
_VALUE = re.compile(rf"{_NUMBER.pattern}|\d{{4}}-\d\d-\d\d.*|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}.*")


def by_lines(text: str) -> list[Section]:
    """Return a section for every so many lines of a text."""
    starts = [match.start() for match in re.finditer(r"^", text, re.MULTILINE)]
    numbered = [*enumerate(starts, 1)][::_LINES]
    return [Section(start, f"L{line}", f"line {line}") for line, start in numbered]


def _row_of_names(rows: list[list[str]]) -> int:
    """Return which row names the columns, below titles alone in their rows; -1 if none does."""
    for at, row in enumerate(rows):
        if any(row[1:]):
            are_names = all(
                not each or _YEAR.fullmatch(each) or not _NUMBER.fullmatch(each) for each in row
            )
            if at == 0 and not are_names and _VALUE.fullmatch(row[0]):
                return -1
            return at if are_names else 0
    return 0


def _delimiter(text: str) -> str:
    """Return what cuts the most of the first rows into equally many; a comma may be a decimal's."""

    def alike(delimiter: str) -> int:
        rows = csv.reader(text[:10_000].splitlines(keepends=True)[:_LOOKED_AT], delimiter=delimiter)
        with suppress(csv.Error):
            return max(Counter(len(row) for row in rows if len(row) > 1).values(), default=0)
        return 0

    best = max(";\t|,", key=alike)
    return best if alike(best) else ","


def table(text: str, delimiter: str | None) -> Document:
    """Return each row as a paragraph `column: value; …`; rows above the columns are its title."""
    first, _, below = text.partition("\n")
    if declared := stated_delimiter(first):
        text, delimiter = below, declared
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text))
    begin = list(islice(rows, _TITLE_ROWS))
    of_names = _row_of_names(begin)
    titles = [" ".join(row).strip() for row in begin[: max(of_names, 0)]]
    heading = " – ".join(filter(None, titles))[:_TITLE]
    names = [name.strip()[:_NAME] for name in begin[of_names]] if begin and of_names >= 0 else []
    pieces: list[str] = []
    sections: list[Section] = []
    size, room = 0, 20 * len(text) + 10_000
    with_value: set[int] = set()
    for number, row in enumerate(chain(begin[of_names + 1 :], rows)):
        if number % _ROWS == 0:
            title = f"{heading} – row {number + 1}" if heading else f"row {number + 1}"
            sections.append(Section(size, f"row-{number + 1}", title))
        cells = [*zip_longest(names, (" ".join(value.split()) for value in row))]
        with_value.update(at for at, (_, value) in enumerate(cells) if value)
        texts = (f"{name}: {value}" if name else value for name, value in cells if value)
        pieces.append("; ".join(texts) + "\n\n")
        size += len(pieces[-1])
        if size > room:  # long names of columns, almost empty rows
            return Document("", text, by_lines(text))
    empty = [name for at, name in enumerate(names) if name and at not in with_value]
    if pieces and empty:
        pieces.append(f"Columns without a value: {'; '.join(empty)}\n")
    return Document(heading, "".join(pieces) or text, sections)
