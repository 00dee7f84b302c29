"""The events of replies: streams, and callbacks that watch an agent."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

from moothall.errors import DefinitionError
from moothall.models.protocol import Usage
from moothall.reasoning.events import Done, Event
from moothall.reasoning.reply import Reply, StopReason
from moothall.text import error_message, log_failure
from moothall.threads import Channel, settle

if TYPE_CHECKING:
    from moothall.reasoning.reply_request import ReplyRequest

logger = logging.getLogger("moothall.reasoning")


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


class ReplyStream:
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
        answer: Callable[[ReplyRequest], Coroutine[Any, Any, Reply]],
    ) -> None:
        self._agent = agent
        self._request = request
        self._answer = answer
        self._events: _Events | None = None
        self._task: asyncio.Task[Reply] | None = None
        self._over = False
        self.reply: Reply | None = None

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

    def _last(self, task: asyncio.Task[Reply]) -> Event:
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
