"""The context of a reply: the outer replies that led to it, its run, and whose words it answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from moothall.agent import CURRENT, Agent
from moothall.errors import ConfigError
from moothall.message import REPLYING, address
from moothall.provenance import Texts, sources_of, union
from moothall.reasoning.thread import Thread, thread_of_sender

if TYPE_CHECKING:
    from moothall.action import Action
    from moothall.approval import Approver
    from moothall.journal import Part
    from moothall.reasoning.reply import Reply
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


# -- where the words of whoever asks come from ----------------------------------------------------


class Reading(Protocol):
    """A call that may ask agents which have read something from outside."""

    read: tuple[str, ...]


READ: ContextVar[Reading | None] = ContextVar("moothall_read", default=None)
"""The call under way, to which an agent that it asks adds what it had read from outside."""

_ANSWERS: Final = ("response", "error")

Asked: TypeAlias = tuple[list[str], Texts | None]
"""The sources of what is from outside in a text, and the texts on whose behalf it is written."""


def checked_trusted(trusted: Any, id: str | int) -> frozenset[str]:
    """Return the ids of trusted agents."""
    if isinstance(trusted, str) or not isinstance(trusted, Iterable):
        raise ConfigError(f"agent {id!r}: trusted= must be a list of ids, got {trusted!r:.80}")
    return frozenset(map(address, trusted))


def asker(agent: Any) -> Asked:
    """Return what is known of whoever asks an agent or tells it something.

    A program's text is the user's. So is that of an agent of this process, unless its thread has
    read something from outside: then it is a model's text. What an agent of another process sends
    is from outside unless this agent trusts it: whatever it says of itself is not believed.
    """
    replies = [each for each in REPLYING.get() if each.open and each.agent is not agent]
    if replies:
        request = replies[-1].request
        if request is None:
            return [], None
        texts = request.state.texts
        return (request.outside, request.on_behalf) if texts is None else (texts.sources, texts)
    handling = CURRENT.get()
    message = handling.message() if handling is not None and handling.agent is agent else None
    if message is None or handling is None:
        return [], None
    sender: str = message["from"]
    if sender in agent.trusted or sender == str(agent.id):
        return [], None
    local, is_local = here(agent, sender)
    if not is_local:
        return [f"agent {sender}"], None
    name = message["action"]["name"]
    if name in _ANSWERS and any(each.outside for each in getattr(local, "offers", {}).values()):
        return [f"agent {sender}"], None
    return spoken_by(local, handling.within)


def here(agent: Any, id: str) -> tuple[Any, bool]:
    """Return the agent of this id in this process; and whether it is of this process."""
    space = agent.space
    find = getattr(space, "_here", None)
    if find is None:  # a space of another kind, such as a society, is one process
        return None, True
    found = find(id)
    return found, found is not None


def spoken_by(agent: Any, thread: str | None = None) -> Asked:
    """Return what an agent of this process has read before it speaks, in a thread or its own."""
    if getattr(agent, "_untracked", False):
        return [f"agent {agent.id}"], None
    kept = getattr(agent, "_threads", None)
    if kept is None:
        return [], None
    threads: list[Thread] = [kept.default]
    threads += [each for each in kept if each.id == thread or (thread is None and each.uses)]
    read = [each.texts for each in threads if each.texts is not None]
    return (
        (union(source for each in read for source in each.sources), read[0]) if read else ([], None)
    )


def told_to(agent: Any, sender: str) -> list[str]:
    """Return what an agent of this process has read in its conversations with a sender."""
    own = [f"agent {agent.id}"] if getattr(agent, "_untracked", False) else []
    kept = getattr(agent, "_threads", None)
    found = [] if kept is None else [kept.default, *kept.of_sender(sender)]
    read = (each.texts.sources for each in found if each.texts is not None)
    return union(chain(own, *read))


def take(request: ReplyRequest, agent: Any) -> None:
    """Note in a request where its content comes from."""
    request.outside, request.on_behalf = asker(agent)
    texts = request.state.texts
    if texts is not None:
        texts.on_behalf = request.on_behalf
        if request.outside:
            texts.read(request.content, request.outside)
        else:
            texts.add(request.content, "user")


def has_read(agent: Any, thread: Thread) -> None:
    """Tell the call that asked an agent, once it has replied, what it had read from outside."""
    read = READ.get()
    if read is None:
        return
    if agent._untracked:
        read.read += (f"agent {agent.id}",)
    if thread.texts is not None:
        read.read += tuple(thread.texts.sources)


def heard(request: ReplyRequest, agent: Any, reply: Reply) -> None:
    """Note in a group's thread what a member had read from outside before it replied."""
    sources = [source for each in reply.messages for source in sources_of(each)]
    if getattr(agent, "_untracked", False):
        sources.append(f"agent {agent.id}")
    resume(request, sources)
    texts = request.state.texts
    if texts is not None and getattr(agent, "decides_in_words", False):  # a person
        texts.add(reply.text, "user")


def read_in(request: ReplyRequest) -> list[str]:
    """Return what was read from outside in the thread of a request."""
    texts = request.state.texts
    return [] if texts is None else [*texts.sources]


def resume(request: ReplyRequest, sources: list[str]) -> None:
    """Note in a group's thread what its members have read from outside."""
    if not sources:
        return
    thread = request.state
    if thread.texts is None:
        thread.texts = Texts(request.on_behalf)
        if not request.outside:
            thread.texts.add(request.content, "user")
    thread.texts.note(sources)
