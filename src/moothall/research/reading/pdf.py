"""Read PDF: the title, the text of each page. Hostile files cost much: see process.py."""

from __future__ import annotations

import cmath
import math
import re
from collections import Counter
from itertools import accumulate, chain, pairwise
from typing import Any, Final
from unicodedata import decimal

from moothall import MissingExtra, UnreadableDocument
from moothall.build import counted
from moothall.research.findings import Section
from moothall.research.reading.encodings import plain_text, whole_words
from moothall.research.reading.html import Document, is_title_of
from moothall.research.reading.two_columns import lines_by_column

MAX_PAGES: Final = 2000
MAX_CHARS: Final = 20_000_000
_NUMBER = re.compile(r"\d[\d.,]*[+\u2212-]?\d+")
_WORD = re.compile(r"\S+")
_WHITE: Final = 250  # of 255
_RAISED_BY: Final = 0.2  # of a digit's height
_SMALLER: Final = 0.9
_SLANTED: Final = 0.05  # the sine of what a box is still taken for upright with
_PAGE_BREAK: Final = "\f"  # between two pages; none has it
_CUT_MARK: Final = "\ufffe"  # so PDFium joins the two lines that a hyphen divides


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
    texts: list[str] = []
    numbers: list[int] = []
    damaged_pages: list[str] = []
    picture_pages: list[str] = []
    length = 0
    for number in range(len(pdf)):
        try:
            text, is_picture = _read_page(pdf, number)
        except pypdfium2.PdfiumError:
            damaged_pages.append(str(number + 1))
            continue
        if is_picture:
            picture_pages.append(str(number + 1))
        if text:
            numbers.append(number + 1)
            texts.append(text)
            length += len(text) + 2
        if length > MAX_CHARS:
            raise UnreadableDocument(f"the PDF has more than {MAX_CHARS} characters of text")
    kinds = (("damaged page", damaged_pages), ("scanned page", picture_pages))
    missing = "; ".join(f"{counted(len(e), kind)}: {', '.join(e)}" for kind, e in kinds if e)
    if not texts:
        reason = missing if damaged_pages else "no text: its pages may be pictures"
        raise UnreadableDocument(f"the PDF has {reason}")
    joined_text = _PAGE_BREAK.join(texts).replace("-\n", "\u2010\n")
    texts = whole_words(joined_text, in_place=False).replace("\u2010\n", "-\n").split(_PAGE_BREAK)
    starts = accumulate((len(each) + 2 for each in texts), initial=0)
    sections = [
        Section(start, f"page={n}", f"page {n}") for n, start in zip(numbers, starts, strict=False)
    ]
    title, text = plain_text(pdf.get_metadata_value("Title")).strip(), "\n\n".join(texts)
    title = title if is_title_of(title, text) else ""
    return Document(title, text, sections, missing=missing)


def _read_page(pdf: Any, number: int) -> tuple[str, bool]:
    """Return the text of a page, and whether it has none and shows a picture."""
    import pypdfium2.raw

    page = pdf[number]
    try:
        if pdf.formenv is not None and page.flatten() == pypdfium2.raw.FLATTEN_SUCCESS:
            page.close()
            page = pdf[number]  # whose text now has what was filled in
        text_page = _upright_text_page(page)
        text = _visible_text(text_page.get_text_range().replace("\0", " "), text_page, page)
        text = _with_marks(text, _column_marks(text_page) | _raised_numbers(text, text_page))
        images = () if text.strip() else page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])
        is_picture = any(True for _ in images)
    finally:
        page.close()
    return plain_text(text.replace(_CUT_MARK, "-\n")).strip(), is_picture


def _upright_text_page(page: Any) -> Any:
    """Return a page's text, turned as most lines run: PDFium breaks the words of others."""
    from pypdfium2 import PdfMatrix, raw

    text_page = page.get_textpage()
    count = text_page.count_chars()
    quarters = Counter(
        round(cmath.phase(1j / _up_direction(text_page, at)) / (math.pi / 2)) % 4
        for at in range(0, count, max(1, count // 100))
        if not raw.FPDFText_IsGenerated(text_page, at)
    )
    quarter = max(quarters, key=quarters.__getitem__, default=0)
    if not (quarter or page.get_rotation()):
        return text_page
    text_page.close()
    page.set_rotation(0)
    left_edge, low, right, high = page.get_mediabox()
    width, height = right - left_edge, high - low
    scale = min(width / height, height / width) if quarter % 2 else 1
    matrix = PdfMatrix().translate(-left_edge - width / 2, -low - height / 2).scale(scale, scale)
    matrix = matrix.rotate(-90 * quarter).translate(width / 2, height / 2)
    for each in page.get_objects(max_depth=1):
        each.transform(matrix)
    return page.get_textpage()


def _visible_text(text: str, text_page: Any, page: Any) -> str:
    """Return a text without words white on white or not painted; over pictures they are kept."""
    from ctypes import addressof

    from pypdfium2 import raw

    hidden, is_unseen = [], dict[int, bool]()
    for match in _WORD.finditer(text):
        if not (text_object := raw.FPDFText_GetTextObject(text_page, match.start())):
            continue
        if (key := addressof(text_object.contents)) not in is_unseen:
            mode = raw.FPDFTextObj_GetTextRenderMode(text_object)
            is_unseen[key] = mode == raw.FPDF_TEXTRENDERMODE_INVISIBLE or _is_white(text_object)
        if is_unseen[key] and raw.FPDFText_GetUnicode(text_page, match.start()) == ord(match[0][0]):
            hidden.append(match)
    painted_areas = _painted_areas(page) if hidden else []
    for match in hidden:
        left_edge, low, right, high = text_page.get_charbox(match.start())
        x, y = (left_edge + right) / 2, (low + high) / 2
        if not any(a <= x <= c and b <= y <= d for a, b, c, d in painted_areas):
            text = f"{text[: match.start()]}{' ' * len(match[0])}{text[match.end() :]}"
    return text


def _is_white(page_object: Any) -> bool:
    """Return whether an object of a page is filled with white, or with what is seen through."""
    from ctypes import c_uint

    from pypdfium2 import raw

    *colours, alpha = (c_uint() for _ in range(4))
    has_colour = raw.FPDFPageObj_GetFillColor(page_object, *colours, alpha)
    return bool(has_colour) and (min(e.value for e in colours) >= _WHITE or not alpha.value)


def _painted_areas(page: Any) -> list[tuple[float, float, float, float]]:
    """Return where a page has pictures, or is filled with a colour."""
    from ctypes import c_int

    from pypdfium2 import raw

    boxes = []
    for each in page.get_objects(max_depth=1):
        fill, stroke = c_int(1), c_int()
        if each.type == raw.FPDF_PAGEOBJ_PATH:
            raw.FPDFPath_GetDrawMode(each, fill, stroke)
        if each.type != raw.FPDF_PAGEOBJ_TEXT and fill.value and not _is_white(each):
            boxes.append(each.get_bounds())
    return boxes


def _column_marks(text_page: Any) -> dict[int, str]:
    """Return where the parts of lines begin that run across two columns, each with its place."""
    from pypdfium2 import raw

    boxes = [text_page.get_rect(at) for at in range(text_page.count_rects())]
    lines = lines_by_column(boxes)
    if [*chain.from_iterable(lines)] == [*range(len(boxes))]:
        return {}
    starts = (
        raw.FPDFText_GetCharIndexAtPos(text_page, left_edge + 1, (low + high) / 2, 2, 2)
        for left_edge, low, _, high in boxes
    )
    line_numbers = {at: number for number, line in enumerate(lines) for at in line}
    marks = {int(start): f"\0{line_numbers[at]}\0" for at, start in enumerate(starts)}
    return marks if len(marks) == len(boxes) and min(marks) == 0 else {}


def _with_marks(text: str, marks: dict[int, str]) -> str:
    """Return a text with marks at some places, then its lines by the numbers among the marks."""
    cuts = [0, *sorted(marks), len(text)]
    text = "".join(marks.get(a, "") + text[a:b] for a, b in pairwise(cuts))
    _, *numbered = text.split("\0")
    lines: dict[int, str] = {}
    for number, piece in zip(numbered[::2], numbered[1::2], strict=True):
        lines[int(number)] = lines.get(int(number), "") + piece
    return "\n".join(lines[each].strip("\r\n ") for each in sorted(lines)) or text


def _raised_numbers(text: str, text_page: Any) -> dict[int, str]:
    """Return `^` where what is raised after a number begins: 500 and a note 1 is not 5001."""
    from pypdfium2 import raw

    marks = {}
    for match in _NUMBER.finditer(text):
        begin, end = match.span()
        if any(raw.FPDFText_GetUnicode(text_page, at) != ord(text[at]) for at in range(begin, end)):
            continue  # characters that have no place in the text are counted there
        up_direction = _up_direction(text_page, begin)
        base, low, high = _extent_of(text_page, begin, up_direction)
        for at in range(begin + 1, end):
            _, bottom, top = (
                _extent_of(text_page, at, up_direction) if text[at].isdigit() else (0, low, high)
            )
            is_smaller = top - bottom < _SMALLER * (high - low)
            if is_smaller and bottom - base > _RAISED_BY * (high - low):
                marks[at - (text[at - 1] in "+-\u2212")] = "^"
                break
    return marks


def _up_direction(text_page: Any, at: int) -> complex:
    """Return what is up for a character's line, which may run any way over the page."""
    from pypdfium2 import raw

    angle = math.pi / 2 - raw.FPDFText_GetCharAngle(text_page, at)
    # Some programs turn a text by a negative size.
    return cmath.rect(math.copysign(1, raw.FPDFText_GetFontSize(text_page, at)), angle)


def _extent_of(text_page: Any, at: int, up_direction: complex) -> tuple[float, float, float]:
    """Return where a character stands, begins and ends, measured along `up_direction`."""
    from ctypes import byref, c_double

    from pypdfium2 import raw

    x, y, matrix = c_double(), c_double(), raw.FS_MATRIX()
    raw.FPDFText_GetCharOrigin(text_page, at, byref(x), byref(y))
    base = x.value * up_direction.real + y.value * up_direction.imag
    is_slanted = min(abs(up_direction.real), abs(up_direction.imag)) > _SLANTED
    is_zero = decimal(chr(raw.FPDFText_GetUnicode(text_page, at)), 1) == 0  # in Arabic a raised dot
    if is_slanted or is_zero:  # its box says little of its size
        raw.FPDFText_GetMatrix(text_page, at, matrix)
        size = abs(raw.FPDFText_GetFontSize(text_page, at)) * math.hypot(matrix.c, matrix.d)
        return base, base, base + 0.7 * size  # as high as digits are
    left_edge, low, right, high = text_page.get_charbox(at)
    ends = (
        left_edge * up_direction.real + low * up_direction.imag,
        right * up_direction.real + high * up_direction.imag,
    )
    return base, min(ends), max(ends)
