"""How messages end: outcomes of requests, answers to messages, deadlines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from moothall.actions.message import Envelope
from moothall.foundation.errors import (
    AgentStopped,
    MoothallError,
    RequestCancelled,
    RequestError,
    RequestTimeout,
    SpaceClosed,
)
from moothall.foundation.text import log_failure
from moothall.foundation.threads import call_observers
from moothall.spaces.deadlock import WaitGraph, find_deadlocks, requests_here, wait_graph
from moothall.spaces.delivery import (
    ANSWER,
    ASKING,
    CALLBACK,
    FINISHED,
    QUEUED,
    REQUEST,
    RUNNING,
    Delivery,
)
from moothall.spaces.handler import answer_to, outcome_of, returned_json
from moothall.spaces.loop import LoopThread
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.task_pool import TaskPool

logger: logging.Logger = logging.getLogger("moothall.spaces")

_MAX_INTEGER = 2**63
UNTIMED_S = 0.025
"""How long requests are open before they get a timer; deadlines are accurate to about this."""

_POLL_INTERVAL_S = 0.25
_MAX_POLL_INTERVAL_S = 32.0
"""After how long an open request of a handler is asked whether it can end: each time doubled."""

_WARNING_INTERVAL_S = 1.0
"""For how long warnings of one kind are counted, after the first is logged."""

_MAX_TIMEOUT_S = 1e9
"""Seconds that no process lasts; longer timeouts are cut to this."""


class Outcomes:
    """Ends each message once. Everything runs on the loop."""

    post: Callable[[Delivery], None]
    make_ready: Callable[[Mailbox], None]

    def __init__(self, thread: LoopThread) -> None:
        self.mailboxes: dict[str, Mailbox] = {}  # by the agents' ids
        self.senders: set[str] = set()  # the ids of agents that only send
        self.observers: tuple[Callable[[dict[str, Any]], Any], ...] = ()
        self.ending = False  # whether the space is being closed: no agent is added any more
        self.closed = False  # whether it is closed: nothing is delivered any more
        self.on_request_end: Callable[[Delivery], None] | None = None  # told of each that ended
        self.thread = thread
        self.thread_id: int = thread.ident
        self.loop: asyncio.AbstractEventLoop = thread.loop
        self.tasks: TaskPool = TaskPool(self.loop, self.end_handling)
        self.start: Callable[[Delivery, Coroutine[Any, Any, Any]], None] = self.tasks.start
        self.deadlines: int = 0  # how many requests have a timer that ends them
        self._untimed: dict[Delivery, float] = {}  # since when
        self._is_timing = False  # whether `_start_deadlines` is about to be called
        self._look_timer: asyncio.TimerHandle | None = None  # the next call of `_look_for_deadlock`
        self._unlogged_warnings: dict[str, int] = {}  # by kind: how many the log lacks
        # The context of the loop's own work, which belongs to no handler.
        self._empty_context = Context()

    def end_handling(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """Free the place of a handler that has ended, and send or set its outcome."""
        mailbox: Any = delivery.mailbox
        # Also if it was cancelled and is answered: its place is free only now.
        mailbox.finish(delivery)
        if delivery.answered:
            return
        kind = delivery.kind
        if kind == CALLBACK:
            self.settle(delivery, value, error)
        elif error is not None:
            if kind != REQUEST:
                envelope = delivery.envelope
                subject = f"action {envelope.name!r} of agent {mailbox.id!r} failed on a message of"
                subject = f"{subject} {envelope.sender!r}"
                if isinstance(error, MoothallError):  # the sender gets its full text
                    logger.debug("%s", subject, exc_info=error)
                else:
                    log_failure(logger, subject, error)
            self.refuse(delivery, outcome_of(delivery, error))
        elif value is None and kind != REQUEST:
            delivery.answered = True
            if delivery.recorder is not None:
                delivery.recorder.note_ended(delivery)
        else:
            if not (value is None or (type(value) is int and -_MAX_INTEGER < value < _MAX_INTEGER)):
                try:
                    value = returned_json(delivery, value)
                except Exception as wrong:
                    self.refuse(delivery, outcome_of(delivery, wrong))
                    return
            if kind == REQUEST:
                self.settle(delivery, value, None)
            else:
                delivery.answered = True
                if kind != ANSWER:
                    self.send_answer(delivery, value, None)
                if delivery.recorder is not None:
                    delivery.recorder.note_ended(delivery)

    def refuse(self, delivery: Delivery, error: RequestError) -> None:
        """End a message with an error: the outcome of a request, else a message to the sender."""
        if delivery.answered:
            return
        if delivery.kind == REQUEST or delivery.kind == CALLBACK:
            self.settle(delivery, None, error)
            return
        delivery.answered = True
        delivery.error = error
        if delivery.kind == ANSWER:
            if isinstance(error, AgentStopped | SpaceClosed):
                logger.debug("an answer to agent %r failed: %s", delivery.envelope.to, error)
            else:
                self.warn_answer_lost(delivery.envelope.to, str(error))
        else:
            self.send_answer(delivery, None, error)
        if delivery.recorder is not None:
            delivery.recorder.note_ended(delivery)

    def settle(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """Set the outcome of a request, once."""
        if delivery.answered:
            return
        # Before `answered`, which other threads read without a lock: then the outcome is there.
        delivery.value = value
        if error is not None:
            delivery.error = error
        if self.observers and delivery.kind == REQUEST:
            # Before the sender continues: observers see what it does next after this.
            self._show_answer(delivery, value, error)
        delivery.answered = True
        # A request to another process has no mailbox here: its receiver counts it.
        if (
            self.on_request_end is not None
            and delivery.mailbox is not None
            and delivery.kind == REQUEST
        ):
            self.on_request_end(delivery)
        if delivery.timer is not None:
            delivery.timer.cancel()
            delivery.timer = None
            self.deadlines -= 1
        elif delivery in self._untimed:
            del self._untimed[delivery]
        waiter = delivery.waiter
        if waiter is not None:
            delivery.waiter = None
            # Done, if its task was cancelled in this turn.
            if not waiter.done():
                waiter.set_result(None)
        if delivery.callbacks is not None:
            # A copy: a thread whose time is over removes its own meanwhile.
            for callback in list(delivery.callbacks):
                callback()

    def abort(self, delivery: Delivery, error: RequestError) -> None:
        """End a message early: cancel an `async` action at its next await, start no waiting one."""
        if not delivery.answered:
            self.refuse(delivery, error)
        elif delivery.state != RUNNING:
            return
        if delivery.state == QUEUED:
            delivery.state = FINISHED
            if delivery.mailbox is not None:
                delivery.mailbox.forget(delivery)
        elif delivery.state == ASKING:
            delivery.state = FINISHED
            delivery.mailbox.asking.discard(delivery)  # a task cancelled at once does not begin
            if delivery.task is not None:
                delivery.task.cancel()
        elif delivery.state == RUNNING and not delivery.is_cancelling:
            # Once: a second cancellation would interrupt the cleanup after the first.
            delivery.is_cancelling = True
            self.tasks.cancel(delivery)

    def closed_error(self) -> SpaceClosed:
        """Return the error of messages that a closed space did not deliver."""
        return SpaceClosed("the space was closed")

    def stopped_error(self, id: str) -> RequestError:
        """Return the error of messages to an agent that was removed, or whose space is closing."""
        return self.closed_error() if self.ending else AgentStopped(f'agent "{id}" was removed')

    def send_answer(self, delivery: Delivery, value: Any, error: RequestError | None) -> None:
        """Send the sender of a message its outcome, if that wants one."""
        answer = answer_to(delivery, value, error)
        if answer is None or self.closed:
            return
        envelope, original_id = answer
        if envelope.to not in self.mailboxes:
            if delivery.agent is not None:
                delivery.agent.sender_left(envelope.to)  # its message has made a thread since
            if self.observers:
                self.show(envelope)
            logger.debug("the sender %r of %s has left before its answer", envelope.to, delivery)
            return
        reply = Delivery(envelope, ANSWER)
        reply.original_id = original_id
        self.post(reply)

    def warn_answer_lost(self, to: str, reason: str) -> None:
        """Warn of an answer that nobody gets."""
        self.warn(
            f"answers to agent {to!r} were lost", f"an answer to agent {to!r} was lost: {reason}"
        )

    def warn(self, kind: str, text: str) -> None:
        """Log a warning; count those of the same kind of the next second in one line."""
        if kind in self._unlogged_warnings:
            self._unlogged_warnings[kind] += 1
            return
        self._unlogged_warnings[kind] = 0
        logger.warning("%s", text)
        self.loop.call_later(
            _WARNING_INTERVAL_S, self._log_count, kind, context=self._empty_context
        )

    def _log_count(self, kind: str) -> None:
        if count := self._unlogged_warnings.pop(kind):
            logger.warning("%s more %s within a second", count, kind)

    def _on_dropped(self, delivery: Delivery) -> None:
        if delivery.answered:
            return
        if delivery.waiter is None and delivery.callbacks is None:
            sender = delivery.envelope.sender
            self.warn(
                f"requests of agent {sender!r} were dropped",
                f'agent {sender!r} dropped its request to "{delivery}", which is cancelled: wait '
                "for what request() and ask() return, or use send()",
            )
        self.abort(delivery, RequestCancelled(f'the request to "{delivery}" was dropped'))

    def _start_deadlines(self) -> None:
        """Start the timers of requests that are still open: most end before they need one."""
        self._is_timing = False
        untimed, self._untimed = self._untimed, {}
        if any(each.parent is not None for each in untimed):
            self._look_for_deadlock_in(_POLL_INTERVAL_S)
        for delivery, since in untimed.items():
            if delivery.timer is None and delivery.timeout is not None:
                self.deadlines += 1
                until = since + min(delivery.timeout, _MAX_TIMEOUT_S)
                delivery.timer = self.loop.call_at(
                    until, self._on_expired, delivery, context=self._empty_context
                )

    def _look_for_deadlock_in(self, seconds: float) -> None:
        """Look for agents that wait for each other after so many seconds, or earlier."""
        until = self.loop.time() + seconds
        if self._look_timer is not None:
            if self._look_timer.when() <= until:
                return
            self._look_timer.cancel()
        self._look_timer = self.loop.call_at(
            until, self._look_for_deadlock, seconds, context=self._empty_context
        )

    def _look_for_deadlock(self, waited: float) -> None:
        """End requests of agents that wait for each other; look again while handlers wait."""
        self._look_timer = None
        graph = self._wait_graph()
        for request, error in list(find_deadlocks(graph)):
            logger.warning("%s", error)
            self.abort(request, error)
        if graph.requests:
            self._look_for_deadlock_in(min(2 * waited, _MAX_POLL_INTERVAL_S))

    def _wait_graph(self) -> WaitGraph:
        mailboxes = list(self.mailboxes.values())
        return wait_graph(mailboxes, requests_here(mailboxes))

    def _on_expired(self, delivery: Delivery) -> None:
        self.abort(delivery, RequestTimeout(f'no answer from "{delivery}" in {delivery.timeout} s'))

    def _show_answer(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        answer = answer_to(delivery, value, error)
        if answer is not None and not (value is None and error is None):
            self.show(answer[0])

    def _show_once(self, delivery: Delivery) -> None:
        if not delivery.is_shown:
            delivery.is_shown = True
            self.show(delivery.envelope)

    def show(self, envelope: Envelope) -> None:
        """Show a message to those that observe the space."""
        notification = (self.observers, envelope.to_dict, "observer", logger, BaseException)
        for failed in call_observers(*notification):
            self.observers = tuple(each for each in self.observers if each is not failed)
