"""Reports over folders that nobody had tried: what their readers stumbled over."""

from __future__ import annotations

from pathlib import Path

from tests.research.quotes import report_of

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
