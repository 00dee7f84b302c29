"""The calls that schedules make: what is called, and for how long it is waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall import (
    ActionError,
    ConversationalAgent,
    JournalError,
    MoothallError,
    NoSuchRun,
    RequestError,
    RequestTimeout,
    RunHeld,
    RunMismatch,
    RunWaiting,
)
from moothall.build import Threaded, error_text, nearest
from moothall.serving.company.schedule import Schedule, time_text

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.serving.company.company_space import CompanySpace
    from moothall.serving.company.settings import ScheduleSettings

logger: logging.Logger = logging.getLogger("moothall.serving.company")

REPLY_SUFFIX: Final = "/reply"
"""What the id of a firing's run has behind it in the id of its reply's run."""
_ASKED_POLL_S: Final = 0.5
"""Seconds between two looks whether a person is asked."""


@dataclass(frozen=True)
class ScheduledCall:
    """The call that a schedule's firings make.

    Attributes:
        name: the schedule's name
        schedule: its times
        to: the id of the agent
        action: its action
        args: the arguments
        time_as: the argument that gets the firing's time, if one does
    """

    name: str
    schedule: Schedule
    to: str
    action: str = "say"
    args: Mapping[str, Any] = field(default_factory=dict)
    time_as: str | None = None

    def args_at(self, at: datetime) -> dict[str, Any]:
        """Return the arguments of a firing."""
        return {**self.args, **({} if self.time_as is None else {self.time_as: time_text(at)})}


def warn_of_invalid_calls(calls: Iterable[ScheduledCall], agents: Mapping[str, Agent]) -> None:
    """Log which schedules call what their agents do not offer, or with other arguments.

    Each such firing fails; but the first may be hours away.
    """
    for call in calls:
        if (agent := agents.get(call.to)) is None:
            continue
        action_name = f"{call.to}.{call.action}"
        if (offer := agent.offers.get(call.action)) is None:
            fault = f"{call.to!r} has no action {call.action!r}{nearest(call.action, agent.offers)}"
        else:
            try:
                offer.check(call.args_at(datetime.now(UTC)), action_name)
                continue
            except MoothallError as error:
                fault = error_text(error)
        logger.warning("schedule %r: its firings will fail: %s", call.name, fault)


class FiringLeftOpen(MoothallError):
    """A firing's reply took too long; its run, and the firing, go on after the next start."""


class ScheduleCaller:
    """Makes the calls of a company's schedules.

    Args:
        agents: the company's agents, by name
        space: its space
        schedules: the settings of its schedules, by name
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        space: CompanySpace,
        schedules: Mapping[str, ScheduleSettings],
    ) -> None:
        self._agents = agents
        self._space = space
        self._schedules = schedules

    def repeats(self, call: ScheduledCall) -> bool:
        """Return whether a call whose outcome is unknown is made again."""
        agent = self._agents.get(call.to)
        if agent is None:
            return False
        offer = agent.offers.get(call.action)
        return bool(agent.resumes(call.action) or (offer is not None and offer.idempotent))

    def deaths(self, call: ScheduledCall) -> int | None:
        """Return after how many deaths a firing waits for an operator; None for a reply's."""
        agent = self._agents.get(call.to)
        return None if agent is None or agent.resumes(call.action) else self._space.deaths(call.to)

    async def make(self, call: ScheduledCall, args: dict[str, Any], run_id: str) -> Any:
        """Make the call of a firing."""
        agent = self._agents.get(call.to)
        if isinstance(agent, ConversationalAgent) and agent.resumes(call.action):
            return await self._make_reply(agent, call, args, run_id)
        timeout = self._schedules[call.name].timeout
        sender = await self._space.sender(f"schedule.{call.name}")
        action = {"name": call.action, "args": args}
        message = {"id": run_id, "to": call.to, "action": action}
        # A person's time has no limit, but the message of a company that died must not stay.
        request = sender.send_request(message, None, wait=True, expires=timeout)
        work: asyncio.Future[Any] = asyncio.ensure_future(request)
        if await _ends_within(timeout, work, partial(_person_is_asked, run_id)):
            return work.result()
        raise RequestTimeout(f'no answer from "{call.to}.{call.action}" in {timeout:g} s')

    async def _make_reply(
        self, agent: ConversationalAgent, call: ScheduledCall, args: dict[str, Any], run_id: str
    ) -> Any:
        """Have an agent reply in a run of the firing's id: it goes on if the process dies."""
        timeout = self._schedules[call.name].timeout
        action_name = f"{call.to}.{call.action}"
        checked_args = agent.offers[call.action].check(args, action_name)
        thread = checked_args.get("thread") or self._thread_of(call, run_id)
        run_id = f"{run_id}{REPLY_SUFFIX}"
        work = asyncio.ensure_future(
            agent.reply(checked_args["content"], thread=thread, run_id=run_id)
        )

        def leave() -> None:
            if (journal := getattr(agent, "journal", None)) is not None:
                journal.leave_runs(run_id)

        try:
            if not await _ends_within(timeout, work, partial(_person_is_asked, run_id), leave):
                raise FiringLeftOpen(
                    f'no answer from "{action_name}" in {timeout:g} s; its run {run_id!r} goes on '
                    "after the next start"
                )
            if (reply := work.result()).stop_reason == "in_doubt":
                raise RunWaiting(reply.detail)
            return agent.reply_text(reply)
        except (JournalError, RunHeld, RunMismatch, RequestError, FiringLeftOpen):
            raise
        except Exception as error:  # whatever it is, it is the outcome of this call
            raise ActionError(type(error).__name__, error_text(error, 1000), action_name) from error

    def _thread_of(self, call: ScheduledCall, run_id: str) -> str:
        """Return the thread of a firing's reply: its own, or that of all firings."""
        journal = self._space.journal
        if journal is not None:
            with suppress(NoSuchRun):  # its process died: it goes on in its thread
                if (recorded_thread := journal.run(f"{run_id}{REPLY_SUFFIX}").thread) is not None:
                    return recorded_thread
        thread = f"schedule/{call.name}"
        if self._schedules[call.name].thread == "shared":
            return thread
        return f"{thread}/{run_id.rpartition('@')[2]}"


async def _ends_within(
    seconds: float,
    work: asyncio.Future[Any],
    person_is_asked: Callable[[], bool],
    on_late: Callable[[], None] | None = None,
) -> bool:
    """Wait for work, without the time for which a person is asked; else call `on_late`; cancel."""
    clock = asyncio.get_running_loop().time
    try:
        while seconds > 0:
            start = clock()
            await asyncio.wait((work,), timeout=min(seconds, _ASKED_POLL_S))
            if work.done():
                return True
            if not person_is_asked():
                seconds -= clock() - start
        # Before the cancellation: the run gets no end, and goes on at the next start.
        if on_late is not None:
            on_late()
        return False
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait((work,))


def _person_is_asked(id: str) -> bool:
    """Return whether a person is asked now for the request, or within the run, of this id."""
    for context in Threaded.asking_now():
        handling, replies = context.handling, context.replies
        while handling is not None and handling.envelope.id != id:
            replies += getattr(handling, "replies", ())
            handling = handling.parent
        if handling is not None or any(
            each.open and each.request is not None and each.request.run_id == id for each in replies
        ):
            return True
    return False
