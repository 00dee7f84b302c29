"""Who resumes whom: an agent resumes its own runs, and those that its actions have asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from moothall.actions import Action
from moothall.agents.replies.checked_parts import members_of, records
from moothall.agents.replies.resume import asked_in
from moothall.foundation.errors import RunHeld, RunMismatch
from moothall.foundation.text import log_failure
from moothall.foundation.threads import to_its_end
from moothall.journal.entry import FIRST, begin_data_of

if TYPE_CHECKING:
    from moothall.agents.replies.reply import Reply
    from moothall.budget import Budget
    from moothall.journal import Outline

logger: logging.Logger = logging.getLogger("moothall.reasoning")


@dataclass(frozen=True, slots=True)
class ResumedRun:
    """What became of one stopped run in `resume_runs`.

    Attributes:
        run: the run's outline, as it was before
        outcome: `resumed`, with its `reply`; `in_doubt`: a call had begun and not ended, and a
            person must decide; `mismatch`: another program began it; `held`: another process works
            on it; `forked`: a copy was resumed in its place; `empty`: its process ended before
            anything was recorded, and it is deleted; `failed`: with its `error`
        reply: the reply, or None
        error: the exception of a run that could not be resumed, or None
    """

    run: Outline
    outcome: Literal["resumed", "in_doubt", "mismatch", "held", "forked", "empty", "failed"]
    reply: Reply | None = None
    error: Exception | None = None


ResumableRuns: TypeAlias = list[tuple[Any, list["Outline"]]]
"""The runs that can go on, by the agent that resumes them."""


def agents_that_resume(agent: Any) -> list[Any]:
    """Return an agent and those that its members and its actions ask, if they have journals."""
    agents = [agent]
    for each in agents:
        find = getattr(getattr(each, "actions", None), "get_actions", None)
        offered = find() if callable(find) else ()
        next_agents = [each.origin.agent for each in offered if isinstance(each, Action)]
        next_agents += members_of(each)
        agents += [
            a for a in next_agents if a is not None and all(a is not other for other in agents)
        ]
    return [each for each in agents if records(each) and each.journal is not None]


def who_resumes(agent: Any) -> list[Any]:
    """Return whom to call `resume_decided` of, for an agent of any kind to go on: it, or others."""
    agents = agents_that_resume(agent)
    return [agent] if agents and records(agent) else agents


def to_go_on(agent: Any, *, cut_off: bool) -> ResumableRuns:
    """Return an agent's runs that can go on, and those of other agents that it has asked for.

    A run that waits for another one goes on in its place: it asks again. `cut_off`: also those that
    were cut off.
    """
    agents = agents_that_resume(agent)
    ids = {str(each.id) for each in (agent, *agents)}
    by_agent: dict[str, tuple[Any, dict[str, Outline]]] = {
        f"{each.run_kind} {each.id}": (each, {}) for each in reversed(agents)
    }
    for each, runs in list(by_agent.values()):
        journal = each.journal
        assert journal is not None
        find = journal.runs_to_resume if cut_off else journal.due_runs
        for run in find(each.run_kind, str(each.id)):
            if each is agent:
                runs[run.id] = run
                continue
            last = journal.waits.asking_first(run.id)
            if last != run.id and not cut_off:
                continue  # it is due itself
            if last != run.id:
                top = journal.run(last)
                _, top_runs = by_agent.get(f"{top.kind} {top.agent}", (None, {}))
                top_runs.setdefault(last, top)
            elif (begin_data_of(journal.entries(run.id, most=FIRST)) or {}).get("asker") in ids:
                runs[run.id] = run
    return [(each, list(runs.values())) for each, runs in by_agent.values()]


async def resumed(
    resumable: ResumableRuns,
    deps: Any,
    budget: Any,
    chosen: Any,
    concurrency: int,
    at_end: Callable[[Any, ResumedRun], None] | None = None,
) -> list[ResumedRun]:
    """Resume the runs that are wanted, those of different agents side by side.

    `at_end` is told of each run as it ends, with its agent: others may take hours more.
    """
    for _, runs in resumable:
        runs[:] = [run for run in runs if chosen is None or chosen(run)]
    done = await asyncio.gather(
        *(_resume_all(agent, runs, deps, budget, concurrency, at_end) for agent, runs in resumable)
    )
    results = [each for some in done for each in some]
    return results if results in done else sorted(results, key=lambda each: each.run.began)


async def _resume_all(
    agent: Any,
    runs: list[Outline],
    deps: Any,
    budget: Any,
    concurrency: int,
    at_end: Callable[[Any, ResumedRun], None] | None,
) -> list[ResumedRun]:
    """Resume runs: those of a thread one after the other, those of others side by side."""
    journal = agent.journal
    assert journal is not None
    results: dict[str, ResumedRun] = {}
    room = asyncio.Semaphore(concurrency)

    async def resume(runs: list[Outline]) -> None:
        async with room:
            for run in runs:
                if agent.is_ending:
                    return
                forked = journal.runs(forked_from=run.id, limit=1)
                resumed = None if forked else await _resume_run(agent, run, deps, budget)
                results[run.id] = result = resumed or ResumedRun(run, "forked")
                if at_end is not None:
                    at_end(agent, result)

    threads: dict[str | None, list[Outline]] = {}
    for run in runs:
        threads.setdefault(run.thread, []).append(run)
    tasks = [asyncio.create_task(resume(thread_runs)) for thread_runs in threads.values()]
    try:
        # Shielded: a cancellation comes here first, and the runs are left before their tasks end.
        await asyncio.gather(*(asyncio.shield(task) for task in tasks))
    except BaseException:
        for run in runs:  # who asked for its reply has not cancelled it
            journal.leave_runs(run.id)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await to_its_end(asyncio.to_thread(journal.held_runs.wait_for_openings))
        raise
    return [results[run.id] for run in runs if run.id in results]


async def _resume_run(
    agent: Any,
    run: Outline,
    deps: Callable[[Outline], Any] | None,
    budget: Callable[[Outline], Budget | None] | None,
) -> ResumedRun:
    assert agent.journal is not None
    try:
        arguments = asked_in(agent.journal.entries(run.id))
        if arguments is None:
            await asyncio.to_thread(agent.journal.delete, run.id)
            return ResumedRun(run, "empty")
        if agent.journal.in_doubt(run.id):
            return ResumedRun(run, "in_doubt")
        reply = await agent.reply(
            **arguments,
            run_id=run.id,
            deps=None if deps is None else deps(run),
            budget=None if budget is None else budget(run),
        )
    except RunHeld as error:
        return ResumedRun(run, "held", error=error)
    except Exception as error:
        log_failure(logger, f"agent {agent.id!r}: run {run.id!r} was not resumed", error)
        differs = isinstance(error, RunMismatch)
        return ResumedRun(run, "mismatch" if differs else "failed", error=error)
    return ResumedRun(run, "in_doubt" if reply.stop_reason == "in_doubt" else "resumed", reply)
