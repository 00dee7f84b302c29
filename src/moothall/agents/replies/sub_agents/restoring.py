"""What a resumed run knows of the agents that it has asked: what these have spent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from moothall.actions import Action
from moothall.agents.replies.charging import ReplayOffsets, budget_in_call, charge_spent
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.sub_agents.background import Workers
from moothall.agents.replies.sub_agents.beside import (
    may_be_woken,
    reply_to_results,
    with_passing_thread,
    worker_id,
)
from moothall.foundation.errors import NoSuchRun, RunHeld
from moothall.foundation.text import log_failure
from moothall.journal.stop_reason import FINAL_REASONS

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply import Reply
    from moothall.budget import Budget
    from moothall.journal import Outline
    from moothall.journal.store.wait_rows import WorkerRow

logger: logging.Logger = logging.getLogger("moothall.agents")
_RESTORED = ReplayOffsets()  # of budgets: the runs of asked agents that they know to their end


async def restore_asked(
    record: Record[Any], asker: Any, budget: Budget | None, find: Callable[[str], Action | None]
) -> None:
    """Charge a budget for the agents that calls of a resumed run have asked.

    Also for those that go on: before one of them spends more, the budget knows of all.
    """
    for name, data in record.members.items():
        past_step = record.find(name.partition("/")[0])
        action = None if past_step is None else find(str(past_step.about.get("action")))
        agent = None if action is None else action.origin.agent
        part = record.member(name, data["agent"])
        start = (
            next((each.data for each in part.past_entries if each.kind == "begun"), None)
            if part
            else None
        )
        if agent is None or part is None or start is None or str(agent.id) != data["agent"]:
            continue
        with nullcontext() if data.get("kept") else with_passing_thread(agent, start["thread"]):
            await agent.restore_part(part, budget_in_call(agent, budget))
    for past_step in () if budget is None else record.past():
        run_id, action = past_step.about.get("asks"), find(str(past_step.about.get("action")))
        agent = None if action is None else action.origin.agent
        if action is None or agent is None or budget is None:
            continue
        if action.origin.in_background:
            id = worker_id(record.run_id, past_step.key)
            await restore_run(agent, asker.journal, id, budget_in_call(agent, budget))
        elif run_id is not None:
            await restore_run(agent, agent.journal, run_id, budget_in_call(agent, budget))
        elif f"{past_step.key}/{agent.id}" not in record.members:
            key = past_step.key
            entries = [
                e for e in record.entries() if e.data.get("key") == key and e.kind != "started"
            ]
            for single_budget in budgets_new_to_call(agent, budget, record, key):
                charge_spent(single_budget, None, entries)


def budgets_new_to_call(agent: Any, budget: Budget, record: Record[Any], key: str) -> list[Budget]:
    """Return the budgets below a caller's that an agent without a record spends from in a call.

    Each is of one account, and is returned once: from then on the account has what the call takes.
    """
    agent_budget: Budget | None = getattr(agent, "budget", None)
    if agent_budget is None or agent_budget is budget or not agent_budget.is_part_of(budget):
        return []
    keys = [f"{each}\n{key}" for each in (record.key, *(each["key"] for each in record.copied))]
    new_budgets = list[Any]()
    for account, single_budget in agent_budget.single_account_budgets():
        if not any(map(account.is_same, budget.accounts)):
            if not any(_RESTORED.get(account, each) for each in keys):
                new_budgets.append(single_budget)
            _RESTORED.set(account, keys[0], 1)
    return new_budgets


async def restore_run(agent: Any, journal: Any, run_id: str, budget: Budget | None) -> None:
    """Charge a budget for a run of its own that an agent was asked in."""
    if budget is None or all(_RESTORED.get(each, run_id) for each in budget.accounts):
        return
    if journal is None:  # it had one when it was asked
        return
    try:
        has_ended = journal.run(run_id).state in FINAL_REASONS
        part = await journal.begin(run_id, "", "", "")
    except (NoSuchRun, RunHeld):  # another process works on it
        return
    try:
        if part.past_entries:
            await agent.restore_part(part, budget)
    finally:
        part.close()
    for account in budget.accounts if has_ended else ():
        _RESTORED.set(account, run_id, 1)


class _Asking:
    """The request of a run that is over, for all that still works for it; whoever works keeps it.

    Before one of them spends more, its budget knows what the run has spent.
    """

    def __init__(self, asker: Any, run: Outline, deps: Any, budget: Budget | None) -> None:
        self.request = ReplyRequest("", None, run.thread, run.id, deps, budget)
        charging = restore_run(asker, asker.journal, run.id, budget)
        self.charging: asyncio.Task[None] = asyncio.ensure_future(charging)


class ResumedWorkers:
    """What goes on in the background for runs of an agent that are over, or wait."""

    def __init__(self, asker: Any) -> None:
        self._asker = asker
        self._asking_by_run: WeakValueDictionary[str, _Asking] = WeakValueDictionary()

    async def go_on(self, row: WorkerRow, run: Outline, options: Mapping[str, Any]) -> Reply:
        """Go on with work in the background for a run, with the options of that."""
        asker = self._asker
        actions = (each for each in asker.actions.get_actions() if isinstance(each, Action))
        action = next((each for each in actions if each.name == row.action), None)
        asking = await self._asking(run, options["deps"], options["budget"])
        request, workers = asking.request, self.workers_in(run.thread)
        return await workers.start(row, action, request, request.budget, None)

    def workers_in(self, thread: str | None) -> Workers:
        """Return what works for a conversation."""
        state = self._asker.all_threads.get(thread)
        state.workers = state.workers or Workers(self._asker, state)
        workers: Workers = state.workers
        return workers

    async def _asking(self, run: Outline, deps: Any, budget: Budget | None) -> _Asking:
        """Return who asks in the place of a run, whose budget knows what that has spent."""
        if (asking := self._asking_by_run.get(run.id)) is None:
            asking = self._asking_by_run[run.id] = _Asking(self._asker, run, deps, budget)
        await asyncio.shield(asking.charging)
        return asking

    async def begin_woken(
        self, resumed: Callable[..., Any], choices: Mapping[str, Any]
    ) -> list[asyncio.Task[Any]]:
        """Begin to reply to what has come for runs that are over: once for each conversation."""
        asker, tasks = self._asker, dict[str | None, asyncio.Task[Any]]()
        if asker.journal is None:
            return []
        is_wanted = choices.get("is_wanted")
        for row in await asyncio.to_thread(asker.journal.waits.workers, str(asker.id)):
            if row.end_time is None or not may_be_woken(asker, row.asker):
                continue
            run = asker.journal.run(row.asker)
            if not (self.workers_in(run.thread).wakes(run.id) or run.thread in tasks) and (
                is_wanted is None or is_wanted(run)
            ):
                tasks[run.thread] = asyncio.create_task(self._wake(run, resumed, choices))
        return [*tasks.values()]

    async def _wake(
        self, run: Outline, resumed: Callable[..., Any], choices: Mapping[str, Any]
    ) -> Any:
        deps, budget = choices.get("deps"), choices.get("budget")
        asking = await self._asking(run, deps and deps(run), budget and budget(run))
        try:
            if (reply := await reply_to_results(self._asker, asking.request, run.thread)) is None:
                return None
            result = resumed(self._asker.journal.run(reply.run_id), "resumed", reply)
        except RunHeld:
            return None
        except Exception as error:
            log_failure(logger, f"agent {self._asker.id!r} was not woken for {run.id!r}", error)
            result = resumed(run, "failed", error=error)
        if (at_end := choices.get("at_end")) is not None:
            await at_end(result)
        return result
