"""The post office of a space whose messages travel over a broker."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from threading import get_ident
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from civitas.agent import CURRENT
from civitas.errors import (
    ActionError,
    AgentNotFound,
    AgentStopped,
    BrokerError,
    DuplicateAgent,
    HopLimitExceeded,
    MailboxFull,
    RequestCancelled,
    RequestError,
)
from civitas.message import BROADCAST as EVERYONE
from civitas.message import Envelope
from civitas.spaces.amqp import letter as letters
from civitas.spaces.amqp.arrivals import Arrivals, Mail, handler_of
from civitas.spaces.amqp.control import Control, Refused
from civitas.spaces.amqp.inbox import Inbox
from civitas.spaces.amqp.intake import Intake, Tag
from civitas.spaces.amqp.letter import Letter, Unreadable
from civitas.spaces.amqp.link import Link, LinkLost, settle
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.options import AMQPOptions
from civitas.spaces.amqp.outbox import CONFIRMED, FULL, REFUSED, RETURNED, TOO_LARGE, Outbox
from civitas.spaces.amqp.outcome import error_headers, error_of
from civitas.spaces.amqp.registrar import Registrar, Registration
from civitas.spaces.delivery import ANSWER, MAX_HOPS, QUEUED, REQUEST, Delivery
from civitas.spaces.handling import Offer, answers
from civitas.spaces.loop import LoopThread
from civitas.spaces.office import PostOffice
from civitas.spaces.seat import Seat

__all__ = ["AMQPOffice"]

logger = logging.getLogger("civitas.amqp")

_CHECK_S: Final = 0.01
"""How long a request may be unanswered before it is asked whether anybody is there."""

_MISSING_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
"""When a message is sent again to an agent whose queue has gone, as it may for a moment."""

_MET: Final = 10_000
"""How many ids of agents elsewhere are kept."""

_REPLIES_EXPIRE_S: Final = 3600
_REPLY_PREFETCH: Final = 2_000
_BACKLOG_S: Final = 2.0
_RECLAIM_S: Final = 0.5
_EMPTY_S: Final = 5.0
_OBSERVED: Final = 10_000
_NOT_FOUND: Final = 404
_LARGEST = re.compile(r"larger than configured max size (\d+)")


class AMQPOffice(PostOffice):
    """Sends messages to the broker, also those to agents of its own, and takes what comes.

    Args:
        thread: the loop's thread, running
        mailbox: how many messages may wait for one agent
        options: where the broker is
        names: what things are called there
        inbox: what is remembered of messages
        keep_s: how long messages wait for an agent that is away
        quorum: whether queues are replicated
        told: called with what happens to the connection
        evict: called with the seat of an agent whose id another process has taken
    """

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
        self._options = options
        self._evict = evict
        self._count = count(1)
        self._pending: dict[str, Delivery] = {}
        self._asking: dict[str, list[Any]] = {}
        self._registrations: dict[Seat, Registration] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._unchecked: dict[str, list[Delivery]] = {}
        self._missing: dict[str, deque[Letter]] = {}
        self._met: dict[str, None] = {}
        self._seen: dict[str, None] = {}
        self._everywhere: tuple[Callable[[dict[str, Any]], Any], ...] = ()
        self.intake = Intake(self.loop)
        self.link = Link(
            self.loop,
            options,
            f"civitas {self.process}",
            up=self._up,
            down=self._down,
            told=told,
            last_words=self.intake.flush,
            heard=self._begin_now,
        )
        self.control = Control(self.link)
        self.outbox = Outbox(names.exchange, self._settled)
        self.inbox = inbox
        self.arrivals = Arrivals(self, inbox, keep_s)
        self._registrar = Registrar(
            self.control,
            self.intake,
            names,
            mailbox=mailbox,
            keep_s=keep_s,
            quorum=quorum,
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
            if thread.ingress:
                thread.drain()
            self._send(envelope, mail)
        else:
            thread.enter(self._send, envelope, mail)

    def _send(self, envelope: Envelope, mail: Mail | None) -> None:
        if self.closed:
            return
        if self.observers:
            self._show(envelope)
        if mail is not None:
            mail.unconfirmed += 1
        to = envelope.to
        names = self.names
        everyone = to == EVERYONE
        self.publish(
            Letter(
                self.new_key(),
                letters.SEND,
                names.everyone if everyone else names.agent_key(to),
                letters.written(envelope),
                to="" if everyone else to,
                mandatory=not everyone,
                about=(mail, envelope.sender, envelope.id),
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
        trail = self._trail(delivery.parent)
        self._pending[key] = delivery
        if delivery.timeout is not None:
            self._fresh.append(delivery)
            if not self._pumping:
                self._schedule()
        envelope = delivery.envelope
        to = envelope.to
        self.publish(
            Letter(
                key,
                letters.REQUEST,
                self.names.agent_key(to),
                letters.written(envelope),
                to=to,
                mandatory=True,
                reply_to=self.names.reply_key(self.process),
                headers=letters.headers(delivery.hops, trail, delivery.timeout),
                about=delivery,
            )
        )
        if not delivery.wait and to not in self.seats:
            if not self._unchecked:
                self.loop.call_later(_CHECK_S, self._check)
            self._unchecked.setdefault(to, []).append(delivery)

    def publish(self, letter: Letter) -> None:
        """Send a letter, behind those to the same agent that are held back."""
        held = self._missing.get(letter.to) if self._missing and letter.to else None
        if held is not None:
            held.append(letter)
        else:
            self.outbox.publish(letter)

    def _trail(self, handling: Any) -> tuple[str, ...]:
        """The keys of the handlers, the outermost first, that wait for a request made now."""
        keys: list[str] = []
        while handling is not None:
            if not handling.key:
                handling.key = self.new_key()
            entry = self._asking.setdefault(handling.key, [handling, 0])
            entry[1] += 1
            keys.append(handling.key)
            if handling.trail is not None:
                return (*handling.trail, *reversed(keys))
            handling = handling.parent
        return tuple(reversed(keys))

    def ancestor(self, trail: tuple[str, ...]) -> Delivery | None:
        """The innermost handler of this process that waits for a message of this trail."""
        for key in reversed(trail):
            entry = self._asking.get(key)
            if entry is not None:
                found: Delivery = entry[0]
                return found
        return None

    def _asks_no_more(self, handling: Any) -> None:
        while handling is not None:
            entry = self._asking.get(handling.key)
            if entry is not None:
                entry[1] -= 1
                if not entry[1]:
                    del self._asking[handling.key]
            if handling.trail is not None:
                return
            handling = handling.parent

    # -- how it went -------------------------------------------------------------------------------

    def _settled(self, letter: Letter, outcome: str) -> None:
        """The broker has confirmed a letter, or has not taken it."""
        if outcome == RETURNED and self._again(letter):
            return
        kind, about = letter.kind, letter.about
        if outcome == TOO_LARGE and kind in (letters.REPLY, letters.ANSWER):
            self._answer_too_large(letter)
        elif callable(about):
            about()
        elif kind == letters.SEND:
            mail, sender, id = about
            if outcome in (REFUSED, FULL, TOO_LARGE):
                self._tell(sender, id, str(self._too_much(letter, outcome)))
            if mail is not None:
                self.arrivals.sent(mail)
        elif kind == letters.REQUEST:
            if outcome == RETURNED:
                self.refuse(about, self._nobody_there(letter.to))
            elif outcome != CONFIRMED:
                self.refuse(about, self._too_much(letter, outcome))
        elif about is not None:
            if outcome != CONFIRMED and letter.kind == letters.ANSWER:
                logger.warning("an answer to agent %r was %s by the broker", letter.to, outcome)
            self.arrivals.finish(about)

    def _again(self, letter: Letter) -> bool:
        """Whether a letter that came back is sent again: whom it is to may be back in a moment."""
        to = letter.to
        waits = letter.kind == letters.REQUEST and letter.about.wait
        if not to or letter.kind == letters.CANCEL:
            return False
        if letter.kind == letters.REQUEST and letter.about.answered:
            return False
        if waits and to not in self.seats:
            self._hold_back(letter, to)
            self.thread.spawn(self._make_room(to))
            return True
        if letter.tries >= len(_MISSING_S) or not (to in self.seats or to in self._met):
            return False
        if letter.kind == letters.REQUEST and to not in self.seats:
            return False
        if self._hold_back(letter, to):
            self.loop.call_later(_MISSING_S[letter.tries], self._send_held, to)
        letter.tries += 1
        return True

    def _hold_back(self, letter: Letter, to: str) -> bool:
        """Keep a letter that came back; whether it is the first to that agent."""
        held = self._missing.get(to)
        if held is None:
            self._missing[to] = deque((letter,))
            return True
        held.append(letter)
        return False

    def _send_held(self, to: str) -> None:
        for letter in self._missing.pop(to, ()):
            self.outbox.publish(letter)

    async def _make_room(self, to: str) -> None:
        """Have a queue for an agent that was never there, for a request that waits for it."""
        while to in self._missing:
            try:
                await self._registrar.make_room(to)
                break
            except (LinkLost, AMQPError):
                await asyncio.sleep(_RECLAIM_S)
            except BrokerError as error:
                logger.error("%s", error)
                break
        self._send_held(to)

    def _tell(self, to: str, id: str | None, text: str) -> None:
        """Tell an agent here that a message of its own was not taken."""
        args = {"error": text, "original_message_id": id}
        if to in self.seats:
            told = Delivery(Envelope(to, to, "error", args), ANSWER)
            self.post(told)

    def _too_much(self, letter: Letter, outcome: str) -> MailboxFull:
        if outcome == FULL:
            return MailboxFull(
                f"{len(self.outbox)} messages wait for the broker: no more are taken"
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
        message = letters.read_json(letter.body)
        id = message["action"]["args"].get("original_message_id")
        args = {"error": str(error), "original_message_id": id}
        letter.body = letters.written(Envelope(message["from"], message["to"], "error", args))
        letter.headers = error_headers(error) if letter.kind == letters.REPLY else None
        self.outbox.publish(letter)

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
            self._asks_no_more(delivery.parent)
            super().settle(delivery, value, error)
            return
        super().settle(delivery, value, error)
        mail.answer = self._reply(delivery, value, error)
        self.arrivals.concluded(delivery)

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
        cancel = Envelope(envelope.sender, envelope.to, "cancel", {})
        self.publish(
            Letter(
                self.new_key(),
                letters.CANCEL,
                self.names.agent_key(envelope.to),
                letters.written(cancel),
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
            letters.REPLY,
            mail.reply_to,
            letters.written(Envelope(sender, envelope.sender, name, args)),
            mandatory=True,
            correlation_id=mail.ident[0],
            headers=None if error is None else error_headers(error),
        )

    def answer_key(self, delivery: Delivery) -> str:
        """The key of a message's answer."""
        return self.arrivals.answer_key(delivery)

    def _replied(self, tag: Tag, properties: Any, body: bytes) -> None:
        """The outcome of a request of this process came."""
        self.intake.acknowledge(tag)
        delivery = self._pending.get(properties.correlation_id or "")
        if delivery is None:
            return  # it has ended meanwhile, or this is the same again
        try:
            message = letters.read_json(body)
            args = message["action"]["args"]
            value, error = args.get("data"), error_of(properties.headers or {}, args)
        except (Unreadable, KeyError, TypeError, AttributeError) as wrong:
            logger.error("the answer to %s cannot be read: %s", delivery, wrong)
            value, error = None, error_of({"outcome": "unreadable"}, {"error": str(wrong)})
        if error is None:
            self.met(delivery.envelope.to)
        self.settle(delivery, value, error)

    # -- whether anybody is there ------------------------------------------------------------------

    def met(self, id: str) -> None:
        """Somebody of that id was there a moment ago."""
        if id not in self._met and id not in self.seats:
            self._met[id] = None
            if len(self._met) > _MET:
                del self._met[next(iter(self._met))]

    def _check(self) -> None:
        """Ask the broker for each who has not answered for a moment."""
        unchecked, self._unchecked = self._unchecked, {}
        for to, asked in unchecked.items():
            left = [delivery for delivery in asked if not delivery.answered]
            if left:
                self.thread.spawn(self._look_for(to, left))

    async def _look_for(self, to: str, asked: list[Delivery]) -> None:
        try:
            there = await self._registrar.is_consumed(to)
        except (LinkLost, AMQPError):
            if not self.closed:
                if not self._unchecked:
                    self.loop.call_later(_RECLAIM_S, self._check)
                self._unchecked.setdefault(to, []).extend(asked)
            return
        if not there:
            for delivery in asked:
                if not delivery.answered:
                    self.abort(delivery, self._nobody_there(to))

    def _nobody_there(self, id: str) -> AgentNotFound:
        return AgentNotFound(f'no agent "{id}" in this space')

    # -- in ----------------------------------------------------------------------------------------

    def begins(self, delivery: Delivery, offer: Offer) -> bool:
        """Whether a message may be begun: the inbox must say so first."""
        return self.arrivals.begins(delivery, offer)

    def set_aside(self, delivery: Delivery) -> None:
        """A message is to be approved."""
        self.arrivals.set_aside(delivery)

    def concluded(self, delivery: Delivery) -> None:
        """A message that is no request has ended."""
        self.arrivals.concluded(delivery)

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
            letters.ANSWER,
            self.names.agent_key(envelope.to),
            letters.written(envelope),
            to=envelope.to,
            mandatory=True,
            headers=letters.headers(1, (), original_id=original_id if said else None),
        )

    def _begin_now(self) -> None:
        """Begin what has just come, without another turn of the loop."""
        if self._ready:
            self._pump()

    @property
    def is_idle(self) -> bool:
        """Whether no agent is about to begin anything."""
        return not self._ready

    def stopped(self, seat: Seat) -> RequestError:
        """Why a message ends whose receiver has just left."""
        if self.ending:
            return self.gone()
        return AgentStopped(f'agent "{seat.id}" was removed')

    def cancelled(self, delivery: Delivery) -> RequestCancelled:
        """Why a message ends that whoever sent it wants no more."""
        return RequestCancelled(f'the request to "{delivery}" was cancelled')

    def show_arrived(self, delivery: Delivery, key: str) -> None:
        """Show an observer what came from another process, once."""
        # The key of an answer begins with that of the message that it is to.
        ours = (
            delivery.envelope.sender in self.seats if "/" in key else key.startswith(self.process)
        )
        if self.observers and not ours and self._is_new(key):
            self._show(delivery.envelope)

    def _is_new(self, key: str) -> bool:
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _OBSERVED:
            del self._seen[next(iter(self._seen))]
        return True

    def _show_answer(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        if delivery.mail is None and delivery.envelope.to in self.seats:
            return  # where it was handled, in this process, it was shown
        super()._show_answer(delivery, value, error)

    # -- agents come and go ------------------------------------------------------------------------

    async def claim(self, seat: Seat) -> None:
        """Have an agent's messages come here.

        Raises:
            DuplicateAgent: another process has an agent of that id
            BrokerError: there is no broker, or it would not
        """
        await self.link.open()
        while (leaving := self._leaving.get(seat.id)) is not None:
            await asyncio.wait((leaving,))  # one of that id, whose queue is being deleted
        if not seat.open:
            raise self.stopped(seat)  # it was removed meanwhile
        registration = Registration(seat.id, self.names.agent_queue(seat.id))
        self._registrations[seat] = registration
        try:
            while seat.open:
                try:
                    await self._enter(seat, registration)
                    break
                except LinkLost:
                    await asyncio.sleep(_RECLAIM_S)  # the connection is made again
        except DuplicateAgent:
            self._registrations.pop(seat, None)  # nothing of it is there to be given up
            raise
        finally:
            registration.settled.set()
        if not seat.open:
            raise self.stopped(seat)
        if not registration.backlog:  # else when that is there, with what was cancelled meanwhile
            self.arrivals.resume(seat)

    async def _enter(self, seat: Seat, registration: Registration) -> None:
        def deliver(tag: Tag, method: Any, properties: Any, body: bytes) -> None:
            if registration.backlog:
                # What waited comes whole, before any of it is begun: among it may be word that
                # whoever asked wants the answer no more.
                registration.early.append((tag, method, properties, body))
                if len(registration.early) >= registration.backlog:
                    begin()
            else:
                self.arrivals.take(seat, tag, properties, body)

        def begin() -> None:
            first = registration.backlog and seat.open
            registration.backlog = 0
            early, registration.early = registration.early, []
            for _, _, properties, _ in early:
                if properties.type == letters.CANCEL:
                    self.arrivals.unwanted(properties.correlation_id or "", seat.id)
            for tag, _, properties, body in early:
                self.arrivals.take(seat, tag, properties, body)
            if first:
                self.arrivals.resume(seat)

        def cancelled() -> None:
            if self._registrations.get(seat) is registration and not self.ending:
                logger.warning("the queue of agent %r is gone from the broker; making it", seat.id)
                registration.consumer = ""
                self.thread.spawn(self._restore(seat, registration))

        await self._registrar.enter(registration, deliver, cancelled, seat.concurrency)
        if registration.backlog:
            self.loop.call_later(_BACKLOG_S, begin)

    def departs(self, seat: Seat) -> None:
        """An agent leaves for good: its queue goes, and then its id is free."""
        registration = self._registrations.pop(seat, None)
        if registration is not None and not self.ending:
            self._leaving[seat.id] = self.thread.spawn(self._release(seat, registration))

    async def departed(self, seat: Seat) -> None:
        """Wait until it is."""
        leaving = self._leaving.get(seat.id)
        if leaving is not None:
            await asyncio.wait((leaving,))

    async def _release(self, seat: Seat, registration: Registration) -> None:
        try:
            await registration.settled.wait()
            await self._registrar.leave(registration)
        except (LinkLost, AMQPError):
            logger.info("agent %r left while there was no connection; its queue stays", seat.id)
        except BrokerError as error:
            logger.error("%s", error)
        finally:
            del self._leaving[seat.id]

    async def _restore(self, seat: Seat, registration: Registration) -> None:
        """Have an agent's messages come here again."""
        # The broker may take two heartbeats, and some seconds, to see that our old self is dead.
        until = self.loop.time() + 3 * self._options.heartbeat + 10
        while self._registrations.get(seat) is registration and self.link.is_up:
            try:
                await self._enter(seat, registration)
                return
            except (LinkLost, AMQPError):
                return  # the next connection restores all
            except DuplicateAgent:
                if self.loop.time() > until:
                    del self._registrations[seat]
                    text = f'agent "{seat.id}" was replaced by one of another process'
                    logger.error("%s while this one had no connection", text)
                    self._evict(seat, AgentStopped(text))
                    return
            except BrokerError as error:
                logger.error("%s", error)
            await asyncio.sleep(_RECLAIM_S * random.uniform(0.5, 1.0))

    # -- the connection ----------------------------------------------------------------------------

    async def _up(self) -> None:
        """Set up a new connection."""
        names, control = self.names, self.control
        reply_queue = names.reply_queue(self.process)
        expires = {"x-expires": _REPLIES_EXPIRE_S * 1000}
        steps: list[Callable[[Channel, Callable[[Any], None]], Any]] = [
            lambda c, done: c.exchange_declare(
                names.exchange, "topic", durable=True, callback=done
            ),
            lambda c, done: c.exchange_declare(names.dead, "fanout", durable=True, callback=done),
            lambda c, done: c.queue_declare(names.dead_letters, durable=True, callback=done),
            lambda c, done: c.queue_bind(names.dead_letters, names.dead, "", callback=done),
            lambda c, done: c.queue_declare(
                reply_queue, durable=True, arguments=expires, callback=done
            ),
            lambda c, done: c.queue_bind(
                reply_queue, names.exchange, names.reply_key(self.process), callback=done
            ),
        ]
        try:
            for step in steps:
                await control.call(step)
        except Refused as error:
            raise BrokerError(
                f"the broker at {self._options.address} has something else under the name "
                f"{names.exchange!r}, or refuses to have it made: {error}"
            ) from error
        await self._attach_intake()
        await self._attach_outbox()
        for seat, registration in list(self._registrations.items()):
            if registration.settled.is_set():
                registration.consumer = ""
                self.thread.spawn(self._restore(seat, registration))

    def _down(self) -> None:
        self.control.lost()
        self.outbox.lost()
        self.intake.lost()

    async def _attach_intake(self) -> None:
        channel = await self.link.channel()
        channel.add_on_close_callback(lambda *_: self._closed(self._reattach_intake, self.intake))
        self.intake.attach(channel)
        await self.intake.consume(
            self.names.reply_queue(self.process),
            lambda tag, _, properties, body: self._replied(tag, properties, body),
            _REPLY_PREFETCH,
            self._lost_replies,
        )
        if self._everywhere:
            await self._observe_everywhere()

    def _lost_replies(self) -> None:
        """The queue of the answers is gone, so all is declared anew on another connection."""
        if not self.closed:
            self.link.drop()

    async def _attach_outbox(self) -> None:
        channel = await self.link.channel()
        channel.add_on_close_callback(self._outbox_closed)
        ready = self.loop.create_future()
        channel.add_on_close_callback(lambda *_: settle(ready, False))
        channel.confirm_delivery(self.outbox.confirmed, callback=lambda _: settle(ready, True))
        if not await ready:
            raise LinkLost("the channel was lost")
        self.outbox.attach(channel)

    def _outbox_closed(self, _: Channel, error: Exception) -> None:
        self._closed(self._attach_outbox, self.outbox)
        if isinstance(error, ChannelClosedByBroker) and error.reply_code == _NOT_FOUND:
            self.link.drop()  # the exchange is gone, so all is declared anew
        if too_large := _LARGEST.search(str(error)):
            self.outbox.refuse_larger(int(too_large[1]))

    def _closed(self, attach: Callable[[], Any], part: Intake | Outbox) -> None:
        """The broker has closed a channel: of a connection that goes on, or with it."""
        part.lost()
        if self.link.is_up and not self.closed:

            async def again() -> None:
                try:
                    await attach()
                except (LinkLost, AMQPError):
                    return  # the next connection sets up all

            self.thread.spawn(again())

    async def _reattach_intake(self) -> None:
        """The broker took back what was unacknowledged for too long; it brings it again."""
        await self._attach_intake()
        for seat, registration in list(self._registrations.items()):
            registration.consumer = ""
            self.thread.spawn(self._restore(seat, registration))

    # -- observers ---------------------------------------------------------------------------------

    def observe_everywhere(self, callback: Callable[[dict[str, Any]], Any]) -> None:
        """Have a callback see what every process sends."""
        first = not self._everywhere
        self._everywhere = (*self._everywhere, callback)
        if first and self.link.is_up:
            self.thread.spawn(self._observe_everywhere())

    async def _observe_everywhere(self) -> None:
        names = self.names
        # A new one each time: the broker may take the connection that is lost to be there still.
        queue = names.observer_queue(self.new_key())
        await self.control.call(
            lambda c, done: c.queue_declare(queue, exclusive=True, auto_delete=True, callback=done)
        )
        await self.control.call(
            lambda c, done: c.queue_bind(queue, names.exchange, names.everything, callback=done)
        )
        await self.intake.consume(queue, self._observed, _REPLY_PREFETCH, lambda: None)

    def _observed(self, tag: Tag, _: Any, properties: Any, body: bytes) -> None:
        self.intake.acknowledge(tag)
        try:
            arrived = letters.read(properties, body)
        except Unreadable as error:
            logger.warning("an observer is not shown a message that cannot be read: %s", error)
            return
        if arrived.kind == letters.CANCEL or not self._is_new(f"everywhere {arrived.key}"):
            return
        envelope = arrived.envelope
        if arrived.kind == letters.REPLY and envelope.args.get("data", 0) is None:
            return
        for callback in self._everywhere:
            try:
                callback(envelope.to_dict())
            except Exception:
                logger.exception("observer %r failed and is called no more", callback)
                self._everywhere = tuple(c for c in self._everywhere if c is not callback)

    # -- the end -----------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Have what was said confirmed, what was asked ended, and the connection too."""
        here = {seat.id for seat in self._registrations}
        for delivery in self._pending.values():
            if delivery.envelope.to not in here:
                self._withdraw(delivery)
        if self.link.is_up:
            try:
                await asyncio.wait_for(self.outbox.emptied(), _EMPTY_S)
                reply_queue = self.names.reply_queue(self.process)
                # Answers that agents here gave agents here have come when the queue is empty.
                await asyncio.wait_for(self.control.call(partial(_find, reply_queue)), _EMPTY_S)
                self.intake.flush()
                await asyncio.wait_for(self.control.call(partial(_delete, reply_queue)), _EMPTY_S)
            except (TimeoutError, LinkLost, AMQPError, Refused) as error:
                logger.warning(
                    "the space was closed before the broker had confirmed everything: %s",
                    error or type(error).__name__,
                )
        elif len(self.outbox):
            logger.warning(
                "the space was closed without a connection, before the broker had confirmed "
                "everything: %d messages are lost",
                len(self.outbox),
            )
        for delivery in list(self._pending.values()):
            self.refuse(delivery, self.gone())
        await self.link.close()
        self.inbox.close()


def _find(queue: str, channel: Channel, done: Callable[[Any], None]) -> None:
    channel.queue_declare(queue, passive=True, callback=done)


def _delete(queue: str, channel: Channel, done: Callable[[Any], None]) -> None:
    channel.queue_delete(queue, callback=done)
