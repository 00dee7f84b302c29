"""The kinds of documents: how their files and media types are called, and their parsers."""

from __future__ import annotations

from functools import cache
from pkgutil import resolve_name
from typing import Final, NamedTuple

from moothall.build import Extension
from moothall.research.reading.html import Document


class DocumentKind(NamedTuple):
    """A kind of document that research reads.

    A file can make a parser take much, so it runs in a process of its own, with limits of memory
    and time, and is imported only there.

    Attributes:
        suffixes: how names of its files end, such as `.docx .docm`
        media_types: what servers call it, such as `text/x-diary`
        parser: the function that returns the `Document` of a file's bytes, as `MODULE:NAME`; empty
            for moothall's own kinds that are read as text
        package: what a parser of moothall's own needs beside it
    """

    suffixes: str = ""
    media_types: str = ""
    parser: str = ""
    package: str = ""

    def read(self, data: bytes) -> Document:
        """Read a document's bytes."""
        document: Document = resolve_name(self.parser)(data)
        return document


def _parsed(suffixes: str, media_types: str, package: str, parser: str) -> DocumentKind:
    return DocumentKind(suffixes, media_types, f"moothall.research.reading.{parser}", package)


_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_OPEN: Final = "application/vnd.oasis.opendocument."
_EXCEL: Final = "application/vnd.ms-excel"

_OUR_KINDS: Final = {
    "text": DocumentKind(".txt .text .log .debian"),
    "markdown": DocumentKind(
        ".md .markdown .mdown .mdx .mkd .qmd .rmd", "text/markdown text/x-markdown"
    ),
    "rest": DocumentKind(".rst .rest"),
    "html": DocumentKind(".html .htm .xhtml", "text/html application/xhtml+xml"),
    "pdf": _parsed(".pdf", "application/pdf", "pypdfium2", "pdf.document:read_pdf_bytes"),
    "docx": _parsed(
        ".docx", f"{_OFFICE}wordprocessingml.document", "lxml", "office.word:read_docx"
    ),
    "odt": _parsed(".odt", f"{_OPEN}text", "lxml", "office.open_document:read_odt"),
    "rtf": _parsed(".rtf", "application/rtf text/rtf", "striprtf", "rtf:read_rtf"),
    "spreadsheet": _parsed(
        ".xlsx .xlsm .xlsb .xls .ods",
        f"{_OFFICE}spreadsheetml.sheet {_EXCEL} {_EXCEL}.sheet.macroenabled.12 "
        f"{_EXCEL}.sheet.binary.macroenabled.12 {_OPEN}spreadsheet",
        "python_calamine",
        "office.sheets:read_spreadsheet",
    ),
    "presentation": _parsed(
        ".pptx .odp",
        f"{_OFFICE}presentationml.presentation {_OPEN}presentation",
        "lxml",
        "office.slides:read_presentation",
    ),
    "mail": _parsed(".eml .mbox", "message/rfc822 application/mbox", "lxml", "mail:read_mail"),
    "paper": _parsed(".nxml", "", "lxml", "jats:read_jats"),
    "epub": _parsed(".epub", "application/epub+zip", "lxml", "archives:read_epub"),
    "manual": _parsed("", "", "lxml", "manual:read_manual"),  # called by its section: `ls.1`
    "notebook": DocumentKind(".ipynb"),
    "table": DocumentKind(".csv .tsv", "text/csv text/tab-separated-values"),
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


@cache
def document_kinds() -> dict[str, DocumentKind]:
    """Return all kinds by name: ours, then those of installed packages."""
    return {**Extension.rows("moothall.documents", DocumentKind), **_OUR_KINDS}


def has_parser(kind: str) -> bool:
    """Return whether files of a kind are read by a parser, in a process of its own."""
    return bool(document_kinds()[kind].parser)


@cache
def by_suffix() -> dict[str, str]:
    """Return the names of the kinds by how files end; ours come first."""
    kinds = document_kinds().items()
    return {end: name for name, each in kinds for end in each.suffixes.lower().split()}


@cache
def by_media_type() -> dict[str, str]:
    """Return the names of the kinds by media type; ours come first."""
    kinds = document_kinds().items()
    return {type: name for name, each in kinds for type in each.media_types.lower().split()}


def kind_label(kind: str) -> str:
    """Return how messages call a kind: in capitals if its files end so, as PDF."""
    return kind.upper() if by_suffix().get(f".{kind}") == kind else kind
