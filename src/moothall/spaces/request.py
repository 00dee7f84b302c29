"""The object that `Agent.request` returns: the sender waits here for the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX, get_ident
from typing import Any

from moothall.actions.provenance.reading import add_sources
from moothall.agents.agent import CURRENT
from moothall.foundation.errors import ActionError, ConfigError, RequestCancelled
from moothall.spaces.delivery import Delivery, RouterPort


class Request:
    """A request under way, or its outcome.

    Await it in async code, on any loop; wait in a thread with `result`. It ends exactly once.
    Dropping the last reference to it cancels it.

    Attributes:
        delivery: the message, with its outcome once it has ended
        router: what sends it
    """

    __slots__ = ("__weakref__", "delivery", "router")

    def __init__(self, delivery: Delivery, router: RouterPort) -> None:
        self.delivery: Delivery = delivery
        self.router: RouterPort = router

    def __del__(self) -> None:
        delivery = self.delivery
        if not delivery.answered:
            # May run in any thread, at any point: it only posts to the loop.
            self.router.drop(delivery)

    def __await__(self) -> Generator[Any, None, Any]:
        delivery = self.delivery
        if not delivery.answered:
            router = self.router
            if get_ident() == router.thread_id:
                handling: Any = CURRENT.get()
                if handling is not None:
                    # While it waits, its agent runs re-entrant requests of its call chain.
                    handling.wait_count += 1
                try:
                    router.try_now(delivery)
                    if not delivery.answered:
                        if handling is not None and handling.mailbox.reentrant_messages:
                            router.make_ready(handling.mailbox)
                        yield from self._wait_on_own_loop(router.loop)
                finally:
                    if handling is not None:
                        handling.wait_count -= 1
            else:
                yield from self._wait_on_other_loop()
        if delivery.read or delivery.mailbox is None:
            _pass_sources(delivery)
        if delivery.error is not None:
            raise delivery.error.with_traceback(None)
        return delivery.value

    def _wait_on_own_loop(self, loop: asyncio.AbstractEventLoop) -> Generator[Any, None, None]:
        delivery = self.delivery
        future: asyncio.Future[None] = loop.create_future()
        # One waiter is the rule, and needs no lock; every further one is a callback.
        if delivery.waiter is None:
            delivery.waiter = future
        else:
            delivery.on_end(lambda: settle(future))
        try:
            yield from future
        except BaseException:  # the waiting task is cancelled, or its generator closed
            self.cancel()
            raise

    def _wait_on_other_loop(self) -> Generator[Any, None, None]:
        """Wait on a loop that is not the space's."""
        self.router.thread.check_process()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(settle, future)
            except RuntimeError:
                return  # that loop is closed: nothing waits there any more

        self.delivery.on_end(wake)
        handling: Any = CURRENT.get()
        try:
            with waiting_outside(handling, self.delivery):
                yield from future
        except BaseException:
            self.cancel()
            raise

    def result(self, timeout: float | None = None) -> Any:
        """Wait in a thread; return the value or raise the error."""
        check_timeout("timeout=", timeout)
        delivery = self.delivery
        if not delivery.answered:
            if get_ident() == self.router.thread_id:
                raise RuntimeError(
                    f"result() of the request to {delivery} was called on the space's own loop, "
                    "where it would wait for ever: await the request instead"
                )
            self.router.thread.check_process()
            # Not an Event, whose lock this thread may hold when a signal handler closes the space.
            signal: SimpleQueue[None] = SimpleQueue()
            notify = partial(signal.put, None)
            delivery.on_end(notify)
            try:
                with waiting_outside(CURRENT.get(), delivery):
                    # A queue refuses a negative time, and one that no lock can wait.
                    signal.get(
                        timeout=None if timeout is None else min(max(timeout, 0), TIMEOUT_MAX)
                    )
            except Empty:
                delivery.not_on_end(notify)
                text = f"the request to {delivery} has not ended in {timeout} s"
                raise TimeoutError(text) from None
        if delivery.read or delivery.mailbox is None:
            _pass_sources(delivery)
        if delivery.error is not None:
            raise delivery.error.with_traceback(None)
        return delivery.value

    def cancel(self) -> None:
        """End the request as `RequestCancelled`; the receiver's action is cancelled too."""
        delivery = self.delivery
        if not delivery.answered:
            error = RequestCancelled(f'the request to "{delivery}" was cancelled')
            self.router.call_soon(self.router.abort, delivery, error)

    def done(self) -> bool:
        """Return whether the outcome is there."""
        return self.delivery.answered

    def __repr__(self) -> str:
        state = "ended" if self.delivery.answered else "pending"
        return f"<Request to {self.delivery}, {state}>"


def _pass_sources(delivery: Delivery) -> None:
    """Give the reader of an answer the outside sources that it comes from."""
    if delivery.upward is not None and delivery.upward.cause is not None:
        return  # there is no answer yet
    handling: Any = CURRENT.get()
    sources = delivery.read
    if delivery.mailbox is None:  # of another process, or of nobody
        to = delivery.envelope.to
        if not (delivery.error is None or isinstance(delivery.error, ActionError)):
            return
        if handling is not None and handling.agent is not None and to in handling.agent.trusted:
            return
        sources = (f"agent {to}",)
    if sources:
        add_sources(sources, delivery.value)
    if handling is not None:
        handling.has_read(sources)


def check_timeout(name: str, value: object) -> None:
    """Raise ConfigError unless a value is a number of seconds, also a negative one, or None."""
    if value is not None and (type(value) not in (int, float) or value != value):
        raise ConfigError(f"{name} must be a number of seconds or None, got {value!r:.80}")


def settle(future: asyncio.Future[Any], value: Any = None) -> None:
    """Set a future's value, unless it is done."""
    if not future.done():
        future.set_result(value)


@contextmanager
def waiting_outside(handling: Any, delivery: Delivery) -> Iterator[None]:
    """Let re-entrant requests run while a handler waits outside of its space's loop."""
    if handling is None:
        yield
        return
    router = handling.mailbox.router

    def end_wait() -> None:
        router.call_soon(_end_wait, handling, delivery)

    router.call_soon(_begin_wait, handling, delivery)
    delivery.on_end(end_wait)
    try:
        yield
    finally:
        # Perhaps the second time: `_end_wait` counts a delivery once.
        delivery.not_on_end(end_wait)
        end_wait()


def _begin_wait(handling: Delivery, delivery: Delivery) -> None:
    handling.wait_count += 1
    if handling.outside_waits is None:
        handling.outside_waits = set()
    handling.outside_waits.add(delivery)
    mailbox = handling.mailbox
    if mailbox is not None and mailbox.reentrant_messages:
        mailbox.run_reentrant(handling)


def _end_wait(handling: Delivery, delivery: Delivery) -> None:
    if handling.outside_waits and delivery in handling.outside_waits:
        handling.outside_waits.discard(delivery)
        handling.wait_count -= 1
