"""What a reply lies in: the replies that lead to it, and the run that it is a part of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from civitas.agent import Agent
from civitas.reasoning.thread import thread_of_sender

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.approval import Approver
    from civitas.journal import Part
    from civitas.reasoning.reply_request import Asked
    from civitas.reasoning.thread import Turns


@dataclass(slots=True, eq=False)
class Replying:
    """A reply under way; what a tool of it started in the background may outlive it."""

    agent: Agent
    asked: Asked
    turns: Turns  # whose turn it has
    open: bool = True  # whether it is still under way


REPLYING: ContextVar[tuple[Replying, ...]] = ContextVar("civitas_replying", default=())
"""The replies that lead to what is being done, in the task or thread that does it."""

Joined: TypeAlias = "tuple[Agent, Part | None, tuple[Action, ...]]"

JOINED: ContextVar[Joined | None] = ContextVar("civitas_joined", default=None)
"""Whose reply is asked for as part of another's, where it is recorded, and what is offered in it.
"""

ONCE: ContextVar[tuple[str, int] | None] = ContextVar("civitas_told_once", default=None)
"""As which message of which run something is observed, if it is part of one that is recorded."""


def own_reply(agent: Any) -> Asked | None:
    """What an agent is replying to where this is called; None if it is not."""
    for each in reversed(REPLYING.get()):
        if each.agent is agent and each.open:
            return each.asked
    return None


def thread_of_caller(agent: Any, thread: str | None) -> str | None:
    """The thread of a `say` that is no message: called by a program, or as another's action."""
    within = next((each for each in reversed(REPLYING.get()) if each.open), None)
    if within is None or within.asked.thread is None:
        return thread
    its = within.asked.thread
    if within.agent is agent:
        return its
    return thread_of_sender(str(within.agent.id), its if thread is None else f"{its}/{thread}")


@contextmanager
def _with(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        with suppress(ValueError):  # never finished, and now thrown away in another context
            variable.reset(token)


def joined(
    agent: Any, record: Part | None, offered: tuple[Action, ...]
) -> AbstractContextManager[None]:
    """Have the reply that an agent is asked for in here be a part of another's."""
    return _with(JOINED, (agent, record, offered))


def observing(once: tuple[str, int] | None) -> AbstractContextManager[None]:
    """Have what agents observe in here be this message of a run, or of none.

    It is remembered once, however often they are told it.
    """
    return _with(ONCE, once)


def approver_of_group(agent: Agent) -> Approver | None:
    """The approver of what an agent is a member of and replies for."""
    replying = [each.agent for each in REPLYING.get()]
    while replying and replying[-1] is not agent:
        replying.pop()
    member = agent
    for group in reversed(replying):
        # Whoever merely called it, by a tool, does not answer for it.
        if any(each is member for each in getattr(group, "_member_agents", ())):
            approver = Agent._approver(group)
            if approver is not None:
                return approver
            member = group
    return None
