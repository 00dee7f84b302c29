"""Schedules that an operator pauses, fires and makes up for, by commands beside the company."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import moothall
from moothall import Agent, Journal
from moothall.serving import ScheduleControl
from serving.company.conftest import MakeCompany, live, until

COMPANY = """
journal: runs.db
agents:
  Clerk: {ref: 'program.py:Clerk'}
schedules:
  yearly: {cron: "0 0 1 1 *", to: Clerk, action: greet}
  daily: {cron: "0 7 * * *", to: Clerk, action: greet}
"""
DAYS = [f"daily@2026-11-{day}T07:00:00Z" for day in (20, 21, 22)]


def schedules(folder: Path, what: str, *args: str, code: int = 0) -> str:
    """What `moothall schedules` prints for the company's file; else its error."""
    done = moothall("schedules", what, "company.yaml", *args, cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def firings(folder: Path, name: str) -> list[str]:
    """The ids of a schedule's firings that are done, in order."""
    with Journal(folder / "runs.db") as journal:
        found = journal.runs(kind="Schedule", agent=name, state="done", sort="changed")
        return [each.id for each in found if "@since" not in each.id]


def test_schedule_is_fired_now_and_made_up_for_each_time_once(
    folder: Path, make_company: MakeCompany
) -> None:
    company = make_company(COMPANY)

    async def work(me: Agent) -> None:
        fired = await asyncio.to_thread(schedules, folder, "fire", "yearly", "--as", "eva")
        await until(lambda: firings(folder, "yearly") == [fired.strip()])
        span = ("daily", "--since", "2026-11-20T00:00", "--until", "2026-11-22T23:00")
        for expected in (3, 0):  # the second time all of them have fired
            made = await asyncio.to_thread(schedules, folder, "backfill", *span)
            assert made.splitlines()[-1] == f"{expected} firings"
            await until(lambda: firings(folder, "daily") == DAYS)

    live(company, work, 120)
    found = json.loads(schedules(folder, "list", "--json"))["schedules"]
    assert [(each["name"], each["state"], each["paused"]) for each in found] == [
        ("yearly", "done", None),
        ("daily", "done", None),
    ]
    turned = ("backfill", "daily", "--since", "2026-11-22", "--until", "2026-11-20")
    assert "must begin before it ends" in schedules(folder, *turned, code=2)
    assert found[0]["next"] == f"{datetime.now(UTC).year + 1}-01-01T00:00:00+00:00"


def test_schedule_last_firing_is_the_one_with_the_latest_time(
    folder: Path, make_company: MakeCompany
) -> None:
    """What is made up for afterwards is of an earlier time."""
    make_company(COMPANY)
    fired = schedules(folder, "fire", "daily").strip()
    span = ("--since", "2026-11-20T00:00", "--until", "2026-11-22T23:00")
    assert schedules(folder, "backfill", "daily", *span).splitlines()[:-1] == DAYS
    found = json.loads(schedules(folder, "list", "--json"))["schedules"]
    assert [(each["name"], each["last"]) for each in found] == [("yearly", None), ("daily", fired)]


def test_schedule_is_not_paused_if_the_pausing_process_died(journal: Journal) -> None:
    """The company fires it: its note was never whole. Paused once more, it is."""
    control = ScheduleControl(journal, "daily", "eva")
    control.pause()
    (note,) = journal.runs()
    journal.delete(note.id)
    cut_off = asyncio.run(journal.begin(note.id, note.kind, note.agent, note.task))
    cut_off.close()
    assert control.paused() is None
    control.pause()
    assert (paused := control.paused()) is not None
    assert paused.task == "paused by eva"


def test_paused_schedule_fires_for_no_time_that_passes_and_goes_on(
    folder: Path, make_company: MakeCompany
) -> None:
    text = COMPANY.replace('cron: "0 0 1 1 *"', "every: 100ms")
    make_company(text)
    assert schedules(folder, "pause", "yearly", "--as", "eva") == "yearly is paused\n"
    assert "paused by eva" in schedules(folder, "list")

    async def paused(me: Agent) -> None:
        fired = await asyncio.to_thread(schedules, folder, "fire", "yearly")
        await until(lambda: firings(folder, "yearly") == [fired.strip()])

    assert "last:" not in schedules(folder, "list")  # that it is paused is no firing
    live(make_company(text), paused, 120)
    assert len(firings(folder, "yearly")) == 1  # what was wanted, and no time that has passed
    with Journal(folder / "runs.db") as journal:
        journal.prune(0)
        assert [each.task for each in journal.runs(needs_person=True)] == ["paused by eva"]

    async def goes_on(me: Agent) -> None:
        await asyncio.to_thread(schedules, folder, "resume", "yearly")
        await until(lambda: len(firings(folder, "yearly")) >= 2)

    live(make_company(text), goes_on, 120)


@pytest.mark.parametrize(
    ("args", "told"),
    (
        (("fire", "weekly"), "SCHEDULE must be daily or yearly, got 'weekly'"),
        (("backfill", "daily", "--since", "1990-01-01"), "there are more than 1,000 such times"),
    ),
)
def test_schedules_command_names_what_is_wrong(
    folder: Path, make_company: MakeCompany, args: Any, told: str
) -> None:
    make_company(COMPANY)
    assert told in " ".join(schedules(folder, *args, code=2).split())
