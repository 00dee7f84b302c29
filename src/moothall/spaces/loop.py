"""The event loop of a space, in a thread of its own, and the way into it from other threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final

from moothall.agents.agent import CURRENT
from moothall.foundation.errors import RequestCancelled, SpaceClosed
from moothall.foundation.threads import in_child, refuse_greenlets

logger: logging.Logger = logging.getLogger("moothall.spaces")

_MAX_QUEUED_CALLS: Final = 256
"""How many calls may wait for the loop before a thread that sends waits in `send`."""

_MAX_WAIT_S: Final = 1.0
"""How long that thread waits at most. The loop may be waiting for a lock that the thread holds,
such as the lock of a log handler that sends messages."""

_TURN_S: Final = 0.005
"""How long the loop runs entered calls before its other work has a turn."""

_THREAD_LOCAL = threading.local()


class LoopThread:
    """Runs an event loop in a daemon thread, so that it never holds up the interpreter's exit."""

    @staticmethod
    def is_here() -> bool:
        """Return whether this thread runs a space: two that waited for each other stand still."""
        return getattr(_THREAD_LOCAL, "is_space", False)

    def __init__(self, name: str, on_close: Callable[[], Any], on_end: Callable[[], None]) -> None:
        self.name = name
        self.ident: int = 0  # the thread's, while it runs
        self.closed: bool = False  # whether the loop has ended, or is inherited
        # Whether it belongs to the process that this one was forked from.
        self.inherited: bool = False
        self.loop: asyncio.AbstractEventLoop
        self._entered_calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._blocked_threads: deque[SimpleQueue[None]] = deque()
        self._capacity = _MAX_QUEUED_CALLS
        self._is_wake_due = False
        self._on_close = on_close
        self._on_end = on_end
        # Entered calls must not see the context variables of the thread that wakes the loop.
        self._empty_context = Context()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._refuses_calls = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._futures: set[concurrent.futures.Future[Any]] = set()
        self._pid = 0
        in_child(self._inherit)

    def start(self) -> None:
        """Start the thread; return once the loop runs, or raise why it does not."""
        refuse_greenlets("a space")
        started = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._main, args=(started,), name=self.name, daemon=True
        )
        self._thread.start()
        # The caller enters its first call at once, and `loop` is set in the thread.
        started.wait()
        if self._failure is not None:
            raise self._failure

    def end_with(self, owner: Any) -> None:
        """End the loop once nobody holds the space any more: from now on, the loop does not."""
        # Weak: the thread holds the loop, and would keep the space alive by its methods.
        on_close, on_end = weakref.WeakMethod(self._on_close), weakref.WeakMethod(self._on_end)
        self._on_close = lambda: (on_close() or _do_nothing)()
        self._on_end = lambda: (on_end() or (lambda: None))()
        weakref.finalize(owner, self._end_soon).atexit = False

    def _end_soon(self) -> None:
        if hasattr(self, "loop") and not self.closed:  # it has started, and is not over
            self.call_soon(self.end)

    # -- the way in --------------------------------------------------------------------------------

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        """Enter a call with back-pressure: while many calls are queued, the thread waits for room.

        The loop of a space does not wait.
        """
        if self.closed or self._blocked_threads or len(self._entered_calls) >= self._capacity:
            self._wait_for_room()
        self._entered_calls.append((function, args))
        if self.closed or not self._is_wake_due:
            self._wake()

    def submit_large(self, function: Callable[..., Any], *args: Any) -> None:
        """Enter a call with much data: the thread waits, for a second at most, until it has run."""
        self.submit(function, *args)
        if self.closed or LoopThread.is_here():
            return
        signal: SimpleQueue[None] = SimpleQueue()
        self.call_soon(signal.put, None)
        with contextlib.suppress(Empty):
            signal.get(timeout=_MAX_WAIT_S)

    def _wait_for_room(self) -> None:
        self.check_process()
        if self.closed or LoopThread.is_here():
            return
        signal: SimpleQueue[None] = SimpleQueue()
        self._blocked_threads.append(signal)
        self._wake()  # so that the loop releases threads that wait
        try:
            signal.get(timeout=_MAX_WAIT_S)
        except Empty:
            with contextlib.suppress(ValueError):  # its turn came in this moment
                self._blocked_threads.remove(signal)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop, after all that was entered before.

        May be called in any thread and at any point, a finalizer included: it takes no lock. Once
        the loop has ended, the function runs in the calling thread.
        """
        # First: `_run_entered` clears `_is_wake_due` before it looks at the queue a last time, so
        # one of the two sees the other.
        self._entered_calls.append((function, args))
        if self.closed or not self._is_wake_due:
            self._wake()

    def _wake(self) -> None:
        if self.closed:
            self.drain()
        elif not self._is_wake_due:
            self._is_wake_due = True
            try:
                self.loop.call_soon_threadsafe(self._run_entered, context=self._empty_context)
            except RuntimeError:  # it ended a moment ago
                self.drain()

    def _run_entered(self) -> None:
        """Run the entered calls for `_TURN_S`, and the rest in the next turn of the loop."""
        # Until this ends, no thread needs to wake the loop.
        self.drain(time.monotonic() + _TURN_S)
        self._is_wake_due = False
        # Entered before `_is_wake_due` was cleared.
        if self._entered_calls or (self._blocked_threads and self._capacity):
            self._is_wake_due = True
            self.loop.call_soon(self._run_entered, context=self._empty_context)

    def drain(self, until: float = math.inf) -> None:
        """Run the entered calls: on the loop, or in any thread once it has ended."""
        if self.inherited:
            return  # the other process runs these calls
        # As many as there are now: calls that enter others would keep the loop from all else.
        for _ in range(len(self._entered_calls)):
            if time.monotonic() > until:
                break
            try:
                function, args = self._entered_calls.popleft()
            except IndexError:  # two threads drain an ended loop, or one of the calls did
                break
            try:
                function(*args)
            except BaseException:
                logger.exception("a defect in moothall: %r failed", function)
        self._release_waiting()

    def _release_waiting(self) -> None:
        """Release as many waiting threads as there is room for, the first ones first."""
        blocked = self._blocked_threads
        for _ in range(min(len(blocked), self._capacity - len(self._entered_calls))):
            try:
                blocked.popleft().put(None)
            except IndexError:  # it stopped waiting in this moment
                break

    def set_open(self, open: bool) -> None:
        """Admit threads that send, or make each of them wait. On the loop's thread only."""
        self._capacity = _MAX_QUEUED_CALLS if open else 0
        self._release_waiting()

    def check_process(self) -> None:
        """Raise `SpaceClosed` if the loop belongs to the process that forked this one."""
        if self.inherited:
            raise SpaceClosed(
                f"this space belongs to process {self._pid}, from which process {os.getpid()} "
                "was forked: make another in this process"
            )

    # -- what runs on the loop ---------------------------------------------------------------------

    def run(
        self, function: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> concurrent.futures.Future[Any]:
        """Call a function on the loop, after all that was entered before; return a future for it.

        If it returns a coroutine, a task awaits that, in `context` or an empty one; cancelling the
        future cancels the task. In a thread wait with `result()`, on another loop with
        `asyncio.wrap_future`.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.call_soon(self._run_function, future, function, args, context)
        return future

    def _run_function(
        self,
        future: concurrent.futures.Future[Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        self._futures.add(future)
        if self._refuses_calls:
            self._settle(future, None, SpaceClosed("the space is closed"))
            return
        try:
            value = function(*args)
        except BaseException as error:  # the caller that waits gets it
            self._settle(future, None, error)
            return
        if not inspect.iscoroutine(value):
            self._settle(future, value, None)
            return
        task = self.spawn(value, context)
        task.add_done_callback(partial(self._on_task_end, future))
        # A future is cancelled in any thread, and a task on its loop only.
        future.add_done_callback(
            lambda outcome: self.call_soon(task.cancel) if outcome.cancelled() else None
        )

    def _on_task_end(self, future: concurrent.futures.Future[Any], task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            error = task.exception()
            self._settle(future, None if error else task.result(), error)
        elif self._refuses_calls:
            self._settle(future, None, SpaceClosed("the space was closed"))
        else:
            # A CancelledError would look to the caller like its own cancellation.
            self._settle(future, None, RequestCancelled("it was cancelled"))

    def _settle(
        self, future: concurrent.futures.Future[Any], value: Any, error: BaseException | None
    ) -> None:
        self._futures.discard(future)
        if not future.set_running_or_notify_cancel():
            return  # the caller has given up
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a plain function on the loop, wait, and return or raise its outcome.

        Once the loop has ended, the function runs in the calling thread.
        """
        if self.closed or threading.get_ident() == self.ident:
            return function(*args)
        try:
            return self.run(function, *args).result()
        except SpaceClosed:
            if not self.closed:
                raise
            # It ended between the look and the call: no other thread runs this state any more.
            return function(*args)

    def spawn(self, coroutine: Any, context: Context | None = None) -> asyncio.Task[Any]:
        """Start a task that is kept until it ends. On the loop's thread only."""
        task: asyncio.Task[Any] = self.loop.create_task(coroutine, context=context or Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- its life ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the loop and wait for its end, except on the loop of a space."""
        if self.inherited:
            return
        self.call_soon(self.end)
        if self._thread is not None and not LoopThread.is_here():
            self._thread.join()

    def _inherit(self) -> None:
        """In a forked child, which has not its thread, be closed; the parent's lives on."""
        _THREAD_LOCAL.is_space = False
        # One that was never started has no thread that the child lacks, and may start there.
        if self._pid and not self.closed:
            self.closed = self.inherited = True
            self.ident = 0
            self._on_end()

    def end(self) -> None:
        """End the loop; called on it."""
        if not self._is_stopping:
            self._is_stopping = True
            self.loop.stop()

    def _main(self, started: threading.Event) -> None:
        try:
            loop = self.loop = asyncio.new_event_loop()
        except BaseException as error:  # such as no more file descriptors: `start` raises it
            self._failure = error
            started.set()
            return
        _THREAD_LOCAL.is_space = True
        self.ident = threading.get_ident()
        loop.call_soon(started.set)
        try:
            self._run_until(lambda: self._is_stopping)
            end_task = loop.create_task(self._shut_down())
            end_task.add_done_callback(lambda _: loop.stop())
            self._run_until(end_task.done)
            end_task.result()
        finally:
            # Closed first, then drained: what is entered later runs in its own thread, the rest
            # here.
            self.closed = self._refuses_calls = True
            self._capacity = _MAX_QUEUED_CALLS
            self.ident = 0
            self._on_end()
            loop.close()
            self.drain()
            for future in list(self._futures):  # of tasks that ignored their cancellation
                self._settle(future, None, SpaceClosed("the space was closed"))

    def _run_until(self, is_done: Callable[[], bool]) -> None:
        """Run the loop until `is_done()`, even if a task of an agent stops it.

        asyncio lets SystemExit and KeyboardInterrupt out of a task, and any task may call `stop`.
        """
        while not is_done():
            try:
                self.loop.run_forever()
            except BaseException as error:
                logger.exception(
                    "%s raised %s in a space; its loop continues",
                    _source_of(error.__traceback__),
                    type(error).__name__,
                )
            else:
                if not is_done():
                    logger.error("something in a space has stopped the space's loop; it continues")

    async def _shut_down(self) -> None:
        await self._on_close()
        self._refuses_calls = True
        current = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            # A task that will not be cancelled must not keep the space from closing.
            await asyncio.wait(tasks, timeout=1.0)
        await self.loop.shutdown_asyncgens()


async def _do_nothing() -> None:
    """Close nothing: the space is gone."""


def _source_of(traceback: TracebackType | None) -> str:
    """Describe the callback or task that raised, and the agent whose handler started it."""
    while traceback is not None:
        handle = traceback.tb_frame.f_locals.get("self")
        if isinstance(handle, asyncio.Handle):
            callback = getattr(handle, "_callback", None)
            task = getattr(callback, "__self__", None)
            source = (
                f"task {task.get_name()!r}" if isinstance(task, asyncio.Task) else f"{callback}"
            )
            context = getattr(handle, "_context", None)
            handling = None if context is None else context.get(CURRENT)
            agent = None if handling is None else handling.agent
            return source if agent is None else f"{source} of agent {agent.id!r}"
        traceback = traceback.tb_next
    return "something"
