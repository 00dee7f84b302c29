"""The post office of a space: how messages travel, wait, are begun, and end."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from threading import get_ident
from typing import Any, TypeAlias

from civitas.agent import CURRENT
from civitas.errors import (
    AgentNotFound,
    AgentStopped,
    DefinitionError,
    HopLimitExceeded,
    InvalidMessage,
    MailboxFull,
    RequestCancelled,
    RequestError,
    RequestTimeout,
    SpaceClosed,
)
from civitas.message import BROADCAST as EVERYONE
from civitas.message import Envelope
from civitas.spaces.deadlines import Deadlines
from civitas.spaces.delivery import (
    ANSWER,
    ASKING,
    BROADCAST,
    CALLBACK,
    ENDED,
    MAX_HOPS,
    QUEUED,
    REQUEST,
    RUNNING,
    SEND,
    Delivery,
)
from civitas.spaces.handling import Offer, answers, outcome_of, returned, traceback_of
from civitas.spaces.loop import LoopThread
from civitas.spaces.request import Request
from civitas.spaces.seat import Seat
from civitas.spaces.workers import Workers
from civitas.threads import WORKERS

__all__ = ["PostOffice"]

logger = logging.getLogger("civitas.space")

_BIG = 2**63

_AT_ONCE = 32
"""How many requests are handled on the spot before the loop has its turn."""

Returned: TypeAlias = tuple[Any, BaseException | None]
"""What a function returned, or what it raised."""


class PostOffice:
    """Takes messages in, in any thread; all else happens on the loop.

    Args:
        thread: the loop's thread, running
        mailbox: how many messages may wait for one agent

    Attributes:
        seats: the agents of the space, by the id that they are addressed by
        ending: whether the space is being closed: nobody comes any more
        closed: whether it is closed: nothing is delivered any more
        dispatch: sends a request of an agent here on its way; on the loop
        thread_id: the identifier of the loop's thread
    """

    def __init__(self, thread: LoopThread, mailbox: int) -> None:
        self.seats: dict[str, Seat] = {}
        self.observers: tuple[Callable[[dict[str, Any]], Any], ...] = ()
        self.ending = False
        self.closed = False
        self.thread = thread
        self.thread_id = thread.ident
        self.loop = thread.loop
        self.workers = Workers(self.loop, self.ended)
        self.deadlines = Deadlines(self.loop, self._expired)
        self._mailbox = mailbox
        self._ready: deque[Seat] = deque()
        self._fresh: list[Delivery] = []
        self._pumping = False
        self._credit = 0
        # What the loop itself does belongs to no handler, whoever had it done.
        self._nobody = Context()
        self._expected: dict[str, deque[Delivery]] = {}
        self.dispatch: Callable[[Delivery], None] = self.post

    # -- messages, from any thread -----------------------------------------------------------------

    def send(self, envelope: Envelope, seat: Seat) -> None:
        """Send a message of the agent in `seat`."""
        thread = self.thread
        if get_ident() == self.thread_id:
            if thread.ingress:
                thread.drain()  # what the agent sent from a thread comes first
            self.route(envelope, seat)
        else:
            thread.enter(self.route, envelope, seat)

    def request(self, envelope: Envelope, timeout: float | None, wait: bool = False) -> Request:
        """Send a message whose value is wanted."""
        if envelope.to == EVERYONE:
            raise InvalidMessage("to", "a request goes to one agent, not to *")
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout
        ):
            raise DefinitionError(f"timeout= is a number of seconds or None, not {timeout!r}")
        handling: Any = CURRENT.get()
        delivery = Delivery(envelope, REQUEST, handling, timeout)
        if wait:
            delivery.wait = True
        thread = self.thread
        if get_ident() == self.thread_id:
            if thread.ingress:
                thread.drain()
            self.dispatch(delivery)
        else:
            thread.enter(self.dispatch, delivery)
        return Request(delivery, self)

    def enter(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop: here if this is its thread, else in turn."""
        if get_ident() == self.thread_id:
            function(*args)
        else:
            self.thread.enter(function, *args)

    def drop(self, delivery: Delivery) -> None:
        """Nobody holds the request any more. Called by a finalizer: it takes no lock."""
        self.thread.enter(self._dropped, delivery)

    # -- delivery, on the loop ---------------------------------------------------------------------

    def route(self, envelope: Envelope, seat: Seat | None) -> None:
        """Send a message to whom it is addressed."""
        if self.closed:
            return
        to = envelope.to
        if to != EVERYONE:
            if to in self.seats:
                self.post(Delivery(envelope, SEND))
            elif self.observers:
                self._show(envelope)
            return
        if self.observers:
            self._show(envelope)
        own = seat is None or seat.agent.receive_own_broadcasts
        mailbox = self._mailbox
        ready = self._ready
        for receiver in list(self.seats.values()):  # agents come in any thread
            if not receiver.here or (receiver is seat and not own):
                continue  # one that is just coming came after this was sent
            delivery = Delivery(envelope, BROADCAST)
            delivery.seat = receiver
            box = receiver.box
            if len(box) >= mailbox and receiver.waiting() >= mailbox:
                self.refuse(delivery, self._full(receiver))
                continue
            box.append(delivery)
            if not receiver.ready:
                receiver.ready = True
                ready.append(receiver)
        self._schedule()

    def post(self, delivery: Delivery) -> None:
        """Put a message into its receiver's mailbox, or end it."""
        if delivery.answered:  # cancelled on its way here
            return
        seat = self.seats.get(delivery.envelope.to)
        if self.observers:
            self._show_once(delivery)
        if seat is None:
            if self.closed:
                self.refuse(delivery, self.gone())
            elif delivery.wait:
                self._expect(delivery)
            else:
                self.refuse(
                    delivery, AgentNotFound(f'no agent "{delivery.envelope.to}" in this space')
                )
            return
        if self._expected and seat.id in self._expected:
            self.here(seat)  # it has come in another thread: those who waited are first
        self.put(delivery, seat)

    def put(self, delivery: Delivery, seat: Seat) -> None:
        """Put a message into a mailbox, unless it has come too far or the mailbox is full."""
        if delivery.hops > MAX_HOPS:
            delivery.seat = seat
            self.refuse(
                delivery,
                HopLimitExceeded(
                    f'"{delivery}" would be call {delivery.hops} of one chain of requests; '
                    f"{MAX_HOPS} are the limit"
                ),
            )
            return
        if len(seat.box) >= self._mailbox and seat.waiting() >= self._mailbox:
            delivery.seat = seat
            self.refuse(delivery, self._full(seat))
            return
        seat.accept(delivery)
        if delivery.timeout is not None:
            self._fresh.append(delivery)
        if not seat.ready:
            seat.ready = True
            self._ready.append(seat)
        if not self._pumping:
            self._schedule()

    def _expect(self, delivery: Delivery) -> None:
        """Keep a request until its receiver comes, or its deadline."""
        self._expected.setdefault(delivery.envelope.to, deque()).append(delivery)
        if delivery.timeout is not None:
            self._fresh.append(delivery)
            self._schedule()

    def here(self, seat: Seat) -> None:
        """An agent has come: what waited for it is put into its mailbox."""
        seat.here = True
        for delivery in self._expected.pop(seat.id, ()):
            if not delivery.answered:
                self.put(delivery, seat)

    def leave(self) -> None:
        """The space is closed: what waits for somebody who is not here ends."""
        for expected in self._expected.values():
            for delivery in expected:
                self.refuse(delivery, self.gone())
        self._expected.clear()

    def try_now(self, delivery: Delivery) -> None:
        """Handle a request on the spot, if it is its turn: the one who asked is waiting for it."""
        if self._credit <= 0 or delivery.state != QUEUED:
            return
        seat = delivery.seat
        if seat is None:
            return
        box = seat.box
        if seat.running < seat.concurrency and box and box[0] is delivery and not seat.leaving:
            self._credit -= 1
            box.popleft()
            seat.begin(delivery)
        elif seat.held:
            self._credit -= 1
            for outer in list(seat.held):
                seat.let_in(outer)

    def make_ready(self, seat: Seat) -> None:
        """Have an agent look at its mailbox in the next turn of the loop."""
        if not seat.ready:
            seat.ready = True
            self._ready.append(seat)
        if not self._pumping:
            self._schedule()

    def _schedule(self) -> None:
        if not self._pumping:
            self._pumping = True
            self.loop.call_soon(self._pump, context=self._nobody)

    def _pump(self) -> None:
        """One turn: start the deadlines of what is still under way, and begin what may begin."""
        self._pumping = False
        self._credit = _AT_ONCE
        fresh = self._fresh
        if fresh:
            self._fresh = []
            for delivery in fresh:
                if not delivery.answered and delivery.timeout is not None:
                    self.deadlines.add(delivery, delivery.timeout)
        ready = self._ready
        workers = self.workers
        for _ in range(len(ready)):
            seat = ready.popleft()
            seat.ready = False
            if not seat.open:
                continue
            workers.in_no_task = True
            try:
                seat.kick()
            except Exception:
                logger.exception("a defect in civitas: the turn of agent %r failed", seat.id)
            finally:
                workers.in_no_task = False

    def ended(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """A handler has ended."""
        seat = delivery.seat
        assert seat is not None
        if delivery.inner or delivery.over is not None or seat.held or seat.arriving is delivery:
            seat.finish(delivery)
        else:
            # The same in short, for what was handled as most is.
            delivery.state = ENDED
            del seat.active[delivery]
            seat.running -= 1
            if seat.box:
                self.make_ready(seat)
        if delivery.answered:
            return
        kind = delivery.kind
        if kind == CALLBACK:
            self.settle(delivery, value, error)
        elif error is not None:
            if kind != REQUEST:
                # Who sent it is told the text only; the traceback is of use here.
                logger.warning(
                    "action %r of agent %r failed on a message of %r\n%s",
                    delivery.envelope.name,
                    seat.id,
                    delivery.envelope.sender,
                    traceback_of(error),
                )
            self.refuse(delivery, outcome_of(delivery, error))
        elif value is None and kind != REQUEST:
            delivery.answered = True
            if delivery.mail is not None:
                self.concluded(delivery)
        else:
            if not (value is None or (type(value) is int and -_BIG < value < _BIG)):
                try:
                    value = returned(delivery, value)
                except Exception as wrong:
                    self.refuse(delivery, outcome_of(delivery, wrong))
                    return
            if kind == REQUEST:
                self.settle(delivery, value, None)
            else:
                delivery.answered = True
                if kind != ANSWER:
                    self._answer(delivery, value, None)
                if delivery.mail is not None:
                    self.concluded(delivery)

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
            level = (
                logging.DEBUG if isinstance(error, AgentStopped | SpaceClosed) else logging.WARNING
            )
            logger.log(level, "an answer to agent %r failed: %s", delivery.envelope.to, error)
        else:
            self._answer(delivery, None, error)
        if delivery.mail is not None:
            self.concluded(delivery)

    def settle(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """The outcome of a request, once."""
        if delivery.answered:
            return
        delivery.value = value
        if error is not None:
            delivery.error = error
        if self.observers and delivery.kind == REQUEST:
            # Before whoever asked goes on: what it does next is to be seen after this.
            self._show_answer(delivery, value, error)
        delivery.answered = True
        if delivery.tick:
            self.deadlines.discard(delivery)
        waiter = delivery.waiter
        if waiter is not None:
            delivery.waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if delivery.callbacks is not None:
            for callback in list(delivery.callbacks):
                callback()

    # -- what came over a broker: for the spaces that have one ------------------------------------

    def begins(self, delivery: Delivery, offer: Offer) -> bool:
        """Whether a message that came over a broker may be begun now."""
        raise NotImplementedError

    def set_aside(self, delivery: Delivery) -> None:
        """A message that came over a broker is to be approved, which may take long."""
        raise NotImplementedError

    def permitted(self, delivery: Delivery) -> None:
        """A message that came over a broker was approved."""
        raise NotImplementedError

    def concluded(self, delivery: Delivery) -> None:
        """A message that came over a broker has ended, and its answer, if any, is known."""
        raise NotImplementedError

    def abort(self, delivery: Delivery, error: RequestError) -> None:
        """End a message early: an `async` action at its next await, a waiting one never starts."""
        if not delivery.answered:
            self.refuse(delivery, error)
        elif delivery.state != RUNNING:
            return
        if delivery.state == QUEUED:
            delivery.state = ENDED
            if delivery.seat is not None:
                delivery.seat.forget(delivery)
        elif delivery.state == ASKING:
            delivery.state = ENDED
            if delivery.task is not None:
                delivery.task.cancel()
        elif delivery.state == RUNNING and not delivery.cancelling:
            # Once: a second cancellation would interrupt what the first has it clean up.
            delivery.cancelling = True
            self.workers.cancel(delivery)

    def begin_wait(self, handling: Any, delivery: Delivery) -> None:
        """A handler of this space waits outside of the loop: messages of its chain are let in."""
        handling.waiting += 1
        if handling.waits is None:
            handling.waits = set()
        handling.waits.add(delivery)
        if handling.seat.held:
            handling.seat.let_in(handling)

    def end_wait(self, handling: Any, delivery: Delivery) -> None:
        """It waits no longer."""
        if handling.waits and delivery in handling.waits:
            handling.waits.discard(delivery)
            handling.waiting -= 1

    def in_thread(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> asyncio.Future[Returned]:
        """Call a function in a worker thread, in the context of the caller.

        What it raises is in the future's result: some exceptions, such as `GeneratorExit`, mean
        something else to the one who awaits a future.
        """
        future: asyncio.Future[Returned] = self.loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if not future.done():
                future.set_result((value, error))

        def done(value: Any, error: BaseException | None) -> None:
            # Through the one way in, so that what the thread sent is there before it has ended.
            self.thread.enter(settle, value, error)

        WORKERS.submit(partial(function, *args, **kwargs), context=copy_context(), done=done)
        return future

    @property
    def pending(self) -> int:
        """How many requests have a deadline running."""
        return len(self.deadlines) + sum(not delivery.answered for delivery in self._fresh)

    def gone(self) -> SpaceClosed:
        """Why a message ends that a closed space had still to deliver."""
        return SpaceClosed("the space was closed")

    # -- small parts -------------------------------------------------------------------------------

    def _answer(self, delivery: Delivery, value: Any, error: RequestError | None) -> None:
        answer = answers(delivery, value, error)
        if answer is None or self.closed:
            return
        envelope, original_id = answer
        if envelope.to not in self.seats:
            if self.observers:
                self._show(envelope)
            logger.debug("the sender %r of %s has left before its answer", envelope.to, delivery)
            return
        reply = Delivery(envelope, ANSWER)
        reply.original_id = original_id
        self.post(reply)

    def _dropped(self, delivery: Delivery) -> None:
        if not delivery.answered:
            self.abort(delivery, RequestCancelled(f'the request to "{delivery}" was dropped'))

    def _expired(self, delivery: Delivery) -> None:
        self.abort(delivery, RequestTimeout(f'no answer from "{delivery}" in {delivery.timeout} s'))

    def _full(self, seat: Seat) -> MailboxFull:
        return MailboxFull(f'the mailbox of "{seat.id}" is full: {self._mailbox} messages wait')

    def _show_answer(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        answer = answers(delivery, value, error if isinstance(error, RequestError) else None)
        if answer is not None:
            self._show(answer[0])

    def _show_once(self, delivery: Delivery) -> None:
        if not delivery.shown:
            delivery.shown = True
            self._show(delivery.envelope)

    def _show(self, envelope: Envelope) -> None:
        for callback in self.observers:
            try:
                callback(envelope.to_dict())
            except Exception:
                logger.exception("observer %r failed and is called no more", callback)
                self.observers = tuple(c for c in self.observers if c is not callback)
