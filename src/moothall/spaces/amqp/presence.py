"""Which agents exist, and messages that wait for the queue of one or for room in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pika.exceptions import AMQPError

from moothall.foundation.errors import AgentNotFound, BrokerError
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost
from moothall.spaces.amqp.link.publisher import NO_ROOM, UNROUTABLE
from moothall.spaces.amqp.queues import Queues
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.delivery import Delivery
from moothall.spaces.router import Router

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_CHECK_S: Final = 0.01
"""How long a request stays unanswered before the broker is asked for its receiver."""

_GONE_S: Final = 0.05
"""How long the last answers of an agent that has left may take."""

_POLL_INTERVAL_S: Final = 0.2
"""How often the broker is asked for the queue of an agent whose id is claimed."""

_MAX_TRIES: Final = 3
"""How often a queue of a cluster that is not full by number refuses a message: it is by bytes."""

_MAX_RENEWED: Final = 10_000
_RETRY_S: Final = 0.5


@dataclass(slots=True, eq=False, repr=False)
class Presence:
    """Asks the broker which agents exist, and holds messages back until their queue exists."""

    router: Router
    broker: Broker
    queues: Queues
    cancel_request: Callable[[Delivery], None]  # tells the receiver that a request has ended
    _renewal_times: dict[str, float] = field(default_factory=dict)
    _unchecked_requests: dict[str, list[Delivery]] = field(default_factory=dict)

    # -- queues of agents that are away ------------------------------------------------------------

    def renew(self, id: str) -> None:
        """Extend the life of an absent agent's queue beyond the messages just published to it.

        The broker deletes a queue that was neither consumed nor declared for twice its TTL.
        """
        now, message_ttl_s = self.broker.loop.time(), self.broker.limits.message_ttl_s
        if now - self._renewal_times.get(id, -message_ttl_s) < message_ttl_s / 2:
            return
        self._renewal_times[id] = now
        if len(self._renewal_times) > _MAX_RENEWED:
            del self._renewal_times[next(iter(self._renewal_times))]
        self.broker.thread.spawn(self._renew(id))

    async def _renew(self, id: str) -> None:
        try:
            await self.queues.state("agent", id)
        except (LinkLost, AMQPError):
            self._renewal_times.pop(id, None)

    # -- requests without an answer ----------------------------------------------------------------

    def check_receiver(self, request: Delivery) -> None:
        """End a request that is still unanswered after `_CHECK_S` if its receiver is absent."""
        to = request.envelope.to
        unchecked = self._unchecked_requests.setdefault(to, [])
        unchecked.append(request)
        if len(unchecked) == 1:
            self.broker.loop.call_later(_CHECK_S, self._check_open, to)

    def _check_open(self, to: str) -> None:
        if requests := [each for each in self._unchecked_requests.pop(to) if not each.answered]:
            self.broker.thread.spawn(self._check(to, requests))

    async def _check(self, to: str, requests: list[Delivery]) -> None:
        await asyncio.sleep(_CHECK_S)  # for the last of them, which was just sent
        while requests := [request for request in requests if not request.answered]:
            try:
                if await self.queues.is_served(to):
                    return
                await asyncio.sleep(_GONE_S)  # its last answers may be on their way
                if await self.queues.is_served(to):
                    return
            except (LinkLost, AMQPError):
                await asyncio.sleep(_RETRY_S)
                continue
            for request in requests:
                if not request.answered:
                    self.cancel_request(request)
            # Then an agent that is added once its absence is told starts none of them.
            in_flight = self.broker.publisher.in_flight(to)
            while in_flight:
                try:
                    await self.broker.publisher.confirmed_or_returned(in_flight)
                except LinkLost:
                    await asyncio.sleep(_RETRY_S)
            for request in requests:
                text = f'no process serves agent "{to}" now: wait=True waits for one; '
                text += "a call that was sent as its process ended may have begun"
                self.router.refuse(request, AgentNotFound(text))

    # -- messages that were returned ---------------------------------------------------------------

    def hold_back(self, message: Outbound) -> bool:
        """Hold back a message that the broker returned, if its receiver may be added soon."""
        to = message.to
        if not to or message.kind == wire.CANCEL or message.is_answered:
            return False
        if self.broker.publisher.hold_back(message):
            self.broker.thread.spawn(self._await_queue(to))
        return True

    def publish_late(self, message: Outbound) -> None:
        """Publish a message once its receiver has a queue.

        The broker returns no message that an observer of everything has.
        """
        if self.broker.publisher.messages_for(message.to):
            self.broker.publisher.publish(message)  # behind those
        else:
            self.hold_back(message)

    async def _await_queue(self, to: str) -> None:
        """Publish held messages once there is a queue; end them if no process has the id."""
        publisher, queues, messages_for = (
            self.broker.publisher,
            self.queues,
            self.broker.publisher.messages_for,
        )
        has_queue = True
        try:
            while True:
                # Later ones may be for an agent that is added meanwhile.
                sent_keys = publisher.unconfirmed_to(to)
                if (await queues.state("agent", to)).in_use:
                    await asyncio.sleep(_GONE_S)  # it may not be bound yet, or not any more
                    break
                if to not in self.router.mailboxes and not await queues.is_claimed(to):
                    has_queue = any(
                        each.kind == wire.REQUEST and each.settles.waits_for_receiver
                        for each in messages_for(to)
                    )
                    if has_queue:
                        await queues.declare(to)
                        await queues.bind(to, ())
                    break
                # Its process declares the queue: it is being added, or its queue was deleted.
                await asyncio.sleep(_POLL_INTERVAL_S)
            # Messages published before this may still be returned.
            await publisher.confirmed_or_returned(publisher.in_flight(to))
        except (LinkLost, AMQPError):
            pass  # they are published on the next connection, and returned again
        except BrokerError as error:
            logger.error("%s", error)
            await asyncio.sleep(_RETRY_S)
        for message in publisher.take_held(to):
            if has_queue or message.key not in sent_keys:
                publisher.publish(message)
            else:
                self.broker.on_outcome(message, UNROUTABLE)

    # -- messages that were refused ----------------------------------------------------------------

    def hold_refused(self, message: Outbound) -> bool:
        """Hold back a message that a queue has refused, if it is published again.

        An answer is, while its receiver takes messages. In a cluster each other message is, too,
        unless the queue is full: the broker also refuses what comes while the queue elects a
        leader, and from then on whatever comes for that queue by the same channel.
        """
        tries_again = not self.router.closed if message.kind == wire.ANSWER else self.broker.quorum
        if not tries_again or not message.to or message.kind == wire.CANCEL or message.is_answered:
            return False
        message.refusal_count += 1
        if self.broker.publisher.hold_back(message):
            self.broker.thread.spawn(self._publish_again(message.to))
        return True

    async def _publish_again(self, to: str) -> None:
        publisher, state = self.broker.publisher, None
        await asyncio.sleep(_POLL_INTERVAL_S)
        sent_keys = publisher.unconfirmed_to(to)  # later ones may find room, or their receiver
        with suppress(LinkLost, AMQPError):  # the next connection publishes them
            state = await self.queues.state("agent", to)
            # Messages published before this may still be refused, and come before the others.
            await publisher.confirmed_or_returned(publisher.in_flight(to))
        is_full = state is not None and state.messages >= self.broker.limits.max_messages
        if self.broker.quorum and not is_full:
            publisher.close_channel()  # the next one is opened at once
        for message in publisher.take_held(to):
            if message.kind == wire.ANSWER:
                is_over = state is not None and not state.in_use
            else:  # without a leader, the broker knows of no messages
                is_over = is_full or bool(
                    state and state.messages and message.refusal_count > _MAX_TRIES
                )
            if is_over and message.key in sent_keys:
                self.broker.on_outcome(message, NO_ROOM)
            else:
                publisher.publish(message)
