"""Find the tables whose cells are divided by rules."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import Final

from moothall.research.reading.pdf.page import WIDE_GAP, Box, Run, Stroke
from moothall.research.reading.pdf.table import (
    Area,
    PageTable,
    TableCell,
    area_of,
    lines_of,
    turned_round,
)

_TOLERANCE: Final = 0.25  # of a line's height, by which rules that meet may miss each other
_DASH_GAP: Final = 0.5  # the same of what parts a rule's pieces
_FILLED_SHARE: Final = 0.4  # of a table that its texts' cells fill: a drawing has fewer
_APART_SHARE: Final = 0.35  # of its cells that are not merged
_CELL_CHARS: Final = 300  # of a cell on average, at most: boxes around a page's parts have more
_FEWEST_LINES: Final = 3  # of a row of cells that their lines divide
_NEXT_ROW: Final = 1.5  # of a line's height, to the line that a table goes on with


def ruled_tables(rules: Sequence[Stroke], runs: Sequence[Run], height: float) -> list[PageTable]:
    """Return the tables that rules divide into cells."""
    tables: list[tuple[PageTable, list[float], list[float]]] = []
    free = [*runs]
    for group in _groups(_long_rules(rules, height), height * _TOLERANCE):
        level = [each for each in group if each.is_level]
        upright = [each for each in group if not each.is_level]
        # A table that is open at its sides ends where its rules do.
        xs = _places([r.at for r in upright] + [e for r in level for e in r[2:]], height)
        ys = _places([r.at for r in level] + [e for r in upright for e in r[2:]], height)
        inside = [each for each in free if _is_inside(each, xs, ys)]
        cells = _cells(inside, group, xs, ys)
        if table := _table(cells, xs, ys):
            tables.append((table, xs, ys))
            free = [each for each in free if not _is_inside(each, xs, ys)]
    return [
        table
        for table, xs, ys in tables
        if not any(_goes_on(xs, e) for e in _neighbours(free, ys, height))
    ]


def _long_rules(rules: Iterable[Stroke], height: float) -> list[Stroke]:
    """Return the rules, those that go on in one line as one."""
    long_rules: list[Stroke] = []
    for each in sorted(rules):  # level or not, then by place
        last = long_rules[-1] if long_rules else None
        if not last or last.is_level != each.is_level or each.at - last.at > _TOLERANCE * height:
            start = len(long_rules)
        for number in range(start, len(long_rules)):
            rule = long_rules[number]
            if max(rule.start - each.end, each.start - rule.end) <= _DASH_GAP * height:
                start_and_end = min(rule.start, each.start), max(rule.end, each.end)
                long_rules[number] = Stroke(rule.is_level, rule.at, *start_and_end)
                break
        else:
            long_rules.append(each)
    return long_rules


def _groups(rules: list[Stroke], tolerance: float) -> list[list[Stroke]]:
    """Return the rules that touch, group by group; those of one direction alone are none."""
    groups = [[each] for each in rules]
    home = {id(group[0]): group for group in groups}
    level = [each for each in rules if each.is_level]
    for a, b in product(level, [each for each in rules if not each.is_level]):
        if (
            a.start - tolerance <= b.at <= a.end + tolerance
            and b.start - tolerance <= a.at <= b.end + tolerance
            and home[id(a)] is not home[id(b)]
        ):
            home[id(a)].extend(home[id(b)])
            for each in home[id(b)]:
                home[id(each)] = home[id(a)]
    unique = {id(group): group for group in home.values()}
    return [group for group in unique.values() if len({each.is_level for each in group}) == 2]


def _places(ends: list[float], height: float) -> list[float]:
    """Return the places of edges, those that nearly agree as one."""
    places: list[float] = []
    for each in sorted(ends):
        if not places or each - places[-1] > _TOLERANCE * height:
            places.append(each)
    return places


def _is_inside(run: Run, xs: list[float], ys: list[float]) -> bool:
    x, y = (run.left_edge + run.right) / 2, (run.low + run.high) / 2
    return xs[0] <= x <= xs[-1] and ys[0] <= y <= ys[-1]


def _cells(
    runs: Iterable[Run], rules: list[Stroke], xs: list[float], ys: list[float]
) -> list[tuple[Box, Area]]:
    """Return the words of each cell, with the nearest rules around them."""
    cells: defaultdict[Box, list[Run]] = defaultdict(list)
    for run in runs:
        x, y = (run.left_edge + run.right) / 2, (run.low + run.high) / 2
        across = [e.at for e in rules if not e.is_level and e.start <= y <= e.end]
        along = [e.at for e in rules if e.is_level and e.start <= x <= e.end]
        cells[
            max((at for at in across if at <= x), default=xs[0]),
            max((at for at in along if at <= y), default=ys[0]),
            min((at for at in across if at > x), default=xs[-1]),
            min((at for at in along if at > y), default=ys[-1]),
        ].append(run)
    return [(box, area_of(each)) for box, each in cells.items()]


def _table(cells: list[tuple[Box, Area]], xs: list[float], ys: list[float]) -> PageTable | None:
    """Return the table that the cells are, or None for a drawing."""
    columns = sorted({_nearest(xs, edge) for (a, _, c, _), _ in cells for edge in (a, c)})
    lines = sorted({_nearest(ys, edge) for (_, b, _, d), _ in cells for edge in (b, d)})[::-1]
    if len(columns) < 3 or len(lines) < 3:
        return None
    rows: list[list[tuple[TableCell, Area]]] = [[] for _ in lines[1:]]
    covered = 0
    for (left_edge, low, right, high), area in cells:
        start, end = (columns.index(_nearest(xs, edge)) for edge in (left_edge, right))
        top, bottom = (lines.index(_nearest(ys, edge)) for edge in (high, low))
        covered += (end - start) * (bottom - top)
        for column, width, part in _divided(area, columns, start, end):
            for row in range(top, bottom):
                cell = TableCell(part.text, column, width, part.runs[0].look, row > top)
                rows[row].append((cell, part))
    count = (len(columns) - 1) * (len(lines) - 1)
    chars = sum(len(area.text) for _, area in cells)
    if covered < _FILLED_SHARE * count or chars > _CELL_CHARS * len(cells):
        return None
    if len(cells) < _APART_SHARE * covered:
        return None
    lined_rows = [line for row in rows if row for line in _by_lines(sorted(row, key=_column_of))]
    runs = [run for _, area in cells for run in area.runs]
    return turned_round(PageTable(lined_rows, [*pairwise(columns)], runs))


def _by_lines(row: list[tuple[TableCell, Area]]) -> list[list[TableCell]]:
    """Return a row, or its lines as rows if most cells have as many and no rules between."""
    lines = [lines_of(area) for _, area in row]
    count = max({*map(len, lines)}, key=[*map(len, lines)].count)
    if count < _FEWEST_LINES or sum(len(each) == count for each in lines) < 0.8 * len(row):
        return [[cell for cell, _ in row]]
    bases = sorted(next({line[0].low for line in each} for each in lines if len(each) == count))
    rows: list[list[TableCell]] = [[] for _ in bases]
    for (cell, _), its_lines in zip(row, lines, strict=True):
        by_base: defaultdict[float, list[Run]] = defaultdict(list)
        for line in its_lines:
            by_base[_nearest(bases, line[0].low)] += line
        for row_cells, base in zip(rows, bases[::-1], strict=True):
            if base in by_base:
                row_cells.append(cell._replace(text=area_of(by_base[base]).text))
    return rows


def _nearest(places: list[float], edge: float) -> float:
    at = bisect_right(places, edge)
    return min(places[max(at - 1, 0) : at + 1], key=lambda place: abs(place - edge))


def _column_of(item: tuple[TableCell, Area]) -> int:
    return item[0].column


def _divided(area: Area, xs: list[float], start: int, end: int) -> list[tuple[int, int, Area]]:
    """Return a cell by columns if its words stand one in each, as heads that no rules divide."""
    parts: dict[int, list[Run]] = {}
    last = area.runs[0]
    for run in area.runs:
        column = bisect_right(xs, (run.left_edge + run.right) / 2) - 1
        gap = max(run.left_edge - last.right, last.left_edge - run.right)
        is_close = 0 < gap < WIDE_GAP * (run.high - run.low) and parts and column not in parts
        if run.left_edge < xs[column] or run.right > xs[column + 1] or is_close:
            return [(start, end - start, area)]
        parts.setdefault(column, []).append(run)
        last = run
    if len(parts) == 1:
        return [(start, end - start, area)]
    return [(column, 1, area_of(runs)) for column, runs in sorted(parts.items())]


def _neighbours(runs: Iterable[Run], ys: list[float], height: float) -> list[list[Run]]:
    """Return the lines right above and right below a table."""
    lines: defaultdict[int, list[Run]] = defaultdict(list)
    for each in runs:
        y = (each.low + each.high) / 2
        if 0 < max(ys[0] - y, y - ys[-1]) < _NEXT_ROW * height:
            lines[each.line].append(each)
    return [*lines.values()]


def _goes_on(xs: Sequence[float], line: list[Run]) -> bool:
    """Return whether a line beside it has a cell in most columns: stripes rule every other row."""
    places = [bisect_right(xs, each.left_edge) for each in line]
    are_inside = (
        0 < at < len(xs) and each.right <= xs[at] for at, each in zip(places, line, strict=True)
    )
    return all(are_inside) and len({*places}) > max(1, (len(xs) - 1) // 2)
