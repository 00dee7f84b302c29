"""The context of an action's call: agent, run, thread, budget, and the way to ask a person."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypeVar

from moothall.actions.approval import Later, Question, answer
from moothall.actions.provenance.reading import add_sources
from moothall.foundation.arguments import check_function
from moothall.foundation.errors import ConfigError, NobodyToAsk
from moothall.foundation.threads import loop_is_running

if TYPE_CHECKING:
    from moothall.agents.agent import Agent
    from moothall.budget import Budget

T = TypeVar("T", default=Any)
_NO_DEPS: Any = None
_Ask: TypeAlias = Callable[[Question], Awaitable[str]]


@dataclass(slots=True, eq=False)
class CallChannel:
    """How an action's call reaches those who watch it, and the person who is asked in it."""

    on_answer: Callable[[str], None] | None = None  # told what the person answers
    # Told the kind of an event of the call and its text, on the loop.
    on_event: Callable[[str, str], None] | None = None
    wait_for_reader: Callable[[], Awaitable[None]] | None = None  # until it has seen the call
    # Answers a question from the journal, or by calling what asks; None without a journal.
    from_journal: Callable[[Question, _Ask], Awaitable[str]] | None = None
    thread_questions: set[Future[str]] = field(default_factory=set)  # what threads wait for
    is_cut_off: bool = False

    def withdraw(self) -> None:
        """Withdraw the questions for whose answers threads wait: the call was cut off."""
        # At least one side sees the other: a thread adds its question before it reads `is_cut_off`.
        self.is_cut_off = True
        for each in tuple(self.thread_questions):
            each.cancel()


@dataclass(slots=True, eq=False, repr=False)
class Context(Generic[T]):
    """What an action may know about its call; a parameter of this type is filled in.

    `Context[Shop]` tells type checkers that `deps` is a `Shop`; nothing checks it at run time.

    Attributes:
        agent: the agent whose action is running
        message: the message being handled, or None if the agent's own loop called the action
        run_id: the id of the run that the call belongs to, or None
        thread: the id of the conversation that the call belongs to; None for the agent's own
        kept_thread: the same, to keep something by: of an agent that is asked with `fresh=True`,
            whose `thread` ends with its reply, the caller's
        sender: the id of the agent whose message led to the call, or None without one
        budget: what may be spent, or None without a limit
        deps: the `deps=` of the reply, else of the agent
    """

    __moothall_injected__ = True

    agent: Agent
    _: KW_ONLY
    message: dict[str, Any] | None = None
    run_id: str | None = None
    thread: str | None = None
    kept_thread: str | None = None
    sender: str | None = None
    budget: Budget | None = None
    deps: T = _NO_DEPS
    _loop: asyncio.AbstractEventLoop | None = field(init=False)
    _channel: CallChannel | None = None  # of the call, if it is one
    _find_sources: Callable[[Agent], list[str]] | None = None
    _request: Any = None  # of the reply; None where no reply is given

    def __post_init__(self) -> None:
        if self.sender is None and self.message is not None:
            self.sender = self.message["from"]
        self._loop = asyncio._get_running_loop()

    @property
    def sources(self) -> list[str]:
        """The sources outside, such as pages, that the agent has read in what led to the call."""
        return [] if self._find_sources is None else self._find_sources(self.agent)

    @property
    def now(self) -> float:
        """When the run began, in seconds since 1970: the same however often it is resumed.

        In a frozen world it is when the recorded run began; without a run, it is now.
        """
        return self._beginning[0]

    @property
    def random(self) -> Random:
        """Random numbers: the same sequence each time in a run, and where that is frozen."""
        return Random(self._beginning[1])

    @property
    def _beginning(self) -> tuple[float, str]:
        """When the run began, and the seed of its random numbers."""
        request = self._request
        if request is None:
            return time.time(), self.run_id or ""
        if request.beginning is None:
            record = request.recorded
            request.beginning = (
                time.time() if record is None else record.run_part.begin_time,
                request.run_id,
            )
        beginning: tuple[float, str] = request.beginning
        return beginning

    def note_sources(self, sources: Sequence[str], value: Any = None) -> None:
        """Say that the call has read something from outside, which then counts as read by all.

        Args:
            sources: where it comes from, such as `["page example.org"]`
            value: what it has read, as JSON data; a text that it gives to others is compared
        """
        add_sources(sources, value)

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told the progress of the call."""
        return self._channel is not None and self._channel.on_event is not None

    def progress(self, text: str) -> None:
        """Tell the observers of the reply how far the action is: the event `call_progress`.

        A client of the MCP door that calls an agent's action is told, too. The model does not read
        it, and a journal does not keep it. If nobody watches, or after the call has ended, it is
        dropped. Any thread may call it.

        Args:
            text: how far, in words, such as "page 3 of 10"

        Raises:
            ConfigError: it is not a text
        """
        if not isinstance(text, str):
            raise ConfigError(f"progress takes a text, got {type(text).__name__}")
        self._tell("call_progress", text)

    def _tell(self, kind: str, text: str) -> None:
        """Tell whoever watches an event of the call, by its `kind`, from any thread."""
        on_event = None if self._channel is None else self._channel.on_event
        if on_event is None or self._loop is None:
            return
        if asyncio._get_running_loop() is self._loop:
            on_event(kind, text)
        else:
            try:
                self._loop.call_soon_threadsafe(on_event, kind, text)
            except RuntimeError:
                pass  # the loop is closed: the call has ended

    def ask_person(self, question: str) -> PendingQuestion:
        """Ask the person behind the agent's approver, or its space's.

        Args:
            question: the question's text

        Returns:
            An object to await in an `async` action, or to wait for in a plain one with `.result()`;
            it returns the answer, or raises `NobodyToAsk`.

        Raises:
            ConfigError: the question is not a text
        """
        return self._pending(question, "ask_person")

    def ask_parent(self, question: str) -> PendingQuestion:
        """Ask the agent for which this one works in the background.

        Its model has the question in its next turn, with the action to answer. If it has no turn
        left, or there is no such agent, a person is asked, as by `ask_person`.

        Args:
            question: the question's text

        Returns:
            What `ask_person` returns.

        Raises:
            ConfigError: the question is not a text
        """
        ask_parent = None if self._request is None else self._request.ask_parent
        return self._pending(question, "ask_parent", ask_parent)

    def _pending(self, question: str, name: str, ask_parent: Any = None) -> PendingQuestion:
        if not isinstance(question, str):
            raise ConfigError(f"{name} takes a text, got {type(question).__name__}")
        pending = Question(str(self.agent.id), question, self.run_id)
        channel = self._channel or CallChannel()
        return PendingQuestion(self.agent, pending, channel, self._loop, ask_parent)


SystemPrompt: TypeAlias = (
    "str | Callable[[Context[Any]], str | None] | Callable[[Context[Any]], Awaitable[str | None]]"
)
"""A system prompt, or a function that gives one for a reply."""


def check_system_prompt(prompt: object, agent: object) -> None:
    """Check `system_prompt=` of an agent."""
    if prompt is not None and not isinstance(prompt, str) and not callable(prompt):
        raise ConfigError(
            f"agent {agent!r}: system_prompt= must be a text or a function of the Context, got "
            f"{prompt!r:.80}"
        )
    if callable(prompt):
        check_function(f"agent {agent!r}: system_prompt=", prompt, "context")


def checked_prompt(text: Any) -> str:
    """Return the text of a prompt that a function has returned."""
    if text is not None and not isinstance(text, str):
        raise TypeError(f"it must return a text, got {text!r:.80}")
    return text or ""


def with_injected(
    kinds: Mapping[str, type], kwargs: dict[str, Any], context: Context[Any]
) -> dict[str, Any]:
    """Return arguments with values for injected parameters: the context, or a new object."""
    injected = {n: context if issubclass(kind, Context) else kind() for n, kind in kinds.items()}
    return {**kwargs, **injected}


@dataclass(slots=True, eq=False, repr=False)
class PendingQuestion(Coroutine[Any, Any, str]):
    """A question to a person, asked when the caller waits for the answer, or in a task."""

    _agent: Agent
    _question: Question
    _channel: CallChannel
    _loop: asyncio.AbstractEventLoop | None
    _ask_parent: Callable[[str], Awaitable[tuple[str, Sequence[str]] | None]] | None = None
    _coroutine: Coroutine[Any, Any, str] | None = None
    _outside: Sequence[str] = ()  # the sources of the answer

    def __await__(self) -> Generator[Any, None, str]:
        return self._answer().__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a task of `asyncio.create_task` does."""
        self._coroutine = self._coroutine or self._answer()
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error, such as its cancellation, where it waits."""
        self._coroutine = self._coroutine or self._answer()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Ask nothing more."""
        if self._coroutine is not None:
            self._coroutine.close()

    async def _answer(self) -> str:
        recall = self._channel.from_journal
        try:
            question = self._question
            text = await (self._ask(question) if recall is None else recall(question, self._ask))
        except Later as later:
            if later.question is not None:
                raise
            raise NobodyToAsk(
                f"agent {self._question.agent!r} has a question whose answer would come later: "
                "that needs a reply of an agent with a journal= here"
            ) from None
        if self._channel.on_answer is not None and not self._outside:
            self._channel.on_answer(text)
        return text

    async def _ask(self, question: Question) -> str:
        if self._channel.wait_for_reader is not None:
            await self._channel.wait_for_reader()  # a display shows the call before its question
        by_parent = self._ask_parent and await self._ask_parent(question.text)
        if by_parent is not None:
            text, self._outside = by_parent
            add_sources(self._outside, text)
            return text
        return await answer(self._agent.find_approver(), question)

    def result(self) -> str:
        """Wait for the answer in a thread."""
        if loop_is_running():
            raise RuntimeError(
                "ask_person(…).result() was called where an event loop is running, which would "
                "stop until somebody answers: await it instead"
            )
        if self._loop is None or not self._loop.is_running():
            return asyncio.run(self._answer())
        # The loop of the action's agent: an async approver may belong to it.
        future = asyncio.run_coroutine_threadsafe(self._answer(), self._loop)
        self._channel.thread_questions.add(future)
        if self._channel.is_cut_off:
            future.cancel()
        try:
            return future.result()
        finally:
            self._channel.thread_questions.discard(future)
