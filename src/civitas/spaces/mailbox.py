"""An agent's place in a space: its mailbox, and the order in which its messages are handled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import Any, TypeVar

from civitas.action import ACCESS_DENIED, ACCESS_PERMITTED
from civitas.agent import CURRENT, Agent, Pending, overrides
from civitas.approval import Approver
from civitas.errors import InvalidArguments, NotPermitted, RequestError
from civitas.jsonvalue import copy_json
from civitas.message import Envelope, Nested, address
from civitas.spaces.delivery import (
    ANSWER,
    BROADCAST,
    CALLBACK,
    ENDED,
    QUEUED,
    RUNNING,
    Delivery,
    RouterPort,
)
from civitas.spaces.handler import Offer, ask_permission, handle, text_of
from civitas.spaces.request import waiting
from civitas.workflow import not_found

T = TypeVar("T")

AT_ONCE = 100
"""How many messages one agent may handle before others have their turn."""


class Mailbox:
    """The order of one agent's messages. All but the messaging is for the space's loop alone.

    Attributes:
        box: messages that wait, in the order of arrival; those that ended meanwhile lie there still
        limit: how many in the box may be there before those that wait are counted
        dead: how many in the box have ended meanwhile
        active: what is being handled
        running: how many places that takes; what is let in takes none
        held: by handler, those in the box that its requests led to, and that it therefore lets in
        asking: messages that await approval
        arriving: the `after_add` that is still to end
        leaving: what ends when the agent has left
        here: whether the loop has learnt that it has come; the ids know at once
        outside: whether it has sent from threads what the loop may still have to take in
    """

    __slots__ = (
        "active",
        "after",
        "agent",
        "arriving",
        "asking",
        "before",
        "box",
        "carried",
        "concurrency",
        "dead",
        "held",
        "here",
        "id",
        "leaving",
        "limit",
        "offers",
        "open",
        "outside",
        "ready",
        "router",
        "running",
        "space",
        "start",
    )

    def __init__(self, agent: Agent, space: Any, router: RouterPort) -> None:
        self.agent = agent
        self.space = space
        self.router = router
        self.start = router.start
        self.id = address(agent.id)
        self.box: deque[Delivery] = deque()
        self.limit = router.capacity
        self.dead = 0
        self.running = 0
        self.active: dict[Delivery, None] = {}
        self.held: dict[Delivery, deque[Delivery]] = {}
        self.asking: set[Delivery] = set()
        self.carried: set[asyncio.Task[Any]] = set()
        # All of them now: what cannot be described fails here, and not at the first call.
        self.before = overrides(agent, "before_action")
        self.after = overrides(agent, "after_action")
        self.offers: dict[str, Offer] = Offer.all_of(self)
        self.concurrency = agent.concurrency
        self.open = True
        self.arriving: Delivery | None = None
        self.leaving: Delivery | None = None
        self.here = False
        self.ready = False
        self.outside = False

    # -- what the agent uses, in any thread --------------------------------------------------------

    @property
    def approver(self) -> Approver | None:
        """The space's approver."""
        approver: Approver | None = self.space.approver
        return approver

    def send(self, envelope: Envelope) -> None:
        """Send a message and go on."""
        self.router.send(envelope, self)

    def request(
        self, envelope: Envelope, timeout: float | None, wait: bool = False
    ) -> Pending[Any]:
        """Send a message whose value is wanted."""
        return self.router.request(envelope, timeout, wait, self)

    async def carry(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on the space's loop, from whichever loop this is awaited.

        It belongs to the chain of the handler that calls it, or begins one of its own.
        """
        router = self.router
        handling: Any = CURRENT.get()
        here = get_ident() == router.thread_id
        if here and handling is not None:
            return await function()
        delivery = Delivery(Envelope(self.id, self.id, "", {}), CALLBACK, handling)
        delivery.hops -= 1  # it is no request
        delivery.mailbox = self
        delivery.state = RUNNING

        async def run() -> T:
            task = asyncio.current_task()
            if task is not None and not here:
                self.carried.add(task)  # cancelled if the agent is removed meanwhile
                task.add_done_callback(self.carried.discard)
            before = CURRENT.set(delivery)
            try:
                return await function()
            finally:
                CURRENT.reset(before)
                router.settle(delivery, None, None)

        with waiting(handling, delivery):
            if here:
                return await run()
            router.thread.check_process()
            value: T = await asyncio.wrap_future(router.thread.run(run))
            return value

    def offer_changed(self) -> None:
        """Look the agent's actions up anew: they are not what they were."""
        self.router.enter(lambda: self.offers.update(Offer.all_of(self)))

    # -- the mailbox -------------------------------------------------------------------------------

    def accept(self, delivery: Delivery) -> None:
        """Put a message where it waits for its turn."""
        delivery.mailbox = self
        delivery.state = QUEUED
        self.box.append(delivery)
        if delivery.parent is not None and self.active:
            self._hold(delivery)

    def _hold(self, delivery: Delivery) -> None:
        """Note it with the handler here, if there is one, that waits until it is handled."""
        outer = delivery.parent
        while outer is not None:
            if outer in self.active:
                self.held.setdefault(outer, deque()).append(delivery)
                return
            outer = outer.parent

    def waiting(self) -> int:
        """How many messages wait, those that await approval included."""
        return len(self.box) - self.dead + len(self.asking)

    def forget(self, delivery: Delivery) -> None:
        """A message in the mailbox has ended, or was let in, before its turn."""
        # Taking it out of the middle would cost as much as the box is long, so it stays until it
        # comes up, or until half the box is such.
        self.dead += 1
        if self.dead > 32 and self.dead * 2 > len(self.box):
            live = [delivery for delivery in self.box if delivery.state == QUEUED]
            self.box.clear()
            self.box.extend(live)
            self.dead = 0
            for outer, held in list(self.held.items()):
                self.held[outer] = deque(d for d in held if d.state == QUEUED)

    def dispatch_ready(self) -> None:
        """Handle what may be handled now."""
        box = self.box
        turns = AT_ONCE
        while box and self.running < self.concurrency and self.leaving is None:
            delivery = box.popleft()
            if delivery.state != QUEUED:
                self.dead -= 1
                continue
            self.begin(delivery)
            turns -= 1
            if not turns and box:
                self.router.make_ready(self)
                break
        if self.held:
            for outer in list(self.held):
                self.run_reentrant(outer)

    def run_reentrant(self, outer: Delivery) -> None:
        """Handle, before its turn, what a handler here waits for: one after the other."""
        held = self.held.get(outer)
        while held and outer.waiting and outer.over is None:
            delivery = held.popleft()
            if delivery.state == QUEUED:
                delivery.inner = True
                delivery.under = outer
                outer.over = delivery
                delivery.state = RUNNING
                self.forget(delivery)
                self.begin(delivery)
            held = self.held.get(outer)
        if not held:
            self.held.pop(outer, None)

    def pause(self) -> Callable[[], None]:
        """Begin nothing; gives what begins again."""
        places = self.concurrency
        self.running += places

        def go_on() -> None:
            self.running -= places
            self.router.make_ready(self)

        return go_on

    def put_back(self, delivery: Delivery) -> None:
        """Put a message back, first in its order."""
        delivery.state = QUEUED
        self.box.appendleft(delivery)

    def begin_awaited(self, places: int) -> None:
        """Begin what handlers of this process wait for, in so many places, and nothing else."""
        for delivery in list(self.box):
            if self.running >= places:
                return
            if delivery.state == QUEUED and delivery.parent is not None:
                self.box.remove(delivery)
                self.begin(delivery)

    # -- handling ----------------------------------------------------------------------------------

    def begin(self, delivery: Delivery) -> None:
        """Handle a message: found, valid, permitted, then the callbacks and the action."""
        envelope = delivery.envelope
        offer = self.offers.get(envelope.name)
        if offer is None:
            self._missing(delivery)
            return
        args = envelope.args
        if type(args) is Nested:
            args = copy_json(args)  # what the action does to them is not done to the message
        try:
            kwargs = offer.check(args, offer.where)
        except InvalidArguments as error:
            if delivery.kind == ANSWER and envelope.name == "say":
                self._tell(delivery)
                return
            self._refuse(delivery, error)
            return
        except BaseException as error:  # a type's own validation may raise anything
            self._refuse(delivery, InvalidArguments(f'"{offer.where}": {text_of(error)}'))
            return
        if offer.policy != ACCESS_PERMITTED and not delivery.approved:
            if offer.policy == ACCESS_DENIED:
                self._refuse(delivery, NotPermitted(f'"{offer.where}" not permitted'))
            else:
                delivery.inner = False
                self._lift(delivery)
                if delivery.recorder is not None:
                    delivery.recorder.set_aside(delivery)
                ask_permission(self, delivery, offer)
            return
        if delivery.recorder is not None and not delivery.recorder.begins(delivery, offer):
            return
        delivery.state = RUNNING
        if not delivery.inner:
            self.running += 1
        self.active[delivery] = None
        self.start(
            delivery,
            offer.function(**kwargs) if offer.plain else handle(self, delivery, offer, kwargs),
        )

    def finish(self, delivery: Delivery) -> None:
        """A handler has ended; the next may begin."""
        delivery.state = ENDED
        self.active.pop(delivery, None)
        over = delivery.over
        if delivery.inner:
            self._lift(delivery)
        else:
            self.running -= self.concurrency if delivery is self.arriving else 1
            if over is not None:
                # What was let in on top of it goes on, and takes its place.
                self.running += 1
                over.inner = False
                over.under = delivery.over = None
        if self.held:
            for waits in self.held.pop(delivery, ()):
                if waits.state == QUEUED:
                    self._hold(waits)
        if self.box or self.held:
            self.router.make_ready(self)

    def _lift(self, delivery: Delivery) -> None:
        """Take it off the handler that it was let in on top of."""
        over, under = delivery.over, delivery.under
        if over is not None:
            over.under = under
        if under is not None:
            under.over = over
        delivery.over = delivery.under = None

    def _missing(self, delivery: Delivery) -> None:
        """What becomes of a message whose action the agent does not have."""
        name = delivery.envelope.name
        if delivery.kind == ANSWER and name == "say":
            self._tell(delivery)
        elif delivery.kind == BROADCAST:
            delivery.state = ENDED
            delivery.answered = True
            if delivery.recorder is not None:
                delivery.recorder.concluded(delivery)
        else:
            self._refuse(delivery, not_found(self.agent, name))

    def _refuse(self, delivery: Delivery, error: RequestError) -> None:
        """End a message before anything of it was begun."""
        delivery.state = ENDED
        self._lift(delivery)
        self.router.refuse(delivery, error)

    def _tell(self, delivery: Delivery) -> None:
        """Hand over as a `response` the answer to a `say`, which comes as a `say`.

        Who has no `say` that takes it is not to lose the answer.
        """
        args = {
            "data": delivery.envelope.args.get("content"),
            "original_message_id": delivery.original_id,
        }
        delivery.envelope = delivery.envelope._replace(name="response", args=args)
        self.begin(delivery)

    def statistics(self) -> dict[str, Any]:
        """How many messages wait, what is being handled, how many await approval."""
        handling = [delivery.envelope.name for delivery in list(self.active)]
        return {
            "waiting": self.waiting() - len(self.asking),
            "handling": handling,
            "asking": len(self.asking),
        }

    # -- the end -----------------------------------------------------------------------------------

    def detach(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> None:
        """End whatever waits or runs here with `error`, but for the handlers that asked for it."""
        self.open = False
        waiting = [d for d in self.box if d.state == QUEUED]
        self.box.clear()
        self.held.clear()
        self.dead = 0
        for delivery in waiting:
            delivery.state = ENDED
            self.router.refuse(delivery, error)
        for delivery in [*self.active, *self.asking]:
            if delivery not in spared:
                self.router.abort(delivery, error)
        for task in list(self.carried):
            task.cancel()

    def __repr__(self) -> str:
        return f"<Mailbox of {self.id!r}>"
