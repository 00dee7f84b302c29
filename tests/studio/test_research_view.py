"""What a page makes of the entries of a research run that there are."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Page

from moothall import Researcher, ScriptedModel
from moothall.journal import Entry
from moothall.studio import Studio
from moothall.studio.research_tab import progress_entry
from research.small_web import ALPHA, BETA, SCRIPT, tools

See = Callable[..., dict[str, Any]]
MADE = """async ([entries, isRunning]) => {
  const { Progress } = await import("/studio/static/progress.js");
  const made = new Progress("R");
  entries.forEach((each) => made.take(each));
  return made.told(isRunning);
}"""


def made(page: Page, entries: list[Entry], state: str = "running") -> dict[str, Any]:
    """What the page makes of these entries."""
    of = [progress_entry(each) for each in entries if not each.path]
    return dict(page.evaluate(MADE, [of, state == "running"]))


@pytest.fixture
def see(page: Page, studio: Studio) -> See:
    """The view of a run of two iterations, up to the entry of a kind and a key."""
    researcher = Researcher(
        "r",
        ScriptedModel(SCRIPT),
        objectives=["alpha"],
        tools=tools(),
        journal=studio.journal,
        judge=False,
    )
    with ThreadPoolExecutor(1) as thread:  # in this one Playwright has a loop
        thread.submit(researcher.report_sync, "R").result()
    entries = studio.journal.entries("R")

    def is_it(entry: Entry, kind: str, key: str) -> bool:
        return entry.kind == kind and entry.data.get("key", "") == key

    def view(kind: str, key: str = "", state: str = "running", *more: Entry) -> dict[str, Any]:
        last = next(n for n, entry in enumerate(entries, 1) if is_it(entry, kind, key))
        return made(page, [*entries[:last], *more], state)

    return view


def tasks(view: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(each["iteration"], each["tool"], each["state"]) for each in view["tasks"]]


def test_step_is_seen_while_it_is_under_way(see: See) -> None:
    begun = see("begun")
    assert (begun["iteration"], begun["step"], begun["asking"]) == (1, "plan", None)
    assert begun["objectives"] == [{"topic": "alpha", "expertise": 0.0, "reached": []}]
    assert see("started", "1.plan.1.1")["asking"] == "scripted"
    planned = see("ended", "1.plan")
    assert (planned["step"], tasks(planned)) == ("research", [(1, "search", "waiting")])
    assert tasks(see("started", "1.0")) == [(1, "search", "running")]
    judging = see("started", "1.evaluate.1.1")
    assert (judging["step"], tasks(judging)) == ("evaluate", [(1, "search", "ended")])
    assert [(each["url"], each["visited"]) for each in judging["resources"]] == [
        (ALPHA, False),
        (BETA, False),
    ]
    assert see("ended", "2.narrate")["step"] == "evaluate"


def test_research_view_shows_how_a_run_ended(see: See) -> None:
    view = see("over", state="done")
    assert view["step"] is None
    assert view["done"] == 2
    assert view["over"]["reason"] == "done"
    objective = {"topic": "alpha", "expertise": 0.95, "reached": [0.1, 0.95], "estimated": False}
    assert view["objectives"] == [objective]
    assert tasks(view)[1:] == [(2, "read", "ended"), (2, "read", "ended")]
    assert (view["found"], view["read"]) == (2, 2)
    assert view["remarks"][0] == {"iteration": 1, "text": "Read both pages."}
    narrative = view["narrative"]
    assert (narrative["iteration"], narrative["citations"], narrative["uncited"]) == (2, 2, 0)
    assert narrative["unsupported"][0] == [
        "It was written in 1999.",
        "says 1999, which is not in the passage",
    ]
    assert (
        see("over", "", "running", Entry(99, "", "heard", 0.0, {"content": "Go on"}))["over"]
        is None
    )


def test_run_whose_process_died_has_nothing_under_way(see: See) -> None:
    view = see("started", "2.1", state="stopped")
    assert view["step"] is None
    assert tasks(view)[1:] == [(2, "read", "not done"), (2, "read", "not done")]
    assert view["over"] is None


def test_tasks_that_fail_and_resources_that_are_many(page: Page) -> None:
    """Each task says what became of it; of the resources the last are listed, all are counted."""
    why = {"tool": "search", "args": {"query": "q" * 2100}, "reasoning": "to know"}
    data: list[tuple[str, dict[str, Any]]] = [
        ("begun", {"task": "alpha\n\nbeta"}),
        ("ended", {"key": "1.plan", "result": {"tasks": [why] * 4}}),
    ]

    def task(number: int, kind: str, **more: Any) -> None:
        about = {"action": "search", "id": f"call_{number}"}
        data.append((kind, {"key": f"1.{number}", "about": about, **more}))

    def seen(state: str = "running") -> dict[str, Any]:
        entries = [Entry(n, "", kind, float(n), of) for n, (kind, of) in enumerate(data, 1)]
        return made(page, entries, state)

    view = seen()
    assert [each["topic"] for each in view["objectives"]] == ["alpha", "beta"]
    assert (view["step"], view["done"], view["last"], view["read"]) == ("research", 0, 2, 0)
    query = view["tasks"][0]["args"]["query"]
    assert 1990 < len(query) < 2010
    assert view["tasks"][0]["why"] == "to know"
    task(1, "failed", error="it took too long")
    found = [
        {"url": f"http://x/{n}", "description": f"{n}", "visited": n == 501} for n in range(502)
    ]
    task(2, "ended", result={"result": {"error": "404", "result": None}})
    task(3, "ended", result={"result": {"result": {"resources": found}}})
    task(9, "failed", error="nobody planned it")
    view = seen()
    assert [each["state"] for each in view["tasks"]] == ["failed", "failed", "ended", "waiting"]
    assert [each["error"] for each in view["tasks"][:3]] == ["it took too long", "404", None]
    assert (view["tasks"][2]["found"], view["tasks"][2]["read"]) == (502, 1)
    assert (view["found"], view["read"], len(view["resources"])) == (502, 1, 500)
    assert [each["title"] for each in view["resources"]][::499] == ["2", "501"]
    assert view["step"] == "research"
    assert seen("stopped")["tasks"][3]["state"] == "not done"
    data.append(("started", {"key": "1.narrate.1.1", "about": {"model": ""}}))
    assert (seen()["step"], seen()["asking"]) == ("narrate", "the model")
    assert seen("stopped")["asking"] is None
    data.pop()
    task(
        4,
        "ended",
        result={"result": {"result": {"resources": [{"url": "http://x/0", "visited": True}]}}},
    )
    view = seen()
    assert view["step"] == "narrate"
    assert (view["found"], view["read"]) == (502, 2)
    assert view["resources"][-1] == {"url": "http://x/0", "title": "0", "visited": True}
    data[-1] = ("state", {"state": {"iteration": 1}})
    data.append(("heard", {"content": "Be brief"}))
    view = seen()
    assert view["tasks"][3]["error"] == "it could not be called: its arguments are wrong"
    assert (view["iteration"], view["done"], view["step"]) == (2, 1, "plan")
    assert view["heard"] == ["Be brief"]
    data.append(("over", {"reason": "error", "detail": "no server"}))
    over = seen("error")["over"]
    assert (over["reason"], over["detail"]) == ("error", "no server")
    data[-1] = ("over", {"reason": "cancelled", "detail": "by somebody"})
    assert seen("cancelled")["over"]["detail"] == "by somebody"
