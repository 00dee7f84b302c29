"""The agents that a run asks, which resume theirs, and those that it calls: it waits for these."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from moothall.actions import Action
from moothall.agents.replies.checked_parts import actions_of_agent, is_recording, members_of
from moothall.foundation.errors import SpaceClosed

logger: logging.Logger = logging.getLogger("moothall.agents")


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
