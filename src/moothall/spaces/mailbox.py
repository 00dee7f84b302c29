"""An agent's mailbox in a space, and the order in which its messages are handled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, ClassVar, TypeVar, Unpack

from moothall.actions import ACCESS_DENIED, ACCESS_PERMITTED
from moothall.actions.approval import Approver
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.message import BROADCAST as EVERYONE
from moothall.actions.message import Envelope, NestedArgs, address
from moothall.agents.agent import CURRENT, Agent, overrides
from moothall.agents.messaging import Pending, RequestOptions, SendOptions
from moothall.agents.workflow import not_found
from moothall.foundation import tracing
from moothall.foundation.errors import InvalidArguments, RequestError
from moothall.foundation.jsonvalue import byte_count, copy_json
from moothall.foundation.threads import reset
from moothall.spaces.delivery import (
    ANSWER,
    BROADCAST,
    CALLBACK,
    FINISHED,
    QUEUED,
    REQUEST,
    RUNNING,
    SEND,
    Delivery,
    MessageLine,
    RouterPort,
)
from moothall.spaces.handler import Offer, ask_permission, error_text, handle, handle_in_span
from moothall.spaces.request import waiting_outside

T = TypeVar("T")

_LARGE_BYTES = 4_096
"""From how many bytes a message counts as bytes: of smaller ones, the number is limit enough."""

MAX_PER_TURN = 100
"""How many messages one agent may handle before others have their turn."""


@dataclass(slots=True, eq=False, repr=False)
class Mailbox:
    """Orders one agent's messages. But for what the agent calls, only the space's loop uses it."""

    class line_type(MessageLine):
        """The class of its lines, whose `append` decides where a message waits."""

    has_lanes: ClassVar[bool] = True
    """Whether it handles an agent's threads side by side, each in a line of its own."""

    agent: Agent
    space: Any
    router: RouterPort
    shared: bool = False  # whether other processes may handle messages to this id, too
    groups: tuple[str, ...] = ()
    id: str = field(init=False)
    start: Callable[[Delivery, Coroutine[Any, Any, Any]], None] = field(init=False)
    has_before_action: bool = field(init=False)  # whether the agent overrides `before_action`
    has_after_action: bool = field(init=False)
    offers: dict[str, Offer] = field(init=False)
    concurrency: int = field(init=False)
    box: MessageLine = field(init=False)
    limit: int = field(init=False)  # from this length of the box, `waiting` must be looked at
    active: dict[Delivery, None] = field(default_factory=dict)  # the messages being handled
    running: int = 0  # how many places these take; re-entrant requests take none
    paused: int = 0  # how many pauses are under way; `after_add` is one
    # By handler, the waiting messages of its call chain, which may run re-entrantly.
    reentrant_messages: dict[Delivery, deque[Delivery]] = field(default_factory=dict)
    # Requests for help, which are also in the box: a busy agent answers them beside its work.
    help_requests: deque[Delivery] = field(default_factory=deque)
    waiting_bytes: int = 0  # of the large messages that wait
    asking: set[Delivery] = field(default_factory=set)  # messages that await approval
    carried_tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    open: bool = True
    closing: bool = False  # whether it starts only what handlers of this process wait for
    # What has not started for that reason.
    not_started: list[Delivery] = field(default_factory=list)
    finishing: bool = False  # whether it takes no new messages: it is removed once it is idle
    arrival: Delivery | None = None  # of the agent's `after_add`, if it has one
    departure: Delivery | None = None  # ends once the agent has left
    is_added: bool = False  # whether the loop knows it, which the router's `mailboxes` has earlier
    ready: bool = False
    # Whether threads sent what the loop may not have taken in yet.
    has_thread_messages: bool = False
    end_suspension: Callable[[], None] | None = None  # once another agent takes over
    retired: bool = False  # whether what the agent before was doing has ended

    def __post_init__(self) -> None:
        self.id = address(self.agent.id)
        self.start = self.router.start
        self.look_up_callbacks()
        # All of them now: an action that cannot be described fails here, not at its first call.
        self.offers = self.look_up_actions()
        self.box = self.line_type()
        self.concurrency = self.agent.concurrency
        # Below the limit `is_full` is not asked, and a broadcast goes past `accept`.
        mailbox_class = type(self)
        is_ours = (
            mailbox_class.accept is Mailbox.accept and mailbox_class.is_full is Mailbox.is_full
        )
        self.limit = self.router.capacity if is_ours else 0

    def look_up_callbacks(self) -> None:
        """Note which callbacks around its actions the agent overrides."""
        self.has_before_action = overrides(self.agent, "before_action")
        self.has_after_action = overrides(self.agent, "after_action")

    def look_up_actions(self) -> dict[str, Offer]:
        """Return what the agent offers, by name."""
        return Offer.all_of(self)

    @property
    def places(self) -> int:
        """How many messages may be handled at a time."""
        return self.concurrency

    def queued(self) -> Iterable[Delivery]:
        """Return the messages that wait, and dead ones that are not removed yet."""
        return self.box

    def about_to_start(self) -> bool:
        """Return whether messages may start without the end of another, such as after a pause."""
        return self.ready or self.paused > 0 or self.departure is not None

    def blockers_of(self, delivery: Delivery | None) -> list[Delivery]:
        """Return the handlers of which one must end before a message, or any other, starts."""
        if self.about_to_start() or self.running < self.concurrency:
            return []
        return [each for each in self.active if each.kind != CALLBACK and each.lane is None]

    # -- what the agent uses, in any thread --------------------------------------------------------

    @property
    def approver(self) -> Approver | None:
        """The space's approver."""
        approver: Approver | None = self.space.approver
        return approver

    def renew(self) -> None:
        """Look the agent's actions up again, since they are others now. In any thread."""
        if get_ident() == self.router.thread_id:
            self.offers = self.look_up_actions()
        else:
            self.router.thread.call_soon(self.renew)

    def send(
        self, envelope: Envelope, answers: bool = False, **options: Unpack[SendOptions]
    ) -> None:
        """Send a message without waiting; one that `answers` is itself not answered."""
        self.router.send(envelope, self, ANSWER if answers else SEND, **options)

    def request(
        self,
        envelope: Envelope,
        timeout: float | None,
        wait: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Pending[Any]:
        """Send a request; return the object that waits for its outcome."""
        return self.router.request(envelope, timeout, wait, self, **options)

    async def carry(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on the space's loop; any loop may await this.

        The function joins the call chain of the handler that calls it, or starts its own.
        """
        router = self.router
        handling: Any = CURRENT.get()
        in_loop_thread = get_ident() == router.thread_id
        if in_loop_thread and handling is not None:
            return await function()
        delivery = Delivery(Envelope(self.id, self.id, "", {}), CALLBACK, handling)
        delivery.hops -= 1  # it is not a request
        delivery.mailbox = self
        delivery.state = RUNNING

        async def run() -> T:
            task = asyncio.current_task()
            if task is not None and not in_loop_thread:
                self.carried_tasks.add(task)  # cancelled if the agent is removed meanwhile
                task.add_done_callback(self.carried_tasks.discard)
            token = CURRENT.set(delivery)
            try:
                return await function()
            except asyncio.CancelledError:
                if self.open:
                    raise
                # The agent was removed: who awaits this on another loop was not cancelled.
                raise router.stopped_error(self.id) from None
            finally:
                reset(token)
                router.settle(delivery, None, None)

        with waiting_outside(handling, delivery):
            if in_loop_thread:
                return await run()
            router.thread.check_process()
            value: T = await asyncio.wrap_future(router.thread.run(run, context=copy_context()))
            return value

    # -- the mailbox -------------------------------------------------------------------------------

    def accept(self, delivery: Delivery) -> None:
        """Queue a message until its turn."""
        delivery.mailbox = self
        delivery.state = QUEUED
        self.box.append(delivery)
        if delivery.envelope.name == "help" and self._helps_at_once(delivery.envelope):
            self.help_requests.append(delivery)
        elif delivery.parent is not None and self.active:
            self._add_reentrant(delivery)

    def _helps_at_once(self, envelope: Envelope) -> bool:
        """Return whether help is given beside the work: the agent's class has no part in it."""
        in_order = (envelope.meta or {}).get("in_order") is True  # as a sign that others are done
        return not (
            in_order
            or self.has_before_action
            or self.has_after_action
            or overrides(self.agent, "help")
        )

    def _add_reentrant(self, delivery: Delivery) -> None:
        """Add a message to `reentrant_messages` if its call chain includes an active handler."""
        outer = delivery.parent
        while outer is not None:
            if outer in self.active:
                self.reentrant_messages.setdefault(outer, deque()).append(delivery)
                return
            outer = outer.parent

    def is_receiver_of(self, envelope: Envelope) -> bool:
        """Return whether a broadcast, or a message to a group, is for this agent, too."""
        if envelope.sender == self.id and not self.agent.receive_own_broadcasts:
            return False
        return envelope.to == EVERYONE or envelope.to[1:] in self.groups

    def waiting(self) -> int:
        """Return how many messages wait, those that await approval included."""
        return len(self.box) - self.box.dead + len(self.asking)

    def is_full(self, delivery: Delivery) -> bool:
        """Return whether it takes no more such messages; of answers it takes all.

        The agent's own messages bound the answers, and what its call chains ask of it ends them.
        """
        if delivery.kind == ANSWER or delivery.envelope.name == "help":
            return False
        if self.finishing:
            return delivery.parent is None
        return self.waiting() >= self.router.capacity or not self._has_room(delivery)

    def _has_room(self, delivery: Delivery) -> bool:
        """Return whether a message fits beside the large ones that wait; it counts among them."""
        max_bytes, args = self.router.capacity_bytes, delivery.envelope.args
        if (
            max_bytes is None
            or type(args) is not NestedArgs
            or (size := byte_count(args)) < _LARGE_BYTES
        ):
            return True
        if self.waiting_bytes and self.waiting_bytes + size > max_bytes:
            return False
        delivery.size = size
        self.waiting_bytes += size
        return True

    def _subtract_bytes(self, delivery: Delivery) -> None:
        """Subtract the bytes of a message from those that wait, if it is large."""
        if delivery.size:
            self.waiting_bytes -= delivery.size
            delivery.size = 0

    def finish_waiting(self) -> None:
        """Take no new messages from now on."""
        self.finishing = True
        self.limit = 0

    def forget(self, delivery: Delivery) -> None:
        """Count a message as dead: it has ended, or runs, before its turn."""
        self._subtract_bytes(delivery)
        if self.box.forget(delivery):
            for outer, messages in list(self.reentrant_messages.items()):
                self.reentrant_messages[outer] = deque(d for d in messages if d.state == QUEUED)

    def dispatch_ready(self) -> None:
        """Handle the messages that may be handled now."""
        box = self.box
        turns = MAX_PER_TURN
        while (
            box and not self.paused and self.running < self.concurrency and self.departure is None
        ):
            delivery = box.popleft()
            if delivery.state != QUEUED:
                box.dead -= 1
                continue
            if self.closing and delivery.parent is None:
                self.not_started.append(delivery)
                continue
            self.begin(delivery)
            turns -= 1
            if not turns and box:
                self.router.make_ready(self)
                break
        while self.help_requests and not self.paused and self.departure is None:
            delivery = self.help_requests.popleft()
            if delivery.state == QUEUED:
                delivery.is_reentrant = True
                self.forget(delivery)
                self.begin(delivery)
        if self.reentrant_messages:
            for outer in list(self.reentrant_messages):
                self.run_reentrant(outer)

    def run_reentrant(self, outer: Delivery) -> None:
        """Run re-entrant requests of a handler's call chain while it waits, one at a time."""
        queue = self.reentrant_messages.get(outer)
        while queue and outer.wait_count and outer.reentrant is None:
            delivery = queue.popleft()
            if delivery.state == QUEUED:
                delivery.is_reentrant = True
                delivery.outer = outer
                outer.reentrant = delivery
                delivery.state = RUNNING
                self.forget(delivery)
                self.begin(delivery)
            queue = self.reentrant_messages.get(outer)
        if not queue:
            self.reentrant_messages.pop(outer, None)

    def pause(self) -> Callable[[], None]:
        """Start no messages; return the function that ends the pause."""
        self.paused += 1

        def resume() -> None:
            self.paused -= 1
            self.router.make_ready(self)

        return resume

    def suspend(self) -> None:
        """Start no messages until another agent takes the place of this one; on the loop."""
        if self.end_suspension is None:
            self.end_suspension = self.pause()

    def put_back(self, delivery: Delivery) -> None:
        """Put a message back at the front of the box."""
        delivery.state = QUEUED
        self.box.appendleft(delivery)

    # -- handling ----------------------------------------------------------------------------------

    def begin(self, delivery: Delivery) -> None:
        """Handle a message: find, check and permit its action, then call callbacks and action."""
        envelope = delivery.envelope
        offer = self.offers.get(envelope.name)
        if offer is None:
            self._end_unknown_action(delivery)
            return
        args = envelope.args
        if type(args) is NestedArgs:
            self._subtract_bytes(delivery)
            args = copy_json(args)  # an action that changes them does not change the message
        try:
            kwargs = offer.check(args, offer.label)
        except InvalidArguments as error:
            if delivery.kind == ANSWER and envelope.name == "say":
                self._handle_as_response(delivery)
                return
            self.refuse(delivery, error)
            return
        except BaseException as error:  # a type's own validation may raise anything
            self.refuse(delivery, InvalidArguments(f'"{offer.label}": {error_text(error)}'))
            return
        if not (
            offer.is_plain or delivery.approved or offer.action.access_policy == ACCESS_PERMITTED
        ):
            if offer.action.access_policy == ACCESS_DENIED:
                self.refuse(delivery, DECISION_KINDS.refusal_of(offer.label, False))
            else:
                delivery.is_reentrant = False
                self._unlink(delivery)
                if delivery.recorder is not None:
                    delivery.recorder.set_aside(delivery)
                ask_permission(self, delivery, offer)
            return
        if delivery.recorder is not None and not delivery.recorder.record_start(delivery, offer):
            return
        delivery.state = RUNNING
        if not delivery.is_reentrant:
            self.running += 1
        self.active[delivery] = None
        if offer.outside_sources:
            delivery.read = offer.outside_sources
        work = offer.function(**kwargs) if offer.is_plain else handle(self, delivery, offer, kwargs)
        if tracing.active is not None:
            work = handle_in_span(delivery, work)
        self.start(delivery, work)

    def leave_lane(self, delivery: Delivery) -> None:
        """Let the next message of a handler's lane start: it waits for work of its own."""

    def finish(self, delivery: Delivery) -> None:
        """Free the place of a handler that has ended, so that the next may start."""
        delivery.state = FINISHED
        del self.active[delivery]
        if delivery.is_reentrant:
            self._unlink(delivery)
        else:
            if delivery is self.arrival:
                self.paused -= 1
                self.space.expected.note_change()
            else:
                self.running -= 1
            if (reentrant := delivery.reentrant) is not None:
                # The re-entrant request on top of it continues, and takes its place.
                self.running += 1
                reentrant.is_reentrant = False
                reentrant.outer = delivery.reentrant = None
        if self.reentrant_messages:
            for message in self.reentrant_messages.pop(delivery, ()):
                if message.state == QUEUED:
                    self._add_reentrant(message)
        if self.box or self.reentrant_messages:
            self.router.make_ready(self)

    def _unlink(self, delivery: Delivery) -> None:
        """Unlink a re-entrant request from the handlers below and above it."""
        above, below = delivery.reentrant, delivery.outer
        if above is not None:
            above.outer = below
        if below is not None:
            below.reentrant = above
        delivery.reentrant = delivery.outer = None

    def _end_unknown_action(self, delivery: Delivery) -> None:
        """End a message whose action the agent does not have."""
        self._subtract_bytes(delivery)
        name = delivery.envelope.name
        if delivery.kind == ANSWER and name == "say":
            self._handle_as_response(delivery)
        elif delivery.kind == BROADCAST:
            delivery.state = FINISHED
            delivery.answered = True
            if delivery.recorder is not None:
                delivery.recorder.note_ended(delivery)
        else:
            self.refuse(delivery, not_found(self.agent, name))

    def refuse(self, delivery: Delivery, error: RequestError) -> None:
        """End a message with an error before its action starts."""
        delivery.state = FINISHED
        self._unlink(delivery)
        self.router.refuse(delivery, error)

    def _handle_as_response(self, delivery: Delivery) -> None:
        """Handle the answer to a `say`, itself a `say`, as a `response`.

        An agent without a `say` that accepts the answer must not lose it.
        """
        args = {
            "data": delivery.envelope.args.get("content"),
            "original_message_id": delivery.original_id,
        }
        delivery.envelope = delivery.envelope._replace(name="response", args=args)
        self.begin(delivery)

    def statistics(self) -> dict[str, Any]:
        """Return how many messages wait, the actions being handled, how many await approval."""
        return {
            "waiting": self.waiting() - len(self.asking),
            "handling": [delivery.envelope.name for delivery in list(self.active)],
            "asking": len(self.asking),
        }

    # -- the end -----------------------------------------------------------------------------------

    def detach(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> int:
        """End all waiting and running messages with `error`, except the `spared` handlers.

        Returns:
            how many waited, without the requests, whose senders get the error
        """
        self.open = False
        waiting_messages = [d for d in (*self.not_started, *self.box) if d.state == QUEUED]
        self.not_started.clear()
        self.box.clear()
        self.help_requests.clear()
        self.reentrant_messages.clear()
        self.waiting_bytes = 0
        for delivery in waiting_messages:
            delivery.state = FINISHED
            self.router.refuse(delivery, error)
        for delivery in [*self.active, *self.asking]:
            if delivery not in spared:
                self.router.abort(delivery, error)
        for task in list(self.carried_tasks):
            task.cancel()
        return sum(delivery.kind not in (REQUEST, CALLBACK) for delivery in waiting_messages)
