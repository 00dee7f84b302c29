"""Messages that come over the broker: known or new, in doubt, unreadable; on to their mailboxes."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final

from civitas.action import ACCESS_REQUESTED
from civitas.errors import AgentStopped, InboxError, InDoubt, RequestCancelled, RequestError
from civitas.message import BROADCAST as EVERYONE
from civitas.spaces import delivery as kinds
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.chains import Chains
from civitas.spaces.amqp.consumer import Intake, Tag
from civitas.spaces.amqp.inbox import ENDED, STARTED, Entry, Inbox
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.recorder import Ident, Mail, Recorder
from civitas.spaces.amqp.wire import Arrived, Letter, Unreadable
from civitas.spaces.delivery import Delivery
from civitas.spaces.mailbox import Seat
from civitas.spaces.router import PostOffice

logger = logging.getLogger("civitas.amqp")

_AGAIN_S: Final = 1.0
"""Seconds until an inbox that could not be read is tried again."""

_KINDS: Final = {
    wire.SEND: kinds.SEND,
    wire.ANSWER: kinds.ANSWER,
    wire.REQUEST: kinds.REQUEST,
}

_CANCELLED_AHEAD: Final = 10_000
"""How many cancellations are kept whose message is still to come."""

_MOST: Final = 1_000
"""How many are known that could not be read, in case they come again."""
_MOST_ALIKE: Final = 100


@dataclass(eq=False, slots=True)
class _Unread:
    """An unreadable message as it was delivered last, and whether it is with the dead letters."""

    tag: Tag
    over: bool = False


class DeadLetterExchange:
    """Sends what cannot be handled where somebody may look at it: each message once.

    What was delivered on a connection that is lost meanwhile comes again on the next. A message
    that cannot be read has no key that it could be known by, so it is known by all that it says.
    """

    def __init__(
        self,
        intake: Intake,
        names: Names,
        new_key: Callable[[], str],
        publish: Callable[[Letter], None],
    ) -> None:
        self._intake = intake
        self._names = names
        self._new_key = new_key
        self._publish = publish
        self._known: dict[bytes, deque[_Unread]] = {}

    def refuse(
        self, tag: Tag, properties: Any, body: bytes, reason: str, agent: str, *, again: bool
    ) -> None:
        """Send away what cannot be read, and have the broker forget it."""
        intake = self._intake
        said = f"{agent}\n{properties}\n".encode(errors="surrogatepass")
        alike = self._known.setdefault(sha256(said + body).digest(), deque(maxlen=_MOST_ALIKE))
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        for message in alike:
            if again and message.tag[0] != tag[0]:
                message.tag = tag
                if message.over:
                    intake.acknowledge(tag)
                return
        message = _Unread(tag)
        alike.append(message)

        def done() -> None:
            message.over = True
            intake.acknowledge(message.tag)

        logger.error("a message to %r goes to the dead letters: %s", agent, reason)
        self.send(properties, body, reason, agent, done)

    def send(
        self,
        properties: Any,
        body: bytes,
        reason: str,
        agent: str,
        done: Callable[[], Any],
    ) -> None:
        """Send a message to the dead letters; `done` is called when the broker has it."""
        headers = {
            **wire.beside(properties),
            "reason": reason[:1000].encode(errors="backslashreplace").decode(),
            "agent": agent,
            "message": str(properties.message_id or ""),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._publish(
            Letter(
                self._new_key(),
                properties.type if isinstance(properties.type, str) else "",
                self._names.agent_key(agent),
                body,
                mandatory=True,
                reply_to=properties.reply_to,
                correlation_id=properties.correlation_id,
                headers=headers,
                about=done,
                exchange=self._names.dead,
            )
        )


class Receiver:
    """Takes what the broker delivers. Everything happens on the loop."""

    def __init__(
        self,
        office: PostOffice,
        inbox: Inbox,
        recorder: Recorder,
        *,
        intake: Intake,
        publish: Callable[[Letter], None],
        chains: Chains,
        dead_letters: DeadLetterExchange,
        show: Callable[[Delivery, str], None],
    ) -> None:
        self._office = office
        self._inbox = inbox
        self._recorder = recorder
        self._known = recorder.known
        self._loop = office.loop
        self._intake = intake
        self._publish = publish
        self._chains = chains
        self._dead_letters = dead_letters
        self._show = show
        self._unwanted: dict[Ident, None] = {}
        self._unread: list[tuple[Seat, Tag, Any, bytes]] = []

    def take(
        self, seat: Seat, tag: Tag, properties: Any, body: bytes, *, again: bool = False
    ) -> None:
        """A message to the agent in a seat; `again` says whether the broker brings it again."""
        try:
            arrived = wire.read(properties, body)
            to = arrived.envelope.to
            if arrived.kind in (wire.REPLY, wire.LOST):
                raise Unreadable(f"its type is {arrived.kind!r}, and it came to an agent")
            if to not in (seat.id, EVERYONE):
                raise Unreadable(f"it is to {to!r}, and came to {seat.id!r}")
        except Unreadable as error:
            self._dead_letters.refuse(tag, properties, body, str(error), seat.id, again=again)
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
            self._recorder.is_stored(delivery.mail)
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
        self._dead_letters.send(
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


def _repeats(seat: Seat, action: str) -> bool:
    """Whether an action may be called again, of which nobody knows how far it came."""
    offer = seat.offers.get(action)
    return offer is not None and (offer.idempotent or seat.agent._goes_on(action))
