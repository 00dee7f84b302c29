"""What files of each kind say, and where their parts begin: texts are `exchanges/documents.jsonl`.

A line has its `case`, the `name` of a file and its `data`, and what is read: the `title`, the
`text`, the `parts`, as `parts` gives them, and what is `missing`. A `web` page says the same from a
server.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import time
from typing import Any

import pypdf
import pytest

from exchanges import lines_of
from moothall.foundation.errors import UnreadableDocument
from moothall.research.reading.documents import kind_of, read_document
from moothall.research.reading.encodings import decode_text
from moothall.research.reading.html import Document, read_html
from research.books import docx, epub, paragraph
from research.web_server import pdf


def read(name: str, text: str | bytes) -> Document:
    data = text.encode() if isinstance(text, str) else text
    document = read_document(kind_of(name) or "", name, data, f"file:///{name}")
    assert document is not None
    return document


def parts(document: Document) -> list[tuple[str, str, str]]:
    """Each section's anchor and title, and the first line of its text."""
    return [
        (each.anchor, each.title, document.text[each.start :].strip().partition("\n")[0])
        for each in document.sections
    ]


@pytest.mark.parametrize("line", lines_of(__file__, "documents"))
def test_document_has_what_its_line_says(line: dict[str, Any]) -> None:
    document = read(line["name"], line["data"])
    assert document.text == line["text"]
    assert document.title == line.get("title", "")
    assert [list(each) for each in parts(document)] == line.get("parts", [])
    assert document.missing == line.get("missing", "")
    if line.get("web"):
        page = read_html(line["data"].encode(), "utf-8", "http://a.test/")
        assert page.text == line["text"]


def test_footnotes_of_markdown_are_left_out_and_code_is_as_written() -> None:
    text = (
        "It returns.[^1] See [a](b) and `x[^1] [a](b)`.\n\n```sh\n[a](b)\n```\n\n[^1]: A source.\n"
    )
    shown = "It returns. See a and `x[^1] [a](b)`.\n\n```sh\n[a](b)\n```\n\nA source.\n"
    assert read("a.md", text).text == shown
    opened = read("a.md", "```a\nx\n" * 100_000)  # in a time that grows with the length alone
    assert len(opened.text) == 700_000


def test_table_says_the_column_with_each_value() -> None:
    rows = "".join(f'"Town, {n}",{n},\n' for n in range(1, 13))
    document = read("a.csv", "\ufeffname,people,note\r\n" + rows + '"Quoted ""x""\nhere",5,"a;b"\n')
    assert parts(document) == [
        ("row-1", "row 1", "name: Town, 1; people: 1"),
        ("row-11", "row 11", "name: Town, 11; people: 11"),
    ]
    assert document.text.endswith('name: Quoted "x" here; people: 5; note: a;b\n\n')
    assert read("a.tsv", "a\tb\n1, 2\t3\n").text == "a: 1, 2; b: 3\n\n"
    assert read("b.csv", "a;b\n1,5;3\n").text == "a: 1,5; b: 3\n\n"
    grouped = read("d.csv", "Spring,,Autumn,\nsown,kept,taken,lost\n1,2,3,4\n")  # in two rows
    assert parts(grouped) == [
        ("row-1", "Spring  Autumn – row 1", "sown: 1; kept: 2; taken: 3; lost: 4")
    ]
    second = read(
        "e.csv", "Item,Price\nRoof,12\n\nTowns\nCity,People,Area\nAlba,70,\n\nEnd,of it\n"
    )
    assert second.text.split("\n\n") == [
        "Item: Roof; Price: 12", "", "Towns", "City: Alba; People: 70", "",
        "City: End; People: of it", "Columns without a value: Area\n",
    ]  # fmt: skip
    opened = 'size,note\n1,"5 inches\n' + "2,small\n" * 20_000  # a quote that is never closed
    assert (read("c.csv", opened).text, parts(read("c.csv", opened))[1][0]) == (opened, "L41")


@pytest.mark.parametrize(
    ("data", "text"),
    (
        ("naïve €".encode(), "naïve €"),
        (codecs.BOM_UTF8 + "naïve".encode(), "naïve"),
        ("naïve €".encode("utf-16"), "naïve €"),
        ("naïve €".encode("cp1252"), "naïve €"),
        ("Grüße, schön".encode() + b"\xc3\n", "Grüße, schön\ufffd\n"),
        ("con\ufb01gu\xadra\u200btion".encode(), "configuration"),
        (b"# coding: koi8-r\n\xfa", "# coding: koi8-r\n\u0417"),
        (b"# coding: punycode\n\xe4", "# coding: punycode\nä"),
        (b"a\r\nb\rc\x0cd", "a\nb\nc\nd"),
        (b"a\tb\x1b[31m\x7f" + "\x85".encode(), "a\tb\n"),
        (b"\x1b[1;31mERROR\x1b[0m at \x1b]8;;http://a\x07line 5\x1b]8;;\x07", "ERROR at line 5"),
    ),
)
def test_text_is_decoded_by_what_it_says_or_is(data: bytes, text: str) -> None:
    assert read("a.txt", data).text == text


UNDECLARED = (
    ("東京の人口は1400万人です。", ("shift_jis", "iso2022_jp", "utf-16-le", "utf-16-be")),
    ("Привет, как дела? Все хорошо.", ("cp1251", "koi8-r")),  # noqa: RUF001
    ("Мост был открыт в 1990 году. Он несёт два пути.", ("cp1251", "koi8-r", "iso8859-5")),
    ("Η γέφυρα άνοιξε το 1990 και έχει δύο γραμμές.", ("cp1253",)),  # noqa: RUF001
    ("北京的人口是2100万。这座桥于1990年开放。", ("gbk",)),
    ("台北的人口是250萬。這座橋於1990年開放。", ("big5",)),
    ("서울의 인구는 940만 명이다. 다리는 1990년에 열렸다.", ("euc_kr", "johab")),
    ("Die Brücke wurde 1990 eröffnet.", ("cp1252", "utf-16-le")),
)


@pytest.mark.parametrize(("text", "by"), [(t, by) for t, all in UNDECLARED for by in all])
def test_text_without_a_declared_encoding_is_read_by_what_its_bytes_look_like(
    text: str, by: str
) -> None:
    whole = f"{text}\n{text}\n"
    assert read("a.txt", whole.encode(by)).text == whole
    if not by.startswith("utf"):  # whose markup says it
        page = f"<html><body><main><p>{text} {text}</p></main></body></html>"
        assert read("a.html", page.encode(by)).text == f"{text} {text}"


def test_words_that_were_hyphenated_are_whole() -> None:
    text = "Kranken&shy;ver&#173;sicherung &#x75;n&#100; &#8;mehr&#9999999;"
    page = f"<html><body><main><p>{text}</p></main></body></html>"
    assert read("a.html", page).text == "Krankenversicherung und mehr"
    lines = pdf("Words of infor-) Tj 0 -14 Td (mation on A-) Tj 0 -14 Td (B")
    assert read("a.pdf", lines).text == "Words of information on A-\nB"


def test_pdf_hyphen_of_a_word_stays_where_a_line_ends_behind_it() -> None:
    lines = (
        "A long-", "term plan, the long-term one, is state-of-", "the-art and a well-under-",
        "stood one of a depart-", "ment.",
    )  # fmt: skip
    text = read("a.pdf", pdf(") Tj 0 -14 Td (".join(lines))).text
    assert " ".join(text.split()) == (
        "A long-term plan, the long-term one, is state-of-the-art and a well-under-stood one of a "
        "department."
    )


@pytest.mark.parametrize(
    ("stated", "title"),
    (("(anonymous)", ""), ("Letterhead", ""), ("Plan", "Plan"), ("", "")),
)
def test_pdf_title_that_its_text_does_not_have_is_of_a_template(stated: str, title: str) -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("The plan of works.")))
    writer.add_metadata({"/Title": stated})
    written = io.BytesIO()
    writer.write(written)
    assert read("a.pdf", written.getvalue()).title == title


def test_pdf_whose_lines_are_written_across_two_columns_is_read_column_by_column() -> None:
    sides = [
        (f"Mill line {n} of twelve lines.", f"Quay line {n} of twelve lines.") for n in range(9)
    ]
    lines = [
        f"1 0 0 1 72 {700 - 14 * n} Tm ({a}) Tj 1 0 0 1 320 {700 - 14 * n} Tm ({b}) Tj"
        for n, (a, b) in enumerate(sides)
    ]
    across = pdf(f"Alba) Tj {' '.join(lines)} 1 0 0 1 72 500 Tm (Both are old.")
    mill, quay = zip(*sides, strict=True)
    assert read("a.pdf", across).text.split("\n") == ["Alba", *mill, *quay, "Both are old."]
    cells = [
        f"1 0 0 1 72 {700 - 14 * n} Tm (Ship {n}) Tj 1 0 0 1 320 {700 - 14 * n} Tm ({n} m) Tj"
        for n in range(9)
    ]
    table = read("a.pdf", pdf(f"Alba) Tj {' '.join(cells)} (")).text.split("\n")
    assert table == ["Alba", *(f"Ship {n} {n} m" for n in range(9))]


def words_of(text: str, left: int = 72) -> bytes:
    """A PDF whose words, and the spaces between them, are text objects each, as Google Docs'."""
    made = ["x) Tj ET q .75 0 0 .75 0 0 cm"]
    for word in text.split():
        made.append(f"BT /F1 14 Tf 1 0 0 1 {left} 900 Tm ({word}) Tj ET")
        left += 8 * len(word)
        made.append(f"BT /F1 14 Tf 1 0 0 1 {left} 900 Tm ( ) Tj ET")
        left += 4
    return pdf(" ".join([*made, "Q BT (x"])).replace(b"(x) Tj", b"() Tj")


def test_pdf_of_google_docs_is_read_in_lines() -> None:
    said = "The review of tern took four weeks from June 3 to June 28."
    assert read("a.pdf", words_of(said)).text == said


def test_pdf_with_a_damaged_page_is_read_but_for_that_page() -> None:
    whole = pdf("One", "Two", "Three")
    bad = whole.replace(b"6 0 obj", b"6 0 xbj")  # the second page
    document = read("a.pdf", bad)
    assert (document.text, document.missing) == ("One\n\nThree", "1 damaged page: 2")
    assert [each.anchor for each in document.sections] == ["page=1", "page=3"]
    mended = read("a.pdf", whole.replace(b"(Two) Tj", b"[628 FR 13674, (Two) Mar. 24] TJ"))
    assert mended.text == "One\n\nTwo\n\nThree"


def test_pdf_page_that_is_a_picture_is_missing() -> None:
    scanned = pdf("One", "Two").replace(b"(Two) Tj", b"ET BI /W 1 /H 1 /BPC 8 /CS /G ID x EI BT")
    document = read("a.pdf", scanned)
    assert (document.text, document.missing) == ("One", "1 scanned page: 2")


def test_pdf_raised_number_is_no_part_of_the_number_before_it() -> None:
    raised = b"(It is 500) Tj /F1 6 Tf 5 Ts (12) Tj /F1 12 Tf 0 Ts ( euros, 10 of 1000.) Tj"
    text = read("a.pdf", pdf("One").replace(b"(One) Tj", raised)).text
    assert " ".join(text.split()) == "It is 500^12 euros, 10 of 1000."


LINE = "/F1 {size:g} Tf (Idle for 4321 seconds, ) Tj (37,499.96, of 500) Tj "
LINE += "/F1 {small:g} Tf {rise:g} Ts (12) Tj /F1 {size:g} Tf 0 Ts ( euros) Tj"


@pytest.mark.parametrize("turned", (0, 90))  # the page, by its own word
def test_numbers_of_a_pdf_are_whole_whichever_way_their_line_runs(turned: int) -> None:
    said, cases, pages = "Idle for 4321 seconds, 37,499.96, of 500^12 euros", [], []
    for degrees in (0, 2, 30, 45, 90, 135, 180, 270, 300):
        x, y = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        matrix = f"{x:.5f} {y:.5f} {-y:.5f} {x:.5f} 300 400"
        line = LINE.format(size=12, small=6, rise=5)
        by_page = "1 0 0 1 0 0 Tm " + LINE.format(size=12, small=6, rise=5)
        scaled = "12 0 0 12 0 0 Tm " + LINE.format(size=1, small=0.5, rise=0.4)
        negative = "-1 0 0 -1 0 0 Tm " + LINE.format(size=-12, small=-6, rise=-5)
        pages.append(f") Tj ET BT {matrix} Tm {line} ET BT (")
        pages += [
            f") Tj ET q {matrix} cm BT {text} ET Q BT (" for text in (by_page, scaled, negative)
        ]
        cases += [degrees % 90 == 0] * 3 + [False]
    document = read("a.pdf", pdf(*pages).replace(b"/MediaBox", b"/Rotate %d /MediaBox" % turned))
    texts = document.text.split("\n\n")
    assert len(texts) == len(cases)
    for is_straight, text in zip(cases, texts, strict=True):
        if is_straight:
            assert text == said
        # PDFium does not always find the objects of other lines in their order.
        assert sorted(text.replace("^", " ").split()) == sorted(said.replace("^", " ").split())


def test_digits_of_a_pdf_that_stand_higher_or_lower_but_not_smaller_are_one_number() -> None:
    steps = " ".join(f"{n} Ts ({n}) Tj" for n in range(1, 6))  # as on a stair
    small = "0 Ts ( and 7) Tj /F1 6 Tf -3 Ts (89) Tj"  # below the line, as an index
    text = read("a.pdf", pdf("One").replace(b"(One) Tj", f"{steps} {small}".encode())).text
    assert text == "12345 and 789"


def test_pdf_invisible_text_is_not_read_but_white_on_a_colour_is() -> None:
    parts = (
        b"(Seen ) Tj 1 g (white ) Tj 0 g 3 Tr (unpainted ) Tj ET 0 0 1 rg 70 600 90 20 re f"
        b" BT 1 g 0 Tr /F1 12 Tf 72 605 Td (on blue) Tj"
    )
    text = read("a.pdf", pdf("One").replace(b"(One) Tj", parts)).text
    assert text.split() == ["Seen", "on", "blue"]


def test_pdf_form_is_read_as_it_has_been_filled_in() -> None:
    field = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ada Stone) /F 4 /DA (/F1 12 Tf)"
        b" /Rect [72 690 300 710] >>"
    )
    form = b" /Fields [%s] /NeedAppearances true /DR << /Font << /F1 3 0 R >> >>" % field
    filled = pdf("Tenant:").replace(b"/Pages 2 0 R", b"/Pages 2 0 R /AcroForm <<%s >>" % form)
    filled = filled.replace(b"/Resources", b"/Annots [%s] /Resources" % field)
    assert read("a.pdf", filled).text.split() == ["Tenant:", "Ada", "Stone"]


def test_pdf_that_needs_no_password_is_read_and_another_is_told() -> None:
    for password, text in (("", "Hello, bees"), ("x", None)):
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Hello, bees")))
        writer.add_metadata({"/Title": " On\0 bees"})
        writer.encrypt(password, algorithm="RC4-128")
        written = io.BytesIO()
        writer.write(written)
        if text is not None:
            assert read("a.pdf", written.getvalue())[:2] == ("On bees", text)
        else:
            with pytest.raises(UnreadableDocument, match="encrypted: a password is needed"):
                read("a.pdf", written.getvalue())


def test_document_that_no_encoding_fits_is_read_by_the_first() -> None:
    assert decode_text(b"caf\xe9 \x81", "unknown", "ascii", "utf-8") == "caf\xe9 \ufffd"
    assert decode_text(b"caf\xe9", "utf-8") == "caf\xe9"  # as a server states that knows no better


def test_html_links_to_others_are_taken_up_to_three_hundred() -> None:
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(400))
    page = f'<p>Apples are round, and so are pears.</p><a href="#top">up</a>{links}'.encode()
    found = read_html(page, None, "http://web.test/a")[3]
    assert found == [(f"http://web.test/{n}", str(n)) for n in range(300)]
    with pytest.raises(UnreadableDocument, match="100022 elements, 100000 are read"):
        read_html(b"<br>" * 100_020, None, "http://web.test/a")


def test_pdf_of_too_many_pages_is_not_read() -> None:
    writer = pypdf.PdfWriter()
    for _ in range(2001):
        writer.add_blank_page(9, 9)
    written = io.BytesIO()
    writer.write(written)
    with pytest.raises(UnreadableDocument, match="has 2001 pages, 2000 are read at most"):
        read("a.pdf", written.getvalue())


def test_document_kinds_that_are_not_read() -> None:
    assert [kind_of(name) for name in ("a.png", "b.tar.gz", "c.db", "d.exe")] == [None] * 4
    assert kind_of("README") == "text"
    assert kind_of("A.MD") == "markdown"
    assert kind_of("a.rst.txt") == "rest"
    assert read_document("text", "a.txt", b"GIF89a\0\1\2", "file:///a.txt") is None
    assert read_document("source", "a.js", b"var a=1;" * 1000, "file:///a.js") is None


@pytest.mark.parametrize("order", ("le", "be"))
def test_markup_in_two_bytes_a_character_is_read_without_a_mark_of_their_order(order: str) -> None:
    page = "<html><body><p>Un café crème pour la très belle forêt.</p></body></html>"
    document = read("a.html", page.encode(f"utf-16-{order}"))
    assert document.text == "Un café crème pour la très belle forêt."


@pytest.mark.parametrize(
    "page",
    (
        "<body><div id=root></div><script src=a.js></script></body>",
        "<body><p>Loading…</p><noscript>Enable JavaScript.</noscript><script>1</script></body>",
    ),
    ids=("empty", "asks"),
)
def test_html_page_whose_text_scripts_write_is_said_not_to_be_read(page: str) -> None:
    with pytest.raises(UnreadableDocument, match=r"^it needs JavaScript: .* not read$"):
        read("a.html", f"<html><head><title>Shop</title></head>{page}</html>")
    text = "<p>Cats sleep sixteen hours a day.</p>" * 10
    read_all = page.replace("<script", f"{text}<script")
    assert "Cats sleep" in read("a.html", f"<html>{read_all}</html>").text


NUMBERING = (
    '<w:numbering xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    '<w:abstractNum w:abstractNumId="0">{}</w:abstractNum><w:num w:numId="1">'
    '<w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="0"/>'
    '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num></w:numbering>'
)
LEVELS = (("decimal", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)"), ("bullet", "o"))


def test_docx_clauses_have_the_numbers_that_word_counts() -> None:
    levels = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
        for n, (form, text) in enumerate(LEVELS)
    )
    clauses = (
        (0, "Terms", "1. Terms"), (1, "Six weeks.", "1.1 Six weeks."),
        (2, "In May.", "(a) In May."), (2, "In June.", "(b) In June."), (3, "Or so.", "- Or so."),
        (1, "It costs 12.", "1.2 It costs 12."), (0, "Payment", "2. Payment"),
        (1, "In 30 days.", "2.1 In 30 days."),
    )  # fmt: skip
    body = [
        f'<w:p><w:pPr><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr></w:pPr>'
        f"<w:r><w:t>{text}</w:t></w:r></w:p>"
        for level, text, _ in clauses
    ]
    body += [body[0].replace('numId w:val="1"', 'numId w:val="2"')]
    made = docx("".join(body), word__numbering_xml=NUMBERING.format(levels))
    said = [each for _, _, each in clauses]
    assert read("a.docx", made).text.split("\n\n") == [*said, "7. Terms"]


def test_docx_is_cut_at_its_headings() -> None:
    table = "".join(
        f"<w:tr><w:tc>{paragraph(a)}</w:tc><w:tc>{paragraph(b)}{paragraph('!')}</w:tc></w:tr>"
        for a, b in (("sea", "deep"), ("lake", "flat"))
    )
    listed = "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>a wave</w:t></w:r></w:p>"
    document = read(
        "a.docx",
        docx(
            paragraph("On seas", "T")
            + paragraph("Waves", "H1")
            + paragraph("Waves are high.")
            + listed
            + paragraph("How high", "H2")
            + f"<w:tbl>{table}</w:tbl>"
            + f"<w:sdt><w:sdtContent>{paragraph('Tides.')}</w:sdtContent></w:sdt>",
        ),
    )
    assert document.title == "On seas"
    assert parts(document) == [
        ("heading=1", "", "On seas"),
        ("heading=2", "Waves", "Waves"),
        ("heading=3", "Waves – How high", "How high"),
    ]
    assert document.text.endswith("- a wave\n\nHow high\n\nsea | deep !\nlake | flat !\n\nTides.")


def test_epub_is_cut_at_its_chapters_and_headings() -> None:
    page = (
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>{}</title></head>"
        "<body>{}</body></html>"
    )
    document = read(
        "a.epub",
        epub(
            page.format("Waves", "<p>Waves are high, and the highest of them are at sea.</p>"),
            page.format("x", "<h1>Tides</h1><p>Tides are low, and the lowest are in spring.</p>"),
        ),
    )
    assert document.title == "On seas"
    assert parts(document) == [
        ("chapter=1", "Waves", "Waves are high, and the highest of them are at sea."),
        ("chapter=2", "Tides", "Tides"),
    ]


def test_epub_page_that_only_a_script_shows_is_missing_and_the_others_are_read() -> None:
    cover = "<html><head><script src='a.js'></script></head><body><img src='a.png'/></body></html>"
    book = epub(cover, "<html><body><h1>Tides</h1><p>Tides are low.</p></body></html>")
    document = read("a.epub", book)
    assert (document.text, document.missing) == (
        "Tides\n\nTides are low.",
        "1 page not read: c0.xhtml",
    )


def test_notebook_file_is_read_with_its_code_and_what_that_printed() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Waves\n", "They are *high*."]},
        {
            "cell_type": "code",
            "source": "print(7)",
            "outputs": [
                {"output_type": "stream", "text": ["7\n"]},
                {"data": {"image/png": "aGVsbG8=", "text/plain": "\x1b[31mred\x1b[0m"}},
            ],
        },
    ]
    document = read("a.ipynb", json.dumps({"cells": cells, "metadata": {}}))
    assert (document.title, parts(document)) == ("Waves", [("waves", "", "# Waves")])
    assert document.text == (
        "# Waves\nThey are *high*.\n\n```python\nprint(7)\n```\n\n```\n7\n```\n\n```\nred\n```\n"
    )
    for broken in ("[]", "{}", '{"cells": [1]}', '{"cells": "x"}', "{", "[" * 100_000):
        with pytest.raises(UnreadableDocument, match="the notebook is damaged"):
            read("a.ipynb", broken)


@pytest.mark.parametrize(
    "table",
    (
        "<tr>" + f"<td rowspan=200>{'<i></i>' * 500}z" * 40 + "<tr><td>x" * 500,
        "<tr><td rowspan=3>a<table>" * 1200,
    ),
)
def test_html_page_with_many_cells_over_several_rows_is_read_soon(table: str) -> None:
    start = time.process_time()
    read("a.html", f"<table>{table}</table>")

    assert time.process_time() - start < 10


@pytest.mark.parametrize("local", (True, False))
def test_html_page_whose_elements_are_never_closed_is_read_to_its_end(local: bool) -> None:
    def page(count: int) -> Document:
        text = "".join(f"<p>Line {n} <font color=red>of it" for n in range(count))
        html = f"<body>{text}<p>The end.</body>".encode()
        return read_html(html, None, "http://a.test/", is_local=local)

    assert (page(400).text.endswith("The end."), page(400).missing) == (True, "")
    assert page(4000).missing == "a part that is nested too deeply to be read"


def test_notebook_output_that_is_cut_is_missing() -> None:
    outputs = [{"text": "a" * 3000}, {"text": "b"}]
    cells = [{"cell_type": "code", "source": "x", "outputs": outputs}]
    document = read("a.ipynb", json.dumps({"cells": cells, "metadata": {}}))
    assert document.missing == "1 output beyond the first 2,000 characters"


@pytest.mark.parametrize("name", ("a.rst.inc", "a.rst.in", "a.rst.txt", "A.RST.J2"))
def test_file_with_a_template_suffix_is_of_the_kind_of_its_name(
    name: str,
) -> None:
    assert read(name, "Ferry\n=====\n\nSails.\n").title == "Ferry"
    assert kind_of("notes.inc") is None
    assert {*map(kind_of, ("login.defs", "tern.service", "log.properties"))} == {"source"}


def test_documents_rich_text_that_is_none_says_so() -> None:
    with pytest.raises(UnreadableDocument, match="no rich text"):
        read_document("rtf", "a.rtf", b"Hello.", "file:///a.rtf")


@pytest.mark.parametrize("name", ("a.nxml", "a.xml"))
def test_paper_of_pubmed_central_is_read_as_its_page_shows_it(name: str) -> None:
    paper = (
        "<article><?x y?><front><journal-meta><journal-title>Birds</journal-title></journal-meta>"
        "<article-meta><title-group><article-title>Terns</article-title></title-group>"
        "<contrib-group><contrib><name><surname>Stone</surname><given-names>Ada</given-names>"
        "</name></contrib></contrib-group><abstract><p>Terns fly far.</p></abstract>"
        "</article-meta></front><body><sec><title>Flight</title><p>It flies 70,000 km a year"
        "<xref ref-type='bibr'><sup>1</sup></xref>, as <xref ref-type='bibr'>Egevang, 2010</xref> "
        "says.</p><list list-type='order'><list-item><p>Up.</p></list-item></list></sec></body>"
        "</article>"
    )
    document = read(name, paper)
    assert document.title == "Terns"
    assert parts(document)[-1] == ("flight", "Flight", "Flight")
    assert document.text.split("\n\n") == [
        "Terns", "Ada Stone", "Terns fly far.", "Flight",
        "It flies 70,000 km a year, as Egevang, 2010 says.", "1. Up.",
    ]  # fmt: skip
