"""The firings of schedules: each is in the journal before it runs, and fires once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from moothall import (
    InDoubt,
    JournalError,
    MoothallError,
    NoSuchRun,
    RequestError,
    RunHeld,
    RunMismatch,
    RunWaiting,
)
from moothall.agents import bounded_resumption
from moothall.build import as_json, error_text, log_failure, recorded
from moothall.journal import Outline, RunView
from moothall.serving.company.firings import (
    MAX_RUNS_READ,
    SCHEDULE_KIND,
    WANTED_PREFIX,
    FiringState,
    firing_time,
    pause_of,
    time_of,
)
from moothall.serving.company.schedule import MAX_TIMES, time_text
from moothall.serving.company.scheduled_call import REPLY_SUFFIX, FiringLeftOpen, ScheduledCall

if TYPE_CHECKING:
    from moothall.build import StepHandle
    from moothall.journal import Journal, Outline

logger: logging.Logger = logging.getLogger("moothall.serving.company")

_LONGEST_WAIT_S: Final = 30.0
"""Seconds after which the clock is read again, since it may be set and the machine may sleep."""

_HELD_RETRY_S: Final = 0.2
_ELSEWHERE_POLL_S: Final = 1.0
"""Seconds between two looks whether another process still makes a schedule's call."""
_LOOK_AHEAD: Final = timedelta(minutes=1)
"""How far a firing's time may lie ahead of the clock, which was not wrong then."""
Perform = Callable[[ScheduledCall, dict[str, Any], str], Awaitable[Any]]


@dataclass(eq=False)
class Scheduler:
    """Fires schedules, each time once, even if processes die.

    A firing is a run of the journal, whose id is the schedule's name and the time. The journal has
    the run before the call begins, and its lease keeps other processes from making the call. If
    the process dies during an idempotent call, the call is made again. The outcome of any other
    call is then unknown, and a person decides. The firings of one schedule do not overlap: times
    that pass during a call are missed.

    Args:
        journal: the journal that all processes share
        perform: makes a call: gets the call, its arguments and the id of its run
        repeats: says whether a call may be made again, since two have the effect of one
        on_fired: told of each firing's outcome
        deaths: says after how many ends of its process a firing waits for an operator; None for a
            reply, whose run waits itself
        now: the clock
    """

    journal: Journal
    perform: Perform
    repeats: Callable[[ScheduledCall], bool]
    on_fired: Callable[[str, str], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    deaths: Callable[[ScheduledCall], int | None] = lambda call: None
    firing_tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by the run's id
    _ids_for_next_start: set[str] = field(default_factory=set)  # of firings that only it resumes

    async def fire_at_times(self, call: ScheduledCall) -> None:
        """Fire at the times of a schedule, until this is cancelled."""
        last_time = await self._last_or_noted_time(call)
        await self._wait_for_other_process(call)
        now = self.now()
        last_time = await self._fire_at(call, last_time, call.schedule.due(last_time, now), now)
        while True:
            if call.schedule.missed == "skip":
                last_time = max(last_time, self.now())
            next_time = next(call.schedule.after(last_time), None)
            if next_time is None:
                return
            while (now := self.now()) < next_time and last_time <= now + _LOOK_AHEAD:
                wait_s = (next_time - now).total_seconds()
                await asyncio.sleep(min(wait_s, _LONGEST_WAIT_S))
            # The clock was set back over the last firing: nothing fires until it is back there.
            if last_time > now + _LOOK_AHEAD:
                _warn_of_time_ahead(call, last_time, now)
                last_time = now
                continue
            try:
                if await self._wait_for_other_process(call):
                    continue  # times have passed meanwhile
            except JournalError as error:
                self.on_fired(call.name, type(error).__name__)  # as if it had been fired
                raise
            if call.schedule.missed == "all":
                times = call.schedule.due(last_time, now)
            else:
                times = [call.schedule.latest(last_time, now) or next_time]
            last_time = await self._fire_at(call, last_time, times, now)

    async def _wait_for_other_process(self, call: ScheduledCall) -> bool:
        """Wait while another process makes the call; return whether one did."""

        def is_running_elsewhere() -> bool:
            running = self.journal.runs(kind=SCHEDULE_KIND, agent=call.name, state="running")
            return any(each.id not in self.firing_tasks for each in running)

        has_waited = False
        while await asyncio.to_thread(is_running_elsewhere):
            has_waited = True
            await asyncio.sleep(_ELSEWHERE_POLL_S)  # it tells nobody when its lease ends
        return has_waited

    async def _fire_at(
        self, call: ScheduledCall, last_time: datetime, times: Sequence[datetime], now: datetime
    ) -> datetime:
        """Fire at some times up to now; return up to when a schedule has fired, or let times go."""
        for at in times:
            # What was cut off comes first: if that ends its process each time, no other begins.
            await self.resume({call.name: call})
            if tasks := self._tasks_of(call):
                await asyncio.wait(tasks)
            # Before each: it may be paused while the times before are made up for.
            if await asyncio.to_thread(self._is_paused, call):
                return max(last_time, now)
            await self.fire(call, at)
            last_time = at
        if len(times) == MAX_TIMES:
            text = "schedule %r: the times after the first %s that were missed do not fire"
            logger.warning(text, call.name, f"{MAX_TIMES:,}")
            return max(last_time, now)
        return last_time

    async def fire(self, call: ScheduledCall, at: datetime) -> None:
        """Make the call of one firing, unless it was made before or another process makes it.

        If this is cancelled, the firing goes on, as one of `firing_tasks`.
        """
        await asyncio.shield(self._start_firing(call, at))

    def _start_firing(self, call: ScheduledCall, at: datetime) -> asyncio.Task[None]:
        """Begin a firing, unless it is under way."""
        run_id = f"{call.name}@{time_text(at)}"
        task = self.firing_tasks.get(run_id)
        if task is None:
            # After the last one alone, which itself comes after those before it.
            earlier_tasks = self._tasks_of(call)[-1:]
            task = self.firing_tasks[run_id] = asyncio.create_task(
                self._fire(call, at, earlier_tasks)
            )
            task.add_done_callback(lambda done: self._on_firing_end(run_id, done))
        return task

    def _tasks_of(self, call: ScheduledCall) -> list[asyncio.Task[None]]:
        tasks = self.firing_tasks.items()
        return [task for id, task in tasks if id.rpartition("@")[0] == call.name]

    def _on_firing_end(self, run_id: str, task: asyncio.Task[None]) -> None:
        del self.firing_tasks[run_id]
        if not task.cancelled():
            task.exception()  # it is logged

    async def _fire(
        self, call: ScheduledCall, at: datetime, earlier_tasks: Sequence[asyncio.Task[None]]
    ) -> None:
        run_id = f"{call.name}@{time_text(at)}"
        if earlier_tasks:  # those of one schedule do not overlap
            await asyncio.wait(earlier_tasks)
        try:
            outcome = await self._run_firing(call, run_id, call.args_at(at))
        except RunHeld:
            return  # another process fires it
        except FiringLeftOpen as error:
            logger.error("firing %r: %s", run_id, error)
            self._ids_for_next_start.add(run_id)
            outcome = "RequestTimeout"
        except RunWaiting as error:
            logger.info("firing %r: %s", run_id, error)
            outcome = "waiting"
        except (InDoubt, RunMismatch) as error:
            logger.error("%s", error)
            outcome = "InDoubt" if isinstance(error, InDoubt) else "RunMismatch"
            if outcome == "RunMismatch":  # it is the same at the next look
                self._ids_for_next_start.add(run_id)
        except MoothallError as error:
            log_failure(logger, f"firing {run_id!r} failed", error)
            self.on_fired(call.name, type(error).__name__)
            if isinstance(error, JournalError):
                raise  # whether the journal has it is seen later
            return
        except Exception as error:  # of this firing alone; `resume` makes it again
            log_failure(logger, f"firing {run_id!r} failed", error)
            self.on_fired(call.name, type(error).__name__)
            return
        if outcome is not None:
            self.on_fired(call.name, outcome)

    async def resume(self, calls: Mapping[str, ScheduledCall], with_waiting: bool = False) -> None:
        """Begin firings whose process died, that a person has decided about, or wants.

        With `with_waiting` also those whose reply waited and does so no longer.
        """
        for call, at in await asyncio.to_thread(self._firings_to_resume, calls, with_waiting):
            self._start_firing(call, at)

    def _firings_to_resume(
        self, calls: Mapping[str, ScheduledCall], with_waiting: bool
    ) -> list[tuple[ScheduledCall, datetime]]:
        firings = []
        states = (*Outline.cut_off, *(("waiting",) if with_waiting else ()))
        for run in self.journal.runs(state=states, kind=SCHEDULE_KIND, needs_person=True):
            call = calls.get(run.agent)
            if call is None or run.id in self._ids_for_next_start or run.id in self.firing_tasks:
                continue
            end_reasons: list[str] | None = None
            with self.journal.file.skipping_damaged(run.id):
                view = RunView(self.journal, run)
                if not view.is_in_doubt or self.repeats(call):
                    end_reasons = [each.reason for each in view.entries if each.reason]
            if end_reasons is None or end_reasons[-1:] not in ([], ["waiting"]):
                continue  # it is damaged, nobody has decided, or it is over
            if (end_reasons and self._reply_waits(run.id)) or self._waits_for_operator(run.id):
                continue
            if (at := firing_time(run)) is not None:
                firings.append((call, at))
        return firings

    async def finish(self, calls: Mapping[str, ScheduledCall], run_id: str) -> None:
        """Make the call of a firing again whose reply has waited: its run has gone on."""
        name, _, time = run_id.rpartition("@")
        if name in calls and not self._reply_waits(run_id):
            await self.fire(calls[name], datetime.fromisoformat(time))

    def _reply_waits(self, run_id: str) -> bool:
        """Return whether the reply of a firing waits for somebody in the journal."""
        try:
            reply_id = f"{run_id}{REPLY_SUFFIX}"
            is_at_rest = self.journal.run(reply_id).state in (*Outline.parked, "in_doubt")
            return is_at_rest or self._waits_for_operator(reply_id)
        except NoSuchRun:
            return False

    def _waits_for_operator(self, run_id: str) -> bool:
        """Return whether a run that was cut off does not go on by itself."""
        return bool(self.journal.waiting(run_id, kind=("operator", "agents")))

    async def _run_firing(
        self, call: ScheduledCall, run_id: str, args: dict[str, Any]
    ) -> str | None:
        """Return the outcome of a firing; None if it has been made before."""
        action_name = f"{call.to}.{call.action}"
        program = {"to": call.to, "action": call.action}
        parts = (self.journal, run_id, SCHEDULE_KIND, call.name, FiringState)
        async with (
            recorded(*parts, task=action_name, program=program) as record,
            AsyncExitStack() as stack,
        ):
            if record.over is not None and record.over["reason"] != "waiting":
                return None
            deaths = self.deaths(call)
            if record.received and deaths is not None:
                resumption = await stack.enter_async_context(
                    bounded_resumption(self.journal, run_id, deaths)
                )
                if not resumption.may_begin:
                    return "InDoubt"
            if not record.received:
                record.hear({"times": call.schedule.times})

            async def make_call(step: StepHandle) -> dict[str, Any]:
                try:
                    value = await self._call(call, step.args, run_id)
                    return {"outcome": "ok", "value": as_json(value)}
                # No outcome, though a RequestError: the call is made again once the reply goes on.
                except RunWaiting:
                    raise
                except RequestError as error:
                    return {"outcome": type(error).__name__, "error": error_text(error, 1000)}

            try:
                result = await record.effect(
                    "call",
                    make_call,
                    args=args,
                    idempotent=self.repeats(call),
                    decided=_result_of_decision,
                    action=action_name,
                )
            except RunWaiting as error:
                await record.end("waiting", detail=str(error), text="")
                raise
            outcome = str(result.get("outcome", "ok"))
            text = result.get("value") if outcome == "ok" else result.get("error")
            reason = "done" if outcome == "ok" else "error"
            await record.end(reason, text="" if text is None else str(text)[:1000])
            return outcome

    async def _call(self, call: ScheduledCall, args: dict[str, Any], run_id: str) -> Any:
        """Make the call; wait for a reply's run while another process, or a resumption, has it."""
        while True:
            try:
                return await self.perform(call, args, run_id)
            except RunHeld:
                # Another process tells nobody when its lease ends.
                await asyncio.sleep(_HELD_RETRY_S)

    def _is_paused(self, call: ScheduledCall) -> bool:
        try:
            # A firing has ended its process each time: the next ones would, too.
            is_deadly = self.journal.waits.has_deadly_run(f"{call.name}@")
            return is_deadly or pause_of(self.journal, call.name) is not None
        except JournalError:  # without a journal nothing fires
            return False

    async def _last_or_noted_time(self, call: ScheduledCall) -> datetime:
        """Return the last time that the journal has of a schedule; note it, if it has none."""
        now = self.now()
        if (last_time := await asyncio.to_thread(self._last_time, call, now)) is not None:
            return last_time
        run_id = f"{call.name}@since {time_text(now)}"
        async with recorded(
            self.journal, run_id, SCHEDULE_KIND, call.name, FiringState, task="the schedule begins"
        ) as record:
            record.hear({"times": call.schedule.times})
            await record.end("done", text="")
        return now

    def _last_time(self, call: ScheduledCall, now: datetime) -> datetime | None:
        """Return the last time up to now; None if there is none, or it had other times."""
        newest = self.journal.runs(kind=SCHEDULE_KIND, agent=call.name, sort="-began", limit=1)
        if newest and (at := time_of(newest[0].id)) is not None and at > now + _LOOK_AHEAD:
            _warn_of_time_ahead(call, at, now)
        runs = self.journal.runs(
            kind=SCHEDULE_KIND, agent=call.name, sort="-began", limit=MAX_RUNS_READ, until=now
        )
        times = [
            (at, run)
            for run in runs
            if (at := time_of(run.id)) is not None
            and at <= now
            and not run.task.startswith(WANTED_PREFIX)
        ]
        if not times:
            return None
        times.sort(key=lambda each: each[0], reverse=True)
        for _, run in times:  # what stands for a deleted firing has no times
            inputs: list[Any] = []
            with self.journal.file.skipping_damaged(run.id):
                inputs = RunView(self.journal, run).inputs
            if inputs:
                if inputs[-1]["times"] == call.schedule.times:
                    break
                text = "schedule %r has other times than before: none is made up for"
                logger.warning(text, call.name)
                return None
        return times[0][0]


def _result_of_decision(decided: Any) -> dict[str, Any]:
    """Return the result of a call that a person has decided about."""
    if error := decided.decision.error_of(decided.value):
        return {"outcome": decided.decision.failure, "error": error}
    return {"outcome": "ok", "value": decided.value}


def _warn_of_time_ahead(call: ScheduledCall, at: datetime, now: datetime) -> None:
    text = "schedule %r fired for %s, which lies ahead of the clock (%s): the clock was wrong then"
    logger.warning(text, call.name, time_text(at), time_text(now.replace(microsecond=0)))
