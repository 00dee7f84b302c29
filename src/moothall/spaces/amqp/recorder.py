"""Messages in flight: recorded in the inbox, then answered, then acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar, Final

from moothall.actions.message import Envelope
from moothall.foundation.errors import ActionError, InboxError, SpaceClosed
from moothall.spaces import delivery as kinds
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.inbox import Inbox
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost
from moothall.spaces.amqp.link.consumer import DeliveryTag
from moothall.spaces.amqp.starts import Starts
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.delivery import Delivery
from moothall.spaces.handler import Offer
from moothall.spaces.router import Router

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_RETRY_S: Final = 1.0
"""Seconds until an inbox that could not be written is tried again."""

_FORGET_INTERVAL: Final = 1_000
"""After this many ended messages, the inbox forgets up to twice as many old ones."""

_MAX_KEY_BYTES: Final = 200
"""Bytes of the longest key that gets a suffix: the broker allows 255."""

Ident = tuple[str, str]
"""A message's key and its receiver's id: a broadcast has several receivers."""


class InFlight(Delivery):
    """A message that came over the broker and is not acknowledged yet."""

    __slots__ = ()

    ident: Ident
    tag: DeliveryTag | None  # the broker's delivery to acknowledge
    raw: tuple[Any, bytes] | None  # AMQP's properties and body, until it starts
    reply_to: str  # the routing key of a request's outcome
    is_started: bool = False  # whether the inbox has recorded it as started
    is_stored: bool = False  # whether the inbox has the message itself, and it is acknowledged
    unconfirmed_count: int = 0  # how many messages from its handler are not confirmed
    answer: Outbound | None = None  # to be sent when it has ended
    is_ended: bool = False
    owned_elsewhere: bool = False  # another process has its agent's id: it is redelivered there
    must_count_start: bool = False  # since a process may have died of it
    start_queue: str = ""  # the queue with its starts, if they are counted


@dataclass(slots=True, eq=False, repr=False)
class Recorder:
    """Records each message in the inbox, and answers it. Everything runs on the loop.

    The order keeps a message from being lost or run twice: *started* is in the inbox before the
    action is called; its messages are confirmed before *ended*, with the answer, is in the inbox;
    the answer is confirmed before the message is acknowledged.
    """

    messaging_system: ClassVar[str] = "rabbitmq"  # as telemetry has it

    router: Router
    broker: Broker
    inbox: Inbox
    is_idle: Callable[[], bool]  # whether no message is about to start
    in_flight: dict[Ident, InFlight] = field(default_factory=dict)  # the messages in flight
    starts: Starts = field(init=False)  # set by the receiver
    _recorded_ends: list[InFlight] = field(default_factory=list)
    _is_flushing: bool = False
    _ended_count: int = 0

    def record_start(self, delivery: InFlight, offer: Offer) -> bool:
        """Record that a message starts; return False if that cannot be written now."""
        if delivery.is_started:
            return True
        if delivery.must_count_start and delivery.outer is None:  # else a handler here waits for it
            self.starts.count(delivery)
            return False
        is_acknowledged = delivery.tag is None
        is_taken_over = delivery.mailbox.shared and self.takes_over(delivery.mailbox, offer)
        try:
            if offer.action.detached and not is_taken_over:
                self._accept(delivery)
            self.inbox.start((delivery.ident,))
            if is_taken_over:
                # After the start: between the two, the broker still has it for another process.
                self._accept(delivery)
        except InboxError as error:
            self._put_off(delivery, error)
            return False
        if is_taken_over and not is_acknowledged and delivery.outer is None:
            mailbox: Any = delivery.mailbox
            mailbox.put_back(delivery)
            self.broker.thread.spawn(self._start_acknowledged(delivery, mailbox.pause()))
            return False
        delivery.is_started = True
        delivery.raw = None
        if self._recorded_ends:
            self._send_recorded()
        return True

    def takes_over(self, mailbox: Any, offer: Offer | None) -> bool:
        """Return whether the inbox takes a message over from the broker before it starts.

        Else the broker would give it to another process of a shared agent after this one's death.
        """
        idempotent = offer is not None and offer.action.idempotent
        return mailbox.shared and self.inbox.durable and not idempotent

    async def _start_acknowledged(self, delivery: InFlight, resume: Callable[[], None]) -> None:
        """Let a message start once the broker has forgotten it."""
        try:
            await self.broker.consumer.sync()
            delivery.is_started = True
            delivery.raw = None
        except LinkLost:
            self.starts.end_in_doubt(delivery, "was about to start when its connection was lost")
        finally:
            resume()

    def remedy(self) -> str:
        """Return what helps if the broker waits no longer for the oldest message that it has."""
        number = self.broker.consumer.channel_number
        by_tag = {
            each.tag: each for each in self.in_flight.values() if each.tag and each.tag[0] == number
        }
        if not by_tag:
            return ""
        oldest = by_tag[min(by_tag)]
        advice = "" if self.inbox.durable else "give the space an inbox= and "
        if oldest.state == kinds.ASKING:
            advice = "give the space an inbox=, which keeps what awaits approval"
        else:
            advice += "mark it @action(detached=True) if it runs so long"
        if oldest.mailbox.waiting():
            advice += "; give the space a smaller prefetch= if messages wait so long for their turn"
        return f'the oldest is "{oldest}": {advice}'

    def set_aside(self, delivery: InFlight) -> None:
        """Store a message that awaits approval, which may take longer than the broker waits."""
        try:
            self._accept(delivery)
        except InboxError as error:
            logger.warning("%s cannot be kept while it awaits approval: %s", delivery, error)

    def note_permitted(self, delivery: InFlight) -> None:
        """Store that a message was approved, so that the next process does not ask again."""
        if not self.inbox.durable or delivery.raw is None:
            return
        permission = wire.fingerprint(delivery.envelope, delivery.ident[1])
        try:
            self.inbox.permit(*delivery.ident, wire.stored_bytes_of(*delivery.raw, permission))
        except InboxError as error:
            logger.warning("it cannot be kept that %s was approved: %s", delivery, error)
        else:
            self.mark_stored(delivery)

    def _accept(self, message: InFlight) -> None:
        if self.inbox.durable and not message.is_stored and message.raw is not None:
            self.inbox.accept(*message.ident, wire.stored_bytes_of(*message.raw))
            self.mark_stored(message)

    def mark_stored(self, message: InFlight) -> None:
        """Acknowledge a message that the inbox has stored."""
        message.is_stored = True
        self.broker.consumer.acknowledge(message.tag)
        message.tag = None

    def _put_off(self, delivery: InFlight, error: InboxError) -> None:
        """Pause an agent until its inbox, which cannot be written now, is tried again."""
        mailbox = delivery.mailbox
        assert mailbox is not None
        logger.error(
            "agent %r begins nothing until its inbox can be written; it is tried again every "
            "second: %s",
            mailbox.id,
            error,
        )
        if delivery.outer is not None:
            # A handler here waits for this message, so the message cannot wait.
            mailbox.refuse(delivery, ActionError("InboxError", str(error)))
            return
        mailbox.put_back(delivery)
        self.router.loop.call_later(_RETRY_S, mailbox.pause())

    def send_piece(self, delivery: InFlight, piece: dict[str, Any]) -> None:
        """Send the sender of a request a piece of what its handler streams."""
        if delivery.answered or not delivery.reply_to:
            return
        key, agent = delivery.ident
        body = wire.encode(Envelope(agent, delivery.envelope.sender, wire.PIECE, piece))
        piece_key, to = self.broker.new_key(), delivery.reply_to
        self.broker.publisher.publish(Outbound(piece_key, wire.PIECE, to, body, correlation_id=key))

    # -- ended -------------------------------------------------------------------------------------

    def prepare_answer(
        self, delivery: InFlight, envelope: Envelope, id: str | None, error: BaseException | None
    ) -> None:
        """Make the answer of a message, with its `id`; it is sent at the message's end."""
        kind, routing_key, to = wire.REPLY, delivery.reply_to, ""
        headers = None if error is None else wire.error_headers(error)
        if delivery.kind != kinds.REQUEST:
            kind, to = wire.ANSWER, envelope.to
            routing_key = self.broker.names.key("agent", to)
            headers = wire.headers_of(wire.ANSWER, envelope)
            if envelope.name == "say" and id is not None:
                headers = {**(headers or {}), "original": id}
        delivery.answer = Outbound(
            _answer_key(delivery),
            kind,
            routing_key,
            wire.encode(envelope),
            to=to,
            mandatory=bool(to),
            correlation_id=None if to else delivery.ident[0],
            headers=headers,
        )

    def note_ended(self, delivery: InFlight) -> None:
        """Record that a message has ended, once the messages of its handler are confirmed."""
        if delivery.owned_elsewhere:
            self.in_flight.pop(delivery.ident, None)
            return
        if (
            self.router.ending
            and not delivery.is_started
            and isinstance(delivery.error, SpaceClosed)
        ):
            return  # it did not start: the broker or the inbox keeps it for the next process
        delivery.is_ended = True
        delivery.raw = None
        if not delivery.unconfirmed_count:
            self._record(delivery)

    def note_confirmed(self, message: InFlight) -> None:
        """Count a message from a handler as confirmed."""
        message.unconfirmed_count -= 1
        if message.is_ended and not message.unconfirmed_count:
            self._record(message)

    def _record(self, message: InFlight) -> None:
        answer = message.answer
        self.inbox.end(*message.ident, None if answer is None else answer.pack())
        self._recorded_ends.append(message)
        self._ended_count += 1
        # What ended so long ago is not redelivered. After the first too: there may be only a few.
        if self._ended_count % _FORGET_INTERVAL == 1:
            try:
                self.inbox.forget(self.broker.limits.message_ttl_s, 2 * _FORGET_INTERVAL)
            except InboxError as error:
                logger.warning("nothing can be forgotten: %s", error)
        if self._is_flushing:
            return  # its turn comes, or the next try while the inbox cannot be written
        if self.inbox.durable and not self.is_idle():
            # Other messages are about to start: one transaction writes their starts and this.
            self._is_flushing = True
            self.router.loop.call_soon(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        self._is_flushing = False
        try:
            self.inbox.flush()
        except InboxError as error:
            logger.error("answers are held back until the inbox can be written: %s", error)
            self._is_flushing = True
            self.router.loop.call_later(_RETRY_S, self._flush)
            return
        self._send_recorded()

    def _send_recorded(self) -> None:
        messages, self._recorded_ends = self._recorded_ends, []
        for message in messages:
            answer, message.answer = message.answer, None
            if answer is None:
                self.finish(message)
            else:
                answer.settles = message
                self.broker.publisher.publish(answer)

    def finish(self, message: InFlight) -> None:
        """Acknowledge a message whose answer, if it has one, is confirmed."""
        self.in_flight.pop(message.ident, None)
        if message.is_stored:
            self.inbox.note_answered(*message.ident)
        self.broker.consumer.acknowledge(message.tag)
        if message.start_queue:
            self.broker.thread.spawn(self.starts.delete_count(message.start_queue))


def _answer_key(delivery: InFlight) -> str:
    """Return the key of a message's answer: equal each time the answer is made."""
    key, agent = delivery.ident
    if len(key.encode()) > _MAX_KEY_BYTES:  # not made by moothall
        key = sha256(key.encode()).hexdigest()
    if delivery.kind != kinds.BROADCAST:
        return f"{key}/a"
    return f"{key}/{sha256(agent.encode()).hexdigest()[:16]}"


def key_of_late_answer(envelope: Envelope) -> str:
    """Return the key of an answer that comes long after its message: equal if it is sent again."""
    sender_and_id = f"{envelope.sender}\n{envelope.id}".encode(errors="surrogatepass")
    return f"{sha256(sender_and_id).hexdigest()[:32]}/late"


def in_flight_of(handling: Any, recorder: Recorder) -> InFlight | None:
    """Return the innermost message in a handler's call chain that the recorder records."""
    while handling is not None and handling.recorder is not recorder:
        handling = handling.parent
    innermost: InFlight | None = handling
    return innermost
