"""Graders of ours that look at footnotes, and at the calls of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import ReActAgent, ScriptedModel, action
from moothall.evals import Case, Evaluation, footnotes_stand, judge

PAGE = "The mill was built in 1912. It has 40 rooms."


@action(idempotent=True, outside=True)
async def read_page(url: str) -> str:
    """Read a page."""
    return PAGE


@pytest.mark.parametrize(
    ("text", "value", "why"),
    (
        ("The mill was built in 1912.[^1]\n\n[^1]: https://a.example/mill", True, ""),
        ("It has 40 rooms [^1^].\n\n[^1^]: The mill, https://a.example/mill", True, ""),
        ("The mill was built in 1921.[^1]\n\n[^1]: https://a.example/mill", False, "1921"),
        ("It has 40 rooms.[^1]\n\n[^1]: https://b.example", False, "no call has read"),
        ("It has 40 rooms.[^2]\n\n[^1]: read_page", False, "unknown source"),
        ("It has 40 rooms.", False, "it names no source"),
    ),
)
async def test_footnotes_stand_if_what_they_name_was_read_and_has_the_facts(
    tmp_path: Path, text: str, value: bool, why: str
) -> None:
    call = {"name": "read_page", "args": {"url": "https://a.example/mill"}}
    agent = ReActAgent("guide", ScriptedModel([call, text]), actions=[read_page])
    case = Case("mill", "Tell me of the mill")
    options: dict[str, Any] = {"journal": tmp_path / "evals.db", "leaves": lambda name, args: PAGE}
    (cell,) = (await Evaluation(agent, [case], [footnotes_stand], **options).run()).cells
    assert cell.grades == {"footnotes_stand": value}
    assert why in cell.reasons.get("footnotes_stand", "")


async def test_graders_of_one_name_are_numbered_and_cases_that_ask_the_same_share_a_run(
    tmp_path: Path,
) -> None:
    agent = ReActAgent("guide", ScriptedModel(["It is nine."]))
    graders = [
        judge(question, model=ScriptedModel([f'{{"reason": "r", "verdict": {verdict}}}'] * 2))
        for question, verdict in (("Is it short?", "true"), ("Is it long?", "false"))
    ]
    cases = [Case("first", "The hour?", "nine"), Case("second", "The hour?", "ten")]
    results = await Evaluation(agent, cases, graders, journal=tmp_path / "evals.db").run()
    assert results.errors == []
    assert [each.grades for each in results.cells] == [{"judge": True, "judge_2": False}] * 2
    assert len({each.run for each in results.cells}) == 1
