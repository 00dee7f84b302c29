"""Schedules in an operator's hands: paused, fired now, made up for; by any process.

What an operator wants is a run of the journal, which the company's process finds within a second.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from operator import itemgetter

from moothall import ConfigError, NoSuchRun
from moothall.build import recorded
from moothall.journal import Journal, Outline
from moothall.serving.company.firings import (
    MAX_RUNS_READ,
    SCHEDULE_KIND,
    WANTED_PREFIX,
    FiringState,
    firing_time,
    pause_of,
    paused_id,
)
from moothall.serving.company.schedule import MAX_TIMES, Schedule, time_text


class ScheduleControl:
    """One schedule of a company in an operator's hands, by the journal: in any process.

    The company's process finds within a second what is wanted of it; if none runs, the next start.

    Args:
        journal: the company's journal
        name: the name of the schedule
        by: who wants it, for the record
    """

    def __init__(self, journal: Journal, name: str, by: str = "") -> None:
        self.journal = journal
        self.name = name
        self.by = by

    def paused(self) -> Outline | None:
        """Return the note that the schedule is paused, and by whom; None if it is not."""
        return pause_of(self.journal, self.name)

    def newest(self) -> Outline | None:
        """Return the run of the firing with the latest time; None if there was none."""
        # Not the last begun or changed: an old one may be made up for, or decided.
        runs = self.journal.runs(
            kind=SCHEDULE_KIND, agent=self.name, sort="-began", limit=MAX_RUNS_READ
        )
        timed_runs = [(at, run) for run in runs if (at := firing_time(run)) is not None]
        return max(timed_runs, key=itemgetter(0), default=(None, None))[1]

    def pause(self) -> None:
        """Have it not fire, until `resume`; times that pass meanwhile never fire."""
        self._record_note(paused_id(self.name), f"paused by {self.by}", "waiting")

    def resume(self) -> None:
        """Have it fire again, from its next time on."""
        if self.paused() is not None:
            note_id = f"{self.name}@since {time_text(datetime.now(UTC))}"
            self._record_note(note_id, f"goes on, by {self.by}", "done")
            self.journal.delete(paused_id(self.name))

    def fire(self) -> str:
        """Have it fire now, even if it is paused; return the id of the firing's run."""
        run_id = f"{self.name}@{time_text(datetime.now(UTC))}"
        asyncio.run(self._begin_firing(run_id))
        return run_id

    def make_up(self, schedule: Schedule, since: datetime, until: datetime) -> list[str]:
        """Have it fire for its times in a span that have not fired; return the runs' ids.

        Raises:
            ConfigError: the span ends before it begins, or has too many times
        """
        if until < since:
            raise ConfigError(f"the span must begin before it ends, got {since} to {until}")
        run_ids: list[str] = []
        for at in schedule.after(since):
            if at > min(until, datetime.now(UTC)):
                break
            run_id = f"{self.name}@{time_text(at)}"
            try:
                self.journal.run(run_id)
            except NoSuchRun:
                run_ids.append(run_id)
            if len(run_ids) > MAX_TIMES:
                raise ConfigError(
                    f"there are more than {MAX_TIMES:,} such times: name a shorter span"
                )
        for run_id in run_ids:
            asyncio.run(self._begin_firing(run_id))
        return run_ids

    async def _begin_firing(self, run_id: str) -> None:
        """Make the run of a firing, in which nothing has happened: as if its process had died."""
        (
            await self.journal.begin(run_id, SCHEDULE_KIND, self.name, f"{WANTED_PREFIX}{self.by}")
        ).close()

    def _record_note(self, run_id: str, task: str, state: str) -> None:
        async def record_note() -> None:
            async with recorded(
                self.journal, run_id, SCHEDULE_KIND, self.name, FiringState, task=task
            ) as record:
                if record.over is None:
                    await record.end(state, text="")

        asyncio.run(record_note())
