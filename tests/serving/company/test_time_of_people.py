"""The time that a person takes does not count against a firing's seconds, wherever one is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from benchmarks.broker import Broker

from moothall import Agent, Journal
from moothall.serving import ScheduleControl
from serving.company.conftest import MakeCompany, live, until, value

AGENTS = """
import asyncio
import threading

from moothall import ACCESS_REQUESTED, Action, Agent, Context, ReActAgent, ScriptedModel, action

TAKES_S = 1.5


class Boss:
    def approve(self, request):
        threading.Event().wait(TAKES_S)
        return True

    async def answer(self, question):
        await asyncio.sleep(TAKES_S)
        return "yes"


boss = Boss()


class Bank(Agent):
    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self) -> str:
        "Pay."
        return "paid"

    @action(access_policy=ACCESS_REQUESTED)
    async def dawdle(self) -> None:
        "Take too long, once it is permitted."
        await asyncio.Event().wait()

    @action
    def ask(self, context: Context) -> str:
        "Ask."
        return context.ask_person("Shall I?").result()


class Office(Agent):
    @action
    async def wages(self) -> str:
        "Have them paid."
        return await self.request({"to": "Bank", "action": {"name": "pay", "args": {}}})


async def ask(context: Context) -> str:
    "Ask."
    return await context.ask_person("Shall I?")


async def order(context: Context) -> str:
    "Have it paid by another agent."
    return await context.agent.request({"to": "Office", "action": {"name": "wages", "args": {}}})


def pay() -> str:
    return "paid"


def clerk(id, calls):
    asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    return ReActAgent(id, ScriptedModel([{"name": calls}, "Done."]), actions=[ask, order, asked])
"""


@pytest.mark.parametrize(
    ("call", "outcome"),
    (
        ("to: Bank, action: pay", "ok"),
        ("to: Bank, action: ask", "ok"),
        pytest.param("to: Office, action: wages", "ok", marks=pytest.mark.long),
        pytest.param("to: Clerk, args: {content: Go.}", "ok", marks=pytest.mark.long),
        pytest.param("to: Asker, args: {content: Go.}", "ok", marks=pytest.mark.long),
        ("to: Orders, args: {content: Go.}", "ok"),
        ("to: Bank, action: dawdle", "RequestTimeout"),
    ),
)
def test_firing_has_its_seconds_beside_the_time_that_a_person_takes(
    folder: Path, make_company: MakeCompany, call: str, outcome: str
) -> None:
    check(folder, make_company, call, outcome)


@pytest.mark.parametrize(
    "call",
    (
        pytest.param("to: Bank, action: pay", marks=pytest.mark.long),
        pytest.param("to: Office, action: wages", marks=pytest.mark.long),
        "to: Orders, args: {content: Go.}",
    ),
)
def test_firing_over_a_broker_has_them_too(
    folder: Path, make_company: MakeCompany, broker: Broker, call: str
) -> None:
    exchange = f"test.{uuid4().hex}"
    more = f"{{host: localhost, port: {broker.port}, exchange: {exchange}, inbox: i.inbox}}"
    check(folder, make_company, call, "ok", f"broker: {more}")


def check(folder: Path, make_company: MakeCompany, call: str, outcome: str, more: str = "") -> None:
    """Fire a schedule that makes a call, for which a person takes longer than it may take."""
    (folder / "program.py").write_text(AGENTS)
    company = make_company(
        f"""
journal: runs.db
{more}
approver: program.py:boss
agents:
  Bank: {{ref: 'program.py:Bank'}}
  Office: {{ref: 'program.py:Office'}}
  Clerk: {{ref: 'program.py:clerk', options: {{calls: pay}}}}
  Asker: {{ref: 'program.py:clerk', options: {{calls: ask}}}}
  Orders: {{ref: 'program.py:clerk', options: {{calls: order}}}}
schedules:
  work: {{every: 52w, missed: skip, timeout: 1s, {call}}}
"""
    )

    async def work(me: Agent) -> None:
        with Journal(folder / "runs.db") as office:
            firing = await asyncio.to_thread(ScheduleControl(office, "work", "eva").fire)
            of_it = ("moothall_schedule_firings_total",)
            await until(lambda: value(company.metrics(), *of_it) == 1)
            assert value(company.metrics(), *of_it, outcome=outcome) == 1
            assert office.run(firing).state == ("done" if outcome == "ok" else "error")

    live(company, work)
