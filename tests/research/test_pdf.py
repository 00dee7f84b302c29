"""What a page of a PDF says: its numbers, its tables, and what goes over several pages.

A line of `exchanges/printed_tables.jsonl` names a file of `printed`, as browsers and libraries
print tables, with what each cell says: the row's first cell, the names of its column, the value.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from exchanges import lines_of
from moothall.research.reading.html import Document
from moothall.research.reading.pdf.document import read_pdf_bytes
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


def placed(*texts: tuple[float, float, str]) -> str:
    """The lines of a page: how far right and high each begins."""
    moves = (f"1 0 0 1 {x} {y} Tm ({text}) Tj" for x, y, text in texts)
    return f") Tj {' '.join(moves)} ("


def rows(y: float, *cells: tuple[str, ...], step: float = 150) -> list[tuple[float, float, str]]:
    """The cells of a table's rows, the first of which is so high."""
    return [
        (72 + step * column, y - 14 * row, text)
        for row, texts in enumerate(cells)
        for column, text in enumerate(texts)
        if text
    ]


def paragraphs(*pages: str) -> list[str]:
    return [" ".join(each.split()) for each in read(pdf(*pages)).text.split("\n\n")]


def test_pdf_zero_drawn_as_a_small_dot_above_the_line_is_no_raised_number() -> None:
    digit = (0, 700)
    made = drawn_digits("1403 104 3010", zero=(250, 400), one=digit, three=digit, four=digit)
    assert read(made).text.split() == ["1403", "104", "3010"]
    raised = drawn_digits("1403", zero=digit, one=digit, three=(400, 700), four=digit)
    assert read(raised).text == "140^3"


@pytest.mark.parametrize("table", lines_of(__file__, "printed_tables"))
def test_pdf_table_says_the_row_and_the_names_of_the_column_with_each_value(
    table: dict[str, Any],
) -> None:
    printed = Path(__file__).parent / "printed" / f"{table['case']}.pdf"
    lines = read(printed.read_bytes()).text.split("\n")
    missed = [
        (row, names, value)
        for row, names, value in table["cells"]
        if not any(
            all(each in line for each in (row, *names))
            and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", line)
            for line in lines
        )
    ]
    assert not missed


def test_pdf_table_that_goes_on_over_a_page_has_the_names_of_its_columns_there() -> None:
    ports = [(f"Port {n}", str(100 + n), str(3000 + 7 * n)) for n in range(8)]
    said = paragraphs(
        placed((72, 740, "Fees"), *rows(720, ("Port", "Berths", "Fee"), *ports[:6])),
        placed(*rows(740, ports[6], ports[7])),
    )
    named = [f"Port: {port}; Berths: {berths}; Fee: {fee}" for port, berths, fee in ports]
    assert said == ["Fees", *named]


def test_pdf_table_names_the_columns_in_which_no_row_has_a_value() -> None:
    ships = [(f"Ship {n}", f"{n} m", "") for n in range(1, 5)]
    boxes = (f"{70 + 150 * n % 450} {716 - n // 3 * 14} 150 14 re S" for n in range(15))
    cells = placed(*rows(720, ("Name", "Length", "Remark"), *ships))
    said = paragraphs(f") Tj ET {' '.join(boxes)} BT /F1 12 Tf ({cells}")
    assert said[:2] == ["Name: Ship 1; Length: 1 m", "Name: Ship 2; Length: 2 m"]
    assert said[-1] == "Columns without a value: Remark"


def test_pdf_lines_of_cells_that_are_written_from_below_are_rows() -> None:
    ships = (("Alba", "3", "40 m"), ("Bodo", "5", "70 m"), ("Cove", "7", "90 m"))
    cells = [*rows(724, ("Ship", "Berth", "Length")), *rows(704, *ships)[::-1]]
    boxes = "".join(
        f"{70 + 150 * at} {low} 150 {height} re S "
        for at in range(3)
        for low, height in ((720, 16), (672, 48))
    )
    assert paragraphs(f") Tj ET {boxes} BT /F1 12 Tf ({placed(*cells)}") == [
        f"Ship: {ship}; Berth: {berth}; Length: {length}" for ship, berth, length in ships
    ]


def test_pdf_list_of_facts_is_no_table_whose_first_row_names_columns() -> None:
    facts = (("Name", "Alba"), ("Height", "42 m"), ("Built", "1990"), ("Fee", "12 euros"))
    assert paragraphs(placed(*rows(720, *facts))) == [
        "Name Alba Height 42 m Built 1990 Fee 12 euros"
    ]


def test_pdf_lines_that_are_written_across_three_columns_are_read_column_by_column() -> None:
    columns = [
        [f"{word} line {n} tells of the {word[:4]}" for n in range(12)]
        for word in ("ferry", "bridge", "tunnel")
    ]
    across = [
        (50 + 190 * column, 720 - 14 * n, columns[column][n])
        for n in range(12)
        for column in range(3)
    ]
    assert paragraphs(placed(*across)) == [" ".join(line for each in columns for line in each)]


def terms(number: int, first: str, last: str) -> str:
    """A page between a head and a foot that all pages have."""
    filler = [f"Line {n} of page {number * 7} speaks of matters of the house." for n in range(20)]
    lines = ["Terms of the harbour", first, *filler, last, f"Harbour office, page {number} of 3"]
    return placed(*((72, 740 - 16 * n, text) for n, text in enumerate(lines)))


def test_pdf_head_and_foot_of_pages_are_said_once_and_sentences_go_on_over_them() -> None:
    document = read(
        pdf(
            terms(1, "These are the terms.", "A berth that nobody pays for within the time of the"),
            terms(2, "bill is given to others after 21 days. Boats wait.", "All of it holds."),
            terms(3, "Nothing else was agreed upon.", "The office is closed on all Sundays."),
        )
    )
    said = " ".join(document.text.split())
    assert said.startswith("Terms of the harbour These are the terms.")
    assert "within the time of the bill is given to others after 21 days." in said
    assert said.endswith("Sundays. Harbour office, page 3 of 3")
    assert (said.count("Terms of the harbour"), said.count("Harbour office")) == (1, 1)
    parts = [document.text[each.start :] for each in document.sections]
    assert parts[1].startswith("Boats wait.")
    assert parts[2].startswith("Nothing else")


def test_pdf_text_that_begins_all_pages_and_goes_on_differently_is_kept() -> None:
    same = "The office says:"
    said = paragraphs(
        *(
            placed((72, 740, f"Port {name} has {n} berths"), (72, 724, same), (72, 700, "Yes."))
            for name, n in (("Alba", 12), ("Borken", 40), ("Cairn", 7))
        )
    )
    assert [each.count(same) for each in said] == [1, 1, 1]


def test_pdf_hyphen_stays_between_two_words_that_the_document_has() -> None:
    said = paragraphs(
        placed(
            (72, 740, "The house counts the worst-"),
            (72, 724, "case of all years, and infor-"),
            (72, 708, "mation on it."),
            (72, 692, "In the worst case nothing is paid."),
        )
    )
    assert said == [
        "The house counts the worst-case of all years, and information on it. "
        "In the worst case nothing is paid."
    ]


def leftward(*glyphs: str) -> bytes:
    """A PDF whose font says what its glyphs, from left to right on the page, mean."""
    pairs = "\n".join(
        f"<{n:04x}> <{glyph.encode('utf-16-be').hex()}>" for n, glyph in enumerate(glyphs, 1)
    )
    meaning = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def "
        "/CMapType 2 def 1 begincodespacerange <0000> <FFFF> endcodespacerange "
        f"{len(glyphs)} beginbfchar\n{pairs}\nendbfchar endcmap end end"
    ).encode()
    numbers = "".join(f"{n:04x}" for n in range(1, len(glyphs) + 1)).encode()
    font = b"/Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 21 0 R"
    inner = b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /DW 500 /FontDescriptor 22 0 R"
    inner += b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    objects = (
        b"20 0 obj %s endobj\n" % inner,
        b"21 0 obj << /Length %d >> stream\n%s\nendstream endobj\n" % (len(meaning), meaning),
        b"22 0 obj << /Type /FontDescriptor /FontName /X /Flags 4 /FontBBox [0 -200 1000 900] "
        b"/ItalicAngle 0 /Ascent 900 /Descent -200 /CapHeight 700 /StemV 80 >> endobj\n",
    )
    made = pdf("x").replace(b"(x)", b"<%s>" % numbers)
    plain = b"/Type /Font /Subtype /Type1 /BaseFont /Helvetica"
    made = made.replace(plain, font + b" /DescendantFonts [20 0 R]")
    return made.replace(b"xref\n", b"".join(objects) + b"xref\n", 1)


def test_pdf_letters_that_are_one_glyph_of_arabic_keep_their_order() -> None:
    assert read(leftward(*"ت", "لا", *"كشملا")).text == "المشكلات"


def test_pdf_words_of_persian_that_a_browser_divides_are_whole() -> None:
    printed = Path(__file__).parent / "printed" / "persian.pdf"
    row, *_ = read(printed.read_bytes()).text.split("\n")
    assert row == "شهر: تهران; جمعیت: 204; ارتفاع: 1334"
