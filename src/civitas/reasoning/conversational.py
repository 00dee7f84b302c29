"""Conversational agents: what can be asked, told, steered and listened to while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from civitas.action import action
from civitas.agent import CURRENT, leads_to
from civitas.errors import DefinitionError, HopLimitExceeded
from civitas.jsonvalue import readable
from civitas.reasoning.group import check_reply_budget
from civitas.reasoning.hooks import Hooked, observe_with_hooks, reply_with_hooks
from civitas.reasoning.reply import ANSWERED, GIVEN, Reply
from civitas.reasoning.reply_request import Asked, as_memory, marked_with, thread_id
from civitas.reasoning.replying import (
    JOINED,
    ONCE,
    REPLYING,
    Replying,
    approver_of_group,
    observing,
)
from civitas.reasoning.stream import Watched
from civitas.reasoning.thread import Interruption, Thread, steer
from civitas.reasoning.threaded import Threaded
from civitas.spaces.loop import loop_is_running

if TYPE_CHECKING:
    from civitas.approval import Approver
    from civitas.budget import Budget
    from civitas.reasoning.stream import ReplyStream

_NESTED = 32
"""How deep replies of agents may lie in one another, each called by an action of the one before."""


@runtime_checkable
class Conversational(Protocol):
    """What can be talked with: an agent with a model, a conversation of several, a person."""

    id: str | int

    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        """Answer."""
        ...

    async def observe(self, message: str | dict[str, Any], thread: str | int | None = None) -> None:
        """Remember something without answering."""
        ...


class ConversationalAgent(Hooked, Watched, Threaded):
    """An agent that replies: one reply at a time in each thread, those of several side by side.

    A thread is one conversation, with its own memory. In a space each sender has threads of its
    own. A subclass says how it replies, in `_respond`, and what it does with what it observes, in
    `_remember`.

    Args:
        id: its id
        shared: whether it has one conversation with all who talk with it: one memory, one reply at
            a time, each line of what it is told marked with who says it
        **options: what every `Agent` takes
    """

    _gives: frozenset[str] = GIVEN
    """The reasons for which who asks by `say` is given the text."""

    def __init__(self, id: str | int, *, shared: bool = False, **options: Any) -> None:
        super().__init__(id, **options)
        if shared is not False:
            if shared is not True:
                raise DefinitionError(
                    f"agent {id!r}: shared= must be True or False, got {shared!r:.80}"
                )
            self.shared = True

    # -- what a subclass says ----------------------------------------------------------------------

    async def _respond(self, asked: Asked) -> Reply:
        """Answer. It is this thread's turn, and in a space this is the space's loop."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it responds")

    async def _remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it remembers")

    def _as_once(self) -> tuple[str, int] | None:
        """As which message of a run this agent observes something; None outside of any."""
        once = ONCE.get()
        return None if once is None else (f"{once[0]}/{self.id}", once[1])

    @property
    def _member_agents(self) -> Sequence[Any]:
        """Those that reply on its behalf."""
        return ()

    def _goes_on(self, action: str) -> bool:
        # What somebody's own `say` does beside is in no journal.
        own = type(self).say is ConversationalAgent.say
        return action == "say" and own and getattr(self, "journal", None) is not None

    def _run_of_message(self) -> str | None:
        """The id of the run that a `say` over a broker leads to: the same if it comes again."""
        key = self._came_as("say") if self._goes_on("say") else None
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
        # A text that nobody accepted is given all the same.
        if reply.stop_reason not in (self._gives if reply.text else ANSWERED):
            reply._raise(self.id)
        return reply.text

    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        *,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> Reply:
        """Answer.

        Replies of one thread wait for each other, but for one that the thread's own reply leads to,
        such as by asking another agent that asks back: it is given in the midst of the other.
        Replies of different threads run side by side.

        Cancelled, it stops the model's answer and the actions at their next await; what they gave
        until then is remembered.

        Args:
            text: what it is asked: a text, or blocks of content as providers take them, such as
                `{"type": "text", "text": …}` and `{"type": "image_url", "image_url": {"url": …}}`
            schema: what the answer is to be: a JSON schema, or a type such as a dataclass, a
                pydantic model or `list[int]`; the reply's `value` is the answer as such a value
            thread: the id of the conversation that this belongs to, each with a memory of its own;
                the agent's own if left out
            run_id: the id of the run; a new one if left out. Of an agent with a journal, a run that
                was begun under this id goes on, and one that has ended gives its reply once more.
            deps: what actions find in their `Context` in this reply; the agent's own if left out
            budget: what this reply may spend, beside what the agent's own budget allows

        Raises:
            TypeError, ValueError: an argument is not what it should be
            DefinitionError: the schema is none, the memory has no threads, or what a call costs is
                not known and the budget limits it
            ConfigError: the agent has a budget of which the one given is no part
            RunHeld: somebody else works on the run
            RunMismatch: another program began it
            JournalError: the journal cannot be used, or is damaged; once the run is under way, it
                stops with the reason `error` instead
        """
        return await self._carried(Asked(text, schema, thread, run_id, deps, budget))

    def reply_sync(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        *,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> Reply:
        """`reply` for scripts: waits for the answer.

        Raises:
            RuntimeError: called where an event loop is running, which it would stop
        """
        self._may_wait("reply_sync", "reply(text)")
        options: Any = {} if deps is None and budget is None else {"deps": deps, "budget": budget}
        return asyncio.run(self.reply(text, schema, thread, run_id, **options))

    def _may_wait(self, called: str, instead: str) -> None:
        if loop_is_running():
            raise RuntimeError(
                f"{called} of agent {self.id!r} was called where an event loop is running, which "
                f"would stop until it returned: await {instead} instead"
            )

    def stream(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        *,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> ReplyStream:
        """Answer, and tell what happens meanwhile.

        Before somebody is asked whether an action may be executed, the reader has seen its
        `CallStarted`: the reply goes on when the event after it is asked for.

        Args:
            text: as `reply` takes it, like the others
            schema: likewise
            thread: likewise
            run_id: likewise
            deps: likewise
            budget: likewise

        Returns:
            An async iterator of events: pieces of text as the model gives them, calls started and
            ended, messages remembered, and last `Done` with the reply. Closing or dropping it
            cancels the reply.

        Raises:
            TypeError, ValueError: an argument is not what it should be
            DefinitionError: the schema is none
        """
        from civitas.reasoning.stream import ReplyStream

        asked = Asked(text, schema, thread, run_id, deps, budget)
        return ReplyStream(str(self.id), asked, self._carried)

    async def observe(self, message: str | dict[str, Any], thread: str | int | None = None) -> None:
        """Remember something without answering.

        Args:
            message: a text, a chat message (`role`, `content`) or a message of a space
            thread: the id of the conversation that it belongs to; the agent's own if left out

        Raises:
            TypeError: it is none of these
            ValueError: the thread's id is none
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
        once = ONCE.get()  # on the space's loop another context holds

        async def carried() -> None:
            with observing(once):
                await self._observe(item, id)

        await self._mailbox.carry(carried)

    def interrupt(self, text: str, thread: str | int | None = None) -> Interruption:
        """Steer a reply that is under way: it stops what it is doing and goes on with this.

        The model's answer is cancelled, or the actions are, at their next await (what a plain
        function does in its thread runs on, and its result is dropped); what ended until then is
        remembered, and so is the text, as the user's. Where none is under way, the next reply of
        the thread hears it first. It may be called in any thread of the process.

        Args:
            text: what the agent is told
            thread: the id of the conversation, an empty text for the agent's own; if left out, that
                of the only reply under way, or the agent's own if none is

        Returns:
            An object that is true where a reply was under way; awaited, it waits until that has
            heard the text.

        Raises:
            TypeError: it is not given a text
            ValueError: several replies are under way, and no thread is named
            MailboxFull: no reply is under way, and a hundred wait for the next already
        """
        if not isinstance(text, str):
            raise TypeError(f"interrupt takes a text, got {type(text).__name__}")
        return steer(self._thread_to_steer(thread), readable(text), self._keep)

    # -- how it comes about ------------------------------------------------------------------------

    async def _carried(self, asked: Asked) -> Reply:
        # Looked at here: on the space's loop another context holds.
        outer = REPLYING.get()
        joined = JOINED.get()
        if joined is not None and joined[0] is self:
            # For this reply alone, not for another one that it leads to.
            _, asked.record, asked.offered = joined
            JOINED.set(None)
        if asked.budget is not None:
            check_reply_budget(self, asked.budget)
        if self.shared and asked.thread is not None:
            asked.content = asked.given = marked_with(asked.thread, asked.content)
            asked.thread = None
        if self._mailbox is not None:
            return await self._mailbox.carry(lambda: self._in_turn(asked, outer))
        return await self._in_turn(asked, outer)

    async def _in_turn(self, asked: Asked, outer: tuple[Replying, ...]) -> Reply:
        """Reply when it is the thread's turn; `outer` are the replies that this one lies in."""
        if len(outer) >= _NESTED:
            raise HopLimitExceeded(
                f"agent {self.id!r} is to reply within {len(outer)} replies, each called by an "
                "action of the one before"
            )
        handling = CURRENT.get()
        threads = self._kept
        thread = asked.state = threads.take(asked.thread)
        turns = thread.turns
        # The thread's own reply waits for this one: it is given in the midst of that, or never.
        nested = any(each.turns is turns and each.open for each in outer) or (
            turns.handling is not None and leads_to(turns.handling, handling)
        )
        mine = Replying(self, asked, turns)
        token = REPLYING.set((*outer, mine))
        answer = self._respond if self._hooks is None else partial(reply_with_hooks, self)
        if self._watchers:
            answer = partial(self._answered, answer)
        try:
            if nested:
                return await answer(asked)
            await turns.take()
            try:
                turns.handling = handling
                return await answer(asked)
            finally:
                thread.underway = None
                turns.end()
        finally:
            mine.open = False
            threads.release(thread)
            try:
                REPLYING.reset(token)
            except ValueError:
                pass  # never finished, and now thrown away in another context

    @asynccontextmanager
    async def _turn_of(self, thread: Thread) -> AsyncIterator[None]:
        """A thread's turn, for what is no reply but must not come in the midst of one."""
        await thread.turns.take()
        try:
            yield
        finally:
            thread.turns.end()

    def _approver(self) -> Approver | None:
        """Its own approver or its space's, or that of what it is a member of and replies for."""
        approver = super()._approver()
        return approver_of_group(self) if approver is None else approver

    async def _observe(self, item: dict[str, Any], thread: str | None) -> None:
        threads = self._kept
        state = threads.take(thread)
        try:
            if self._hooks is None:
                await self._remember(item, state)
            else:
                await observe_with_hooks(self, item, state)
        finally:
            threads.release(state)

    def _as_observed(self, message: Any) -> dict[str, Any]:
        """What a hook made of a message, as it is remembered; raises where it cannot be."""
        return as_memory(message)
