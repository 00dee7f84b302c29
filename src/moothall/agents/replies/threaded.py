"""Agents that keep threads for each sender, and can be watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall.actions.acting import CALL_SCOPE
from moothall.actions.approval.paused_clocks import asking_contexts, clocks_paused
from moothall.actions.message import ENCLOSING_REPLIES, Envelope, Message
from moothall.actions.provenance import with_sources
from moothall.agents.agent import CURRENT, Agent, Handling
from moothall.agents.context import check_system_prompt, checked_prompt
from moothall.agents.replies.charging import check_reply_budget
from moothall.agents.replies.checked_parts import (
    Replier,
    check_part,
    has_threads,
    memory_of_thread,
    memory_part,
)
from moothall.agents.replies.reply_context import Replying, current_request, thread_of_caller
from moothall.agents.replies.reply_request import AnswerSchema, thread_id
from moothall.agents.replies.stream import Watchers, event_json
from moothall.agents.replies.thread import Interruption, Thread, Threads, steer
from moothall.foundation.errors import ConfigError, DefinitionError, MailboxFull
from moothall.foundation.lazily import is_ours
from moothall.foundation.threads import WORKERS, awaited, context_value, guard
from moothall.memory.memory import Memory, MemoryPart
from moothall.models.base import prepare
from moothall.models.named_models import check_model

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.agents.context import Context, SystemPrompt
    from moothall.agents.replies.events import Event
    from moothall.budget import Budget
    from moothall.models.protocol import Model

_USED_BY_REPLIES: Final = (
    "moothall.actions.provenance.texts",
    "moothall.models.wrappers.budgeted",
)
"""Modules that are imported when they are first used."""

EARLIER_ANSWER: Final = ("an earlier answer",)
"""Where from outside an agent's own words may come that a client sends back."""
_LOCK: Final = guard()
_MAX_INTERRUPTIONS = 100
"""How many interruptions wait for the next reply of a thread."""


class AskingContext(NamedTuple):
    """Where a person is asked."""

    handling: Any  # the message that is handled there, or None
    replies: tuple[Any, ...]  # that led there, the outermost first
    call: Any  # of an action in which the person is asked, or None


class Threaded(Replier, Agent):
    """An agent that keeps its threads, finds the thread of a message, and can be watched."""

    shared: bool = False
    answers_in_turn: bool = False
    """Whether replies of different threads wait for each other."""
    own_threads: Threads | None = None
    model_or_name: Any = None
    system_prompt: SystemPrompt | None = None
    _memory: Any = None
    _watchers: Watchers | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in vars(cls).items():
            inherited = getattr(super(cls, cls), name, None)
            if (
                hasattr(value, "__moothall_action__")
                and is_ours(inherited)
                and not hasattr(inherited, "__moothall_action__")
            ):
                raise DefinitionError(
                    f"{cls.__name__}.{name}: an action may not replace what a replying agent "
                    f'calls itself: give the method another name, and @action(name="{name}")'
                )

    def watch(self, callback: Callable[[Event], Any]) -> None:
        """Call `callback(event)` for the events of every reply: those that `stream` yields.

        The last one is `Done`, also where the reply was cancelled or raised: the `stop_reason` of
        its reply is then `cancelled` or `error`, with nothing but the error in it.

        It is called in the task of the reply, where the agent's `current_message` is the message
        being answered, or None. It must not block. If it raises, the error is logged and it is
        removed.

        Raises:
            DefinitionError: it is not a plain function
        """
        with _LOCK:  # not by `__dict__`, which makes Python 3.11 read the agent slower for good
            watchers = self._watchers = Watchers() if self._watchers is None else self._watchers
        watchers.add(callback)

    def unwatch(self, callback: Callable[[Event], Any]) -> None:
        """Remove a callback.

        Raises:
            KeyError: it is not registered
        """
        (self._watchers or Watchers()).remove(callback)

    def _listener(self) -> Callable[[Event], None] | None:
        """Return what passes events on to the sender of the request, if that listens."""
        handling = CURRENT.get()
        listener = None if handling is None or handling.agent is not self else handling.on_event
        return None if listener is None else lambda event: listener(event_json(event))

    def event_teller(self) -> Callable[[Event], None] | None:
        """Return what shows an event to watchers and to a sender that listens; None without any."""
        return self._watchers.teller(self._listener()) if self._watchers else self._listener()

    async def prepare(self) -> None:
        """Do now what its first reply would do once: imports, loading weights, opening files.

        Call it when a service starts, so that the first request does not hold up the event loop for
        all others. It sends nothing to a server and changes no conversation. Imports happen in a
        thread. The members of a group are prepared too.

        Raises:
            ModelError: the model cannot be used, such as `WeightsError` without its weights
            MissingExtra: the extra that the model needs is not installed
            DefinitionError: an action cannot be described, or the memory is not valid
        """
        if self.space_mailbox is not None:
            await self.space_mailbox.carry(self._prepare)
        else:
            await self._prepare()

    async def _prepare(self) -> None:
        model, actions = await WORKERS.run(asyncio.get_running_loop(), self.load_parts)
        await prepare(model, actions)
        for member in self.member_agents:
            if isinstance(member, Threaded):
                await member.prepare()

    def load_parts(self) -> tuple[Any, list[Action] | None]:
        """Import and make what a reply needs; return the model, and the actions it is shown."""
        for name in _USED_BY_REPLIES:
            import_module(name)
        for schema in (int, {"type": "integer"}):
            AnswerSchema(schema).parse("1")
        return getattr(self, "model", None), None

    # -- its parts ---------------------------------------------------------------------------------

    def take_parts(
        self,
        *,
        model: Model | str | None = None,
        memory: MemoryPart | None = None,
        system_prompt: SystemPrompt | None = None,
    ) -> None:
        """Check and keep what it is made of; None leaves what its class has.

        Raises:
            DefinitionError: one of them cannot be used
        """
        if model is not None:
            check_model(f"agent {self.id!r}", model)
            self.model_or_name = model
        if memory is not None:
            self._memory = memory_part(memory, self.id)
        if system_prompt is not None:
            check_system_prompt(system_prompt, self.id)
            self.system_prompt = system_prompt

    def check_part(self, name: str, part: object, *attributes: str) -> None:
        """Refuse an argument that lacks attributes early: it would fail during a reply."""
        check_part(part, attributes, name, self.id)

    def check_budget(self, budget: Budget) -> None:
        """Raise ConfigError if no reply may have it: its own, or a member's, is no part of it."""
        check_reply_budget(self, budget)

    def memory_for(self, thread: str | None) -> Any:
        """Return the memory of a thread in the memory that the agent was given; None without it."""
        return None if self._memory is None else memory_of_thread(self._memory, thread, self.id)

    async def prompt_for(self, context: Context[Any]) -> str:
        """Return the text of its system prompt in a context; empty for none."""
        prompt = self.system_prompt
        return checked_prompt(await awaited(prompt(context)) if callable(prompt) else prompt)

    @property
    def may_have_read(self) -> bool:
        """Whether it, or one of its members, may have read something from outside."""
        members = self.member_agents
        return not members or any(
            not isinstance(each, Threaded) or each.may_have_read for each in members
        )

    def with_marks_of_runs(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a conversation that a client sends back, as texts, with marks.

        What the agent or its members have said, if one may have read, is from outside.
        """
        if not self.may_have_read:
            return messages
        own_roles = ("user", "system")
        return [e if e["role"] in own_roles else with_sources(e, EARLIER_ANSWER) for e in messages]

    def thread_fault(self) -> str | None:
        """Return why it cannot keep conversations apart, in words; None if it can."""
        if self._memory is None or has_threads(self._memory):
            return None
        return f"its memory, a {type(self._memory).__name__}, has no thread(id)"

    def forget_memory(self, thread: str) -> None:
        """Drop a thread's memory, unless it is in a file."""
        if isinstance(self._memory, Memory):
            self._memory.forget_thread(thread)

    # -- its threads -------------------------------------------------------------------------------

    @property
    def all_threads(self) -> Threads:
        """Return its threads in this process."""
        if self.own_threads is None:
            with _LOCK:  # several OS threads may be here at once
                self.own_threads = self.own_threads or Threads(self.answers_in_turn)
        return self.own_threads

    def _take_thread(self, id: str | None) -> Thread:
        """Return a thread for a use, which `_release` ends."""
        threads = self.own_threads or self.all_threads
        if id is None:  # the agent's own is never dropped
            return threads.default
        thread = threads.take(id)
        self._note_threads(thread)
        return thread

    @contextmanager
    def in_turn(self, id: str | None) -> Iterator[Thread]:
        """Take a thread for an answer that is no run; what is called meanwhile knows who asks."""
        thread = self._take_thread(id)
        replying = Replying(self, thread.id, thread.turn_lock)
        try:
            with context_value(ENCLOSING_REPLIES, (*ENCLOSING_REPLIES.get(), replying)):
                yield thread
        finally:
            replying.open = False
            self._release(thread)

    def asking_agent(self) -> Agent | None:
        """Return the other agent whose reply led here; None if a program or a message did."""
        replies = [each for each in ENCLOSING_REPLIES.get() if each.open and each.agent is not self]
        return replies[-1].agent if replies else None

    @staticmethod
    def asking_person() -> AbstractContextManager[None]:
        """Return a `with` block in which a person is asked: no time counts meanwhile."""
        return clocks_paused()

    @staticmethod
    def asking_now() -> list[AskingContext]:
        """Return where in this process a person is asked now. Any thread may call it."""
        return [
            AskingContext(
                each.get(CURRENT),
                tuple(reply for reply in each.get(ENCLOSING_REPLIES, ()) if reply.open),
                getattr(each.get(CALL_SCOPE), "reading", None),
            )
            for each in asking_contexts()
        ]

    def _note_threads(self, *threads: Thread) -> None:
        """Let the space tell this agent when the senders of these threads leave."""
        for each in threads:
            if (mailbox := self.space_mailbox) is not None and each.id is not None:
                mailbox.space.note_keeper(self, Thread.sender_of(each.id))

    def note_senders(self) -> None:
        """Have its space tell it when the senders of its conversations leave."""
        self._note_threads(*(self.own_threads or ()))

    def _thread_to_steer(self, thread: str | int | None) -> Thread:
        threads = self.all_threads
        if self.shared or thread == "":
            return threads.default
        if thread is not None:
            self._note_threads(chosen := threads.get(thread_id(thread)))
            return chosen
        busy_threads = threads.busy_threads()
        if len(busy_threads) > 1:
            ids = ", ".join(repr(each.id or "") for each in busy_threads)
            raise ConfigError(
                f"agent {self.id!r} has replies under way in the threads {ids}: say which one is "
                "meant, interrupt(text, thread=…)"
            )
        return busy_threads[0] if busy_threads else threads.default

    def thread_of_message(self, thread: str | None = None) -> str | None:
        """Return the thread of the message being handled, or of the calling reply."""
        handling = CURRENT.get()
        if handling is None or handling.agent is not self:
            return thread_of_caller(self, thread)
        message = handling.message()
        if message is None:
            return None
        sender: str = message["from"]
        if self.shared:
            return sender  # each line is marked with it
        answered = handling.answered_thread
        if answered is not None:
            return answered or None
        return Thread.id_for(sender, handling.within if thread is None else thread_id(thread))

    def find_lane(self, message: dict[str, Any], handling: Handling) -> str | None:
        """Return the lane of a message: its thread's, or None for a message that needs no order."""
        sent_action = message["action"]
        name = sent_action["name"]
        # A `help` with `in_order` tells a sender that its earlier messages were handled.
        if name == "help" and (message.get("meta") or {}).get("in_order") is True:
            name = "say"
        if name not in ("say", "response", "error"):
            return None
        if self.shared or self.answers_in_turn:
            return ""  # one lane for all senders
        if handling.answered_thread is not None:
            return handling.answered_thread
        own_thread = sent_action["args"].get("thread") if sent_action["name"] == "say" else None
        return Thread.id_for(
            message["from"], own_thread if isinstance(own_thread, str) else handling.within
        )

    def _outgoing(self, message: Message | dict[str, Any], id: str) -> Envelope:
        """Return a message to send; its response belongs to the thread of the reply behind it."""
        envelope = super()._outgoing(message, id)
        if self.shared:
            return envelope
        request = current_request(self)
        thread = self.thread_of_message() if request is None else request.thread
        return envelope._replace(thread=thread or "")

    def _run_of(self, message: dict[str, Any]) -> tuple[str | None, str | None]:
        request = current_request(self)
        return super()._run_of(message) if request is None else (request.run_id, request.thread)

    def sender_left(self, sender: str, within: str | None = None) -> list[str]:
        """Drop the threads of a sender that has left, or one of a colleague's; return their ids."""
        dropped: list[str] = []
        if self.own_threads is not None:
            dropped = self.own_threads.forget_sender(sender, within)
            for thread in dropped:
                self.forget_memory(thread)
        for member in self.member_agents:
            if isinstance(member, Threaded):
                member.sender_left(sender, within)
        return dropped

    def _release(self, thread: Thread) -> None:
        """End a use of a thread; if its sender has left meanwhile, members forget it too."""
        if thread.id is not None and self.all_threads.release(thread):
            self.drop_in_members(thread.id)

    def end_thread(self, thread: str) -> None:
        """Drop a thread that nobody comes back to."""
        self.all_threads.drop(thread)
        self.forget_memory(thread)
        self.drop_in_members(thread)

    def drop_in_members(self, thread: str) -> None:
        """Have the members drop a thread."""
        for member in self.member_agents:
            if isinstance(member, Threaded):
                member.end_thread(thread)

    def check_joining(self) -> None:
        """Refuse a space if it cannot keep threads apart."""
        if not self.shared and (fault := self.thread_fault()) is not None:
            raise DefinitionError(
                f"agent {self.id!r} cannot be added to a space, where each sender has a "
                f"conversation of its own: {fault}. Pass shared=True for one conversation with all"
            )

    def steer_thread(self, thread: Thread, text: str) -> Interruption:
        """Interrupt the reply under way in a thread with a text; else the next one hears it."""
        return steer(thread, text, self._keep_text)

    def _keep_text(self, text: Any, thread: Thread) -> None:
        if not thread.keep_text(text, _MAX_INTERRUPTIONS):
            raise MailboxFull(
                f"agent {self.id!r} has {_MAX_INTERRUPTIONS} interruptions that wait for its next "
                "reply, and takes no more until then"
            )
