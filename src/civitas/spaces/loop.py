"""The event loop of a space, in a thread of its own, and the way into it from other threads."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from civitas.errors import RequestCancelled, SpaceClosed

__all__ = ["LoopThread", "loop_is_running", "on_a_space"]

T = TypeVar("T")

logger = logging.getLogger("civitas.space")


_HERE = threading.local()


def loop_is_running() -> bool:
    """Whether this thread runs an event loop, of a space or not, that waiting would hold up."""
    return asyncio._get_running_loop() is not None


def on_a_space() -> bool:
    """Whether this thread runs a space: two that waited for each other would wait for ever."""
    return getattr(_HERE, "is_space", False)


class LoopThread:
    """Runs an event loop in a daemon thread, so that it never holds up the interpreter's exit.

    Args:
        name: the thread's name
        closing: an async function, awaited on the loop when `stop` is called, before it ends
        over: called in the thread when the loop has ended

    Attributes:
        ident: the thread's identifier, 0 before it runs
        closed: whether the loop has ended
    """

    def __init__(self, name: str, closing: Callable[[], Any], over: Callable[[], None]) -> None:
        self.name = name
        self.ident = 0
        self.closed = False
        self.loop: asyncio.AbstractEventLoop
        self.ingress: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._woken = False
        self._closing = closing
        self._over = over
        # Nothing that is entered is to see the context variables of whoever happened to wake us.
        self._nobody = Context()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stopping: asyncio.Event
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Start the thread; returns once the loop runs, or raises why it does not."""
        running = threading.Event()
        self._thread = threading.Thread(
            target=self._main, args=(running,), name=self.name, daemon=True
        )
        self._thread.start()
        running.wait()
        if self._failure is not None:
            raise self._failure

    def enter(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called on the loop, after all that was entered before.

        May be called in any thread and at any point, a finalizer included: it takes no lock. Once
        the loop has ended, the function is called here.
        """
        self.ingress.append((function, args))
        if self.closed:
            self.drain()
        elif not self._woken:
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self.drain, context=self._nobody)
            except RuntimeError:  # it ended a moment ago
                self.drain()

    def drain(self) -> None:
        """Call what was entered."""
        self._woken = False
        ingress = self.ingress
        while ingress:
            try:
                function, args = ingress.popleft()
            except IndexError:  # two threads drain an ended loop
                return
            try:
                function(*args)
            except Exception:
                logger.exception("a defect in civitas: %r failed", function)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function on the loop and wait for what it returns or raises."""
        if threading.get_ident() == self.ident:
            return function(*args)
        ended = threading.Event()
        value: Any = None
        raised: BaseException | None = None

        def run() -> None:
            nonlocal value, raised
            try:
                value = function(*args)
            except BaseException as error:  # handed to the caller's thread
                raised = error
            ended.set()

        self.enter(run)
        ended.wait()
        if raised is not None:
            try:
                raise raised
            finally:
                raised = None
        return value

    def spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        """Start a task that is kept until it ends. On the loop's thread only."""
        task: asyncio.Task[Any] = self.loop.create_task(coroutine, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def carry(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on this loop, from whichever loop this is awaited.

        Cancelling the one who awaits cancels it.

        Raises:
            SpaceClosed: the loop has ended, or ends before the function
            RequestCancelled: the function was cancelled from elsewhere
        """
        if threading.get_ident() == self.ident:
            return await function()
        if self.closed or not self.ident:
            raise SpaceClosed("the space is closed")
        here = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = here.create_future()
        task: asyncio.Task[T] | None = None

        def end(value: T | None, error: BaseException | None) -> None:
            if outcome.done():
                return
            if error is None:
                outcome.set_result(value)  # type: ignore[arg-type]
            else:
                outcome.set_exception(error)

        def tell(value: T | None, error: BaseException | None) -> None:
            try:
                here.call_soon_threadsafe(end, value, error)
            except RuntimeError:
                return  # the caller's loop is closed: nobody waits there any more

        def ended(task: asyncio.Task[T]) -> None:
            if not task.cancelled():
                error = task.exception()
                tell(None if error else task.result(), error)
            elif self._stopping.is_set():
                tell(None, SpaceClosed("the space was closed"))
            else:
                tell(None, RequestCancelled("it was cancelled"))

        def begin() -> None:
            nonlocal task
            if self.closed:
                tell(None, SpaceClosed("the space is closed"))
                return
            task = self.spawn(function())
            task.add_done_callback(ended)

        self.enter(begin)
        try:
            return await outcome
        except asyncio.CancelledError:
            self.enter(lambda: task and task.cancel())
            raise

    def stop(self) -> None:
        """End the loop, and wait for that, but not on the loop of a space."""
        self.enter(self._stop)
        if self._thread is not None and not on_a_space():
            self._thread.join()

    def _stop(self) -> None:
        if not self.closed:
            self._stopping.set()

    def _main(self, running: threading.Event) -> None:
        try:
            loop = self.loop = asyncio.new_event_loop()
        except BaseException as error:  # no more file descriptors, say: for whoever called start
            self._failure = error
            running.set()
            return
        asyncio.set_event_loop(loop)
        _HERE.is_space = True
        self.ident = threading.get_ident()
        self._stopping = asyncio.Event()
        loop.call_soon(running.set)
        try:
            loop.run_until_complete(self._life())
        finally:
            self.closed = True
            self.ident = 0
            self._over()
            asyncio.set_event_loop(None)
            loop.close()
            self.drain()

    async def _life(self) -> None:
        await self._stopping.wait()
        await self._closing()
        me = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not me]
        for task in left:
            task.cancel()
        if left:
            # A task that will not be cancelled must not keep the space from closing.
            await asyncio.wait(left, timeout=1.0)
        await self.loop.shutdown_asyncgens()
