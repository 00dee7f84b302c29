"""Questions over registers: many files that differ only in a name, a date or a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from moothall import Researcher
from moothall.research import Report, search_folder


def report_on(folder: Path, files: dict[str, str], *questions: str) -> Report:
    docs = folder / "docs"
    docs.mkdir()
    for name, text in files.items():
        (docs / name).write_text(text)
    tool = search_folder(docs, index=folder / "index.db")
    return Researcher("r", None, [*questions], [tool]).report_sync()


REGISTERS: dict[str, tuple[list[str], str]] = {
    "Which contracts end in 2026?": (
        ["30 June", "6 August", "12 September", "25 July"],
        "# Contract {n}\n\n## Term\n\nThe contract ends on {x} 2026. It is extended by one year.\n",
    ),
    "What does a room cost a night?": (
        ["Red costs 80", "Blue costs 90", "Green costs 120"],
        "# Prices {n}\n\nThe room {x} euros a night.\n",
    ),
    "Who is on duty at the front desk?": (
        ["Monday Eva", "Tuesday Jan", "Friday Ada"],
        "# Rota {n}\n\nOn {x} is on duty at the front desk.\n",
    ),
}


@pytest.mark.parametrize("question", REGISTERS)
def test_facts_of_files_that_differ_in_a_name_a_date_or_a_number_are_each_quoted(
    question: str, tmp_path: Path
) -> None:
    values, text = REGISTERS[question]
    files = {f"{n}.md": text.format(n=n, x=each) for n, each in enumerate(values)}
    report = report_on(tmp_path, files, question)
    for each in values:
        assert each in report.markdown


def test_registers_same_fact_of_two_files_is_quoted_once(tmp_path: Path) -> None:
    said = "The contract with Vega ends on 25 July 2026."
    files = {"a.md": f"# Vega\n\n{said}\n", "b.txt": f"Vega\n\n{said}\n"}
    report = report_on(tmp_path, files, "When does the contract with Vega end?")
    assert report.markdown.partition("## Sources")[0].count("25 July 2026") == 1


INCIDENTS = {
    f"{n}.md": f"# Postmortem {n}: {who}\n\n## Summary\n\nOn {day} 2026 the {who} service was "
    f"unavailable for {m} minutes. The cause was {why}.\n\n## Actions\n\nEva adds an alert. "
    f"The runbook of {who} is extended.\n"
    for n, (who, day, m, why) in enumerate(
        [
            ("billing", "01 April", 25, "a power failure"),
            ("billing", "05 September", 55, "a memory leak"),
            ("billing", "18 May", 135, "a deleted DNS record"),
            ("webshop", "30 October", 12, "a full disk"),
            ("inventory", "31 October", 240, "a failed migration"),
            ("login", "12 October", 40, "an expired certificate"),
        ]
    )
}
NONE = "Which incidents did the billing service have in October 2026?"
ONE = "Which incidents did the billing service have in May 2026?"
MORE = ["Who adds an alert?", "What was the cause of the outage of the login service?"]


@pytest.mark.parametrize("more", ([], MORE), ids=("alone", "with others"))
def test_answers_verdict_does_not_depend_on_what_else_is_asked(
    more: list[str], tmp_path: Path
) -> None:
    report = report_on(tmp_path, INCIDENTS, NONE, ONE, *more)
    none = report.markdown.partition(f"## {NONE}")[2].partition("\n## ")[0]
    assert "“incidents”. The answer may be here:" in none.partition("\n\n###")[0]
    assert report.objectives[0].expertise < 1
    told = report.markdown.partition(f"## {ONE}")[2].partition("\n## ")[0]
    assert "18 May 2026" in told
