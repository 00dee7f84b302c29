"""What a resumed run knows of the agents that it has asked: what these have spent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from moothall.actions import Action
from moothall.agents.replies.charging import ReplayOffsets, budget_in_call, charge_spent
from moothall.agents.replies.sub_agents.beside import with_passing_thread, worker_id
from moothall.foundation.errors import NoSuchRun, RunHeld
from moothall.journal.stop_reason import FINAL_REASONS

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.budget import Budget

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
        past_entries = () if part is None else part.past_entries
        start = next((each.data for each in past_entries if each.kind == "begun"), None)
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
    with closing(part):
        if part.past_entries:
            await agent.restore_part(part, budget)
    for account in budget.accounts if has_ended else ():
        _RESTORED.set(account, run_id, 1)
