"""An agent's place in a space: its mailbox, and the order in which its messages are handled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from civitas.action import ACCESS_DENIED, ACCESS_PERMITTED
from civitas.agent import CURRENT, Agent, overrides
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
    CALLBACK,
    ENDED,
    QUEUED,
    RUNNING,
    Delivery,
    new_chain,
)
from civitas.spaces.handling import Offer, ask_permission, handle, text_of
from civitas.spaces.request import Request, waiting

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
        held: by chain, those in the box that may be let in before their turn
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
        """Run an async function on the space's loop, from whichever loop this is awaited.

        It belongs to the chain of the handler that calls it, or begins one of its own.
        """
        office = self.office
        handling: Any = CURRENT.get()
        if handling is not None and get_ident() == office.thread_id:
            return await function()
        delivery = Delivery(Envelope(self.id, self.id, "", {}), CALLBACK, 0, 0, None)
        delivery.seat = self
        delivery.state = RUNNING
        if handling is None:
            delivery.chain = new_chain()
        else:
            delivery.chain, delivery.hops = handling.chain, handling.hops

        async def run() -> T:
            before = CURRENT.set(delivery)
            try:
                return await function()
            finally:
                CURRENT.reset(before)
                office.settle(delivery, None, None)

        with waiting(handling, delivery):
            return await office.thread.carry(run)

    def offer_changed(self) -> None:
        """Look the agent's actions up anew: they are not what they were."""
        self.office.enter(lambda: self.offers.update(Offer.all_of(self)))

    # -- the mailbox -------------------------------------------------------------------------------

    def accept(self, delivery: Delivery) -> None:
        """Put a message where it waits for its turn."""
        delivery.seat = self
        delivery.state = QUEUED
        self.box.append(delivery)
        if delivery.hops > 1 and delivery.chain in self.strands:
            self.held.setdefault(delivery.chain, deque()).append(delivery)

    def waiting(self) -> int:
        """How many messages wait."""
        return len(self.box) - self.dead

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
            for chain, held in list(self.held.items()):
                self.held[chain] = deque(d for d in held if d.state == QUEUED)

    def kick(self) -> None:
        """Handle what may be handled now."""
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
                break
        if self.held:
            for chain in list(self.held):
                self.let_in(chain)

    def let_in(self, chain: int) -> None:
        """Handle the next message of a chain before its turn, if every handler of it is waiting."""
        held = self.held.get(chain)
        while held:
            handler = self.strands.get(chain)
            while handler is not None and handler.waiting:
                handler = handler.under
            if handler is not None:
                return
            if chain not in self.strands:
                break  # nothing waits for them here any more: they have their turn
            delivery = held.popleft()
            if delivery.state == QUEUED:
                delivery.inner = True
                delivery.state = RUNNING
                self.forget(delivery)
                self.begin(delivery)
            held = self.held.get(chain)
        self.held.pop(chain, None)

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
        strands = self.strands
        chain = delivery.chain
        top = strands.get(chain)
        if top is delivery:
            top = delivery.under
            if top is None:
                del strands[chain]
            else:
                strands[chain] = top
        else:
            handler = top
            while handler is not None and handler.under is not delivery:
                handler = handler.under
            if handler is not None:
                handler.under = delivery.under
        delivery.under = None
        if not delivery.inner:
            # What was let in on top of it takes its place, if it goes on.
            while top is not None and not top.inner:
                top = top.under
            if top is None:
                self.running -= 1
            else:
                top.inner = False
        if self.box or self.held:
            self.office.make_ready(self)

    def _missing(self, delivery: Delivery) -> None:
        """What becomes of a message whose action the agent does not have."""
        name = delivery.envelope.name
        if delivery.kind == ANSWER and name == "say":
            self._tell(delivery)
            return
        delivery.state = ENDED
        if delivery.kind == BROADCAST:
            delivery.answered = True
        else:
            self.office.refuse(delivery, ActionNotFound(f'"{name}" not found on "{self.id}"'))

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
        handling = []
        for handler in list(self.strands.values()):
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

    def __repr__(self) -> str:
        return f"<Seat of {self.id!r}>"
