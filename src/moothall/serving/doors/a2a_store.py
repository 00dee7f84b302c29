"""Finds A2A tasks: those of this process, and the runs in the agents' journals."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from moothall import Agent, BudgetExceeded, JournalError, NoSuchRun, StateError
from moothall.agents import resumption
from moothall.build import log_failure
from moothall.journal import Journal, Outline, Waits
from moothall.serving.a2a.wire import (
    ANY_STATE,
    CANCELED,
    ENDED_STATES,
    SUBMITTED,
    WORKING,
    A2AFault,
    content_of,
    seconds_of,
)
from moothall.serving.doors.a2a_records import (
    SHARED_CONTEXT,
    context_of,
    is_task,
    is_task_of,
    journal_of,
    page_position,
    page_token,
    recorded_task,
    resumable_task,
    state_of,
    task_id_of_message,
)
from moothall.serving.doors.a2a_tasks import (
    Content,
    Task,
    read_answer,
    unexpected_message_fault,
)
from moothall.serving.doors.asks import RESTING, asks_of, waiting_text
from moothall.serving.doors.callers import LOCAL, TOKEN
from moothall.serving.doors.checks import in_thread
from moothall.serving.doors.served_agents import Served

logger: logging.Logger = logging.getLogger("moothall.serving.doors")

_CANCEL_WAIT_S: Final = 10.0
"""How long another process may take to cancel a task."""
_RETRY_S: Final = 60.0
_MAX_LIVE, _MAX_OF_CALLER, _MAX_ENDED = 1000, 100, 1000
_MAX_WAITING: Final = 1000
"""How many tasks of a caller and an agent may wait in the journal."""


class TaskStore:
    """The tasks of all callers.

    Args:
        served: the agents
        has_token: whether callers send a token
    """

    def __init__(self, served: Served, has_token: bool) -> None:
        self._served = served
        self._has_token = has_token
        self._tasks: dict[str, Task] = {}
        self._retry_times: dict[str, float] = {}  # when tasks of another program are tried again
        self._resumed_agents: dict[
            str, Agent
        ] = {}  # the agents whose tasks that were cut off go on

    # -- beginning and ending ----------------------------------------------------------------------

    async def start(self, agent: str, sender: str, message: dict[str, Any]) -> Task | Outline:
        """Begin a task of a caller; return the first one of a message that is sent again.

        Raises:
            A2AFault: the caller, or all callers together, have too many
            BudgetExceeded: the caller has spent its budget
            TooOften: the server is busy
        """
        content, id = content_of(message["parts"]), task_id_of_message(message, agent, sender)
        with suppress(A2AFault):
            return await self.find_live(agent, sender, id) or await self.outline(agent, sender, id)
        self._served.check(self._caller_of(sender))
        journal = journal_of(self._served.agents[agent])
        if journal is not None:
            waiting_count = await in_thread(journal.waits.runs_below, agent, sender)
            if waiting_count >= _MAX_WAITING:
                text = f"{_MAX_WAITING} tasks wait for an answer: answer one first"
                raise A2AFault("INTERNAL_ERROR", text)
        live_tasks = [each for each in self._tasks.values() if each.state not in ENDED_STATES]
        own_count = sum(each.sender == sender for each in live_tasks)
        if len(live_tasks) >= _MAX_LIVE or own_count >= _MAX_OF_CALLER:
            raise A2AFault(
                "INTERNAL_ERROR", "too many tasks are under way: wait until one has ended"
            )
        is_shared = bool(getattr(self._served.agents[agent], "shared", False))
        context = message.get("contextId") or ""
        if is_shared and context not in ("", SHARED_CONTEXT):
            reason = "this agent has one conversation with all callers: leave contextId out"
            raise A2AFault("INVALID_PARAMS", reason)
        context = SHARED_CONTEXT if is_shared else context or secrets.token_hex(16)
        task = self._tasks.get(id)
        return task or self._start_task((id, agent, sender, context, content), is_new=True)

    def _start_task(
        self, parts: tuple[str, str, str, str, Content], is_new: bool = False, **fields: Any
    ) -> Task:
        (id, agent, sender, context, _), on_end = parts, self._served.count_reply(is_new=is_new)
        say = self._served.agents[agent].offers["say"]
        has_threads = context != SHARED_CONTEXT and "thread" in say.parameters.get("properties", {})
        state = SUBMITTED if is_new else WORKING
        task_args = (*parts, has_threads, self._caller_of(sender), state)
        task = self._tasks[id] = Task(*task_args, **fields)
        task.work = asyncio.create_task(task.run(self._served) if is_new else self._go_on(task))
        task.work.add_done_callback(lambda work: self._on_work_end(task))
        task.work.add_done_callback(on_end)
        ended_tasks = [each for each in self._tasks.values() if each.state in ENDED_STATES]
        for each in ended_tasks[: max(0, len(ended_tasks) - _MAX_ENDED)]:
            del self._tasks[each.id]
        return task

    async def _go_on(self, task: Task) -> None:
        """Go on with a task of the journal, unless its process has ended each time."""
        agent: Any = self._served.agents[task.agent]
        journal = journal_of(agent)
        assert journal is not None
        run_id = await in_thread(journal.waits.goes_on_as, task.id)
        async with resumption(journal, run_id, agent.deaths) as may_begin:
            if may_begin:
                await task.run(self._served)

    def _caller_of(self, sender: str) -> str:
        """Return the caller of a sender: the name of its token."""
        if not self._has_token:
            return LOCAL
        return sender.removeprefix("a2a").removeprefix("-") or TOKEN

    def _on_work_end(self, task: Task) -> None:
        """End a task's readers, and drop it if its run rests: the journal has its state then."""
        task.end_subscriptions()
        if self._tasks.get(task.id) is not task:
            return  # it has gone on already
        if task.state not in ENDED_STATES:
            del self._tasks[task.id]
        if task.has_other_program:
            self._retry_times[task.id] = time.monotonic() + _RETRY_S

    async def resume(self) -> None:
        """Go on with tasks that have waited and can; of an agent that has entered, the cut-off."""
        for id, agent in self._served.offered.items():
            if (journal := journal_of(agent)) is None:
                continue
            try:
                run_ids = await in_thread(journal.waits.run_ids, id)
                if self._resumed_agents.get(id) is not agent:
                    find_runs = partial(journal.runs, agent=id, state=Outline.cut_off)
                    run_ids += [run.id for run in await in_thread(find_runs)]
                are_settled = [
                    await self._resume_task(id, journal, each) for each in run_ids if is_task(each)
                ]
            except JournalError as error:
                log_failure(logger, f"agent {id!r}: its tasks do not go on", error)
            else:
                if all(are_settled):
                    self._resumed_agents[id] = agent

    async def _resume_task(self, agent: str, journal: Journal, run_id: str) -> bool:
        """Go on with a task of the journal; return False if it must be tried again."""
        task_args = None
        task_id = Waits.began_as(run_id)
        is_due = self._retry_times.get(task_id, 0.0) <= time.monotonic() or await in_thread(
            journal.waits.may_fork, run_id
        )
        if task_id not in self._tasks and is_due:
            with journal.file.skipping_damaged(run_id):
                task_args = await in_thread(resumable_task, agent, journal, run_id)
        if task_args is None or task_id in self._tasks:
            return True
        if self._served.is_full or not self._can_pay(task_args[2]):
            return False
        self._start_task(task_args)
        return True

    def _can_pay(self, sender: str) -> bool:
        """Return whether a task would not fail at once since its caller's budget is spent."""
        try:
            self._served.check(self._caller_of(sender))
        except (BudgetExceeded, JournalError):
            return False
        except Exception:  # of the program's function: the task ends with it
            return True
        return True

    async def close(self, drain_s: float = 0.0) -> None:
        """Cancel the tasks that do not end in time; the next process resumes what a journal has."""
        if works := [each.work for each in self._tasks.values() if each.work is not None]:
            await asyncio.wait(works, timeout=drain_s)
        live_tasks = [each for each in self._tasks.values() if each.work and not each.work.done()]
        for task in live_tasks:
            journal = journal_of(self._served.agents[task.agent])
            if journal is not None:
                task.is_handed_over = True
                journal.leave_runs(task.id)
        works = [each.work for each in live_tasks if each.work is not None]
        for each in works:
            each.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    async def answer(
        self, agent: str, sender: str, id: str, message: dict[str, Any]
    ) -> Task | Outline:
        """Take the answer to a task that waits in the journal, and go on with it.

        An answer that is sent again changes nothing.

        Raises:
            A2AFault: the caller has no such task, it waits for nothing, or the message is no answer
        """
        run = await self.outline(agent, sender, id)
        journal = journal_of(self._served.agents[agent])
        assert journal is not None
        if message.get("contextId") not in (None, "", context_of(run, sender)):
            raise A2AFault("INVALID_PARAMS", "the task belongs to another context")
        # Else a text that is sent again would answer the next question.
        mark = task_id_of_message(message, agent, sender)
        if await in_thread(journal.waits.marked, [id], mark):
            return run
        caller = self._caller_of(sender)
        may_permit = self._served.callers.permits(caller)
        has_waits = run.state in RESTING and not run.held
        waits = await in_thread(journal.waiting, run.id) if has_waits else []
        asks = asks_of(waits, may_permit)
        try:
            key, answer = read_answer(message["parts"], asks)
        except A2AFault as fault:
            answered_asks = asks_of(
                await in_thread(journal.waits.decided, caller, run.id), may_permit
            )
            try:
                key, answer = read_answer(message["parts"], answered_asks)
            except A2AFault:
                state = state_of(self._served.agents[agent], run)
                asks_somebody = waits and run.state == "waiting"
                raise (
                    fault if asks_somebody else unexpected_message_fault(id, state, waits)
                ) from None
        # Before it is kept: a task that fails now would go on once there is budget again.
        self._served.check(caller)
        try:
            await in_thread(journal.waits.mark, id, mark)
            await in_thread(partial(journal.answer, run.id, key, answer, by=caller))
        except StateError as error:
            raise A2AFault("UNSUPPORTED_OPERATION", str(error)) from error
        if key not in asks:
            return run
        task_args = await in_thread(resumable_task, agent, journal, run.id)
        task = await self.find_live(agent, sender, id)
        if task is None:
            if task_args is None:  # another process goes on with it
                raise A2AFault(
                    "UNSUPPORTED_OPERATION", "the answer is kept: get the task by GetTask"
                )
            task = self._start_task(task_args)
        task.add_to_history(message)
        return task

    async def cancel(self, agent: str, sender: str, id: str) -> bool:
        """Cancel a task of the journal, whoever works on it; return whether it was not over.

        Return False, too, if the process that works on it does not end it in time.

        Raises:
            A2AFault: the caller has no such task, or a person decides about a call of it
        """
        run, journal = await self.outline(agent, sender, id), journal_of(self._served.agents[agent])
        assert journal is not None
        if run.state == "in_doubt" and (waits := await in_thread(journal.waiting, run.id)):
            raise A2AFault("TASK_NOT_CANCELABLE", f"task {id} is {waiting_text(waits)}")
        if state_of(self._served.agents[agent], run) in ENDED_STATES:
            return False
        try:
            if not await in_thread(journal.waits.cancel, run.id, "the task was cancelled"):
                async with asyncio.timeout(_CANCEL_WAIT_S):
                    await self.wait_until_idle(agent, id)
        except (TimeoutError, StateError):  # it has just ended
            return False
        run = await self.outline(agent, sender, id)
        return state_of(self._served.agents[agent], run) == CANCELED

    # -- finding -----------------------------------------------------------------------------------

    async def find_live(self, agent: str, sender: str, id: str) -> Task | None:
        """Return a caller's task of this process, or None."""
        task = self._tasks.get(id)
        if task is None or task.is_at_rest or not is_task_of(id, agent, sender):
            return None
        return next(iter(await self._without_deleted(agent, [task])), None)

    async def _without_deleted(self, agent: str, tasks: list[Task]) -> list[Task]:
        """Return these tasks, but for those whose runs were deleted from the agent's journal."""
        journal = journal_of(self._served.agents[agent])
        ended_ids = [each.id for each in tasks if each.run_started and each.state in ENDED_STATES]
        if journal is None or not ended_ids:
            return tasks
        deleted_ids = {*ended_ids} - await in_thread(journal.deletions.ids_present, ended_ids)
        for each in deleted_ids:
            self._tasks.pop(each, None)
        return [each for each in tasks if each.id not in deleted_ids]

    async def get(
        self, agent: str, sender: str, id: str, limit: int | None = None
    ) -> dict[str, Any]:
        """Return a caller's task in the protocol's form.

        Raises:
            A2AFault: the caller has no such task
        """
        task = await self.find_live(agent, sender, id)
        if task is not None:
            return task.to_json(limit)
        run = await self.outline(agent, sender, id)
        task_data: dict[str, Any] = await in_thread(
            self._recorded_task_json, agent, sender, run, limit, True
        )
        return task_data

    async def outline(self, agent: str, sender: str, id: str) -> Outline:
        """Return the run of a caller's task that is not of this process, as it goes on now.

        Raises:
            A2AFault: the caller has no such task
        """
        journal = journal_of(self._served.agents[agent])
        if journal is not None and is_task_of(id, agent, sender):
            try:
                run: Outline = await in_thread(lambda: journal.run(journal.waits.goes_on_as(id)))
                if run.agent == agent:
                    return run
            except NoSuchRun:
                pass
        raise A2AFault("TASK_NOT_FOUND", "there is no such task")

    async def wait_until_idle(self, agent: str, id: str) -> None:
        """Wait until no process works on a task of the journal any more."""
        journal = journal_of(self._served.agents[agent])
        assert journal is not None
        async for _ in journal.follow(await in_thread(journal.waits.goes_on_as, id)):
            pass

    async def list_page(self, agent: str, sender: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a page of a caller's tasks; the tasks that changed last come first."""
        position = page_position(params.get("pageToken") or "")
        since = (
            seconds_of(params["statusTimestampAfter"]) if "statusTimestampAfter" in params else 0.0
        )
        status = params.get("status", ANY_STATE[0])
        own_tasks = [each for each in self._tasks.values() if is_task_of(each.id, agent, sender)]
        live_rows = [
            (each.changed_at, each.id, each.context, each.state, each)
            for each in await self._without_deleted(agent, own_tasks)
        ]
        live_ids = {each[1] for each in live_rows}
        rows = [
            *live_rows,
            *await in_thread(lambda: [*self._journal_rows(agent, sender, live_ids)]),
        ]
        ordered = sorted(
            (
                each
                for each in rows
                if params.get("contextId") in (None, "", each[2])
                and status in (*ANY_STATE, each[3])
                and each[0] >= since
            ),
            key=lambda each: (-each[0], each[1]),
        )
        page_size = params.get("pageSize", 50)
        remaining = [each for each in ordered if position is None or (-each[0], each[1]) > position]
        page, limit = remaining[:page_size], params.get("historyLength", 0)
        with_artifacts = params.get("includeArtifacts", False)
        tasks = []
        for each in page:
            if isinstance(each[4], Task):
                tasks.append(each[4].to_json(limit, with_artifacts))
            else:
                args = (agent, sender, each[4], limit, with_artifacts)
                with suppress(NoSuchRun):  # it was deleted meanwhile
                    tasks.append(await in_thread(self._recorded_task_json, *args))
        token = page_token(page[-1][0], page[-1][1]) if len(remaining) > page_size else ""
        counts = {"pageSize": len(tasks), "totalSize": len(ordered)}
        return {"tasks": tasks, "nextPageToken": token, **counts}

    def _journal_rows(
        self, agent: str, sender: str, live_ids: set[str]
    ) -> Iterator[tuple[float, str, str, str, Outline]]:
        journal = journal_of(self._served.agents[agent])
        runs = {} if journal is None else {run.id: run for run in journal.runs(agent=agent)}
        forks = {
            run.forked_from: run.id for run in runs.values() if Waits.began_as(run.id) != run.id
        }
        for run in (each for each in runs.values() if each.id not in forks):
            task_id = Waits.began_as(run.id)
            if task_id not in live_ids and is_task_of(task_id, agent, sender):
                state = state_of(self._served.agents[agent], run)
                yield run.changed, task_id, context_of(run, sender), state, run

    def _recorded_task_json(
        self, agent: str, sender: str, run: Outline, limit: int | None, with_artifacts: bool
    ) -> dict[str, Any]:
        may_permit = self._served.callers.permits(self._caller_of(sender))
        served_agent = self._served.agents[agent]
        return recorded_task(served_agent, sender, run, may_permit, limit, with_artifacts)
