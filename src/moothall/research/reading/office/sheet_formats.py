"""What the cells of a workbook show beside their values: percentages, units, errors."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from moothall import UnreadableDocument
from moothall.build import counted
from moothall.research.reading.archives import PackedFile

_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OFFICE: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_STYLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_DISPLAYED_TYPES: Final = ("percentage", "currency", "time")
_MAX_REPEATED: Final = 1000  # rows or columns of one cell that are looked at

_CELL_XML: Final = re.compile(
    r'<(?:\w+:)?c\b(?=[^>]*?\br="([A-Z]{1,3})(\d{1,7})")(?=(?:[^>]*?\bs="(\d+)")?)'
    r'(?:[^>]*?\bt="e"[^>]*>(?:(?!</(?:\w+:)?c>).)*?<(?:\w+:)?v>([^<]*)<)?',
    re.DOTALL,
)
_FORMAT_PART: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<sign>[^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].'
    r"|(?P<number>[#0?][#0?.,/]*(?:E[+-][#0?]+)?|General|@|[dmyhsDMYHS]+)|(?P<literal>[^;])"
)
_HIDDEN_ROW: Final = re.compile(
    r'<(?:\w+:)?row\b(?=[^>]*?\bhidden="(?:1|true)")[^>]*?\br="(\d{1,7})"'
)
_HIDDEN_COLUMNS: Final = re.compile(
    r'<(?:\w+:)?col\b(?=[^>]*?\bhidden="(?:1|true)")(?=[^>]*?\bmin="(\d{1,5})")'
    r'[^>]*?\bmax="(\d{1,5})"'
)
_SHARED_CELL: Final = re.compile(
    r'<(?:\w+:)?c\b(?=[^>]*?\br="([A-Z]{1,3})(\d{1,7})")[^>]*?\bt="s"[^>]*>\s*<(?:\w+:)?v>(\d+)<'
)
_HIDING_VALUES: Final = ("collapse", "filter")
_MAX_COLUMNS, _MAX_HIDDEN = 16_384, 1_048_576
_PERCENT_FORMATS: Final = {9: "0%", 10: "0.00%"}
"""The formats that a workbook does not state, and that say more than the number."""

# A cell with a formula and no value, as programs write it that do not reckon; "str" may be empty.
_UNCALCULATED: Final = re.compile(
    rb"<(?:\w+:)?c\b(?![^>]*\bt=[\"']str)[^>]*>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</[^>]*>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</[^>]*>)?\s*</(?:\w+:)?c>"
)
_FULL_CALCULATION: Final = re.compile(rb"<(?:\w+:)?calcPr\b[^>]*\bfullCalcOnLoad=[\"'](?:1|true)")
_ZERO_VALUE: Final = re.compile(rb"(</(?:\w+:)?f>\s*)<(?:\w+:)?v>0</(?:\w+:)?v>")
_NEEDED_SUFFIXES: Final = (".xml", ".rels", ".bin")  # of a workbook, to read its values
CellFormat = Callable[[Any], Any]
"""What a cell shows of its value."""


class SheetLook(NamedTuple):
    """What cells show more than their value, by row and column (from 0), and what is hidden."""

    formats: dict[tuple[int, int], CellFormat]
    rows: set[int]
    columns: set[int]


def write_as_shown(rows: list[list[Any]], sheet: Any, look: SheetLook) -> Counter[str]:
    """Change rows into what people see of them; return how many rows and columns are hidden.

    19% for 0.19, 5 € for 5, the error of a cell without a value; what a cell over several rows says
    is in each of them.
    """
    row, column = sheet.start or (0, 0)
    height, width = len(rows), max(map(len, rows), default=0)
    for (top, first), cell_format in look.formats.items():
        if row <= top < row + height and column <= first < column + width:
            cells = rows[top - row]
            cells[first - column] = cell_format(cells[first - column])
    for (top, first), (bottom, _) in sheet.merged_cell_ranges or ():
        if row <= top < row + height and column <= first < column + width:
            for row_below in rows[top - row + 1 : bottom - row + 1]:
                row_below[first - column] = rows[top - row][first - column]
    columns = look.columns.intersection(range(column, column + width))
    seen_rows = [each for at, each in enumerate(rows, row) if at not in look.rows]
    rows[:] = [[e for at, e in enumerate(row, column) if at not in columns] for row in seen_rows]
    return Counter({"hidden row": height - len(seen_rows), "hidden column": len(columns)})


def sheet_looks(data: bytes) -> dict[str, SheetLook]:
    """Return how the sheets of a workbook look, by their names."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return _excel_97_looks(data)
    packed = PackedFile(data, "spreadsheet")
    try:
        if "content.xml" in packed.names:
            return _open_document_looks(packed.parse_xml("content.xml"))
        home = packed.main_part_name("xl/workbook.xml")
        parts = {each.id: each for each in packed.related_parts(home)}
        styles = [packed.parse_xml(each.name) for each in parts.values() if each.kind == "styles"]
        by_style = _formats_by_style(styles[0]) if styles else {}
        texts = [
            packed.parse_xml(each.name) for each in parts.values() if each.kind == "sharedStrings"
        ]
        shared_texts = _partly_struck(texts[0]) if texts else {}
        sheets: dict[str, SheetLook] = {}
        for sheet in packed.parse_xml(home).iter("{*}sheet"):
            id = next((value for key, value in sheet.items() if key.endswith("}id")), "")
            if id not in parts:
                continue
            text = packed.read(parts[id].name).decode(errors="replace")
            cells: dict[tuple[int, int], CellFormat] = {}
            columns = set[int]()
            for first, last in _HIDDEN_COLUMNS.findall(text):
                columns.update(range(int(first) - 1, min(int(last), _MAX_COLUMNS)))
            rows = {int(each) - 1 for each in _HIDDEN_ROW.findall(text)}
            sheets[sheet.get("name") or ""] = SheetLook(cells, rows, columns)
            for column, row, number in _SHARED_CELL.findall(text) if shared_texts else ():
                if number in shared_texts:
                    cells[int(row) - 1, _column_number(column)] = partial(
                        _show_text, shared_texts[number]
                    )
            for column, row, style, fault in (
                _CELL_XML.findall(text) if by_style or "#" in text else ()
            ):
                if fault or style in by_style:
                    cell_format = partial(_show_text, fault) if fault else by_style[style]
                    cells[int(row) - 1, _column_number(column)] = cell_format
    except UnreadableDocument:  # too large to be looked through; its values are read
        return {}
    return sheets


def _excel_97_looks(data: bytes) -> dict[str, SheetLook]:
    """Return the same of a workbook of Excel 97 to 2003."""
    import xlrd

    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO())
    except Exception:  # damaged, encrypted or older; its values are read, if they can be
        return {}
    struck_fonts = {each.font_index for each in book.font_list if each.struck_out}
    by_style = {
        number: cell_format
        for number, each in enumerate(book.xf_list)
        if (
            cell_format := _SHOW_NOTHING
            if each.font_index in struck_fonts
            else _cell_format(book.format_map[each.format_key].format_str)
        )
    }
    return {
        sheet.name: SheetLook(
            {
                (row, column): by_style[style]
                for row in range(sheet.nrows)
                for column in range(sheet.row_len(row))
                if (style := sheet.cell_xf_index(row, column)) in by_style
            }
            | {
                at: partial(
                    _show_text, _without_struck(str(sheet.cell_value(*at)), runs, struck_fonts)
                )
                for at, runs in sheet.rich_text_runlist_map.items()
                if any(font in struck_fonts for _, font in runs)
            },
            {row for row, each in sheet.rowinfo_map.items() if each.hidden},
            {column for column, each in sheet.colinfo_map.items() if each.hidden},
        )
        for sheet in book.sheets()
    }


def _without_struck(text: str, runs: list[tuple[int, int]], struck: set[int]) -> str:
    """Return a cell's text without its parts in fonts that strike out; the first has no run."""
    parts = pairwise([*runs, (len(text), 0)])
    kept_parts = (text[start:end] for (start, font), (end, _) in parts if font not in struck)
    return text[: runs[0][0]] + "".join(kept_parts)


def _open_document_looks(tree: Any) -> dict[str, SheetLook]:
    """Return the same of OpenDocument, where a percentage, amount or time says what it shows."""
    sheets: dict[str, SheetLook] = {}
    struck_styles = {
        style.getparent().get(f"{_STYLE}name")
        for style in tree.iter(f"{_STYLE}text-properties")
        if style.get(f"{_STYLE}text-line-through-style", "none") != "none"
    }
    for sheet in tree.iter(f"{_TABLE}table"):
        look = SheetLook({}, set(), set())
        sheets[sheet.get(f"{_TABLE}name") or ""] = look
        at = 0
        for each in sheet.iter(f"{_TABLE}table-column"):
            columns = int(each.get(f"{_TABLE}number-columns-repeated") or 1)
            if each.get(f"{_TABLE}visibility") in _HIDING_VALUES:
                look.columns.update(range(at, min(at + columns, _MAX_COLUMNS)))
            at += columns
        row = 0
        for row_element in sheet.iter(f"{_TABLE}table-row"):
            rows, column = int(row_element.get(f"{_TABLE}number-rows-repeated") or 1), 0
            if row_element.get(f"{_TABLE}visibility") in _HIDING_VALUES:
                look.rows.update(range(row, row + min(rows, _MAX_HIDDEN)))
            for cell in row_element.iterchildren(
                f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"
            ):
                columns = int(cell.get(f"{_TABLE}number-columns-repeated") or 1)
                text = " ".join("".join(each.itertext()) for each in cell.iter(f"{_TEXT}p"))
                is_struck = cell.get(f"{_TABLE}style-name") in struck_styles
                text *= not is_struck
                if is_struck or (text and cell.get(f"{_OFFICE}value-type") in _DISPLAYED_TYPES):
                    for at in range(min(rows, _MAX_REPEATED)):
                        for to in range(min(columns, _MAX_REPEATED)):
                            look.formats[row + at, column + to] = partial(_show_text, text)
                column += columns
            row += rows
    return sheets


def _show_text(text: str, _: Any) -> str:
    return text


_SHOW_NOTHING: Final = partial(_show_text, "")
"""What is said of a cell that is struck out."""


def _is_struck(properties: Any) -> bool:
    strike = None if properties is None else properties.find("{*}strike")
    return strike is not None and strike.get("val") not in ("0", "false")


def _partly_struck(tree: Any) -> dict[str, str]:
    """Return by number the texts of a workbook that are struck out in part, without these parts."""
    texts: dict[str, str] = {}
    for number, each in enumerate(tree):
        runs = each.findall("{*}r")
        if any(_is_struck(run.find("{*}rPr")) for run in runs):
            kept_runs = (run for run in runs if not _is_struck(run.find("{*}rPr")))
            texts[str(number)] = "".join(run.findtext("{*}t") or "" for run in kept_runs)
    return texts


def _column_number(column: str) -> int:
    number = 0
    for letter in column:
        number = 26 * number + ord(letter) - 64
    return number - 1


def _formats_by_style(tree: Any) -> dict[str, CellFormat]:
    """Return by number the styles of cells whose format says more than the number."""
    codes: dict[str | None, str] = {str(id): code for id, code in _PERCENT_FORMATS.items()}
    codes |= {e.get("numFmtId"): e.get("formatCode") or "" for e in tree.iter("{*}numFmt")}
    struck = {str(n) for n, e in enumerate(tree.iterfind("{*}fonts/{*}font")) if _is_struck(e)}
    formats = (
        _SHOW_NOTHING
        if e.get("fontId") in struck
        else _cell_format(codes.get(e.get("numFmtId"), ""))
        for e in tree.iterfind("{*}cellXfs/{*}xf")
    )
    return {str(n): each for n, each in enumerate(formats) if each}


def _cell_format(code: str) -> CellFormat | None:
    """Return how a format of numbers shows one; None if it adds nothing to it."""
    prefix, suffix, number_count, factor = "", "", 0, 1.0
    for part in _FORMAT_PART.finditer(code.partition(";")[0]):
        text = part["quoted"] or part["escaped"] or part["sign"] or part["literal"] or ""
        if number := part["number"]:
            number_count += 1
            factor /= 1000 ** (len(number) - len(number.rstrip(",")))  # "0,": in thousands
        factor *= 100 if part["literal"] == "%" else 1
        if number_count:
            suffix += text
        else:
            prefix += text
    if number_count != 1 or not (prefix + suffix).strip("-()+ "):
        return None

    def display(value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{prefix}{shown_number(value * factor)}{suffix}" if is_number else value

    return display


def shown_number(value: float) -> str:
    """Return a number with the 15 digits that programs show."""
    return str(int(value)) if value.is_integer() else f"{value:.15g}"


def without_stale_values(data: bytes) -> tuple[bytes, str]:
    """Return a workbook without values that nobody has reckoned, and how many formulas lack one."""
    packed, count, workbook = PackedFile(data, "spreadsheet"), 0, io.BytesIO()
    try:
        files = {e: packed.read(e) for e in sorted(packed.names) if e.endswith(_NEEDED_SUFFIXES)}
    except UnreadableDocument:  # too large to be looked through; its rows are read
        return data, ""
    recalculates = _FULL_CALCULATION.search(files.get("xl/workbook.xml", b"")) is not None
    for name in files:
        if re.fullmatch(r"xl/worksheets/[^/]+\.xml", name):
            if recalculates:
                files[name] = _ZERO_VALUE.sub(rb"\1", files[name])
            count += len(_UNCALCULATED.findall(files[name]))
    if not count:
        return data, ""
    if recalculates:
        with zipfile.ZipFile(workbook, "w") as file:
            for name, each in files.items():
                file.writestr(name, each)
    missing = (
        f"{counted(count, 'formula')} without a stored value: save it in a spreadsheet program"
    )
    return workbook.getvalue() or data, missing
