"""Conversational agents: what can be asked, told, steered and listened to while it answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from civitas.action import action
from civitas.agent import CURRENT, Agent, Handling, leads_to
from civitas.errors import (
    DeadlineExceeded,
    HookError,
    HopLimitExceeded,
    MailboxFull,
    ModelError,
)
from civitas.models.protocol import Usage
from civitas.reasoning.asked import Asked, checked_content
from civitas.reasoning.hooks import Hooked, expect
from civitas.reasoning.interruption import Interruption
from civitas.reasoning.prompts import cut, json_text, readable
from civitas.reasoning.reply import ANSWERED, GIVEN, Reply, StopReason
from civitas.reasoning.turns import Turns
from civitas.reasoning.watched import Watched

if TYPE_CHECKING:
    from civitas.approval import Approver
    from civitas.journal import Record
    from civitas.reasoning.events import Event
    from civitas.reasoning.stream import ReplyStream

__all__ = ["Conversational", "ConversationalAgent", "Underway", "joined"]

logger = logging.getLogger("civitas.reasoning")

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

    async def observe(self, message: str | dict[str, Any]) -> None:
        """Remember something without answering."""
        ...


@contextmanager
def joined(agent: Any, record: Record | None) -> Iterator[None]:
    """Have the reply that an agent is asked for in here be recorded as a part of another's run."""
    if record is None:
        yield
        return
    token = _JOINED.set((agent, record))
    try:
        yield
    finally:
        try:
            _JOINED.reset(token)
        except ValueError:
            pass  # never finished, and now thrown away in another context


@contextmanager
def told_once(run: str, number: int) -> Iterator[None]:
    """Have what agents observe in here be remembered once, however often they are told it.

    Args:
        run: what the run that it belongs to is known by
        number: which message of that it is, from 0
    """
    with _observing((run, number)):
        yield


@contextmanager
def _observing(once: tuple[str, int] | None) -> Iterator[None]:
    token = _ONCE.set(once)
    try:
        yield
    finally:
        _ONCE.reset(token)


class Underway(Protocol):
    """A reply under way, as far as it can be steered. In its agent's thread only."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it runs on."""
        ...

    def interrupt(self, text: str) -> None:
        """Stop what it is doing, and go on with this text."""
        ...


class _Replying:
    """A reply under way; what a tool of it started in the background may outlive it."""

    __slots__ = ("agent", "open")

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.open = True


_JOINED: ContextVar[tuple[Agent, Record] | None] = ContextVar("civitas_joined", default=None)
"""Whose reply is asked for as part of a run that is recorded, and where it is to be recorded."""

_ONCE: ContextVar[tuple[str, int] | None] = ContextVar("civitas_told_once", default=None)
"""As which message of which run something is observed, if it is part of one that is recorded."""

_MAX_UNHEARD = 100
"""How many interruptions wait for the next reply."""
_GUARD = threading.Lock()

_REPLYING: ContextVar[tuple[_Replying, ...]] = ContextVar("civitas_replying", default=())
"""The replies that lead to what is being done, in the task or thread that does it."""


class ConversationalAgent(Hooked, Watched, Agent):
    """An agent that replies, one reply at a time.

    A subclass says how, in `_respond`, and what it does with what it observes, in `_remember`.
    """

    _turns: Turns | None = None
    _handling: Handling | None = None
    _underway: Underway | None = None
    _unheard: tuple[Any, ...] = ()

    # -- what a subclass says ----------------------------------------------------------------------

    async def _respond(self, asked: Asked) -> Reply:
        """Answer. It is this agent's turn, and in a space this is the space's loop."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it responds")

    async def _remember(self, message: dict[str, Any]) -> None:
        """Remember a chat message."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it remembers")

    def _as_once(self) -> tuple[str, int] | None:
        """As which message of a run this agent observes something; None outside of any."""
        once = _ONCE.get()
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
        named = f"{key}\n{self.id}".encode(errors="surrogatepass")
        return sha256(named).hexdigest()[:32]

    # -- asking it ---------------------------------------------------------------------------------

    @action
    async def say(self, content: str) -> str:
        """Say something to the agent.

        Args:
            content: what to say

        Returns:
            what the agent replies
        """
        reply = await self.reply(content, run_id=self._run_of_message())
        # What nobody accepted is told if it is something.
        if reply.stop_reason in (GIVEN if reply.text else ANSWERED):
            return reply.text
        if reply.error is not None:
            raise reply.error
        said = f"; it had said: {cut(reply.text, 500)}" if reply.text else ""
        raise ModelError(
            f"agent {self.id!r} has no reply ({reply.stop_reason}): {reply.detail}{said}"
        )

    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        """Answer.

        Replies wait for each other, but for one that this agent's own reply leads to, such as by
        asking another agent that asks back: it is given in the midst of the other.

        Cancelled, it stops the model's answer and the actions at their next await; what they gave
        until then is remembered.

        Args:
            text: what it is asked: a text, or blocks of content as providers take them, such as
                `{"type": "text", "text": …}` and `{"type": "image_url", "image_url": {"url": …}}`
            schema: what the answer is to be: a JSON schema, or a type such as a dataclass, a
                pydantic model or `list[int]`; the reply's `value` is the answer as such a value
            thread: the id of the conversation that this belongs to, each with a memory of its own
            run_id: the id of the run; a new one if left out. Of an agent with a journal, a run that
                was begun under this id goes on, and one that has ended gives its reply once more.

        Raises:
            TypeError, ValueError: an argument is not what it should be
            DefinitionError: the schema is none, the memory has no threads, or what a call costs is
                not known and the budget limits it
            RunHeld: somebody else works on the run
            RunMismatch: another program began it
            JournalError: the journal cannot be used, or is damaged; once the run is under way, it
                stops with the reason `error` instead
        """
        return await self._carried(Asked(text, schema, thread, run_id))

    def reply_sync(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        """`reply` for scripts: waits for the answer.

        Raises:
            RuntimeError: called where an event loop is running, which it would stop
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # as it should be; not in here, or all that is raised would look like its effect
        else:
            raise RuntimeError(
                f"reply_sync of agent {self.id!r} was called where an event loop is running, which "
                "would stop until it returned: await reply(text) instead"
            )
        return asyncio.run(self.reply(text, schema, thread, run_id))

    def stream(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> ReplyStream:
        """Answer, and tell what happens meanwhile.

        Args:
            text: as `reply` takes it, like the others
            schema: likewise
            thread: likewise
            run_id: likewise

        Returns:
            An async iterator of events: pieces of text as the model gives them, calls started and
            ended, messages remembered, and last `Done` with the reply. Closing or dropping it
            cancels the reply.

        Raises:
            TypeError, ValueError: an argument is not what it should be
        """
        from civitas.reasoning.stream import ReplyStream

        asked = Asked(text, schema, thread, run_id)

        async def begin(emit: Callable[[Event], None]) -> Reply:
            asked.emit = emit
            return await self._carried(asked)

        return ReplyStream(str(self.id), begin)

    async def observe(self, message: str | dict[str, Any]) -> None:
        """Remember something without answering.

        Args:
            message: a text, a chat message (`role`, `content`) or a message of a space

        Raises:
            TypeError: it is none of these
            HookError: a hook failed
        """
        item = _as_memory(message)
        if self._seat is None:
            await self._observe(item)
            return
        once = _ONCE.get()  # on the space's loop another context holds

        async def carried() -> None:
            with _observing(once):
                await self._observe(item)

        await self._seat.carry(carried)

    def interrupt(self, text: str) -> Interruption:
        """Steer the reply that is under way: it stops what it is doing and goes on with this.

        The model's answer is cancelled, or the actions are, at their next await (what a plain
        function does in its thread runs on, and its result is dropped); what ended until then is
        remembered, and so is the text, as the user's. Where none is under way, the next reply hears
        it first. It may be called in any thread.

        Args:
            text: what the agent is told

        Returns:
            An object that is true where a reply was under way; awaited, it waits until that has
            heard the text.

        Raises:
            TypeError: it is not given a text
            MailboxFull: no reply is under way, and a hundred wait for the next already
        """
        import concurrent.futures

        if not isinstance(text, str):
            raise TypeError(f"interrupt takes a text, not {type(text).__name__}")
        text = readable(text)
        underway = self._underway
        if underway is None:
            self._keep(text)
            return Interruption(None)
        heard: concurrent.futures.Future[None] = concurrent.futures.Future()

        def tell() -> None:
            if self._underway is underway:
                underway.interrupt(text)
            else:  # it has ended meanwhile
                self._keep(text)
            heard.set_result(None)

        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is underway.loop:
            tell()
        else:
            try:
                underway.loop.call_soon_threadsafe(tell)
            except RuntimeError:  # its loop has ended
                self._keep(text)
                return Interruption(None)
        return Interruption(heard)

    def _keep(self, text: Any) -> None:
        with _GUARD:
            if len(self._unheard) >= _MAX_UNHEARD:
                raise MailboxFull(
                    f"agent {self.id!r} has {_MAX_UNHEARD} interruptions that its next reply will "
                    "hear, and takes no more until then"
                )
            self._unheard = (*self._unheard, text)

    def _take_unheard(self) -> tuple[Any, ...]:
        """What was said to it while no reply was under way; said once."""
        with _GUARD:
            unheard, self._unheard = self._unheard, ()
        return unheard

    # -- how it comes about ------------------------------------------------------------------------

    async def _carried(self, asked: Asked) -> Reply:
        # Looked at here: on the space's loop another context holds.
        outer = _REPLYING.get()
        joined = _JOINED.get()
        if joined is not None and joined[0] is self:
            # For this reply alone, not for another one that it leads to.
            asked.record = joined[1]
            _JOINED.set(None)
        if self._seat is not None:
            return await self._seat.carry(lambda: self._in_turn(asked, outer))
        return await self._in_turn(asked, outer)

    async def _in_turn(self, asked: Asked, outer: tuple[_Replying, ...]) -> Reply:
        """Reply when it is this agent's turn.

        Args:
            asked: what it is asked
            outer: the replies that this one lies in
        """
        if len(outer) >= _NESTED:
            raise HopLimitExceeded(
                f"agent {self.id!r} is to reply within {len(outer)} replies, each called by an "
                "action of the one before"
            )
        handling = CURRENT.get()
        # Its own reply waits for this one: it is given in the midst of that, or never.
        nested = any(each.agent is self and each.open for each in outer) or (
            self._handling is not None and leads_to(self._handling, handling)
        )
        turns = self._turns
        if turns is None:
            turns = self._turns = Turns()
        mine = _Replying(self)
        token = _REPLYING.set((*outer, mine))
        answer = self._respond if self._hooks is None else self._respond_with_hooks
        if self._watchers:
            answer = partial(self._answered, answer)
        try:
            if nested:
                return await answer(asked)
            await turns.take()
            try:
                self._handling = handling
                return await answer(asked)
            finally:
                self._handling = None
                self._underway = None
                turns.end()
        finally:
            mine.open = False
            try:
                _REPLYING.reset(token)
            except ValueError:
                pass  # never finished, and now thrown away in another context

    @asynccontextmanager
    async def _my_turn(self) -> AsyncIterator[None]:
        """Its turn, for what is no reply but must not come in the midst of one."""
        turns = self._turns
        if turns is None:
            turns = self._turns = Turns()
        await turns.take()
        try:
            yield
        finally:
            turns.end()

    def _approver(self) -> Approver | None:
        """Its own approver or its space's, or that of what it is a member of and replies for."""
        approver = super()._approver()
        if approver is not None:
            return approver
        replying = [each.agent for each in _REPLYING.get()]
        while replying and replying[-1] is not self:
            replying.pop()
        member: Agent = self
        for agent in reversed(replying):
            # Whoever merely called it, by a tool, does not answer for it.
            if isinstance(agent, ConversationalAgent) and any(
                each is member for each in agent._member_agents
            ):
                approver = Agent._approver(agent)
                if approver is not None:
                    return approver
                member = agent
        return None

    async def _respond_with_hooks(self, asked: Asked) -> Reply:
        hooks = self._hooks
        assert hooks is not None
        kwargs = {
            "text": asked.content,
            "schema": asked.schema,
            "thread": asked.thread,
            "run_id": asked.run_id,
        }
        reply: Any = None
        budget = getattr(self, "budget", None)
        try:
            try:
                kwargs = await hooks.run(
                    "pre_reply", self, kwargs, lambda made: _check_asked(made, asked), budget
                )
            except DeadlineExceeded as error:
                return _ended(None, asked, "deadline", str(error))
            asked.content = checked_content(kwargs["text"], "reply")
            asked.schema = kwargs["schema"]
            reply = await self._respond(asked)
            if not hooks.has("post_reply"):
                return reply  # type: ignore[no-any-return]
            try:
                made = await hooks.run(
                    "post_reply",
                    self,
                    {**kwargs, "reply": reply},
                    lambda made: expect(made["reply"], Reply),
                    budget,
                )
            except DeadlineExceeded as error:
                return _ended(reply, asked, "deadline", str(error))
            return made["reply"]  # type: ignore[no-any-return]
        except HookError as error:
            logger.exception("a hook of agent %r failed", self.id)
            return _ended(reply, asked, "error", str(error), error)

    def _as_observed(self, message: Any) -> dict[str, Any]:
        """What a hook made of a message, as it is remembered.

        Raises:
            TypeError, ValueError: it cannot be
        """
        return _as_memory(message)

    async def _observe(self, item: dict[str, Any]) -> None:
        hooks = self._hooks
        if hooks is None:
            await self._remember(item)
            return
        with _observing(None):  # what a hook has others observe is no part of that
            made = await hooks.run(
                "pre_observe",
                self,
                {"message": item},
                lambda made: self._as_observed(made["message"]),
            )
            item = self._as_observed(made["message"])
        await self._remember(item)
        with _observing(None):
            await hooks.run("post_observe", self, {"message": item})


def _ended(
    reply: Any, asked: Asked, reason: StopReason, detail: str, error: BaseException | None = None
) -> Reply:
    """What is replied when a hook ended it: what there is of a reply, with this reason."""
    if isinstance(reply, Reply):
        return replace(reply, stop_reason=reason, detail=detail, error=error)
    return Reply("", "", [], [], Usage(), reason, detail, error, asked.run_id)


def _check_asked(made: dict[str, Any], asked: Asked) -> None:
    """Refuse what a hook put in the place of what was asked, if that cannot be asked.

    Raises:
        TypeError, ValueError: the text is none
        DefinitionError: the schema is none
    """
    checked_content(made["text"], "reply")
    schema = made["schema"]
    if schema is not None and schema is not asked.schema:
        from civitas.reasoning.schema import AnswerSchema

        AnswerSchema(schema)


def _as_memory(message: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(message, str):
        return {"role": "user", "content": readable(message)}
    if isinstance(message, dict):
        if isinstance(message.get("role"), str):
            return dict(message)
        action = message.get("action")
        if isinstance(action, dict) and isinstance(action.get("name"), str):
            sender = message.get("from", "someone")
            args = action.get("args", {})
            if action["name"] == "say" and isinstance(args, dict) and "content" in args:
                told = json_text(args["content"])
            else:
                told = f"{action['name']} {json_text(args)}"
            return {"role": "user", "content": f"{readable(str(sender))}: {told}"}
    raise TypeError(
        "observe takes a text, a chat message with `role` and `content`, or a message of a space, "
        f"not {cut(repr(message), 100)}"
    )
