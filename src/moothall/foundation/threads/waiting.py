"""Waiting across threads and event loops: futures, channels, and lines of tasks."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from moothall.foundation.threads.closing import is_closing
from moothall.foundation.threads.locks import guard, in_child

T = TypeVar("T")


def settle(
    future: asyncio.Future[Any],
    value: Any = None,
    raised: BaseException | None = None,
    *,
    cancel: bool = False,
) -> bool:
    """Resolve or cancel a future, from any thread; return False if its loop is closed."""
    try:
        if cancel:
            future.get_loop().call_soon_threadsafe(future.cancel)
        else:
            future.get_loop().call_soon_threadsafe(_settle, future, value, raised)
    except RuntimeError:
        return False
    return True


class Channel(Generic[T]):
    """Carries values from any thread to the event loop in which it was made.

    It has no bound: who puts never waits for a slow reader.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._values: deque[T | BaseException] = deque()
        self._reader: asyncio.Future[None] | None = None

    def put(self, value: T | BaseException) -> None:
        """Pass on a value, or an exception for the reader."""
        self._values.append(value)
        # The reader sets `_reader` before it looks a last time, so one of the two sees the other.
        if self._reader is None:
            return
        with suppress(RuntimeError):  # the loop has ended, and the reader with it
            if threading.get_ident() == self._thread:
                self._wake()
            else:
                self._loop.call_soon_threadsafe(self._wake)

    async def get(self) -> T:
        """Return the next value; raise if it is an exception."""
        while not self._values:
            waiting = self._reader = self._loop.create_future()
            if not self._values:
                await waiting
        self._reader = None
        value = self._values.popleft()
        if isinstance(value, BaseException):
            raise value
        return value

    def _wake(self) -> None:
        waiting, self._reader = self._reader, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


class WaitingLine:
    """Tasks of any event loop that wait for something, in order of arrival."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._lock = guard()
        self._futures: dict[object, asyncio.Future[None]] = {}
        in_child(self._leave)

    def __len__(self) -> int:
        return len(self._futures)

    async def wait(self, look: Callable[[bool], tuple[T | None, float | None]]) -> T:
        """Return what `look` finds. Afterwards, also if cancelled, the caller wakes the first.

        Args:
            look: called at once, and each time that this task is woken, with whether it is the
                first whose loop runs; returns what was found, or None and in how many seconds to
                look again
        """
        ticket, loop = object(), asyncio.get_running_loop()
        try:
            while True:
                # A new future before each look: who wakes it during the look is not missed.
                with self._lock:
                    future = self._futures[ticket] = loop.create_future()
                    is_first_in_line = self._first() is future
                # Without the lock: it may write to a journal, and other loops would stand still.
                result, seconds = look(is_first_in_line)
                if result is not None:
                    return result
                if seconds is None:
                    await future
                else:
                    await self._wait_for_either(future, seconds)
        finally:
            with self._lock:
                self._futures.pop(ticket, None)

    def wake_first(self) -> None:
        """Have the first look again, and those before it whose loops stand still, once they run."""
        with self._lock:
            waiting = [*self._futures.values()]
        for future in waiting:
            if settle(future) and future.get_loop().is_running():
                return

    async def _wait_for_either(self, future: asyncio.Future[None], seconds: float) -> None:
        sleeper = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait((sleeper, future), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Closed, if the garbage collector closes this coroutine after its loop has ended.
            if not sleeper.get_loop().is_closed():
                sleeper.cancel()

    def _first(self) -> asyncio.Future[None] | None:
        with self._lock:
            for ticket, future in list(self._futures.items()):
                loop = future.get_loop()
                if loop.is_running():
                    return future
                if loop.is_closed():
                    self._futures.pop(ticket, None)
        return None

    def _leave(self) -> None:
        # What waits in the parent would be first for ever.
        self._futures.clear()


def _settle(future: asyncio.Future[Any], value: Any, raised: BaseException | None) -> None:
    if future.done():
        return
    if raised is None:
        future.set_result(value)
        return
    if isinstance(raised, StopIteration):
        # A future refuses it, since awaiting would end the awaiting generator instead.
        replacement = RuntimeError(f"StopIteration left the function: {raised.value!r}")
        replacement.__cause__ = raised
        raised = replacement
    future.set_exception(raised)


async def side_by_side(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines at once, and return their results; if one raises, the others are cancelled."""
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException as error:
        # A coroutine that is being closed can await nothing more.
        if not is_closing(error):
            for task in tasks:
                if not task.cancelling():  # a second one would cut its cleanup off
                    task.cancel()
            await to_its_end(asyncio.wait(tasks))
        raise


async def to_its_end(work: Awaitable[T]) -> T:
    """Return what work returns; a cancellation meanwhile is raised when the work has ended."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # Awaiting the task itself would cancel it with this one; `wait` leaves it running.
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation from None if task.cancelled() else task.exception()
    return task.result()
