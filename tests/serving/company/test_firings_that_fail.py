"""A firing that fails, in whatever way, is an outcome; all schedules go on firing."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from benchmarks.postgresql import Server

from commands import Command
from moothall import Agent, Journal
from moothall.journal import Done
from moothall.serving import Company
from serving.company.conftest import MakeCompany, live, until, value

AGENTS = """
import asyncio

from moothall import ModelError, ModelReply, ReActAgent, ScriptedModel


class Late:
    name = "late"
    context_tokens = None

    async def complete(self, messages, actions=None, schema=None):
        await asyncio.sleep(60)
        return ModelReply("too late")


class Broken(Late):
    async def complete(self, messages, actions=None, schema=None):
        raise ModelError("the model is away")


def late(id):
    return ReActAgent(id, Late())


def broken(id):
    return ReActAgent(id, Broken())


def talker(id):
    return ReActAgent(id, ScriptedModel(["Good morning."] * 1000))
"""

DOUBT = """
import os

from moothall import Journal, ReActAgent, ScriptedModel, action


@action
def buy() -> str:
    if "DIES" in os.environ:
        os._exit(9)
    return "bought"


def buyer(id):
    return ReActAgent(
        id, ScriptedModel([{"name": "buy"}, "It is bought."]), actions=[buy],
        journal=Journal(os.environ["URL"]),
    )
"""


def fired(company: Company, schedule: str, outcome: str) -> float:
    """Return how many firings of a schedule have ended so."""
    return value(
        company.metrics(), "moothall_schedule_firings_total", schedule=schedule, outcome=outcome
    )


@pytest.mark.parametrize(
    ("agent", "more", "outcome", "said"),
    (
        ("broken", ", args: {content: Hello}", "ActionError", "the model is away"),
        ("talker", ", args: {content: 5}", "InvalidArguments", '"content"'),
        ("talker", ", args: {contents: Hello}", "InvalidArguments", '"contents"'),
        ("talker", "", "InvalidArguments", '"content"'),
        ("talker", ", action: sya", "ActionNotFound", "sya"),
    ),
    ids=["model fails", "wrong type", "misspelt", "missing", "no such action"],
)
def test_schedule_reply_that_fails_is_an_outcome_and_the_others_go_on(
    folder: Path,
    make_company: MakeCompany,
    caplog: pytest.LogCaptureFixture,
    agent: str,
    more: str,
    outcome: str,
    said: str,
) -> None:
    (folder / "program.py").write_text(AGENTS)
    company = make_company(
        f"""
journal: runs.db
agents:
  Talker: {{ref: 'program.py:{agent}'}}
  Other: {{ref: 'program.py:talker'}}
schedules:
  wrong: {{every: 100ms, to: Talker{more}}}
  right: {{every: 100ms, to: Other, args: {{content: Hello}}}}
"""
    )

    async def work(me: Agent) -> None:
        await until(lambda: fired(company, "wrong", outcome) >= 2)
        before = fired(company, "right", "ok")
        await until(lambda: fired(company, "right", "ok") >= before + 2)
        assert company.health()["ready"]

    live(company, work)
    warned = "schedule 'wrong': its firings will fail: " in caplog.text  # before the first one
    assert warned is (outcome != "ActionError")
    assert "schedule 'right'" not in caplog.text
    with Journal(folder / "runs.db") as journal:
        run = journal.runs(kind="Schedule", agent="wrong", state="error")[0]
        assert said in str(journal.entries(run.id)[-1].data)


def renamed(server: Server, name: str, to: str) -> None:
    """Give a schema of the server another name."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"ALTER SCHEMA {name} RENAME TO {to}")


def test_schedule_times_at_which_the_journal_was_away_fire_when_it_is_back(
    folder: Path, make_company: MakeCompany, postgresql: Server
) -> None:
    (folder / "program.py").write_text(AGENTS)
    url = postgresql.url("away")
    company = make_company(
        """
journal: ${URL}
agents:
  Talker: {ref: 'program.py:talker'}
schedules:
  greet: {every: 200ms, missed: all, to: Talker, args: {content: Hello}}
""",
        URL=url,
    )

    async def work(me: Agent) -> float:
        await until(lambda: fired(company, "greet", "ok") >= 1)
        await asyncio.to_thread(renamed, postgresql, "away", "hidden")
        await until(lambda: fired(company, "greet", "JournalError") >= 1)
        await asyncio.to_thread(renamed, postgresql, "hidden", "away")
        before = fired(company, "greet", "ok")
        await until(lambda: fired(company, "greet", "ok") >= before + 10)
        return fired(company, "greet", "ok")

    ended = live(company, work)
    with Journal(url) as journal:
        runs = journal.runs(kind="Schedule", agent="greet", state="done")
    times = sorted(
        datetime.fromisoformat(run.id.partition("@")[2]).timestamp()
        for run in runs
        if "since" not in run.id
    )
    assert len(times) >= ended
    assert {round((later - earlier) * 5) for earlier, later in pairwise(times)} == {1}


def test_decision_about_a_call_in_doubt_is_carried_out_after_the_journal_was_away(
    folder: Path,
    make_company: MakeCompany,
    postgresql: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (folder / "program.py").write_text(DOUBT)
    url = postgresql.url("doubted")
    caplog.set_level(logging.INFO, "moothall.serving.company")
    monkeypatch.setenv("URL", url)
    killed = Command(
        code="from program import buyer\nbuyer('Buyer').reply_sync('Buy it', run_id='bought')",
        cwd=folder,
        env={**os.environ, "DIES": "1"},
    )
    killed.wait()
    company = make_company(
        "journal: ${URL}\nagents:\n  Buyer: {ref: 'program.py:buyer'}\n", URL=url
    )

    async def work(me: Agent) -> None:
        with Journal(url) as journal:
            await until(lambda: "'bought' had stopped: in_doubt" in caplog.text)
            await asyncio.to_thread(renamed, postgresql, "doubted", "hidden")
            await until(lambda: "cannot be looked up" in caplog.text)
            await asyncio.to_thread(renamed, postgresql, "hidden", "doubted")
            journal.decide("bought", {1: Done("bought")})
            await until(lambda: journal.run("bought").state == "done")

    live(company, work)
