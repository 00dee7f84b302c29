"""Times of a user's own for a schedule: here they stand in a calendar."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from moothall import Journal
from moothall.serving import Schedule
from moothall.serving.company.scheduler import ScheduledCall, Scheduler

DAYS = tuple(datetime(2026, 3, day, 9, tzinfo=UTC) for day in (2, 9, 30))


@dataclass(frozen=True)
class Calendar(Schedule):
    """Fires on the days of a calendar."""

    every: float | None = 1.0
    days: tuple[datetime, ...] = ()

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the days after a moment."""
        yield from (day for day in self.days if day > moment)

    def latest(self, last: datetime, now: datetime) -> datetime | None:
        """Return the last day after `last` and up to `now`."""
        return max((day for day in self.days if last < day <= now), default=None)


def test_schedule_of_a_users_own_times_fires_at_each_once(tmp_path: Path) -> None:
    made = []

    async def perform(call: ScheduledCall, args: dict[str, Any], run_id: str) -> None:
        made.append((run_id, args["day"]))

    begins, ends = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 10, tzinfo=UTC)
    call = ScheduledCall(
        "rent", Calendar(missed="all", days=DAYS[:2]), "Clerk", "remind", time_as="day"
    )
    with Journal(tmp_path / "runs.db") as journal:
        for _ in range(2):  # as if a process started again
            times = chain((begins, begins), repeat(ends))
            now = times.__next__
            asyncio.run(
                Scheduler(journal, perform, lambda _: True, lambda *_: None, now).fire_at_times(
                    call
                )
            )
    assert made == [
        ("rent@2026-03-02T09:00:00Z", "2026-03-02T09:00:00Z"),
        ("rent@2026-03-09T09:00:00Z", "2026-03-09T09:00:00Z"),
    ]
