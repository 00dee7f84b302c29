"""The events of a reply, for readers of its stream and observers of its agent."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Generic, Self, get_type_hints

from typing_extensions import TypeVar

from moothall.agents.replies.events import EVENT_KINDS, Done, Event
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.state import codec_of, dump_state, reply_json, reply_of_json
from moothall.foundation.arguments import check_function
from moothall.foundation.errors import DefinitionError
from moothall.foundation.text import error_message
from moothall.foundation.threads import Channel, ProcessBound, call_observers, settle
from moothall.journal.stop_reason import StopReason
from moothall.models.protocol import ChatMessage, Usage

logger: logging.Logger = logging.getLogger("moothall.agents")

T = TypeVar("T")
R_co = TypeVar("R_co", bound=Reply[Any], covariant=True, default=Reply[Any])


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON data for another process."""
    if isinstance(event, Done):  # of a participant of a conversation
        return {"kind": event.kind, "agent": event.agent, "reply": reply_json(event.reply)}
    parts = {name: value for name, value in dump_state(event).items() if not name.startswith("_")}
    return {"kind": event.kind, **parts}


def event_of_json(data: Mapping[str, Any]) -> Event | None:
    """Return the event in JSON data; None if this program does not know it."""
    event_class = EVENT_KINDS.get(str(data.get("kind")))
    if event_class is None:
        return None
    try:
        if event_class is Done:
            return Done(str(data["agent"]), reply_of_json(data["reply"]))
        parts = {
            name: codec_of(dict if hint is ChatMessage else hint).load(data[name])
            for name, hint in _fields_of(event_class).items()
            if name in data
        }
        event: Event = event_class(**parts)
        return event
    except (ValueError, TypeError, LookupError) as error:
        logger.debug("an event of another agent cannot be read: %s", error)
        return None


@cache
def _fields_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.name[0] != "_"}


class _Events(Channel[Any]):
    """The events of a reply, on their way to the reader; among them marks, which it resolves."""

    closed = False

    async def wait_for_reader(self) -> None:
        """Wait until the reader has seen what was put so far, and asks for more."""
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(mark)
        if self.closed:  # it came after `close` had emptied the channel
            mark.cancel()
        await mark

    def close(self) -> None:
        """Cancel the tasks in `wait_for_reader`, now and later: nobody reads any more."""
        self.closed = True
        while self._values:
            if isinstance(mark := self._values.popleft(), asyncio.Future):
                settle(mark, cancel=True)


class ReplyStream(ProcessBound, Generic[R_co], remedy="pass its events or its reply"):
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
        answer: Callable[[ReplyRequest], Awaitable[R_co]],
    ) -> None:
        self._agent = agent
        self._request = request
        self._answer = answer
        self._events: _Events | None = None
        self._task: asyncio.Task[R_co] | None = None
        self._is_over = False
        self.reply: R_co | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._is_over:
            raise StopAsyncIteration
        events = self._events
        if events is None:
            events = self._events = _Events()
            self._request.emit, self._request.wait_for_reader = events.put, events.wait_for_reader
            self._task = asyncio.get_running_loop().create_task(_reply(self._answer, self._request))
            # The task itself is the last item, after all events that it has put.
            self._task.add_done_callback(events.put)
        assert self._task is not None
        try:
            while isinstance(event := await events.get(), asyncio.Future):
                if event is self._task:
                    self._is_over = True
                    self.reply = self._task.result()
                    return Done(self._agent, self.reply, **self._request.run_fields)
                settle(event)
        except asyncio.CancelledError:
            self._is_over = True
            self._task.cancel()
            events.close()
            raise
        return event  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Cancel the reply, if it has not ended, and wait until its work has ended."""
        self._is_over = True
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


async def _reply(answer: Callable[[ReplyRequest], Awaitable[T]], request: ReplyRequest) -> T:
    return await answer(request)


class Watchers:
    """The callbacks that are shown the events of all replies of an agent."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callable[[Event], Any], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callable[[Event], Any]) -> None:
        """Show a callback the events from now on."""
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise DefinitionError(f"watch takes a plain function, got {callback!r:.80}")
        check_function("watch: callback", callback, "event")
        self._callbacks = (*self._callbacks, callback)

    def remove(self, callback: Callable[[Event], Any]) -> None:
        """Show a callback nothing more."""
        if callback not in self._callbacks:
            raise KeyError(f"{callback!r:.80} watches nothing")
        self._callbacks = tuple(each for each in self._callbacks if each != callback)

    def show(self, event: Event) -> None:
        """Show an event; a callback that fails is removed."""
        for failed in call_observers(self._callbacks, lambda: event, "watcher", logger):
            self._callbacks = tuple(each for each in self._callbacks if each is not failed)

    def teller(self, emit: Callable[[Event], None] | None) -> Callable[[Event], None]:
        """Return what gives an event to `emit`, if that is something, and shows it."""

        def tell_both(event: Event) -> None:
            if emit is not None:
                emit(event)
            self.show(event)

        return tell_both

    async def reply(
        self,
        agent: str | int,
        answer: Callable[[ReplyRequest], Coroutine[Any, Any, Reply]],
        request: ReplyRequest,
    ) -> Reply:
        """Let an agent reply, and show the events."""
        request.emit = self.teller(request.emit)
        try:
            reply = await answer(request)
        except (Exception, asyncio.CancelledError) as error:
            reason: StopReason = "error" if isinstance(error, Exception) else "cancelled"
            detail = error_message(error) or type(error).__name__
            failed_reply = Reply("", None, [], [], Usage(), reason, detail, error, request.run_id)
            self.show(Done(str(agent), failed_reply, **request.run_fields))
            raise
        self.show(Done(str(agent), reply, **request.run_fields))
        return reply
