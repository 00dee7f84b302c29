"""The report of a run as far as its journal has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import Action, Block, ConfigError, Journal, Researcher, ScriptedModel
from moothall.journal import Entry
from moothall.research import Narrative, Report, ResourcePool
from moothall.research.recording import report_so_far
from research.small_web import SCRIPT, tools


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Report, list[Entry]]:
    """A run of two iterations, to its end."""
    with Journal(tmp_path / "runs.db") as journal:
        researcher = Researcher(
            "r",
            ScriptedModel(SCRIPT),
            objectives=["alpha"],
            tools=tools(),
            journal=journal,
            judge=False,
        )
        report = researcher.report_sync("R")
        return report, journal.entries("R")


def upto(entries: list[Entry], key: str) -> list[Entry]:
    """The entries up to the end of a step."""
    keys = [entry.data.get("key") if entry.kind == "ended" else None for entry in entries]
    return entries[: keys.index(key) + 1]


def test_report_so_far_of_a_run_that_ended_is_its_report(
    recorded: tuple[Report, list[Entry]],
) -> None:
    report, entries = recorded
    assert report_so_far("R", entries) == report


def test_report_so_far_of_a_run_that_used_up_its_iterations_is_its_report(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        researcher = Researcher("r", None, "alpha port", tools(), iterations=1, journal=journal)
        report = researcher.report_sync("R")
        assert report.stop_reason == "max_iterations"
        entries = journal.entries("R")
        assert report_so_far("R", entries) == report
        assert researcher.report_sync("R") == report
        assert len(journal.entries("R")) == len(entries)  # which are not written once more


def test_report_so_far_has_a_step_that_ended_before_its_iteration(
    recorded: tuple[Report, list[Entry]],
) -> None:
    report, entries = recorded
    written = report_so_far("R", upto(entries, "2.narrate"), under_way=True)
    assert written.citations == report.citations
    assert written.unsupported == report.unsupported
    assert "It was written in 1999. [unsupported]" in written.markdown
    assert "extractive" not in written.markdown
    assert "It is under way: 1 iteration done." in written.markdown
    assert [each.expertise for each in written.objectives] == [0.1]
    judged = report_so_far("R", upto(entries, "2.evaluate"), under_way=True)
    assert [each.expertise for each in judged.objectives] == [0.95]
    assert judged.usage == report.usage


def test_report_so_far_of_a_run_whose_process_died_says_that_it_was_interrupted(
    recorded: tuple[Report, list[Entry]],
) -> None:
    _, entries = recorded
    report = report_so_far("R", upto(entries, "1.plan"))
    assert report.stop_reason == "cancelled"
    assert [each.topic for each in report.objectives] == ["alpha"]
    assert "It ended after 0 iterations: it was interrupted." in report.markdown


def test_report_so_far_of_an_iteration_that_was_cut_off_names_what_could_not_be_read(
    tmp_path: Path,
) -> None:
    async def read(url: str, pool: ResourcePool) -> None:
        """Read a page."""
        pool.missing.append("page 7 is a picture")
        if url.endswith("beta"):
            raise OSError("503")

    web = [tools()[0], Action("read", read, idempotent=True)]
    with Journal(tmp_path / "runs.db") as journal:
        researcher = Researcher("r", None, "alpha port", web, iterations=2, journal=journal)
        whole = researcher.report_sync("R")
        cut = [each for each in journal.entries("R") if each.kind != "over"]
        while cut[-1].data.get("key") != "2.1":
            cut.pop()
    notes = ["page 7 is a picture", "failed: http://web.test/beta: 503"]
    assert report_so_far("R", cut).notes == notes == whole.notes


def test_report_so_far_before_the_model_has_answered_is_not_extractive(
    recorded: tuple[Report, list[Entry]],
) -> None:
    _, entries = recorded
    assert "extractive" not in report_so_far("R", entries[:1], under_way=True).markdown


def test_report_so_far_with_a_narrate_step_of_ones_own_is_not_extractive(tmp_path: Path) -> None:
    class Own(Block):
        async def forward(self, researcher: Researcher) -> Narrative:
            return Narrative("Said by *my own* step.")

    with Journal(tmp_path / "own.db") as journal:
        researcher = Researcher("r", None, "alpha", tools(), narrate=Own(), journal=journal)
        researcher.report_sync("R")
        entries = upto(journal.entries("R"), "1.narrate")
    report = report_so_far("R", entries, under_way=True)
    assert "Said by *my own* step." in report.markdown
    assert "extractive" not in report.markdown


@pytest.mark.parametrize(("run_id", "entries"), ((5, []), ("R", 5), ("R", [5])))
def test_report_so_far_of_what_is_no_run_is_refused_in_words(run_id: Any, entries: Any) -> None:
    with pytest.raises(ConfigError, match=r"report_so_far: (run_id|entries) must be a .*, got"):
        report_so_far(run_id, entries)
