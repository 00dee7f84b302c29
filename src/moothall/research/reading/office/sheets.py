"""Read spreadsheets: the rows of each sheet; what it hides is left out."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from moothall import MissingExtra, UnreadableDocument
from moothall.build import counted
from moothall.research.findings import Section
from moothall.research.reading.archives import SectionWriter
from moothall.research.reading.html import Document
from moothall.research.reading.office.sheet_formats import (
    SheetLook,
    sheet_looks,
    shown_number,
    without_stale_values,
    write_as_shown,
)
from moothall.research.reading.tables import table_document

_MAX_ROWS: Final = 200_000  # of a spreadsheet


def read_spreadsheet(data: bytes) -> Document:
    """Return the rows of each sheet that is shown, as `column: value; …`."""
    MissingExtra.unless("reading spreadsheets", "research", "python_calamine", "xlrd")
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    writer = SectionWriter()
    looks_by_sheet, hidden = sheet_looks(data), Counter[str]()
    data, missing = (
        without_stale_values(data) if zipfile.is_zipfile(io.BytesIO(data)) else (data, "")
    )
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        visible_names = [
            e.name for e in book.sheets_metadata if e.visible == SheetVisibleEnum.Visible
        ]
        for number, name in enumerate(visible_names, 1):
            sheet = book.get_sheet_by_name(name)
            rows = sheet.to_python()
            if len(rows) > _MAX_ROWS:
                raise UnreadableDocument(
                    f"it has more than {_MAX_ROWS:,} rows, in sheet {name[:80]!r}"
                )
            look = looks_by_sheet.get(name) or SheetLook({}, set(), set())
            hidden += write_as_shown(rows, sheet, look)
            rows_as_csv = io.StringIO(newline="")
            csv.writer(rows_as_csv).writerows([*map(_cell_text, row)] for row in rows)
            document = table_document(rows_as_csv.getvalue(), ",")
            for each, text in _section_texts(document):
                sheet_name = each.title.removesuffix("row 1").removesuffix(" – ")
                title = " – ".join(
                    filter(None, (name if len(visible_names) > 1 else "", sheet_name))
                )
                writer.begin_section(f"sheet={number}&{each.anchor}", title)
                writer.write(text)
    except CalamineError as error:
        is_locked = "password" in str(error).lower()
        reason = "is encrypted: a password is needed" if is_locked else f"is damaged: {error}"
        raise UnreadableDocument(f"the spreadsheet {reason}") from error
    faults = [missing, *(counted(count, kind) for kind, count in hidden.items() if count)]
    return writer.document("spreadsheet", missing="; ".join(filter(None, faults)))


def _cell_text(value: Any) -> str:
    if isinstance(value, timedelta):  # hours may be more than a day has
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return shown_number(value) if isinstance(value, float) else " ".join(str(value).split())


def _section_texts(document: Document) -> Iterator[tuple[Section, str]]:
    sections = document.sections or [Section(0, "row-1", "")]
    ends = [*(each.start for each in sections[1:]), len(document.text)]
    for each, end in zip(sections, ends, strict=True):
        yield each, document.text[each.start : end]
