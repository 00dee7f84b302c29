"""Conversational agents: they reply, observe, can be interrupted and stream their events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from moothall.action import Action, action
from moothall.agent import CURRENT, leads_to
from moothall.context import Context
from moothall.errors import DefinitionError, HopLimitExceeded
from moothall.jsonvalue import readable
from moothall.message import REPLYING
from moothall.reasoning.group import check_reply_budget
from moothall.reasoning.hooks import Hooked, observe_with_hooks, reply_with_hooks
from moothall.reasoning.reply import ANSWERED, GIVEN, Reply
from moothall.reasoning.reply_request import ReplyRequest, as_memory, marked_with, thread_id
from moothall.reasoning.replying import (
    JOINED,
    ONCE,
    Replying,
    approver_of_group,
    own_reply,
    thread_of_caller,
)
from moothall.reasoning.stream import Asked, Watched
from moothall.reasoning.thread import Interruption, Thread, steer
from moothall.reasoning.threaded import Threaded
from moothall.workflow import AgentOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.approval import Approver

_NESTED = 32
"""How deep replies may be nested, each called by an action of the one before."""


@runtime_checkable
class Conversational(Protocol):
    """Anything that replies and observes: an agent with a model, a conversation, a person."""

    @property
    def id(self) -> str | int:
        """Its id."""
        ...

    async def reply(
        self,
        text: str | list[dict[str, Any]],
        /,
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        """Answer."""
        ...

    async def observe(
        self, message: str | dict[str, Any], /, thread: str | int | None = None
    ) -> None:
        """Remember something without answering."""
        ...


class ReplyingOptions(AgentOptions, total=False):
    """What every agent that replies takes by name."""

    shared: bool


class ConversationalAgent(Hooked, Watched, Asked, Threaded):
    """An agent that replies: one reply at a time in each thread, several threads concurrently.

    A thread is one conversation, with its own memory. In a space each sender has threads of its
    own. A subclass implements `_respond`, which replies, and `_remember`, which handles what it
    observes.

    Args:
        id: its id
        shared: whether it has one conversation with all senders: one memory, one reply at a time,
            each line of a message marked with its sender
        **options: the options of `Agent`
    """

    _gives: frozenset[str] = GIVEN
    """The stop reasons for which `say` returns the text."""

    def __init__(
        self, id: str | int, *, shared: bool = False, **options: Unpack[AgentOptions]
    ) -> None:
        super().__init__(id, **options)
        if shared is not False:
            if shared is not True:
                raise DefinitionError(
                    f"agent {id!r}: shared= must be True or False, got {shared!r:.80}"
                )
            self.shared = True

    # -- what a subclass defines -------------------------------------------------------------------

    async def _respond(self, request: ReplyRequest) -> Reply:
        """Answer. Called in this thread's turn, and in a space on the space's loop."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it responds")

    async def _remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it remembers")

    def _as_once(self) -> tuple[str, int] | None:
        """Return the run and number of the message that it observes; None outside of a run."""
        once = ONCE.get()
        return None if once is None else (f"{once[0]}/{self.id}", once[1])

    @property
    def _member_agents(self) -> Sequence[Any]:
        """Return the members that reply on its behalf."""
        return ()

    def _resumes(self, action: str) -> bool:
        # A user's own `say` may do work that the journal does not have.
        own = type(self).say is ConversationalAgent.say
        return action == "say" and own and getattr(self, "journal", None) is not None

    def _run_of_message(self) -> str | None:
        """Return the run id for a `say` over a broker, the same for a redelivered one."""
        key = self._idempotency_key("say") if self._resumes("say") else None
        if key is None:
            return None
        return sha256(f"{key}\n{self.id}".encode(errors="surrogatepass")).hexdigest()[:32]

    # -- asking it ---------------------------------------------------------------------------------

    @action
    async def say(self, content: str, thread: str | None = None) -> str:
        """Say something to the agent.

        Args:
            content: what to say
            thread: which of your conversations with the agent this belongs to

        Returns:
            what the agent replies
        """
        in_thread = self._thread_of_message(thread)
        reply = await self.reply(content, thread=in_thread, run_id=self._run_of_message())
        return self._said(reply)

    def as_action(self, name: str | None = None, description: str | None = None) -> Action:
        """Return an action that asks this agent, for `actions=[…]` of another one.

        It is asked in the thread of the reply that calls it, which is a conversation of its own,
        with the deps and within the budget of that reply, and is cancelled with it. An agent that
        has a budget keeps that. Approvals are asked of its own approver.

        Args:
            name: the action's name; defaults to the agent's id
            description: what a model reads of it: what this agent is good for

        Raises:
            DefinitionError: the name is not a text
        """

        async def ask(text: str, context: Context) -> str:
            caller, budget = own_reply(context.agent), context.budget
            own = getattr(self, "budget", None)
            if budget is not None and own is not None and not budget.is_part_of(own):
                budget = None
            given = {
                "thread": thread_of_caller(self, None),
                "deps": None if caller is None else caller.deps,
                "budget": budget,
            }
            options: Any = {key: value for key, value in given.items() if value is not None}
            return self._said(await self.reply(text, **options))

        id = str(self.id)
        return Action(id if name is None else name, ask, description or f"Ask the agent {id}.")

    def _said(self, reply: Reply) -> str:
        """Return the text of a reply; raise its error if nobody may have the text."""
        # A text that nobody accepted is returned too.
        if reply.stop_reason not in (self._gives if reply.text else ANSWERED):
            reply._raise(self.id)
        return reply.text

    async def observe(self, message: str | dict[str, Any], thread: str | int | None = None) -> None:
        """Remember something without answering.

        Args:
            message: a text, a chat message (`role`, `content`) or a message of a space
            thread: the id of the conversation that it belongs to; defaults to the agent's own

        Raises:
            TypeError: the message is none of these
            ValueError: the thread's id is not valid
            DefinitionError: the memory has no threads
            HookError: a hook failed
        """
        item = as_memory(message)
        id = thread_id(thread)
        if self.shared and id is not None:
            item["content"], id = marked_with(id, item.get("content")), None
        if self._mailbox is None:
            await self._observe(item, id)
            return
        await self._mailbox.carry(lambda: self._observe(item, id))

    def interrupt(self, text: str, thread: str | int | None = None) -> Interruption:
        """Interrupt a reply under way: it stops its current work and continues with this text.

        The model's answer or the actions are cancelled, at their next await. (A plain function in
        a worker thread runs on; its result is dropped.) What ended until then is remembered, and so
        is the text, as the user's. If no reply is under way, the next one of the thread hears the
        text first. It can be called in any thread of the process.

        Args:
            text: the text
            thread: the id of the conversation, an empty text for the agent's own; defaults to that
                of the only reply under way, or else to the agent's own

        Returns:
            An object that is true if a reply was under way; awaiting it waits until that reply has
            heard the text.

        Raises:
            TypeError: `text` is not a text
            ValueError: several replies are under way, and no thread is named
            MailboxFull: no reply is under way, and a hundred texts wait for the next one already
        """
        if not isinstance(text, str):
            raise TypeError(f"interrupt takes a text, got {type(text).__name__}")
        return steer(self._thread_to_steer(thread), readable(text), self._keep)

    # -- how it replies ----------------------------------------------------------------------------

    async def _reply_on_loop(self, request: ReplyRequest) -> Reply:
        joined = JOINED.get()
        if joined is not None and joined[0] is self:
            # They apply to this reply alone, not to nested ones.
            _, request.record, request.offered = joined
            JOINED.set(None)
        if request.budget is not None:
            check_reply_budget(self, request.budget)
        if self.shared and request.thread is not None:
            request.content = request.given = marked_with(request.thread, request.content)
            request.thread = None
        if self._mailbox is not None:
            return await self._mailbox.carry(lambda: self._in_turn(request))
        return await self._in_turn(request)

    async def _in_turn(self, request: ReplyRequest) -> Reply:
        """Reply in the thread's turn."""
        outer = REPLYING.get()
        if len(outer) >= _NESTED:
            raise HopLimitExceeded(
                f"agent {self.id!r} is to reply within {len(outer)} replies, each called by an "
                "action of the one before"
            )
        handling = CURRENT.get()
        threads = self._kept
        thread = request.state = threads.take(request.thread)
        turns = thread.turns
        # The thread's own reply waits for this one: to wait for its turn would be a deadlock.
        nested = any(each.turns is turns and each.open for each in outer) or (
            turns.handling is not None and leads_to(turns.handling, handling)
        )
        mine = Replying(self, request.thread, turns, request)
        token = REPLYING.set((*outer, mine))
        answer = partial(reply_with_hooks, self) if self._hooks else self._respond
        if self._watchers:
            answer = partial(self._answered, answer)
        try:
            if nested:
                return await answer(request)
            await turns.take()
            try:
                turns.handling = handling
                return await answer(request)
            finally:
                thread.underway = None
                turns.end()
        finally:
            mine.open = False
            self._release(thread)
            try:
                REPLYING.reset(token)
            except ValueError:
                pass  # a coroutine that never finished is closed in another context

    def _approver(self) -> Approver | None:
        """Return its own approver or its space's, or else that of its group."""
        approver = super()._approver()
        return approver_of_group(self) if approver is None else approver

    async def _observe(self, item: dict[str, Any], thread: str | None) -> None:
        threads = self._kept
        state = threads.take(thread)
        try:
            if self._hooks:
                await observe_with_hooks(self, item, state)
            else:
                await self._remember(item, state)
        finally:
            self._release(state)

    def _as_observed(self, message: Any) -> dict[str, Any]:
        """Return a message that a hook changed, as it is remembered; raise if it is invalid."""
        return as_memory(message)
