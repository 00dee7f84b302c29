"""A pool of tasks that run handlers, with eager start.

Most handlers never wait, and creating a task for each message would cost more than the rest of its
handling. So a space keeps idle tasks, and runs a handler's first step at once in the caller, in the
name of one of them: `asyncio.current_task()`, `asyncio.timeout()` and context variables are that
task's. Only a handler that waits is handed over to the task, which then resumes it.
"""

from __future__ import annotations

import asyncio
import logging
import types
from asyncio import _enter_task, _leave_task, current_task  # for other task implementations
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from moothall.agents.agent import CURRENT
from moothall.budget.reservation import CALLERS_HOLDS
from moothall.foundation.threads import DATA, awaited
from moothall.spaces.delivery import Delivery

logger: logging.Logger = logging.getLogger("moothall.space")

_IDLE = 64
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
    wake: asyncio.Future[None] = field(init=False)  # what the idle task waits for
    delivery: Delivery | None = None
    unbegun: Coroutine[Any, Any, Any] | None = None
    handed: bool = False  # whether the task is to take over a handler that started in the caller
    yielded: Any = None  # what that handler waits for
    cancelling: bool = False
    abandoned: bool = False  # whether the loop ended before the handler
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
    _idle: list[_Worker] = field(default_factory=list)
    _workers: set[_Worker] = field(default_factory=set)
    _closing: bool = False
    in_no_task: bool = False  # whether `start` is known to be called outside of any task

    def start(self, delivery: Delivery, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a handler; if a task is idle, the first step runs before this returns."""
        idle = self._idle
        while True:
            if not idle or delivery.reservations:
                self._spawn(delivery, coroutine)
                return
            worker = idle.pop()
            if not worker.wake.done():
                break  # the others were cancelled from outside, and are about to end
        task = worker.task
        loop = self.loop
        delivery.worker = worker
        worker.delivery = delivery
        in_no_task = self.in_no_task
        if in_no_task:
            self.in_no_task, outer = False, None
        elif (outer := current_task(loop)) is not None:
            _leave_task(loop, outer)
        _enter_task(loop, task)
        yielded = worker.run(worker.steps, coroutine)
        _leave_task(loop, task)
        if outer is not None:
            _enter_task(loop, outer)
        self.in_no_task = in_no_task
        if yielded is not _END:
            worker.yielded = yielded
            worker.handed = True
            if not worker.wake.done():
                worker.wake.set_result(None)
            return
        value, error = worker.value, worker.error
        delivery.worker = worker.delivery = worker.value = worker.error = None
        if len(worker.context) == 1:
            idle.append(worker)
        else:
            self._workers.discard(worker)  # the handler left context variables behind
            task.cancel()
        self.on_end(delivery, value, error)

    def cancel(self, delivery: Delivery) -> None:
        """Cancel a handler at its next await."""
        worker: _Worker | None = delivery.worker
        if worker is None:
            return
        if worker.handed or worker.unbegun is not None:
            # The task has not resumed the handler yet: it cancels itself when it does.
            worker.cancelling = True
        else:
            worker.task.cancel()

    def owner(self, task: asyncio.Task[Any] | None) -> Delivery | None:
        """Return the delivery that a task of the pool handles. Any thread may call this."""
        for worker in self._workers.copy():
            if worker.task is task:
                return worker.delivery
        return None

    def close(self) -> None:
        """Cancel every task; none becomes idle again."""
        self._closing = True
        for worker in list(self._workers):
            if worker.unbegun is not None:
                # A task that is cancelled before it starts would never look at its coroutine.
                worker.unbegun.close()
                if worker.delivery is not None:
                    worker.delivery.worker = None
                worker.unbegun = worker.delivery = None
                self._workers.discard(worker)
            worker.task.cancel()

    def abandon(self) -> None:
        """Log and abandon the handlers that ignored their cancellation: the loop has ended."""
        for worker in self._workers:
            worker.abandoned = True
            if worker.delivery is None:
                continue
            # asyncio would warn of a task that is collected while pending; this names its handler.
            worker.task._log_destroy_pending = False  # type: ignore[attr-defined]
            logger.warning("%s ignored its cancellation and was abandoned", worker.delivery)

    def _spawn(self, delivery: Delivery, coroutine: Coroutine[Any, Any, Any]) -> None:
        # A task that has not started can be cancelled without running at all, so a new one starts
        # its first handler itself; from then on, eager starts run in its name.
        worker = _Worker()
        worker.unbegun = coroutine
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
                if worker.unbegun is not None:
                    coroutine, worker.unbegun = worker.unbegun, None
                    if worker.cancelling:
                        worker.cancelling = False
                        coroutine.close()
                        worker.error = asyncio.CancelledError()
                    else:
                        await _drive(worker, worker.steps(coroutine))
                    del coroutine
                else:
                    worker.handed = False
                    yielded, worker.yielded = worker.yielded, None
                    if worker.cancelling:
                        worker.cancelling = False
                        worker.task.cancel()
                    await _drive(worker, yielded)
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
                if self._closing or len(worker.context) != 1 or len(self._idle) >= _IDLE:
                    return
                CURRENT.set(None)
                await self._park(worker)
                if not worker.handed:
                    return
        finally:
            self._workers.discard(worker)
            if worker.delivery is not None and not worker.abandoned:
                # Something awaited made asyncio close the task, as a future that raises
                # GeneratorExit does. That is an outcome too.
                self.on_end(worker.delivery, None, asyncio.CancelledError())

    async def _park(self, worker: _Worker) -> None:
        """Idle until there is a handler to take over."""
        wake = worker.wake = self.loop.create_future()
        self._idle.append(worker)
        worker.task._log_destroy_pending = False  # type: ignore[attr-defined]  # idle, if collected
        try:
            await wake
            worker.task._log_destroy_pending = True  # type: ignore[attr-defined]
        except asyncio.CancelledError:
            if worker.handed:
                # After the handler's first step, something cancelled the task, such as a timeout
                # that the handler set: the handler must see the cancellation.
                worker.task.uncancel()
                worker.cancelling = True


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
            if value.__class__ not in DATA:
                value = yield from awaited(value)  # an `await` that was forgotten, perhaps
            worker.value = value
        except BaseException as error:  # whatever an action raises is its outcome
            if worker.abandoned:
                raise
            worker.error = error
        coroutine = None
        coroutine = yield _END


@types.coroutine
def _drive(worker: _Worker, yielded: Any) -> Generator[Any, Any, None]:
    """Resume a handler that waits for `yielded`, until it ends."""
    steps = worker.steps
    throw = steps.__self__.throw  # type: ignore[attr-defined]
    while yielded is not _END:
        try:
            sent = yield yielded
        except BaseException as error:  # a cancellation: raise it where the handler waits
            yielded = throw(error)
        else:
            yielded = steps(sent)
