"""A run whose record is damaged is told once, and hides no other: waits, firings, resumptions."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Agent,
    Journal,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.serving import ScheduleControl
from serving.company.conftest import MakeCompany, live, until, value
from serving.company.test_firings import begun

AGENTS = """
from moothall import ACCESS_REQUESTED, Action, Agent, ReActAgent, ScriptedModel, action

told = []


def clerk(id):
    asked = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    return ReActAgent(id, ScriptedModel(["Paid."] * 50), actions=[asked])


class Clock(Agent):
    @action
    async def tick(self, at: str = "") -> None:
        "Tick."


def tell(wait):
    told.append(wait.run)
"""

COMPANY = """
journal: runs.db
on_waiting: program.py:tell
agents:
  Clerk: {ref: 'program.py:clerk'}
  Clock: {ref: 'program.py:Clock'}
schedules:
  tick: {every: 1w, missed: skip, to: Clock, action: tick}
"""


def damage(folder: Path, run: str, kind: str) -> None:
    """Have the entries of a kind in a run not be what was written."""
    with closing(sqlite3.connect(folder / "runs.db", isolation_level=None)) as db:
        number = "(SELECT number FROM runs WHERE id = ?)"
        sql = f"UPDATE entries SET data = '{{\"' WHERE place >> 32 = {number} AND kind = ?"
        assert db.execute(sql, (run, kind)).rowcount


async def park(journal: Journal, run: str) -> None:
    """Have a run wait for a permission."""
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([{"name": "pay"}])
    clerk = ReActAgent("Clerk", model, actions=[pay], journal=journal, approver=Waiting())
    assert (await clerk.reply("Pay.", run_id=run, thread=run)).stop_reason == "waiting"


async def prepare(folder: Path) -> None:
    """Have two runs wait, two be in doubt, and two firings be stopped; damage one of each."""
    with Journal(folder / "runs.db") as journal:
        await park(journal, "waits")
        await park(journal, "waits-damaged")
        for run in ("doubt", "doubt-damaged"):
            await begun(journal, run)
        last = int(time.time()) // 60 * 60
        for each in (last - 120, last - 60):
            at = f"tick@{datetime.fromtimestamp(each, UTC):%Y-%m-%dT%H:%M:%SZ}"
            await begun(journal, at)
    damage(folder, "waits-damaged", "waits")
    damage(folder, "doubt-damaged", "started")
    damage(folder, at, "started")


def test_waiting_calls_are_listed_beside_a_damaged_run(folder: Path) -> None:
    asyncio.run(prepare(folder))
    with Journal(folder / "runs.db") as journal:
        for found in (journal.waiting(), journal.waiting(kind=("approval", "doubt"))):
            assert {"waits", "doubt"} <= {each.run for each in found}
            assert not {"waits-damaged", "doubt-damaged"} & {each.run for each in found}


def test_company_tells_of_a_damaged_run_once_and_goes_on_with_the_others(
    folder: Path, make_company: MakeCompany, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "program.py").write_text(AGENTS)
    asyncio.run(prepare(folder))
    company = make_company(COMPANY)

    async def work(me: Agent) -> None:
        program = sys.modules["program"]
        await until(lambda: {"waits", "doubt"} <= {*program.told})
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting("waits")
            text = company.metrics()
            assert value(text, "moothall_waiting", agent="Clerk", kind="approval") == 2
            office.answer("waits", wait.key, True)
            await until(lambda: office.run("waits").state == "done")
            firing = await asyncio.to_thread(ScheduleControl(office, "tick", "eva").fire)
            await until(lambda: office.run(firing).state == "done")
            await park(office, "later")
            await until(lambda: "later" in program.told)  # it has looked again since

    with caplog.at_level(logging.WARNING):
        live(company, work)
    for run in ("waits-damaged", "doubt-damaged"):
        about = [each for each in caplog.messages if f"run {run!r}" in each and "damaged" in each]
        assert len(about) == 1
    assert sum("'tick@" in each and "damaged" in each for each in caplog.messages) == 1
    assert not [each for each in caplog.messages if "looked up" in each or "can be told" in each]
