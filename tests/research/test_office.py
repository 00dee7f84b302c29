"""Spreadsheets, presentations, OpenDocument texts and mails in a folder are read."""

from __future__ import annotations

import base64
import io
import zipfile
import zlib
from email.message import EmailMessage
from pathlib import Path

import pytest

from exchanges import lines_of
from models.openai_server import http
from moothall import Researcher
from moothall.foundation.errors import UnreadableDocument
from moothall.research import search_folder
from moothall.research.reading.documents import kind_of, read_document
from moothall.research.reading.html import Document
from research.web_server import Web

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
OPEN = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
    for name, long in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("style", "style"),
        ("presentation", "presentation"),
    )
)


def packed(files: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return written.getvalue()


def related(kind: str, *targets: str) -> str:
    each = "".join(
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{kind}" Target="{to}"/>'
        for n, to in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{RELS}">{each}</Relationships>'


def xlsx(**sheets: list[tuple[object, ...]]) -> bytes:
    """A workbook; a sheet whose name begins with `hidden` is hidden."""
    names = [*sheets]
    hidden = ' state="hidden"'
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"{hidden * name.startswith("hidden")}/>'
        for n, name in enumerate(names, 1)
    )
    files = {
        "_rels/.rels": related("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets>{listed}</sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": related(
            "worksheet", *(f"worksheets/sheet{n}.xml" for n, _ in enumerate(names, 1))
        ),
    }
    for n, rows in enumerate(sheets.values(), 1):
        made = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        files[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{SHEET}"><sheetData>{made}</sheetData></worksheet>'
        )
    return packed(files)


def cell(value: object) -> str:
    """A cell; a text that begins with `<` is what the file has."""
    if isinstance(value, str) and value.startswith("<"):
        return value
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def pptx(*slides: tuple[str, str, str]) -> bytes:
    """Slides with a title, a text and notes each; one without a title is hidden."""
    ids = "".join(f'<p:sldId r:id="rId{n}"/>' for n, _ in enumerate(slides, 1))
    spaces = f'xmlns:a="{A}" xmlns:p="{P}" xmlns:r="{OFFICE}"'
    files = {
        "ppt/presentation.xml": f"<p:presentation {spaces}>{ids}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": related(
            "slide", *(f"slides/slide{n}.xml" for n, _ in enumerate(slides, 1))
        ),
    }

    def said(text: str) -> str:
        return f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"

    for n, (title, text, notes) in enumerate(slides, 1):
        shown = "" if title else ' show="0"'
        files[f"ppt/slides/slide{n}.xml"] = (
            f'<p:sld {spaces}{shown}><p:sp><p:nvSpPr><p:ph type="title"/></p:nvSpPr>'
            f"{said(title)}</p:sp><p:sp>{said(text)}</p:sp><a:tbl><a:tr><a:tc>{said('Team')}</a:tc>"
            f"<a:tc>{said('29 euros')}</a:tc></a:tr></a:tbl></p:sld>"
        )
        to = f"../notesSlides/notesSlide{n}.xml"
        files[f"ppt/slides/_rels/slide{n}.xml.rels"] = related("notesSlide", to)
        files[f"ppt/notesSlides/notesSlide{n}.xml"] = f"<p:notes {spaces}>{said(notes)}</p:notes>"
    return packed(files)


def odt(body: str) -> bytes:
    return packed(
        {
            "content.xml": f"<office:document-content {OPEN}><office:body><office:text>{body}"
            "</office:text></office:body></office:document-content>"
        }
    )


def read(name: str, data: bytes) -> Document:
    document = read_document(kind_of(name) or "", name, data, f"file:///{name}")
    assert document is not None
    return document


def test_spreadsheet_says_the_column_with_each_value_but_nothing_hidden() -> None:
    book = xlsx(
        Prices=[("plan", "euros"), ("Team", 29), ("Firm", 99.5)],
        hidden=[("secret",), ("Zebra",)],
        Rooms=[("room", "seats"), ("Red", 12)],
    )
    document = read("a.xlsx", book)
    for said in ("plan: Team; euros: 29", "plan: Firm; euros: 99.5", "room: Red; seats: 12"):
        assert said in document.text
    assert "Zebra" not in document.text
    assert [each.anchor for each in document.sections] == ["sheet=1&row-1", "sheet=2&row-1"]


@pytest.mark.parametrize(
    ("rows", "title", "first"),
    (
        (
            [("Budget", ""), ("", ""), ("dept", "euros"), ("Roof", 120)],
            "Budget",
            "dept: Roof; euros: 120",
        ),
        (
            [("Budget",), ("in euros",), ("dept", "2025"), ("Roof", 9)],
            "Budget – in euros",
            "dept: Roof; 2025: 9",
        ),
        (
            [("Visits", "", ""), ("", "Mon", "Tue"), ("Hall", 5, 7)],
            "Visits",
            "Hall; Mon: 5; Tue: 7",
        ),
        (
            [("CHF", "2023", "", "", ""), ("", "Paid", "Net", "Tax", "Due"), ("Tea", 5, 2, 1, 0)],
            "CHF 2023",
            "Tea; Paid: 5; Net: 2; Tax: 1; Due: 0",
        ),
        (
            [("land", "2023", "", "2024", ""), ("", "Q1", "Q2", "Q1", "Q2"), ("Alba", 1, 2, 3, 4)],
            "",
            "land: Alba; 2023 Q1: 1; 2023 Q2: 2; 2024 Q1: 3; 2024 Q2: 4",
        ),
        (
            [("Visits",), ("hall", "adults", ""), ("hall", "paid", "free"), ("Red", 5, 7)],
            "Visits",
            "hall: Red; adults paid: 5; adults free: 7",
        ),
        ([("name", "", "town"), ("Ann", "Dr", "Ulm")], "", "name: Ann; Dr; town: Ulm"),
        ([("name", ""), ("Ann", 3), ("Bo", 4)], "", "name: Ann; 3"),
        ([("name",), ("Ann",), ("Bo",)], "", "name: Ann"),
        ([("How to use it",), ("Fill in each row. " * 6,)], "How to use it", "Fill in each row."),
    ),
)
def test_table_title_above_the_names_of_the_columns_names_no_column(
    rows: list[tuple[object, ...]], title: str, first: str
) -> None:
    (sheet, csv) = (
        read("a.xlsx", xlsx(Sheet=rows)),
        "\n".join(",".join(map(str, r)) for r in rows),
    )
    for document in (sheet, read("a.csv", csv.encode())):
        assert document.text.startswith(first)
        assert document.sections[0].title.removesuffix("row 1").removesuffix(" – ") == title


def test_slide_has_its_title_first_and_marks_before_the_paragraphs_of_its_body() -> None:
    said = "<a:p>{}<a:r><a:t>{}</a:t></a:r></a:p>"
    body = said.format("", "Scan the code") + said.format("<a:pPr><a:buNone/></a:pPr>", "For all")
    box = said.format("<a:pPr><a:buChar char='x'/></a:pPr>", "Ask the firm")
    place = "<p:nvSpPr><p:nvPr><p:ph {}='{}'/></p:nvPr></p:nvSpPr>"
    shapes = f"<p:sp>{place.format('idx', 1)}{body}</p:sp><p:sp>{box}</p:sp>"
    title = f"<p:sp>{place.format('type', 'title')}{said.format('', 'Tools')}</p:sp>"
    with zipfile.ZipFile(io.BytesIO(pptx(("x", "x", "Say why.")))) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    spaces = f'xmlns:a="{A}" xmlns:p="{P}"'
    files["ppt/slides/slide1.xml"] = f"<p:sld {spaces}>{shapes}{title}</p:sld>"
    document = read("a.pptx", packed(files))
    assert document.text == ("Tools\n\n- Scan the code\n\nFor all\n\n- Ask the firm\n\nSay why.")


def test_presentation_is_read_by_its_slides_with_their_notes() -> None:
    document = read("a.pptx", pptx(("Plan", "We move in May.", "Say why."), ("", "Zebra", "no")))
    assert document.text == "Plan\n\nWe move in May.\n\nTeam | 29 euros\n\nSay why."
    assert [(each.anchor, each.title) for each in document.sections] == [("slide=1", "Plan")]


SLIDES = packed(
    {
        "content.xml": f"<office:document-content {OPEN}><office:body><office:presentation>"
        "<draw:page><text:p>We move in May.</text:p></draw:page></office:presentation>"
        "</office:body></office:document-content>"
    }
)


@pytest.mark.parametrize(
    ("name", "media_type", "data"),
    (
        ("a.odp", "application/vnd.oasis.opendocument.presentation", SLIDES),
        ("a.xlsm", "application/vnd.ms-excel.sheet.macroEnabled.12", xlsx(S=[("We move", "May")])),
        ("a.mbox", "application/mbox", b"From a@a.example\nSubject: May\n\nWe move.\n"),
    ),
)
def test_document_is_read_from_the_web_as_from_a_file(
    name: str, media_type: str, data: bytes
) -> None:
    with Web({"/a": http(data, 200, {"Content-Type": media_type})}) as web:
        page = web.visit("/a")
    document = read(name, data)
    assert "We move" in document.text
    assert (page.content, page.sections) == (document.text, document.sections)


def test_open_document_text_is_cut_at_its_headings() -> None:
    document = read(
        "a.odt",
        odt(
            '<text:h text:outline-level="1">Plan</text:h><text:p>We<text:s text:c="2"/>move in '
            "<text:span>May</text:span>.<office:annotation>Zebra</office:annotation></text:p>"
            "<text:tracked-changes>Zebra</text:tracked-changes><text:h>Costs</text:h>"
            "<table:table><table:table-row><table:table-cell><text:p>Team</text:p>"
            "</table:table-cell><table:table-cell><text:p>29</text:p></table:table-cell>"
            "</table:table-row></table:table>"
        ),
    )
    assert document.text == "Plan\n\nWe  move in May.\n\nCosts\n\nTeam | 29"
    assert [each.title for each in document.sections] == ["", "Costs"]


@pytest.mark.parametrize(
    ("formula", "missing"),
    (
        ("<c><f>SUM(B2:B3)</f><v></v></c>", True),
        ("<c r='B4'><f>SUM(B2:B3)</f><v/></c>", True),
        ("<c><f t='shared' si='0'/></c>", True),
        ("<c><f>SUM(B2:B3)</f><v>1900</v></c>", False),
        ('<c t=\'str\'><f>IF(B2&gt;1,"","x")</f><v></v></c>', False),
    ),
)
def test_spreadsheet_formula_without_a_stored_value_is_missing(formula: str, missing: bool) -> None:
    rows: list[tuple[object, ...]] = [("item", "euros"), ("Rent", 900), ("All", formula)]
    document = read("a.xlsx", xlsx(Costs=rows))
    assert "Rent" in document.text
    said = "1 formula without a stored value: save it in a spreadsheet program"
    assert document.missing == (said if missing else "")


def test_spreadsheet_says_percentages_units_and_errors_as_it_shows_them() -> None:
    formats = {164: "0.0%", 165: "#,##0.00\\ [$€-407]", 166: '0.0,"k"', 167: "yyyy-mm"}
    made = "".join(f"<numFmt numFmtId='{n}' formatCode='{code}'/>" for n, code in formats.items())
    used = "".join(f'<xf numFmtId="{n}"/>' for n in (0, 9, *formats))
    both = f"<numFmts>{made}</numFmts><cellXfs>{used}</cellXfs>"
    style = f'<styleSheet xmlns="{SHEET}">{both}</styleSheet>'
    shown = (0.19, 0.07, 1234.5, 12500, 45000)
    cells = [f'<c r="{"BCDEF"[n]}2" s="{n + 1}"><v>{v}</v></c>' for n, v in enumerate(shown)]
    row = ('<c r="A2"><v>0.5</v></c>', *cells, '<c r="G2" t="e"><v>#DIV/0!</v></c>')
    names = tuple(f'<c r="{e}1" t="inlineStr"><is><t>{e.lower()}</t></is></c>' for e in "ABCDEFG")
    with zipfile.ZipFile(io.BytesIO(xlsx(S=[names, row]))) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    rels = "xl/_rels/workbook.xml.rels"
    more = f'<Relationship Id="s" Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>'
    files |= {rels: files[rels].replace("</Relationships>", more), "xl/styles.xml": style}
    said = "a: 0.5; b: 19%; c: 7%; d: 1234.5 €; e: 12.5k; f: 2023-03-15; g: #DIV/0!"
    assert read("a.xlsx", packed(files)).text.strip() == said


def test_spreadsheet_says_nothing_that_is_struck_out() -> None:
    fonts = "<fonts><font/><font><strike/></font><font><strike val='0'/></font></fonts>"
    used = "".join(f'<xf numFmtId="0" fontId="{n}"/>' for n in range(3))
    runs = "<r><rPr><strike/></rPr><t>100</t></r><r><t xml:space='preserve'>80 euros</t></r>"
    row = [
        *(f'<c r="{column}2" s="{n}"><v>{n}0</v></c>' for n, column in enumerate("ABC")),
        '<c r="D2" t="s"><v>1</v></c>',
    ]
    names = [f'<c r="{e}1" t="inlineStr"><is><t>{e.lower()}</t></is></c>' for e in "ABCD"]
    with zipfile.ZipFile(io.BytesIO(xlsx(S=[tuple(names), tuple(row)]))) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    rels, more = "xl/_rels/workbook.xml.rels", ""
    for kind in ("styles", "sharedStrings"):
        more += f'<Relationship Id="{kind}" Type="{OFFICE}/{kind}" Target="{kind}.xml"/>'
    files[rels] = files[rels].replace("</Relationships>", f"{more}</Relationships>")
    files["xl/styles.xml"] = (
        f'<styleSheet xmlns="{SHEET}">{fonts}<cellXfs>{used}</cellXfs></styleSheet>'
    )
    files["xl/sharedStrings.xml"] = f'<sst xmlns="{SHEET}"><si><t>x</t></si><si>{runs}</si></sst>'
    assert read("a.xlsx", packed(files)).text.startswith("a: 0; c: 20; d: 80 euros")


def ods(*rows: str, columns: tuple[str, ...] = (), filtered: str = "") -> bytes:
    """A spreadsheet of OpenDocument with these rows, the attributes of columns, a hidden row."""
    table = '<table:table table:name="Prices">' + "".join(
        (
            *(f"<table:table-column{each}/>" for each in columns),
            *(f"<table:table-row>{each}</table:table-row>" for each in rows),
            f'<table:table-row table:visibility="filter">{filtered}</table:table-row>'
            * bool(filtered),
        )
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    return packed(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="{manifest}"><m:file-entry '
            f'm:full-path="/" m:media-type="{kind}"/></m:manifest>',
            "content.xml": f"<office:document-content {OPEN}><office:body><office:spreadsheet>"
            f"{table}</table:table></office:spreadsheet></office:body></office:document-content>",
        }
    )


def shown(text: str, kind: str = "string", value: str = "") -> str:
    stated = f' office:{"time-value" if kind == "time" else "value"}="{value}"' if value else ""
    return (
        f'<table:table-cell office:value-type="{kind}"{stated}><text:p>{text}</text:p>'
        "</table:table-cell>"
    )


def test_open_document_sheet_says_percentages_amounts_and_long_hours_as_it_shows_them() -> None:
    names = [shown(each) for each in ("What", "Rate", "Cost", "Took")]
    cells = [shown("A"), shown("7%", "percentage", "0.07"), shown("£1,250.00", "currency", "1250")]
    data = ods("".join(names), "".join([*cells, shown("36:00", "time", "PT36H00M00S")]))
    assert "What: A; Rate: 7%; Cost: £1,250.00; Took: 36:00" in read("a.ods", data).text


def test_open_document_sheet_says_no_cell_that_is_struck_out() -> None:
    style = (
        '<style:style style:name="old"><style:text-properties '
        'style:text-line-through-style="solid"/></style:style>'
    )
    old = shown("100").replace("<table:table-cell", '<table:table-cell table:style-name="old"')
    names = "".join(shown(each) for each in "abc")
    with zipfile.ZipFile(io.BytesIO(ods(names, shown("x") + old + shown("80")))) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    content = files["content.xml"]
    files["content.xml"] = content.replace("<office:body>", f"{style}<office:body>")
    assert read("a.ods", packed(files)).text.startswith("a: x; c: 80")


# What xlwt wrote: cells of the formats 0%, [$£-809]#,##0.00, yyyy-mm-dd and 0.00 "EUR"; struck out
# are 100 in the row of B, and 1,000 and 9,000 before what stands there in their place.
OF_EXCEL_97 = (
    "c-rk)O-NKx6#nj;H_nfL<1c714P#l^7^7`;p_7KWO3a9&A8K?46m^twAZ$^Vxe0=(RnbPWqK(z2A1bO{P+-&|2m-BTtDvBTI"
    "-PUo&7}1L2TG{kH{5gYIp>~p&)j?F+&Ay#OwsJ*?aDd)fM(dRm~<g$iA+&*r5O)MpG@*F-8-ozE&Nq*Iq4vC?0As>!og?A=R"
    "F4vxAdn(f%nu7Vi+Amv8Znq(JC>7701v-RN*p73Q!?Y6$|YVS|aqO%zP+xn@G+IZKAoeYCmQ|9W@O`7Vp#iqALLVy(>0vMN)"
    "?{JmV}raZaV?+R+m43lIG73TM^|6IWh64^yBtYmdgFapuc#l?%y%bysQ|f{ll&0##MPEy18yFT^#tfl)&3;9zYe!lLUeV!hA"
    "bwx`QKi&9G0DSS!#fY0f=^u%Y$S68k;@~_L~j$g=~bb*-3U6crBayR9HnLL-0!AzcKvhD><2gZ;*B4uQPe)c2wRH@tD8;vIF"
    "=FuzH8aJAGv^SifE*?%qsp}aUN!Wl$c$9302f}?Z%IOwrt+{Y&s0#!s9qX9_`Q);I@|on@ec^<!QIri#?WD{lrJL80lIvMka"
    "`UAW<q?gbP{u`4kjNS4Z+v>Sv%52NSR`X|&89Bn_596{#7VXw;{wsxGqgr5HVZu^Uf0ODQfMj7p}xAa%oyw#mpP|JTTSb16}"
    "%2@STf#7<B5;E?s+FZgf`K5x_$0g>GYe>B>c345whpcI07o5E?s2Y52br$6z+FID}E~CPR(P)o;02~3b7!22HFosisRi;8BR"
    "0yD#h7|vt>A)INk89Ogt;`%zO0+UWvRIYbBmDCA>ra$L#&Ncw!%#i4RSD@F^bGnA52K)n_;z<v6cW5!fX5<<>T_b{H}0CNp%"
    "I!KdD=72^&sM_1f;xM9J91q&7|Sg?=<lsrH|9z%5Fv5_BT9L9T{1!{}dYm$E!T^OQIg8nkKAx3>1qgmxoIqWL!ORdl*{l1W~"
    "msXFXAKem1f7ba+e<;+_@3Ue<&+q#QWxM`jHgW#p^}hj#(i-j"
)


def test_sheet_of_excel_97_says_percentages_and_amounts_as_it_shows_them() -> None:
    document = read("a.xls", zlib.decompress(base64.b85decode(OF_EXCEL_97)))
    assert "what: A; rate: 7%; cost: £1250; day: 2023-03-15; plain: 0.5" in document.text
    assert "what: B; cost: 12 EUR\n" in document.text


def test_sheet_of_excel_97_says_nothing_that_is_struck_out() -> None:
    text = read("a.xls", zlib.decompress(base64.b85decode(OF_EXCEL_97))).text
    assert text.endswith("what: B; cost: 12 EUR\n\nwhat: 2,000\n\nwhat: C at 8,000")


def test_sheet_names_the_columns_that_no_row_has_a_value_for() -> None:
    rows = [("Date", "Time", "Place"), ("no data", "", ""), ("", "", "Hall 2")]
    assert read("a.xlsx", xlsx(S=rows)).text.endswith(
        "Place: Hall 2\n\nColumns without a value: Time"
    )


def test_odt_cell_over_several_rows_and_columns_is_said_in_each_and_a_chart_as_its_table() -> None:
    def cell(text: str, size: str = "") -> str:
        return f"<table:table-cell {size}><text:p>{text}</text:p></table:table-cell>"

    covered, wide = "<table:covered-table-cell/>", 'table:number-columns-spanned="2"'
    rows = (
        cell("Port") + cell("Fare", wide) + covered,
        cell("Alba", 'table:number-rows-spanned="2"') + cell("Day") + cell("6"),
        covered + cell("Night") + cell("9"),
    )
    table = "".join(f"<table:table-row>{each}</table:table-row>" for each in rows)
    chart = (
        f'<office:document-content {OPEN} xmlns:chart="urn:chart"><office:body><office:chart>'
        "<chart:chart><chart:title><text:p>Travellers</text:p></chart:title><table:table>"
        f"<table:table-row>{cell('Cove')}{cell('6100')}</table:table-row></table:table>"
        "</chart:chart></office:chart></office:body></office:document-content>"
    )
    link = 'xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="./Object 1"'
    frame = f"<text:p><draw:frame><draw:object {link}/></draw:frame></text:p>"
    body = f"<table:table>{table}</table:table>{frame}"
    text = f"<office:document-content {OPEN}><office:body><office:text>{body}</office:text>"
    content = f"{text}</office:body></office:document-content>"
    document = read("a.odt", packed({"content.xml": content, "Object 1/content.xml": chart}))
    assert document.text == (
        "Port | Fare | Fare\nAlba | Day | 6\nAlba | Night | 9\n\nTravellers\n\nCove | 6100"
    )


def test_slide_cell_over_several_rows_is_said_in_each() -> None:
    rows = "".join(
        f"<a:tr><a:tc{about}><a:p><a:r><a:t>{region}</a:t></a:r></a:p></a:tc>"
        f"<a:tc><a:p><a:r><a:t>{number}</a:t></a:r></a:p></a:tc></a:tr>"
        for about, region, number in ((' rowSpan="2"', "North", 1), (' vMerge="1"', "", 2))
    )
    data = pptx(
        ("Sales", f"</a:t></a:r></a:p></p:sp><a:tbl>{rows}</a:tbl><p:sp><a:p><a:r><a:t>", "")
    )
    assert "North | 1\nNorth | 2" in read("a.pptx", data).text


def test_mail_attachments_are_read_as_files_of_their_kind() -> None:
    made = EmailMessage()
    made["Subject"] = "Bids"
    made.set_content("Two bids are attached.")
    sheet = xlsx(Bids=[("firm", "euros"), ("Elm", 4100)])
    for name, data in (("bids.xlsx", sheet), ("terms.md", b"# Terms\n\nPaid in 14 days.")):
        made.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    made.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="logo.png")
    document = read("a.eml", made.as_bytes())
    assert document.text.split("\n\n")[1:] == [
        "Two bids are attached.",
        "firm: Elm; euros: 4100",
        "# Terms",
        "Paid in 14 days.",
    ]
    assert [(e.anchor, e.title, document.text[e.start :][:4]) for e in document.sections[1:]] == [
        ("attachment=bids.xlsx&sheet=1&row-1", "bids.xlsx", "firm"),
        ("attachment=terms.md&terms", "terms.md – Terms", "# Te"),
    ]
    assert document.missing == "1 attachment not read: logo.png"


@pytest.mark.parametrize(
    ("name", "data"),
    (
        *(("a.xlsx", data) for data in (b"junk", b"PK\3\4junk", b"")),
        *((name, b"PK\3\4junk") for name in ("a.pptx", "a.odt", "a.ods")),
        ("a.xls", b"junk"),
    ),
)
def test_office_file_that_is_damaged_says_so(name: str, data: bytes) -> None:
    with pytest.raises(UnreadableDocument, match=r"damaged|no text"):
        read(name, data)


def test_research_answers_from_slides_and_sheets(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "talk.pptx").write_bytes(pptx(("Move", "The office moves to Kiel in May.", "")))
    (docs / "prices.xlsx").write_bytes(xlsx(Prices=[("plan", "euros"), ("Team", 29)]))
    tool = search_folder(docs, index=tmp_path / "i.db")
    report = Researcher("r", None, ["When does the office move to Kiel?"], [tool]).report_sync()
    assert "The office moves to Kiel in May." in report.markdown
    assert "talk.pptx" in report.markdown


# -- what programs write, read as people see it ----------------------------------------------------

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
COMPAT = "http://schemas.openxmlformats.org/markup-compatibility/2006"


def docx(body: str, *, name: str = "document.xml", words: str = WORD, styles: str = "") -> bytes:
    spaces = f'xmlns:w="{words}" xmlns:m="{MATH}" xmlns:mc="{COMPAT}"'
    return packed(
        {
            "_rels/.rels": related("officeDocument", f"/word/{name}"),
            f"word/{name}": f"<w:document {spaces}><w:body>{body}</w:body></w:document>",
            f"word/_rels/{name}.rels": related("styles", "styles2.xml"),
            "word/styles2.xml": f"<w:styles {spaces}>{styles}</w:styles>",
        }
    )


HELLO = "<w:p><w:r><w:t>Hello</w:t></w:r></w:p>"
BLUE = '<w:shd w:val="clear" w:fill="1F4E79"/>'
LOOKS = (
    f'<w:style w:styleId="Grid"><w:tblStylePr><w:tcPr>{BLUE}</w:tcPr></w:tblStylePr></w:style>'
    f'<w:style w:styleId="Box"><w:pPr>{BLUE}</w:pPr></w:style>'
    '<w:style w:styleId="Ghost"><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:styleId="Old"><w:rPr><w:strike/></w:rPr></w:style>'
)


@pytest.mark.parametrize("line", lines_of(__file__, "word"))
def test_docx_has_the_text_that_a_reader_sees(line: dict[str, str]) -> None:
    """Each line has the XML of a document's `body`, and its `text`."""
    assert read("a.docx", docx(line["body"], styles=LOOKS)).text == line["text"]


def test_docx_is_read_whatever_its_parts_are_named_and_if_it_is_strict() -> None:
    assert read("a.docx", docx(HELLO, name="document2.xml")).text == "Hello"
    assert read("a.docx", docx(HELLO, words=STRICT)).text == "Hello"


def test_presentation_that_names_a_part_without_its_place_is_read() -> None:
    slide = pptx(("Prices", "From May on.", "Say it twice."))
    with zipfile.ZipFile(io.BytesIO(slide)) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    names = "ppt/_rels/presentation.xml.rels"
    lost = f'<Relationship Id="rId9" Type="{OFFICE}/slide"/></Relationships>'
    files[names] = files[names].replace("</Relationships>", lost)

    assert read("talk.pptx", packed(files)).text == read("talk.pptx", slide).text


def test_presentation_chart_is_read() -> None:
    chart = (
        '<c:chart xmlns:c="urn:c"><c:ser><c:tx><c:v>Q1</c:v></c:tx><c:cat><c:pt idx="0">'
        '<c:v>East</c:v></c:pt><c:pt idx="1"><c:v>West</c:v></c:pt></c:cat><c:val><c:pt idx="0">'
        '<c:v>19.2</c:v></c:pt><c:pt idx="1"><c:v>21.4</c:v></c:pt></c:val></c:ser></c:chart>'
    )
    spaces = f'xmlns:a="{A}" xmlns:p="{P}" xmlns:r="{OFFICE}"'
    files = {
        "ppt/presentation.xml": f'<p:presentation {spaces}><p:sldId r:id="rId1"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": related("slide", "/ppt/slides/slide1.xml"),
        "ppt/slides/slide1.xml": f"<p:sld {spaces}/>",
        "ppt/slides/_rels/slide1.xml.rels": related("chart", "../charts/chart1.xml"),
        "ppt/charts/chart1.xml": chart,
    }
    assert read("a.pptx", packed(files)).text == "Q1 – East: 19.2; West: 21.4"


def test_notes_and_boxes_of_an_open_document_stand_below_and_lines_of_a_cell_apart() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Cold."
        "</text:p></text:note-body></text:note>"
    )
    box = "<draw:frame><draw:text-box><text:p>Box</text:p></draw:text-box></draw:frame>"
    cell = "<table:table-cell><text:p>29 euros</text:p><text:p>a month</text:p></table:table-cell>"
    text = read(
        "a.odt",
        odt(
            f"<text:p>It is 500{note} euros.</text:p><text:p>Now {box}here.</text:p>"
            f"<table:table><table:table-row>{cell}</table:table-row></table:table>"
            '<text:section text:display="none"><text:p>Zebra</text:p></text:section>'
        ),
    ).text
    assert text == "It is 500 euros.\n\nCold.\n\nNow here.\n\nBox\n\n29 euros a month"


def test_open_document_has_no_hidden_text_or_comment_and_marks_raised_numbers() -> None:
    styles = (
        '<style:style style:name="struck"><style:text-properties '
        'style:text-line-through-style="solid"/></style:style>'
        '<style:style style:name="low"><style:text-properties style:text-position="sub 58%"/>'
        "</style:style>"
        '<style:style style:name="no"><style:text-properties text:display="none"/></style:style>'
        '<style:style style:name="up"><style:text-properties style:text-position="super 58%"/>'
        '</style:style><style:style style:name="off"><style:drawing-page-properties '
        'presentation:visibility="hidden"/></style:style>'
    )
    text = (
        '<text:p>Of <text:span text:style-name="struck">20</text:span>10<text:span '
        'text:style-name="up">6</text:span>, 101<text:span text:style-name="low">2</text:span>'
        '<text:span text:style-name="no">'
    )
    note = "<office:annotation><text:p>Zebra</text:p></office:annotation>"
    slides = (
        f"{styles}<draw:page><draw:frame>{text}Zebra</text:span></text:p></draw:frame>{note}"
        '</draw:page><draw:page draw:style-name="off"><text:p>Zebra</text:p></draw:page>'
    )
    seen = "Of 10^6, 101_2"
    assert read("a.odt", odt(f"{styles}{text}Zebra</text:span></text:p>")).text == seen
    document = read("a.odp", odt(slides))
    assert (document.text, [each.anchor for each in document.sections]) == (seen, ["slide=1"])


def test_open_document_paragraphs_of_a_shape_stand_below_the_paragraph_that_has_it() -> None:
    shape = "<draw:custom-shape><text:p>Low.</text:p><text:p>High.</text:p></draw:custom-shape>"
    document = read("a.odt", odt(f"<text:p>Tides {shape}are</text:p>"))
    assert document.text == "Tides are\n\nLow.\n\nHigh."


def test_slide_raised_and_lowered_numbers_are_no_part_of_the_number_before() -> None:
    runs = (("", "Of 10"), ('baseline="30000"', "6"), ("", ", 101"), ('baseline="-25000"', "2"))
    text = "</a:t></a:r><a:r>".join(f"<a:rPr {about}/><a:t>{each}" for about, each in runs)
    assert "Of 10^6, 101_2" in read("a.pptx", pptx(("Tides", f"</a:t>{text}", "x"))).text


def test_slide_struck_text_and_hidden_shapes_are_left_out() -> None:
    struck = '20</a:t></a:r><a:r><a:rPr strike="sngStrike"/><a:t>30</a:t></a:r><a:r><a:t>40'
    hidden = (
        '<p:sp><p:nvSpPr><p:cNvPr id="9" name="x" hidden="1"/></p:nvSpPr><a:p><a:r><a:t>Zebra</a:t>'
        "</a:r></a:p></p:sp>"
    )
    with zipfile.ZipFile(io.BytesIO(pptx(("Tides", f"Of {struck}", "x")))) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    slide = "ppt/slides/slide1.xml"
    files[slide] = files[slide].replace("</p:sld>", f"{hidden}</p:sld>")
    text = read("a.pptx", packed(files)).text
    assert "Of 2040" in text
    assert "Zebra" not in text


def test_spreadsheet_sum_that_was_not_computed_is_missing_rather_than_zero() -> None:
    rows: list[tuple[object, ...]] = [("item", "euros"), ("All", "<c><f>SUM(B2)</f><v>0</v></c>")]
    book = xlsx(Costs=rows)
    assert read("a.xlsx", book).text.strip() == "item: All; euros: 0"
    with zipfile.ZipFile(io.BytesIO(book)) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    files["xl/workbook.xml"] = files["xl/workbook.xml"].replace(
        "</workbook>", '<calcPr calcId="124519" fullCalcOnLoad="1"/></workbook>'
    )
    document = read("a.xlsx", packed(files))
    assert document.text.strip() == "item: All\n\nColumns without a value: euros"
    assert document.missing.startswith("1 formula without a stored value")


def test_spreadsheet_rows_and_columns_that_it_hides_are_left_out_and_counted() -> None:
    rows = "".join(
        f'<row r="{n}"{hidden}>{cell(name)}{cell(salary)}{cell(team)}</row>'
        for n, hidden, name, salary, team in (
            (1, "", "name", "salary", "team"),
            (2, ' spans="1:3" hidden="1"', "Ann", "10", "red"),
            (3, "", "Bob", "20", "blue"),
        )
    )
    columns = '<cols><col min="2" max="2" width="9" hidden="1"/></cols>'
    with zipfile.ZipFile(io.BytesIO(xlsx(Staff=[]))) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    files["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{SHEET}">{columns}<sheetData>{rows}</sheetData></worksheet>'
    )
    document = read("a.xlsx", packed(files))
    assert document.text.strip() == "name: Bob; team: blue"
    assert document.missing == "1 hidden row; 1 hidden column"


def test_open_document_sheet_rows_and_columns_that_it_hides_are_left_out() -> None:
    names, ann, bob = (
        shown(a) + shown(b) for a, b in map(str.split, ("name pay", "Ann 9", "Bob 8"))
    )
    document = read("a.ods", ods(names, ann, bob, columns=("", ' table:visibility="collapse"')))
    assert document.text.strip() == "name: Ann\n\nname: Bob"
    assert document.missing == "1 hidden column"
    document = read("a.ods", ods(names, ann, filtered=bob))
    assert document.text.strip() == "name: Ann; pay: 9"
    assert document.missing == "1 hidden row"


def test_spreadsheet_cell_over_several_rows_is_said_in_each() -> None:
    book = xlsx(Shops=[("region", "shop", "sum"), ("North", "a", 0.1 + 0.2), ("", "b", 2.5)])
    with zipfile.ZipFile(io.BytesIO(book)) as file:
        files = {name: file.read(name).decode() for name in file.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    files[sheet] = files[sheet].replace(
        "</sheetData>", '</sheetData><mergeCells><mergeCell ref="A2:A3"/></mergeCells>'
    )
    text = read("a.xlsx", packed(files)).text
    assert text.split("\n\n")[:2] == [
        "region: North; shop: a; sum: 0.3",
        "region: North; shop: b; sum: 2.5",
    ]


@pytest.mark.parametrize("charset", ("", "; charset=x-unknown", "; charset=utf-8"))
def test_mail_letters_are_read_whatever_it_says_of_them(charset: str) -> None:
    by = "utf-8" if "utf" in charset else "latin-1"
    data = f"Subject: x\nContent-Type: text/plain{charset}\n\nGrüße aus Köln".encode(by)
    assert read("a.eml", data).text == "Subject: x\n\nGrüße aus Köln"


def test_odt_items_and_headings_have_the_numbers_that_writer_counts() -> None:
    outline = "".join(
        f'<text:outline-level-style text:level="{n}" style:num-format="1" '
        f'text:display-levels="{n}"/>'
        for n in (1, 2)
    )
    levels = (
        '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
        '<text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")"/>'
    )
    styles = f'<text:outline-style style:name="O">{outline}</text:outline-style>'
    styles += f'<text:list-style style:name="L">{levels}</text:list-style>'

    def items(*texts: str, inside: str = "", goes_on: bool = False) -> str:
        rows = "".join(
            f"<text:list-item><text:p>{e}</text:p>{inside}</text:list-item>" for e in texts
        )
        mark = ' text:continue-numbering="true"' * goes_on
        return f'<text:list text:style-name="L"{mark}>{rows}</text:list>'

    def heading(level: int, text: str) -> str:
        return f'<text:h text:outline-level="{level}">{text}</text:h>'

    body = heading(1, "Terms") + heading(2, "Notice") + heading(2, "Fees") + heading(1, "End")
    body += items("Six weeks.", inside=items("In May.", "In June.")) + items("Costs.", goes_on=True)
    body += items("Anew.")
    text = read("a.odt", odt(styles + body)).text
    assert text.split("\n\n") == [
        "1 Terms", "1.1 Notice", "1.2 Fees", "2 End",
        "1. Six weeks.", "a) In May.", "b) In June.", "2. Costs.", "1. Anew.",
    ]  # fmt: skip


def test_html_items_of_a_counted_list_have_their_numbers() -> None:
    page = (
        "<body><p>Steps of the work, in order:</p><ol start='3' type='a'><li>Cut.<li value='9'>Dry."
        "<ul><li>Slowly.</ul></ol><ol reversed><li>Two.<li>One.</ol></body>"
    )
    items = [each for each in read("a.html", page.encode()).text.split("\n") if each][1:]
    assert items == ["c. Cut.", "i. Dry.", "- Slowly.", "2. Two.", "1. One."]


def test_mailbox_keeps_a_patch_in_its_mail_and_has_no_signs_before_from() -> None:
    patch = f"From {'0a' * 20} Mon Sep 17 00:00:00 2001\nSubject: [PATCH] valve\n\nIt closes.\n"
    mails = (
        "Subject: Roof\n\nIt costs 900.\n\n>From now on it holds.\n",
        f"Subject: A patch\n\nPlease take it.\n\n{patch}",
    )
    mailbox = "".join(f"From x@y Mon Nov  2 10:00:00 2026\n{each}\n" for each in mails)
    for name in ("a.mbox", "Inbox"):
        made = mailbox.replace(
            "\nSubject: Roof", "\nDate: Mon, 2 Nov 2026 10:00:00 +0000\nSubject: Roof"
        )
        document = read(name, made.encode())
        assert [each.title for each in document.sections] == ["Roof", "A patch"]
        assert "\nFrom now on it holds." in document.text
    patches = read("b.mbox", (patch + "\n" + patch).encode())
    assert [each.title for each in patches.sections] == ["[PATCH] valve"] * 2
