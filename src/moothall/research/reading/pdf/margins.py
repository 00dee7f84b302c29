"""Find the heads and feet that pages repeat, and the sentences that go on over a page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from moothall.research.reading.pdf.page import Page

_NUMBER = re.compile(r"\d+")
_ROWS: Final = 3  # from the top or the bottom of a page in which heads and feet stand
_SAME_PLACE: Final = 0.5  # of a line's height
_FEWEST_PAGES: Final = 2
_STOPS = "[.!?\u2026\u3002\uff01\uff1f\u061f\u06d4\u0964][\"'\u201d\u2019\u00bb)\\]]*"
_END = re.compile(rf"(?:{_STOPS}|[:;])\s*\Z")
_SENTENCE = re.compile(rf".*?{_STOPS}(?=\s|\Z)", re.DOTALL)
_FILLED_SHARE: Final = 0.6  # of the longest line that a line has which does not end a paragraph
_FEWEST_LINES: Final = 3
_REST_CHARS: Final = 1000  # of a sentence that goes on, at most

_Margin: TypeAlias = tuple[float, float, int, int]
"""A line near the top or the bottom: how low and high it is, its page and its number there."""


def running_lines(pages: Sequence[Page]) -> list[set[int]]:
    """Return which lines of each page are heads and feet, but for the first head and last foot.

    They are lines of one text at one place, once a page, on half of the pages, but for numbers that
    are equal or count the pages. Nothing that stays lies further out.
    """
    margins: defaultdict[tuple[str, bool], list[_Margin]] = defaultdict(list)
    rows_by_page = [_rows(page) for page in pages]
    for at, (page, rows) in enumerate(zip(pages, rows_by_page, strict=True)):
        texts = [_NUMBER.sub("#", line.text) for line in page.lines]
        counts = Counter(texts)
        for is_foot, outer in ((False, rows[:_ROWS]), (True, rows[: -_ROWS - 1 : -1])):
            for number in (each for row in outer for each in row if counts[texts[each]] == 1):
                _, low, _, high = page.lines[number].box()
                margins[texts[number], is_foot].append((low, high - low, at, number))
    repeated: set[tuple[int, int]] = set()
    keepers: set[tuple[int, int]] = set()
    for (_, is_foot), lines_of_text in margins.items():
        for group in _at_one_place(lines_of_text):
            lines = sorted((at, number) for _, _, at, number in group)
            if len(lines) >= max(_FEWEST_PAGES, len(pages) / 2 - 1) and _are_counted(pages, lines):
                repeated.update(lines)
                keepers.add(lines[-1] if is_foot else lines[0])
    left_out: list[set[int]] = []
    for at, (page, rows) in enumerate(zip(pages, rows_by_page, strict=True)):
        numbers: set[int] = set()
        for outer in (rows[:_ROWS], rows[: -_ROWS - 1 : -1]):
            for row in outer:
                if not all((at, number) in repeated for number in row):
                    break
                numbers.update(row)
        is_most = 2 * len(numbers) >= len(page.lines)
        left_out.append({e for e in numbers if not is_most and (at, e) not in keepers})
    return left_out


def _rows(page: Page) -> list[list[int]]:
    """Return the level lines of a page by number, row by row from above."""
    boxes = [(line.box(), number) for number, line in enumerate(page.lines) if line.is_level]
    rows: list[list[int]] = []
    middle = 0.0
    for (_, low, _, high), number in sorted(boxes, key=lambda each: -each[0][1] - each[0][3]):
        if rows and low < middle < high:
            rows[-1].append(number)
        else:
            rows.append([number])
            middle = (low + high) / 2
    return rows


def _at_one_place(margins: list[_Margin]) -> Iterator[list[_Margin]]:
    group: list[_Margin] = []
    for each in sorted(margins):
        if group and each[0] - group[0][0] > _SAME_PLACE * each[1]:
            yield group
            group = []
        group.append(each)
    yield group


def _are_counted(pages: Sequence[Page], lines: list[tuple[int, int]]) -> bool:
    """Return whether each number of some lines is the same in all, or counts the pages."""
    numbers = [[int(n) for n in _NUMBER.findall(pages[at].lines[e].text)] for at, e in lines]
    ways = zip(*numbers, strict=True)
    return all(
        len({*way}) == 1 or len({n - at for n, (at, _) in zip(way, lines, strict=True)}) == 1
        for way in ways
    )


def rest_of_sentence(lines: Sequence[str], following: str) -> int:
    """Return how many characters of the next page end the sentence that these lines leave open."""
    lengths = [len(line) for line in lines]
    first = next((each for each in following if each.isalnum()), "")
    if (
        len(lines) < _FEWEST_LINES
        or lengths[-1] < _FILLED_SHARE * max(lengths)
        or _END.search(lines[-1])
        or not first.isalpha()
        or first.isupper()
    ):
        return 0
    paragraph = following.partition("\n\n")[0]
    end = _SENTENCE.match(paragraph)
    rest = end.end() if end else len(paragraph)
    return rest if rest <= _REST_CHARS else 0
