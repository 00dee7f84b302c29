"""Schedules in an operator's hands: paused, fired now, made up for; by any process.

What an operator wants is a run of the journal, which the company's process finds within a second.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

from moothall import ConfigError, NoSuchRun
from moothall.build import recorded
from moothall.journal import Journal, Outline
from moothall.serving.company.schedule import MAX_TIMES, Schedule, stamp
from moothall.serving.company.scheduler import KIND, WANTED_BY, Fired, fired_at, paused_id

_NOTES: Final = 20
"""So many runs of a schedule are looked at for a firing: some are notes about the schedule."""


def paused(journal: Journal, name: str) -> Outline | None:
    """Return what says that a schedule is paused, and by whom; None if it is not."""
    try:
        return journal.run(paused_id(name))
    except NoSuchRun:
        return None


def newest(journal: Journal, name: str) -> Outline | None:
    """Return the last firing of a schedule."""
    runs = journal.runs(kind=KIND, agent=name, sort="-changed", limit=_NOTES)
    return next((run for run in runs if fired_at(run) is not None), None)


def pause(journal: Journal, name: str, by: str) -> None:
    """Have a schedule not fire, until `go_on`; times that pass meanwhile never fire."""
    asyncio.run(_record_note(journal, paused_id(name), name, f"paused by {by}", "waiting"))


def go_on(journal: Journal, name: str, by: str) -> None:
    """Have a schedule fire again, from its next time on."""
    if paused(journal, name) is not None:
        since = f"{name}@since {stamp(datetime.now(UTC))}"
        asyncio.run(_record_note(journal, since, name, f"goes on, by {by}", "done"))
        journal.delete(paused_id(name))


def fire(journal: Journal, name: str, by: str) -> str:
    """Have a schedule fire now, even if it is paused; return the id of the firing's run."""
    run_id = f"{name}@{stamp(datetime.now(UTC))}"
    asyncio.run(_begin_firing(journal, run_id, name, by))
    return run_id


def make_up(
    journal: Journal, name: str, schedule: Schedule, since: datetime, until: datetime, by: str
) -> list[str]:
    """Have a schedule fire for its times in a span that have not fired; return the runs' ids."""
    if until < since:
        raise ConfigError(f"the span must begin before it ends, got {since} to {until}")
    run_ids: list[str] = []
    for at in schedule.after(since):
        if at > min(until, datetime.now(UTC)):
            break
        run_id = f"{name}@{stamp(at)}"
        try:
            journal.run(run_id)
        except NoSuchRun:
            run_ids.append(run_id)
        if len(run_ids) > MAX_TIMES:
            raise ConfigError(f"there are more than {MAX_TIMES:,} such times: name a shorter span")
    for run_id in run_ids:
        asyncio.run(_begin_firing(journal, run_id, name, by))
    return run_ids


async def _begin_firing(journal: Journal, run_id: str, name: str, by: str) -> None:
    """Make the run of a firing, in which nothing has happened: as if its process had died."""
    (await journal.begin(run_id, KIND, name, f"{WANTED_BY}{by}")).close()


async def _record_note(journal: Journal, run_id: str, name: str, task: str, state: str) -> None:
    async with recorded(journal, run_id, KIND, name, Fired, task=task) as record:
        if record.over is None:
            await record.end(state, text="")
