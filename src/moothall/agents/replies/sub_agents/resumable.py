"""What can be resumed: by which agents, once which others are up, and when it is tried again."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from moothall.actions import Action
from moothall.agents.replies.checked_parts import actions_of_agent, is_recording, members_of
from moothall.agents.replies.sub_agents.beside import workers_to_resume
from moothall.foundation.errors import NoSuchRun, SpaceClosed
from moothall.journal.run_view import RunView

if TYPE_CHECKING:
    from moothall.agents.replies.reply import Reply
    from moothall.journal import Outline

logger: logging.Logger = logging.getLogger("moothall.agents")
RETRY_S: Final = 60.0
"""Seconds after which a run that could not go on is tried again, by whatever resumes it."""


def with_asked_agents(agent: Any) -> list[Any]:
    """Return an agent and those that its members and its actions ask."""
    agents = [agent]
    for each in agents:
        offered = actions_of_agent(each)
        next_agents = [each.origin.agent for each in offered if isinstance(each, Action)]
        next_agents += members_of(each)
        agents += [
            a for a in next_agents if a is not None and all(a is not other for other in agents)
        ]
    return agents


def agents_that_resume(agent: Any) -> list[Any]:
    """Return an agent and those that its members and its actions ask, if they have journals."""
    return [
        each for each in with_asked_agents(agent) if is_recording(each) and each.journal is not None
    ]


def agents_away(agent: Any) -> dict[str, bool]:
    """Return the agents that are not up and whose actions an agent's runs may call.

    Of each, whether it may still come. They are those of `discover=` that their space expects: the
    agent's own, its helpers' and members', and those of the agents that these discover.
    """
    absent: dict[str, bool] = {}
    for space, ids in _discoverers(agent):
        absent |= space.expected.absent(ids)
    absent.pop(str(agent.id), None)
    return absent


def _discoverers(agent: Any) -> list[tuple[Any, tuple[str, ...] | None]]:
    """Return where the runs of an agent look for actions: a space, and of whom; None for all."""
    sources: list[tuple[Any, tuple[str, ...] | None]] = []
    agents, visited = with_asked_agents(agent), set[int]()
    for each in agents:
        discovered, space = getattr(each, "discover", None), getattr(each, "space", None)
        if id(each) in visited or not discovered or space is None:
            continue
        visited.add(id(each))
        ids = None if isinstance(discovered, str) else discovered
        sources.append((space, ids))
        for other in map(space.agent, ids or ()):
            agents += () if other is None else with_asked_agents(other)
    return sources


async def until_up(agent: Any, note: Callable[[list[str]], object]) -> list[str]:
    """Wait for the agents that an agent's runs may call; return those that do not come.

    `note` is called with the names of those for which it waits, in a thread, and with none after.

    Raises:
        SpaceClosed: a space is closed meanwhile
    """
    logged: list[str] = []
    while any((absent := agents_away(agent)).values()):
        if (names := [*absent]) != logged:
            logged = names
            await asyncio.to_thread(note, names)
            logger.warning("runs of agent %r wait for the agents %s", agent.id, ", ".join(names))
        spaces = [space for space, _ in _discoverers(agent)]
        changes = [asyncio.wrap_future(each.expected.next_change()) for each in spaces]
        try:
            if agents_away(agent) == absent:  # else one has come in between
                await asyncio.wait(changes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for change in changes:
                change.cancel()
        if any(each.is_closed for each in spaces):
            raise SpaceClosed(f"runs of agent {agent.id!r} have waited for {', '.join(names)}")
    if logged and not absent:
        await asyncio.to_thread(note, [])
    return [*absent]


ResumableRuns: TypeAlias = list[tuple[Any, list["Outline"]]]
"""The runs that can go on, by the agent that resumes them."""


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
