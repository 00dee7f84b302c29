"""How an agent is asked for a reply: for itself, as a stream of its events, or watched."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, overload

from typing_extensions import TypeVar

from moothall.errors import DefinitionError
from moothall.models.protocol import Usage
from moothall.reasoning.events import Done, Event
from moothall.reasoning.reply import Reply, StopReason
from moothall.reasoning.reply_request import ReplyRequest
from moothall.text import error_message, log_failure
from moothall.threads import Channel, refuse_on_loop, settle

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.reasoning")

T = TypeVar("T")
R_co = TypeVar("R_co", bound=Reply[Any], covariant=True, default=Reply[Any])


class _Events(Channel[Any]):
    """The events of a reply, on their way to the reader; among them marks, which it resolves."""

    closed = False

    async def seen(self) -> None:
        """Wait until the reader has seen what was put so far, and asks for more."""
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(mark)
        if self.closed:
            mark.cancel()
        await mark

    def close(self) -> None:
        """Cancel the tasks in `seen`, now and later: nobody reads any more."""
        self.closed = True
        while self._came:
            if isinstance(mark := self._came.popleft(), asyncio.Future):
                settle(mark, cancel=True)


class ReplyStream(Generic[R_co]):
    """The events of a reply: an async iterator, whose last event is `Done`.

    The reply begins when the first event is requested. It is cancelled when the stream is closed or
    dropped, or when a task that waits for an event is cancelled; `async with` always closes it:

        async with agent.stream("…") as events:
            async for event in events: ...

    Attributes:
        reply: the reply, once it has ended
    """

    def __init__(
        self,
        agent: str,
        request: ReplyRequest,
        answer: Callable[[ReplyRequest], Coroutine[Any, Any, R_co]],
    ) -> None:
        self._agent = agent
        self._request = request
        self._answer = answer
        self._events: _Events | None = None
        self._task: asyncio.Task[R_co] | None = None
        self._over = False
        self.reply: R_co | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        events = self._events
        if events is None:
            events = self._events = _Events()
            self._request.emit, self._request.seen = events.put, events.seen
            self._task = asyncio.get_running_loop().create_task(self._answer(self._request))
            self._task.add_done_callback(events.put)
        assert self._task is not None
        try:
            while isinstance(event := await events.get(), asyncio.Future):
                if event is self._task:
                    return self._last(self._task)
                settle(event)
        except asyncio.CancelledError:
            self._over = True
            self._task.cancel()
            events.close()
            raise
        return event  # type: ignore[no-any-return]

    def _last(self, task: asyncio.Task[R_co]) -> Event:
        self._over = True
        self.reply = task.result()
        return Done(self._agent, self.reply, **self._request.of_run)

    async def aclose(self) -> None:
        """Cancel the reply, if it has not ended, and wait until its work has ended."""
        self._over = True
        if self._events is None or self._task is None or self._task.done():
            return
        self._task.cancel()
        self._events.close()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()  # retrieve it, so that asyncio does not log it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task, events = self._task, self._events
        if events is not None and task is not None and not task.done():
            events.close()  # a participant may swallow the cancellation
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # its loop has ended


class ReplyOptions(TypedDict, total=False):
    """What `reply`, `reply_sync` and `stream` take by name only."""

    deps: Any
    budget: Budget | None


class Asked:
    """The part of an agent that is asked: for a reply, or for the stream of its events."""

    id: str | int

    async def _reply_on_loop(self, request: ReplyRequest) -> Reply[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not say how it replies")

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
    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        *,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> Reply[Any]:
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
            thread: the id of the conversation, each with a memory of its own; defaults to the
                agent's own
            run_id: the id of the run; a new one by default. With a journal, an unfinished run of
                this id is resumed, and one that has ended returns its reply again.
            deps: what actions find in their `Context` in this reply; defaults to the agent's own
            budget: what this reply may spend, within the agent's own budget

        Raises:
            TypeError, ValueError: an argument is not valid
            DefinitionError: the schema is not valid, the memory has no threads, or the budget
                limits a cost that is not known
            ConfigError: the budget is not part of the agent's own
            RunHeld: the run is in use elsewhere
            RunMismatch: another program began it
            JournalError: the journal cannot be used, or is damaged; once the run is under way, it
                stops with the reason `error` instead
        """
        return await self._reply_on_loop(ReplyRequest(text, schema, thread, run_id, deps, budget))

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
    def reply_sync(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        *,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> Reply[Any]:
        """Call `reply` from a script, and wait for the answer.

        Raises:
            RuntimeError: called where an event loop is running, which it would block
        """
        refuse_on_loop(f"reply_sync of agent {self.id!r}", "reply(text)")
        options: Any = {} if deps is None and budget is None else {"deps": deps, "budget": budget}
        return asyncio.run(self.reply(text, schema, thread, run_id, **options))

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
    def stream(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        *,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> ReplyStream[Reply[Any]]:
        """Answer, and stream the events of the reply.

        The arguments are those of `reply`. The reader sees an action's `CallStarted` before its
        approver is asked: the reply continues when the next event is requested.

        Returns:
            An async iterator of events: pieces of text as the model gives them, calls started and
            ended, messages remembered, and last `Done` with the reply. Closing or dropping it
            cancels the reply.

        Raises:
            TypeError, ValueError: an argument is not valid
            DefinitionError: the schema is not valid
        """
        request = ReplyRequest(text, schema, thread, run_id, deps, budget)
        return ReplyStream(str(self.id), request, self._reply_on_loop)


class Watched:
    """The part of an agent that shows the events of all its replies to callbacks."""

    _watchers: tuple[Callable[[Event], Any], ...] = ()

    def watch(self, callback: Callable[[Event], Any]) -> None:
        """Call `callback(event)` for the events of every reply: those that `stream` yields.

        The last one is `Done`, also where the reply was cancelled or raised: the `stop_reason` of
        its reply is then `cancelled` or `error`, with nothing but the error in it.

        It is called in the task of the reply, where the agent's `_current_message` is the message
        being answered, or None. It must not block. If it raises, the error is logged and it is
        removed.

        Raises:
            DefinitionError: it is not a plain function
        """
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise DefinitionError(f"watch takes a plain function, got {callback!r:.80}")
        self._watchers = (*self._watchers, callback)

    def unwatch(self, callback: Callable[[Event], Any]) -> None:
        """Remove a callback.

        Raises:
            KeyError: it is not registered
        """
        if callback not in self._watchers:
            raise KeyError(f"{callback!r:.80} watches nothing")
        self._watchers = tuple(each for each in self._watchers if each != callback)

    def _tell(self, event: Event) -> None:
        for callback in self._watchers:
            try:
                callback(event)
            except Exception as error:
                about = f"{callback!r} failed as it watched, and is called no more"
                log_failure(logger, about, error)
                self._watchers = tuple(each for each in self._watchers if each != callback)

    async def _answered(
        self, answer: Callable[[ReplyRequest], Coroutine[Any, Any, Reply]], request: ReplyRequest
    ) -> Reply:
        """Reply, and call the watchers."""
        emit = request.emit

        def both(event: Event) -> None:
            if emit is not None:
                emit(event)
            self._tell(event)

        request.emit = both
        try:
            reply = await answer(request)
        except (Exception, asyncio.CancelledError) as error:
            reason: StopReason = "error" if isinstance(error, Exception) else "cancelled"
            detail = error_message(error) or type(error).__name__
            ended = Reply("", None, [], [], Usage(), reason, detail, error, request.run_id)
            self._tell(Done(str(getattr(self, "id", "")), ended, **request.of_run))
            raise
        self._tell(Done(str(getattr(self, "id", "")), reply, **request.of_run))
        return reply
