"""The parsers that can be made to take much, which therefore run in a process of its own."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from moothall.research.reading.html import Document


class Parser(NamedTuple):
    """A parser: the package that it needs, and the function that reads a document's bytes."""

    package: str
    module: str
    function: str

    def read(self, data: bytes) -> Document:
        """Read a document; the module is imported in the process that reads."""
        document: Document = getattr(import_module(self.module), self.function)(data)
        return document


PARSERS: Final = {
    "pdf": Parser("pypdfium2", "moothall.research.reading.pdf", "read_pdf_bytes"),
    "docx": Parser("lxml", "moothall.research.reading.word", "read_docx"),
    "odt": Parser("lxml", "moothall.research.reading.office", "read_odt"),
    "spreadsheet": Parser(
        "python_calamine", "moothall.research.reading.office", "read_spreadsheet"
    ),
    "presentation": Parser("lxml", "moothall.research.reading.office", "read_presentation"),
    "mail": Parser("lxml", "moothall.research.reading.office", "read_mail"),
    "rtf": Parser("striprtf", "moothall.research.reading.rtf", "read_rtf"),
    "manual": Parser("lxml", "moothall.research.reading.manual", "read_manual"),
    "epub": Parser("lxml", "moothall.research.reading.packed", "read_epub"),
}
"""By the kind of document."""
