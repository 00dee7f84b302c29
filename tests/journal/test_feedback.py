"""What people say of a run, by `Journal.feedback`: it is kept with the run, which stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Call,
    ConfigError,
    Journal,
    JournalError,
    Later,
    NoSuchRun,
    ReActAgent,
    RunHeld,
    ScriptedModel,
)
from moothall.journal import RunView


def send(to: str) -> Any:
    """Send a parcel."""
    raise Later(key=f"parcel-{to}")


def reply(journal: Journal, *script: Any, run_id: str = "R") -> Any:
    agent = ReActAgent("a", ScriptedModel([*script]), actions=[send], journal=journal)
    return agent.reply_sync("When?", run_id=run_id)


def test_feedback_is_kept_in_order_and_the_run_stays_as_it_ended(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        said = reply(journal, "At nine.")
        before = journal.run("R")
        journal.feedback("R", good=False, note="It was ten.", by="eva")
        journal.feedback("R", good=True)
        view = RunView(journal, "R")
        first, second = view.feedback
        assert (first.good, first.note, first.by) == (False, "It was ten.", "eva")
        assert (second.good, second.note, second.by) == (True, "", None)
        assert before.changed <= first.at <= second.at
        assert (view.outline.state, view.end_text) == ("done", "At nine.")
        assert view.entries[-2].line == "called not good by eva: It was ten."
        assert journal.replay("R") == said
        assert reply(journal) == said  # no model is asked again
        assert journal.check() == []
        journal.export("R", tmp_path / "R.jsonl")
        journal.import_run(tmp_path / "R.jsonl", "copy")
        assert RunView(journal, "copy").feedback == view.feedback
        assert RunView(journal, journal.fork("R")).feedback == []  # it was said of that run


def test_run_that_waits_goes_on_after_feedback(tmp_path: Path) -> None:
    script = [Call("1", "send", {"to": "bo"}), "Sent."]
    with Journal(tmp_path / "j") as journal:
        assert reply(journal, *script).stop_reason == "waiting"
        journal.feedback("R", good=False, note="Why to Bo?")
        assert journal.run("R").state == "waiting"
        (wait,) = journal.waiting("R")
        journal.answer("R", wait.key, "on its way")
        assert reply(journal, *script).text == "Sent."
        assert [each.good for each in RunView(journal, "R").feedback] == [False]


async def test_feedback_that_says_nothing_or_comes_during_a_run_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        part = await journal.begin("R", "Mine", "me", "go")
        with pytest.raises(RunHeld):
            journal.feedback("R", good=True)
        part.close()
        wrong: Any
        for wrong in (
            {},
            {"good": 1},
            {"note": 5},
            {"note": "x" * 10_001},
            {"good": True, "by": ""},
        ):
            with pytest.raises(ConfigError):
                journal.feedback("R", **wrong)
        with pytest.raises(NoSuchRun):
            journal.feedback("other", good=True)


async def test_feedback_of_another_form_is_named_as_damage(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        part = await journal.begin("R", "Mine", "me", "go")
        part.part("@feedback").note("feedback", {"good": "no"})
        await part.commit()
        part.close()
        with pytest.raises(JournalError, match="good must be a valid boolean, got no"):
            journal.entries("R")


def test_deletion_names_the_files_that_have_the_run_as_a_case(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        for run_id in ("R", "S"):
            reply(journal, "At nine.", run_id=run_id)
            journal.note_case_file(run_id, f"/cases/{run_id}.jsonl")
        journal.note_case_file("R", "/cases/more.jsonl")
        assert RunView(journal, "R").case_files == ["/cases/R.jsonl", "/cases/more.jsonl"]
        assert journal.run("R").state == "done"
        deleted = journal.delete("R")
        assert deleted.files == ["/cases/R.jsonl", "/cases/more.jsonl"]
        assert journal.prune(0).files == ["/cases/S.jsonl"]
