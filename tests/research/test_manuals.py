"""Manual pages, read from their source."""

from __future__ import annotations

import gzip
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
MDOC = r"""
.Dd May 11, 2024
.Dt TERN_CONFIG 5
.Os
.Sh NAME
.Nm tern_config
.Nd how
.Xr tern 8
flies
.Sh DESCRIPTION
.Nm
has lines
.Pq see Xr tern 8 .
.Bl -tag -width Ds
.It Cm Knots Ar number
How fast.
The argument must be
.Cm auto
or a number
.Pf ( Fl k ) .
.It Xo
.Fl o Op Ar file ,
.Fl O
.Xc
Where to.
.Bl -enum
.It
home
.El
.El
"""


def read(name: str, text: str) -> Document:
    document = read_document(kind_of(name) or "", name, text.encode(), f"file:///{name}")
    assert document is not None
    return document


def test_manual_page_has_its_headings_terms_lists_and_tables_and_no_fonts() -> None:
    page = read("tern.8", MAN)
    assert page.title == "tern(8)"
    assert page.text == (
        "NAME\n\ntern - carries letters\n\nOPTIONS\n\nNot all are the user's.\n\n"
        "-k, --knots=N\n    Fly with N knots; the default is 40.\n    More is refused.\n\n"
        "-q\n    Be quiet.\n\n-x, --exit\n    Exit.\n\n"
        "Kinds of “letter”\n\n    - short ones\n    - long ones\n\nAs in:\n\n"
        "tern -k 9 \\\n    home\n\nCode | Meaning\n4 | Lost"
    )
    named = [(each.anchor, each.title) for each in page.sections]
    assert named == [
        ("name", "NAME"),
        ("options", "OPTIONS"),
        ("kinds-of-letter", "OPTIONS – Kinds of “letter”"),
    ]
    assert [page.text[each.start :][:3] for each in page.sections] == ["NAM", "OPT", "Kin"]


def test_manual_page_in_mdoc_says_what_its_macros_mean() -> None:
    page = read("tern_config.5", MDOC)
    assert page.title == "tern_config(5)"
    assert page.text == (
        "NAME\n\ntern_config – how tern(8) flies\n\n"
        "DESCRIPTION\n\ntern_config has lines (see tern(8)).\n\n"
        "Knots number\n    How fast. The argument must be auto or a number (-k).\n\n"
        "-o [file], -O\n    Where to.\n    1. home"
    )


def test_manual_page_in_mdoc_spaces_nothing_between_sm_off_and_on() -> None:
    source = (
        ".Dd May 11, 2024\n.Dt TERN 1\n.Sh DESCRIPTION\nFlies to\n.Sm off\n.Oo Ar bird @ Oc\nsea\n"
        ".Sm on\nor a box.\n.Bl -tag\n.It Fl L Xo\n.Sm off\n.Oo Ar box : Oc\n"
        ".Ar port : host\n.Sm on\n.Xc\nLetters go there.\n.Sm off\nlost\n.Pp\n.Sm\nIt ends.\n.El\n"
    )
    assert read("tern.1", source).text == (
        "DESCRIPTION\n\nFlies to [bird@]sea or a box.\n\n"
        "-L [box:]port:host\n    Letters go there. lost\n    It ends."
    )


@pytest.mark.parametrize("text", ("a.1 was here\n.hidden\n", "10:00 started\n10:01 ended\n"))
def test_a_file_named_like_a_manual_page_that_is_none_is_read_as_text(text: str) -> None:
    assert read("app.log.1", text).text == text


def test_manual_page_that_grows_by_its_strings_or_nesting_is_bounded() -> None:
    strings = ".ds A " + "x" * 200 + "\n.TH A 1\n"
    with pytest.raises(UnreadableDocument, match="strings make more than 4 MiB"):
        read("a.1", strings + "\\*A" * 30_000)
    with pytest.raises(UnreadableDocument, match="more than 4 MiB"):
        read("a.1", ".TH A 1\n" + "x" * (4 * 2**20))
    assert len(read("a.1", ".TH A 1\n" + ".RS\na\n" * 10_000).text) < 400_000
    read("a.1", ".TH A 1\n" + ".if n " * 100_000)


@pytest.mark.parametrize(
    ("text", "left"),
    (
        (".TH\n.SH", ""),
        (".TH A 1\n.TP\n.TS\nT{\na", "a"),
        (".TH A 1\n.de X\n.so x", ""),
        (".Dd\n.It\n.Sh A\n.El\n.Bl\n.It\n.Xr\n.Fn\n.Nm\n.Op Fl\n.Pf", "A\n\n- [-]"),
        (".Dd\n.Bl -tag\n.It Xo\n", ""),
        (".TH A 1\n.B \"a\n\\(a\n\\[\n\\*\\h'\n\\", "a a\n\nh'"),
        (".TH A 1\n.if n \\{\\\n.el \\{\n", ""),
        (".TH A 1\n.RE\n.RE\n.IP\n.IP \\(bu\n.TQ\n.UNINDENT\n\\[u110000]\\N'55296'", ""),
    ),
)
def test_manual_page_that_is_damaged_is_read_as_far_as_it_goes(text: str, left: str) -> None:
    assert read("a.1", text).text == left


def test_folder_with_manual_pages_answers_by_its_options(tmp_path: Path) -> None:
    folder = tmp_path / "man8"
    folder.mkdir()
    (folder / "tern.8.gz").write_bytes(gzip.compress(MAN.encode()))
    search = search_folder(folder, index=tmp_path / "index.db")
    report = Researcher(
        "r", None, ["With how many knots does tern fly?"], [search], 1
    ).report_sync()
    assert shows(report.citations[0].sentence, "“-k, --knots=N … Fly with N knots; the")
    assert report.citations[0].passage.url.endswith("/tern.8.gz#options")
