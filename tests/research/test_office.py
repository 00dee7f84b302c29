"""Spreadsheets, presentations, OpenDocument texts and mails in a folder are read."""

from __future__ import annotations

import io
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from moothall import Researcher
from moothall.errors import UnreadableDocument
from moothall.research import search_folder
from moothall.research.reading.documents import kind_of, read_document
from moothall.research.reading.html import Document

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
OPEN = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
    for name, long in (("office", "office"), ("text", "text"), ("table", "table"))
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


def mail(subject: str, text: str, *, html: bool = False, attached: str = "") -> bytes:
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = subject, "Ada <ada@a.example>", "bob@b.example"
    made.set_content(text, subtype="html" if html else "plain")
    if attached:
        made.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename=attached)
    return made.as_bytes()


def read(name: str, data: bytes) -> Document:
    document = read_document(kind_of(name) or "", name, data, f"file:///{name}")
    assert document is not None
    return document


def test_a_spreadsheet_says_the_column_with_each_value_and_hides_what_is_hidden() -> None:
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
        ([("name", ""), ("Ann", 3), ("Bo", 4)], "", "name: Ann; 3"),
        ([("name",), ("Ann",), ("Bo",)], "", "name: Ann"),
    ),
)
def test_a_title_above_the_names_of_the_columns_is_not_the_name_of_a_column(
    rows: list[tuple[object, ...]], title: str, first: str
) -> None:
    (sheet, csv) = (
        read("a.xlsx", xlsx(Sheet=rows)),
        "\n".join(",".join(map(str, r)) for r in rows),
    )
    for document in (sheet, read("a.csv", csv.encode())):
        assert document.text.startswith(first)
        assert document.sections[0].title.removesuffix("row 1").removesuffix(" – ") == title


def test_a_presentation_is_read_by_its_slides_with_their_notes() -> None:
    document = read("a.pptx", pptx(("Plan", "We move in May.", "Say why."), ("", "Zebra", "no")))
    assert document.text == "Plan\nWe move in May.\nTeam | 29 euros\n\nSay why."
    assert [(each.anchor, each.title) for each in document.sections] == [("slide=1", "Plan")]


def test_an_open_document_text_is_cut_at_its_headings() -> None:
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


def test_a_mail_is_read_with_who_says_it_and_its_attachments_are_missing() -> None:
    document = read("a.eml", mail("Rent", "It is 900 euros.", attached="plan.pdf"))
    assert document.text.startswith("Subject: Rent\nFrom: Ada <ada@a.example>")
    assert document.text.endswith("It is 900 euros.")
    assert document.missing == "1 attachment not read: plan.pdf"
    page = "<html><body><p>It is <b>900</b> euros.</p></body></html>"
    assert read("a.eml", mail("Rent", page, html=True)).text.endswith("It is 900 euros.")


def test_the_mails_of_a_mailbox_are_its_sections() -> None:
    both = b"".join(b"From a@b Mon\n" + mail(s, f"Of {s}.") + b"\n" for s in ("Rent", "Tea"))
    document = read("a.mbox", both)
    assert [(e.anchor, e.title) for e in document.sections] == [
        ("mail=1", "Rent"),
        ("mail=2", "Tea"),
    ]
    assert "Of Rent." in document.text


@pytest.mark.parametrize("name", ("a.xlsx", "a.pptx", "a.odt", "a.xls", "a.ods"))
@pytest.mark.parametrize("data", (b"junk", b"PK\3\4junk", b""), ids=("junk", "cut", "empty"))
def test_an_office_file_that_is_damaged_says_so(name: str, data: bytes) -> None:
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
