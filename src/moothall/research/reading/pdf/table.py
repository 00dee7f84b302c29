"""A table of a page: its cells, which rows name the columns, and how its rows are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from moothall.research.reading.pdf.page import LEFTWARD, Run

Span: TypeAlias = tuple[float, float]
"""From where to where a column goes."""

_CUT_LETTER = re.compile(r"[^\W\d_]-\Z")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_NAME_CHARS: Final = 80  # of a column's name, which each row repeats, at most
_EQUAL_SHARE: Final = 0.01  # of a table's width, by which equal columns differ at most
_MAX_HEADS: Final = 4  # rows that name the columns, at most
_UNIT_CHARS: Final = 10  # letters beside a number, at most, in a value
_NUMBER = re.compile(
    r"[-+\u2212\u2013\u00b1(<>\u2264\u2265~\u2248%#]*\s*(?:[^\w\s]|[A-Z]{3})?\s*[-+\u2212]?\.?\d"
)
_YEARS = re.compile(r"(?:19|20)\d\d(?:[/\u2013-](?:(?:19|20)\d\d|\d\d))?")


class Area(NamedTuple):
    """Words that belong together, and what holds them."""

    runs: list[Run]
    left_edge: float
    low: float
    right: float
    high: float

    @property
    def height(self) -> float:
        """The height of the first line."""
        return self.runs[0].high - self.runs[0].low

    @property
    def text(self) -> str:
        """The words in one line; a word that a line's end cuts keeps its cut."""
        text = self.runs[0].text
        for last, run in pairwise(self.runs):
            if run.high < (last.low + last.high) / 2 and _CUT_LETTER.search(text):
                letters = _LETTERS.match(run.text)
                text += "\n" * bool(letters and letters[0].islower()) + run.text
            else:
                text += f" {run.text}"
        return text


def area_of(runs: Iterable[Run]) -> Area:
    """Return what holds some words."""
    words, lefts, lows, rights, highs = [*runs], *[*zip(*runs, strict=True)][1:5]
    return Area(words, min(lefts), min(lows), max(rights), max(highs))


def lines_of(area: Area) -> list[list[Run]]:
    """Return the words line by line."""
    lines = [[area.runs[0]]]
    for last, run in pairwise(area.runs):
        is_level = last.low < (run.low + run.high) / 2 < last.high
        lines[-1:] = [[*lines[-1], run]] if is_level else [lines[-1], [run]]
    return lines


class TableCell(NamedTuple):
    """A cell of a row: in which column it begins, and over how many it goes."""

    text: str
    column: int
    width: int
    look: int  # of its first word
    is_repeated: bool = False  # it goes on from the row above


class PageTable(NamedTuple):
    """The rows of a table, as cells that have a text, and its columns."""

    rows: list[list[TableCell]]
    spans: list[Span]
    runs: list[Run]


class Heads(NamedTuple):
    """The names of a table's columns, which may go on over a page."""

    names: list[str]
    spans: list[Span]


def is_number(text: str) -> bool:
    """Return whether a cell has a number, with its unit, or a date; a year may be a name."""
    letters = sum(map(len, _LETTERS.findall(text)))
    return bool(_NUMBER.match(text)) and letters <= _UNIT_CHARS and not _YEARS.fullmatch(text)


def is_value(text: str) -> bool:
    """Return whether a cell has a number, a year, or a mark such as `x` or `*`."""
    return len(text) == 1 or is_number(text) or bool(_YEARS.fullmatch(text))


def write(table: PageTable, carried: Heads | None) -> tuple[list[str], list[str], Heads | None]:
    """Return the lines above a table, its rows as `name: value; …`, and the names it has.

    Names are `carried` from the page before if the columns are the same, and if its heads are not
    others. Without names, all rows are lines.
    """
    rows, count = table.rows, len(table.spans)
    start = 0
    while start < len(rows) - 1 and len(rows[start]) == 1 and rows[start][0].width == count:
        start += 1  # a title over all columns
    end = start
    while end < min(len(rows) - 1, start + _MAX_HEADS) and _are_names(rows, start, end, count):
        end += 1
    heads = Heads(_names(rows[start:end], count), table.spans) if end > start else None
    if carried is not None and are_same(carried.spans, table.spans):
        while end == start < len(rows) and _names(rows[start : start + 1], count) == carried.names:
            start = end = start + 1
        heads = heads or carried
    lines = [" ".join(each.text for each in row if not each.is_repeated) for row in rows]
    if heads is None:
        return lines, [], None
    row_texts = [
        "; ".join(
            f"{name}: {each.text}" if (name := heads.names[each.column]) else each.text
            for each in row
        )
        for row in rows[end:]
    ]
    unused = {*range(count)} - {each.column for row in rows[end:] for each in row}
    if names := [heads.names[at] for at in sorted(unused) if heads.names[at]] * (end > start):
        row_texts.append(f"Columns without a value: {'; '.join(names)}")
    return lines[:start] if end > start else [], row_texts, heads


def are_same(spans: Sequence[Span], other_spans: Sequence[Span]) -> bool:
    """Return whether two tables have columns that stand one below the other."""
    return len(spans) == len(other_spans) and all(
        a < d and c < b for (a, b), (c, d) in zip(spans, other_spans, strict=True)
    )


def are_equal(spans: Sequence[Span], other_spans: Sequence[Span]) -> bool:
    """Return whether two tables have the columns of one, though a text stands between."""
    least = _EQUAL_SHARE * (max(map(max, spans)) - min(map(min, spans)))
    return are_same(spans, other_spans) and all(
        abs(a - c) < least and abs(b - d) < least
        for (a, b), (c, d) in zip(spans, other_spans, strict=True)
    )


def _are_names(rows: list[list[TableCell]], start: int, at: int, count: int) -> bool:
    """Return whether a row names the columns: it has no values, but those below; or its look.

    A row after the first one has names if that goes over its columns, or leaves them out.
    """
    row, below = rows[at], rows[at + 1 :]
    is_long = any(len(each.text) > _NAME_CHARS or is_number(each.text) for each in row)
    if is_long or sum(each.width for each in row) < 2:
        return False
    looks = [each[0].look for each in below]
    is_other = row[0].look != max({*looks}, key=looks.count)
    next_texts = {each.column: each.text for each in below[0] if not each.is_repeated}
    if any(next_texts.get(each.column) == each.text for each in row if len(each.text) == 1):
        return False  # marks
    alike = [
        _shape(each.text) == _shape(next_texts.get(each.column, ""))
        for each in row
        if _DIGIT.search(each.text)
    ]
    if alike and all(alike) and not is_other:
        return False
    if at == start:
        is_list = count == 2 and len({_unit(each.text) for e in below for each in e[1:]}) > 1
        return is_other or (not is_list and _have_values(below, _columns(row)))
    covered, columns = _columns(rows[at - 1]), {each.column for each in row}
    wide = [each for each in rows[at - 1] if 1 < each.width < count]
    return bool(_columns(wide) & columns) or (
        covered != {*range(count)}
        and columns >= {*range(count)} - covered
        and _have_values(below, columns - covered)
    )


def _columns(row: Iterable[TableCell]) -> set[int]:
    return {at for each in row for at in range(each.column, each.column + each.width)}


def _have_values(rows: list[list[TableCell]], columns: set[int]) -> bool:
    """Return whether one of the columns has mostly values."""
    by_column = ([e.text for row in rows for e in row if e.column == at] for at in columns)
    return any(2 * sum(map(is_value, texts)) >= len(texts) > 0 for texts in by_column)


def _unit(text: str) -> str:
    """Return what is beside a number; in a list, such as of a name, an age, a height, it varies."""
    return _shape(text).replace("0", "").strip(" ,.") if is_value(text) else "a"


def _shape(text: str) -> str:
    return _LETTERS.sub("a", _DIGIT.sub("0", text)) if len(text) > 1 else text


def _names(rows: list[list[TableCell]], count: int) -> list[str]:
    """Return the names of the columns, each with those over it."""
    names: list[dict[str, None]] = [{} for _ in range(count)]
    for each in (cell for row in rows for cell in row):
        for texts in names[each.column : each.column + each.width]:
            texts[each.text] = None
    return [" ".join(texts) for texts in names]


def turned_round(table: PageTable) -> PageTable:
    """Return a table whose first column is its right one, if its letters are read so."""
    texts = "".join(each.text for row in table.rows for each in row)
    if 2 * len(LEFTWARD.findall(texts)) <= sum(map(len, _LETTERS.findall(texts))):
        return table
    rows = [
        [
            each._replace(column=len(table.spans) - each.column - each.width)
            for each in reversed(row)
        ]
        for row in table.rows
    ]
    return table._replace(rows=rows, spans=table.spans[::-1])
