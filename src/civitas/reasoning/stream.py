"""The events of replies: streams, and callbacks that watch an agent."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from civitas.errors import DefinitionError
from civitas.reasoning.events import Done, Event
from civitas.reasoning.reply import Reply
from civitas.text import log_failure
from civitas.threads import settle

if TYPE_CHECKING:
    from civitas.reasoning.reply_request import ReplyRequest

logger = logging.getLogger("civitas.reasoning")


class Line:
    """A queue of events from the thread of an agent to the loop that reads them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.events: deque[Event] = deque()
        self.waiting: asyncio.Future[None] | None = None
        # Waits for the reader to see all events; filled on the agent's side.
        self._looked: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event; callable in any thread."""
        self.events.append(event)
        # The reader sets `waiting` before it checks `events` a last time, so one of the two sees
        # the other.
        if self.waiting is None:
            return
        if threading.get_ident() == self._thread:
            self.wake()
            return
        with suppress(RuntimeError):  # the reader's loop has ended
            self._loop.call_soon_threadsafe(self.wake)

    async def seen(self) -> None:
        """Wait until the reader has seen what was added so far, and asks for more."""
        looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._looked.append(looked)
        # As with events: the reader sets `waiting` before it calls `look`.
        if self._closed:
            self.close()
        elif self.waiting is not None and not self.events:
            self.look()
        await looked

    def look(self) -> None:
        """Release the tasks in `seen`, if the reader has seen everything; else cancel them."""
        while self._looked:
            settle(self._looked.popleft(), cancel=self._closed)

    def close(self) -> None:
        """Cancel the tasks in `seen`, now and later: nobody reads any more."""
        self._closed = True
        self.look()

    def wake(self, _: Any = None) -> None:
        """Wake the reader."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


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
        self._line: Line | None = None
        self._task: asyncio.Task[Reply] | None = None
        self._over = False
        self.reply: Reply | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        line = self._line
        if line is None:
            line = self._line = Line()
            self._request.emit, self._request.seen = line.put, line.seen
            self._task = asyncio.get_running_loop().create_task(self._answer(self._request))
            self._task.add_done_callback(line.wake)
        assert self._task is not None
        while not line.events:
            if self._task.done():
                return self._last(self._task)
            waiting = line.waiting = asyncio.get_running_loop().create_future()
            if line.events or self._task.done():
                line.waiting = None
                continue
            line.look()
            try:
                await waiting
            except asyncio.CancelledError:
                self._over = True
                self._task.cancel()
                line.close()
                raise
        return line.events.popleft()

    def _last(self, task: asyncio.Task[Reply]) -> Event:
        self._over = True
        self.reply = task.result()
        return Done(self._agent, self.reply, **self._request.of_run)

    async def aclose(self) -> None:
        """Cancel the reply, if it has not ended, and wait until its work has ended."""
        self._over = True
        if self._line is None or self._task is None or self._task.done():
            return
        self._task.cancel()
        self._line.close()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()  # retrieve it, so that asyncio does not log it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task, line = self._task, self._line
        if line is not None and task is not None and not task.done():
            line.close()  # a participant may swallow the cancellation
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # its loop has ended


class Watched:
    """The part of an agent that shows the events of all its replies to callbacks."""

    _watchers: tuple[Callable[[Event], Any], ...] = ()

    def watch(self, callback: Callable[[Event], Any]) -> None:
        """Call `callback(event)` for the events of every reply: those that `stream` yields.

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
        reply = await answer(request)
        self._tell(Done(str(getattr(self, "id", "")), reply, **request.of_run))
        return reply
