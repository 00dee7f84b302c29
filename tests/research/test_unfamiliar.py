"""Reports over folders that nobody had tried: what their readers stumbled over."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.research.quotes import shows
from tests.research.test_answers import report_of

from moothall import Researcher
from moothall.research import Report, search_folder
from moothall.research.reading.documents import read_document
from moothall.research.reading.html import Document


def asked(folder: Path, *questions: str) -> Report:
    tools = [search_folder(folder, index=folder.parent / "index.db")]
    return Researcher("r", None, list(questions), tools).report_sync()


def read(kind: str, text: str) -> Document:
    made = read_document(kind, f"a.{kind}", text.encode(), "file:///a")
    assert made is not None
    return made


REST = """\
Removing letters
================

This command removes all letters but the last of each bird:

.. code-block:: console

   $ tern forget --keep-last
   removed old letters of the bird, removed old letters of all birds

Before that, list the old letters of a bird by hand::

   $ tern letters --old

What is removed cannot be read again.
"""


LISTED = """\
# Keys

For automating the supply of the key of a box to a bird, several ways exist:

* Setting the environment variable `TERN_KEY`

* Naming a file that has the key by the environment variable `TERN_KEY_FILE`

* Running a program that prints the key: `TERN_KEY_PROGRAM`, another environment variable, names it
"""


def test_answers_items_of_one_list_are_no_repetitions() -> None:
    report = report_of(LISTED, "Which environment variable has the key of a box?")
    said = " ".join(each.sentence for each in report.citations)
    assert all(f"`TERN_KEY{end}`" in said for end in ("", "_FILE", "_PROGRAM"))


def test_answers_addresses_lead_to_nothing() -> None:
    text = (
        "# Changes\n\nhttps://tern.example/issues/79\nhttps://tern.example/pulls/80\n\n"
        "The `carry` command now supports letters of lead.\n"
    )
    report = report_of(text, "Which command supports letters of lead?")
    assert shows(
        report.citations[0].sentence, "“The `carry` command now supports letters of lead.”"
    )


GRID = """\
Letters
=======

+-------------+--------------------------+
| ``weight``  | Weight in grams          |
+-------------+--------------------------+
| ``address`` | Address of the new owner |
+-------------+--------------------------+
"""


def test_answers_what_overlaps_a_quote_is_quoted_alone() -> None:
    text = (
        "# Tern\n\nA tern is a bird that is kept in a box at night. For each of them, one is made. "
        "A tern is a carrier by law.\n"
    )
    said = [each.sentence for each in report_of(text, "What is a tern?").citations]
    assert any("kept in a box" in each for each in said)
    assert any("carrier by law" in each for each in said)


WORDED = """\
<html><head><title>Tern's Guide: Boxes</title></head><body>
<h1>2. Boxes</h1>
<dl>
<dt><a name="min"></a><code>min hold time <i>number</i></code>
<dd><p>Least value of the hold time that is accepted of other birds. Default: none.
<dt><a name="hold"></a><code>hold time <i>number</i></code>
<dd><p>Time in seconds to wait for a letter before a box is closed. Default: 240 seconds.
<dt><a name="limit"></a><code>letter limit <i>number</i></code>
<dd><p>Specify a limit of letters (a maximum number of letters that are taken from a bird).
</dl></body></html>
"""


@pytest.fixture
def worded(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "boxes.html").write_text(WORDED)
    return tmp_path / "docs"


def test_answers_options_are_words_too(worded: Path) -> None:
    report = asked(worded, "Which option limits the number of letters taken from a bird?")
    assert shows(report.citations[0].sentence, "Specify a limit of letters")


def test_answers_default_of_an_option_of_words_is_quoted(worded: Path) -> None:
    report = asked(worded, "What is the default hold time?")
    said = [each.sentence for each in report.citations]
    assert any("Default: 240 seconds" in each for each in said)


def test_report_titles_say_nothing_twice(worded: Path) -> None:
    report = asked(worded, "Which option limits the number of letters taken from a bird?")
    assert report.citations[0].passage.title == "Tern's Guide: Boxes – letter limit number"


def test_answers_heads_of_a_table_are_nobody() -> None:
    text = (
        "# Modules\n\n| Namespace | Expected Interface Type | Tells |\n| --- | --- | --- |\n"
        "| tern.writers | `Opener` | Tern log writers |\n"
    )
    assert not report_of(text, "Who wrote Tern?", title="Tern modules").citations


def test_answers_a_day_is_no_version(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("This is Tern Policy, released on 2022-12-17.\n")
    (tmp_path / "docs" / "b.md").write_text("A tern is released at night.\n")
    assert not asked(tmp_path / "docs", "When was Tern 12 released?").citations
    assert asked(tmp_path / "docs", "When was Tern Policy released?").citations


def test_answers_something_was_introduced_in_a_version() -> None:
    text = "# Boxes\n\nLocks were introduced in version 0.14.0. Locks have keys.\n"
    report = report_of(text, "When were locks introduced?")
    assert "0.14.0" in report.citations[0].sentence


def test_documents_a_table_of_contents_is_no_title() -> None:
    assert read("markdown", "# Table of Contents\n\n* One\n\n# Tern 0.2\n\nNew.\n").title == ""
    assert read("markdown", "# Tern\n\n## Contents\n\n* One\n").title == "Tern"


def test_manual_is_called_by_its_name() -> None:
    source = '.TH "TERN BOX" 1\n.SH NAME\ntern-lock, tern-key - lock boxes\n.SH A\nText.\n'
    assert read("manual", source).title == "tern-lock(1)"
    source = ".TH TERN 1\n.SH NAME\nTern \\- carries letters\n"
    assert read("manual", source).title == "Tern(1)"
    assert read("manual", ".TH TERN 1\n.SH A\nText.\n").title == "tern(1)"


def test_folder_search_returns_a_text_that_others_have_last(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in "abcdefghij":
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n\n## Options\n\nA box is red.\n")
    (tmp_path / "docs" / "z.md").write_text(
        "# Long\n\n## Paint\n\nNo box of ours is blue or red.\n"
    )
    act = search_folder(tmp_path / "docs", index=tmp_path / "index.db", results=3)
    found = act.execute(query="Is a box red?")
    assert [each.url[-4:] for each in found] == ["a.md", "z.md", "b.md"]


def test_report_tells_sources_of_one_title_apart() -> None:
    one = "Terns carry letters over the sea. " + "A tern is fed with fish. " * 70
    other = "Terns carry boxes over the land. " + "A tern sleeps in a box. " * 70
    report = report_of(f"# Birds\n\n{one}\n\n{other}\n", "What do terns carry over sea and land?")
    lines = [each for each in report.markdown.split("\n") if each.startswith("[^")]
    assert len(lines) > 1
    assert all("begins “" in each for each in lines)
    assert len({each.partition(": ")[2] for each in lines}) == len(lines)


@pytest.mark.parametrize(
    ("text", "question", "said"),
    (
        (
            "The limit applies to uploads above 20 MB.\n\n# App\n\nThe app shows the limit.",
            "When does the limit apply?",
            "The limit applies to uploads above 20 MB.",
        ),
        (
            "The paint dries in 6 hours.\n\nThe paint costs 9 euros.",
            "How long must the paint dry?",
            "The paint dries in 6 hours.",
        ),
        (
            "The van carries 12 crates.\n\nThe car is 4 metres long.",
            "How many crates can the van carry?",
            "The van carries 12 crates.",
        ),
    ),
)
def test_answers_forms_of_words_in_y_are_one_word(text: str, question: str, said: str) -> None:
    report = report_of(f"# Notes\n\n{text}\n", question)
    found = [each.sentence for each in report.citations]
    assert said in found[0]


@pytest.mark.parametrize(
    ("text", "question", "said"),
    (
        ("The hat costs 12 euros.", "How much is the hat?", "The hat costs 12 euros."),
        ("The die has six sides.", "How many sides does the die have?", "The die has six sides."),
        (
            "Le pont a été inauguré en 1934.",
            "Quand le pont a-t-il été inauguré ?",
            "Le pont a été inauguré en 1934.",
        ),
    ),
)
def test_answers_stop_words_of_another_language_are_words(
    text: str, question: str, said: str
) -> None:
    assert said in report_of(f"# Notes\n\n{text}\n", question).citations[0].sentence


def test_reports_without_a_model_print_no_expertise() -> None:
    text = "# Notes\n\nThe paint dries in 6 hours.\n"
    assert "xpertise" not in report_of(text, "How long must the paint dry?").markdown
