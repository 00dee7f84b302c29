"""Manual pages, read from their source."""

from __future__ import annotations

import gzip
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tests.research.quotes import shows

from moothall.foundation.errors import UnreadableDocument
from moothall.research import Researcher, search_folder
from moothall.research.reading.documents import kind_of, read_document
from moothall.research.reading.html import Document

MAN = r"""'\" t
.\" A comment
.ie \n(.g .ds Aq \(aq
.el       .ds Aq '
.de URL
\fI\\$2\fP
..
.TH "TERN" "8" "2024-05-11" "tern 1.2" "System Administration"
.SH "NAME"
tern \- carries letters
.SH OPTIONS
Not all are the user\*(Aqs.
.TP
.BR \-k ", " \-\-knots =\fIN\fR
Fly with
.I N
knots; the default is 40.
.IP
More is refused.
.TP
\fB\-q\fP
Be quiet.
.PP
\fB\-x\fR, \fB\-\-exit\fR
.RS 4
Exit\&.
.RE
.if t .sp 100v
.SS "Kinds of \(lqletter\(rq"
.IP \(bu 2
short ones
.IP \(bu 2
long ones
.PP
As in:
.nf
tern \-k 9 \e
    home
.fi
.TS
tab(;);
l l.
Code;Meaning
4;Lost
.TE
"""


def read(name: str, text: str) -> Document:
    document = read_document(kind_of(name) or "", name, text.encode(), f"file:///{name}")
    assert document is not None
    return document


@pytest.fixture(autouse=True)
def mandoc() -> None:
    assert shutil.which("mandoc"), "the tests need mandoc: apt install mandoc"


def test_manual_page_has_its_headings_terms_lists_and_tables_and_no_fonts() -> None:
    page = read("tern.8", MAN)
    assert page.title == "tern(8)"
    assert page.text == (
        "NAME\n\ntern - carries letters\n\nOPTIONS\n\nNot all are the user's.\n\n"
        "-k, --knots=N\nFly with N knots; the default is 40.\n\nMore is refused.\n\n"
        "-q\nBe quiet.\n\n-x, --exit\n\nExit.\n\n"
        "Kinds of “letter”\n\n- short ones\n- long ones\n\nAs in:\n\n"
        "tern -k 9 \\\n    home\n\nCode | Meaning\n4 | Lost"
    )
    named = [(each.anchor, each.title) for each in page.sections]
    assert named == [
        ("NAME", "NAME"),
        ("OPTIONS", "OPTIONS"),
        ("Kinds_of_", "Kinds of “letter”"),
    ]
    assert [page.text[each.start :][:3] for each in page.sections] == ["NAM", "OPT", "Kin"]


def test_manual_page_without_mandoc_is_read_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    page = read("tern.8", MAN)
    assert ".SH OPTIONS" in page.text
    assert "the default is 40" in page.text


@pytest.mark.parametrize(
    "text",
    (
        ".TH\n.SH",
        ".TH A 1\n.TP\n.TS\nT{\na",
        ".Dd\n.It\n.Sh A\n.El\n.Bl\n.It\n.Xr\n.Fn\n.Nm\n.Op Fl\n.Pf",
        ".TH A 1\n.if n \\{\\\n.el \\{\n",
        ".ds A " + "x" * 200 + "\n.TH A 1\n" + "\\*A" * 30_000,
        ".TH A 1\n" + ".RS\na\n" * 10_000,
        ".TH A 1\n" + ".if n " * 20_000,
        ".TH A 1\n.de X\n.X\n.X\n..\n.X\n",
    ),
)
def test_manual_page_that_is_damaged_or_grows_ends_by_itself(text: str) -> None:
    with suppress(UnreadableDocument):
        assert len(read("a.1", text).text) < 8 * 2**20


def test_folder_with_manual_pages_answers_by_its_options(tmp_path: Path) -> None:
    folder = tmp_path / "man8"
    folder.mkdir()
    (folder / "tern.8.gz").write_bytes(gzip.compress(MAN.encode()))
    search = search_folder(folder, index=tmp_path / "index.db")
    report = Researcher(
        "r", None, ["With how many knots does tern fly?"], [search], 1
    ).report_sync()
    assert shows(report.citations[0].sentence, "Fly with N knots; the default is 40.")
    assert report.citations[0].passage.url.endswith("/tern.8.gz#OPTIONS")
