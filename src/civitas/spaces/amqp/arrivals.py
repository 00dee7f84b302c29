"""Messages that come over the broker: known or new, recorded, handled, answered, acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final

from civitas.action import ACCESS_REQUESTED
from civitas.errors import (
    ActionError,
    AgentStopped,
    InboxError,
    InDoubt,
    RequestCancelled,
    RequestError,
    SpaceClosed,
)
from civitas.message import BROADCAST as EVERYONE
from civitas.spaces import delivery as kinds
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.burials import Burials
from civitas.spaces.amqp.chains import Chains
from civitas.spaces.amqp.inbox import ENDED, STARTED, Entry, Inbox
from civitas.spaces.amqp.intake import Intake, Tag
from civitas.spaces.amqp.wire import Arrived, Letter, Unreadable
from civitas.spaces.delivery import Delivery
from civitas.spaces.handler import Offer
from civitas.spaces.mailbox import Seat
from civitas.spaces.router import PostOffice

__all__ = ["Arrivals", "Mail"]

logger = logging.getLogger("civitas.amqp")

_AGAIN_S: Final = 1.0
"""Seconds until an inbox that could not be written is tried again."""

_FORGET_EVERY: Final = 1_000
"""After how many messages the inbox forgets twice as many, at most."""

_KINDS: Final = {
    wire.SEND: kinds.SEND,
    wire.ANSWER: kinds.ANSWER,
    wire.REQUEST: kinds.REQUEST,
}

_LONGEST_KEY: Final = 200
"""Of how many bytes a key may be for more to be added to it."""

_CANCELLED_AHEAD: Final = 10_000
"""How many cancellations are kept whose message is still to come."""

Ident = tuple[str, str]
"""A message's key, and the agent that it came to: a broadcast comes to several."""


@dataclass(eq=False, slots=True)
class Mail:
    """What is to be told to the broker and to the sender when a message has ended.

    Attributes:
        ident: what the inbox knows it by
        tag: the delivery to acknowledge; None while there is none to
        raw: AMQP's properties and body, until it is begun
        reply_to: where the outcome of a request goes
        begun: whether the inbox says that it has started
        stored: whether the inbox has the message itself, and it is acknowledged
        unconfirmed: how many messages that its handler sent are not confirmed
        answer: what is to be sent when it has ended
        over: whether it has ended
        disowned: whether another process has it by now
    """

    ident: Ident
    tag: Tag | None
    raw: tuple[Any, bytes] | None
    reply_to: str
    begun: bool = False
    stored: bool = False
    unconfirmed: int = 0
    answer: Letter | None = None
    over: bool = False
    disowned: bool = False


class Arrivals:
    """Takes what the broker delivers. Everything happens on the loop.

    The order is what keeps a message from being lost or run twice: *started* is in the inbox before
    the action is called; what it sends is confirmed before *ended*, with its answer, is in the
    inbox; the answer is confirmed before the message is acknowledged.

    Args:
        office: has the mailboxes, and ends messages
        inbox: what is remembered of messages
        intake: acknowledges
        publish: sends an answer
        chains: knows which handler here waits for a message
        burials: sends away what cannot be handled
        show: called with a message that came, and its key, for observers
        is_idle: whether no agent is about to begin anything
        keep_s: for how many seconds a message may come again
    """

    def __init__(
        self,
        office: PostOffice,
        inbox: Inbox,
        *,
        intake: Intake,
        publish: Callable[[Letter], None],
        chains: Chains,
        burials: Burials,
        show: Callable[[Delivery, str], None],
        is_idle: Callable[[], bool],
        keep_s: float,
    ) -> None:
        self._office = office
        self._inbox = inbox
        self._loop = office.loop
        self._intake = intake
        self._publish = publish
        self._chains = chains
        self._burials = burials
        self._show = show
        self._is_idle = is_idle
        self._known: dict[Ident, Delivery] = {}
        self._recorded: list[Mail] = []
        self._flushing = False
        self._unwanted: dict[Ident, None] = {}
        self._keep_s = keep_s
        self._ended = 0
        self._unread: list[tuple[Seat, Tag, Any, bytes]] = []

    def __len__(self) -> int:
        return len(self._known)

    # -- in ----------------------------------------------------------------------------------------

    def take(
        self, seat: Seat, tag: Tag, properties: Any, body: bytes, *, again: bool = False
    ) -> None:
        """A message to the agent in a seat.

        Args:
            seat: the agent's
            tag: the delivery
            properties: AMQP's
            body: what it says
            again: whether the broker says that it brings it again
        """
        try:
            arrived = wire.read(properties, body)
            to = arrived.envelope.to
            if arrived.kind in (wire.REPLY, wire.LOST):
                raise Unreadable(f"its type is {arrived.kind!r}, and it came to an agent")
            if to not in (seat.id, EVERYONE):
                raise Unreadable(f"it is to {to!r}, and came to {seat.id!r}")
        except Unreadable as error:
            self._burials.bury(tag, properties, body, str(error), seat.id, again=again)
            return
        if arrived.kind == wire.CANCEL:
            self.cancel(properties.correlation_id or "", seat.id)
            self._intake.acknowledge(tag)
            return
        ident = (arrived.key, seat.id)
        known = self._known.get(ident)
        if known is not None:
            # It is here: the broker has it brought again, or its sender has sent it again.
            mail: Mail = known.mail
            if mail.stored:
                self._intake.acknowledge(tag)
            else:
                self._intake.acknowledge(mail.tag)
                mail.tag = tag
            return
        envelope = arrived.envelope
        if to == EVERYONE and envelope.sender == seat.id and not seat.agent.receive_own_broadcasts:
            self._intake.acknowledge(tag)
            return
        if self._unread:
            self._unread.append((seat, tag, properties, body))  # behind those that came before it
            return
        try:
            entry = self._inbox.look_up(*ident)
        except InboxError as error:
            logger.error(
                "agent %r is brought nothing until its inbox can be read; it is tried again every "
                "second: %s",
                seat.id,
                error,
            )
            self._unread.append((seat, tag, properties, body))
            self._loop.call_later(_AGAIN_S, self._take_unread)
            return
        if entry is not None:
            self._again(entry, seat, arrived, tag)
        elif self._unwanted and ident in self._unwanted:
            del self._unwanted[ident]
            self._intake.acknowledge(tag)
        else:
            delivery = self._delivery(seat, arrived, tag)
            self._show(delivery, arrived.key)
            self._put(delivery, seat)

    def _take_unread(self) -> None:
        unread, self._unread = self._unread, []
        for each in unread:
            self.take(*each)

    def disown(self, seat: Seat) -> None:
        """Another process has the agent's id: what the broker brought here, it brings there."""
        for (_, whose), delivery in self._known.items():
            mail: Mail = delivery.mail
            stale = mail.tag is not None and mail.tag[0] != self._intake.number
            if whose == seat.id and stale and not mail.stored:
                mail.disowned = True

    def resume(self, seat: Seat) -> None:
        """Go on with what an earlier process had accepted for this agent and not ended."""
        try:
            unfinished = self._inbox.unfinished(seat.id)
        except InboxError as error:
            logger.error("what agent %r had accepted cannot be read: %s", seat.id, error)
            if seat.open:
                self._loop.call_later(_AGAIN_S, self.resume, seat)
            return
        for entry in unfinished:
            ident = entry.key, seat.id
            if ident in self._known:
                continue
            if entry.answer is not None:
                answer = Letter.unpack(entry.answer)
                answer.about = partial(self._inbox.answered, *ident)
                self._publish(answer)
            if entry.message is None:
                continue
            self._again(entry, seat, wire.read(*wire.take_out(entry.message)), None)
            if self._unwanted.pop((entry.key, seat.id), self) is None:
                self.cancel(entry.key, seat.id)

    def _delivery(self, seat: Seat, arrived: Arrived, tag: Tag | None) -> Delivery:
        kind = kinds.BROADCAST if arrived.envelope.to == EVERYONE else _KINDS[arrived.kind]
        delivery = Delivery(arrived.envelope, kind, self._chains.ancestor(arrived.trail))
        delivery.hops = arrived.hops
        delivery.key = arrived.key
        delivery.trail = arrived.trail
        if kind == kinds.REQUEST:
            delivery.timeout = arrived.timeout
        delivery.original_id = arrived.original_id
        ident = (arrived.key, seat.id)
        delivery.mail = Mail(ident, tag, arrived.raw, arrived.reply_to or "")
        self._known[ident] = delivery
        return delivery

    def _put(self, delivery: Delivery, seat: Seat) -> None:
        if seat.open:
            self._office.put(delivery, seat)
        else:
            delivery.seat = seat
            self._office.refuse(delivery, self._stopped(seat))

    def _stopped(self, seat: Seat) -> RequestError:
        if self._office.ending:
            return self._office.gone()
        return AgentStopped(f'agent "{seat.id}" was removed')

    def _again(self, entry: Entry, seat: Seat, arrived: Arrived, tag: Tag | None) -> None:
        """A message that the inbox knows: from an earlier process, or acknowledged already."""
        if entry.state == ENDED:
            if entry.answer is None:
                self._intake.acknowledge(tag)
            else:
                answer = Letter.unpack(entry.answer)
                answer.about = lambda: self._intake.acknowledge(tag)
                self._publish(answer)
            return
        delivery = self._delivery(seat, arrived, tag)
        if entry.message is not None:
            self._is_stored(delivery.mail)
            permission = wire.permission(entry.message)
            offer = seat.offers.get(arrived.envelope.name)
            # Another message may have come under the same key, and the policy may have changed.
            delivery.approved = (
                offer is not None
                and offer.policy == ACCESS_REQUESTED
                and permission == wire.fingerprint(arrived.envelope, seat.id)
            )
        if entry.state == STARTED and not _repeats(seat, arrived.envelope.name):
            self._doubt(delivery, seat, arrived)
        else:
            self._put(delivery, seat)

    def _doubt(self, delivery: Delivery, seat: Seat, arrived: Arrived) -> None:
        """It had begun, and nobody knows how far it came."""
        text = (
            f'in doubt: "{seat.id}.{delivery.envelope.name}" had begun when its process ended; '
            "whether it took effect is not known"
        )
        logger.error("%s (message of %r)", text, delivery.envelope.sender)
        delivery.seat = seat
        where = f"{seat.id}.{delivery.envelope.name}"
        delivery.state = kinds.ENDED
        error = InDoubt(text, where)
        self._burials.send(
            *arrived.raw, text, seat.id, lambda: self._office.refuse(delivery, error)
        )

    def cancel(self, key: str, agent: str) -> None:
        """Whoever asked wants it no more."""
        known = self._known.get((key, agent))
        if known is not None:
            text = f'the request to "{known}" was cancelled'
            self._office.abort(known, RequestCancelled(text))
            return
        self.unwanted(key, agent)

    def unwanted(self, key: str, agent: str) -> None:
        """A message that is still to come is not to be handled."""
        self._unwanted[key, agent] = None
        if len(self._unwanted) > _CANCELLED_AHEAD:
            del self._unwanted[next(iter(self._unwanted))]

    # -- handled -----------------------------------------------------------------------------------

    def begins(self, delivery: Delivery, offer: Offer) -> bool:
        """Record that a message is begun; False if that cannot be done now."""
        mail: Mail = delivery.mail
        if mail.begun:
            return True
        try:
            if offer.detached:
                self._accept(mail)
            self._inbox.start((mail.ident,))
        except InboxError as error:
            self._put_off(delivery, error)
            return False
        mail.begun = True
        mail.raw = None
        if self._recorded:
            self._send_recorded()
        return True

    def set_aside(self, delivery: Delivery) -> None:
        """It awaits approval, which may take longer than the broker waits."""
        try:
            self._accept(delivery.mail)
        except InboxError as error:
            logger.warning("%s cannot be kept while it awaits approval: %s", delivery, error)

    def permitted(self, delivery: Delivery) -> None:
        """Keep that a message was approved, so that the next process does not ask again."""
        mail: Mail = delivery.mail
        if not self._inbox.durable or mail.raw is None:
            return
        permission = wire.fingerprint(delivery.envelope, mail.ident[1])
        try:
            self._inbox.permit(*mail.ident, wire.stored(*mail.raw, permission))
        except InboxError as error:
            logger.warning("it cannot be kept that %s was approved: %s", delivery, error)
        else:
            self._is_stored(mail)

    def _accept(self, mail: Mail) -> None:
        if not self._inbox.durable or mail.stored or mail.raw is None:
            return
        self._inbox.accept(*mail.ident, wire.stored(*mail.raw))
        self._is_stored(mail)

    def _is_stored(self, mail: Mail) -> None:
        mail.stored = True
        self._intake.acknowledge(mail.tag)
        mail.tag = None

    def _put_off(self, delivery: Delivery, error: InboxError) -> None:
        """The inbox cannot be written: the agent waits, and its messages are not begun."""
        seat = delivery.seat
        assert seat is not None
        logger.error(
            "agent %r begins nothing until its inbox can be written; it is tried again every "
            "second: %s",
            seat.id,
            error,
        )
        if delivery.under is not None:
            # Others wait for this one, so it cannot wait.
            self._office.refuse(delivery, ActionError("InboxError", str(error)))
            return
        self._loop.call_later(_AGAIN_S, seat.hold_back(delivery))

    def concluded(self, delivery: Delivery) -> None:
        """It has ended, as the message says that `delivery.mail.answer` is."""
        mail: Mail = delivery.mail
        if mail.disowned:
            self._known.pop(mail.ident, None)
            return
        if self._office.ending and not mail.begun and isinstance(delivery.error, SpaceClosed):
            return  # nothing of it was done: it waits at the broker, or in the inbox, for the next
        mail.over = True
        mail.raw = None
        if not mail.unconfirmed:
            self._record(mail)

    def sent(self, mail: Mail) -> None:
        """A message that its handler sent is confirmed."""
        mail.unconfirmed -= 1
        if mail.over and not mail.unconfirmed:
            self._record(mail)

    def _record(self, mail: Mail) -> None:
        answer = mail.answer
        self._inbox.end(*mail.ident, None if answer is None else answer.pack())
        self._recorded.append(mail)
        self._ended += 1
        if self._ended % _FORGET_EVERY == 1:  # at the first too: a process may handle only a few
            self._forget()
        if not self._inbox.durable or self._is_idle():
            self._flush()
        elif not self._flushing:
            # Others are about to begin, and what they record is written together with this.
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _forget(self) -> None:
        """What ended so long ago that it cannot come again need not be known."""
        try:
            self._inbox.forget(self._keep_s, 2 * _FORGET_EVERY)
        except InboxError as error:
            logger.warning("nothing can be forgotten: %s", error)

    def _flush(self) -> None:
        self._flushing = False
        try:
            self._inbox.flush()
        except InboxError as error:
            logger.error("answers are held back until the inbox can be written: %s", error)
            self._flushing = True
            self._loop.call_later(_AGAIN_S, self._flush)
            return
        self._send_recorded()

    def _send_recorded(self) -> None:
        recorded, self._recorded = self._recorded, []
        for mail in recorded:
            if mail.answer is None:
                self.finish(mail)
            else:
                mail.answer.about = mail
                self._publish(mail.answer)
                mail.answer = None

    def finish(self, mail: Mail) -> None:
        """Its answer, if it has one, is confirmed."""
        self._known.pop(mail.ident, None)
        if mail.stored:
            self._inbox.answered(*mail.ident)
        self._intake.acknowledge(mail.tag)

    # -- its answer --------------------------------------------------------------------------------

    def answer_key(self, delivery: Delivery) -> str:
        """The key of a message's answer: the same if it is made again."""
        key, agent = delivery.mail.ident
        if len(key.encode()) > _LONGEST_KEY:  # a stranger's
            key = sha256(key.encode()).hexdigest()
        if delivery.kind != kinds.BROADCAST:
            return f"{key}/a"
        return f"{key}/{sha256(agent.encode()).hexdigest()[:16]}"


def _repeats(seat: Seat, action: str) -> bool:
    """Whether an action may be called again, of which nobody knows how far it came."""
    offer = seat.offers.get(action)
    return offer is not None and (offer.idempotent or seat.agent._goes_on(action))


def handler_of(handling: Any) -> Mail | None:
    """The mail that is being handled, where something is sent."""
    while handling is not None:
        mail: Mail | None = handling.mail
        if mail is not None:
            return mail
        handling = handling.parent
    return None
