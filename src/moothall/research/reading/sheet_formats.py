"""What the cells of a workbook show beside their values: percentages, units, errors."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from moothall import UnreadableDocument
from moothall.research.reading.archives import Packed

_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OFFICE: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_DISPLAYED: Final = ("percentage", "currency", "time")
_REPEATED: Final = 1000  # rows or columns of one cell that are looked at

_CELL: Final = re.compile(
    r'<(?:\w+:)?c\b(?=[^>]*?\br="([A-Z]{1,3})(\d{1,7})")(?=(?:[^>]*?\bs="(\d+)")?)'
    r'(?:[^>]*?\bt="e"[^>]*>(?:(?!</(?:\w+:)?c>).)*?<(?:\w+:)?v>([^<]*)<)?',
    re.DOTALL,
)
_PART: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<sign>[^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].'
    r"|(?P<number>[#0?][#0?.,/]*(?:E[+-][#0?]+)?|General|@|[dmyhsDMYHS]+)|(?P<literal>[^;])"
)
_PERCENT: Final = {9: "0%", 10: "0.00%"}
"""The formats that a workbook does not state, and that say more than the number."""

CellFormat = Callable[[Any], Any]
"""What a cell shows of its value."""


def shown_formats(data: bytes) -> dict[str, dict[tuple[int, int], CellFormat]]:
    """Return by sheet, row and column (from 0) the cells that show more than their value."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return _old_formats(data)
    packed = Packed(data, "spreadsheet")
    try:
        if "content.xml" in packed.names:
            return _open_formats(packed.tree("content.xml"))
        home = packed.main("xl/workbook.xml")
        parts = {each.id: each for each in packed.related(home)}
        styles = [packed.tree(each.name) for each in parts.values() if each.kind == "styles"]
        by_style = _styles(styles[0]) if styles else {}
        sheets: dict[str, dict[tuple[int, int], CellFormat]] = {}
        for sheet in packed.tree(home).iter("{*}sheet"):
            id = next((value for key, value in sheet.items() if key.endswith("}id")), "")
            if id not in parts:
                continue
            cells = sheets.setdefault(sheet.get("name") or "", {})
            text = packed.read(parts[id].name).decode(errors="replace")
            for column, row, style, fault in _CELL.findall(text) if by_style or "#" in text else ():
                if fault or style in by_style:
                    cell_format = partial(_fault, fault) if fault else by_style[style]
                    cells[int(row) - 1, _number(column)] = cell_format
    except UnreadableDocument:  # too large to be looked through; its values are read
        return {}
    return sheets


def _old_formats(data: bytes) -> dict[str, dict[tuple[int, int], CellFormat]]:
    """Return the same of a workbook of Excel 97 to 2003."""
    import xlrd

    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO())
    except Exception:  # damaged, encrypted or older; its values are read, if they can be
        return {}
    codes = [book.format_map[each.format_key].format_str for each in book.xf_list]
    by_style = {
        number: cell_format for number, code in enumerate(codes) if (cell_format := _format(code))
    }
    return {
        sheet.name: {
            (row, column): by_style[style]
            for row in range(sheet.nrows)
            for column in range(sheet.row_len(row))
            if (style := sheet.cell_xf_index(row, column)) in by_style
        }
        for sheet in book.sheets()
    }


def _open_formats(tree: Any) -> dict[str, dict[tuple[int, int], CellFormat]]:
    """Return the same of OpenDocument, where a percentage, amount or time says what it shows."""
    sheets: dict[str, dict[tuple[int, int], CellFormat]] = {}
    for sheet in tree.iter(f"{_TABLE}table"):
        cells, row = sheets.setdefault(sheet.get(f"{_TABLE}name") or "", {}), 0
        for line in sheet.iter(f"{_TABLE}table-row"):
            rows, column = int(line.get(f"{_TABLE}number-rows-repeated") or 1), 0
            for cell in line.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                columns = int(cell.get(f"{_TABLE}number-columns-repeated") or 1)
                text = " ".join("".join(each.itertext()) for each in cell.iter(f"{_TEXT}p"))
                if text and cell.get(f"{_OFFICE}value-type") in _DISPLAYED:
                    for at in range(min(rows, _REPEATED)):
                        for to in range(min(columns, _REPEATED)):
                            cells[row + at, column + to] = partial(_fault, text)
                column += columns
            row += rows
    return sheets


def _fault(text: str, _: Any) -> str:
    return text


def _number(column: str) -> int:
    number = 0
    for letter in column:
        number = 26 * number + ord(letter) - 64
    return number - 1


def _styles(tree: Any) -> dict[str, CellFormat]:
    """Return by number the styles of cells whose format says more than the number."""
    codes: dict[str | None, str] = {str(id): code for id, code in _PERCENT.items()}
    codes |= {e.get("numFmtId"): e.get("formatCode") or "" for e in tree.iter("{*}numFmt")}
    styles = tree.find("{*}cellXfs")
    of = [] if styles is None else [codes.get(e.get("numFmtId"), "") for e in styles]
    return {str(n): cell_format for n, code in enumerate(of) if (cell_format := _format(code))}


def _format(code: str) -> CellFormat | None:
    """Return how a format of numbers shows one; None if it adds nothing to it."""
    before, after, numbers, factor = "", "", 0, 1.0
    for part in _PART.finditer(code.partition(";")[0]):
        text = part["quoted"] or part["escaped"] or part["sign"] or part["literal"] or ""
        if number := part["number"]:
            numbers += 1
            factor /= 1000 ** (len(number) - len(number.rstrip(",")))  # "0,": in thousands
        factor *= 100 if part["literal"] == "%" else 1
        if numbers:
            after += text
        else:
            before += text
    if numbers != 1 or not (before + after).strip("-()+ "):
        return None

    def display(value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{before}{shown_number(value * factor)}{after}" if is_number else value

    return display


def shown_number(value: float) -> str:
    """Return a number with the 15 digits that programs show."""
    return str(int(value)) if value.is_integer() else f"{value:.15g}"
