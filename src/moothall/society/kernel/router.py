"""Routes messages in a society: a message sent in a step is delivered in the next.

Senders are heard in an order drawn for the step; an agent handles its messages in its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, ClassVar, Final, NamedTuple, cast

from moothall import Agent, InvalidMessage, RequestCancelled, RequestError, VirtualTimeError
from moothall.build import (
    CURRENT,
    Delivery,
    Envelope,
    LoopThread,
    Mailbox,
    Request,
    Router,
    address,
    log_failure,
)
from moothall.society.kernel.kept import digests_of, owners_of_agent
from moothall.society.kernel.wants import Answer, Want, id_order

logger: logging.Logger = logging.getLogger("moothall.society")

Interceptor = Callable[[dict[str, Any]], dict[str, Any] | None]


class SentItem(NamedTuple):
    """A message on its way to the next step."""

    envelope: Envelope
    kind: int = Delivery.SEND
    answered_id: str | None = None  # the id of the message that an answer answers
    request: Delivery | None = None  # which the answer settles

    @property
    def rank(self) -> tuple[int, int, str]:
        """Its sender's sort key in id order."""
        return id_order(self.envelope.sender)

    def as_json(self) -> list[object]:
        """Return the message as JSON data."""
        return [[*self.envelope], self.kind, self.answered_id]

    @classmethod
    def of_json(cls, data: Any) -> SentItem:
        """Return the message that `as_json` has written."""
        parts, kind, answers = data
        return cls(Envelope(*parts), kind, answers)


class CitizenTurn(Delivery):
    """An agent's turn in a step: it handles its messages, then does its own step."""

    __slots__ = ()

    timer: asyncio.TimerHandle | None = None  # ends a turn that waits too long, and sets `is_late`
    is_late: bool = False


class VirtualRequest(Request):
    """A request to a service: its outcome is available after the step's commit stage."""

    __slots__ = ()

    def __del__(self) -> None:
        """Do nothing: the service settles the request even if nobody waits."""

    def __await__(self) -> Any:
        if not self.done() and get_ident() == self.router.thread_id:
            text = f'the request to "{self.delivery}" is settled when the step is over: its answer '
            text += "comes as a `response` in the next step, so do not await it in this one"
            raise VirtualTimeError(text)
        return (yield from super().__await__())


_LAZY_ATTRIBUTES: Final[dict[str, Callable[[Any], Any]]] = {
    "active": lambda mailbox: {},
    "asking": lambda mailbox: set(),
    "box": lambda mailbox: mailbox.line_type(),
    "carried_tasks": lambda mailbox: set(),
    "offers": Mailbox.look_up_actions,
    "reentrant_messages": lambda mailbox: {},
}
"""Attributes that few agents need, made on first use to save memory."""


def _keep_handler(delivery: Delivery, handler: Coroutine[object, object, object]) -> None:
    delivery.mailbox.next_handler = handler


@dataclass(slots=True, eq=False, repr=False)
class SocietyMailbox(Mailbox):
    """An agent's mailbox in a society: its mail, its wants in this step, and its latest answers."""

    has_lanes: ClassVar[bool] = False

    router: SocietyRouter
    # Without a value until their first use.
    box: Any = field(init=False)
    active: dict[Delivery, None] = field(init=False)
    reentrant_messages: dict[Delivery, deque[Delivery]] = field(init=False)
    asking: set[Delivery] = field(init=False)
    carried_tasks: set[asyncio.Task[Any]] = field(init=False)
    rank: tuple[int, int, str] = field(init=False)
    takes_steps: bool = field(init=False)  # whether it has its own step
    mail: list[SentItem] | tuple[()] = ()
    wants: list[Want] | None = None
    answers: list[Answer] | tuple[()] = ()
    next_handler: Coroutine[object, object, object] | None = None  # handles the next message
    shares_memory: bool = False  # whether the agent keeps its senders apart in other spaces
    is_row: bool = False  # whether it lives as a row, which has its messages
    first_digests: dict[tuple[str, str], object] = field(init=False)  # as it came
    classes: str = field(init=False)  # of the agent and its blocks

    def __post_init__(self) -> None:
        self.id: str = address(self.agent.id)
        self.rank = id_order(self.id)
        # A handler is awaited in the turn.
        self.start: Callable[[Delivery, Coroutine[object, object, object]], None] = _keep_handler
        self.limit: int = self.router.capacity
        self.inspect_agent()

    def inspect_agent(self) -> None:
        """Note what the agent, which is new here, defines and keeps."""
        agent = self.agent
        self.first_digests = digests_of(owners_of_agent(agent, self.id))
        self.look_up_callbacks()
        self.takes_steps = type(agent).forward is not Agent.forward or "forward" in vars(agent)
        self.concurrency = 1  # one message at a time, unlike in other spaces
        # Actions that cannot be described fail here; each combination of classes is checked once.
        classes = (type(agent), *map(type, agent.blocks))
        if classes not in self.router.classes:
            self.look_up_actions()
            self.router.classes[classes] = ", ".join(each.__name__ for each in classes)
        self.classes: str = self.router.classes[classes]

    def __getattr__(self, name: str) -> Any:
        make = _LAZY_ATTRIBUTES.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = make(self)
        setattr(self, name, value)
        return value

    def want(self, want: Want) -> None:
        """Keep a want for the commit stage."""
        if self.wants is None:
            self.wants = []
            self.router.mailboxes_with_wants.append(self)
        self.wants.append(want)

    def accept(self, delivery: Delivery) -> None:
        """Mark a permitted message as queued; the same turn handles it."""
        delivery.state = Delivery.QUEUED

    def waiting(self) -> int:
        """Return the number of waiting messages, with those that await approval."""
        return len(self.mail) + len(self.asking)

    def detach(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> int:
        """End all messages, and the agent's turn unless it removes itself."""
        # With slots, `super()` knows the class before.
        dropped = Mailbox.detach(self, error, spared)
        for turn in () if any(spared) else [*self.router.turns]:
            if turn.mailbox is self:
                self.router.tasks.cancel(turn)
        return dropped

    async def take_turn(self, turn: CitizenTurn, mail: Iterable[SentItem]) -> None:
        """Handle the messages, one after the other, then do the agent's own step."""
        for sent in mail:
            if not self.open:
                return
            delivery = Delivery(sent.envelope, sent.kind)
            if not sent.envelope.is_to_one:
                delivery.kind = Delivery.BROADCAST
            delivery.original_id = sent.answered_id
            await self._handle(delivery)
            CURRENT.set(turn)
        if self.takes_steps and self.open:
            await self.agent.run()

    async def _handle(self, delivery: Delivery) -> None:
        delivery.mailbox = self
        self.begin(delivery)
        if delivery.state == Delivery.ASKING:
            approval = delivery.task
            if approval is not None:
                await asyncio.wait((approval,))
            if delivery.answered or not delivery.approved:
                return
            self.begin(delivery)
        handler, self.next_handler = self.next_handler, None
        if handler is None:
            return
        value = failure = None
        CURRENT.set(delivery)
        try:
            value = await handler
        except BaseException as error:  # an action's exception is its outcome
            failure = error
        Router.end_handling(self.router, delivery, value, failure)
        if isinstance(failure, asyncio.CancelledError):
            raise failure


class SocietyRouter(Router):
    """Takes messages in as every router does, and delivers them step by step."""

    def __init__(
        self,
        thread: LoopThread,
        mailbox: int,
        services: Mapping[str, object],
        turn_timeout_s: float,
        on_turn_end: Callable[[CitizenTurn, BaseException | None], None],
    ) -> None:
        super().__init__(thread, mailbox)
        self.sent: list[SentItem] = []
        self.services = services
        self.classes: dict[tuple[type, ...], str] = {}  # of agents and their blocks: checked ones
        self.mailboxes_with_wants: list[SocietyMailbox] = []  # those with wants in this step
        self.turns: set[CitizenTurn] = set()  # under way
        self._turn_timeout_s = turn_timeout_s
        self._on_turn_end = on_turn_end
        self._turn_ended = asyncio.Event()

    # -- sending -----------------------------------------------------------------------------------

    def send(
        self,
        envelope: Envelope,
        mailbox: Mailbox,
        kind: int = Delivery.SEND,
        delay: float = 0.0,
        *args: Any,
        **options: Any,
    ) -> None:
        """Send a message of the agent in `mailbox`; raise VirtualTimeError if it has a delay."""
        if delay:
            text = f"agent {mailbox.id!r} cannot delay a message: a society's time passes in steps"
            raise VirtualTimeError(f"{text}; send it in a later step")
        super().send(envelope, mailbox, kind, delay, *args, **options)

    def route(self, envelope: Envelope, mailbox: Mailbox | None, kind: int = Delivery.SEND) -> None:
        """Keep a message for the next step."""
        if not self.closed:
            self.sent.append(SentItem(envelope, kind))

    def post(self, delivery: Delivery) -> None:
        """Keep an answer, or a request to a service, for the next step."""
        if delivery.kind == Delivery.REQUEST:
            self.sent.append(SentItem(delivery.envelope, request=delivery))
        else:
            self.sent.append(SentItem(delivery.envelope, Delivery.ANSWER, delivery.original_id))

    def request(
        self,
        envelope: Envelope,
        timeout: float | None,
        wait: bool,
        mailbox: Mailbox,
        *args: Any,
        **options: Any,
    ) -> Request:
        """Send a request to a service. Raises VirtualTimeError for one to an agent."""
        if not envelope.is_to_one:
            raise InvalidMessage("to", f"a request goes to one agent, not to {envelope.to}")
        if envelope.to not in self.services:
            raise VirtualTimeError(
                f"agent {mailbox.id!r} cannot request from {envelope.to!r}: in a society an answer "
                "comes in the next step; send a message, and its answer comes as one; requests go "
                f"to services: {', '.join(self.services) or 'there are none'}"
            )
        delivery = Delivery(envelope, Delivery.REQUEST)
        self.call_soon(self.post, delivery)
        return VirtualRequest(delivery, self)

    def make_ready(self, mailbox: object) -> None:
        """Do nothing: an agent handles its messages in its turn."""

    # -- delivery ----------------------------------------------------------------------------------

    def collect(self, interceptors: tuple[Interceptor, ...]) -> list[SentItem]:
        """Return and show the sent messages by (sender, sequence), after the interceptors."""
        self.thread.drain()
        sent, self.sent = self.sent, []
        # The sort is stable: messages of one sender keep their order.
        sent.sort(key=lambda each: each.rank)
        if interceptors:
            sent = [each for original in sent for each in self._intercept(original, interceptors)]
        if self.observers:
            for each in sent:
                self.show(each.envelope)
        return sent

    def _intercept(self, sent: SentItem, interceptors: tuple[Interceptor, ...]) -> list[SentItem]:
        """Return the message after the interceptors, or nothing. Skip an interceptor that fails."""
        for each in interceptors:
            try:
                message = each(sent.envelope.to_dict())
                if message is None:
                    if sent.request is not None:
                        cancelled = RequestCancelled(f'an interceptor stopped "{sent.request}"')
                        self.settle(sent.request, None, cancelled)
                    return []
                envelope = Envelope.from_message(message, sent.envelope.sender)
            except Exception as error:
                subject = f"a message of {sent.envelope.sender!r}"
                text = f"interceptor {each!r} failed and is skipped for {subject}"
                log_failure(logger, text, error)
            else:
                old = sent.envelope
                envelope = envelope._replace(thread=old.thread, within=old.within)
                sent = sent._replace(envelope=envelope)
        return [sent]

    def deliver(self, sent: list[SentItem]) -> int:
        """Put messages into receivers' mail, but rows'; return how many were delivered."""
        mailboxes, count = cast(Any, self.mailboxes), 0
        for each in sent:
            envelope = each.envelope
            if not envelope.is_to_one:
                for mailbox in list(mailboxes.values()):
                    if mailbox.is_receiver_of(envelope):
                        count += self._put_into_mailbox(mailbox, each)
                continue
            if (mailbox := mailboxes.get(envelope.to)) is not None:
                count += self._put_into_mailbox(mailbox, each)
        return count

    def _put_into_mailbox(self, mailbox: SocietyMailbox, sent: SentItem) -> int:
        if mailbox.is_row:
            return 0
        if len(mailbox.mail) >= self.capacity:
            delivery = Delivery(sent.envelope, sent.kind)
            delivery.mailbox = mailbox
            self.refuse(delivery, self.full_error(mailbox))
            return 0
        mailbox.mail = mailbox.mail or []
        mailbox.mail.append(sent)
        return 1

    # -- turns -------------------------------------------------------------------------------------

    def begin(self, mailbox: SocietyMailbox) -> None:
        """Begin an agent's turn; a turn that does not wait has ended when this returns."""
        turn = CitizenTurn(Envelope(mailbox.id, mailbox.id, "step", {}), Delivery.CALLBACK)
        turn.mailbox, turn.state = mailbox, Delivery.RUNNING
        mail, mailbox.mail = mailbox.mail, ()
        self.turns.add(turn)
        self.start(turn, mailbox.take_turn(turn, mail))
        if turn in self.turns:
            turn.timer = self.loop.call_later(self._turn_timeout_s, self._on_late_turn, turn)

    def _on_late_turn(self, turn: CitizenTurn) -> None:
        turn.is_late = True
        self.tasks.cancel(turn)

    def end_handling(self, delivery: Delivery, value: object, error: BaseException | None) -> None:
        """Handle the end of a turn, or of a callback that all spaces have."""
        if type(delivery) is not CitizenTurn:
            super().end_handling(delivery, value, error)
            return
        self.turns.discard(delivery)
        if delivery.timer is not None:
            delivery.timer.cancel()
        self._on_turn_end(delivery, error)
        self._turn_ended.set()

    async def wait_turn_end(self) -> None:
        """Wait until a turn has ended."""
        self._turn_ended.clear()
        await self._turn_ended.wait()

    async def break_off(self) -> None:
        """Cancel the turns that wait, and wait until they have ended."""
        for turn in list(self.turns):
            turn.is_cancelling = True
            self.tasks.cancel(turn)
        # A society that closes begins none.
        while any(turn.worker is not None for turn in self.turns):
            await self.wait_turn_end()

    # -- services ----------------------------------------------------------------------------------

    def answer(self, sent: SentItem, value: object, error: RequestError | None) -> None:
        """Answer a message to a service: by a message, and by settling its request, if any."""
        if sent.request is not None:
            self.settle(sent.request, value, error)
        self.send_answer(Delivery(sent.envelope, Delivery.SEND), value, error)
