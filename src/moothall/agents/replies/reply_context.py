"""The context of a reply.

Three things are looked up here, where an agent replies or one of its actions runs: which replies
led to this one, which task a run can be cancelled by, and which outside sources the text of the
asker comes from.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.origin import SourcedText, merged_sources
from moothall.actions.provenance.reading import (
    add_sources,
    current_reading,
    sources_of_contextless_text,
)
from moothall.agents.agent import CURRENT, Agent, Handling
from moothall.agents.caller_context import CallerContext
from moothall.agents.replies.charging import call_chain_text
from moothall.agents.replies.checked_parts import AnyStandIns, is_untracked, members_of
from moothall.agents.replies.thread import Thread
from moothall.foundation.errors import HopLimitExceeded, RequestCancelled
from moothall.foundation.threads import context_value, take_back_cancel

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.actions.provenance.texts import Texts
    from moothall.agents.replies.reply import Reply
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.step import StepHandle
    from moothall.agents.replies.thread import TurnLock
    from moothall.journal import Journal, RunPart
    from moothall.memory.long_results import ThreadResults


MAX_DEPTH: Final = 8
"""How many agents deep a reply may go, each called by an action of the one before."""


@dataclass(slots=True, eq=False)
class Replying:
    """A reply that runs. A background task of one of its tools may see it after its end."""

    agent: Agent
    thread: str | None
    turn_lock: TurnLock | None = None  # the lock of the thread, which the reply holds
    request: ReplyRequest | None = None  # None for a chat agent, whose answers are not runs
    open: bool = True  # False after its end
    has_turn: bool = False  # whether it ends its thread's turn
    outer_replies: tuple[Replying, ...] = ()  # the open replies that led to it, the outermost first
    depth: int = 1  # how many agents deep it is, each called by an action of the one before
    model_calls: int = 0  # how many model calls the agents beneath it have made without a budget
    # Whose approver is asked if its agent has none: the reply, or the handler, that asks for it.
    asker: Replying | Handling | None = None

    def nest(self, replies: tuple[Replying, ...]) -> None:
        """Set what it is within; HopLimitExceeded if that is too deep."""
        caller = next((each for each in reversed(replies) if each.open), None)
        if caller is None:
            return
        self.outer_replies = (*(each for each in caller.outer_replies if each.open), caller)
        if (request := self.request) and caller.request:  # it holds for the runs that are asked for
            request.attributes = request.attributes or caller.request.attributes
        asked_agent = self.agent.stands_for or self.agent
        is_member = any(each is asked_agent for each in members_of(caller.agent))
        self.depth = caller.depth + (not is_member)
        outermost = self.outer_replies[0].agent
        limit: int = getattr(outermost, "max_depth", None) or MAX_DEPTH
        if self.depth > limit:
            raise HopLimitExceeded(
                f"agent {self.agent.id!r} would reply {self.depth} agents deep, and {limit} are "
                f"the most: {call_chain_text([*self.outer_replies, self])}; raise max_depth= of "
                f"agent {outermost.id!r} if that is meant"
            )

    def thread_for(self, agent: Agent, thread: str | None = None) -> str | None:
        """Return the thread of another agent in which this reply asks it.

        Args:
            agent: the other agent
            thread: which of several conversations of this reply with that agent
        """
        own_thread = self.thread
        if own_thread is None or agent is self.agent:
            return thread if own_thread is None else own_thread
        return Thread.id_for(
            str(self.agent.id), own_thread if thread is None else f"{own_thread}/{thread}"
        )


def is_open(turn_lock: TurnLock, replies: Iterable[Replying]) -> bool:
    """Return whether one of these replies holds a thread's lock."""
    return any(each.turn_lock is turn_lock and each.open for each in replies)


class ReplySetup(NamedTuple):
    """What an agent that asks another sets for the other one's next reply."""

    agent: Agent  # the one that is asked
    part: RunPart | None = None  # the part of the asking run that records the reply
    offered: tuple[Action, ...] = ()  # actions that the asked agent gets besides its own
    first_messages: Sequence[dict[str, Any]] = ()  # the messages that its thread begins with
    results: ThreadResults | None = None  # the long results in these messages
    step: StepHandle | None = None  # the step of a group in which a person replies
    background: str = ""  # that of its request


class AskContext(NamedTuple):
    """How the agents are asked that this context asks."""

    setup: ReplySetup | None = None  # set by a group, or by an action that asks an agent
    # Set where a thread lasts for one reply and is kept in no file: the thread of the caller.
    fresh: tuple[str | None] | None = None
    observation: tuple[str, int] | None = None  # run and number of a message observed
    resumed_run: str | None = None  # the run that is resumed, and not begun anew if it was deleted
    stand_ins: AnyStandIns | None = None  # who replies in the place of agents; None for themselves


_DEFAULT_CONTEXT: Final = AskContext()
_NOTHING_BESIDE: Final = CallerContext()
ASK_CONTEXT: ContextVar[AskContext] = ContextVar("moothall_asked", default=_DEFAULT_CONTEXT)


def ask_context(**fields: Any) -> AbstractContextManager[None]:
    """Have the agents of a `with` block be asked as these fields of `AskContext` say."""
    return context_value(ASK_CONTEXT, ASK_CONTEXT.get()._replace(**fields))


class CancellableReply:
    """The task that gives a reply, which a dropped reply does not keep."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task: weakref.ref[asyncio.Task[Any]] = weakref.ref(task)
        self.is_stopped = False  # whether `cancel_run` has cancelled it


async def answer_cancellably(
    answer: Callable[[ReplyRequest], Awaitable[Reply]], journal: Journal, request: ReplyRequest
) -> Reply:
    """Answer a request, whose run `cancel_run` can cancel."""
    key = request.run_id, journal.file.identity
    if (task := asyncio.current_task()) is None or key in _CANCELLABLE:
        return await answer(request)  # a group's members reply in its run
    _CANCELLABLE[key] = cancellable = CancellableReply(task)
    del task
    try:
        return await answer(request)
    except asyncio.CancelledError:
        cause = "it was stopped" if cancellable.is_stopped else ""
        if request.recorded is not None:  # what its journal has been asked
            cause = cause or request.recorded.run.work.cancel_cause
        if cause and take_back_cancel():
            raise RequestCancelled(f"{cause}; run {request.run_id!r} can be resumed") from None
        raise
    finally:
        del _CANCELLABLE[key]


_CANCELLABLE: Final[dict[tuple[str, object], CancellableReply]] = {}
"""The replies under way in this process, by the ids of their runs and their journals."""


def cancel_run(run_id: str, journal: Journal) -> bool:
    """Cancel the reply of a run, in any thread; its caller gets RequestCancelled.

    Return False if none is under way in this process.
    """
    key = run_id, journal.file.identity
    reply = _CANCELLABLE.get(key)
    if reply is None or (task := reply.task()) is None:
        return False

    def cancel() -> None:
        if _CANCELLABLE.get(key) is reply and not reply.is_stopped:  # else its task does other work
            reply.is_stopped = True
            task.cancel()

    with suppress(RuntimeError):  # its loop has ended
        task.get_loop().call_soon_threadsafe(cancel)
    return True


def current_request(agent: Any) -> ReplyRequest | None:
    """Return the request that an agent replies to in this context, or None."""
    each: Replying
    for each in reversed(ENCLOSING_REPLIES.get()):
        if each.agent is agent and each.open:
            return each.request
    return None


def deps_of(agent: Any) -> Any:
    """Return the `deps` of the reply that an agent gives in this context, or else its own."""
    request = current_request(agent)
    own_deps = getattr(agent, "deps", None)
    return own_deps if request is None or request.deps is None else request.deps


def thread_of_caller(agent: Any, thread: str | None) -> str | None:
    """Return the thread of a `say` that is called as a method, by a program or within a reply."""
    caller: Replying | None = next(
        (each for each in reversed(ENCLOSING_REPLIES.get()) if each.open), None
    )
    return thread if caller is None else caller.thread_for(agent, thread)


# -- where the asker's texts come from ------------------------------------------------------------
#
# An outside source is a web page, a file of others, an agent in another process. Functions return:
#   sources_of_asker    of the text that an agent is given now
#   sources_of_speaker  of what another agent of this process has read, and so may say
#   sources_of_thread   of what a thread has read, this reply's
#   sources_here        of the last and the first, where an action is called
#   sources_told_to     of what an agent may have told a sender before


_ANSWERS: Final = ("response", "error")

AskerSources: TypeAlias = "tuple[list[str], Texts | None]"
"""The outside sources in an asker's text, and the texts of the thread that the asker serves."""


def sources_of_asker(agent: Any) -> AskerSources:
    """Return the outside sources in the text that an agent gets now, and the asker's texts.

    A program's text counts as the user's. An agent of this process counts as the user, too, unless
    its thread has read something from outside. The text of an agent in another process is from
    outside, unless this agent trusts that agent; what the other says about itself does not count.
    """
    replies = [each for each in ENCLOSING_REPLIES.get() if each.open]
    if replies:
        request, reading = replies[-1].request, current_reading()
        sources = [] if reading is None else [*reading.read_sources]
        if request is None:
            return sources, None
        if (texts := request.state.texts_by_origin) is None:
            return merged_sources((*request.outside, *sources)), request.on_behalf
        return merged_sources((*texts.sources, *sources)), texts
    handling = CURRENT.get()
    message = handling.message() if handling is not None and handling.agent is agent else None
    if message is None or handling is None:
        return [], None
    sender: str = message["from"]
    if sender in agent.trusted:
        return [], None
    local, is_local = find_local_agent(agent, sender)
    if not is_local and handling.caller_context is None:  # a door's caller is of this process
        return [f"agent {sender}"], None
    name = message["action"]["name"]
    if name in _ANSWERS and local and any(each.outside for each in local.offers.values()):
        return [f"agent {sender}"], None
    sources, texts = sources_of_speaker(local, handling.within)
    return merged_sources((*sources, *handling.outside)), texts


def sources_here(agent: Any) -> list[str]:
    """Return the outside sources that an agent has read where it calls an action now."""
    request, reading = current_request(agent), current_reading()
    sources = sources_of_asker(agent)[0] if request is None else sources_of_thread(request)
    return merged_sources((*sources, *(() if reading is None else reading.read_sources)))


def find_local_agent(agent: Any, id: str) -> tuple[Any, bool]:
    """Return the agent with an id, and whether it is in this process; None if it is unknown."""
    space = agent.space
    find = getattr(space, "agent", None)
    if find is None:  # a space of another kind, such as a society, is one process
        return None, True
    local_agent = find(id)
    return local_agent, local_agent is not None


def sources_of_speaker(agent: Any, thread: str | None = None) -> AskerSources:
    """Return the outside sources that an agent has read, in one thread or in all, and its texts."""
    if is_untracked(agent):
        return [f"agent {agent.id}"], None
    all_threads = getattr(agent, "own_threads", None)
    if all_threads is None:
        return [], None
    threads: list[Thread] = [all_threads.default]
    threads += [each for each in all_threads if each.id == thread or (thread is None and each.uses)]
    read = [each.texts_by_origin for each in threads if each.texts_by_origin is not None]
    return (
        (merged_sources(source for each in read for source in each.sources), read[0])
        if read
        else ([], None)
    )


def sources_told_to(agent: Any, sender: str) -> list[str]:
    """Return the outside sources that an agent has read in its conversations with a sender."""
    own_sources = [f"agent {agent.id}"] if is_untracked(agent) else []
    all_threads = getattr(agent, "own_threads", None)
    threads = [] if all_threads is None else [all_threads.default, *all_threads.owned_by(sender)]
    sources_by_thread = (
        each.texts_by_origin.sources for each in threads if each.texts_by_origin is not None
    )
    return merged_sources(chain(own_sources, *sources_by_thread))


def note_content(request: ReplyRequest, agent: Any) -> None:
    """Note in a request, and in its thread, which outside sources its content comes from."""
    if ASK_CONTEXT.get().resumed_run == request.run_id:
        return  # its record says so: whoever resumes it is not who asked
    request.outside, request.on_behalf = sources_of_asker(agent)
    request.outside = request.outside or sources_of_contextless_text(request.content)
    texts = request.state.texts_by_origin
    if texts is not None:
        texts.parent = request.on_behalf
        if request.outside:
            texts.add_outside(request.content, request.outside)
        else:
            texts.add(request.content, "user")


def tell_caller(agent: Any, thread: Thread) -> None:
    """Pass the outside sources of a thread on to the caller, of a tool call or a message."""
    reading = current_reading()
    if reading is not None:
        if is_untracked(agent):
            add_sources([f"agent {agent.id}"])
        if thread.texts_by_origin is not None:
            add_sources(thread.texts_by_origin.sources)
    handling: Any = CURRENT.get()
    if thread.texts_by_origin is not None and handling is not None and handling.agent is agent:
        handling.has_read(thread.texts_by_origin.sources)


def note_member(request: ReplyRequest, agent: Any, reply: Reply) -> None:
    """Note in a group's thread the outside sources that a member had read before its reply."""
    sources = [*reply.outside]
    if is_untracked(agent):
        sources.append(f"agent {agent.id}")
    elif members_of(agent):  # a group: its reply has no messages of its members
        sources += sources_of_speaker(agent, request.thread)[0]
    request.note_sources(sources)
    texts = request.state.texts_by_origin
    if texts is not None and getattr(agent, "decides_in_words", False):  # a person
        texts.add(reply.text, "user")


def sources_of_thread(request: ReplyRequest) -> list[str]:
    """Return the outside sources that the thread of a request has read."""
    texts = request.state.texts_by_origin
    return [] if texts is None else [*texts.sources]


def caller_context_of(agent: Any) -> CallerContext:
    """Return what the sender of the message that an agent handles gave beside it."""
    handling = CURRENT.get()
    if handling is None or handling.agent is not agent:
        return _NOTHING_BESIDE
    context: CallerContext | None = handling.caller_context
    return context if context is not None and context.open else _NOTHING_BESIDE


def upward_of(agent: Any, *, within: int = 0) -> Any:
    """Return the recorded call, an `UpwardCall`, that the message is which an agent handles now.

    None without one, and in more replies than so many: they have calls of their own. None over a
    broker, which delivers the message of a killed process again, as a run of its own.
    """
    handling = CURRENT.get()
    if handling is None or handling.agent is not agent or handling.upward is None:
        return None
    if handling.idempotency_key is not None:
        return None
    replies = [each for each in ENCLOSING_REPLIES.get() if each.open]
    is_recorded = handling.upward.request.recorded is not None
    return handling.upward if is_recorded and len(replies) <= within else None


def text_with_sources(agent: Any, text: str, thread: Thread) -> str:
    """Return a text with its sources, if an action says it, or another agent."""
    if not (sources := sources_of_asker(agent)[0]):
        return text
    note_on_thread(thread, sources)
    return SourcedText(text, sources)


def note_late_reading(request: ReplyRequest, sources: Sequence[str]) -> None:
    """Note what the work that an action left behind has read: later results may have it."""
    note_on_thread(request.state, sources, request.on_behalf).may_have_kept = True


def note_on_thread(thread: Thread, sources: Iterable[str], on_behalf: Texts | None = None) -> Texts:
    """Note that a thread has read from these sources; return its texts."""
    if (texts := thread.texts_by_origin) is None:  # the next prompt fills it
        texts, thread.last_checked = thread.begin_texts(on_behalf), None
    texts.note(sources)
    return texts
