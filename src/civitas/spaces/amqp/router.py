"""The post office of a space whose messages travel over a broker."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from itertools import count
from threading import get_ident
from typing import Any, Final

from pika.exceptions import AMQPError

from civitas.agent import CURRENT
from civitas.errors import (
    ActionError,
    AgentNotFound,
    HopLimitExceeded,
    InboxError,
    MailboxFull,
    RequestError,
)
from civitas.message import BROADCAST as EVERYONE
from civitas.message import Envelope
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.agent_queues import Registrar
from civitas.spaces.amqp.broker import Channels
from civitas.spaces.amqp.chains import Chains
from civitas.spaces.amqp.consumer import Intake, Tag
from civitas.spaces.amqp.inbox import Inbox
from civitas.spaces.amqp.link import LinkLost, Refused
from civitas.spaces.amqp.local_agents import Residents
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.observers import Observing
from civitas.spaces.amqp.options import AMQPOptions
from civitas.spaces.amqp.presence import Whereabouts
from civitas.spaces.amqp.publisher import (
    CONFIRMED,
    FULL,
    REFUSED,
    RETURNED,
    TOO_LARGE,
    UNROUTABLE,
    Outbox,
)
from civitas.spaces.amqp.receiver import DeadLetterExchange, Receiver
from civitas.spaces.amqp.recorder import Mail, Recorder, handler_of
from civitas.spaces.amqp.wire import Letter, Unreadable, error_headers, error_of
from civitas.spaces.delivery import ANSWER, MAX_HOPS, QUEUED, REQUEST, Delivery
from civitas.spaces.handler import Offer, answers
from civitas.spaces.loop import LoopThread
from civitas.spaces.mailbox import Seat
from civitas.spaces.router import PostOffice

logger = logging.getLogger("civitas.amqp")

_EMPTY_S: Final = 5.0


class AMQPOffice(PostOffice):
    """Sends messages to the broker, also those to agents of its own, and takes what comes."""

    def __init__(
        self,
        thread: LoopThread,
        mailbox: int,
        options: AMQPOptions,
        names: Names,
        inbox: Inbox,
        *,
        keep_s: float,
        quorum: bool,
        told: Callable[[str, str], None],
        evict: Callable[[Seat, RequestError], None],
    ) -> None:
        super().__init__(thread, mailbox)
        self.dispatch = self._dispatch
        self.names = names
        self.process = secrets.token_hex(8)
        self._reply_key = names.reply_key(self.process)
        self._count = count(1)
        self._pending: dict[str, Letter] = {}
        self.chains = Chains(self.new_key)
        self.intake = Intake(self.loop)
        self.outbox = Outbox(names.exchange, self._settled)
        self.channels = Channels(
            thread,
            options,
            names,
            self.process,
            self.intake,
            self.outbox,
            replied=self._replied,
            missed=self._ask_again,
            attached=self._attached,
            told=told,
            heard=self._begin_now,
        )
        self.link = self.channels.link
        self.inbox = inbox
        control = self.channels.control
        self.observing = Observing(names, control, self.intake, self.new_key)
        registrar = Registrar(
            control, self.intake, names, mailbox=mailbox, keep_s=keep_s, quorum=quorum
        )
        self.whereabouts = Whereabouts(
            thread,
            registrar,
            self.outbox,
            self.seats,
            lambda delivery: self.abort(delivery, self._nobody_there(delivery.envelope.to)),
            self.was_lost,
            self._settled,
            keep_s,
        )
        self.publish = self.whereabouts.publish
        self.recorder = Recorder(
            self,
            inbox,
            intake=self.intake,
            publish=self.publish,
            is_idle=lambda: not self._ready,
            keep_s=keep_s,
        )
        self.receiver = Receiver(
            self,
            inbox,
            self.recorder,
            intake=self.intake,
            publish=self.publish,
            chains=self.chains,
            dead_letters=DeadLetterExchange(self.intake, names, self.new_key, self.outbox.publish),
            show=self._show_arrived,
        )
        self.residents = Residents(
            self,
            link=self.link,
            receiver=self.receiver,
            outbox=self.outbox,
            names=names,
            registrar=registrar,
            heartbeat=options.heartbeat,
            lost=self.was_lost,
            evict=evict,
        )

    # -- out ---------------------------------------------------------------------------------------

    def new_key(self) -> str:
        """A key for a message."""
        return f"{self.process}.{next(self._count):010x}"

    def send(self, envelope: Envelope, seat: Seat) -> None:
        """Send a message of the agent in `seat`."""
        mail = handler_of(CURRENT.get())
        thread = self.thread
        if get_ident() == self.thread_id:
            if seat.outside:
                self.catch_up(seat)
            self._send(envelope, mail)
        else:
            thread.submit(self._send, envelope, mail)
            seat.outside = True

    def _send(self, envelope: Envelope, mail: Mail | None) -> None:
        if self.closed:
            return
        if self.observers:
            self._show(envelope)
        if mail is not None:
            if mail.over:  # said by what its handler left behind
                mail = None
            else:
                mail.unconfirmed += 1
        to = envelope.to
        names = self.names
        everyone = to == EVERYONE
        self.publish(
            Letter(
                self.new_key(),
                wire.SEND,
                names.everyone if everyone else names.agent_key(to),
                wire.written(envelope),
                to="" if everyone else to,
                mandatory=not everyone,
                headers=wire.headers(1, (), thread=envelope.thread),
                about=(mail, envelope),
            )
        )

    def _dispatch(self, delivery: Delivery) -> None:
        """Send a request."""
        if delivery.answered:
            return
        if self.closed:
            self.refuse(delivery, self.gone())
            return
        if self.observers:
            self._show_once(delivery)
        if delivery.hops > MAX_HOPS:
            self.refuse(
                delivery,
                HopLimitExceeded(
                    f'"{delivery}" would be call {delivery.hops} of one chain of requests; '
                    f"{MAX_HOPS} are the limit"
                ),
            )
            return
        key = delivery.key = self.new_key()
        delivery.state = QUEUED
        trail = self.chains.trail(delivery.parent)
        if delivery.timeout is not None:
            self._fresh.append(delivery)
            if not self._pumping:
                self._schedule()
        envelope = delivery.envelope
        to = envelope.to
        letter = self._pending[key] = Letter(
            key,
            wire.REQUEST,
            self.names.agent_key(to),
            wire.written(envelope),
            to=to,
            mandatory=True,
            reply_to=self._reply_key,
            headers=wire.headers(delivery.hops, trail, delivery.timeout),
            about=delivery,
        )
        self.publish(letter)
        if not delivery.wait and to not in self.seats:
            self.whereabouts.watch(delivery)

    # -- how it went -------------------------------------------------------------------------------

    def _settled(self, letter: Letter, outcome: str) -> None:
        """The broker has confirmed a letter, or has not taken it."""
        kind, about = letter.kind, letter.about
        if outcome == CONFIRMED:
            if (
                (kind == wire.SEND or kind == wire.ANSWER)
                and letter.to
                and letter.to not in self.seats
            ):
                self.whereabouts.renew(letter.to)
        elif outcome == RETURNED and self.whereabouts.returned(letter):
            return
        if outcome == TOO_LARGE and kind in (wire.REPLY, wire.ANSWER):
            self._answer_too_large(letter)
        elif letter.exchange is not None and outcome == RETURNED:
            # Somebody has deleted the queue of the dead letters: it is declared on a connection.
            logger.error("the queue of the dead letters is gone from the broker; making it")
            self.link.drop()
            self.outbox.publish(letter)
        elif callable(about):
            about()
        elif kind == wire.SEND:
            mail, envelope = about
            if outcome in (REFUSED, FULL, TOO_LARGE):
                self._tell(envelope, str(self._too_much(letter, outcome)))
            if mail is not None:
                self.recorder.sent(mail)
        elif kind == wire.REQUEST:
            if outcome in (RETURNED, UNROUTABLE):
                self.refuse(about, self._nobody_there(letter.to))
            elif outcome != CONFIRMED:
                self.refuse(about, self._too_much(letter, outcome))
        elif about is not None:
            if outcome != CONFIRMED and letter.kind == wire.ANSWER:
                logger.warning("an answer to agent %r was %s by the broker", letter.to, outcome)
            self.recorder.finish(about)

    def _tell(self, sent: Envelope, text: str) -> None:
        """Tell an agent here that a message of its own was not taken."""
        to, args = sent.sender, {"error": text, "original_message_id": sent.id}
        if to in self.seats:
            told = Envelope(to, to, "error", args, thread=sent.thread)
            self.post(Delivery(told, ANSWER))

    def _too_much(self, letter: Letter, outcome: str) -> MailboxFull:
        if outcome == FULL:
            return MailboxFull(
                f"{len(self.outbox) + len(self.whereabouts)} messages wait for the broker: no more "
                "are taken"
            )
        if outcome == TOO_LARGE:
            return MailboxFull(
                f"the broker takes no message of {len(letter.body):,} bytes: its max_message_size "
                f"is {self.outbox.largest:,}"
            )
        whose = f'"{letter.to}"' if letter.to else "an agent"
        return MailboxFull(f"the mailbox of {whose} is full: the broker takes no more for it")

    def _answer_too_large(self, letter: Letter) -> None:
        """Say so to whoever waits for the answer."""
        error = ActionError("MessageTooLarge", str(self._too_much(letter, TOO_LARGE)))
        message = wire.read_json(letter.body)
        id = message["action"]["args"].get("original_message_id")
        args = {"error": str(error), "original_message_id": id}
        letter.body = wire.written(Envelope(message["from"], message["to"], "error", args))
        if letter.kind == wire.REPLY:
            letter.headers = error_headers(error)
        self.outbox.publish(letter)

    def _nobody_there(self, id: str) -> AgentNotFound:
        return AgentNotFound(f'no agent "{id}" in this space')

    # -- the outcomes of requests ------------------------------------------------------------------

    def settle(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """The outcome of a request, once: of one made here, or of one that came."""
        if delivery.answered:
            return
        if delivery.kind != REQUEST:
            super().settle(delivery, value, error)
            return
        mail = delivery.mail
        if mail is None:
            self._pending.pop(delivery.key, None)
            self.chains.ended(delivery.parent)
            super().settle(delivery, value, error)
            return
        super().settle(delivery, value, error)
        mail.answer = self._reply(delivery, value, error)
        self.recorder.concluded(delivery)

    def abort(self, delivery: Delivery, error: RequestError) -> None:
        """End a message early."""
        asked = delivery.mail is None and delivery.kind == REQUEST and delivery.key
        if asked and not delivery.answered and not self.closed:
            super().abort(delivery, error)
            self._withdraw(delivery)
        else:
            super().abort(delivery, error)

    def _withdraw(self, delivery: Delivery) -> None:
        """Tell the receiver of a request that nobody waits for it."""
        envelope = delivery.envelope
        if envelope.to in self.seats:
            # At once: whoever has seen the request end may let it be begun before word comes.
            self.receiver.cancel(delivery.key, envelope.to)
        cancel = Envelope(envelope.sender, envelope.to, "cancel", {})
        self.publish(
            Letter(
                self.new_key(),
                wire.CANCEL,
                self.names.agent_key(envelope.to),
                wire.written(cancel),
                to=envelope.to,
                correlation_id=delivery.key,
            )
        )

    def _reply(self, delivery: Delivery, value: Any, error: BaseException | None) -> Letter:
        mail: Mail = delivery.mail
        envelope = delivery.envelope
        sender = envelope.to if delivery.seat is None else delivery.seat.id
        if error is None:
            name, args = "response", {"data": value, "original_message_id": envelope.id}
        else:
            name, args = "error", {"error": str(error), "original_message_id": envelope.id}
        return Letter(
            self.answer_key(delivery),
            wire.REPLY,
            mail.reply_to,
            wire.written(Envelope(sender, envelope.sender, name, args)),
            mandatory=True,
            correlation_id=mail.ident[0],
            headers=None if error is None else error_headers(error),
        )

    def answer_key(self, delivery: Delivery) -> str:
        """The key of a message's answer."""
        return self.recorder.answer_key(delivery)

    def _replied(self, tag: Tag, properties: Any, body: bytes) -> None:
        """The outcome of a request of this process came."""
        self.intake.acknowledge(tag)
        asked = self._pending.get(properties.correlation_id or "")
        if asked is None:
            if properties.type == wire.LOST and properties.reply_to != self._reply_key:
                self._hear_of_loss(properties, body)
            return  # it has ended meanwhile, or this is the same again
        delivery = asked.about
        try:
            message = wire.read_json(body)
            args = message["action"]["args"]
            value, error = args.get("data"), error_of(properties.headers or {}, args)
        except (Unreadable, KeyError, TypeError, AttributeError) as wrong:
            logger.error("the answer to %s cannot be read: %s", delivery, wrong)
            value, error = None, error_of({"outcome": "unreadable"}, {"error": str(wrong)})
        self.settle(delivery, value, error)

    # -- what was lost with a queue ----------------------------------------------------------------

    def was_lost(self, id: str) -> None:
        """An agent's queue was deleted, and is declared again unless the agent has left.

        Every process sends its open requests to that agent again, under the same keys.
        """
        self._ask_agent_again(id)
        self.publish(
            Letter(
                self.new_key(),
                wire.LOST,
                self.names.processes,
                wire.written(Envelope(id, EVERYONE, "lost", {})),
                reply_to=self._reply_key,
            )
        )

    def _hear_of_loss(self, properties: Any, notice: bytes) -> None:
        try:
            id = wire.read(properties, notice).envelope.sender
        except Unreadable as error:
            logger.error("the notice of a deleted queue cannot be read: %s", error)
            return
        self._ask_agent_again(id)

    def _ask_agent_again(self, id: str) -> None:
        held = self.whereabouts.let_go(id)
        for letter in list(self._pending.values()):
            if letter.to == id:
                self.outbox.publish(letter)
        for letter in held:
            if letter.kind != wire.REQUEST:
                self.outbox.publish(letter)

    def _ask_again(self) -> None:
        """Answers were lost: whoever gave them has them still."""
        for letter in list(self._pending.values()):
            self.outbox.publish(letter)

    # -- in ----------------------------------------------------------------------------------------

    def begins(self, delivery: Delivery, offer: Offer) -> bool:
        """Whether a message may be begun: the inbox must say so first."""
        return self.recorder.begins(delivery, offer)

    def set_aside(self, delivery: Delivery) -> None:
        """A message is to be approved."""
        self.recorder.set_aside(delivery)

    def permitted(self, delivery: Delivery) -> None:
        """A message was approved: that outlives this process."""
        self.recorder.permitted(delivery)

    def concluded(self, delivery: Delivery) -> None:
        """A message that is no request has ended."""
        self.recorder.concluded(delivery)

    def _answer(self, delivery: Delivery, value: Any, error: RequestError | None) -> None:
        if delivery.mail is None:
            super()._answer(delivery, value, error)
            return
        answer = answers(delivery, value, error)
        if answer is None:
            return
        envelope, original_id = answer
        if self.observers:
            self._show(envelope)
        said = envelope.name == "say"
        delivery.mail.answer = Letter(
            self.answer_key(delivery),
            wire.ANSWER,
            self.names.agent_key(envelope.to),
            wire.written(envelope),
            to=envelope.to,
            mandatory=True,
            headers=wire.headers(
                1, (), original_id=original_id if said else None, thread=envelope.thread
            ),
        )

    def _begin_now(self) -> None:
        """Begin what has just come, without another turn of the loop."""
        if self._ready:
            self._pump()

    def _show_arrived(self, delivery: Delivery, key: str) -> None:
        """Show an observer what came from another process, once."""
        # The key of an answer begins with that of the message that it is to.
        ours = (
            delivery.envelope.sender in self.seats if "/" in key else key.startswith(self.process)
        )
        if self.observers and not ours and self.observing.is_new(key):
            self._show(delivery.envelope)

    def _show_answer(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        if delivery.mail is None and delivery.envelope.to in self.seats:
            return  # where it was handled, in this process, it was shown
        super()._show_answer(delivery, value, error)

    async def _attached(self) -> None:
        """There is another channel to consume on."""
        if self.observing.wanted:
            await self.observing.attach()
        self.residents.restore()

    def observe_everywhere(self, callback: Callable[[dict[str, Any]], Any]) -> None:
        """Have a callback see what every process sends."""
        if self.observing.add(callback) and self.link.is_up:
            self.thread.spawn(self.observing.attach())

    # -- the end -----------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Have what was said confirmed, what was asked ended, and the connection too."""
        self.whereabouts.close()
        for letter in self._pending.values():
            self._withdraw(letter.about)
        if self.link.is_up:
            await self.residents.all_departed(_EMPTY_S)
            try:
                async with asyncio.timeout(_EMPTY_S):
                    while len(self.whereabouts) or len(self.outbox):
                        await self.whereabouts.emptied()
                        await self.outbox.emptied()  # some of it may come back
                await asyncio.wait_for(self.channels.empty(), _EMPTY_S)
            except (TimeoutError, LinkLost, AMQPError, Refused) as error:
                logger.warning(
                    "the space was closed before the broker had confirmed everything: %s",
                    error or type(error).__name__,
                )
        elif len(self.outbox) + len(self.whereabouts):
            logger.warning(
                "the space was closed without a connection, before the broker had confirmed "
                "everything: %d messages are lost",
                len(self.outbox) + len(self.whereabouts),
            )
        for letter in list(self._pending.values()):
            self.refuse(letter.about, self.gone())
        await self.link.close()
        try:
            self.inbox.close()
        except InboxError as error:
            logger.error("what ended last is not in the inbox: %s", error)
