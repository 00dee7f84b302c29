"""An agent's place in a space: its mailbox, and the order in which its messages are handled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from civitas.action import ACCESS_DENIED, ACCESS_PERMITTED
from civitas.agent import Agent, overrides
from civitas.approval import Approver
from civitas.errors import (
    ActionNotFound,
    InvalidArguments,
    NotPermitted,
    RequestError,
)
from civitas.jsonvalue import copy_json
from civitas.message import Envelope, Nested, address
from civitas.spaces.delivery import (
    ANSWER,
    BROADCAST,
    ENDED,
    QUEUED,
    RUNNING,
    Delivery,
)
from civitas.spaces.handling import Offer, ask_permission, handle, text_of
from civitas.spaces.request import Request

if TYPE_CHECKING:
    from civitas.spaces.office import PostOffice
    from civitas.spaces.space import Space

__all__ = ["Seat"]

T = TypeVar("T")

_AT_ONCE = 100
"""How many messages one agent may handle before others have their turn."""


class Seat:
    """The order of one agent's messages. All but the messaging is for the space's loop alone.

    Attributes:
        box: messages that wait, in the order of arrival; those that ended meanwhile lie there still
        dead: how many in the box have ended meanwhile
        running: how many messages are being handled, those let in for a chain not counted
        strands: by chain, the message handled last
        held: by chain, messages that wait to be let in
        asking: messages that await approval
    """

    __slots__ = (
        "after",
        "agent",
        "asking",
        "before",
        "box",
        "concurrency",
        "dead",
        "held",
        "id",
        "leaving",
        "offers",
        "office",
        "open",
        "ready",
        "running",
        "space",
        "start",
        "strands",
    )

    def __init__(self, agent: Agent, space: Space, office: PostOffice) -> None:
        self.agent = agent
        self.space = space
        self.office = office
        self.start = office.workers.start
        self.id = address(agent.id)
        self.box: deque[Delivery] = deque()
        self.dead = 0
        self.running = 0
        self.strands: dict[int, Delivery] = {}
        self.held: dict[int, deque[Delivery]] = {}
        self.asking: set[Delivery] = set()
        # All of them now: what cannot be described fails here, and not at the first call.
        self.before = overrides(agent, "before_action")
        self.after = overrides(agent, "after_action")
        self.offers: dict[str, Offer] = Offer.all_of(self)
        self.concurrency = agent.concurrency
        self.open = True
        self.leaving: Delivery | None = None
        self.ready = False

    # -- what the agent uses, in any thread --------------------------------------------------------

    @property
    def approver(self) -> Approver | None:
        """The space's approver."""
        return self.space.approver

    def send(self, envelope: Envelope) -> None:
        """Send a message and go on."""
        self.office.send(envelope, self)

    def request(self, envelope: Envelope, timeout: float | None) -> Request:
        """Send a message whose value is wanted."""
        return self.office.request(envelope, timeout)

    async def carry(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on the space's loop, from whichever loop this is awaited."""
        return await self.office.thread.carry(function)

    def offer_changed(self) -> None:
        """Look the agent's actions up anew: they are not what they were."""
        self.office.enter(lambda: self.offers.update(Offer.all_of(self)))

    # -- the mailbox -------------------------------------------------------------------------------

    def accept(self, delivery: Delivery) -> None:
        """Put a message where it waits for its turn."""
        delivery.seat = self
        delivery.state = QUEUED
        if delivery.hops > 1 and delivery.chain in self.strands:
            self.held.setdefault(delivery.chain, deque()).append(delivery)
        else:
            self.box.append(delivery)

    def waiting(self) -> int:
        """How many messages wait."""
        held = sum(map(len, self.held.values())) if self.held else 0
        return len(self.box) - self.dead + held

    def forget(self, delivery: Delivery) -> None:
        """A message in the mailbox has ended before its turn."""
        held = self.held.get(delivery.chain)
        if held is not None and delivery in held:
            held.remove(delivery)
            if not held:
                del self.held[delivery.chain]
            return
        # Taking it out of the middle would cost as much as the box is long, so it stays until it
        # comes up, or until half the box is such.
        self.dead += 1
        if self.dead > 32 and self.dead * 2 > len(self.box):
            self.box = deque(d for d in self.box if d.state == QUEUED)
            self.dead = 0

    def kick(self) -> None:
        """Handle what may be handled now."""
        if self.held:
            for chain in list(self.held):
                self.let_in(chain)
        box = self.box
        turns = _AT_ONCE
        while box and self.running < self.concurrency:
            delivery = box.popleft()
            if delivery.state != QUEUED:
                self.dead -= 1
                continue
            self.begin(delivery)
            turns -= 1
            if not turns and box:
                self.office.make_ready(self)
                return
            box = self.box  # it may have been replaced meanwhile

    def let_in(self, chain: int) -> None:
        """Handle the next message of a chain, if every handler of that chain here is waiting."""
        held = self.held.get(chain)
        while held:
            handler = self.strands.get(chain)
            if handler is None:
                # Its chain is no longer handled here, so they are messages like any other now.
                del self.held[chain]
                self.box.extendleft(reversed(held))
                return
            while handler is not None:
                if not handler.waiting:
                    return
                handler = handler.under
            delivery = held.popleft()
            delivery.inner = True
            self.begin(delivery)
            held = self.held.get(chain)
        self.held.pop(chain, None)

    # -- handling ----------------------------------------------------------------------------------

    def begin(self, delivery: Delivery) -> None:
        """Handle a message: found, valid, permitted, then the callbacks and the action."""
        envelope = delivery.envelope
        offer = self.offers.get(envelope.name)
        if offer is None:
            offer = self._missing(delivery)
            if offer is None:
                return
            envelope = delivery.envelope
        args = envelope.args
        if type(args) is Nested:
            args = copy_json(args)  # what the action does to them is not done to the message
        try:
            kwargs = offer.check(args, offer.where)
        except InvalidArguments as error:
            delivery.state = ENDED
            self.office.refuse(delivery, error)
            return
        except Exception as error:  # a type's own validation may raise anything
            delivery.state = ENDED
            self.office.refuse(delivery, InvalidArguments(f'"{offer.where}": {text_of(error)}'))
            return
        if offer.policy != ACCESS_PERMITTED and not delivery.approved:
            if offer.policy == ACCESS_DENIED:
                delivery.state = ENDED
                self.office.refuse(delivery, NotPermitted(f'"{offer.where}" not permitted'))
            else:
                ask_permission(self, delivery, offer)
            return
        delivery.state = RUNNING
        if not delivery.inner:
            self.running += 1
        strands = self.strands
        chain = delivery.chain
        if chain in strands:
            delivery.under = strands[chain]
        strands[chain] = delivery
        self.start(
            delivery,
            offer.function(**kwargs) if offer.plain else handle(self, delivery, offer, kwargs),
        )

    def finish(self, delivery: Delivery) -> None:
        """A handler has ended; the next may begin."""
        delivery.state = ENDED
        if not delivery.inner:
            self.running -= 1
        strands = self.strands
        chain = delivery.chain
        top = strands.get(chain)
        if top is delivery:
            under = delivery.under
            if under is None:
                del strands[chain]
            else:
                strands[chain] = under
                delivery.under = None
        else:
            while top is not None and top.under is not delivery:
                top = top.under
            if top is not None:
                top.under = delivery.under
            delivery.under = None
        if self.box or self.held:
            self.office.make_ready(self)

    def _missing(self, delivery: Delivery) -> Offer | None:
        """What becomes of a message whose action the agent does not have."""
        envelope = delivery.envelope
        name = envelope.name
        if delivery.kind == ANSWER and name == "say":
            # An answer to a `say` comes as a `say`; who has none of its own is not to lose it.
            args = {
                "data": envelope.args.get("content"),
                "original_message_id": delivery.original_id,
            }
            delivery.envelope = envelope._replace(name="response", args=args)
            return self.offers["response"]
        delivery.state = ENDED
        if delivery.kind == BROADCAST:
            delivery.answered = True
        else:
            self.office.refuse(delivery, ActionNotFound(f'"{name}" not found on "{self.id}"'))
        return None

    def statistics(self) -> dict[str, Any]:
        """How many messages wait, what is being handled, how many await approval."""
        handling = []
        for handler in self.strands.values():
            delivery: Delivery | None = handler
            while delivery is not None:
                handling.append(delivery.envelope.name)
                delivery = delivery.under
        return {"waiting": self.waiting(), "handling": handling, "asking": len(self.asking)}

    # -- the end -----------------------------------------------------------------------------------

    def vacate(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> None:
        """End whatever waits or runs here with `error`, but for the handlers that asked for it."""
        self.open = False
        waiting = [d for d in self.box if d.state == QUEUED]
        for held in self.held.values():
            waiting.extend(held)
        self.box.clear()
        self.held.clear()
        self.dead = 0
        for delivery in waiting:
            delivery.state = ENDED
            self.office.refuse(delivery, error)
        running = list(self.strands.values())
        for delivery in [*running, *self.asking]:
            handler: Delivery | None = delivery
            while handler is not None:
                if handler not in spared:
                    self.office.abort(handler, error)
                handler = handler.under
        if self.agent._seat is self:
            self.agent._seat = None

    def __repr__(self) -> str:
        return f"<Seat of {self.id!r}>"
