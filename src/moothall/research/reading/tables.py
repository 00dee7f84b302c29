"""Read tables: what divides their cells, which row names the columns, each row as a paragraph."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from contextlib import suppress
from itertools import chain, islice, pairwise, zip_longest
from typing import Final, TypeAlias

from moothall.build import stated_delimiter
from moothall.research.findings import Section
from moothall.research.reading.html import Document

_SECTION_LINES: Final = 40
_TITLE_CHARS: Final = 300  # characters of a title that are kept
_TITLE_ROWS: Final = 10  # above the names of the columns, at most
_SECTION_ROWS: Final = 10
_SAMPLE_ROWS: Final = 20  # rows that show what divides them
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[-+]?[\d.,]+ ?[%€$£]?")
_NAME_CHARS: Final = 80  # characters of a column's name, which each row repeats
_Rows: TypeAlias = list[list[str]]
_VALUE = re.compile(rf"{_NUMBER.pattern}|\d{{4}}-\d\d-\d\d.*|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}.*")


def sections_by_lines(text: str) -> list[Section]:
    """Return a section for every so many lines of a text."""
    starts = [match.start() for match in re.finditer(r"^", text, re.MULTILINE)]
    numbered = [*enumerate(starts, 1)][::_SECTION_LINES]
    return [Section(start, f"L{line}", f"line {line}") for line, start in numbered]


def _parts(rows: _Rows) -> tuple[_Rows, list[str], _Rows]:
    """Return the titles, alone in their rows, the names of the columns below, and the values."""
    names_row = 0
    for at, row in enumerate(rows):
        if any(row[1:]):
            are_names = _are_names(row)
            if at == 0 and not are_names and _VALUE.fullmatch(row[0]):
                return [], [], rows
            below, values = [*rows[at + 1 :], [], []][:2]
            if are_names and _are_names(below):
                if _are_heads(row, below, values):
                    return rows[:at], _names_below_heads(row, below), rows[at + 2 :]
                if sum(map(bool, below)) >= 2 * sum(map(bool, row)):
                    continue
            names_row = at if are_names else 0
            break
    else:  # one column: a text of paragraphs, or short values
        if any(len("".join(row)) > _NAME_CHARS for row in rows):
            return rows[:1], [], rows[1:]
    return rows[:names_row], [*chain(*rows[names_row:][:1])], rows[names_row + 1 :]


def _are_heads(row: list[str], below: list[str], values: list[str]) -> bool:
    """Return whether a row has heads over several columns each, whose names are below it."""
    names = [*filter(None, below)]
    is_over_all = len(names) >= 2 * sum(map(bool, row)) and len({*names}) == len(names)
    return not is_over_all and any(
        name and not head and _VALUE.fullmatch(value)
        for head, name, value in zip(row, below, values, strict=False)
    )


def _names_below_heads(row: list[str], below: list[str]) -> list[str]:
    """Return the names of columns, each with the head over it."""
    names, head = list[str](), ""
    for own_head, name in zip_longest(row, below, fillvalue=""):
        head = own_head or (head if name else "")
        names.append(" ".join(dict.fromkeys(filter(None, (head, name)))))
    return names


def _are_names(row: list[str]) -> bool:
    return all(not each or _YEAR.fullmatch(each) or not _NUMBER.fullmatch(each) for each in row)


def _delimiter(text: str) -> str:
    """Return what cuts the most of the first rows into equally many; a comma may be a decimal's."""

    def count_alike(delimiter: str) -> int:
        rows = csv.reader(
            text[:10_000].splitlines(keepends=True)[:_SAMPLE_ROWS], delimiter=delimiter
        )
        with suppress(csv.Error):
            return max(Counter(len(row) for row in rows if len(row) > 1).values(), default=0)
        return 0

    best = max(";\t|,", key=count_alike)
    return best if count_alike(best) else ","


def table_document(text: str, delimiter: str | None) -> Document:
    """Return each row as a paragraph `column: value; …`; rows above the columns are its title."""
    first, _, rest = text.partition("\n")
    if declared := stated_delimiter(first):
        text, delimiter = rest, declared
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text))
    first_rows = list(islice(rows, _TITLE_ROWS))
    titles, names, first_values = _parts(first_rows)
    heading = " – ".join(filter(None, (" ".join(row).strip() for row in titles)))[:_TITLE_CHARS]
    names = [name.strip()[:_NAME_CHARS] for name in names]
    pieces: list[str] = []
    sections: list[Section] = []
    length, max_length = 0, 20 * len(text) + 10_000
    used_columns: set[int] = set()
    may_begin = False  # whether an empty row stands before, and a title at most
    for number, (row, below) in enumerate(pairwise(chain(first_values, rows, [[]]))):
        if number % _SECTION_ROWS == 0:
            title = f"{heading} – row {number + 1}" if heading else f"row {number + 1}"
            sections.append(Section(length, f"row-{number + 1}", title))
        if may_begin and _begins_table(row, below):
            pieces += [f"{each}\n" for each in _names_without_value(names, used_columns)]
            names, used_columns = [name.strip()[:_NAME_CHARS] for name in row], set()
            continue
        is_title = may_begin and sum(map(bool, row)) == 1
        may_begin = not any(row) or is_title
        cells = [
            *zip_longest([] if is_title else names, (" ".join(value.split()) for value in row))
        ]
        used_columns.update(at for at, (_, value) in enumerate(cells) if value)
        texts = (f"{name}: {value}" if name else value for name, value in cells if value)
        pieces.append("; ".join(texts) + "\n\n")
        length += len(pieces[-1])
        if length > max_length:  # long names of columns, almost empty rows
            return Document("", text, sections_by_lines(text))
    if pieces:
        pieces += _names_without_value(names, used_columns)
    return Document(heading, "".join(pieces) or text, sections)


def _begins_table(row: list[str], below: list[str]) -> bool:
    """Return whether a row names the columns of another table, where values stand below names."""
    return _are_names(row) and any(
        name and _VALUE.fullmatch(value) for name, value in zip(row, below, strict=False)
    )


def _names_without_value(names: list[str], used_columns: set[int]) -> list[str]:
    """Return the line that names the columns without a value; no line for none."""
    empty_names = [name for at, name in enumerate(names) if name and at not in used_columns]
    return [f"Columns without a value: {'; '.join(empty_names)}\n"] if empty_names else []
