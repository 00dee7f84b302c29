"""What a page of a PDF says: its numbers, its tables, and what goes over several pages."""

from __future__ import annotations

from moothall.research.reading.html import Document
from moothall.research.reading.pdf import read_pdf_bytes
from research.web_server import pdf

_DRAWN_FONT = (
    "/Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] "
    "/FirstChar 48 /LastChar 52 /Widths [500 500 500 500 500] "
    "/Encoding << /Differences [48 /zero /one /two /three /four] >> /CharProcs << {} >>"
)


def drawn_digits(text: str, **heights: tuple[int, int]) -> bytes:
    """A PDF whose digits, called by their names, are boxes: from where to where, of 1000."""
    drawn, places = b"", ""
    for number, (name, (low, high)) in enumerate(heights.items(), 20):
        shape = b"500 0 50 %d 450 %d d1 50 %d 400 %d re f" % (low, high, low, high - low)
        drawn += b"%d 0 obj << /Length %d >> stream\n" % (number, len(shape))
        drawn += shape + b"\nendstream endobj\n"
        places += f"/{name} {number} 0 R "
    font = _DRAWN_FONT.format(places).encode()
    made = pdf(text).replace(b"/Type /Font /Subtype /Type1 /BaseFont /Helvetica", font)
    return made.replace(b"xref\n", drawn + b"xref\n", 1)  # PDFium finds what no table names


def read(data: bytes) -> Document:
    return read_pdf_bytes(data)


def test_pdf_zero_drawn_as_a_small_dot_above_the_line_is_no_raised_number() -> None:
    digit = (0, 700)
    made = drawn_digits("1403 104 3010", zero=(250, 400), one=digit, three=digit, four=digit)
    assert read(made).text.split() == ["1403", "104", "3010"]
    raised = drawn_digits("1403", zero=digit, one=digit, three=(400, 700), four=digit)
    assert read(raised).text == "140^3"
