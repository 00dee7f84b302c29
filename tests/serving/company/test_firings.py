"""Schedules fire once, whatever dies: processes are killed while others share the journal."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commands import Command
from moothall import Agent, Journal
from serving.company.conftest import MakeCompany, live, until, value

# A loaded machine starts processes slowly.
pytestmark = pytest.mark.timeout(180)

AGENTS = '''
import asyncio
import os
import time

from moothall import Agent, ReActAgent, ScriptedModel, action


class Clock(Agent):
    concurrency = 8

    @action
    async def tick(self, at: str) -> None:
        """Note a time: twice, if it is called twice."""
        with open(os.path.join(os.path.dirname(__file__), "ticks"), "a") as file:
            file.write(at + "\\n")
        await asyncio.sleep(0)

    @action(idempotent=True)
    async def mark(self, at: str) -> None:
        """Note a time, once."""
        await asyncio.sleep(0)
        open(os.path.join(os.path.dirname(__file__), "marks", at), "w").close()


def hang(messages, actions):
    print("hangs", flush=True)
    time.sleep(60)


def talker(id):
    says = [hang] if "HANG" in os.environ else ["Good morning."] * 100
    return ReActAgent(id, ScriptedModel(says))
'''

COMPANY = """
journal: runs.db
agents:
  Clock: {ref: 'clock.py:Clock'}
schedules:
  tick: {every: EVERY, missed: all, to: Clock, action: tick, time_as: at}
  mark: {every: EVERY, missed: all, to: Clock, action: mark, time_as: at}
drain: 20s
"""

PROGRAM = """
import asyncio, signal, sys
from moothall.serving import Company

async def main():
    company = Company.from_yaml(sys.argv[1])
    async with company:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, company.stop)
        print("runs", flush=True)
        await company.ended()

asyncio.run(main())
"""

RANDOM = random.Random(43)


def test_killed_processes_fire_each_time_once(tmp_path: Path) -> None:
    kills(tmp_path, 4, "250ms")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thousand_kills_fire_each_time_once(tmp_path: Path) -> None:
    kills(tmp_path, 1000, "500ms")


def kills(folder: Path, count: int, every: str) -> None:
    """Kill two processes of one company in turn, and check every firing against the journal."""
    (folder / "marks").mkdir()
    (folder / "clock.py").write_text(AGENTS)
    (folder / "company.yaml").write_text(COMPANY.replace("EVERY", every))

    def started() -> Command:
        return Command(
            folder / "company.yaml", code=PROGRAM, cwd=folder, stdout=subprocess.PIPE, text=True
        )

    running = [started(), started()]
    try:
        for number in range(count):
            victim = number % 2
            # Most have begun their work, and some are killed before that.
            if number % 4:
                assert running[victim].stdout.readline() == "runs\n"
            threading.Event().wait(RANDOM.uniform(0.0, 0.2))
            running[victim].kill()
            running[victim].wait(30)
            running[victim].stdout.close()
            running[victim] = started()
        for each in running:
            assert each.stdout.readline() == "runs\n"
        last = time.time()
        with Journal(folder / "runs.db") as journal:
            end = time.monotonic() + 60

            def caught_up(name: str) -> bool:
                runs = journal.runs(kind="Schedule", agent=name, sort="-began", limit=1)
                if not runs:
                    return False
                found = datetime.fromisoformat(runs[0].id.rpartition("@")[2].removeprefix("since "))
                marks = journal.runs(kind="Schedule", agent="mark", state="stopped")
                return found.timestamp() > last and not marks

            while not (caught_up("tick") and caught_up("mark")):
                assert time.monotonic() < end, "they do not catch up"
                threading.Event().wait(0.02)
            for each in running:
                each.send_signal(15)
            assert [each.wait(30) for each in running] == [0, 0]
            for each in running:
                each.stdout.close()
            step = float(every.removesuffix("ms")) / 1000
            ticks = Counter((folder / "ticks").read_text().split())
            assert max(ticks.values()) == 1
            for name in ("tick", "mark"):
                runs = [r for r in journal.runs(kind="Schedule", agent=name) if "since" not in r.id]
                times = [datetime.fromisoformat(each.id.rpartition("@")[2]) for each in runs]
                numbers = sorted(round(each.timestamp() / step) for each in times)
                assert numbers == list(range(numbers[0], numbers[-1] + 1))  # each, and each once
                doubted = [each for each in runs if each.state != "done"]
                done = {each.id.rpartition("@")[2] for each in runs if each.state == "done"}
                if name == "mark":
                    assert not doubted
                    assert done == {each.name for each in (folder / "marks").iterdir()}
                else:
                    assert len(doubted) <= count
                    assert done <= set(ticks)
                    assert set(ticks) <= {each.id.rpartition("@")[2] for each in runs}
                    assert all(journal.in_doubt(each.id) for each in doubted)
    finally:
        for each in running:
            each.kill()
            each.wait(30)


@pytest.fixture
def clock(folder: Path) -> Path:
    (folder / "clock.py").write_text(AGENTS)
    (folder / "marks").mkdir()
    return folder


def test_firing_in_doubt_goes_on_when_a_person_has_decided(
    clock: Path, make_company: MakeCompany
) -> None:
    week = 7 * 24 * 3600
    last = datetime.fromtimestamp(time.time() // week * week, UTC)  # no later one is due
    at = f"{last:%Y-%m-%dT%H:%M:%SZ}"
    with Journal(clock / "runs.db") as journal:
        asyncio.run(begun(journal, f"tick@{at}"))
        text = COMPANY.replace("EVERY", "1w")

        async def work(me: Agent) -> None:
            assert not (clock / "ticks").exists()
            assert [each.state for each in journal.runs(agent="tick", needs_person=True)]
            journal.decide(f"tick@{at}", "repeat")
            await until(lambda: journal.run(f"tick@{at}").state == "done")
            assert (clock / "ticks").read_text() == f"{at}\n"

        live(make_company(text), work)


async def begun(journal: Journal, run_id: str) -> None:
    """Record what a process leaves that was killed during the call of a firing."""
    part = await journal.begin(run_id, "Schedule", "tick", "Clock.tick")
    about = {"kind": "Schedule", "agent": "tick", "task": "Clock.tick"}
    from moothall.build import Record

    program = {"to": "Clock", "action": "tick"}
    part.note("begun", {**about, "fingerprint": Record.fingerprint(**program)})
    call = {"key": "call", "about": {"action": "Clock.tick"}, "asks": True}
    part.note("started", {**call, "args": {"at": run_id.rpartition("@")[2]}})
    await part.commit()
    part.close()


def test_schedule_says_something_to_an_agent_under_the_run_id_of_its_firing(
    clock: Path, make_company: MakeCompany
) -> None:
    company = make_company(
        """
journal: runs.db
agents:
  Clerk: {ref: 'clock.py:talker'}
schedules:
  morning: {every: 100ms, to: Clerk, args: {content: Begin.}}
"""
    )

    async def work(me: Agent) -> list[str]:
        await until(lambda: value(company.metrics(), "moothall_schedule_firings_total") >= 2)
        return []

    live(company, work)
    with Journal(clock / "runs.db") as journal:
        fired = [r for r in journal.runs(kind="Schedule", state="done") if "since" not in r.id]
        assert len(fired) >= 2
        replies = {each.id: each for each in journal.runs(kind="ReActAgent")}
        for each in fired:
            at = each.id.partition("@")[2]
            assert replies[f"{each.id}/reply"].thread == f"schedule/morning/{at}"


def test_firing_that_fails_is_an_outcome_in_the_journal_and_the_metrics(
    clock: Path, make_company: MakeCompany
) -> None:
    company = make_company(
        """
journal: runs.db
agents:
  Clerk: {ref: 'program.py:Clerk'}
schedules:
  wrong: {every: 50ms, to: Clerk, action: fail}
"""
    )

    async def work(me: Agent) -> None:
        await until(
            lambda: (
                value(
                    company.metrics(),
                    "moothall_schedule_firings_total",
                    schedule="wrong",
                    outcome="ActionError",
                )
                >= 2
            )
        )
        assert company.health()["ready"]

    live(company, work)
    with Journal(clock / "runs.db") as journal:
        assert len(journal.runs(kind="Schedule", state="error")) >= 2


def test_reply_whose_process_was_killed_goes_on_at_the_start(
    clock: Path, make_company: MakeCompany
) -> None:
    program = """
from clock import talker
from moothall import Journal
agent = talker("Clerk")
agent.journal = Journal("runs.db")
agent.reply_sync("Good morning?", run_id="asked", thread="ann")
"""
    killed = Command(
        code=program, cwd=clock, env={**os.environ, "HANG": "1"}, stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout is not None
    assert killed.stdout.readline() == "hangs\n"
    killed.kill()
    killed.wait(30)
    killed.stdout.close()
    company = make_company("journal: runs.db\nagents: {Clerk: {ref: 'clock.py:talker'}}")

    async def work(me: Agent) -> None:
        with Journal(clock / "runs.db") as journal:
            await until(lambda: journal.run("asked").state == "done")
            assert journal.replay("asked").text == "Good morning."

    live(company, work)
