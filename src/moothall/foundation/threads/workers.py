"""Worker threads that grow with need: where plain `def` actions and callbacks run.

This is no `ThreadPoolExecutor`: there, as many blocked calls as workers starve all other calls, and
the interpreter does not exit before the last of them returns. Here a call that finds no idle
thread gets a new one, idle threads end by themselves, and all are daemons.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from moothall.foundation.errors import StateError, TooManyThreads
from moothall.foundation.threads.locks import guard, in_child
from moothall.foundation.threads.waiting import settle

logger: logging.Logger = logging.getLogger("moothall.foundation")

T = TypeVar("T")

IDLE_S: Final = 10.0
"""Seconds that a thread waits for another call before it ends."""
MAX_THREADS: Final = 4096
"""That many blocked calls are a defect of the program, not a load to support."""


def loop_is_running() -> bool:
    """Return whether this thread runs an event loop, of a space or not: waiting would block it."""
    return asyncio._get_running_loop() is not None


def refuse_on_loop(caller: str, replacement: str) -> None:
    """Raise RuntimeError if this thread runs an event loop, which the call would block."""
    if loop_is_running():
        text = (
            f"{caller} was called where an event loop is running, which would stop until it "
            f"returned: await {replacement} instead"
        )
        if is_patched_by_gevent():
            text += (
                ". This thread has greenlets of gevent, which share the loop of one of them: call "
                "it in a native thread, gevent.get_hub().threadpool.apply(FUNCTION, ARGUMENTS)"
            )
        raise RuntimeError(text)


def is_patched_by_gevent() -> bool:
    """Return whether the threads of this process are greenlets of gevent."""
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def refuse_greenlets(caller: str) -> None:
    """Raise StateError if gevent has made the threads of this process greenlets of one thread."""
    if is_patched_by_gevent():
        raise StateError(
            f"{caller} has a loop in a thread of its own, and gevent has made the threads of this "
            "process greenlets, which share one loop: use a process that gevent has not patched"
        )


def is_cancelled() -> bool:
    """Return whether this task is cancelled; if not, a CancelledError is that of what it awaits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def take_back_cancel() -> bool:
    """Take back one cancellation of this task; return whether nobody else has cancelled it."""
    task = asyncio.current_task()
    return task is not None and not task.uncancel()


class _WorkerCall(NamedTuple):
    """A call, and the function that receives its outcome."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context | None
    done: Callable[[Any, BaseException | None], object] | None


_JobQueue = SimpleQueue[_WorkerCall]
"""One thread's place in the pool: where it waits for its next job."""


class WorkerThreads:
    """Runs calls in daemon threads, the last idle first; no call waits for another."""

    def __init__(
        self, name: str = "moothall-worker", *, idle_s: float = IDLE_S, limit: int = MAX_THREADS
    ) -> None:
        self.name = name
        self.idle_s = idle_s
        self.limit = limit
        self._lock = guard()
        self._reset()
        in_child(self._reset)  # it has none of the threads

    def _reset(self) -> None:
        self._idle: list[_JobQueue] = []
        self.thread_count: int = 0  # how many there are now
        self._numbers = itertools.count(1)

    @property
    def idle_count(self) -> int:
        """How many threads wait for a call."""
        return len(self._idle)

    def submit(
        self,
        function: Callable[..., T],
        *args: Any,
        context: Context | None = None,
        done: Callable[[Any, BaseException | None], object] | None = None,
    ) -> None:
        """Call a function in a thread without waiting."""
        job = _WorkerCall(function, args, context, done)
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
                return
            if self.thread_count >= self.limit:
                raise TooManyThreads(
                    f"{self.thread_count} calls of plain functions are running or blocked, and "
                    f"{self.limit} are allowed; {job.function!r} was not called"
                )
            self.thread_count += 1
            number = next(self._numbers)
        worker = _JobQueue()
        worker.put(job)
        thread = threading.Thread(
            target=self._work, args=(worker,), name=f"{self.name}-{number}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                self.thread_count -= 1
            raise TooManyThreads(
                f"the system gives no thread beside {self.thread_count} ({error}); "
                f"{job.function!r} was not called"
            ) from error

    def run(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function in a thread; return a future of the loop that gets its outcome."""
        future: asyncio.Future[T] = loop.create_future()
        self.submit(function, *args, context=copy_context(), done=partial(settle, future))
        return future

    def _work(self, worker: _JobQueue) -> None:
        while True:
            try:
                job = worker.get(timeout=self.idle_s)
            except Empty:
                with self._lock:
                    if worker in self._idle:
                        self._idle.remove(worker)
                        self.thread_count -= 1
                        return
                continue  # just taken off the idle list: its job is there
            self._run_job(worker, job)
            del job  # keep no reference to the call after its end

    def _run_job(self, worker: _JobQueue, job: _WorkerCall) -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            if job.context is None:
                value = job.function(*job.args)
            else:
                value = job.context.run(job.function, *job.args)
        except BaseException as error:
            failure = error
        # Idle before the outcome is delivered: the next call finds this thread.
        with self._lock:
            self._idle.append(worker)
        try:
            if job.done is not None:
                job.done(value, failure)
            elif failure is not None:
                logger.error("%r failed in its thread", job.function, exc_info=failure)
        except BaseException:
            logger.exception("what %r calls when done failed", job.function)


WORKERS: Final = WorkerThreads()
"""The threads that environments share; the first starts when the first call needs it."""
