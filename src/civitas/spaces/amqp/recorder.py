"""What an inbox is told of a message: it has begun, it has ended; its answer is sent after that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from civitas.errors import ActionError, InboxError, SpaceClosed
from civitas.spaces import delivery as kinds
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.consumer import Intake, Tag
from civitas.spaces.amqp.inbox import Inbox
from civitas.spaces.amqp.wire import Letter
from civitas.spaces.delivery import Delivery
from civitas.spaces.handler import Offer
from civitas.spaces.router import PostOffice

logger = logging.getLogger("civitas.amqp")

_AGAIN_S: Final = 1.0
"""Seconds until an inbox that could not be written is tried again."""

_FORGET_EVERY: Final = 1_000
"""After how many messages the inbox forgets twice as many, at most."""

_LONGEST_KEY: Final = 200
"""Of how many bytes a key may be for more to be added to it."""

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


class Recorder:
    """Records each message and has it answered. Everything happens on the loop.

    The order is what keeps a message from being lost or run twice: *started* is in the inbox before
    the action is called; what it sends is confirmed before *ended*, with its answer, is in the
    inbox; the answer is confirmed before the message is acknowledged.

    Attributes:
        known: the messages that are here, until their answers are confirmed
    """

    def __init__(
        self,
        office: PostOffice,
        inbox: Inbox,
        *,
        intake: Intake,
        publish: Callable[[Letter], None],
        is_idle: Callable[[], bool],
        keep_s: float,
    ) -> None:
        self.known: dict[Ident, Delivery] = {}
        self._office = office
        self._inbox = inbox
        self._loop = office.loop
        self._intake = intake
        self._publish = publish
        self._is_idle = is_idle
        self._keep_s = keep_s
        self._recorded: list[Mail] = []
        self._flushing = False
        self._ended = 0

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
            self.is_stored(mail)

    def _accept(self, mail: Mail) -> None:
        if not self._inbox.durable or mail.stored or mail.raw is None:
            return
        self._inbox.accept(*mail.ident, wire.stored(*mail.raw))
        self.is_stored(mail)

    def is_stored(self, mail: Mail) -> None:
        """The inbox has the message itself: the broker may forget it."""
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
            self.known.pop(mail.ident, None)
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
        self.known.pop(mail.ident, None)
        if mail.stored:
            self._inbox.answered(*mail.ident)
        self._intake.acknowledge(mail.tag)

    def answer_key(self, delivery: Delivery) -> str:
        """The key of a message's answer: the same if it is made again."""
        key, agent = delivery.mail.ident
        if len(key.encode()) > _LONGEST_KEY:  # a stranger's
            key = sha256(key.encode()).hexdigest()
        if delivery.kind != kinds.BROADCAST:
            return f"{key}/a"
        return f"{key}/{sha256(agent.encode()).hexdigest()[:16]}"


def handler_of(handling: Any) -> Mail | None:
    """The mail that is being handled, where something is sent."""
    while handling is not None:
        mail: Mail | None = handling.mail
        if mail is not None:
            return mail
        handling = handling.parent
    return None
