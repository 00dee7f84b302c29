"""Schedules whose clock was wrong, whose process slept for long, and whose times were changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moothall import Journal, RunWaiting
from moothall.serving import ScheduleControl
from moothall.serving.company.schedule import Schedule
from moothall.serving.company.scheduler import ScheduledCall, Scheduler
from serving.company.conftest import until

# Ahead of the machine's clock, by which the journal dates what it writes.
NOON = datetime(2126, 11, 26, 12, tzinfo=UTC)
MOMENT = timedelta(seconds=0.01)


class Firings:
    """The firings of one schedule, by a clock that a test sets."""

    def __init__(self, folder: Path, now: datetime, **times: Any) -> None:
        self.call = ScheduledCall("tick", Schedule(**times), "Clock")
        self.path = folder / "runs.db"
        self.now = now
        self.made: list[str] = []
        self.looks = 0

    def look(self) -> datetime:
        """Return the time."""
        self.looks += 1
        return self.now

    async def _make(self, call: ScheduledCall, args: dict[str, Any], run_id: str) -> None:
        self.made.append(run_id.partition("@")[2])

    def fire(self, enough: Callable[[], bool]) -> list[str]:
        """Fire until it is enough; return the times."""

        async def main(journal: Journal) -> None:
            scheduler = Scheduler(journal, self._make, lambda _: True, lambda *_: None, self.look)
            keeping = asyncio.create_task(scheduler.fire_at_times(self.call))
            await until(lambda: keeping.done() or enough())
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

        self.made = []
        with Journal(self.path) as journal:
            asyncio.run(asyncio.wait_for(main(journal), 170))
        return self.made

    def is_noted(self, times: int = 1) -> bool:
        """Return whether the journal has the schedule, with so many kinds of times."""
        with Journal(self.path) as journal:
            return len(journal.runs(state="done")) >= times

    def goes_on(self) -> bool:
        """Let some time pass; enough are three firings."""
        self.now += MOMENT
        return len(self.made) >= 3


def test_schedule_that_fired_by_a_clock_years_ahead_fires_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    firings = Firings(tmp_path, NOON.replace(year=2136), every=0.02)
    firings.fire(firings.goes_on)
    firings.now = NOON
    assert all(each.startswith("2126-11-26T12:00") for each in firings.fire(firings.goes_on))
    assert "'tick' fired for 2136-11-26T12:00" in caplog.text
    assert "ahead of the clock (2126-11-26T12:00" in caplog.text


def test_schedule_fires_when_the_clock_is_set_right_while_it_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    firings = Firings(tmp_path, NOON.replace(year=2136), every=0.02)

    def set_right() -> bool:
        if firings.made and firings.now.year == 2136:
            firings.now = NOON
        firings.goes_on()
        return sum(each.startswith("2126-11-26T12:00") for each in firings.made) >= 3

    made = firings.fire(set_right)
    assert made[0].startswith("2136-11-26T12:00")
    assert "'tick' fired for 2136-11-26T12:00" in caplog.text


@pytest.mark.parametrize("deletes", (False, True), ids=("", "deleted"))
def test_times_that_are_changed_do_not_fire_for_the_past(tmp_path: Path, deletes: bool) -> None:
    before = Firings(tmp_path, NOON.replace(hour=7) - 50 * MOMENT, cron="0 7 * * *")
    assert before.fire(before.is_noted) == []

    def passed() -> bool:
        before.now += MOMENT
        return bool(before.made)

    assert before.fire(passed) == ["2126-11-26T07:00:00Z"]
    if deletes:
        with Journal(before.path) as journal:
            assert journal.delete("tick@2126-11-26T07:00:00Z").left == {}
    after = Firings(tmp_path, NOON.replace(hour=13) - 50 * MOMENT, cron="0 9,13 * * *")

    def fired() -> bool:
        after.now += MOMENT
        return bool(after.made)

    assert after.fire(fired) == ["2126-11-26T13:00:00Z"]


@pytest.mark.long
def test_missed_times_of_a_schedule_that_makes_up_for_all_are_a_thousand_at_most(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    firings = Firings(tmp_path, NOON, every=1, missed="all")
    assert firings.fire(firings.is_noted) == []
    firings.now = NOON + timedelta(seconds=3000)

    def enough() -> bool:
        firings.now += MOMENT
        return len(firings.made) >= 1001

    made = firings.fire(enough)
    assert made[999] == "2126-11-26T12:16:40Z"
    assert made[1000] > "2126-11-26T12:50"
    assert "after the first 1,000 that were missed do not fire" in caplog.text


def test_schedule_that_is_paused_while_it_makes_up_for_times_fires_no_more(tmp_path: Path) -> None:
    def pause() -> None:
        with Journal(firings.path) as journal:
            ScheduleControl(journal, "tick", "eva").pause()

    class Paused(Firings):
        async def _make(self, *args: Any) -> None:
            await super()._make(*args)
            await asyncio.to_thread(pause)

    firings = Paused(tmp_path, NOON, every=60, missed="all")
    firings.fire(firings.is_noted)
    firings.now = NOON + timedelta(minutes=9, seconds=30)
    firings.looks = 0
    # It looks at the clock twice before it makes up for times, and then for the next time.
    assert firings.fire(lambda: firings.looks > 2) == ["2126-11-26T12:01:00Z"]


def test_times_changed_before_the_first_firing_do_not_fire_for_the_past(tmp_path: Path) -> None:
    before = Firings(tmp_path, NOON.replace(hour=8), cron="0 12 * * *")
    assert before.fire(before.is_noted) == []
    after = Firings(tmp_path, NOON.replace(hour=13) - 50 * MOMENT, cron="0 9,13 * * *")

    def fired() -> bool:
        after.now += MOMENT
        return bool(after.made)

    assert after.fire(fired) == ["2126-11-26T13:00:00Z"]


@pytest.mark.parametrize("deletes", (False, True), ids=("pruned", "deleted"))
def test_schedule_does_not_fire_again_for_a_time_whose_run_is_gone(
    tmp_path: Path, deletes: bool
) -> None:
    class Asking(Firings):
        async def _make(self, call: ScheduledCall, args: dict[str, Any], run_id: str) -> None:
            await super()._make(call, args, run_id)
            if run_id.endswith("26T07:00:00Z"):  # the run of the day before stays
                raise RunWaiting("waiting for eva")

    firings = Asking(tmp_path, NOON.replace(hour=7) - 50 * MOMENT, cron="0 7 * * *")

    def enough() -> bool:
        firings.now += MOMENT
        return bool(firings.made)

    firings.fire(enough)
    for day in (27, 28):
        firings.now = NOON.replace(day=day, hour=7) - 50 * MOMENT
        assert firings.fire(enough) == [f"2126-11-{day}T07:00:00Z"]
        with Journal(firings.path) as journal:
            if deletes:
                assert journal.delete(f"tick@2126-11-{day}T07:00:00Z").left == {}
            else:
                left = journal.prune(0).left[f"tick@2126-11-{day}T07:00:00Z"]
                assert left == "its schedule goes on from its time"


@pytest.mark.parametrize("zone", ("UTC", "America/New_York"))
def test_time_that_is_missed_after_the_times_were_changed_fires_later(
    tmp_path: Path, zone: str
) -> None:
    before = Firings(tmp_path, NOON, cron="0 12 * * *")
    before.fire(before.is_noted)
    changed = Firings(tmp_path, NOON + MOMENT, cron="0 18 * * *", timezone=zone)
    changed.fire(lambda: changed.is_noted(2))
    changed.now = NOON + timedelta(days=1)
    due = "18:00" if zone == "UTC" else "23:00"
    assert changed.fire(lambda: bool(changed.made)) == [f"2126-11-26T{due}:00Z"]


def test_firing_that_an_operator_wanted_does_not_stand_for_times_that_were_missed(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    firings = Firings(tmp_path, now - timedelta(minutes=10), every=120, missed="all")
    firings.fire(firings.is_noted)
    with Journal(firings.path) as journal:
        ScheduleControl(journal, "tick", "eva").fire()
    firings.now = now + timedelta(seconds=30)
    assert len(firings.fire(lambda: len(firings.made) >= 4)) >= 4


@pytest.mark.parametrize(("missed", "minute"), (("skip", 3), ("once", 2), ("all", 1)))
def test_schedule_treats_times_that_pass_during_its_call_as_missed(
    tmp_path: Path, missed: str, minute: int
) -> None:
    class Slow(Firings):
        async def _make(self, *args: Any) -> None:
            await super()._make(*args)
            if len(self.made) == 1:
                self.now = NOON + timedelta(minutes=3) - 50 * MOMENT

    firings = Slow(tmp_path, NOON - 50 * MOMENT, every=60, missed=missed)

    def enough() -> bool:
        firings.now += MOMENT
        return len(firings.made) >= 2

    assert firings.fire(enough)[:2] == ["2126-11-26T12:00:00Z", f"2126-11-26T12:0{minute}:00Z"]


def test_schedule_does_not_fire_while_another_process_makes_its_call(tmp_path: Path) -> None:
    firings = Firings(tmp_path, NOON, every=60)
    firings.fire(firings.is_noted)
    with Journal(firings.path) as other:
        under_way = asyncio.run(other.begin("tick@2126-11-26T12:01:00Z", "Schedule", "tick", ""))
        firings.now = NOON + timedelta(minutes=2)
        made_meanwhile, calls = ["nobody has looked"], iter(range(10_000))

        def enough() -> bool:
            if next(calls) == 30:
                made_meanwhile[:] = [*firings.made]
                firings.now = NOON + timedelta(minutes=3)
                under_way.close()  # and leaves it open: it comes first
            return len(firings.made) > 1

        assert firings.fire(enough) == ["2126-11-26T12:01:00Z", "2126-11-26T12:03:00Z"]
        assert made_meanwhile == []


def test_firing_whose_schedule_calls_another_agent_now_is_reported_once(tmp_path: Path) -> None:
    outcomes: list[str] = []

    async def main(journal: Journal) -> None:
        hangs = asyncio.Event()

        async def hang(*args: Any) -> None:
            hangs.set()
            await asyncio.Event().wait()

        def scheduler(make: Any) -> Scheduler:
            fired = lambda _, outcome: outcomes.append(outcome)  # noqa: E731
            return Scheduler(journal, make, lambda _: True, fired)

        before = scheduler(hang)
        call = ScheduledCall("tick", Schedule(every=60), "Clock")
        firing = asyncio.create_task(before.fire(call, NOON))
        await hangs.wait()
        journal.leave_runs()  # as if its process died
        for task in (firing, *before.firing_tasks.values()):
            task.cancel()
        await until(lambda: not before.firing_tasks)
        journal.leave_runs(leave=False)
        after = scheduler(hang)
        for _ in range(3):
            await after.resume({"tick": ScheduledCall("tick", Schedule(every=60), "Clerk")})
            await until(lambda: not after.firing_tasks)

    with Journal(tmp_path / "runs.db") as journal:
        asyncio.run(main(journal))
    assert outcomes == ["RunMismatch"]
