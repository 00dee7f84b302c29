"""Asking a report: answers from the passages that it cites, and from nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import Journal, ScriptedModel
from moothall.foundation.errors import DefinitionError
from moothall.research import Report, Researcher, ask, search_folder
from moothall.research.ask_report import ask_async
from moothall.testing.model_suite import run

TOPIC = "What is the alpha protocol?"


def made(folder: Path, journal: Any = None) -> Report:
    """A report on a folder of two files, with several passages."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "alpha.md").write_text(
        "# Alpha\n\nThe alpha protocol was written in 1998 by Ada Stone.\n\n"
        "## Ports\n\nThe alpha protocol uses port 4711. It waits for ten seconds.\n"
    )
    (docs / "beta.md").write_text("# Beta\n\nThe beta protocol is newer than the alpha protocol.\n")
    tools = [search_folder(docs, index=folder / "index.db")]
    return Researcher("r", None, [TOPIC], tools, journal=journal).report_sync("run-1")


def test_ask_quotes_the_passages_of_the_report(tmp_path: Path) -> None:
    report = made(tmp_path)
    (tmp_path / "docs" / "alpha.md").unlink()  # nothing is read again
    answer = ask(report, "Which port does alpha use?")
    assert answer.markdown.startswith("# Which port does alpha use?\n")
    assert "port 4711" in answer.citations[0].sentence
    known = {each.passage for each in report.citations}
    assert {each.passage for each in answer.citations} <= known
    again = ask(answer, "When was it written?")
    assert {each.passage for each in again.citations} <= {e.passage for e in answer.citations}


def test_ask_gives_no_answer_that_the_passages_do_not_have(tmp_path: Path) -> None:
    report = made(tmp_path)
    answer = ask(report, "How are noodles cooked?")
    assert (answer.citations, answer.objectives[0].expertise) == ([], 0.0)
    assert "Nothing relevant was found" in answer.markdown
    nothing = ask(Report("# Empty\n", [], "done"), "Which port?")
    assert nothing.citations == []


def test_ask_with_a_model_is_checked_against_the_passages(tmp_path: Path) -> None:
    report = made(tmp_path)
    model = ScriptedModel(["The alpha protocol uses port 4711.[^1^] It uses port 4712.[^1^]"])
    answer = ask(report, "Which port does alpha use?", model=model)
    assert [each.sentence for each in answer.citations] == ["The alpha protocol uses port 4711."]
    assert "port 4711" in answer.citations[0].passage.text
    assert "It uses port 4712. [unsupported]" in answer.markdown


def test_ask_takes_a_report_that_a_journal_kept(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        made(tmp_path, journal)
    with Journal(tmp_path / "runs.db") as journal:
        kept = journal.replay("run-1").value
    answer = run(ask_async(kept, "How long does it wait?"))
    assert "It waits for ten seconds." in answer.markdown


@pytest.mark.parametrize(("report", "question"), (("text", "x"), (Report("", [], "done"), " ")))
def test_ask_of_no_report_or_question_is_refused(report: Any, question: str) -> None:
    with pytest.raises(DefinitionError, match="ask: "):
        ask(report, question)


def test_asking_without_a_model_where_a_loop_runs_answers_as_elsewhere(tmp_path: Path) -> None:
    report = made(tmp_path)

    async def main() -> Report:
        return ask(report, "Which port does alpha use?")

    assert run(main()).markdown == ask(report, "Which port does alpha use?").markdown


def test_asking_without_a_model_where_a_loop_runs_raises_as_elsewhere() -> None:
    async def main() -> None:
        ask(Report("", [], "done"), " ")

    with pytest.raises(DefinitionError, match="ask: question must be"):
        run(main())


def test_asking_a_model_where_a_loop_runs_is_to_be_awaited() -> None:
    async def main() -> None:
        ask(Report("", [], "done"), "x", model=ScriptedModel([]))

    with pytest.raises(RuntimeError, match=r"await ask_async"):
        run(main())
