"""The seconds of a budget while a run waits in its journal: they stand still."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Journal,
    Later,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)

LATER = 1000.0
"""Seconds that pass while a run waits."""


class Clock:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Seconds since some moment."""
        return self.time


@action(guard=())
async def book() -> Later:
    """Book."""
    return Later("booked")


PAY = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)


def agent(id: str, calls: str, journal: Journal, *more: Action, **options: Any) -> ReActAgent:
    model = ScriptedModel(
        lambda messages, _: (
            "Done."
            if messages[-1]["role"] == "tool"
            else {"name": calls, "args": ARGS.get(calls, {})}
        )
    )
    options |= {"journal": journal, "approver": Waiting()}
    return ReActAgent(id, model, actions=[PAY, book, *more], **options)


ARGS = {"helper": {"text": "Pay."}}


def answer(journal: Journal) -> None:
    for each in journal.waiting(kind=("approval", "result")):
        if each.kind == "approval" or each.key == "booked":
            journal.answer(each.run, each.key, True if each.kind == "approval" else "ok")


@pytest.mark.parametrize("calls", ("pay", "book", "helper"))
@pytest.mark.parametrize("whose", ("agent", "reply", "parent"))
def test_seconds_stand_still_while_a_run_waits_in_its_journal(
    tmp_path: Path, whose: str, calls: str
) -> None:
    clock = Clock()
    budget = Budget(seconds=60, clock=clock)
    part = budget.child(seconds=60) if whose == "parent" else budget
    with Journal(tmp_path / "runs.db") as journal:
        helper = agent("helper", "pay", journal)
        own = {"budget": part} if whose == "agent" else {}
        clerk = agent("clerk", calls, journal, helper.as_action(), **own)
        its = {} if whose == "agent" else {"budget": part}
        for _ in range(3):  # with time before and after
            clock.time += 10
            reply = asyncio.run(clerk.reply("Go.", **its))
            assert reply.stop_reason == "waiting"
            clock.time += LATER
            answer(journal)
            reply = asyncio.run(clerk.reply("Go.", run_id=reply.run_id, **its))
            assert reply.stop_reason == "done"
        assert budget.spent.seconds == pytest.approx(20)  # while nothing waited


def test_seconds_of_a_budget_in_a_journal_stand_still_in_all_processes(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal, Journal(tmp_path / "runs.db") as other:
        clerks = []
        for file in (journal, other):
            budget = Budget(seconds=3600, journal=file, name="all")
            clerks.append(agent("clerk", "pay", file, budget=budget))
        reply = asyncio.run(clerks[0].reply("Go."))
        assert reply.stop_reason == "waiting"
        (first,) = journal.budgets.list()
        (second,) = other.budgets.list()
        assert 0 < first.spent.seconds == second.spent.seconds
        answer(other)
        reply = asyncio.run(clerks[1].reply("Go.", run_id=reply.run_id))
        assert reply.stop_reason == "done"
        assert first.spent.seconds < journal.budgets.list()[0].spent.seconds < 3600


def test_seconds_pass_again_once_another_run_works(tmp_path: Path) -> None:
    clock = Clock()
    budget = Budget(seconds=60, clock=clock)
    with Journal(tmp_path / "runs.db") as journal:
        clerk = agent("clerk", "pay", journal, budget=budget)
        assert asyncio.run(clerk.reply("Go.")).stop_reason == "waiting"
        clock.time += LATER
        budget.reserve(model_calls=1).settle()
        clock.time += LATER
        assert asyncio.run(clerk.reply("Go.", thread="other")).stop_reason == "deadline"


@pytest.mark.parametrize("whose", ("agent", "reply", "parent"))
@pytest.mark.parametrize(
    ("per", "days", "stop_reason"),
    (("day", 0, "budget"), ("day", 1, "done"), ("month", 0, "budget"), ("month", 40, "done")),
)
def test_calls_of_an_earlier_period_do_not_count_in_the_process_that_goes_on(
    tmp_path: Path, per: Any, days: int, stop_reason: str, whose: str
) -> None:
    clock = Clock()
    clock.time = time.time()
    with Journal(tmp_path / "runs.db") as journal:
        for later in (0, days):
            clock.time += later * 86400
            budget = Budget(model_calls=1, per=per, clock=clock)
            part = budget.child(model_calls=2) if whose == "parent" else budget
            its: dict[str, Any] = {"budget": part} if whose == "reply" else {}
            own: dict[str, Any] = {} if its else {"budget": part}
            clerk = agent("clerk", "pay", journal, **own)
            reply = asyncio.run(clerk.reply("Go.", run_id="r", **its))
            if reply.stop_reason == "waiting":
                answer(journal)
        assert (reply.stop_reason, budget.spent.model_calls) == (stop_reason, 1)
        assert part.spent.model_calls == (2 if (whose, days > 0) == ("parent", True) else 1)
