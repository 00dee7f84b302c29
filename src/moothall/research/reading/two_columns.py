"""Read two columns of a page one below the other, where their lines were written across both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from statistics import fmean
from typing import Final, TypeAlias

Box: TypeAlias = tuple[float, float, float, float]
"""Where a run of text stands on a page: its left, lower, right and upper end."""

_FEWEST_ROWS: Final = 8  # across both columns, at least; those of a table have narrow cells
_MIN_WIDTH: Final = 8.0  # times its height, a line of a column is at least so long
_MIN_GAP: Final = 1.0  # the same of what divides two columns
_ALIGNED_POINTS: Final = 3.0  # points between the beginnings of most lines of a column
# Of the wider column's width that the other one has; in tables often less.
_ALIKE_SHARE: Final = 0.7
_FILLED_SHARE: Final = 0.75  # of a column's width that its lines have on average


def lines_by_column(boxes: Sequence[Box]) -> list[list[int]]:
    """Return the boxes of a page by number, each column line by line; what is around as it is."""
    rows: list[list[int]] = []
    for at, (left_edge, low, _, high) in enumerate(boxes):
        previous = boxes[at - 1]
        if at and previous[2] < left_edge and previous[1] < (low + high) / 2 < previous[3]:
            rows[-1].append(at)
        else:
            rows.append([at])
    lines: list[list[int]] = []
    unchanged: list[int] = []
    while rows:
        end, gutter = _find_columns(boxes, rows)
        for is_right in (False, True) if end else ():
            sides = (
                [at for at in row if (boxes[at][0] > gutter) == is_right] for row in rows[:end]
            )
            lines += filter(None, (unchanged, *sides))
            unchanged = []
        unchanged += rows.pop(0) if not end else []
        del rows[:end]
    return [*lines, unchanged]


def _find_columns(boxes: Sequence[Box], rows: list[list[int]]) -> tuple[int, float]:
    """Return how many of the first rows run across two columns, and what divides these."""
    low, high = -inf, inf
    row_widths: list[tuple[float, float]] = []  # the widths of each row
    starts: list[float] = []  # of its right side
    end = 0
    for number, row in enumerate(rows, 1):
        gap = max(
            pairwise(row), key=lambda pair: boxes[pair[1]][0] - boxes[pair[0]][2], default=None
        )
        left_end, right = (boxes[gap[0]][2], boxes[gap[1]][0]) if gap else (inf, -inf)
        height = max(boxes[at][3] - boxes[at][1] for at in row)
        widths = left_end - boxes[row[0]][0], boxes[row[-1]][2] - right
        is_across = min(*widths, (right - left_end) * _MIN_WIDTH / _MIN_GAP) >= _MIN_WIDTH * height
        gutter = (max(low, left_end), min(high, right)) if is_across else (low, high)
        if not (is_across or row_widths) or any(
            boxes[at][0] < gutter[1] and boxes[at][2] > gutter[0] for at in row
        ):
            break
        low, high = gutter
        if is_across:
            row_widths.append(widths)
            starts.append(right)
        if boxes[row[-1]][0] >= high:
            end = number
    aligned_count = sum(start < high + _ALIGNED_POINTS for start in starts)
    if len(row_widths) < _FEWEST_ROWS or aligned_count < _FILLED_SHARE * len(starts):
        return 0, low
    columns = [*zip(*row_widths, strict=True)]
    is_filled = all(fmean(each) >= _FILLED_SHARE * max(each) for each in columns)
    narrow, wide = sorted(map(max, columns))
    return (end if is_filled and narrow >= _ALIKE_SHARE * wide else 0), low
