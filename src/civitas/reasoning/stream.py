"""What happens while an agent replies: a stream of events, and callbacks that watch."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from civitas.errors import DefinitionError
from civitas.reasoning.events import Done, Event
from civitas.reasoning.reply import Reply
from civitas.text import log_failure
from civitas.threads import settle

if TYPE_CHECKING:
    from civitas.reasoning.reply_request import Asked

logger = logging.getLogger("civitas.reasoning")


class Line:
    """Events on their way from where an agent runs to the loop that reads them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.events: deque[Event] = deque()
        self.waiting: asyncio.Future[None] | None = None
        # Who waits until all has been seen; filled where the agent runs.
        self._looked: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event, in whatever thread the agent runs."""
        self.events.append(event)
        # The reader says that it waits before it looks a last time, so one of the two sees the
        # other.
        if self.waiting is None:
            return
        if threading.get_ident() == self._thread:
            self.wake()
            return
        with suppress(RuntimeError):  # the loop has ended, and with it whoever read
            self._loop.call_soon_threadsafe(self.wake)

    async def seen(self) -> None:
        """Wait until the reader has seen what was added so far, and asks for more."""
        looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._looked.append(looked)
        # As with events: the reader says that it waits before it looks who waits for that.
        if self._closed:
            self.close()
        elif self.waiting is not None and not self.events:
            self.look()
        await looked

    def look(self) -> None:
        """The reader has seen everything: who waits for that goes on."""
        while self._looked:
            settle(self._looked.popleft())

    def close(self) -> None:
        """Nobody reads any more: who waits for that is cancelled, now and later."""
        self._closed = True
        while self._looked:
            settle(self._looked.popleft(), cancel=True)

    def wake(self, _: Any = None) -> None:
        """Have the reader look again."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


class ReplyStream:
    """What happens while an agent replies: an async iterator of events, the last one `Done`.

    The reply begins when the first event is asked for. It is cancelled when the stream is closed,
    dropped, or the one who waits for an event is cancelled; `async with` closes it in any case:

        async with agent.stream("…") as events:
            async for event in events: ...

    Attributes:
        reply: the reply, once it is there
    """

    def __init__(
        self,
        agent: str,
        asked: Asked,
        answer: Callable[[Asked], Coroutine[Any, Any, Reply]],
    ) -> None:
        self._agent = agent
        self._asked = asked
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
            self._asked.emit, self._asked.seen = line.put, line.seen
            self._task = asyncio.get_running_loop().create_task(self._answer(self._asked))
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
                raise
        return line.events.popleft()

    def _last(self, task: asyncio.Task[Reply]) -> Event:
        self._over = True
        self.reply = task.result()
        return Done(self._agent, self.reply, **self._asked.of_run)

    async def aclose(self) -> None:
        """Cancel the reply, if it is not there yet, and wait until what it started has ended."""
        self._over = True
        if self._task is None or self._task.done():
            return
        self._task.cancel()
        if self._line is not None:
            self._line.close()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()  # looked at: nobody else will

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None and not task.done():
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # its loop has ended


class Watched:
    """An agent's part that shows what happens while it answers, whoever asked."""

    _watchers: tuple[Callable[[Event], Any], ...] = ()

    def watch(self, callback: Callable[[Event], Any]) -> None:
        """Have the events of every answer shown to `callback(event)`: those that `stream` gives.

        It is called in the task that answers, where the agent's `_current_message` is the message
        that is answered, or None. It may not block; if it raises, that is logged and it is called
        no more.

        Raises:
            DefinitionError: it is no plain function
        """
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise DefinitionError(f"watch takes a plain function, got {callback!r:.80}")
        self._watchers = (*self._watchers, callback)

    def unwatch(self, callback: Callable[[Event], Any]) -> None:
        """Show it no more.

        Raises:
            KeyError: it is shown nothing
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
        self, answer: Callable[[Asked], Coroutine[Any, Any, Reply]], asked: Asked
    ) -> Reply:
        """Reply, and tell who watches."""
        emit = asked.emit

        def both(event: Event) -> None:
            if emit is not None:
                emit(event)
            self._tell(event)

        asked.emit = both
        reply = await answer(asked)
        self._tell(Done(str(getattr(self, "id", "")), reply, **asked.of_run))
        return reply
