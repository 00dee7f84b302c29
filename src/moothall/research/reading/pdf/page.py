"""Take in a page of a PDF, once: its words with their boxes, without those that nobody sees."""

from __future__ import annotations

import cmath
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from ctypes import addressof, byref, c_double, c_float, c_int, c_uint
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias
from unicodedata import decimal

Box: TypeAlias = tuple[float, float, float, float]
"""The left, lower, right and upper end."""

_PIECE = re.compile(r"[^\s\ufffe]+|\ufffe|[\r\n]+")
_CUT_MARK: Final = "\ufffe"  # so PDFium joins the two lines that a hyphen divides
_NUMBER = re.compile(r"\d[\d.,]*[+\u2212-]?\d+")
LEFTWARD: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""A letter that is read from right to left."""
_SCRIPT_CHANGE = re.compile(
    rf"(?<={LEFTWARD.pattern})(?=(?!{LEFTWARD.pattern})[^\W\d_])"
    rf"|(?<=[^\W\d_])(?<!{LEFTWARD.pattern})(?={LEFTWARD.pattern})"
)
_WIDEST_LETTER: Final = 1.1  # of its height, on average in a word; with more, it is two cells
WIDE_GAP: Final = 0.85  # of a line's height; a wider one divides cells
_WHITE: Final = 250  # of 255
_RAISED_BY: Final = 0.2  # of a digit's height
_SMALLER: Final = 0.9
_SLANTED: Final = 0.05  # the sine of what a box is still taken for upright with
_THIN: Final = 0.25  # of a line's height, a box that is a rule is so thick at most
_GLUED: Final = 0.25  # the same between two parts of a word
_STRAIGHT: Final = 0.05  # the same of what the ends of a rule differ by
_MAX_PATHS: Final = 6000  # of a page; drawings have more
_MAX_SEGMENTS: Final = 400  # of a path
_MAX_RULES: Final = 800


class Run(NamedTuple):
    """A word of a page, its box, the number of its line, and the look of that."""

    text: str
    left_edge: float
    low: float
    right: float
    high: float
    line: int
    look: int


class Stroke(NamedTuple):
    """A straight rule of a page: `at` which height, or how far right, and from where to where."""

    is_level: bool
    at: float
    start: float
    end: float


class TextLine(NamedTuple):
    """A line in PDFium's order; if it is not `straight`, level or upright, its boxes say nothing.

    `look` is the font, size and colour of its first word, as a number.
    """

    text: str  # words with a space between
    boxes: array[float]  # of each word
    look: int
    is_level: bool
    is_straight: bool

    def box(self) -> Box:
        """Return what holds all words."""
        boxes = self.boxes
        return min(boxes[::4]), min(boxes[1::4]), max(boxes[2::4]), max(boxes[3::4])


class Page(NamedTuple):
    """What is to be known of a page once it is closed; arrays keep it small."""

    number: int
    lines: list[TextLine]
    rule_ends: array[float]
    is_picture: bool = False

    def runs(self, number: int) -> list[Run]:
        """Return the words of a line."""
        line = self.lines[number]
        boxes = zip(*[iter(line.boxes)] * 4, strict=True)
        words = zip(line.text.split(" "), boxes, strict=True)
        return [Run(text, a, b, c, d, number, line.look) for text, (a, b, c, d) in words]

    def rules(self) -> list[Stroke]:
        """Return the straight rules."""
        return [Stroke(bool(a), b, c, d) for a, b, c, d in zip(*[iter(self.rule_ends)] * 4)]  # noqa: B905


def page_of(page: Any, text_page: Any, number: int) -> Page:
    """Return what a page shows: its lines, and its rules if it has a text."""
    from pypdfium2 import raw

    lines = _Reading(page, text_page).lines()
    if not lines:
        images = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE])
        return Page(number, [], array("f"), is_picture=any(True for _ in images))
    heights = sorted(line.boxes[3] - line.boxes[1] for line in lines)
    return Page(number, lines, _rules_of(page, heights[len(heights) // 2]))


class _Reading:
    """Goes through the text of a page, word by word."""

    def __init__(self, page: Any, text_page: Any) -> None:
        from pypdfium2 import raw

        self._page, self._text_page, self._raw = page, text_page, raw
        self._text: str = text_page.get_text_range().replace("\0", " ")
        self._is_even = len(self._text) == text_page.count_chars()
        self._lines: list[TextLine] = []
        self._words: list[tuple[str, Box]] = []
        self._line_start = 0
        self._is_unseen = dict[int, bool]()  # by text object
        self._looks = dict[tuple[Any, ...], int]()
        self._painted_areas: list[Box] | None = None
        self._rectangle = raw.FS_RECTF()

    def lines(self) -> list[TextLine]:
        """Return the lines with words that can be seen."""
        is_leftward = LEFTWARD.search(self._text) is not None
        for match in _PIECE.finditer(f"{self._text}\n"):
            if match[0][0] not in f"\r\n{_CUT_MARK}":
                self._take_word(match[0], match.start())
                continue
            if match[0] == _CUT_MARK and self._words:
                self._words[-1] = f"{self._words[-1][0]}-", self._words[-1][1]
            if self._words:
                up = _up_direction(self._text_page, self._line_start)
                has_boxes = all(box[1] < box[3] for _, box in self._words)
                is_level = has_boxes and abs(up.real) <= _SLANTED and up.imag > 0
                is_straight = has_boxes and (is_level or abs(up.imag) <= _SLANTED)
                text = " ".join(text for text, _ in self._words)
                boxes = array("f", [end for _, box in self._words for end in box])
                look = self._look(self._line_start)
                line = TextLine(text, boxes, look, is_level, is_straight)
                self._lines.append(line)
                if is_leftward:
                    self._lines[-2:] = _glued(self._lines[-2:])
            self._words = []
        return self._lines

    def _place(self, at: int) -> int:
        """Return a character's number; a glyph without a letter has one, but none in the text."""
        if self._is_even:
            return at
        return int(self._raw.FPDFText_GetCharIndexFromTextIndex(self._text_page, at))

    def _take_word(self, text: str, start: int) -> None:
        """Add a word to the line, in parts if it is two cells or changes its script."""
        end = start + len(text)
        box = self._box(start, end)
        if self._is_hidden(start, box):
            return
        if not self._words:
            self._line_start = self._place(start)
        is_leftward = not text.isascii() and LEFTWARD.search(text) is not None
        height = box[3] - box[1]
        is_wide = 0 < _WIDEST_LETTER * height * len(text) < box[2] - box[0]
        if not (is_leftward or is_wide):
            self._words.append((self._with_raised(text, start), box))
            return
        cuts = {start + each.start() for each in _SCRIPT_CHANGE.finditer(text)}
        if is_wide:
            letters = pairwise((at, self._box(at, at + 1)) for at in range(start, end))
            cuts |= {at for (_, a), (at, b) in letters if b[0] - a[2] > WIDE_GAP * height}
        for a, b in pairwise((start, *sorted(cuts), end)):
            piece = self._in_order(a, b) if is_leftward else self._text[a:b]
            self._words.append((self._with_raised(piece, a), self._box(a, b)))

    def _box(self, start: int, end: int) -> Box:
        """Return what holds the first and the last of some characters: their fonts' heights."""
        box, get_box = self._rectangle, self._raw.FPDFText_GetLooseCharBox
        get_box(self._text_page, self._place(start), box)
        left_edge, low, right, high = box.left, box.bottom, box.right, box.top
        if end - start == 1:
            return left_edge, low, right, high
        get_box(self._text_page, self._place(end - 1), box)
        return (
            min(left_edge, box.left), min(low, box.bottom),
            max(right, box.right), max(high, box.top),
        )  # fmt: skip

    def _in_order(self, start: int, end: int) -> str:
        """Return a word that is read from right to left in its order: PDFium turns some round.

        Letters of one glyph, such as lam and alef, have their own order.
        """
        glyphs: list[str] = []
        boxes = [self._text_page.get_charbox(self._place(at)) for at in range(start, end)]
        for letter, box, last in zip(self._text[start:end], boxes, [None, *boxes], strict=False):
            is_same = box == last and box[0] < box[2] and LEFTWARD.match(letter)
            glyphs[-1:] = [letter + glyphs[-1]] if is_same else [*glyphs[-1:], letter]
        is_turned = boxes[0] < boxes[-1] and all(map(LEFTWARD.match, self._text[start:end]))
        return "".join(glyphs[::-1] if is_turned else glyphs)

    def _with_raised(self, text: str, start: int) -> str:
        """Return a word with `^` before what is raised after a number: 500^1 is not 5001."""
        for number in [*_NUMBER.finditer(text)][::-1]:
            begin, end = number.span()
            up = _up_direction(self._text_page, self._place(start + begin))
            base, low, high = _extent_of(self._text_page, self._place(start + begin), up)
            cut = end
            for at in range(end - 1, begin, -1):  # what is raised ends a number
                if text[at].isdigit():
                    _, bottom, top = _extent_of(self._text_page, self._place(start + at), up)
                    is_smaller = top - bottom < _SMALLER * (high - low)
                    if not is_smaller or bottom - base <= _RAISED_BY * (high - low):
                        break
                    cut = at
            if cut < end:
                cut -= text[cut - 1] in "+-\u2212"
                text = f"{text[:cut]}^{text[cut:]}"
        return text

    def _is_hidden(self, start: int, box: Box) -> bool:
        """Return whether a word is white on white or not painted; over pictures it is seen."""
        raw = self._raw
        text_object = raw.FPDFText_GetTextObject(self._text_page, self._place(start))
        if not text_object:
            return False
        if (key := addressof(text_object.contents)) not in self._is_unseen:
            is_unpainted = (
                raw.FPDFTextObj_GetTextRenderMode(text_object) == raw.FPDF_TEXTRENDERMODE_INVISIBLE
            )
            self._is_unseen[key] = is_unpainted or _is_white(text_object)
        if not self._is_unseen[key]:
            return False
        if self._painted_areas is None:
            self._painted_areas = _painted_areas(self._page)
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return not any(a <= x <= c and b <= y <= d for a, b, c, d in self._painted_areas)

    def _look(self, place: int) -> int:
        """Return a number for the font, size and colour of a character."""
        raw = self._raw
        if not (text_object := raw.FPDFText_GetTextObject(self._text_page, place)):
            return -1
        font, colours = raw.FPDFTextObj_GetFont(text_object), [c_uint() for _ in range(4)]
        raw.FPDFPageObj_GetFillColor(text_object, *colours)
        size = round(raw.FPDFText_GetFontSize(self._text_page, place), 2)
        look = (font and addressof(font.contents), size, *(each.value for each in colours))
        return self._looks.setdefault(look, len(self._looks))


def _glued(lines: list[TextLine]) -> list[TextLine]:
    """Return two lines as one if PDFium divides a word between them, as some of Persian."""
    a, b = lines[0], lines[-1]
    gap = abs(b.boxes[0] - a.boxes[-2]) + abs(b.boxes[1] - a.boxes[-3])
    if a is b or gap > _GLUED * (a.boxes[-1] - a.boxes[-3]):
        return lines
    (*before, last), (first, *words_after) = a.text.split(" "), b.text.split(" ")
    word = first + last if LEFTWARD.search(first + last) else last + first
    box = [a.boxes[-4], min(a.boxes[-3], b.boxes[1]), b.boxes[2], max(a.boxes[-1], b.boxes[3])]
    boxes = array("f", [*a.boxes[:-4], *box, *b.boxes[4:]])
    return [a._replace(text=" ".join((*before, word, *words_after)), boxes=boxes)]


def upright_text_page(page: Any) -> Any:
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


def _is_white(page_object: Any) -> bool:
    """Return whether an object of a page is filled with white, or with what is seen through."""
    from pypdfium2 import raw

    *colours, alpha = (c_uint() for _ in range(4))
    has_colour = raw.FPDFPageObj_GetFillColor(page_object, *colours, alpha)
    return bool(has_colour) and (min(e.value for e in colours) >= _WHITE or not alpha.value)


def _painted_areas(page: Any) -> list[Box]:
    """Return where a page has pictures, or is filled with a colour."""
    from pypdfium2 import raw

    boxes = []
    for each in page.get_objects(max_depth=1):
        fill, stroke = c_int(1), c_int()
        if each.type == raw.FPDF_PAGEOBJ_PATH:
            raw.FPDFPath_GetDrawMode(each, fill, stroke)
        if each.type != raw.FPDF_PAGEOBJ_TEXT and fill.value and not _is_white(each):
            boxes.append(each.get_bounds())
    return boxes


def _up_direction(text_page: Any, at: int) -> complex:
    """Return what is up for a character's line, which may run any way over the page."""
    from pypdfium2 import raw

    angle = math.pi / 2 - raw.FPDFText_GetCharAngle(text_page, at)
    # Some programs turn a text by a negative size.
    return cmath.rect(math.copysign(1, raw.FPDFText_GetFontSize(text_page, at)), angle)


def _extent_of(text_page: Any, at: int, up_direction: complex) -> tuple[float, float, float]:
    """Return where a character stands, begins and ends, measured along `up_direction`."""
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


def _rules_of(page: Any, height: float) -> array[float]:
    """Return the straight rules that a page's paths draw, and the edges of its boxes."""
    ends = array("f")
    for (a, b), (c, d) in _straight_lines(page, _THIN * height):
        if abs(b - d) <= _STRAIGHT * height:
            ends.extend((1, (b + d) / 2, min(a, c), max(a, c)))
        elif abs(a - c) <= _STRAIGHT * height:
            ends.extend((0, (a + c) / 2, min(b, d), max(b, d)))
        if len(ends) > 4 * _MAX_RULES:
            return array("f")  # a drawing
    return ends


def _straight_lines(page: Any, thin: float) -> Iterator[tuple[tuple[float, float], ...]]:
    """Yield both ends of each straight line of a page's paths; a thin path is a line."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    x, y, *ends = (c_float() for _ in range(6))
    count = 0
    for at in range(raw.FPDFPage_CountObjects(page)):
        path = raw.FPDFPage_GetObject(page, at)
        if raw.FPDFPageObj_GetType(path) != raw.FPDF_PAGEOBJ_PATH:
            continue
        if (count := count + 1) > _MAX_PATHS:
            return
        raw.FPDFPageObj_GetBounds(path, *ends)
        left_edge, low, right, high = (each.value for each in ends)
        if min(right - left_edge, high - low) <= thin:
            x_middle, y_middle = (left_edge + right) / 2, (low + high) / 2
            is_level = right - left_edge >= high - low
            level_ends = (left_edge, y_middle), (right, y_middle)
            yield level_ends if is_level else ((x_middle, low), (x_middle, high))
            continue
        raw.FPDFPageObj_GetMatrix(path, matrix)
        start = last = (0.0, 0.0)
        for number in range(min(raw.FPDFPath_CountSegments(path), _MAX_SEGMENTS)):
            segment = raw.FPDFPath_GetPathSegment(path, number)
            kind = raw.FPDFPathSegment_GetType(segment)
            raw.FPDFPathSegment_GetPoint(segment, x, y)
            point = (
                x.value * matrix.a + y.value * matrix.c + matrix.e,
                x.value * matrix.b + y.value * matrix.d + matrix.f,
            )
            if kind == raw.FPDF_SEGMENT_LINETO:
                yield last, point
                if raw.FPDFPathSegment_GetClose(segment):
                    yield point, start
            elif kind == raw.FPDF_SEGMENT_MOVETO:
                start = point
            last = point
