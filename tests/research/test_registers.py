"""Questions over registers: many files that differ only in a name, a date or a number."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.research.quotes import report_on

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
    report = report_on(tmp_path / "docs", INCIDENTS, NONE, ONE, *more)
    none = report.markdown.partition(f"## {NONE}")[2].partition("\n## ")[0]
    assert "“incidents”. The answer may be here:" in none.partition("\n\n###")[0]
    assert report.objectives[0].expertise < 1
    told = report.markdown.partition(f"## {ONE}")[2].partition("\n## ")[0]
    assert "18 May 2026" in told
