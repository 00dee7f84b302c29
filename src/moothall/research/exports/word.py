"""A report as a Word document: no macro, no image, no link but to its own sources."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from moothall.build import SafeHTML
from moothall.research.page import LINKS, parts_of, sanitized, title_of
from moothall.research.reading.own_reports import AUTHOR
from moothall.research.sentences import NOTE

if TYPE_CHECKING:
    from moothall.research.findings import Passage

_LIST_STYLES: Final = {"bullet_list_open": "List Bullet", "ordered_list_open": "List Number"}
_MONOSPACE: Final = "Courier New"
_MAX_LEVELS: Final = 3  # of lists, which have styles


def word_document(report: Any) -> bytes:
    """Return a `Report` as a Word document; of its links, only those to sources are live."""
    report.forms["docx"].check_installed()
    import docx

    body, foot, passages, heading = parts_of(report)
    document = docx.Document()
    document.core_properties.title = sanitized(title_of(body))[:255]
    document.core_properties.author = AUTHOR
    document.core_properties.comments = ""
    writer = _WordWriter(document, passages)
    writer.write(body)
    if passages:
        document.add_heading(heading, 2)
        for number, passage in sorted(passages.items()):
            writer.write_source(number, passage)
    writer.write(foot)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


class _WordWriter:
    """Writes Markdown into a Word document."""

    def __init__(self, document: Any, passages: dict[int, Passage]) -> None:
        self._document = document
        self._passages = passages
        self._list_styles: list[str] = []
        self._quote_depth = 0
        self._paragraph: Any = None
        self._table: list[list[Any]] = []  # the tokens of each cell, row by row

    def write(self, text: str) -> None:
        """Append Markdown, block by block."""
        for token in SafeHTML.markdown_parser().parse(text):
            kind = token.type
            if kind in _LIST_STYLES:
                self._list_styles.append(_LIST_STYLES[kind])
            elif kind in ("bullet_list_close", "ordered_list_close"):
                self._list_styles.pop()
            elif kind in ("blockquote_open", "blockquote_close"):
                self._quote_depth += 1 if kind == "blockquote_open" else -1
            elif kind == "heading_open":
                self._paragraph = self._document.add_heading("", min(int(token.tag[1]), 9))
            elif kind == "paragraph_open":
                self._paragraph = self._document.add_paragraph(style=self._paragraph_style())
            elif kind == "table_open":
                self._table = []
            elif kind == "tr_open":
                self._table.append([])
            elif kind == "table_close":
                self._write_table()
            elif kind == "inline":
                self._write_inline(token)
            elif kind in ("fence", "code_block"):
                self._paragraph = self._document.add_paragraph()
                self._write_run(token.content.rstrip("\n"), mono=True)
                self._paragraph = None

    def _paragraph_style(self) -> str:
        if not self._list_styles:
            return "Quote" if self._quote_depth else "Normal"
        level = min(len(self._list_styles), _MAX_LEVELS)
        return f"{self._list_styles[-1]} {level}" if level > 1 else self._list_styles[-1]

    def _write_inline(self, token: Any) -> None:
        if self._paragraph is None:  # a cell
            if self._table:
                self._table[-1].append(token)
            return
        self._write_spans(token.children or [])
        self._paragraph = None

    def _write_table(self) -> None:
        rows = [row for row in self._table if row]
        if rows:
            table = self._document.add_table(len(rows), max(map(len, rows)), "Table Grid")
            for row, cells in zip(rows, table.rows, strict=True):
                for token, cell in zip(row, cells.cells, strict=False):
                    self._paragraph = cell.paragraphs[0]
                    self._write_spans(token.children or [])
        self._table, self._paragraph = [], None

    def _write_spans(self, tokens: list[Any]) -> None:
        bold = italic = False
        open_links: list[tuple[str, str]] = []  # of links that are open, with the text since
        for token in tokens:
            kind = token.type
            if kind in ("strong_open", "strong_close"):
                bold = kind == "strong_open"
            elif kind in ("em_open", "em_close"):
                italic = kind == "em_open"
            elif kind == "link_open":
                open_links.append((str(token.attrs["href"]), ""))
            elif kind == "link_close" and open_links:
                url, link_text = open_links.pop()
                if url != link_text:
                    self._write_run(f" ({url})")
            elif kind in ("softbreak", "hardbreak"):
                self._write_run(" " if kind == "softbreak" else "\n")
            elif token.content:
                open_links = [(url, link_text + token.content) for url, link_text in open_links]
                if kind == "code_inline":
                    self._write_run(token.content, mono=True)
                else:
                    self._write_with_notes(token.content, bold, italic)

    def _write_with_notes(self, text: str, bold: bool, italic: bool) -> None:
        """Write a text; a footnote of a passage leads to it."""
        at = 0
        for match in NOTE.finditer(text):
            if int(match[1]) in self._passages:
                self._write_run(text[at : match.start()], bold, italic)
                self._write_link(match[1], f"passage-{match[1]}")
                at = match.end()
        self._write_run(text[at:], bold, italic)

    def _write_run(
        self, text: str, bold: bool = False, italic: bool = False, mono: bool = False
    ) -> None:
        if text:
            run = self._paragraph.add_run(sanitized(text))
            run.bold, run.italic = bold or None, italic or None
            if mono:
                run.font.name = _MONOSPACE

    def _write_link(self, text: str, anchor: str = "", url: str = "") -> None:
        from docx.opc.constants import RELATIONSHIP_TYPE
        from docx.oxml import OxmlElement
        from docx.oxml.ns import qn

        element = OxmlElement("w:hyperlink")
        if anchor:
            element.set(qn("w:anchor"), anchor)
        else:
            part = self._paragraph.part
            relation_id = part.relate_to(url, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
            element.set(qn("r:id"), relation_id)
        run = self._paragraph.add_run(sanitized(text))
        run.font.superscript = bool(anchor) or None
        run.font.underline = not anchor or None
        element.append(run._r)
        self._paragraph._p.append(element)

    def write_source(self, number: int, passage: Passage) -> None:
        """Write a source: its title, where and when it was read, and the passage."""
        from docx.oxml import OxmlElement
        from docx.oxml.ns import qn

        self._paragraph = self._document.add_paragraph()
        for name in ("w:bookmarkStart", "w:bookmarkEnd"):
            mark = OxmlElement(name)
            mark.set(qn("w:id"), str(number))
            if name.endswith("Start"):
                mark.set(qn("w:name"), f"passage-{number}")
            self._paragraph._p.append(mark)
        self._write_run(f"{number} {passage.title or passage.url}", bold=True)
        self._write_run("\n")
        if passage.url.lower().startswith(LINKS):
            self._write_link(passage.url, url=sanitized(passage.url))
        else:
            self._write_run(passage.url)
        read_text = (
            f"read {passage.fetched_at[:10]}" if passage.fetched_at else "read on no known day"
        )
        self._write_run(f"\n{read_text}, sha256 {passage.sha256}")
        self._paragraph = self._document.add_paragraph(style="Quote")
        self._write_run(passage.text)
        self._paragraph = None
