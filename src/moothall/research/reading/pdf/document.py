"""Read PDF: the title, the text of each page. Hostile files cost much: see process.py."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import median
from typing import Any, Final

from moothall import MissingExtra, UnreadableDocument
from moothall.build import counted
from moothall.research.findings import Section
from moothall.research.reading.encodings import plain_text, whole_words
from moothall.research.reading.html import Document, is_title_of
from moothall.research.reading.pdf.gaps import found_blocks, rows_of
from moothall.research.reading.pdf.margins import rest_of_sentence, running_lines
from moothall.research.reading.pdf.page import Page, Run, page_of, upright_text_page
from moothall.research.reading.pdf.ruled import ruled_tables
from moothall.research.reading.pdf.table import Heads, PageTable, Span, are_equal, write

MAX_PAGES: Final = 2000
MAX_CHARS: Final = 20_000_000
_PAGE_BREAK: Final = "\f"  # between two pages; none has it


def read_pdf_bytes(data: bytes) -> Document:
    """Return a PDF's title and text, a section for each page; a damaged page is `missing`."""
    MissingExtra.unless("reading PDF", "research", "pypdfium2")
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableDocument("the PDF is encrypted: a password is needed") from error
        raise UnreadableDocument(f"the PDF is damaged: {error}") from error
    if len(pdf) > MAX_PAGES:
        raise UnreadableDocument(f"the PDF has {len(pdf)} pages, {MAX_PAGES} are read at most")
    if pdf.get_formtype():
        pdf.init_forms()
    pages: list[Page] = []
    damaged_pages: list[str] = []
    length = 0
    for number in range(len(pdf)):
        try:
            pages.append(_read_page(pdf, number))
        except pypdfium2.PdfiumError:
            damaged_pages.append(str(number + 1))
            continue
        length += sum(len(line.text) + 1 for line in pages[-1].lines)
        if length > MAX_CHARS:
            raise UnreadableDocument(f"the PDF has more than {MAX_CHARS} characters of text")
    picture_pages = [str(page.number) for page in pages if page.is_picture]
    kinds = (("damaged page", damaged_pages), ("scanned page", picture_pages))
    missing = "; ".join(f"{counted(len(e), kind)}: {', '.join(e)}" for kind, e in kinds if e)
    pages = [page for page in pages if page.lines]
    texts = _texts(pages)
    if not any(texts):
        reason = missing if damaged_pages else "no text: its pages may be pictures"
        raise UnreadableDocument(f"the PDF has {reason}")
    joined_text = _PAGE_BREAK.join(texts).replace("-\n", "\u2010\n")
    texts = whole_words(joined_text, in_place=False).replace("\u2010\n", "-\n").split(_PAGE_BREAK)
    numbers = [page.number for page, text in zip(pages, texts, strict=True) if text]
    texts = [text for text in texts if text]
    starts = accumulate((len(each) + 2 for each in texts), initial=0)
    sections = [
        Section(start, f"page={n}", f"page {n}") for n, start in zip(numbers, starts, strict=False)
    ]
    title, text = plain_text(pdf.get_metadata_value("Title")).strip(), "\n\n".join(texts)
    title = title if is_title_of(title, text) else ""
    return Document(title, text, sections, missing=missing)


def _read_page(pdf: Any, number: int) -> Page:
    import pypdfium2.raw

    page = pdf[number]
    try:
        if pdf.formenv is not None and page.flatten() == pypdfium2.raw.FLATTEN_SUCCESS:
            page.close()
            page = pdf[number]  # whose text now has what was filled in
        return page_of(page, upright_text_page(page), number + 1)
    finally:
        page.close()


def _texts(pages: list[Page]) -> list[str]:
    """Return the text of each page: tables with their heads, sentences whole, feet once."""
    texts: list[str] = []
    last_lines: list[str] = []
    heads: Heads | None = None
    is_open = False  # whether a table with heads ends the page before
    for page, left_out in zip(pages, running_lines(pages), strict=True):
        text = ""
        lines: list[str] = []
        was_open = is_open and heads is not None
        for at, piece in enumerate(
            _pieces(page, left_out, heads.spans if heads and was_open else ())
        ):
            is_open = isinstance(piece, PageTable)
            if not isinstance(piece, PageTable):
                lines.append(piece)
                continue
            if heads and (at or not (was_open or are_equal(heads.spans, piece.spans))):
                heads = None
            above, rows, heads = write(piece, heads)
            lines = [*lines, *above]
            if rows:
                text += "\n\n".join(filter(None, ("\n".join(lines), *rows))) + "\n\n"
                lines = []
        text = plain_text(text + "\n".join(lines)).strip()
        if rest := rest_of_sentence(last_lines, text):
            texts[-1] += "\n" + text[:rest]
            text = text[rest:].lstrip()
        last_lines = lines
        texts.append(text)
    return texts


def _pieces(page: Page, left_out: set[int], carried: Sequence[Span]) -> list[str | PageTable]:
    """Return the lines and tables of a page in the order of reading, without the lines left out.

    `carried` are the columns of a table that ends the page before.
    """
    lines = {at: page.runs(at) for at in range(len(page.lines)) if at not in left_out}
    pieces: list[tuple[float, str | PageTable]] = []  # with its place among the lines

    def take(table: PageTable) -> None:
        words = {id(each) for each in table.runs}
        numbers = {each.line for each in table.runs}
        pieces.append((min(numbers) + 0.5, table))
        for at in numbers:
            lines[at] = [each for each in lines[at] if id(each) not in words]

    straight = [run for at, line in lines.items() if page.lines[at].is_straight for run in line]
    if page.rule_ends and straight:
        height = median(each.high - each.low for each in straight)
        for table in ruled_tables(page.rules(), straight, height):
            take(table)
    groups: list[list[list[Run]]] = [[]]
    for at, line in lines.items():
        if line and page.lines[at].is_level:
            groups[-1].append(line)
        else:  # a line that runs another way, or a table, is between
            groups.append([])
    for at, group in enumerate(groups):
        for block in found_blocks(rows_of(group), () if at else carried):
            if isinstance(block, PageTable):
                take(block)
                continue
            place = min(run.line for line in block for run in line) + 0.5
            for line in block:
                pieces.append((place, " ".join(run.text for run in line)))
                for run in line:
                    lines[run.line].remove(run)
    pieces += [(at, " ".join(run.text for run in line)) for at, line in lines.items() if line]
    return [piece for _, piece in sorted(pieces, key=lambda each: each[0])]
