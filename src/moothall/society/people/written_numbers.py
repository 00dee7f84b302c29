"""How offices write numbers: with separators, currencies and leading zeros; one reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.,'’ \u00a0\u202f]*")
_COMMAS: Final = re.compile(r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_DOTS: Final = re.compile(r"[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_GAPS: Final = re.compile(r"(?<=[0-9])['’ \u00a0\u202f](?=[0-9]{3}(?![0-9]))")
_MONEY: Final = re.compile(r"^\s*(?:[$€£]|USD|EUR)\s*|\s*(?:[$€£]|USD|EUR)\s*$")
_ZEROS: Final = re.compile(r"\s*([-+]?)0+(?=[0-9])([0-9]*(?:\.[0-9]+)?)\s*")
NOT_KNOWN: Final[re.Pattern[str]] = re.compile(r"\s*(?:n|na|nan|n/a|b+|\.)\s*", re.IGNORECASE)


def is_numeric(cells: object) -> bool:
    """Return whether cells are an array of numbers."""
    return getattr(getattr(cells, "dtype", None), "kind", "") in ("b", "i", "u", "f")


def without_zeros(cells: Sequence[object]) -> Sequence[Any]:
    """Return texts of known numbers without leading zeros, and none of what is not known."""
    if is_numeric(cells):
        return cells

    def number(cell: object) -> object:
        if not isinstance(cell, str):
            return cell
        match = _ZEROS.fullmatch(cell)
        if match is None:
            return None if NOT_KNOWN.fullmatch(cell) else cell
        return f"{match[1]}{match[2]}".removeprefix("+")

    return [*map(number, cells)]


def plain_numbers(cells: Sequence[object], at: str = "", *, comma: bool = False) -> Sequence[Any]:
    """Return texts that are numbers with separators as plain ones: `52,000`, `1,25`, `52.000,50`.

    One mark holds for a column: what its numbers show together, or else what `comma` says. A column
    with other texts stays as it is.
    """
    if is_numeric(cells):
        return cells
    texts = {cell for cell in cells if isinstance(cell, str) and cell.strip()}
    stripped = {text: _GAPS.sub("", _MONEY.sub("", text.strip())) for text in texts}
    numbers = set(stripped.values())
    marks = ",." if comma else ","
    is_plain = not any(mark in each for each in numbers for mark in marks)
    is_plain &= all(text == number for text, number in stripped.items())
    if is_plain or not all(_NUMBER.fullmatch(each) for each in numbers):
        return cells
    is_money = any(_MONEY.search(text) for text in texts)  # cents have two digits
    mark = _decimal_mark(numbers, comma=comma, is_money=is_money)
    if not mark:
        return cells
    other = "." if mark == "," else ","
    plain = {text: n.replace(other, "").replace(mark, ".") for text, n in stripped.items()}
    return [plain.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]


def _decimal_mark(numbers: Iterable[str], *, comma: bool, is_money: bool) -> str:
    """Return the decimal mark of some numbers; empty if they contradict each other."""
    certain: set[str] = set()
    ambiguous: set[str] = set()  # marks before three digits, which may be either
    for each in numbers:
        marks = [mark for mark in ",." if mark in each]
        if len(marks) == 2:
            last_mark = max(marks, key=each.rindex)
            certain.add(last_mark)
            if each.count(last_mark) > 1:
                return ""
        elif marks:
            (mark,) = marks
            is_grouped = (_COMMAS if mark == "," else _DOTS).fullmatch(each)
            if each.count(mark) > 1:
                if not is_grouped:
                    return ""
                certain.add("." if mark == "," else ",")
            elif is_grouped and is_money:
                certain.add("." if mark == "," else ",")
            elif is_grouped:
                ambiguous.add(mark)
            else:
                certain.add(mark)
    if len(certain) > 1:
        return ""
    return certain.pop() if certain else "," if comma else "."
