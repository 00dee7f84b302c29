"""The context of a reply: the outer replies that led to it, and the run that it is a part of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from moothall.agent import Agent
from moothall.message import REPLYING
from moothall.reasoning.thread import thread_of_sender

if TYPE_CHECKING:
    from moothall.action import Action
    from moothall.approval import Approver
    from moothall.journal import Part
    from moothall.reasoning.reply_request import ReplyRequest
    from moothall.reasoning.thread import Turns


T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Replying:
    """A reply under way; a background task of one of its tools may outlive it."""

    agent: Agent
    thread: str | None
    turns: Turns  # the lock that it holds
    request: ReplyRequest | None = None  # None for a chat agent, whose answers are no runs
    open: bool = True  # whether it is still under way

    def thread_for(self, agent: Agent, thread: str | None = None) -> str | None:
        """Return the thread in which an agent speaks on behalf of the reply, one of several."""
        its = self.thread
        if its is None or agent is self.agent:
            return thread if its is None else its
        return thread_of_sender(str(self.agent.id), its if thread is None else f"{its}/{thread}")


Joined: TypeAlias = "tuple[Agent, Part | None, tuple[Action, ...]]"

JOINED: ContextVar[Joined | None] = ContextVar("moothall_joined", default=None)
"""The member to be asked, the part that records its reply, and the actions offered in it."""

ONCE: ContextVar[tuple[str, int] | None] = ContextVar("moothall_told_once", default=None)
"""The run and the number of the message being observed, if it belongs to a recorded run."""


RUNS_NAMED: Final[dict[tuple[str, str], str]] = {}
"""The run ids that doors give to `say` requests, by message id and agent; they drop each."""


def own_reply(agent: Any) -> ReplyRequest | None:
    """Return the request that an agent is replying to in this context; None if there is none."""
    each: Replying
    for each in reversed(REPLYING.get()):
        if each.agent is agent and each.open:
            return each.request
    return None


def deps_of(agent: Any) -> Any:
    """Return the `deps` of the reply that an agent gives in this context, or else its own."""
    request = own_reply(agent)
    own = getattr(agent, "deps", None)
    return own if request is None or request.deps is None else request.deps


def thread_of_caller(agent: Any, thread: str | None) -> str | None:
    """Return the thread of a `say` that a program, or another agent's reply, calls directly."""
    within: Replying | None = next((each for each in reversed(REPLYING.get()) if each.open), None)
    return thread if within is None else within.thread_for(agent, thread)


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable within a `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        with suppress(ValueError):  # a coroutine that never finished is closed in another context
            variable.reset(token)


def approver_of_group(agent: Agent) -> Approver | None:
    """Return the approver of the group on whose behalf an agent replies."""
    replying = [each.agent for each in REPLYING.get()]
    while replying and replying[-1] is not agent:
        replying.pop()
    member = agent
    for group in reversed(replying):
        # An agent that called it by a tool is not its group and does not approve for it.
        if any(each is member for each in getattr(group, "_member_agents", ())):
            approver = Agent._approver(group)
            if approver is not None:
                return approver
            member = group
    return None
