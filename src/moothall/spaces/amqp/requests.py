"""The open requests of this process, and checks whether their receivers exist."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from pika.exceptions import AMQPError

from moothall.errors import AgentNotFound, BrokerError, RequestError
from moothall.message import BROADCAST as EVERYONE
from moothall.message import Envelope
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.agent_queues import AgentQueues
from moothall.spaces.amqp.broker import Broker
from moothall.spaces.amqp.connection import LinkLost
from moothall.spaces.amqp.consumer import Tag
from moothall.spaces.amqp.publisher import NO_ROOM, REFUSED, UNROUTABLE
from moothall.spaces.amqp.wire import Outbound, Unreadable
from moothall.spaces.delivery import Delivery

logger: logging.Logger = logging.getLogger("moothall.amqp")

_CHECK_S: Final = 0.01
"""How long a request stays unanswered before the broker is asked for its receiver."""

_GONE_S: Final = 0.05
"""How long the last answers of an agent that has left may take."""

_LOOK_S: Final = 0.2
"""How often the broker is asked for the queue of an agent whose id is claimed."""

_QUIET_S: Final = 0.1
_LOOKS: Final = 30
_RENEWED: Final = 10_000
_AGAIN_S: Final = 0.5


@dataclass(slots=True, eq=False, repr=False)
class OpenRequests:
    """The requests that are not answered. Everything runs on the loop."""

    broker: Broker
    settle: Callable[[Delivery, Any, RequestError | None], None]
    here: Iterable[str]  # the ids of this process's agents
    _asked: WeakValueDictionary[str, set[str]] = field(default_factory=WeakValueDictionary)
    _open: dict[str, Outbound] = field(default_factory=dict)
    # The handlers of this process that have made requests, by key.
    _handlers: WeakValueDictionary[str, Delivery] = field(default_factory=WeakValueDictionary)

    def deliveries(self) -> list[Delivery]:
        """Return the deliveries of all open requests."""
        return [message.about for message in self._open.values()]

    def begin(self, delivery: Delivery) -> Outbound:
        """Return the message of a request, which is open from now on."""
        envelope = delivery.envelope
        key = delivery.key = self.broker.new_key()
        delivery.call_chain = self._chain(delivery.parent)
        message = self._open[key] = Outbound(
            key,
            wire.REQUEST,
            self.broker.names.key("agent", envelope.to),
            wire.written(envelope),
            to=envelope.to,
            mandatory=True,
            reply_to=self.broker.reply_key,
            headers=wire.headers(wire.REQUEST, envelope, delivery),
            about=delivery,
            # An asker that has died cannot cancel it.
            expires_s=delivery.timeout,
        )
        return message

    def end(self, delivery: Delivery) -> None:
        """Remove a request that has its outcome."""
        self._open.pop(delivery.key, None)

    def _chain(self, handling: Delivery | None) -> tuple[str, ...]:
        """Return the keys of the handlers that wait for a request made now, outermost first."""
        keys: list[str] = []
        while handling is not None:
            if not handling.key:
                handling.key = self.broker.new_key()
            self._handlers[handling.key] = handling
            keys.append(handling.key)
            if handling.call_chain is not None:
                return (*handling.call_chain, *reversed(keys))
            handling = handling.parent
        return tuple(reversed(keys))

    def innermost(self, call_chain: tuple[str, ...]) -> Delivery | None:
        """Return the innermost handler of this process in a message's call chain."""
        found = (self._handlers.get(key) for key in reversed(call_chain))
        return next((handler for handler in found if handler is not None), None)

    def cancel(self, delivery: Delivery) -> None:
        """Tell the receiver of a request that nothing waits for its answer any more."""
        envelope = delivery.envelope
        self.broker.publisher.publish(
            Outbound(
                self.broker.new_key(),
                wire.CANCEL,
                self.broker.names.key("agent", envelope.to),
                wire.written(Envelope(envelope.sender, envelope.to, "cancel", {})),
                to=envelope.to,
                correlation_id=delivery.key,
            )
        )

    def answered(self, tag: Tag, properties: Any, body: bytes) -> None:
        """Take a message to this process: a request's outcome, or a notice of a process."""
        self.broker.consumer.acknowledge(tag)
        request = self._open.get(properties.correlation_id or "")
        if request is None:
            # It has ended, or this is a second answer.
            if properties.type in wire.NOTICES:
                self._noticed(properties, body)
            return
        delivery = request.about
        try:
            args = wire.read_json(body)["action"]["args"]
            value, error = args.get("data"), wire.error_of(properties.headers or {}, args)
        except (Unreadable, KeyError, TypeError, AttributeError) as wrong:
            logger.error("the answer to %s cannot be read: %s", delivery, wrong)
            value, error = None, wire.error_of({"outcome": "unreadable"}, {"error": str(wrong)})
        self.settle(delivery, value, error)

    async def everyone(self) -> list[str]:
        """Ask all processes for the ids of their agents, until none answers for a moment."""
        key, found = self.broker.new_key(), set[str]()
        self._asked[key] = found
        self._notify(wire.WHO, self.broker.names.processes, self.broker.process, id=key)
        for _ in range(_LOOKS):
            known = len(found)
            await asyncio.sleep(_QUIET_S)
            if 0 < known == len(found):  # this process answers, too
                break
        return sorted(found)

    def _notify(self, kind: str, to: str, sender: str, **parts: Any) -> None:
        body = wire.written(Envelope(sender, EVERYONE, kind, parts.pop("args", {}), **parts))
        self.broker.publisher.publish(Outbound(self.broker.new_key(), kind, to, body))

    def _noticed(self, properties: Any, body: bytes) -> None:
        try:
            notice = wire.read(properties, body).envelope
            ids = [*map(str, notice.args.get("ids", ()))]
        except (Unreadable, TypeError) as error:
            logger.error("a notice of another process cannot be read: %s", error)
            return
        id, sender, kind = notice.id, notice.sender, properties.type
        if kind == wire.QUEUE_LOST:
            self.send_again(sender)
        elif kind == wire.WHO:
            to = self.broker.names.key("reply", sender)
            self._notify(wire.HERE, to, sender, id=id, args={"ids": list(self.here)})
        elif (found := self._asked.get(id or "")) is not None:
            found.update(ids)

    # -- sent again: receivers deduplicate by key --------------------------------------------------

    def queue_lost(self, id: str) -> None:
        """Tell all processes, after a queue was deleted, to send open requests to its agent again.

        The broker delivers this notice to this process, too.
        """
        self._notify(wire.QUEUE_LOST, self.broker.names.processes, id)

    def send_again(self, id: str | None = None) -> None:
        """Publish the open requests to an agent again, or all if `id` is None."""
        for message in list(self._open.values()):
            if id is None or message.to == id:
                self.broker.publisher.publish(message)


@dataclass(slots=True, eq=False, repr=False)
class Presence:
    """Asks the broker which agents exist, and holds messages back until their queue exists."""

    broker: Broker
    queues: AgentQueues
    here: Container[str]  # the ids of this process's agents
    cancel: Callable[[Delivery], None]  # tells the receiver that a request has ended
    absent: Callable[[Delivery], None]  # ends a request whose receiver no process runs
    settled: Callable[[Outbound, str], None]  # ends a message that gets no queue
    unanswered: Callable[[Outbound, str], None]  # ends a message whose answer is not taken
    keep_s: float
    _renewed: dict[str, float] = field(default_factory=dict)
    _unchecked: dict[str, list[Delivery]] = field(default_factory=dict)
    _late: dict[str, list[Outbound]] = field(default_factory=dict)  # answers, by receiver

    # -- queues of agents that are away ------------------------------------------------------------

    def renew(self, id: str) -> None:
        """Extend the life of an absent agent's queue beyond the messages just published to it.

        The broker deletes a queue that was neither consumed nor declared for twice `keep_s`.
        """
        now = self.broker.loop.time()
        if now - self._renewed.get(id, -self.keep_s) < self.keep_s / 2:
            return
        self._renewed[id] = now
        if len(self._renewed) > _RENEWED:
            del self._renewed[next(iter(self._renewed))]
        self.broker.thread.spawn(self._renew(id))

    async def _renew(self, id: str) -> None:
        try:
            await self.queues.is_consumed(id)
        except (LinkLost, AMQPError):
            self._renewed.pop(id, None)

    # -- requests without an answer ----------------------------------------------------------------

    def check_receiver(self, request: Delivery) -> None:
        """End a request that is still unanswered after `_CHECK_S` if its receiver is absent."""
        to = request.envelope.to
        unchecked = self._unchecked.setdefault(to, [])
        unchecked.append(request)
        if len(unchecked) == 1:
            self.broker.thread.spawn(self._check(to))

    async def _check(self, to: str) -> None:
        await asyncio.sleep(_CHECK_S)
        requests = self._unchecked.pop(to)
        await asyncio.sleep(_CHECK_S)  # for the last of them, which was just sent
        while requests := [request for request in requests if not request.answered]:
            try:
                if await self._is_there(to):
                    return
                await asyncio.sleep(_GONE_S)  # its last answers may be on their way
                if await self._is_there(to):
                    return
            except (LinkLost, AMQPError):
                await asyncio.sleep(_AGAIN_S)
                continue
            for request in requests:
                if not request.answered:
                    self.cancel(request)
            # Then an agent that is added once its absence is told starts none of them.
            under_way = self.broker.publisher.in_flight(to)
            while under_way:
                try:
                    await self.broker.publisher.confirmed_or_returned(under_way)
                except LinkLost:
                    await asyncio.sleep(_AGAIN_S)
            for request in requests:
                self.absent(request)

    async def _is_there(self, id: str) -> bool:
        queues = self.queues
        return (
            await queues.is_consumed(id)
            or await queues.is_claimed(id)
            or await queues.is_awaited(id)
        )

    # -- messages that were returned ---------------------------------------------------------------

    def hold_back(self, message: Outbound) -> bool:
        """Hold back a message that the broker returned, if its receiver may be added soon."""
        to = message.to
        if not to or message.kind == wire.CANCEL or message.ended:
            return False
        if self.broker.publisher.hold_back(message):
            self.broker.thread.spawn(self._await_queue(to))
        return True

    def publish_late(self, message: Outbound) -> None:
        """Publish a message once its receiver has a queue.

        The broker returns no message that an observer of everything has.
        """
        if self.broker.publisher.held(message.to):
            self.broker.publisher.publish(message)  # behind those
        else:
            self.hold_back(message)

    async def _await_queue(self, to: str) -> None:
        """Publish held messages once there is a queue; end them if no process has the id."""
        publisher, queues, held = self.broker.publisher, self.queues, self.broker.publisher.held
        there = True
        try:
            while not await queues.is_consumed(to):
                if to not in self.here and not (
                    await queues.is_claimed(to) or await queues.is_awaited(to)
                ):
                    there = any(each.kind == wire.REQUEST and each.about.wait for each in held(to))
                    if there:
                        await queues.declare(to)
                    break
                # Its process declares the queue: it is being added, or its queue was deleted.
                await asyncio.sleep(_LOOK_S)
            # Messages published before this may still be returned.
            await publisher.confirmed_or_returned(publisher.in_flight(to))
        except (LinkLost, AMQPError):
            pass  # they are published on the next connection, and returned again
        except BrokerError as error:
            logger.error("%s", error)
            await asyncio.sleep(_AGAIN_S)
        for message in publisher.take_held(to):
            if there:
                publisher.publish(message)
            else:
                self.settled(message, UNROUTABLE)

    # -- messages that were refused ----------------------------------------------------------------

    def await_leader(self, message: Outbound) -> bool:
        """Hold back a message that a replicated queue has refused, if that queue may be not full.

        The broker also refuses what comes while the queue elects a leader, and from then on
        whatever comes for that queue by the same channel.
        """
        if not self.broker.quorum or not message.to or message.kind == wire.CANCEL or message.ended:
            return False
        if self.broker.publisher.hold_back(message):
            self.broker.thread.spawn(self._publish_again(message.to))
        return True

    def answer_later(self, answer: Outbound) -> None:
        """Publish an answer again while its receiver, whose queue is full, takes messages."""
        late = self._late.setdefault(answer.to, [])
        late.append(answer)
        if len(late) == 1:
            self.broker.thread.spawn(self._answer_late(answer.to))

    async def _answer_late(self, to: str) -> None:
        await asyncio.sleep(_LOOK_S)
        there = True  # as long as nothing is known
        with suppress(LinkLost, AMQPError):
            there = await self.queues.is_consumed(to)
        for answer in self._late.pop(to, ()):
            if there:
                self.broker.publisher.publish(answer)
            else:
                self.unanswered(answer, REFUSED)

    def end_late_answers(self) -> None:
        """End the messages whose answers wait for room in a queue: the space is closed."""
        while self._late:
            for answer in self._late.popitem()[1]:
                self.unanswered(answer, REFUSED)

    async def _publish_again(self, to: str) -> None:
        publisher, full = self.broker.publisher, False
        await asyncio.sleep(_LOOK_S)
        with suppress(LinkLost, AMQPError):  # the next connection publishes them
            full = await self.queues.waiting(to) >= self.queues.router.capacity
            # Messages published before this may still be refused, and come before the others.
            await publisher.confirmed_or_returned(publisher.in_flight(to))
        if not full:
            publisher.close_channel()  # the next one is opened at once
        for message in publisher.take_held(to):
            if full:
                self.settled(message, NO_ROOM)
            else:
                publisher.publish(message)


def unserved(id: str) -> AgentNotFound:
    """Return the error of a request to an agent that no process runs."""
    return AgentNotFound(
        f'no process serves agent "{id}" now: wait=True waits for one; '
        "a call that was sent as its process ended may have begun"
    )
