"""The calls of an answer, executed concurrently, each within its chain."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moothall.actions.acting import CALL_SCOPE
from moothall.actions.approval import Later
from moothall.actions.environment import execute_in_thread, failed_result
from moothall.actions.provenance import reading
from moothall.agents.context import CallChannel, with_injected
from moothall.agents.loop.call_steps import CallBatch, LoopActionStep
from moothall.agents.loop.chain import around_action
from moothall.agents.loop.later_results import later_result
from moothall.agents.loop.parts import context_of
from moothall.agents.loop.permission import PausableLimit
from moothall.agents.loop.provenance import note_execution, source_of
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.reply_context import note_late_reading
from moothall.agents.replies.sub_agents.ask_agent import doubts_of_asked
from moothall.budget.amounts import checked_amounts
from moothall.foundation.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    JournalError,
    RunMismatch,
)
from moothall.foundation.jsonvalue import as_json, json_text
from moothall.foundation.text import cut, log_failure
from moothall.foundation.threads import is_cancelled, reset, side_by_side

if TYPE_CHECKING:
    from moothall.agents.loop.call_result import CallResult
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.agents")

_CUT_OFF_ERROR: Final = "cancelled before it ended; whether it had an effect is not known"
_RECHECK_S: Final = 1.0
"""Seconds between two looks whether a call that waits can go on beside others."""
_NEVER_BEGUN_ERROR: Final = "not executed: cancelled before it began"


class ToolCalls(CallBatch):
    """The calls of one answer, executed concurrently; each gets its result."""

    __slots__ = ()

    step_class: ClassVar[type[LoopActionStep]] = LoopActionStep

    @staticmethod
    def doubts_in(record: Record[Any], iteration: int | str) -> str:
        """Return which calls of an answer are in doubt, and how to decide; empty if none is."""
        if not record.run.past_entries:  # it is a new run
            return ""
        doubts = [
            f'"{past_step.about["action"]}" {cut(json_text(as_json(past_step.args)), 200)}'
            for past_step in record.past(f"{iteration}.")
            if past_step.in_doubt
        ]
        doubts += doubts_of_asked(record, iteration)
        if not doubts:
            return ""
        were = "was" if len(doubts) == 1 else "were"
        decide = shlex.join(
            ("moothall", "resume", record.run_id, "--journal", record.run.file.path)
        )
        return (
            f"outcome unknown: {', '.join(doubts)} {were} running when the run was cut off. Look "
            f"whether it took effect, and decide: `{decide} --repeat`, --skip or --done N=RESULT "
            "(journal.decide)"
        )

    def execute(self, budget: Budget | None = None) -> Awaitable[Any]:
        """Execute the calls, within a budget if there is one; then raise `end` if any has one."""
        if budget is not None:
            return self.execute_within(budget)
        if len(self.calls) == 1:
            return self._execute_call(0)
        return side_by_side([self._execute_call(place) for place in range(len(self.calls))])

    @property
    def end(self) -> Stop:
        """What ends the reply, of the ends that its calls have."""
        waiting_stops = [call.wait for call in self.calls if call.wait is not None]
        if len(waiting_stops) == len(self.stops):
            error = next((each.error for each in waiting_stops if each.error is not None), None)
            return Stop("waiting", "; ".join(map(str, waiting_stops)), error)
        # Any other end comes first: a reply that has failed does not wait.
        return next(each for each in self.stops if each.reason != "waiting")

    async def execute_within(self, budget: Budget) -> None:
        """Execute the calls within a budget's actions and seconds."""
        steps = [self.step_class(self, place) for place in range(len(self.calls))]
        past_steps = [None if self.record is None else self.record.find(each.key) for each in steps]
        are_new = [
            each is None or not each.is_charged(step.action.origin.agent is not None)
            for each, step in zip(past_steps, steps, strict=True)
        ]
        try:
            reservation = await budget.in_turn(partial(budget.reserve, actions=are_new.count(True)))
        except BudgetExceeded as error:
            for place, step in enumerate(steps):
                if (past_step := past_steps[place]) is not None and past_step.is_over:
                    await self._execute_call(place)
                else:  # it runs once the run is resumed with more
                    step.call.fault = f"not executed: {error}"
            raise Stop.at_limit(error) from error
        self.budget = budget
        limit = asyncio.timeout(budget.remaining_seconds())
        token = CALL_SCOPE.set(replace(CALL_SCOPE.get(), clock_pause=PausableLimit(limit, budget)))
        try:
            async with limit:
                await self.execute()
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = DeadlineExceeded("the time of the run was over while its actions were executed")
            raise Stop.at_limit(late) from error
        finally:
            reset(token)
            started = sum(
                call.has_started for call, is_new in zip(self.calls, are_new, strict=True) if is_new
            )
            spent = checked_amounts(ToolCalls.execute_within, {"actions": started})
            reservation.hold.ledger.settle(reservation.hold, spent)

    @property
    def in_doubt(self) -> bool:
        """Return whether a call has begun and not ended, and may not be repeated unasked."""
        return any(
            call.has_started and call.result is None and not self.step_class(self, place).may_repeat
            for place, call in enumerate(self.calls)
        )

    def cut_off(self, place: int, ends: bool = True) -> CallResult:
        """Emit the result of a call that was cut off, and return it; record it if the call ends."""
        step, call = self.step_class(self, place), self.calls[place]
        past = None if self.record is None else self.record.find(step.key)
        had_begun = call.has_started or (past is not None and past.state == "started")
        error = call.fault or (_CUT_OFF_ERROR if had_begun else _NEVER_BEGUN_ERROR)
        data = {"tool_executed": False, "error": error}
        if ends and self.record is not None:
            self.record.mark(step.key, step.dump(data), **step.details)
        call.result = step.result_of(data)
        step.tell_end(data)
        return call.result

    async def _execute_call(self, place: int) -> None:
        """Execute a call; one that waits goes on at once if its answer comes while others run."""
        step = self.step_class(self, place)
        call = partial(execute, step)
        while True:
            self.running_count += 1
            try:
                step.call.result = step.result_of(await around_action(step, call)())
                return
            except Stop as stop:
                last_stop = stop
            finally:
                self.running_count -= 1
                if self.idle_event is not None and not self.running_count:
                    self.idle_event.set()
                    self.idle_event = None
            if last_stop.reason != "waiting" or not await self._can_go_on(step):
                break
            step.call.wait, step.call.questions = None, ()
        self.stops.append(last_stop)
        if last_stop.reason == "waiting":
            step.call.wait = last_stop

    async def _can_go_on(self, step: LoopActionStep) -> bool:
        """Return whether what a call waits for comes while others of its answer are under way."""
        while self.running_count:
            self.idle_event = idle_event = self.idle_event or asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECHECK_S):
                    await idle_event.wait()
            if self.running_count and step.record is not None and await step.record.is_answered():
                return True
        return False


def _waiting_result(error: BaseException) -> dict[str, Any]:
    """Return the result of an action that waits, or whose task group has raised that it does."""
    while isinstance(error, BaseExceptionGroup):
        _, failures = error.split(Later)
        if failures is not None and not isinstance(failures, Exception):
            raise error
        if failures is not None:
            return failed_result(failures)
        error = error.exceptions[0]
    return {"result": error}


async def execute(step: LoopActionStep) -> dict[str, Any]:
    """Execute a call, and return its result."""
    call, agent, request = step.call, step.turn.agent, step.turn.request
    action = call.action
    assert action is not None
    environment = agent.environment
    result: Any = None
    channel: CallChannel | None = None
    if action.outside:  # what it tells other agents is from outside, too
        call.read_sources += (source_of(call),)
    token = reading.begin_execution(call)
    try:
        if call.foreign and (texts := request.state.texts_by_origin) is not None:
            note_execution(call, texts)
        call.has_started = True
        call.step = step.record
        kwargs = call.kwargs
        if kinds := action.injected:
            channel = CallChannel()
            if step.record is not None:
                channel.from_journal = partial(step.record.answer_of, call)
            kwargs = with_injected(kinds, kwargs, context_of(agent, request, call, channel))
        method = getattr(environment, "aexecute_action", None)
        if method is None:  # a user's own environment may have only the sync method
            result = await execute_in_thread(environment, action, kwargs)
        else:
            result = await method(action, kwargs)
    except (Later, BaseExceptionGroup) as error:
        if call.wait is not None:  # of the agent that it asks, whose own call waits
            raise call.wait from None
        result = _waiting_result(error)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed_result(error)  # what the action awaited was cancelled, not this task
    except (JournalError, Stop):
        raise
    except Exception as error:
        log_failure(logger, f"the environment of agent {agent.id!r} failed on {call.name!r}", error)
        return failed_result(error)
    finally:
        reading.end_execution(call, token, result)
        call.on_late_read = partial(note_late_reading, request)
        if channel is not None and (not isinstance(result, dict) or "error" in result):
            channel.withdraw()
    if not isinstance(result, dict):
        return failed_result(
            TypeError(f"an environment must give a dict, got {type(result).__name__}")
        )
    if not isinstance(pending := result.get("result"), Later):
        return result
    try:
        return await later_result(pending, call, step.record)
    except Stop as stop:
        if isinstance(pending.__cause__, RunMismatch):  # of the agent that it asks
            stop.error = pending.__cause__
        raise
