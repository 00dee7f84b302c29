"""Conversational agents: they reply, observe, can be interrupted and stream their events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import TypeVar

from moothall.actions import Action, action
from moothall.actions.acting import CALL_SCOPE
from moothall.actions.approval import Later
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance import with_sources
from moothall.actions.provenance.marks import has_marks
from moothall.actions.provenance.reading import ContextlessReply, is_without_context
from moothall.agents.agent import CURRENT, leads_to
from moothall.agents.replies.charging import MAX_NESTED_MODEL_CALLS, budget_of_caller
from moothall.agents.replies.checked_parts import checked_trusted
from moothall.agents.replies.hooks import (
    NO_HOOKS,
    Hook,
    Hooks,
    HookType,
    observe_with_hooks,
    reply_with_hooks,
    with_hook,
    without_hook,
)
from moothall.agents.replies.reply import REASONS_WITH_TEXT, Reply
from moothall.agents.replies.reply_context import (
    ASK_CONTEXT,
    MAX_DEPTH,
    Replying,
    ReplySetup,
    answer_cancellably,
    ask_context,
    caller_context_of,
    is_open,
    note_content,
    sources_of_asker,
    tell_caller,
    text_with_sources,
)
from moothall.agents.replies.reply_request import (
    ReplyOptions,
    ReplyRequest,
    as_chat_message,
    thread_id,
    with_speaker,
)
from moothall.agents.replies.stream import ReplyStream
from moothall.agents.replies.sub_agents.ask_agent import ask_action, call_of_own_say, reply_to_call
from moothall.agents.replies.sub_agents.askers import approver_of_asker, who_asks
from moothall.agents.replies.thread import Interruption, Thread
from moothall.agents.replies.threaded import Threaded
from moothall.agents.workflow import AgentOptions
from moothall.foundation import tracing
from moothall.foundation.arguments import check_boolean, check_integer, named_elsewhere, takes_as
from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.foundation.jsonvalue import readable
from moothall.foundation.threads import refuse_on_loop, reset

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

    from moothall.actions.approval import Approver
    from moothall.actions.message import Message
    from moothall.models.protocol import ChatMessage

T = TypeVar("T")


@named_elsewhere(
    **dict.fromkeys(("acall", "ainvoke", "arun", "chat"), "await reply(text)"),
    **dict.fromkeys(("invoke", "kickoff", "run_sync"), "reply_sync(text)"),
    **dict.fromkeys(("astream", "run_stream", "run_streamed", "stream_events"), "stream(text)"),
)
class ConversationalAgent(Threaded):
    """An agent that replies: one reply at a time in each thread, several threads concurrently.

    A thread is one conversation, with its own memory. In a space each sender has threads of its
    own. A subclass implements `respond`, which replies, and `remember`, which handles what it
    observes.

    Args:
        id: its id
        shared: whether it has one conversation with all senders: one memory, one reply at a time,
            each line of a message marked with its sender
        trusted: the ids of agents in other processes whose messages count as the user's; else they
            count as from outside (docs/provenance.md)
        max_depth: how many agents deep one of its replies may go, each called by an action of the
            one before, itself included
        max_nested_model_calls: how many model calls the agents beneath one of its replies may make
            together, as far as no budget bounds them
        **options: the options of `Agent`

    Attributes:
        hooks: its hooks, by type and name, in the order of registration
    """

    takes_options: bool = False
    max_depth: int = MAX_DEPTH
    max_nested_model_calls: int = MAX_NESTED_MODEL_CALLS
    reasons_with_text: frozenset[str] = REASONS_WITH_TEXT
    """The stop reasons for which `say` returns the text."""
    hooks: Hooks = NO_HOOKS
    begins_with_messages: bool = False
    """Whether a conversation with it can begin with messages."""
    _journal: Any = None

    if not TYPE_CHECKING:  # a checker refuses it

        def run(self, *args: object) -> Any:
            """Run one step of its blocks."""
            if args:
                raise DefinitionError(
                    f"agent {self.id!r}: run() is a step of its blocks: ask it by reply(text)"
                )
            return super().run()

    def __init__(
        self,
        id: str | int,
        *,
        shared: bool = False,
        trusted: Iterable[str | int] = (),
        max_depth: int = MAX_DEPTH,
        max_nested_model_calls: int = MAX_NESTED_MODEL_CALLS,
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(id, **options)
        if shared is not False:
            check_boolean(f"agent {id!r}: shared=", shared)
            self.shared = True
        if trusted != ():
            self.trusted: frozenset[str] = checked_trusted(trusted, id)
        if max_depth != MAX_DEPTH:
            check_integer(f"agent {id!r}: max_depth=", max_depth)
            self.max_depth = max_depth
        if max_nested_model_calls != MAX_NESTED_MODEL_CALLS:
            check_integer(f"agent {id!r}: max_nested_model_calls=", max_nested_model_calls, low=0)
            self.max_nested_model_calls = max_nested_model_calls

    # -- what a subclass defines -------------------------------------------------------------------

    async def respond(self, request: ReplyRequest) -> Reply:
        """Answer. Called in this thread's turn, and in a space on the space's loop."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it responds")

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it remembers")

    def _observation_key(self) -> tuple[str, int] | None:
        """Return the run and number of the message that it observes; None outside of a run."""
        observation = ASK_CONTEXT.get().observation
        return None if observation is None else (f"{observation[0]}/{self.id}", observation[1])

    def resumes(self, action: str) -> bool:
        """Return whether an action that was cut off resumes."""
        return action == "say" and self.records_say and getattr(self, "journal", None) is not None

    @property
    def records_say(self) -> bool:
        """Whether what its `say` does can be recorded: a user's own may do work beside a reply."""
        return self.is_recorded and type(self).say is ConversationalAgent.say

    def _message_run_id(self) -> str | None:
        """Return the run id of a `say`: what a door names; the same for one redelivered."""
        if (run_id := caller_context_of(self).run_id) is not None:
            return run_id
        key = self._idempotency_key("say") if self.resumes("say") else None
        if key is None:
            return None
        return sha256(f"{key}\n{self.id}".encode(errors="surrogatepass")).hexdigest()[:32]

    # -- asking it ---------------------------------------------------------------------------------

    def _reply_request(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> ReplyRequest:
        """Return the request that `reply`, `reply_sync` and `stream` make of their arguments."""
        request = ReplyRequest(text, schema, thread, run_id)
        if options:
            request.take_options(self, options)
        return request

    _reply_request.__qualname__ = "ConversationalAgent.reply"  # which Python's errors name

    @overload
    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: dict[str, Any] | None = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Reply[Any]: ...

    @overload
    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: TypeForm[T],
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Reply[T]: ...
    @takes_as(_reply_request)
    async def reply(self, *args: Any, **options: Any) -> Reply[Any]:
        """Answer.

        Replies of one thread wait for each other. The exception is a re-entrant call, where the
        thread's own reply asks another agent that asks back: it is answered within the other reply.
        Replies of different threads run concurrently.

        Cancelling it stops the model's answer and the actions at their next await; their results
        until then are remembered.

        Args:
            text: the prompt: a text, or blocks of content as providers take them, such as
                `{"type": "text", "text": …}` and `{"type": "image_url", "image_url": {"url": …}}`
            schema: the form of the answer: a JSON schema, or a type such as a dataclass, a pydantic
                model or `list[int]`; the reply's `value` is of that form
            thread: the id of a conversation with a memory of its own; default: the agent's own
            run_id: the id of the run; a new one by default. With a journal, an unfinished run of
                this id is resumed, and one that has ended returns its reply again.
            deps: what actions find in their `Context` in this reply; defaults to the agent's own
            budget: what this reply may spend, within the agent's own budget
            options: fields of the requests to the model in this reply, such as
                `{"temperature": 0}`, for a model behind a server; a resumed run keeps them
            history: the chat messages before it, the oldest first, from a database of your own;
                the thread's memory is then neither read nor written; for a `ReActAgent`
            tags: what finds the run in a journal: names, or texts by name such as
                `{"customer": "acme"}`; runs that it asks for have them, too, unless they have own

        Raises:
            ConfigError: an argument is not valid, or the budget is not part of the agent's own
            DefinitionError: the schema is not valid, the memory has no threads, or the budget
                limits a cost that is not known
            RunHeld: the run is in use elsewhere
            RunMismatch: another program began it
            JournalError: the journal cannot be used, or is damaged; once the run is under way, it
                stops with the reason `error` instead
        """
        return await self.reply_to_request(self._reply_request(*args, **options))

    @overload
    def reply_sync(
        self,
        text: str | list[dict[str, Any]],
        schema: dict[str, Any] | None = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Reply[Any]: ...

    @overload
    def reply_sync(
        self,
        text: str | list[dict[str, Any]],
        schema: TypeForm[T],
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Reply[T]: ...
    @takes_as(_reply_request)
    def reply_sync(self, *args: Any, **options: Any) -> Reply[Any]:
        """Call `reply` from a script, and wait for the answer.

        Raises:
            RuntimeError: called where an event loop is running, which it would block
        """
        refuse_on_loop(f"reply_sync of agent {self.id!r}", "reply(text)")
        return asyncio.run(self.reply(*args, **options))

    @overload
    def stream(
        self,
        text: str | list[dict[str, Any]],
        schema: dict[str, Any] | None = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> ReplyStream[Reply[Any]]: ...

    @overload
    def stream(
        self,
        text: str | list[dict[str, Any]],
        schema: TypeForm[T],
        thread: str | int | None = None,
        run_id: str | None = None,
        **options: Unpack[ReplyOptions],
    ) -> ReplyStream[Reply[T]]: ...
    @takes_as(_reply_request)
    def stream(self, *args: Any, **options: Any) -> ReplyStream[Reply[Any]]:
        """Answer, and stream the events of the reply.

        The arguments are those of `reply`. The reader sees an action's `CallStarted` before its
        approver is asked: the reply continues when the next event is requested.

        Returns:
            An async iterator of events: pieces of text as the model gives them, calls started and
            ended, messages remembered, and last `Done` with the reply. Closing or dropping it
            cancels the reply.

        Raises:
            ConfigError: an argument is not valid
            DefinitionError: the schema is not valid
        """
        return ReplyStream(
            str(self.id), self._reply_request(*args, **options), self.reply_to_request
        )

    @action(guard=())
    async def say(self, content: str, thread: str | None = None) -> str:
        """Say something to the agent.

        Args:
            content: what to say
            thread: which of your conversations with the agent this belongs to

        Returns:
            what the agent replies
        """
        sender_thread = self.thread_of_message(thread)
        prompt: Any = (context := caller_context_of(self)).content or content
        if (caller_and_call := call_of_own_say(self)) is not None:
            return await reply_to_call(self, prompt, *caller_and_call, thread=sender_thread)
        options = {"run_id": self._message_run_id(), **(context.options or {})}
        if context.holds:
            with ask_context(setup=ReplySetup(self, background="held")):
                return self.reply_text(await self.reply(prompt, thread=sender_thread, **options))
        return self.reply_text(await self.reply(prompt, thread=sender_thread, **options))

    def as_action(
        self,
        name: str | None = None,
        description: str | None = None,
        *,
        fresh: bool = False,
        fork: bool = False,
        background: bool = False,
        background_after: float | None = None,
    ) -> Action:
        """Return an action that asks this agent, for `actions=[…]` of another one.

        It is asked in the thread of the reply that calls it, which is a conversation of its own,
        with the deps and within the budget of that reply, and is cancelled with it. An agent that
        has a budget keeps that. Approvals are asked of its own approver, its space's, or else the
        caller's. With the same journal as the caller, its work is a run of its own; else the
        caller's run has it, if that is recorded.

        Args:
            name: the action's name; defaults to the agent's id
            description: what a model reads of it; defaults to the agent's `description=`
            fresh: whether each call is a conversation of its own, which ends with its answer, and
                a part of the caller's run. Several calls of one answer then run at the same time
            fork: the same, and the conversation begins with the caller's messages, those before
                the answer that calls it; for a `ReActAgent`
            background: whether a call, a fresh one, returns an id at once. The caller's model
                goes on, and is told of the end before a later turn (docs/background.md)
            background_after: the seconds after which a call does so that has not ended

        Raises:
            DefinitionError: the name is not a text
            ConfigError: one of them is not a boolean, or not possible for this agent
        """
        return ask_action(self, name, description, fresh, fork, background, background_after)

    def reply_text(self, reply: Reply) -> str:
        """Return the text of a reply; raise its error if nobody may have the text."""
        if not Reply.gives_text(self, reply.stop_reason, reply.text):
            reply.raise_error(self.id)
        return reply.text

    async def observe(
        self, message: str | dict[str, Any] | ChatMessage | Message, thread: str | int | None = None
    ) -> None:
        """Remember something without answering.

        Args:
            message: a text, a chat message (`role`, `content`) or a message of a space
            thread: the id of the conversation that it belongs to; defaults to the agent's own

        Raises:
            ConfigError: the message is none of these, or the thread's id is not valid
            DefinitionError: the memory has no threads
            HookError: a hook failed
        """
        if (stand_ins := ASK_CONTEXT.get().stand_ins) is not None and self.stands_for is None:
            await stand_ins.observe(self, message, thread)
            return
        if not has_marks(chat_message := as_chat_message(message)):
            chat_message = with_sources(chat_message, sources_of_asker(self)[0])
        id = thread_id(thread)
        if self.shared and id is not None:
            chat_message["content"], id = with_speaker(id, chat_message.get("content")), None
        if self.space_mailbox is None:
            await self._observe(chat_message, id)
        else:
            await self.space_mailbox.carry(lambda: self._observe(chat_message, id))

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
            True if a reply was under way; awaiting it waits until that reply has heard the text

        Raises:
            ConfigError: `text` is not a text, or several replies are under way and no thread is
                named
            MailboxFull: no reply is under way, and a hundred texts wait for the next one already
        """
        if not isinstance(text, str):
            raise ConfigError(f"interrupt takes a text, got {type(text).__name__}")
        state = self._thread_to_steer(thread)
        return self.steer_thread(state, text_with_sources(self, readable(text), state))

    # -- hooks -------------------------------------------------------------------------------------

    def register_hook(self, type: HookType, name: str, fn: Hook) -> None:
        """Register a function to be called before or after what the agent does.

        It is called as `fn(agent, kwargs)`, and may be async: then the reply's deadline ends it,
        except a `post_` hook that begins after the deadline, for example to log it. A plain one is
        called on the event loop and must be short. The dict that it returns is merged into
        `kwargs`, for the next hook and for the agent; None changes nothing. Hooks are called in
        order of registration; a hook with the name of an existing one replaces it.

        ==================  ==================================================================
        type                `kwargs`; those in capitals may be changed
        ==================  ==================================================================
        `pre_reply`         `TEXT`, `SCHEMA`
        `post_reply`        `text`, `schema`, `REPLY`
        `pre_observe`       `MESSAGE`, as it will be remembered
        `post_observe`      `message`
        `pre_reasoning`     `MESSAGES` for the model, `iteration`
        `post_reasoning`    `iteration`, `ANSWER`
        `pre_acting`        `action`, `ARGS`, `iteration`, `call_id`
        `post_acting`       `action`, `args`, `iteration`, `call_id`, `RESULT`
        ==================  ==================================================================

        All have `thread`, the id of the conversation (None for the agent's own), `run_id` (None for
        the `observe` hooks), and `deps`, those of the reply or else of the agent.

        If a `pre_acting` hook raises, the call is not executed and the exception is its result. Any
        other hook that raises ends the reply with the reason `error`. So does any hook that
        replaces a value by one of another kind.

        Args:
            type: one of those above
            name: its name, by which it can be removed or replaced
            fn: the function

        Raises:
            DefinitionError: there is no such type, or `fn` is not a function
        """
        self.hooks = with_hook(self.hooks, type, name, fn)

    def remove_hook(self, type: HookType, name: str) -> None:
        """Remove a hook.

        Raises:
            KeyError: there is no hook of that name
        """
        self.hooks = without_hook(self.hooks, type, name)

    def clear_hooks(self, type: HookType | None = None) -> None:
        """Remove all hooks, or all of one type."""
        self.hooks = {key: each for key, each in self.hooks.items() if type and key != type}

    # -- how it replies ----------------------------------------------------------------------------

    def reply_to_request(self, request: ReplyRequest) -> Awaitable[Reply]:
        """Reply; call it in the task that gives the reply."""
        setup, request.fresh = (context := ASK_CONTEXT.get()).setup, context.fresh
        if context.stand_ins is not None and self.stands_for is None:
            return context.stand_ins.reply(self, request)
        if setup is not None and setup[0] is self:
            request.record, request.offered, request.step = setup.part, setup.offered, setup.step
            request.first_messages, request.results = setup.first_messages, setup.results
            request.background = setup.background or request.background
            ASK_CONTEXT.set(context._replace(setup=None))  # not for nested replies
        if request.budget is not None:
            self.check_budget(request.budget)
        if self.shared and (speaker := request.thread) is not None:
            request.content = request.original_content = with_speaker(speaker, request.content)
            request.thread = None
        if self.space_mailbox is not None:
            return self.space_mailbox.carry(lambda: self._in_turn(request))
        return self._in_turn(request)

    async def _in_turn(self, request: ReplyRequest) -> Reply:
        """Reply in the thread's turn."""
        outer = ENCLOSING_REPLIES.get()
        handling: Any = CURRENT.get()
        replying = Replying(self, request.thread, request=request)
        is_asked = handling is not None or bool(outer)  # by another agent, or its own action
        if handling is not None and request.budget is None:
            request.budget = budget_of_caller(self, handling, bool(outer))
        if is_asked and (parents := outer or getattr(handling, "replies", ())):
            replying.nest(parents)
            request.nested = replying.depth > 1
        if is_asked:
            replying.asker = who_asks(self, outer, handling)
        if handling is not None and not handling.envelope.name:  # it carries this reply to its loop
            handling.replies = (*(each for each in handling.replies if each.open), replying)
        thread = request.state = self._take_thread(request.thread)
        is_contextless = is_without_context()
        if is_asked or is_contextless or thread.texts_by_origin is not None:
            note_content(request, self)
        if is_asked and not outer and request.emit is None:
            request.emit = self._listener()
        turn_lock = replying.turn_lock = thread.turn_lock
        # The thread's own reply waits for this one: to wait for its turn would be a deadlock.
        is_nested = (outer and is_open(turn_lock, outer)) or (
            turn_lock.handling is not None and leads_to(turn_lock.handling, handling)
        )
        token = ENCLOSING_REPLIES.set((*outer, replying))
        answer = partial(reply_with_hooks, self) if self.hooks else self.respond
        if not self.is_recorded:
            answer = partial(self._traced_reply, answer)
        if self._watchers:
            answer = partial(self._watchers.reply, self.id, answer)
        if (journal := request.journal or self._journal) is not None:
            answer = partial(answer_cancellably, answer, journal)
        contextless_reply = ContextlessReply() if is_contextless else None
        try:
            if is_nested:
                return await answer(request)
            if not turn_lock.take_now():
                await turn_lock.take()
            try:
                turn_lock.handling, replying.has_turn = handling, True
                return await answer(request)
            finally:
                if replying.has_turn:  # one that waits for work in the background has left it
                    # First: once it has ended, the next reply, perhaps of another loop, sets it.
                    thread.reply = None
                    turn_lock.end()
        except Later as later:
            if outer:  # an action waits
                raise
            raise later.misplaced_error from later
        finally:
            replying.open = False
            if thread.texts_by_origin is not None or CALL_SCOPE.get().reading is not None:
                tell_caller(self, thread)
            if contextless_reply is not None:
                contextless_reply.end()
            if thread.id is not None:
                self._release(thread)
            reset(token)

    async def _traced_reply(
        self, answer: Callable[[ReplyRequest], Awaitable[Reply]], request: ReplyRequest
    ) -> Reply:
        """Answer in a span of its own, as an agent without records does."""
        return await tracing.in_span(partial(answer, request), "reply", self, request)

    def find_approver(self) -> Approver | None:
        """Return its own approver or its space's, or else that of who asks it, and so on."""
        approver = self.own_approver()
        return approver_of_asker(self) if approver is None else approver

    async def _observe(self, item: dict[str, Any], thread: str | None) -> None:
        state = self._take_thread(thread)
        try:
            if self.hooks:
                await observe_with_hooks(self, item, state)
            else:
                await self.remember(item, state)
        finally:
            self._release(state)

    def as_observed(self, message: Any) -> dict[str, Any]:
        """Return a message that a hook changed, as it is remembered; raise if it is invalid."""
        return as_chat_message(message)
