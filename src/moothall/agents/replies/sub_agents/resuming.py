"""Who resumes whom: an agent resumes its own runs, and those that its actions have asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from weakref import WeakValueDictionary

from moothall.actions import Action
from moothall.agents.replies.reply_context import ask_context
from moothall.agents.replies.reply_request import AnswerSchema, ReplyRequest
from moothall.agents.replies.sub_agents.background import Workers
from moothall.agents.replies.sub_agents.beside import may_be_woken
from moothall.agents.replies.sub_agents.late_replies import LateReplies, sender_of_run
from moothall.agents.replies.sub_agents.restoring import restore_run
from moothall.agents.replies.sub_agents.resumable import (
    ResumableRuns,
    ResumedRun,
    Retries,
    agents_away,
    agents_that_resume,
    runs_that_go_on,
    until_up,
)
from moothall.foundation.arguments import check_function, check_integer
from moothall.foundation.errors import (
    DefinitionError,
    NoSuchRun,
    RequestCancelled,
    RunHeld,
    RunMismatch,
)
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
    from moothall.journal.store.wait_rows import WorkerRow

logger: logging.Logger = logging.getLogger("moothall.agents")
AtEnd: TypeAlias = Callable[[ResumedRun], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ResumeChoices:
    """Which runs are resumed, and with what: as `resume_runs` takes it.

    `at_end` is awaited as each run has ended: others may take hours more.
    """

    deps: Callable[[Outline], Any] | None = None
    budget: Callable[[Outline], Budget | None] | None = None
    is_wanted: Callable[[Outline], bool] | None = None
    schemas: Sequence[Any] = ()
    concurrency: int = 16
    at_end: AtEnd | None = None

    @classmethod
    def checked(
        cls, agent: Any, method: str, deps: Any, budget: Any, which: Any, schema: Any, most: int
    ) -> Self:
        """Return what an agent's method is given; a DefinitionError if it is not valid."""
        if not agents_that_resume(agent):
            raise DefinitionError(f"agent {agent.id!r} has no journal=, so no run can be resumed")
        check_integer(f"agent {agent.id!r}: {method}: concurrency=", most)
        check_integer(f"agent {agent.id!r}: deaths", agent.deaths, optional=True)
        for name, fn in (("deps", deps), ("budget", budget), ("which", which)):
            check_function(f"agent {agent.id!r}: {method}: {name}=", fn, "run", optional=True)
        schemas = schema if isinstance(schema, list | tuple) else [schema]
        schemas = [each for each in schemas if each is not None]
        for each in schemas:
            AnswerSchema(each)  # raises if it is none
        return cls(deps, budget, which, schemas, most)

    def wants(self, run: Outline) -> bool:
        """Return whether a run is to be resumed."""
        return self.is_wanted is None or self.is_wanted(run)

    def resources(self, run: Outline) -> tuple[Any, Budget | None]:
        """Return the `deps` and the budget of a run's reply."""
        return self.deps and self.deps(run), self.budget and self.budget(run)

    def reply_options(self, run: Outline, request: RunRequest) -> dict[str, Any]:
        """Return the options with which a run is asked for again."""
        # A record has a schema as JSON: the value's form is that of its types which has this one.
        forms = self.schemas if request.schema else ()
        schema = next((e for e in forms if as_json(AnswerSchema(e).json) == request.schema), None)
        deps, budget = self.resources(run)
        schema = request.schema if schema is None else schema
        return {"deps": deps, "budget": budget, "schema": schema, "thread": request.thread}

    async def tell(self, resumed: ResumedRun) -> None:
        """Tell who wants to know what became of a run."""
        if self.at_end is not None:
            await self.at_end(resumed)


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
    resumable: ResumableRuns, choices: ResumeChoices, *, cut_off: bool
) -> list[asyncio.Task[ResumedRun | None]]:
    """Resume the runs that are wanted and that no other call resumes, each in a task."""
    chosen = [
        (agent.resuming, run)
        for agent, runs in resumable
        for run in runs
        if run.id not in agent.resuming.tasks and choices.wants(run)
    ]
    are_late = not cut_off  # the sender of a message that was cut off has had an error
    return [
        each.begin(run, choices, is_late=are_late or run.state in PARKED_STATES)
        for each, run in chosen
    ]


class _Asking:
    """The request of a run that is over, for all that still works for it; whoever works keeps it.

    Before one of them spends more, its budget knows what the run has spent.
    """

    def __init__(self, asker: Any, run: Outline, deps: Any, budget: Budget | None) -> None:
        self.request = ReplyRequest("", None, run.thread, run.id, deps, budget)
        view = RunView(asker.journal, run)
        self.request.sender = sender_of_run(view.sender_fields, view.begun_with("background"))
        charging = restore_run(asker, asker.journal, run.id, budget)
        self.charging: asyncio.Task[None] = asyncio.ensure_future(charging)


class ResumedWorkers:
    """What goes on in the background for runs of an agent that are over, or wait."""

    def __init__(self, asker: Any) -> None:
        self._asker = asker
        self._asking_by_run: WeakValueDictionary[str, _Asking] = WeakValueDictionary()

    async def go_on(self, row: WorkerRow, choices: ResumeChoices) -> Reply:
        """Go on with work in the background for a run, with what that has."""
        asker, run = self._asker, self._asker.journal.run(row.asker)
        actions = (each for each in asker.actions.get_actions() if isinstance(each, Action))
        action = next((each for each in actions if each.name == row.action), None)
        asking = await self._asking(run, choices)
        request, workers = asking.request, self.workers_in(run.thread)
        return await workers.start(row, action, request, request.budget, None)

    def workers_in(self, thread: str | None) -> Workers:
        """Return what works for a conversation."""
        state = self._asker.all_threads.get(thread)
        state.workers = state.workers or Workers(self._asker, state)
        workers: Workers = state.workers
        return workers

    async def _asking(self, run: Outline, choices: ResumeChoices) -> _Asking:
        """Return who asks in the place of a run, whose budget knows what that has spent."""
        if (asking := self._asking_by_run.get(run.id)) is None:
            asking = self._asking_by_run[run.id] = _Asking(
                self._asker, run, *choices.resources(run)
            )
        await asyncio.shield(asking.charging)
        return asking

    async def begin_woken(self, choices: ResumeChoices) -> list[asyncio.Task[ResumedRun | None]]:
        """Begin to reply to what has come for runs that are over: once for each conversation."""
        asker, tasks = self._asker, dict[str | None, asyncio.Task[Any]]()
        if asker.journal is None:
            return []
        for row in await asyncio.to_thread(asker.journal.waits.workers, str(asker.id)):
            if row.end_time is None or not may_be_woken(asker, row.asker):
                continue
            run = asker.journal.run(row.asker)
            is_waking = self.workers_in(run.thread).waking is not None
            if not is_waking and run.thread not in tasks and choices.wants(run):
                tasks[run.thread] = asyncio.create_task(self._wake(run, choices))
        return [*tasks.values()]

    async def _wake(self, run: Outline, choices: ResumeChoices) -> ResumedRun | None:
        asking = await self._asking(run, choices)
        try:
            if not (replies := await self.workers_in(run.thread).wake(asking.request)):
                return None
            reply = replies[-1]
            result = ResumedRun(self._asker.journal.run(reply.run_id), "resumed", reply)
        except Exception as error:
            log_failure(logger, f"agent {self._asker.id!r} was not woken for {run.id!r}", error)
            result = ResumedRun(run, "failed", error=error)
        await choices.tell(result)
        return result


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

    async def resume_stopped(self, choices: ResumeChoices) -> list[ResumedRun]:
        """Resume the runs of the agent that stopped, then those that it has asked for."""
        await until_up(self._agent, partial(self._note_away, choices))
        results = []
        for are_own in (True, False):  # its own runs go on with those that they have asked for
            results += await results_of(await self.begin_stopped(choices, are_own=are_own))
        results += await results_of(await self.workers.begin_woken(choices))
        await self._send_late_replies()
        return results

    def _note_away(self, choices: ResumeChoices, names: Sequence[str]) -> None:
        """Have the journal say of the runs to resume for which agents they wait."""
        for agent, runs in runs_that_go_on(self._agent, cut_off=True):
            for run in runs:
                if choices.wants(run):
                    agent.journal.waits.note_away(run.id, names)

    async def begin_stopped(
        self, choices: ResumeChoices, *, are_own: bool
    ) -> list[asyncio.Task[ResumedRun | None]]:
        """Begin to resume what stopped: its own runs, or those that it has asked for; by task."""
        resumable = await asyncio.to_thread(runs_that_go_on, self._agent, cut_off=True)
        chosen = [each for each in resumable if (each[0] is self._agent) is are_own]
        return _begin(chosen, choices, cut_off=True)

    async def begin_decided(self, choices: ResumeChoices) -> list[asyncio.Task[ResumedRun | None]]:
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
        woken = await self.workers.begin_woken(choices)
        return [*_begin(resumable, choices, cut_off=False), *woken]

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
        self, run: Outline, choices: ResumeChoices, *, is_late: bool
    ) -> asyncio.Task[ResumedRun | None]:
        """Resume a run in a task, after those of its thread that were begun before.

        `is_late`: its reply goes to the sender of the message that asked for it.
        """
        if not self.tasks:  # the calls that resume runs meanwhile share the room
            self._slots = asyncio.Semaphore(choices.concurrency)
        previous_task = self._last_tasks.get(run.thread)
        task = asyncio.create_task(self._resume(run, previous_task, choices, is_late))
        self.tasks[run.id] = self._last_tasks[run.thread] = task
        task.add_done_callback(partial(self._end, run))
        return task

    def _end(self, run: Outline, task: asyncio.Task[Any]) -> None:
        del self.tasks[run.id]
        if self._last_tasks.get(run.thread) is task:  # a later one that is cancelled ends first
            del self._last_tasks[run.thread]

    async def _resume(
        self, run: Outline, previous_task: Any, choices: ResumeChoices, is_late: bool
    ) -> ResumedRun | None:
        journal = self._agent.journal
        if previous_task is not None:
            await asyncio.wait((previous_task,))
        async with self._slots:
            if self._agent.is_ending:
                return None
            task = asyncio.create_task(_resume_run(self._agent, run, choices))
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
                await choices.tell(result)
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


async def _resume_run(agent: Any, run: Outline, choices: ResumeChoices) -> ResumedRun | None:
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
            reply = await agent.resuming.workers.go_on(worker, choices)
        else:
            options = choices.reply_options(run, request)
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
