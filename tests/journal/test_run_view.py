"""One run as doors, services and pages read it: what it was asked, waits for, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Call,
    Journal,
    Later,
    NoSuchRun,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.journal import RunView


def send(to: str) -> Any:
    """Send a parcel."""
    raise Later(key=f"parcel-{to}")


def test_run_view_of_a_reply_says_what_was_asked_and_how_it_ended(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        ReActAgent("a", ScriptedModel(["At nine."]), journal=journal).reply_sync(
            "When?", thread="anna", run_id="R"
        )
        view = RunView(journal, "R")
        assert view.request is not None
        assert view.request._asdict() == {"text": "When?", "schema": None, "thread": "anna"}
        assert (view.task, view.asked_by, view.begun_with("response")) == ("When?", "", None)
        assert (view.end_text, view.was_cancelled, view.is_in_doubt) == ("At nine.", False, False)
        assert view.end is not None
        assert (view.end.reason, view.waits, view.calls_by_wait) == ("done", [], {})
        assert view.reply == journal.replay("R")
        assert [each["content"] for each in view.messages] == ["When?", "At nine."]
        answer = next(each for each in view.entries if each.ends_step)
        prompt = view.prompt(answer.sequence)
        assert prompt is not None
        assert [each["content"] for each in prompt["messages"]] == ["When?"]


def test_run_view_of_a_waiting_run_has_its_waits_and_those_before(tmp_path: Path) -> None:
    script = [Call("c1", "send", {"to": "bo"}), Call("c2", "send", {"to": "cy"}), "Sent."]
    with Journal(tmp_path / "j") as journal:
        agent = ReActAgent("a", ScriptedModel(script), actions=[send], journal=journal)
        agent.reply_sync("Send both.", run_id="R")
        journal.answer("R", "parcel-bo", "sent")
        agent.reply_sync("Send both.", run_id="R")
        view = RunView(journal, journal.run("R"))
        assert [each.key for each in view.waits] == ["parcel-cy"]
        assert dict(view.calls_by_wait) == {"parcel-bo": "c1", "parcel-cy": "c2"}


def test_run_view_of_a_cancelled_run_says_so(tmp_path: Path) -> None:
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(tmp_path / "j") as journal:
        agent = ReActAgent(
            "a",
            ScriptedModel([Call("c", "pay", {})]),
            actions=[pay],
            approver=Waiting(),
            journal=journal,
        )
        agent.reply_sync("Pay.", run_id="R")
        assert not RunView(journal, "R").was_cancelled
        journal.cancel("R")
        assert RunView(journal, "R").was_cancelled


async def test_run_view_of_a_run_that_did_not_end_has_no_reply(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        (await journal.begin("R", "Kiln", "a", "Bake.")).close()
        view = RunView(journal, "R")
        assert (view.request, view.task, view.end, view.end_text) == (None, "Bake.", None, "")
        assert view.reply is None


def test_run_view_of_an_unknown_run_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal, pytest.raises(NoSuchRun):
        RunView(journal, "R")


def test_run_view_does_not_change_once_it_was_read(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        agent = ReActAgent("a", ScriptedModel(["No.", "Yes."]), journal=journal)
        agent.reply_sync("Now?", run_id="R")
        view = RunView(journal, "R")
        entries = view.entries
        journal.delete("R")
        assert view.entries is entries
        assert view.end_text == "No."
