"""A kind of limit stands in one file: budgets, books, commands, companies and pages read it there.

A user cannot add one, so these tests add it to a copy of the package.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, is_typeddict

import pytest
from tests.extending.conftest import Added

from moothall import Budget, Journal
from moothall.budget import limits

ADDED = (
    (
        '    Limit("actions", "actions"),\n',
        '    Limit("pages", "pages", measured=True, option_help="pages."),\n',
    ),
    ("    actions: WholeT\n", "    pages: WholeT\n"),
    ("    actions: WholeT = _UNSET\n", "    pages: WholeT = _UNSET\n"),
    ("    max_seconds: float | None = None\n", "    max_pages: int | None = None\n"),
)
SPENT_BY_CALLS = {
    "budget/limits.py": ADDED,
    "models/wrappers/budgeted.py": (('"model_calls": 1', ', "pages": 1'),),
    "agents/loop/call_steps.py": (
        (
            "        with CallContext(bill=bill):\n",
            "            self.context.budget.reserve(pages=3).settle()\n",
        ),
    ),
}
RESUMES = """
from moothall import Budget, Call, Journal, ModelReply, ReActAgent

class Model:
    name, context_tokens, max_tokens = "mine", None, 100

    def __init__(self, *answers):
        self.answers = [*answers]

    async def complete(self, messages, actions=None, schema=None):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

def look() -> str:
    \"\"\"Look.\"\"\"
    return "seen"

def spent(*answers):
    budget = Budget(pages=9, actions=9)
    with Journal("runs.db") as journal:
        agent = ReActAgent("a", Model(*answers), actions=[look], journal=journal, budget=budget)
        agent.reply_sync("go", run_id="R")
        journal.export("R", "R.jsonl")
    return budget.spent.model_calls, budget.spent.actions, budget.spent.pages

calls = ModelReply(calls=(Call("1", "look", {}),))
assert spent(calls, ValueError("down")) == (2, 1, 5)
assert spent(ModelReply("Seen.")) == (3, 1, 6)
with Journal("runs.db") as journal:
    journal.delete("R")
    journal.import_run("R.jsonl")
"""
USES = """
import json
from moothall import Budget, BudgetExceeded, Journal
from moothall.studio.orders.act import ActOrder

with Journal("runs.db") as journal:
    old = Budget(pages=5, journal=journal, name="old")
    assert old.spent.actions == 2, old.spent
    held = old.child(pages=9, name="ada").reserve(pages=3, actions=1)
    assert old.left.pages == 2
    held.settle(pages=4)
    state = json.loads(json.dumps(old.state_dict()))
    assert (state["pages"], state["over"]["pages"], old.over.pages) == (4, 1, 1)
    fresh = Budget(pages=5)
    over = {"tokens": 0, "usd": "0"}
    before = {"tokens": 7, "usd": "0", "model_calls": 0, "actions": 0, "seconds": 0, "over": over}
    fresh.load_state_dict(before)
    assert (fresh.spent.tokens, fresh.spent.pages, fresh.left.pages) == (7, 0, 5)
    try:
        fresh.reserve(pages=6)
    except BudgetExceeded as error:
        assert "6 pages are needed and 5 of 5 are left" in str(error), error
    else:
        raise AssertionError
    assert ActOrder("x", max_pages=3).limits()["pages"] == 3

from moothall.serving.company.settings import BudgetSettings
assert BudgetSettings(pages=3).limits() == {"pages": 3}
from moothall.studio import limit_fields
assert [each.label for each in limit_fields() if each.name == "max_pages"] == ["Pages at most"]
"""


def test_limit_classes_have_the_limits_of_the_list() -> None:
    names = [each.name for each in limits.LIMITS]
    assert {*limits.Limits.__annotations__} == {*names}
    assert {*limits.AmountArguments.__annotations__} == {*names} - {"seconds"}
    assert is_typeddict(limits.Limits)
    for kept in (limits.Spent, limits.Left):
        assert [each.name for each in fields(kept)] == names
    assert {each.name for each in fields(limits.RunLimits)} == {*limits.RUN_LIMITS}
    held = Budget().reserve()
    assert all(getattr(held, each.name) == 0 for each in limits.RESERVABLE)


@pytest.mark.long
def test_limit_added_in_one_file_is_known_everywhere_and_old_books_open(
    tmp_path: Path, added: Added
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        Budget(actions=3, journal=journal, name="old").reserve(actions=2).settle()
    run = added({"budget/limits.py": ADDED})
    run("-c", USES)
    books = ("--journal", "runs.db")
    budgets: Any = json.loads(run("-m", "moothall", "budgets", *books, "--json"))
    whole, child = budgets["budgets"]
    assert (whole["limits"]["pages"], whole["spent"]["pages"], child["over"]["pages"]) == (5, 4, 1)
    run("-m", "moothall", "budgets", "limit", "old", "--pages", "8", *books)
    shown = run("-m", "moothall", "budgets", *books)
    assert "4 of 8 pages spent, limit set by hand, 1 beyond what was reserved" in shown
    for command in ("act", "research", "resume"):
        assert "--max-pages" in run("-m", "moothall", command, "--help")


def test_resumed_run_is_charged_what_its_calls_spent_of_an_added_limit(added: Added) -> None:
    added(SPENT_BY_CALLS)("-c", RESUMES)


@pytest.mark.parametrize("method", ("reserve", "charge", "reserve_rest"))
def test_budget_amount_of_an_unknown_kind_is_refused(method: str) -> None:
    with pytest.raises(TypeError, match=rf"Budget\.{method} has no argument token= \(did you mean"):
        getattr(Budget(), method)(token=1)
