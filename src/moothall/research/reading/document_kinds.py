"""The kinds of documents: how their files and media types are called, and their parsers.

Parsers can be made to take much, so they run in a process of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from moothall.research.reading.html import Document


class DocumentKind(NamedTuple):
    """A kind of document; if it has a parser, the package that it needs, and the function."""

    suffixes: str = ""
    media_types: str = ""
    package: str = ""
    module: str = ""
    function: str = ""

    def read(self, data: bytes) -> Document:
        """Read a document's bytes; the module is imported in the process that reads."""
        module = import_module(f"moothall.research.reading.{self.module}")
        document: Document = getattr(module, self.function)(data)
        return document


_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_OPEN: Final = "application/vnd.oasis.opendocument."
_EXCEL: Final = "application/vnd.ms-excel"

KINDS: Final = {
    "text": DocumentKind(".txt .text .log .debian"),
    "markdown": DocumentKind(
        ".md .markdown .mdown .mdx .mkd .qmd .rmd", "text/markdown text/x-markdown"
    ),
    "rest": DocumentKind(".rst .rest"),
    "html": DocumentKind(".html .htm .xhtml", "text/html application/xhtml+xml"),
    "pdf": DocumentKind(".pdf", "application/pdf", "pypdfium2", "pdf", "read_pdf_bytes"),
    "docx": DocumentKind(
        ".docx", f"{_OFFICE}wordprocessingml.document", "lxml", "word", "read_docx"
    ),
    "odt": DocumentKind(".odt", f"{_OPEN}text", "lxml", "office", "read_odt"),
    "rtf": DocumentKind(".rtf", "application/rtf text/rtf", "striprtf", "rtf", "read_rtf"),
    "spreadsheet": DocumentKind(
        ".xlsx .xlsm .xlsb .xls .ods",
        f"{_OFFICE}spreadsheetml.sheet {_EXCEL} {_EXCEL}.sheet.macroenabled.12 "
        f"{_EXCEL}.sheet.binary.macroenabled.12 {_OPEN}spreadsheet",
        "python_calamine",
        "office",
        "read_spreadsheet",
    ),
    "presentation": DocumentKind(
        ".pptx .odp",
        f"{_OFFICE}presentationml.presentation {_OPEN}presentation",
        "lxml",
        "office",
        "read_presentation",
    ),
    "mail": DocumentKind(
        ".eml .mbox", "message/rfc822 application/mbox", "lxml", "office", "read_mail"
    ),
    "epub": DocumentKind(".epub", "application/epub+zip", "lxml", "archives", "read_epub"),
    "manual": DocumentKind(
        "", "", "lxml", "manual", "read_manual"
    ),  # called by its section: `ls.1`
    "notebook": DocumentKind(".ipynb"),
    "table": DocumentKind(".csv .tsv", "text/csv text/tab-separated-values"),
    "entries": DocumentKind(".ics .vcf"),
    "python": DocumentKind(".py .pyi"),
    "source": DocumentKind(
        ".adoc .asc .asciidoc .bash .bat .bib .c .cc .cfg .clj .cmake .conf .cpp .cs .css "
        ".cxx .dart .defs .diff .el .erl .ex .exs .f90 .go .gradle .groovy .h .hpp .hs "
        ".ini .java .jl .js .json .jsonl .jsx .kt .lisp .lua .m .mjs .mk .ml .org .patch "
        ".php .pl .pm .properties .proto .ps1 .r .rb .rs .scala .service .sh .sql .srt "
        ".svg .swift .tcl .tex .toml .ts .tsx .vim .vtt .xml .yaml .yml .zig .zsh",
        "application/json application/ld+json application/x-ndjson application/yaml "
        "application/xml application/rss+xml application/atom+xml",
    ),
}
"""By the name of the kind."""
PARSED_KINDS: Final = {name: each for name, each in KINDS.items() if each.package}
BY_SUFFIX: Final = {end: name for name, each in KINDS.items() for end in each.suffixes.split()}
BY_MEDIA_TYPE: Final = {
    type: name for name, each in KINDS.items() for type in each.media_types.split()
}


def kind_label(kind: str) -> str:
    """Return how messages call a kind: in capitals if its files end so, as PDF."""
    return kind.upper() if BY_SUFFIX.get(f".{kind}") == kind else kind
