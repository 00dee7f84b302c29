"""Who resumes whom: an agent resumes its own runs, and those that its actions have asked for."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.reply_context import ask_context
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.agents.replies.sub_agents.away import (
    agents_away,
    agents_that_resume,
    until_up,
    with_asked_agents,
)
from moothall.agents.replies.sub_agents.beside import workers_to_resume
from moothall.agents.replies.sub_agents.late_replies import LateReplies
from moothall.agents.replies.sub_agents.restoring import ResumedWorkers
from moothall.foundation.errors import NoSuchRun, RequestCancelled, RunHeld, RunMismatch
from moothall.foundation.jsonvalue import as_json
from moothall.foundation.text import log_failure
from moothall.foundation.threads import is_cancelled, to_its_end
from moothall.journal.entry import RunDamaged
from moothall.journal.run_view import RunRequest, RunView
from moothall.journal.stop_reason import ANSWERED_REASONS, FINAL_REASONS, PARKED_STATES

if TYPE_CHECKING:
    from moothall.agents.replies.reply import Reply
    from moothall.budget import Budget
    from moothall.journal import Outline

logger: logging.Logger = logging.getLogger("moothall.agents")
RETRY_S: Final = 60.0
"""Seconds after which a run that could not go on is tried again, by whatever resumes it."""


class Retries:
    """The runs that could not go on, and when each is tried again."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}

    def note(self, run_id: str, *, ever: bool = True) -> None:
        """Have a run tried again after a while; not `ever`: by the next process."""
        now = time.monotonic()
        self._times = {id: at for id, at in self._times.items() if at > now}
        self._times[run_id] = now + RETRY_S if ever else math.inf

    def is_due(self, run_id: str) -> bool:
        """Return whether a run may be tried now."""
        return self._times.get(run_id, 0.0) <= time.monotonic()

    def forget(self, run_id: str) -> None:
        """Let a run be tried at once."""
        self._times.pop(run_id, None)


@dataclass(frozen=True, slots=True)
class ResumedRun:
    """What became of one stopped run in `resume_runs`.

    Attributes:
        run: the run's outline, as it was before
        outcome: `resumed`, with its `reply`; `in_doubt`: a call had begun and not ended, or its
            process has ended each time, and a person must decide; `mismatch`: another program
            began it; `held`: another process works on it; `forked`: it has a
            fork; `empty`: its process ended before anything was recorded, and it is deleted;
            `away`: an agent that it may call does not come; it goes on once that is up;
            `failed`: with its `error`
        reply: the reply, or None
        error: the exception of a run that could not be resumed, or None
    """

    run: Outline
    outcome: Literal["resumed", "in_doubt", "mismatch", "held", "forked", "empty", "away", "failed"]
    reply: Reply | None = None
    error: Exception | None = None


AtEnd: TypeAlias = Callable[[ResumedRun], Awaitable[None]]
ResumableRuns: TypeAlias = list[tuple[Any, list["Outline"]]]
"""The runs that can go on, by the agent that resumes them."""
OptionsOf: TypeAlias = Callable[["Outline", "RunRequest"], dict[str, Any]]
"""Returns the options with which a run is asked for again."""


def who_resumes(agent: Any) -> list[Any]:
    """Return the agents that resume what an agent of any kind has begun.

    It is the agent itself if its replies are recorded, else those with journals that its actions
    ask. Each has `resume_runs` and `resume_decided`.
    """
    agents = agents_that_resume(agent)
    return [agent] if agents and is_recording(agent) else agents


def runs_that_go_on(agent: Any, *, cut_off: bool) -> ResumableRuns:
    """Return an agent's runs that can go on, and those of other agents that it has asked for.

    A run that waits for another one goes on in its place: it asks again. `cut_off`: also those that
    were cut off.
    """
    agents = agents_that_resume(agent)
    ids = {str(each.id) for each in with_asked_agents(agent)}
    by_agent: dict[str, tuple[Any, dict[str, Outline]]] = {
        f"{each.run_kind} {each.id}": (each, {}) for each in reversed(agents)
    }
    for each, runs in list(by_agent.values()):
        journal = each.journal
        assert journal is not None
        find = journal.runs_to_resume if cut_off else journal.due_runs
        for run in find(each.run_kind, str(each.id)):
            if journal.waits.worker(run.id) is not None:
                continue  # who asked for it in the background resumes it
            if each is agent:
                runs[run.id] = run
                continue
            with suppress(NoSuchRun):  # one that was deleted since
                top_id = journal.waits.first_asker(run.id)
                if top_id != run.id and not cut_off:
                    continue  # it is due itself
                if top_id != run.id:
                    top_run = journal.run(top_id)
                    _, top_runs = by_agent.get(f"{top_run.kind} {top_run.agent}", (None, {}))
                    top_runs.setdefault(top_id, top_run)
                elif RunView(journal, run).begun_with("asker") in ids:
                    runs[run.id] = run
    for each, runs in by_agent.values():
        runs |= {run.id: run for run in workers_to_resume(each, {*runs}, cut_off)}
    return [(each, list(runs.values())) for each, runs in by_agent.values()]


async def results_of(tasks: list[asyncio.Task[ResumedRun | None]]) -> list[ResumedRun]:
    """Return what became of runs that are resumed; if cancelled, cancel them."""
    try:
        outcomes = await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        if is_cancelled():  # `gather` has cancelled them all, and ends with the first
            await to_its_end(asyncio.wait(tasks))
        raise
    results = [each for each in outcomes if each is not None]
    if len({each.run.agent for each in results}) < 2:
        return results  # a fork has begun when its original did, and comes after it
    return sorted(results, key=lambda each: each.run.began)


def _begin(
    resumable: ResumableRuns,
    *,
    deps: Callable[[Outline], Any] | None = None,
    budget: Callable[[Outline], Budget | None] | None = None,
    schemas: Sequence[Any] = (),
    is_wanted: Callable[[Outline], bool] | None = None,
    concurrency: int = 16,
    at_end: AtEnd | None = None,
    cut_off: bool,
) -> list[asyncio.Task[ResumedRun | None]]:
    """Resume the runs that are wanted and that no other call resumes, each in a task."""
    chosen = [
        (agent.resuming, run)
        for agent, runs in resumable
        for run in runs
        if run.id not in agent.resuming.tasks and (is_wanted is None or is_wanted(run))
    ]
    options_of = partial(_reply_options, deps, budget, schemas)
    are_late = not cut_off  # the sender of a message that was cut off has had an error
    return [
        each.begin(run, options_of, concurrency, are_late or run.state in PARKED_STATES, at_end)
        for each, run in chosen
    ]


class ResumingRuns:
    """The runs of an agent that are resumed now: each once, and those of a thread one by one."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._last_tasks: dict[str | None, asyncio.Task[Any]] = {}  # by thread
        self.tasks: dict[str, asyncio.Task[ResumedRun | None]] = {}
        self.retries: Retries = Retries()
        # For those that a changed program holds up, the run whose operator decides.
        self._mismatched: dict[str, str] = {}
        self.workers: ResumedWorkers = ResumedWorkers(agent)
        self._put_off = set[str]()  # those that wait for agents, as their journal says
        self.late_replies: LateReplies = LateReplies(agent)

    def agents(self) -> list[Any]:
        """Return the agent and those that it asks, if they have journals."""
        return agents_that_resume(self._agent)

    async def resume_stopped(self, **choices: Any) -> list[ResumedRun]:
        """Resume the runs of the agent that stopped, then those that it has asked for."""
        await until_up(self._agent, partial(self._note_away, choices["is_wanted"]))
        results = []
        for are_own in (True, False):  # its own runs go on with those that they have asked for
            results += await results_of(await self.begin_stopped(are_own=are_own, **choices))
        results += await results_of(await self.workers.begin_woken(ResumedRun, choices))
        await self._send_late_replies()
        return results

    def _note_away(self, is_wanted: Callable[[Outline], bool] | None, names: Sequence[str]) -> None:
        """Have the journal say of the runs to resume for which agents they wait."""
        for agent, runs in runs_that_go_on(self._agent, cut_off=True):
            for run in runs:
                if is_wanted is None or is_wanted(run):
                    agent.journal.waits.note_away(run.id, names)

    async def begin_stopped(
        self, *, are_own: bool, **choices: Any
    ) -> list[asyncio.Task[ResumedRun | None]]:
        """Begin to resume what stopped: the agent's own runs, or those that it has asked for.

        `choices` are `deps`, `budget`, `schemas`, `is_wanted` and `concurrency`, as in `_begin`;
        `at_end` is awaited as each run has ended: others may take hours more. Return the tasks.
        """
        resumable = await asyncio.to_thread(runs_that_go_on, self._agent, cut_off=True)
        chosen = [each for each in resumable if (each[0] is self._agent) is are_own]
        return _begin(chosen, cut_off=True, **choices)

    async def begin_decided(self, **choices: Any) -> list[asyncio.Task[ResumedRun | None]]:
        """Begin to resume the runs that can go on since; return the task of each."""
        await self._send_late_replies()
        resumable = await asyncio.to_thread(runs_that_go_on, self._agent, cut_off=False)
        for agent, runs in resumable:
            await asyncio.to_thread(agent.resuming.release)
            runs[:] = [
                run
                for run in runs
                if not run.held
                and run.state in (*PARKED_STATES, "stopped")
                and agent.resuming.retries.is_due(run.id)
                and not agent.resuming.is_put_off(run.id)
            ]
        woken = await self.workers.begin_woken(ResumedRun, choices)
        return [*_begin(resumable, cut_off=False, **choices), *woken]

    def is_put_off(self, run_id: str) -> bool:
        """Return whether a run waits for agents that it may call, as its journal says."""
        return run_id in self._put_off and bool(agents_away(self._agent))

    async def put_off(self, run_id: str) -> bool:
        """Have a run wait for the agents that it may call; return False if all are up."""
        if not (names := [*agents_away(self._agent)]):
            self._put_off.discard(run_id)
            return False
        if run_id not in self._put_off:
            text = "run %r of agent %r waits for the agents %s"
            logger.warning(text, run_id, self._agent.id, ", ".join(names))
            await asyncio.to_thread(self._agent.journal.waits.note_away, run_id, names)
            self._put_off.add(run_id)
        return True

    async def _send_late_replies(self) -> None:
        for agent in self.agents():
            await agent.resuming.late_replies.send_all(agent.resuming.tasks.keys())

    def begin(
        self,
        run: Outline,
        options_of: OptionsOf,
        concurrency: int,
        is_late: bool,
        at_end: AtEnd | None,
    ) -> asyncio.Task[ResumedRun | None]:
        """Resume a run in a task, after those of its thread that were begun before.

        `is_late`: its reply goes to the sender of the message that asked for it.
        """
        if not self.tasks:  # the calls that resume runs meanwhile share the room
            self._slots = asyncio.Semaphore(concurrency)
        previous_task = self._last_tasks.get(run.thread)
        task = asyncio.create_task(self._resume(run, previous_task, options_of, is_late, at_end))
        self.tasks[run.id] = self._last_tasks[run.thread] = task
        task.add_done_callback(partial(self._end, run))
        return task

    def _end(self, run: Outline, task: asyncio.Task[Any]) -> None:
        del self.tasks[run.id]
        if self._last_tasks.get(run.thread) is task:  # a later one that is cancelled ends first
            del self._last_tasks[run.thread]

    async def _resume(
        self,
        run: Outline,
        previous_task: Any,
        options_of: OptionsOf,
        is_late: bool,
        at_end: AtEnd | None,
    ) -> ResumedRun | None:
        journal = self._agent.journal
        if previous_task is not None:
            await asyncio.wait((previous_task,))
        async with self._slots:
            if self._agent.is_ending:
                return None
            task = asyncio.create_task(_resume_run(self._agent, run, options_of))
            try:
                # Shielded: a cancellation comes here first, and the run is left before it ends.
                result = await asyncio.shield(task)
            except asyncio.CancelledError:
                if is_cancelled():
                    journal.leave_runs(run.id)  # who asked for its reply has not cancelled it
                    task.cancel()
                    await asyncio.wait((task,))
                    await to_its_end(asyncio.to_thread(journal.held_runs.wait_for_openings))
                    raise
                # By code of its own: the other runs go on.
                fault = RequestCancelled(f"run {run.id!r} was cancelled, and can be resumed")
                result = ResumedRun(run, "failed", error=fault)
            if result is not None:
                if is_late:
                    self._note_result(result)
                if at_end is not None:
                    await at_end(result)
            return result

    def release(self) -> None:
        """Let runs be tried again whose operator has decided since."""
        asks_operator = self._agent.journal.waits.asks_operator
        for run_id in [id for id, each in self._mismatched.items() if not asks_operator(each)]:
            self.retries.forget(run_id)

    def _note_result(self, result: ResumedRun) -> None:
        """Send the late reply of a run that has waited, or note when it is tried again."""
        run, reply = result.run, result.reply
        self._mismatched.pop(run.id, None)
        if isinstance(result.error, RunMismatch):
            self._mismatched[run.id] = result.error.run_id
        if result.outcome not in ("resumed", "away"):
            self.retries.note(run.id, ever=not isinstance(result.error, RunDamaged))
        elif reply is not None and reply.stop_reason in ANSWERED_REASONS:
            self.late_replies.send(reply.run_id or run.id, reply.text)


def _reply_options(
    deps: Callable[[Outline], Any] | None,
    budget: Callable[[Outline], Budget | None] | None,
    schemas: Sequence[Any],
    run: Outline,
    request: RunRequest,
) -> dict[str, Any]:
    """Return the options with which a run is asked for again."""
    # A record has a schema as JSON: the form of the value is that of its types which has this one.
    forms = schemas if request.schema else ()
    schema = next((e for e in forms if as_json(AnswerSchema(e).json) == request.schema), None)
    options = {"deps": deps and deps(run), "budget": budget and budget(run)}
    schema = request.schema if schema is None else schema
    return options | {"schema": schema, "thread": request.thread}


async def _resume_run(agent: Any, run: Outline, options_of: OptionsOf) -> ResumedRun | None:
    """Resume a run; return None if it has ended, or was deleted, since it was found."""
    journal = agent.journal
    assert journal is not None
    try:
        run_now = journal.run(run.id)
        if run_now.state in (*FINAL_REASONS, "cancelled"):
            return None
        if run_now.held:
            return ResumedRun(run, "held", error=RunHeld(run.id, "another process"))
        # One that waited has its answer: that is carried out, whatever its forks do.
        if run.state not in PARKED_STATES and journal.runs(forked_from=run.id):
            return ResumedRun(run, "forked")
        view = RunView(journal, run.id)
        worker = await asyncio.to_thread(journal.waits.worker, run.id)
        if (request := view.request) is None:
            if worker is None:
                await asyncio.to_thread(journal.delete, run.id)
                return ResumedRun(run, "empty")
            request = RunRequest(worker.text, None, worker.thread)  # it had not begun
        if view.is_in_doubt:
            return ResumedRun(run, "in_doubt")
        if await agent.resuming.put_off(run.id):
            return ResumedRun(run, "away")
        if worker is not None:
            asker = journal.run(worker.asker)
            reply = await agent.resuming.workers.go_on(worker, asker, options_of(asker, request))
        else:
            options = options_of(run, request)
            with ask_context(resumed_run=run.id):
                reply = await agent.reply(request.text, run_id=run.id, **options)
    except NoSuchRun:  # it was deleted since it was found
        return None
    except RunHeld as error:
        return ResumedRun(run, "held", error=error)
    except Exception as error:
        is_mismatch = isinstance(error, RunMismatch)
        log_failure(logger, f"agent {agent.id!r}: run {run.id!r} was not resumed", error)
        return ResumedRun(run, "mismatch" if is_mismatch else "failed", error=error)
    return ResumedRun(run, "in_doubt" if reply.stop_reason == "in_doubt" else "resumed", reply)
