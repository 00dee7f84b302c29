"""What the studio runs in the background: orders, and what tabs of others do."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moothall import ConfigError, MoothallError, NoSuchRun, RunHeld, RunMismatch, StateError
from moothall.agents import ResumeHost, Retries, cancel_run
from moothall.build import Stop, guard
from moothall.journal import Outline
from moothall.studio.cards.agents import agent_for
from moothall.studio.hub import CLOSE_S, Hub, start_thread
from moothall.studio.orders import has_resume, resume_of
from moothall.studio.orders.order import (
    ActOrder,
    ResearchOrder,
    check_no_keys,
    record_order,
    with_new_limits,
)
from moothall.studio.orders.research import write_report
from moothall.studio.orders.resumable import (
    check_program,
    recorded_order,
    resume_refusal,
    run_for_change,
)
from moothall.studio.orders.simulate import SimulateOrder
from moothall.studio.page_server import ServedHub

if TYPE_CHECKING:
    from moothall.spaces import You

logger: logging.Logger = logging.getLogger("moothall.studio")
_Order: TypeAlias = ActOrder | ResearchOrder

NO_NEW_LIMITS: Final[Mapping[str, float]] = {}


@dataclass
class _BackgroundJob:
    """One background run, on its own event loop and thread; while it waits it has neither."""

    run_id: str
    order: _Order | None  # None if it is another's work
    command: str
    messages: list[str]  # messages that it gets when it continues
    work: Callable[[], Coroutine[Any, Any, Any]] | None = None
    state: str = "running"
    is_waiting: bool = False  # in the journal, for an answer
    agent: Any = None
    loop: Any = None
    task: Any = None
    thread: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the job as pages get it."""
        messages = [*self.messages]
        return {"run": self.run_id, "command": self.command, "told": messages, "state": self.state}


class Jobs(ResumeHost):
    """Starts, pauses, steers and stops background runs, for any page and in any thread.

    The runs are recorded like those of the command line, so that each can resume the other's.
    Each change is published to the pages on the topic `job`.
    """

    look_s: float = 1.0

    def __init__(self, hub: Hub, resume_town: Callable[[SimulateOrder, str], None]) -> None:
        super().__init__()
        self._hub = hub
        self._resume_town = resume_town
        self._jobs: dict[str, _BackgroundJob] = {}
        self._messages: dict[str, list[str]] = {}
        self._retries = Retries()
        self._start_lock = guard()  # two pages may resume a run at the same time

    def start(self, order: _Order, *, run_id: str | None = None, text: str = "") -> str:
        """Start or resume a run; return its id once it is under way, and told `text`.

        An event loop in the calling thread is blocked until then. The outcome is in the journal.
        """
        if not order.task.strip():
            raise ConfigError("the task is empty: say what is to be done", argument="task")
        check_no_keys(order)
        run_id = run_id or secrets.token_hex(8)
        messages = self._messages.setdefault(run_id, [])
        self._begin(_BackgroundJob(run_id, order, order.command, messages), text)
        return run_id

    def run(
        self, run_id: str, work: Callable[[], Coroutine[Any, Any, object]], kind: str = "a program"
    ) -> str:
        """Work on a run in the background, for a tab of your own; return the run's id.

        Args:
            run_id: the id under which the work records itself in `studio.journal`
            work: is called once and awaited, on an event loop and thread of its own; `stop`, and
                the end of the studio, cancel it
            kind: the name of the orchestrator

        Raises:
            ConfigError: the run is under way here, or `work` returns no coroutine
        """
        self._begin(_BackgroundJob(run_id, None, kind, [], work))
        return run_id

    def _begin(self, job: _BackgroundJob, text: str = "") -> None:
        with self._start_lock:
            existing = self._jobs.get(job.run_id)
            if existing is not None and not existing.is_waiting:
                raise ConfigError(f"run {job.run_id!r} is under way already")
            if text:
                job.messages.append(text)
            # Until it is under way: the next page then finds it among the jobs.
            try:
                start_thread(f"moothall-{job.run_id}", partial(self._run, job))
            except BaseException as error:
                if text and not isinstance(error, RunMismatch):  # a fork of it takes the message
                    job.messages.remove(text)  # it is sent again
                raise

    def resume(self, run_id: str, more: Mapping[str, float] = NO_NEW_LIMITS, text: str = "") -> str:
        """Resume a stopped run by its recorded order; return its id, or that of a copy.

        `more` has new limits, such as `max_usd`. With more `iterations`, a research run that has
        used up its own is resumed too. `text` is a message that an act run gets first.
        """
        journal = self._hub.journal
        order = recorded_order(journal, run_id)
        if order is None:
            return self._resume_by_kind(journal.run(run_id), is_plain=not (more or text.strip()))
        if more:
            order = with_new_limits(order, more)
        text = text.strip()
        if text and not isinstance(order, ActOrder):
            raise ConfigError(f"a run of moothall {order.command} takes no message")
        if isinstance(order, SimulateOrder):
            self._resume_town(order, run_id)
            return run_id
        refusal = resume_refusal(journal, run_id, allow_ended="iterations" in more)
        if refusal is not None:
            raise StateError(refusal.text)
        journal.held_runs.requests.keep_going(run_id)
        try:
            return self.start(order, run_id=run_id, text=text)
        except RunMismatch as error:
            next_id = run_for_change(error, journal, run_id, order)[0]
            self._messages[next_id] = self._messages.pop(run_id, [])
            return self.start(order, run_id=next_id)

    def _resume_by_kind(self, run: Outline, *, is_plain: bool) -> str:
        """Resume a run by what the package states that writes runs of its kind."""
        journal, run_id = self._hub.journal, run.id
        resume = resume_of(run)
        if resume is None:
            raise StateError(
                f"run {run_id!r} was begun by a program of yours: resume it there by "
                f"run_id={run_id!r}; or `moothall resume {run_id} --agent MODULE:AGENT`"
            )
        if not is_plain:
            raise ConfigError(f"a run of {run.kind} takes no limits and no message")
        if (refusal := resume_refusal(journal, run_id)) is not None:
            raise StateError(refusal.text)
        if run.under_way and run_id not in self._jobs:
            raise StateError(f"run {run_id!r} is under way elsewhere")
        journal.held_runs.requests.keep_going(run_id)
        return self.run(run_id, partial(resume, journal, run_id), run.kind)

    async def at_look(self) -> None:
        """Resume the runs that have waited in the journal, once that is there what they wait for.

        One that cannot be resumed is tried again after a minute.
        """
        with suppress(MoothallError):  # a page gets the error when it loads the list
            await asyncio.to_thread(self._go_on)

    def _go_on(self) -> None:
        self._forget_ended()
        journal = self._hub.journal
        for run_id in journal.waits.run_ids():
            job = self._jobs.get(run_id)
            if (job is not None and not job.is_waiting) or not self._retries.is_due(run_id):
                continue
            # Before the try: one that raises must not be tried at each look.
            self._retries.note(run_id)
            run = journal.run(run_id)
            if run.state not in Outline.parked or run.held:
                continue
            try:
                if recorded_order(journal, run_id) is None and not has_resume(run):
                    continue
                self.resume(run_id)
                self._retries.forget(run_id)
            except MoothallError as error:
                logger.error("run %r cannot go on: %s", run_id, error)

    def _forget_ended(self) -> None:
        """Forget the runs that waited, and that another process ended or deleted."""
        for job in [each for each in list(self._jobs.values()) if each.is_waiting]:
            state = "cancelled"
            with suppress(NoSuchRun):
                run = self._hub.journal.run(job.run_id)
                if run.held or run.state in Outline.parked:
                    continue
                state = run.state
            with self._start_lock:
                if self._jobs.get(job.run_id) is job:  # it has not been resumed meanwhile
                    self._publish_end(job, state, "")

    def stop(self, run_id: str) -> None:
        """Cancel a run, no matter who began or works on it; `resume`, or its program, continues it.

        Raise StateError if it has ended.
        """
        if run_id not in self._jobs and cancel_run(run_id, self._hub.journal):
            return
        with self._start_lock:  # what goes on just now is under way, or waits
            job = self._jobs.get(run_id)
            if job is not None and not job.is_waiting:
                self._cancel_task(job)
                return
            if job is not None:
                self._cancel(run_id)
                self._publish_end(job, "cancelled", "")
            else:
                self._hub.journal.waits.cancel(run_id, "it was stopped")
        self._refresh_waits()

    def pause(self, run_id: str) -> None:
        """Pause a run before its next step, no matter who works on it: it waits in its journal."""
        self._hub.journal.pause(run_id)
        self._show_hold(run_id, "paused")

    def unpause(self, run_id: str) -> None:
        """Continue a paused run."""
        self._hub.journal.go_on(run_id)
        self._show_hold(run_id, "running")

    def steer(self, run_id: str, text: str) -> None:
        """Send a run a message: its agent stops what it is doing and continues with the message.

        A paused run gets the message when it continues; `told` returns it until then.
        """
        if not text.strip():
            raise ConfigError("write what the agent is to be told")
        if (job := self._jobs.get(run_id)) is None:
            self._hub.journal.tell(run_id, text.strip())
            self._refresh_waits()
            return
        if not isinstance(job.order, ActOrder):
            raise ConfigError(f"a run of {job.command} takes no message")
        job.messages.append(text.strip())
        self._send_messages(job)

    def messages_for(self, run_id: str) -> list[str]:
        """Return the messages that a run gets when it continues."""
        return [*self._messages.get(run_id, ())]

    def running(self) -> list[dict[str, Any]]:
        """Return the runs under way here, oldest first; `state` is running, paused or stopping."""
        return [job.to_json() for job in list(self._jobs.values())]

    def state(self, run_id: str) -> str | None:
        """Return the state of a run that is under way here; None for any other run."""
        job = self._jobs.get(run_id)
        return None if job is None else job.state

    def close(self) -> None:
        """Cancel all runs, and wait until they have ended; they can be resumed later."""
        jobs = [job for job in self._jobs.values() if not job.is_waiting]
        # All, and then each is waited for: they end side by side.
        for job in jobs:
            self._cancel_task(job)
        for job in jobs:
            job.thread.join(CLOSE_S)

    def _show_hold(self, run_id: str, state: str) -> None:
        """Show pages that a run is paused, or goes on."""
        job = self._jobs.get(run_id)
        if job is not None and job.state != "stopping":
            job.state = state
            self._send_messages(job)
        self._refresh_waits()

    def _cancel_task(self, job: _BackgroundJob) -> None:
        """Cancel a job that works, once, in any thread."""
        if job.state != "stopping":
            job.state = "stopping"
            self._send_messages(job)
            with suppress(RuntimeError):  # the run has just ended
                job.loop.call_soon_threadsafe(job.task.cancel)

    def _send_messages(self, job: _BackgroundJob) -> None:
        """Give the agent its messages if the run is not paused, and publish the run's state."""
        if job.state == "running" and job.messages and not job.is_waiting:
            job.agent.interrupt("\n\n".join(job.messages))
            job.messages.clear()
        if job.run_id in self._jobs:
            self._hub.feed.publish("job", job.to_json())

    def _run(self, job: _BackgroundJob, start_future: Future[None]) -> None:
        if job.order is not None:
            job.agent = agent_for(job.run_id, job.order, self._hub.journal, self._hub.cards)
            check_program(self._hub.journal, job.run_id, job.agent)
            self._hub.partial_answers.watch(job.agent, drafts=isinstance(job.order, ResearchOrder))
            job.work = partial(job.agent.reply, job.order.task, run_id=job.run_id)
        asyncio.run(self._execute(job, start_future))

    async def _execute(self, job: _BackgroundJob, start_future: Future[None]) -> None:
        run_id = job.run_id
        if job.order is not None:
            await record_order(job.order, self._hub.journal, run_id, job.agent)
        job.loop, job.thread = asyncio.get_running_loop(), threading.current_thread()
        assert job.work is not None
        work = job.work()
        if not asyncio.iscoroutine(work):
            raise ConfigError(
                f"work must return a coroutine, as a call of an async function, got {work!r:.80}"
            )
        job.task = asyncio.create_task(work)
        self._jobs[run_id] = job
        self._send_messages(job)
        # Only now: who has started it may stop or steer it at once.
        start_future.set_result(None)
        reason, text = await self._outcome_of(job)
        if reason == "waiting" and job.order is not None:
            self._set_waiting(job)
            return
        if reason == "cancelled":  # while some of its calls waited
            with suppress(RunHeld):
                self._cancel(run_id)
        self._publish_end(job, reason, text)

    async def _outcome_of(self, job: _BackgroundJob) -> tuple[str, str]:
        """Return why a job's work has ended, once it has, and the detail; write its report."""
        order, reply, reason, text = job.order, None, "cancelled", ""
        try:
            # The reply's task was cancelled, and not this one: it still writes the report.
            with suppress(asyncio.CancelledError):
                reply = await job.task
                reason, text = ("done", "") if order is None else (reply.stop_reason, reply.detail)
            if isinstance(order, ResearchOrder):  # as the command does
                write_report(reply.value if reply else job.agent.report_so_far(), order)
        except Stop as stop:
            return stop.reason, stop.detail
        except Exception as error:
            logger.error("run %r failed", job.run_id, exc_info=error)
            return "error", str(error) or type(error).__name__
        return reason, text

    def _set_waiting(self, job: _BackgroundJob) -> None:
        """Have a job wait in the journal, without loop and thread."""
        job.is_waiting = True
        is_paused = bool(self._hub.journal.waiting(job.run_id, kind="paused"))
        job.state = "paused" if is_paused else "running"
        job.messages[:0] = job.agent.all_threads.default.take_texts()  # what it has not heard
        job.agent = job.loop = job.task = job.thread = None
        self._send_messages(job)
        self._refresh_waits()

    def _cancel(self, run_id: str) -> None:
        """Have nobody asked what a run waits for until it is resumed."""
        with suppress(NoSuchRun, StateError):  # deleted, or another process went on with it
            self._hub.journal.waits.cancel(run_id, "it was stopped")

    def _refresh_waits(self) -> None:
        with suppress(MoothallError):  # its cards come and go at the next look
            self._hub.refresh_waits()

    def _publish_end(self, job: _BackgroundJob, reason: str, text: str) -> None:
        del self._jobs[job.run_id]
        data = {**job.to_json(), "state": "ended", "reason": reason, "text": text}
        self._hub.feed.publish("job", data)


class TabHub(ServedHub):
    """What our tabs are made with: the base of `Studio`, with its person and background runs."""

    jobs: Jobs
    user: You
