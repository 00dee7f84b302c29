"""The router of a space: it takes messages in, puts them into mailboxes, starts handlers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from threading import get_ident
from typing import Any

from moothall.actions.message import BROADCAST as EVERYONE
from moothall.actions.message import Envelope, NestedArgs, is_one_agent
from moothall.agents.agent import CURRENT
from moothall.agents.caller_context import CallerContext
from moothall.budget.reservation import CALLERS_HOLDS
from moothall.foundation.errors import (
    AgentNotFound,
    HopLimitExceeded,
    InvalidMessage,
    MailboxFull,
    RequestError,
)
from moothall.foundation.jsonvalue import byte_count
from moothall.foundation.text import counted, log_failure
from moothall.spaces.delivery import BROADCAST, FINISHED, MAX_HOPS, QUEUED, REQUEST, SEND, Delivery
from moothall.spaces.loop import LoopThread
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.outcomes import UNTIMED_S, Outcomes
from moothall.spaces.request import Request, check_timeout

logger: logging.Logger = logging.getLogger("moothall.spaces")

_MAX_AT_ONCE = 32
"""How many requests are handled at once before the loop has its turn."""
_LARGE_BYTES = 2**18
"""From how many bytes on a thread that sends a message waits until the loop has it."""
_MAX_MAILBOXES_PER_TURN = 128
"""How many agents' mailboxes are dispatched before the loop has its turn."""


class Router(Outcomes):
    """Takes messages in, in any thread; everything else runs on the loop.

    Attributes:
        is_at_own_work: whether the space itself holds the loop, which the watchdog does not report
    """

    is_at_own_work: bool = False

    def __init__(
        self, thread: LoopThread, capacity: int, capacity_bytes: int | None = None
    ) -> None:
        super().__init__(thread)
        self.capacity = capacity  # how many messages may wait for one agent
        self.capacity_bytes = capacity_bytes  # and how many bytes, if that is limited here
        self._ready: deque[Mailbox] = deque()
        self._new_requests: list[Delivery] = []
        self._is_scheduled = False
        self._starts_left = 0
        self._waiting_requests: dict[str, dict[Delivery, None]] = {}
        # What waits for an agent, by its sender and id: one that is sent again is there once.
        self._undelivered: dict[str, dict[tuple[str, str | None], Callable[[], None]]] = {}
        self._delayed: dict[asyncio.TimerHandle, str] = {}  # the senders of delayed messages
        # Sends a request of an agent of this space; called on the loop.
        self.dispatch: Callable[[Delivery], None] = self.post

    # -- messages, from any thread -----------------------------------------------------------------

    def send(
        self,
        envelope: Envelope,
        mailbox: Mailbox,
        kind: int = SEND,
        delay: float = 0.0,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Send a message of the agent in `mailbox`, to be delivered after `delay` seconds.

        `on_end` is called once it cannot be lost with this process any more, or will not arrive.
        """
        if delay:
            self.call_soon(self._route_later, envelope, mailbox, delay)
            return
        route = self.route if on_end is None else partial(self._route_kept, on_end)
        if get_ident() == self.thread_id:
            if mailbox.has_thread_messages:
                self.catch_up(mailbox)
            route(envelope, mailbox, kind)
        else:
            self.submit_method(envelope)(route, envelope, mailbox, kind)
            mailbox.has_thread_messages = True

    def request(
        self,
        envelope: Envelope,
        timeout: float | None,
        wait: bool,
        mailbox: Mailbox,
        expires: float | None = None,
        caller_context: CallerContext | None = None,
        upward: Any = None,
    ) -> Request:
        """Send a request of the agent in `mailbox`."""
        to = envelope.to
        if to not in self.mailboxes and not is_one_agent(to):
            raise InvalidMessage("to", f"a request goes to one agent, not to {to}")
        if type(timeout) is not int and timeout is not None:
            check_timeout("a request's timeout=", timeout)
        handling: Any = CURRENT.get()
        if handling is not None and handling.state == FINISHED:
            handling = None  # a task that its handler left running starts a chain of its own
        delivery = Delivery(envelope, REQUEST, handling, timeout)
        if wait:
            delivery.waits_for_receiver = True
        if expires is not None:
            delivery.expires = expires
        if caller_context is not None:
            delivery.caller_context = caller_context
        if upward is not None:
            delivery.upward = upward
        if (on_event := CallerContext.listener.get()) is not None:
            delivery.on_event = on_event
        if refs := CALLERS_HOLDS.get():
            delivery.reservations = tuple(ref for ref in refs if (each := ref()) and each.is_open)
        if get_ident() == self.thread_id:
            # What its agent has sent from threads comes first: its messages keep their order.
            if mailbox.has_thread_messages:
                self.catch_up(mailbox)
            self.dispatch(delivery)
        else:
            self.submit_method(envelope)(self.dispatch, delivery)
            mailbox.has_thread_messages = True
        return Request(delivery, self)

    def submit_method(self, envelope: Envelope) -> Callable[..., None]:
        """Return how a thread enters the sending of a message: by number, or by bytes, too."""
        is_large = type(envelope.args) is NestedArgs and byte_count(envelope.args) > _LARGE_BYTES
        return self.thread.submit_large if is_large else self.thread.submit

    def catch_up(self, mailbox: Mailbox) -> None:
        """Take in what an agent sent from threads, before what it sends on the loop."""
        mailbox.has_thread_messages = False  # first: a thread sets it after it has sent
        self.thread.drain()

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop: at once in the loop's thread, else in turn."""
        if get_ident() == self.thread_id:
            function(*args)
        else:
            self.thread.call_soon(function, *args)

    def drop(self, delivery: Delivery) -> None:
        """Cancel a request that nothing refers to. A finalizer calls this: it takes no lock."""
        self.thread.call_soon(self._on_dropped, delivery)

    # -- delivery, on the loop ---------------------------------------------------------------------

    def route(self, envelope: Envelope, mailbox: Mailbox | None, kind: int = SEND) -> None:
        """Deliver a message to its receiver, to a group, or a broadcast to all agents."""
        if self.closed:
            return
        to = envelope.to
        if is_one_agent(to):
            if to in self.mailboxes:
                self.post(Delivery(envelope, kind))
            elif self.observers:
                self.show(envelope)
            return
        if self.observers:
            self.show(envelope)
        ready = self._ready
        is_usual = envelope.name != "help" and type(envelope.args) is not NestedArgs
        sent = Delivery(envelope, BROADCAST)
        has_context = bool(sent.outside or sent.replies)
        receivers = list(self.mailboxes.values())  # any thread may add agents
        if to != EVERYONE:
            receivers = [each for each in receivers if each.is_receiver_of(envelope)]
        sender = self.mailboxes.get(envelope.sender)
        if sender is not None and sender.is_receiver_of(envelope):
            sender = None  # it hears itself
        for receiver in receivers:
            if receiver is sender or not receiver.is_added:
                continue  # an agent that is being added came after this was sent
            delivery = Delivery(envelope, BROADCAST, None, None, False)
            if has_context:
                delivery.outside, delivery.replies = sent.outside, sent.replies
            delivery.mailbox = receiver
            box = receiver.box
            try:
                if is_usual and len(box) < receiver.limit:
                    box.append(delivery)
                elif not receiver.is_full(delivery):
                    receiver.accept(delivery)
                else:
                    if envelope.name in receiver.offers:  # else it would be ignored
                        self.refuse(delivery, self.full_error(receiver))
                    continue
            except Exception as error:  # a class of one's own
                self.refuse_broken(delivery, receiver, error)
                continue
            if not receiver.ready:
                receiver.ready = True
                ready.append(receiver)
        self._schedule()

    def _route_kept(
        self, on_end: Callable[[], None], envelope: Envelope, mailbox: Mailbox, kind: int
    ) -> None:
        """Deliver a message that is not to be lost: it waits for its receiver, as at a broker."""
        if self.closed:
            return
        if is_one_agent(envelope.to) and envelope.to not in self.mailboxes:
            route = partial(self._route_kept, on_end, envelope, mailbox, kind)
            self._undelivered.setdefault(envelope.to, {})[envelope.sender, envelope.id] = route
            return
        self.route(envelope, mailbox, kind)
        on_end()  # its receiver ends with this process

    def _route_later(self, envelope: Envelope, mailbox: Mailbox, delay: float) -> None:
        def route() -> None:
            del self._delayed[timer]
            self.route(envelope, mailbox)

        timer = self.loop.call_later(delay, route, context=self._empty_context)
        self._delayed[timer] = envelope.sender

    def post(self, delivery: Delivery) -> None:
        """Put a message into its receiver's mailbox, or end it."""
        if delivery.answered:  # cancelled on its way here
            return
        mailbox = self.mailboxes.get(delivery.envelope.to)
        if self.observers:
            self._show_once(delivery)
        if mailbox is None:
            if self.closed:
                self.refuse(delivery, self.closed_error())
            elif delivery.waits_for_receiver:
                self._keep_waiting(delivery)
            else:
                self.refuse(delivery, self._not_found(delivery.envelope.to))
            return
        if self._waiting_requests and mailbox.id in self._waiting_requests:
            self.mark_added(mailbox)  # added in another thread: requests that waited come first
        self.put(delivery, mailbox)

    def put(self, delivery: Delivery, mailbox: Mailbox) -> None:
        """Put a message into a mailbox; refuse it beyond the hop limit or if that is full."""
        if delivery.hops > MAX_HOPS:
            delivery.mailbox = mailbox
            self.refuse(delivery, self._too_many_hops(delivery))
            return
        is_heavy = type(delivery.envelope.args) is NestedArgs
        try:
            if (is_heavy or len(mailbox.box) >= mailbox.limit) and mailbox.is_full(delivery):
                delivery.mailbox = mailbox
                self.refuse(delivery, self.full_error(mailbox))
                return
            if self.on_request_end is not None:
                delivery.since = self.loop.time()
            mailbox.accept(delivery)
        except Exception as error:  # a class of one's own
            self.refuse_broken(delivery, mailbox, error)
            return
        if delivery.timeout is not None or delivery.parent is not None:
            self._new_requests.append(delivery)
        if not mailbox.ready:
            mailbox.ready = True
            self._ready.append(mailbox)
        if not self._is_scheduled:
            self._schedule()

    def refuse_broken(self, delivery: Delivery, mailbox: Mailbox, error: Exception) -> None:
        """Refuse a message that its receiver's mailbox failed to take."""
        delivery.mailbox = mailbox
        self.refuse(delivery, self._broken_error(mailbox, delivery, error))
        if delivery.state == QUEUED and delivery in mailbox.queued():
            mailbox.forget(delivery)
        delivery.state = FINISHED

    def _end_broken_turn(self, mailbox: Mailbox, error: BaseException) -> None:
        """End what waits in a mailbox that failed to hand out its next message."""
        for delivery in list(mailbox.queued()):
            if delivery.state == QUEUED:
                self.refuse(delivery, self._broken_error(mailbox, delivery, error))
                mailbox.forget(delivery)
                delivery.state = FINISHED

    def _broken_error(
        self, mailbox: Mailbox, delivery: Delivery, error: BaseException
    ) -> RequestError:
        """Return, and log, the error of a message that a mailbox failed on."""
        kind = type(mailbox).__qualname__
        text = f"the mailbox of agent {mailbox.id!r} (a class {kind}) failed on {delivery}"
        log_failure(logger, text, error)
        return RequestError(f"{text}: {type(error).__name__}: {error}")

    def _keep_waiting(self, delivery: Delivery) -> None:
        """Keep a request until its receiver is added or its deadline passes."""
        self._waiting_requests.setdefault(delivery.envelope.to, {})[delivery] = None
        delivery.on_end(partial(self._stop_waiting, delivery))
        if delivery.timeout is not None:
            self._new_requests.append(delivery)
            self._schedule()

    def _stop_waiting(self, delivery: Delivery) -> None:
        requests = self._waiting_requests.get(delivery.envelope.to, {})
        requests.pop(delivery, None)
        if not requests:
            self._waiting_requests.pop(delivery.envelope.to, None)

    def mark_added(self, mailbox: Mailbox) -> None:
        """Mark an agent as added; put the requests that waited for it into its mailbox."""
        mailbox.is_added = True
        for delivery in self._waiting_requests.pop(mailbox.id, ()):
            self.put(delivery, mailbox)
        for route in self._undelivered.pop(mailbox.id, {}).values():
            route()

    def end_waiting(self) -> None:
        """End what waits for agents not yet added, or for its time: the space is closed."""
        for timer in self._delayed:
            timer.cancel()
        if self._delayed:
            messages = counted(len(self._delayed), "message")
            logger.warning("the space was closed before the time of %s with a delay", messages)
        for requests in list(self._waiting_requests.values()):
            # A copy: the end of each removes it.
            for delivery in list(requests):
                self.refuse(delivery, self.closed_error())

    def try_now(self, delivery: Delivery) -> None:
        """Handle a request at once, if it is its turn: its sender is waiting for it."""
        if self._starts_left <= 0 or delivery.state != QUEUED:
            return
        mailbox = delivery.mailbox
        if mailbox is None:
            return
        box = mailbox.box
        if (
            mailbox.running < mailbox.concurrency
            and not mailbox.paused
            and box
            and box[0] is delivery
            and not mailbox.departure
        ):
            self._starts_left -= 1
            box.popleft()
            mailbox.begin(delivery)
        elif mailbox.reentrant_messages:
            self._starts_left -= 1
            for outer in list(mailbox.reentrant_messages):
                mailbox.run_reentrant(outer)

    def make_ready(self, mailbox: Mailbox) -> None:
        """Dispatch from a mailbox in the next turn of the loop."""
        if not mailbox.ready:
            mailbox.ready = True
            self._ready.append(mailbox)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._run_turn, context=self._empty_context)

    def _run_turn(self) -> None:
        """Run one turn: schedule the deadlines of open requests, then dispatch mailboxes."""
        # First: what is dispatched below makes mailboxes ready, and schedules the next turn.
        self._is_scheduled = False
        self._starts_left = _MAX_AT_ONCE
        new_requests = self._new_requests
        if new_requests:
            self._new_requests = []
            still_open = [delivery for delivery in new_requests if not delivery.answered]
            if still_open:
                self._untimed.update(dict.fromkeys(still_open, self.loop.time()))
                if not self._is_timing:
                    self._is_timing = True
                    self.loop.call_later(
                        UNTIMED_S, self._start_deadlines, context=self._empty_context
                    )
        ready = self._ready
        # Those that are ready now: an agent that writes to itself would hold the loop.
        for _ in range(min(len(ready), _MAX_MAILBOXES_PER_TURN)):
            mailbox = ready.popleft()
            mailbox.ready = False
            if not mailbox.open:
                continue
            try:
                mailbox.dispatch_ready()
            except BaseException as error:
                self._end_broken_turn(mailbox, error)
        if ready:
            self._schedule()

    @property
    def pending(self) -> int:
        """How many requests have a deadline running."""
        requests = (*self._new_requests, *self._untimed)
        return self.deadlines + sum(not (d.answered or d.timeout is None) for d in requests)

    def _not_found(self, id: str) -> AgentNotFound:
        return AgentNotFound(f'no agent "{id}" in this space')

    def _too_many_hops(self, delivery: Delivery) -> HopLimitExceeded:
        return HopLimitExceeded(
            f'"{delivery}" would be call {delivery.hops} of one chain of requests; '
            f"{MAX_HOPS} are the limit"
        )

    async def arrived(self, mailboxes: Iterable[Mailbox]) -> bool:
        """Return whether no message is on its way to these mailboxes."""
        return not self._waiting_requests

    def full_error(self, mailbox: Mailbox) -> RequestError:
        """Return the error of a message that a mailbox takes no more."""
        if mailbox.finishing:
            return self.stopped_error(mailbox.id)
        waiting_text = f"{self.capacity} messages"
        if mailbox.waiting() < self.capacity:
            waiting_text = f"messages of {self.capacity_bytes:,} bytes"
        return MailboxFull(f'the mailbox of "{mailbox.id}" is full: {waiting_text} wait')
