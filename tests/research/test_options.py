"""Questions for an option, over lists of options: man pages, help texts, reST, Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.research.quotes import report_of, shows

from moothall import Researcher
from moothall.research import search_folder

MAN = r"""
.TH TERN 1
.SH SYNOPSIS
tern {\-x|\-\-unpack} [\-f BOX] [\-\-over] [\-v] [LETTER...]
.SH DESCRIPTION
.SS Overwriting
These options control what tern does when unpacking a letter over another letter of a box.
.TP
\fB\-\-one\-folder\fR
Unpack all letters into a folder, or, without an argument, into one that is named by the box.
.TP
\fB\-\-over\fR
Replace other letters when unpacking.
.SS Operation
.TP
\fB\-c\fR, \fB\-\-pack\fR
Pack a new box. Arguments are the letters. With \fB\-v\fR, the letters of the box are shown.
.TP
\fB\-x\fR, \fB\-\-unpack\fR
Unpack letters from a box. Arguments are optional.
.IP
When given, they name the letters to be unpacked.
.TP
\fB\-b\fR \fIbox\-size\fR
Specify the size of boxes in letters. Together with \fB\-m\fR, the size of a box may change.
"""
HELP = """\
usage: tern [-h] [--pack BOX] [--wait SECONDS]

  -h, --help            show this help and exit
  --pack BOX            pack letters into a box
  --wait SECONDS        wait so long for the next letter
  --quiet               print nothing while waiting for a letter
"""
REST = """\
Options
=======

.. option:: --keep

   Keeps the letters after they were sent.

.. option:: --drop

   Drops letters that nobody wants. See also ``--keep``, which keeps them.
"""
MARKDOWN = """\
# Configuration

#### `letters-max`

* Default: 10
* Type: Number

The largest number of letters that a bird carries.

#### `box-lock`

* Default: false
* Type: Boolean

Locks the boxes while a bird is away. If `letters-max` is 0, the boxes are not locked.
"""
COMMANDS = """\
# Commands

* clean:
  Empty the boxes of a bird that is away.

* check:
  Verify the boxes, and mend what is broken.
"""


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("Which option of tern unpacks letters?", "“-x, --unpack … Unpack letters from a box."),
        ("Which option of tern packs a box?", "“-c, --pack … Pack a new box."),
        ("Which option of tern sets the box size?", "“-b box-size … Specify the size of boxes"),
        ("Which option of tern replaces letters?", "“--over … Replace other letters when"),
    ),
)
def test_option_of_a_manual_page_is_answered_by_its_own_line(
    tmp_path: Path, question: str, first: str
) -> None:
    pages = tmp_path / "man1"
    pages.mkdir()
    (pages / "tern.1").write_text(MAN)
    (pages / "gull.1").write_text(MAN.replace("tern", "gull").replace("TERN", "GULL"))
    search = search_folder(pages, index=tmp_path / "index.db")
    report = Researcher("researcher", None, [question], [search]).report_sync()
    assert any(shows(each.sentence, first) for each in report.citations)
    assert "/tern.1" in report.citations[0].passage.url


@pytest.mark.parametrize(
    ("text", "question", "first"),
    (
        (HELP, "Which option waits for the next letter?", "--wait SECONDS"),
        (HELP, "Which option packs letters into a box?", "--pack BOX"),
        (REST, "Which option keeps the letters?", "--keep … Keeps the letters"),
        (REST, "Which option drops letters?", "--drop … Drops letters"),
        (MARKDOWN, "Which option locks the boxes?", "`box-lock` … Locks the boxes"),
        (COMMANDS, "Which command verifies the boxes?", "check: Verify the boxes"),
    ),
)
def test_option_of_a_list_is_answered_by_the_description_that_fits(
    text: str, question: str, first: str
) -> None:
    report = report_of(text, question)
    assert any(shows(each.sentence, first) for each in report.citations)


@pytest.mark.parametrize("question", ("Which option of gull follows a ship?", "Who founded Tern?"))
def test_option_question_is_not_answered_by_what_only_names_the_thing(question: str) -> None:
    text = (
        "# Birds\n\nShow what is installed by `gull -V`, and what it was built with.\n\n"
        "2002-10-02 Niels Moller <nisse@birds.example>: Comment on the tern in the file.\n"
    )
    assert not report_of(text, question).citations
