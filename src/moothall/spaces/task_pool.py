"""A pool of tasks that run handlers, with eager start.

Most handlers never wait, and creating a task for each message would cost more than the rest of its
handling. So a space keeps idle tasks, and runs a handler's first step at once in the caller, in the
name of one of them: `asyncio.current_task()`, `asyncio.timeout()` and context variables are that
task's. Only a handler that waits is handed over to the task, which then resumes it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import types
from asyncio import _enter_task, _leave_task, current_task, tasks  # for other task implementations
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from moothall.agents.agent import CURRENT
from moothall.budget.reservation import CALLERS_HOLDS
from moothall.foundation.threads import DATA_TYPES, awaited
from moothall.spaces.delivery import Delivery

logger: logging.Logger = logging.getLogger("moothall.spaces")

# Up to 3.11 `asyncio.current_task` is Python code: a frame for each message.
_current_task: Callable[[Any], Any] = (
    current_task if sys.version_info >= (3, 12) else tasks._current_tasks.get  # type: ignore[attr-defined]
)

_MAX_IDLE = 64
"""How many idle tasks are kept."""

_END = object()
"""What the `steps` of a worker yield when its handler has ended."""


@dataclass(slots=True, eq=False)
class _Worker:
    """A task, its context, and the handler that it runs."""

    context: Context = field(default_factory=Context)
    run: Callable[..., Any] = field(init=False)
    # Runs one handler after the other; it is sent a coroutine, and yields what that waits for, then
    # `_END` once `value` or `error` is set.
    steps: Callable[[Any], Any] = field(init=False)
    task: asyncio.Task[None] = field(init=False)
    wake_future: asyncio.Future[None] = field(init=False)  # what the idle task waits for
    delivery: Delivery | None = None
    first_coroutine: Coroutine[Any, Any, Any] | None = None
    is_handed_over: bool = False  # whether the task takes over what started in the caller
    yielded: Any = None  # what that handler waits for
    is_cancelling: bool = False
    is_abandoned: bool = False  # whether the loop ended before the handler
    value: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.run = self.context.run
        steps = _steps(self)
        next(steps)
        self.steps = steps.send


@dataclass(slots=True, eq=False, repr=False)
class TaskPool:
    """The tasks of one loop."""

    loop: asyncio.AbstractEventLoop
    on_end: Callable[[Delivery, Any, BaseException | None], None]
    _idle_workers: list[_Worker] = field(default_factory=list)
    _workers: set[_Worker] = field(default_factory=set)
    _is_closing: bool = False

    def start(self, delivery: Delivery, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a handler; if a task is idle, the first step runs before this returns."""
        idle_workers = self._idle_workers
        while True:
            if not idle_workers or delivery.reservations:
                self._spawn(delivery, coroutine)
                return
            worker = idle_workers.pop()
            if not worker.wake_future.done():
                break  # the others were cancelled from outside, and are about to end
        task = worker.task
        loop = self.loop
        delivery.worker = worker
        worker.delivery = delivery
        outer = _current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, task)
        yielded = worker.run(worker.steps, coroutine)
        _leave_task(loop, task)
        if outer is not None:
            _enter_task(loop, outer)
        if yielded is not _END:
            worker.yielded = yielded
            worker.is_handed_over = True
            if not worker.wake_future.done():
                worker.wake_future.set_result(None)
            return
        value, error = worker.value, worker.error
        delivery.worker = worker.delivery = worker.value = worker.error = None
        if len(worker.context) == 1:
            idle_workers.append(worker)
        else:
            self._workers.discard(worker)  # the handler left context variables behind
            task.cancel()
        self.on_end(delivery, value, error)

    def cancel(self, delivery: Delivery) -> None:
        """Cancel a handler at its next await."""
        worker: _Worker | None = delivery.worker
        if worker is None:
            return
        if worker.is_handed_over or worker.first_coroutine is not None:
            # The task has not resumed the handler yet: it cancels itself when it does.
            worker.is_cancelling = True
        else:
            worker.task.cancel()

    def delivery_of(self, task: asyncio.Task[Any] | None) -> Delivery | None:
        """Return the delivery that a task of the pool handles. Any thread may call this."""
        for worker in self._workers.copy():
            if worker.task is task:
                return worker.delivery
        return None

    def close(self) -> None:
        """Cancel every task; none becomes idle again."""
        self._is_closing = True
        for worker in list(self._workers):
            if worker.first_coroutine is not None:
                # A task that is cancelled before it starts would never look at its coroutine.
                worker.first_coroutine.close()
                if worker.delivery is not None:
                    worker.delivery.worker = None
                worker.first_coroutine = worker.delivery = None
                self._workers.discard(worker)
            worker.task.cancel()

    def abandon(self) -> None:
        """Log and abandon the handlers that ignored their cancellation: the loop has ended."""
        for worker in self._workers:
            worker.is_abandoned = True
            if worker.delivery is None:
                continue
            # asyncio would warn of a task that is collected while pending; this names its handler.
            worker.task._log_destroy_pending = False  # type: ignore[attr-defined]
            logger.warning("%s ignored its cancellation and was abandoned", worker.delivery)

    def _spawn(self, delivery: Delivery, coroutine: Coroutine[Any, Any, Any]) -> None:
        # A task that has not started can be cancelled without running at all, so a new one starts
        # its first handler itself; from then on, eager starts run in its name.
        worker = _Worker()
        worker.first_coroutine = coroutine
        worker.delivery = delivery
        delivery.worker = worker
        if delivery.reservations:
            worker.run(CALLERS_HOLDS.set, delivery.reservations)
        worker.task = self.loop.create_task(self._work(worker), context=worker.context)
        self._workers.add(worker)

    async def _work(self, worker: _Worker) -> None:
        """Run handlers in one task, one after the other."""
        try:
            while True:
                if worker.first_coroutine is not None:
                    coroutine, worker.first_coroutine = worker.first_coroutine, None
                    if worker.is_cancelling:
                        worker.is_cancelling = False
                        coroutine.close()
                        worker.error = asyncio.CancelledError()
                    else:
                        await _resume_handler(worker, worker.steps(coroutine))
                    del coroutine
                else:
                    worker.is_handed_over = False
                    yielded, worker.yielded = worker.yielded, None
                    if worker.is_cancelling:
                        worker.is_cancelling = False
                        worker.task.cancel()
                    await _resume_handler(worker, yielded)
                    del yielded
                delivery, worker.delivery = worker.delivery, None
                value, worker.value = worker.value, None
                error, worker.error = worker.error, None
                assert delivery is not None
                delivery.worker = None
                self.on_end(delivery, value, error)
                del delivery, value, error
                while worker.task.cancelling():
                    worker.task.uncancel()
                if (
                    self._is_closing
                    or len(worker.context) != 1
                    or len(self._idle_workers) >= _MAX_IDLE
                ):
                    return
                CURRENT.set(None)
                await self._wait_idle(worker)
                if not worker.is_handed_over:
                    return
        finally:
            self._workers.discard(worker)
            if worker.delivery is not None and not worker.is_abandoned:
                # Something awaited made asyncio close the task, as a future that raises
                # GeneratorExit does. That is an outcome too.
                self.on_end(worker.delivery, None, asyncio.CancelledError())

    async def _wait_idle(self, worker: _Worker) -> None:
        """Idle until there is a handler to take over."""
        wake_future = worker.wake_future = self.loop.create_future()
        self._idle_workers.append(worker)
        worker.task._log_destroy_pending = False  # type: ignore[attr-defined]  # idle, if collected
        try:
            await wake_future
            worker.task._log_destroy_pending = True  # type: ignore[attr-defined]
        except asyncio.CancelledError:
            if worker.is_handed_over:
                # After the handler's first step, something cancelled the task, such as a timeout
                # that the handler set: the handler must see the cancellation.
                worker.task.uncancel()
                worker.is_cancelling = True


@types.coroutine
def _steps(worker: _Worker) -> Generator[Any, Any, None]:
    """Run coroutines one after the other.

    `yield from` in one lasting generator, rather than a `send` to each coroutine from outside,
    avoids raising `StopIteration` for each.
    """
    coroutine = yield None
    while True:
        CURRENT.set(worker.delivery)
        try:
            value = yield from coroutine
            if value.__class__ not in DATA_TYPES:
                value = yield from awaited(value)  # an `await` that was forgotten, perhaps
            worker.value = value
        except BaseException as error:  # whatever an action raises is its outcome
            if worker.is_abandoned:
                raise
            worker.error = error
        coroutine = None
        coroutine = yield _END


@types.coroutine
def _resume_handler(worker: _Worker, yielded: Any) -> Generator[Any, Any, None]:
    """Resume a handler that waits for `yielded`, until it ends."""
    steps = worker.steps
    throw = steps.__self__.throw  # type: ignore[attr-defined]
    while yielded is not _END:
        try:
            value = yield yielded
        except BaseException as error:  # a cancellation: raise it where the handler waits
            yielded = throw(error)
        else:
            yielded = steps(value)
