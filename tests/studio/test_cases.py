"""The cases of an evaluation, which the page shows side by side in their conditions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from moothall import ReActAgent, Reply, ScriptedModel
from moothall.evals import Case, Evaluation
from moothall.studio import Studio
from studio.test_runs import aside


def test_cases_of_an_evaluation_stand_side_by_side_with_their_grades(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Those of which the replies differ are told; two of a case are compared step by step."""

    def polite(reply: Reply[Any], case: Case) -> bool:
        return "please" in reply.text

    def answer(messages: Any, actions: Any) -> str:
        return "Sit, please." if "chair" in messages[-1]["content"] else "No."

    def evaluate() -> None:
        agent = ReActAgent("host", ScriptedModel(answer))
        cases = [Case("a chair", "Is the chair free?"), Case("a table", "Is the table free?")]
        terse = ScriptedModel(lambda messages, actions: "No.", name="terse")
        conditions: dict[str, Any] = {"as it is": {}, "terse": {"model": terse}}
        Evaluation(agent, cases, [polite], conditions, journal=studio.journal).run_sync()

    aside(evaluate)
    page = open_page("Runs")
    rows = page.get_by_role("list", name="Runs").locator("[data-run]")
    rows.filter(has_text="Is the chair free?").first.click()
    page.get_by_role("button", name="All cases", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/eval-\w+/cases$"))
    page.reload()
    cases = page.get_by_role("region", name="Cases")
    expect(cases).to_contain_text("1 of 2 cases differ")
    chair = cases.get_by_role("row").filter(has_text="a chair")
    expect(chair).to_have_class("differs")
    expect(chair.get_by_role("cell")).to_have_text(
        [re.compile("polite.*Sit, please"), re.compile("polite: no.*No")]
    )
    expect(cases.get_by_role("row").filter(has_text="a table")).to_have_class("same")
    chair.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("region", name="Comparison")).to_contain_text("first difference")
