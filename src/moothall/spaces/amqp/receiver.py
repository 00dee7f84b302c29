"""Takes messages from the broker: new, redelivered, in doubt or unreadable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from moothall.actions import ACCESS_DENIED, ACCESS_PERMITTED
from moothall.actions.message import is_one_agent
from moothall.foundation.errors import InboxError, InDoubt, RequestCancelled
from moothall.spaces import delivery as kinds
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.dead_letters import publish_dead_letter
from moothall.spaces.amqp.inbox import FINISHED, STARTED, Inbox, InboxEntry
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.consumer import DeliveryTag
from moothall.spaces.amqp.recorder import Ident, InFlight, Recorder
from moothall.spaces.amqp.starts import Starts
from moothall.spaces.amqp.wire import Inbound, Outbound, Unreadable
from moothall.spaces.delivery import Delivery
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.router import Router

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_RETRY_S: Final = 1.0
"""Seconds until the receiver reads the inbox again, after that failed."""

_KINDS: Final = {wire.SEND: kinds.SEND, wire.ANSWER: kinds.ANSWER, wire.REQUEST: kinds.REQUEST}

_MAX_CANCELLED: Final = 10_000
"""How many cancellations are kept for requests that have not arrived."""


@dataclass(eq=False, repr=False)
class Receiver:
    """Takes each message that the broker delivers to an agent here, on the space's loop.

    It drops duplicates and what was cancelled. What is new goes to the agent's mailbox. Of what the
    inbox knows, the answer is sent again, or the message runs, or it is in doubt.
    """

    router: Router
    broker: Broker
    inbox: Inbox
    recorder: Recorder
    cancel_everywhere: Callable[[str, str], None]  # tells all processes to cancel a message
    # Of a call chain, by keys: the last handler in this process.
    find_innermost: Callable[[tuple[str, ...]], Delivery | None]
    own_request: Callable[[str], Delivery | None]  # a request of this process, by its key
    show: Callable[[Delivery], None]  # passes a message to the observers
    _early_cancellations: dict[Ident, None] = field(default_factory=dict)
    _unread_messages: list[tuple[Mailbox, DeliveryTag, Any, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = self.recorder.starts = Starts(self.broker, self._end_waiting_in_doubt)

    def take(self, mailbox: Mailbox, tag: DeliveryTag, properties: Any, body: bytes) -> None:
        """Take a message that the broker delivers for the agent in `mailbox`."""
        acknowledge = self.broker.consumer.acknowledge
        try:
            inbound = _read_queued(mailbox, properties, body)
        except Unreadable as error:
            logger.error("a message to %r goes to the dead letters: %s", mailbox.id, error)
            on_confirmed = partial(acknowledge, tag)
            publish_dead_letter(self.broker, properties, body, str(error), mailbox.id, on_confirmed)
            return
        ident = (inbound.key, mailbox.id)
        if inbound.kind == wire.CANCEL:
            key = properties.correlation_id or ""
            if mailbox.shared and (key, mailbox.id) not in self.recorder.in_flight:
                self.cancel_everywhere(key, mailbox.id)  # another process may handle it
            else:
                self.cancel(key, mailbox.id)
            acknowledge(tag)
        elif (in_flight := self.recorder.in_flight.get(ident)) is not None:
            # Delivered a second time. The earlier delivery, if it is open, is done with.
            acknowledge(tag if in_flight.is_stored else in_flight.tag)
            in_flight.tag = None if in_flight.is_stored else tag
        elif inbound.envelope.to != mailbox.id and not mailbox.is_receiver_of(inbound.envelope):
            # The queue is bound to a former group, or this is a broadcast of its own.
            acknowledge(tag)
        elif self._unread_messages:  # behind those that wait for the inbox, in order
            self._unread_messages.append((mailbox, tag, properties, body))
        else:
            try:
                entry = self.inbox.look_up(*ident)
            except InboxError as error:
                logger.error(
                    "agent %r gets no messages until its inbox can be read; the space tries every "
                    "second: %s",
                    mailbox.id,
                    error,
                )
                self._unread_messages.append((mailbox, tag, properties, body))
                self.router.loop.call_later(_RETRY_S, self._take_unread)
                return
            if entry is not None:
                self._take_again(entry, mailbox, inbound, tag)
            elif self._early_cancellations.pop(ident, self) is None:
                acknowledge(tag)
            else:
                delivery = self._make_delivery(mailbox, inbound, tag)
                self.show(delivery)
                self._put_delivery(delivery, mailbox)

    def _take_unread(self) -> None:
        unread_messages, self._unread_messages = self._unread_messages, []
        for each in unread_messages:
            self.take(*each)

    def leave_to_others(self, mailbox: Mailbox) -> None:
        """Acknowledge an agent's messages no more: another process has its id, and gets them."""
        for (_, agent), delivery in self.recorder.in_flight.items():
            is_stale = (
                delivery.tag is not None and delivery.tag[0] != self.broker.consumer.channel_number
            )
            if agent == mailbox.id and is_stale and not delivery.is_stored:
                delivery.owned_elsewhere = True

    def resume(self, mailbox: Mailbox) -> None:
        """Resume the messages of this agent that an earlier process stored and did not end."""
        if not mailbox.open:
            return
        try:
            unfinished_entries = self.inbox.unfinished(mailbox.id)
        except InboxError as error:
            logger.error("the inbox of agent %r cannot be read: %s", mailbox.id, error)
            self.router.loop.call_later(_RETRY_S, self.resume, mailbox)
            return
        for entry in unfinished_entries:
            ident = entry.key, mailbox.id
            if ident in self.recorder.in_flight:
                continue
            if entry.answer is not None:
                self._send_stored(entry.answer, partial(self.inbox.note_answered, *ident))
            if entry.message is None:
                continue
            self._take_again(entry, mailbox, wire.read_stored(entry.message)[0], None)
            if self._early_cancellations.pop(ident, self) is None:
                self.cancel(*ident)

    def give_back(self, mailbox: Mailbox) -> None:
        """Give the messages of a shared agent that have not started back to the broker."""
        for ident, delivery in list(self.recorder.in_flight.items()):
            is_waiting = delivery.mailbox is mailbox and delivery.state == kinds.QUEUED
            if is_waiting and delivery.tag is not None:
                del self.recorder.in_flight[ident]
                delivery.state = kinds.FINISHED
                mailbox.forget(delivery)
                self.broker.consumer.give_back(delivery.tag)

    def _make_delivery(
        self, mailbox: Mailbox, inbound: Inbound, tag: DeliveryTag | None
    ) -> InFlight:
        is_direct = inbound.envelope.to == mailbox.id
        kind = _KINDS[inbound.kind] if is_direct else kinds.BROADCAST
        chain = inbound.delivery_fields.get("call_chain", ())
        delivery = InFlight(inbound.envelope, kind, self.find_innermost(chain))
        for name, value in inbound.delivery_fields.items():
            setattr(delivery, name, value)
        if delivery.on_event is not None:  # a header, so far
            delivery.on_event = partial(self.recorder.send_piece, delivery)
        delivery.key = inbound.key
        if (request := self.own_request(inbound.key)) is not None:
            delivery.caller_context, delivery.upward = request.caller_context, request.upward
        delivery.recorder = self.recorder
        delivery.ident = (inbound.key, mailbox.id)
        delivery.tag = tag
        if tag is not None and tag[2]:
            # What the inbox takes over before it starts comes again only if it has not started.
            offer = mailbox.offers.get(inbound.envelope.name)
            is_taken_over = self.recorder.takes_over(mailbox, offer)
            delivery.must_count_start = not is_taken_over and self._starts.must_count(mailbox, tag)
        delivery.raw = inbound.raw
        delivery.reply_to = inbound.reply_to or ""
        self.recorder.in_flight[delivery.ident] = delivery
        return delivery

    def _put_delivery(self, delivery: InFlight, mailbox: Mailbox) -> None:
        if mailbox.open:
            self.router.put(delivery, mailbox)
        else:
            delivery.mailbox = mailbox
            self.router.refuse(delivery, self.router.stopped_error(mailbox.id))

    def _send_stored(self, answer: bytes, on_confirmed: Callable[[], None]) -> None:
        """Send an answer that the inbox has stored."""
        message = Outbound.unpack(answer)
        message.settles = on_confirmed
        self.broker.publisher.publish(message)

    def _take_again(
        self, entry: InboxEntry, mailbox: Mailbox, inbound: Inbound, tag: DeliveryTag | None
    ) -> None:
        """Answer or resume a message that the inbox has, or end it as in doubt, by its state."""
        if entry.state == FINISHED:
            if entry.answer is None:
                self.broker.consumer.acknowledge(tag)
            else:
                self._send_stored(entry.answer, lambda: self.broker.consumer.acknowledge(tag))
            return
        delivery = self._make_delivery(mailbox, inbound, tag)
        name = inbound.envelope.name
        offer = mailbox.offers.get(name)
        if entry.message is not None:
            self.recorder.mark_stored(delivery)
            # The broker does not know that it comes again, perhaps since its process died of it.
            is_bounded = self.broker.limits.max_deliveries is not None
            delivery.must_count_start = is_bounded and entry.state == STARTED
            permission = wire.read_stored(entry.message)[1]
            # The approval holds only for the same message, and while the policy still asks for it.
            delivery.approved = (
                offer is not None
                and offer.action.access_policy not in (ACCESS_PERMITTED, ACCESS_DENIED)
                and permission == wire.fingerprint(inbound.envelope, mailbox.id)
            )
        resumes = offer is not None and (offer.action.idempotent or mailbox.agent.resumes(name))
        if entry.state == STARTED and not resumes:
            self._end_in_doubt(delivery, mailbox, "was running when its process ended")
        else:
            self._put_delivery(delivery, mailbox)

    def _end_waiting_in_doubt(self, delivery: InFlight, reason: str) -> None:
        """End a message that has not started here as in doubt."""
        mailbox = delivery.mailbox
        assert mailbox is not None
        if delivery.state == kinds.QUEUED:
            mailbox.forget(delivery)
            self._end_in_doubt(delivery, mailbox, reason)

    def _end_in_doubt(self, delivery: InFlight, mailbox: Mailbox, reason: str) -> None:
        """End a message that was started and has no recorded end: a dead letter, and an error."""
        handler_name = f"{mailbox.id}.{delivery.envelope.name}"
        text = f'in doubt: "{handler_name}" {reason}; it is unknown whether it took effect'
        logger.error("%s (message of %r)", text, delivery.envelope.sender)
        delivery.mailbox = mailbox
        delivery.state = kinds.FINISHED
        refuse = partial(self.router.refuse, delivery, InDoubt(text, handler_name))
        assert delivery.raw is not None  # it has not begun in this process
        publish_dead_letter(self.broker, *delivery.raw, text, mailbox.id, refuse)

    def cancel(self, key: str, agent: str) -> None:
        """Cancel a request whose sender no longer waits for it."""
        delivery = self.recorder.in_flight.get((key, agent))
        if delivery is not None:
            text = f'the request to "{delivery}" was cancelled'
            self.router.abort(delivery, RequestCancelled(text))
            return
        self._early_cancellations[key, agent] = None  # the request has not arrived yet
        if len(self._early_cancellations) > _MAX_CANCELLED:
            del self._early_cancellations[next(iter(self._early_cancellations))]


def _read_queued(mailbox: Mailbox, properties: Any, body: bytes) -> Inbound:
    """Read what was in the queue of the agent in `mailbox`; raise `Unreadable`."""
    inbound = wire.read_message(properties, body)
    to = inbound.envelope.to
    if inbound.kind in (wire.REPLY, *wire.NOTICES):
        raise Unreadable(f"an agent's queue takes no message of type {inbound.kind!r}")
    if to != mailbox.id and is_one_agent(to):
        raise Unreadable(f"it is to {to!r}, but was in the queue of {mailbox.id!r}")
    return inbound
