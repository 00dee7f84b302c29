"""Reports of moothall among the files of a folder: what they say is in their sources."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Final
from zipfile import BadZipFile, ZipFile

REPORT_MARK: Final = "\n<!-- moothall report -->\n"
"""Ends a report in Markdown."""
GENERATOR: Final = '<meta name="generator" content="moothall report">'
"""Stands in the head of a report as a page."""
AUTHOR: Final = "moothall"
"""Wrote a report as a Word document."""
_HEAD_BYTES: Final = 16_384


def is_own_report(kind: str, data: bytes) -> bool:
    """Whether a file of a kind of `kind_of` is a report of moothall, as it was written."""
    if kind in ("markdown", "text"):
        return data[-100:].rstrip().endswith(REPORT_MARK.strip().encode())
    if kind == "html":
        return GENERATOR.encode() in data[:_HEAD_BYTES]
    if kind == "docx":
        with (
            suppress(BadZipFile, KeyError, OSError),
            ZipFile(BytesIO(data)) as archive,
            archive.open("docProps/core.xml") as properties,
        ):
            return f"<dc:creator>{AUTHOR}<".encode() in properties.read(_HEAD_BYTES)
    return False
