"""Find the tables, and the columns of text, that only gaps divide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from statistics import fmean, median
from typing import Final, NamedTuple

from moothall.research.reading.pdf.page import WIDE_GAP, Run
from moothall.research.reading.pdf.table import (
    Area,
    PageTable,
    Span,
    TableCell,
    area_of,
    is_number,
    is_value,
    lines_of,
    turned_round,
)

# Lengths are in heights of a line.
_NEXT_LINE: Final = 0.35  # between the lines of one cell, at most
_ALIGNED: Final = 0.35  # by which their ends miss each other, at most
_FIRST_GAP: Final = 3.5  # between the first two rows, at most
_MIN_GUTTER: Final = 0.2  # between two columns
_HEAD_GAP: Final = 0.4  # between two heads; less is between the words of one
_FEWEST_ROWS: Final = 3
_FILLED_SHARE: Final = 0.5  # of the cells of a table
_CELL_CHARS: Final = 60  # of a cell of a table on average, at most
_SHORT_CHARS: Final = 25  # of a cell of a short column
_TEXT_ROWS: Final = 8  # of columns of text, at least
_TEXT_WIDTH: Final = 8.0  # of a line of such a column, at least
_TEXT_FILLED: Final = 0.65  # of the column's width that its lines have on average
_HEAD_ROWS: Final = 3
_LIST_MARK = re.compile(r"\W|\(?(?:\d{1,3}|[^\W\d_]|[ivx]{1,4})[.)]|\d{1,3}(?:\.\d{1,3})+\.?")


class Placed(NamedTuple):
    """A cell by its place: in which column it begins, and over how many it goes."""

    column: int
    width: int
    area: Area


def rows_of(lines: Sequence[Sequence[Run]]) -> list[list[Area]]:
    """Return the parts of lines that gaps divide, row by row; a part may have several lines."""
    rows: list[list[Area]] = []
    for line in lines:
        parts = _parts(line)
        last = rows[-1][-1] if rows else None
        if last and _goes_on(last, parts):
            rows[-1][-1] = area_of([*last.runs, *parts.pop(0).runs])
        for each in parts:
            row = rows[-1] if rows else []
            low, high = min((e.low for e in row), default=0), max((e.high for e in row), default=0)
            overlap = min(high, each.high) - max(low, each.low)
            is_beside = all(each.left_edge >= e.right or each.right <= e.left_edge for e in row)
            if is_beside and overlap >= min(high - low, each.high - each.low) / 2 > 0:
                row.append(each)
            else:
                rows.append([each])
    return [line for row in rows for line in _by_lines(row)]


def _by_lines(row: list[Area]) -> list[list[Area]]:
    """Return a row, or the rows of a table that was written column by column, as numbers show."""
    columns = [[area_of(line) for line in lines_of(each)] for each in row]
    count, first = len(columns[0]), columns[0]
    is_table = count >= _FEWEST_ROWS and all(
        len(lines) == count
        and all(abs(a.low - b.low) < a.height / 2 for a, b in zip(lines, first, strict=True))
        for lines in columns
    )
    if is_table and any(
        2 * sum(is_number(e.text) for e in lines) >= count for lines in columns[1:]
    ):
        return [[*line] for line in zip(*columns, strict=True)]
    return [row]


def _parts(line: Sequence[Run]) -> list[Area]:
    groups = [[line[0]]]
    for a, b in pairwise(line):
        gap = max(b.left_edge - a.right, a.left_edge - b.right)
        is_level = a.low < (b.low + b.high) / 2 < a.high
        if gap > WIDE_GAP * max(a.high - a.low, b.high - b.low) or not is_level:
            groups.append([])
        groups[-1].append(b)
    return [area_of(runs) for runs in groups]


def _goes_on(above: Area, parts: list[Area]) -> bool:
    """Return whether a line's first part stands one line below, with the same end or middle."""
    part = parts[0]
    height = max(above.height, part.height)
    ends = (
        above.left_edge - part.left_edge,
        above.right - part.right,
        (above.left_edge + above.right - part.left_edge - part.right) / 2,
    )
    return (
        -height / 2 < above.low - part.high < _NEXT_LINE * height
        and min(map(abs, ends)) < _ALIGNED * height
        and above.runs[-1].look == part.runs[0].look
        and (len(parts) == 1 or parts[1].left_edge >= above.right)
    )


def found_blocks(
    rows: Sequence[list[Area]], carried: Sequence[Span]
) -> Iterator[PageTable | list[list[Run]]]:
    """Yield each table, and each block of columns of text as its lines, column by column.

    `carried` are the columns of the table that ends the page before; a row is enough to go on.
    """
    at = 0
    while at < len(rows):
        end = _end_of_block(rows, at)
        block = rows[at:end]
        if carried and at == 0 and _fits(block, carried):
            yield _table(block, carried)
        elif len(block) > 1:
            spans = _columns(block)
            if columns := _text_columns(block, spans):
                yield columns
            elif len(spans) > 1:
                block = rows[_start_above(rows, at, spans) : end]
                if _is_table(block, spans):
                    yield _table(block, spans)
        at = end


def _end_of_block(rows: Sequence[list[Area]], start: int) -> int:
    """Return where the rows end that leave a gutter free."""
    free = [(-inf, inf)]
    height = rows[start][0].height
    distances: list[float] = []
    end = at = start
    while at < len(rows) and (at < end + 2 or at == start):
        row = sorted(rows[at], key=_left_of)
        distance = _distance(rows[at - 1], row) if at > start else 0
        most = 1.8 * median(distances) + height / 2 if distances else _FIRST_GAP * height
        if at > start and not -height / 2 < distance <= max(most, height):
            break
        if len(row) > 1:
            ends = [-inf, *(e for each in row for e in (each.left_edge, each.right)), inf]
            common = [
                (max(a, c), min(b, d))
                for a, b in free
                for c, d in zip(ends[::2], ends[1::2], strict=True)
                if min(b, d) - max(a, c) >= _MIN_GUTTER * height
            ]
            sides = [(a.right, b.left_edge) for a, b in pairwise(row)]
            if not any(a <= c and d <= b for a, b in sides for c, d in common):
                break
            free, end = common, at + 1
            distances += [distance] * (at > start)
        elif at == start:
            break
        at += 1
    return max(end, start + 1)


def _distance(above: Sequence[Area], below: Sequence[Area]) -> float:
    return min(each.low for each in above) - max(each.high for each in below)


def _left_of(area: Area) -> float:
    return area.left_edge


def _columns(rows: Sequence[list[Area]]) -> list[Span]:
    """Return the columns: nearly all rows leave free what is between, and some have a cell each."""
    wide_rows = [row for row in rows if len(row) > 1]
    gutter = _MIN_GUTTER * wide_rows[0][0].height
    allowed = 0 if len(wide_rows) < 4 else max(1, len(wide_rows) // 10)
    areas = [each for row in wide_rows for each in row]
    spans: list[Span] = []
    depth, start = 0, -inf
    for at, change in sorted([(e.left_edge, 1) for e in areas] + [(e.right, -1) for e in areas]):
        depth += change
        if change > 0 and depth == allowed + 1:
            start = spans.pop()[0] if spans and at - spans[-1][1] < gutter else at
        elif change < 0 and depth == allowed:
            spans.append((start, at))
    while len(spans) > 1:
        counts = [0] * len(spans)
        for each in areas:
            shares = [min(each.right, b) - max(each.left_edge, a) for a, b in spans]
            counts[shares.index(max(shares))] += 1
        at = counts.index(min(counts))
        if counts[at] > allowed:
            break
        pairs = range(max(at - 1, 0), min(at + 1, len(spans) - 1))
        at = min(pairs, key=lambda number: spans[number + 1][0] - spans[number][1])
        spans[at : at + 2] = [(spans[at][0], spans[at + 1][1])]
    return spans


def _overlapped(area: Area, spans: Sequence[Span]) -> list[int]:
    """Return the columns over which an area stands; the nearest one if it stands over none."""
    slack = _MIN_GUTTER * area.height
    start, end = area.left_edge + slack, area.right - slack
    columns = [at for at, (a, b) in enumerate(spans) if start < b and end > a]
    if columns:
        return [*range(columns[0], columns[-1] + 1)]
    middle = (area.left_edge + area.right) / 2
    return [min(range(len(spans)), key=lambda at: abs(sum(spans[at]) / 2 - middle))]


def _fits(rows: Sequence[list[Area]], spans: Sequence[Span]) -> bool:
    """Return whether each cell of some rows stands in one of the columns."""
    columns = [_overlapped(each, spans) for row in rows for each in row]
    return all(len(each) == 1 for each in columns) and len({each[0] for each in columns}) > 1


def _cut(area: Area, spans: Sequence[Span], least_gap: float) -> list[Placed]:
    """Return a line over several columns as the words in each; nothing if a word is in two."""
    runs = sorted(area.runs, key=lambda each: each.left_edge)
    gaps = [b.left_edge - a.right for a, b in pairwise(runs)]
    columns_below = _overlapped(area, spans)
    places = [_overlapped(area_of([each]), spans) for each in runs]
    widest = sorted(range(len(gaps)), key=gaps.__getitem__)[::-1]
    between = [at for at, (a, b) in enumerate(pairwise(places)) if a != b]
    for cuts in (
        sorted(widest[: len(columns_below) - 1]),
        between,
    ):
        ends = [0, *(cut + 1 for cut in cuts), len(runs)]
        pieces = [area_of(runs[a:b]) for a, b in pairwise(ends)]
        columns = [_overlapped(each, spans) for each in pieces]
        rest = max((gap for at, gap in enumerate(gaps) if at not in cuts), default=0)
        if (
            len(pieces) > 1
            and area.runs[0].line == area.runs[-1].line
            and all(len(each) == 1 for each in columns)
            and len({each[0] for each in columns}) == len(pieces)
            and (cuts is between or [each[0] for each in columns] == columns_below)
            and min(gaps[at] for at in cuts) >= max(1.15 * rest, least_gap * area.height)
        ):
            return [Placed(at, 1, each) for (at,), each in zip(columns, pieces, strict=True)]
    return []


def _start_above(rows: Sequence[list[Area]], start: int, spans: Sequence[Span]) -> int:
    """Return where a table begins whose heads stand closer than its columns, or over several."""
    for at in range(start - 1, max(start - _HEAD_ROWS, 0) - 1, -1):
        alone = rows[at][0]
        if not -alone.height / 2 < _distance(rows[at], rows[start]) < 2 * alone.height:
            break
        is_over = (
            len(spans) > 2
            and alone.left_edge > spans[0][1]
            and abs(alone.left_edge + alone.right - spans[1][0] - spans[-1][1]) < 2 * alone.height
        )
        if len(rows[at]) > 1 or not (
            is_over or len(_cut(alone, spans, _MIN_GUTTER)) >= max(2, len(spans) - 1)
        ):
            break
        start = at
    return start


def _placed(rows: Sequence[list[Area]], spans: Sequence[Span]) -> list[list[Placed]]:
    """Return the cells of each row, by column; a head may go over several."""
    placed: list[list[Placed]] = []
    for at, row in reversed([*enumerate(rows)]):
        # The words of a head over columns stand close, too; the names of columns follow it.
        is_over = bool(placed) and not any(is_number(each.area.text) for each in placed[-1])
        cells: dict[int, Placed] = {}
        for each in sorted(row, key=_left_of):
            columns = _overlapped(each, spans)
            least_gap = _HEAD_GAP if is_over else _MIN_GUTTER
            cut = _cut(each, spans, least_gap) if len(columns) > 1 else []
            for cell in cut or [Placed(columns[0], len(columns), each)]:
                if other := cells.get(cell.column):
                    cell = cell._replace(area=area_of([*other.area.runs, *cell.area.runs]))
                cells[cell.column] = cell
        ordered = [cells[column] for column in sorted(cells)]
        if is_over and at < _HEAD_ROWS and len(ordered) < len(placed[-1]):
            ordered = _widened(ordered, spans)
        placed.append(ordered)
    return placed[::-1]


def _widened(cells: list[Placed], spans: Sequence[Span]) -> list[Placed]:
    """Return heads over the columns that they stand amid, or that follow up to the next head."""
    if any(is_number(each.area.text) for each in cells):
        return cells
    ends = [0, *(each.column + each.width for each in cells)]
    starts = [*(each.column for each in cells[1:]), len(spans)]
    widened: list[Placed] = []
    for (column, width, area), first, last in zip(cells, ends, starts, strict=False):
        if widened:
            first = max(first, widened[-1].column + widened[-1].width)
        ranges = [(a, b) for a in range(first, column + 1) for b in range(column + width, last + 1)]
        middle = area.left_edge + area.right
        misses = [
            (round(abs(spans[a][0] + spans[b - 1][1] - middle) / 2 / area.height), b - a)
            for a, b in ranges
        ]
        start, end = ranges[misses.index(min(misses))]
        is_left = abs(area.left_edge - spans[column][0]) < _ALIGNED * area.height
        if (start, end) == (column, column + width) and is_left and widened:
            end = last  # it stands at the left of the columns that it is over
        widened.append(Placed(start, end - start, area))
    return widened


def _table(rows: Sequence[list[Area]], spans: Sequence[Span]) -> PageTable:
    cells = [
        [TableCell(each.text, column, width, each.runs[0].look) for column, width, each in row]
        for row in _placed(rows, spans)
    ]
    runs = [run for row in rows for each in row for run in each.runs]
    return turned_round(PageTable(cells, [*spans], runs))


def _text_columns(rows: Sequence[list[Area]], spans: Sequence[Span]) -> list[list[Run]]:
    """Return the lines of columns of text one below the other; nothing if it is no such block."""
    lines: list[list[list[Run]]] = [[] for _ in spans]
    for each in (area for row in rows for area in row):
        columns = _overlapped(each, spans)
        if len(columns) > 1:
            return []
        lines[columns[0]] += lines_of(each)
    for (start, end), column in zip(spans, lines, strict=True):
        areas = [area_of(line) for line in column]
        if (
            len(areas) < _TEXT_ROWS
            or end - start < _TEXT_WIDTH * areas[0].height
            or fmean(each.right - each.left_edge for each in areas) < _TEXT_FILLED * (end - start)
            or 2 * sum(is_number(each.text) for each in areas) > len(areas)
        ):
            return []
    return [line for column in lines for line in column] if len(spans) > 1 else []


def _is_table(rows: Sequence[list[Area]], spans: Sequence[Span]) -> bool:
    """Return whether cells are short and mostly there, with values, or columns of few letters."""
    texts: list[list[str]] = [[] for _ in spans]
    placed = _placed(rows, spans)
    for each in (cell for row in placed for cell in row):
        texts[each.column].append(each.area.text)
    every_text = [text for column in texts for text in column]
    looks = [row[0].area.runs[0].look for row in placed]
    return (
        len(rows) >= _FEWEST_ROWS
        and len(every_text) >= _FILLED_SHARE * len(rows) * len(spans)
        and fmean(map(len, every_text)) <= _CELL_CHARS
        and min(map(len, texts)) > 1
        and not (len(spans) == 2 and all(map(_LIST_MARK.fullmatch, texts[0])))
        and (
            looks[0] not in looks[1:]
            or any(2 * sum(map(is_value, column)) >= len(column) for column in texts)
            or sum(fmean(map(len, column)) <= _SHORT_CHARS for column in texts) > 2
        )
    )
