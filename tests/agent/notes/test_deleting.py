"""`moothall runs delete --thread` takes the notes of a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.notes.bank import Bank, call
from cli.journal_programs import moothall
from moothall import Journal, Notes


def noted(folder: Path, journal: Journal, thread: str, **options: Any) -> None:
    bank = Bank(folder, **options)
    note = call("note", name=thread.replace("/", "-"), text=f"{thread} likes pears")
    bank.agent(note, "Noted.", journal=journal).reply_sync("Go.", thread=thread)


@pytest.mark.parametrize("by", ("thread", "shared", lambda context: "all"))
def test_notes_of_a_thread_go_with_its_runs_unlike_those_of_others(tmp_path: Path, by: Any) -> None:
    notes, file = tmp_path / "notes", str(tmp_path / "runs.db")
    with Journal(file) as journal:
        for thread in ("anna", "anna/work", "bob", "annabel"):
            noted(notes, journal, thread, by=by)
    assert len(list(notes.rglob("*.md"))) == 4
    if by == "thread":
        done = moothall("runs", "delete", "--thread", "anna", "--journal", file, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == f"{notes}: 2 notes deleted"
    else:
        with Journal(file) as journal:
            assert journal.delete(thread="anna").folders == [str(notes)]
        assert Notes(notes).forget_thread("anna") == 2
    assert sorted(each.stem for each in notes.rglob("*.md")) == ["annabel", "bob"]
    assert not (notes / "anna").exists()


def test_notes_that_another_conversation_wrote_under_a_key_that_is_a_threads_id_stay(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    with Journal(tmp_path / "runs.db") as journal:
        for thread in ("acme", "acme/1", "bob"):
            noted(notes, journal, thread, by=lambda context: "acme")
    (notes / "acme" / "by-hand.md").write_text("Acme likes pears")  # nobody says whose it is
    assert Notes(notes).forget_thread("acme") == 3
    assert [each.stem for each in notes.rglob("*.md")] == ["bob"]


def test_notes_of_a_sub_agent_go_with_its_callers_thread(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "notes")
    helper = bank.agent(call("note", name="x", text="Anna likes pears"), "Noted.", id="helper")
    with Journal(tmp_path / "runs.db") as journal:
        agent = bank.agent(call("helper", text="Note it."), "Done.", journal=journal)
        agent.blocks = []
        agent.actions.register(helper.as_action(fresh=True))
        agent.reply_sync("Go.", thread="anna")
        deleted = journal.delete(thread="anna")
    assert deleted.folders == [str(tmp_path / "notes")]
    assert Notes(deleted.folders[0]).forget_thread("anna") == 1
    assert list((tmp_path / "notes").rglob("*.md")) == []


def test_notes_folder_of_another_kind_loses_nothing_by_a_record_that_names_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "docs" / "anna").mkdir(parents=True)
    page = tmp_path / "docs" / "anna" / "page.md"
    page.write_text("a page")
    assert Notes(tmp_path / "docs").forget_thread("anna") == 0
    assert Notes(tmp_path / "gone").forget_thread("anna") == 0
    assert page.exists()


def test_notes_deletion_does_not_follow_a_link(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        noted(tmp_path / "notes", journal, "anna")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.md").write_text("x")
    (tmp_path / "notes" / "anna" / "sub").symlink_to(tmp_path / "other")
    assert Notes(tmp_path / "notes").forget_thread("anna") == 1
    assert (tmp_path / "other" / "x.md").exists()
