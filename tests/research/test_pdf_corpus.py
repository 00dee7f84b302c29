"""PDFs of other readers' tests, turned by one, two and three quarters: they say the same."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import pypdf
import pytest
from benchmarks.corpora import FOLDER, MISSING
from pypdf.generic import RectangleObject

from moothall.foundation.errors import UnreadableDocument
from moothall.research.reading.pdf.document import read_pdf_bytes

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
PAGES = 2


def turned(path: Path, degrees: int) -> bytes:
    """The first pages of a PDF, whose content is turned to the left, on sheets that hold it."""
    writer = pypdf.PdfWriter()
    for found in pypdf.PdfReader(path).pages[:PAGES]:
        page = writer.add_page(found)
        left, low, right, high = map(float, page.mediabox)
        width, height = right - left, high - low
        x, y = {0: (0, 0), 90: (height, 0), 180: (width, height), 270: (0, width)}[degrees]
        turn = pypdf.Transformation().translate(-left, -low).rotate(degrees).translate(x, y)
        page.add_transformation(turn)
        size = (height, width) if degrees % 180 else (width, height)
        page.mediabox = page.cropbox = RectangleObject((0, 0, *size))
        page.pop("/Annots", None)  # which do not turn with it
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def read(path: Path, degrees: int) -> Counter[str]:
    """The words, numbers and notes of a PDF; none if it has no text to read."""
    try:
        text = read_pdf_bytes(turned(path, degrees)).text
    except (UnreadableDocument, pypdf.errors.PyPdfError):
        return Counter()
    return Counter(re.findall(r"\d(?:[\d.,^]*\d)?|[^\W\d_]{3,}", text))


@pytest.mark.parametrize("degrees", (90, 180, 270))
def test_pdf_pages_that_are_turned_say_the_same_words_and_numbers(degrees: int) -> None:
    folder = FOLDER / "pdf"
    assert folder.is_dir(), f"there is no {folder}: {MISSING}"
    many, other = 0, {}
    for path in sorted(folder.rglob("*.pdf")):
        upright = read(path, 0)
        many += len(upright) > 0
        if upright != (found := read(path, degrees)):
            other[path.name] = (upright - found, found - upright)
    assert many > 60
    assert not other
