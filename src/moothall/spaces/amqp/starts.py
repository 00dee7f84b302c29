"""Messages whose processes die: how often each was started is counted at the broker."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.spaces.amqp.link.broker import CLASSIC, Broker
from moothall.spaces.amqp.link.connection import LinkLost, Refused
from moothall.spaces.amqp.link.consumer import Tag
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.amqp")

_START: Final = "start"  # AMQP's `type` of what is counted
_MOST: Final = 1_000
"""How many starts an agent's queue keeps."""

_READ_S: Final = 5.0
"""How long reading them may take."""


@dataclass(slots=True, eq=False, repr=False)
class Starts:
    """Counts the starts of redelivered messages, and ends those that were started too often.

    A process that dies cannot count. So the key of a redelivered message is published to a queue of
    its agent's before the message starts. The next process reads that queue. (The messages of a
    shared agent have the count in them: `Receiver`.) Everything runs on the loop.

    Attributes:
        deliveries: how many times a message is started at most; None for any number
        in_doubt: ends a message that has been started so often
    """

    broker: Broker
    deliveries: int | None
    keep_s: float
    in_doubt: Callable[[Any, str], None]
    # By agent, with the number of the channel on which that was so.
    _redelivered: dict[str, tuple[int, int]] = field(default_factory=dict)  # how many came
    _read_before: dict[str, tuple[int, Counter[str]]] = field(default_factory=dict)  # by key

    def counts(self, mailbox: Mailbox, tag: Tag | None) -> bool:
        """Return whether the start of a message is counted: a process may have died of it.

        What ran there was the first in its queue, so it is among the first that come again.
        """
        if self.deliveries is None or tag is None or mailbox.shared:
            return False
        if not self.broker.consumer.is_redelivered(tag):
            return False
        channel, came = self._redelivered.get(mailbox.id, (0, 0))
        came = came + 1 if channel == tag[0] else 1
        self._redelivered[mailbox.id] = tag[0], came
        places: int = mailbox.places
        return came <= places

    def may_start(self, delivery: Any) -> bool:
        """Return whether a message may start; else it waits until its start is counted."""
        if not delivery.is_counted or delivery.under is not None:  # a handler here waits for it
            return True
        delivery.is_counted = False
        mailbox = delivery.mailbox
        mailbox.put_back(delivery)
        self.broker.thread.spawn(self._count(delivery, mailbox.pause()))
        return False

    async def _count(self, delivery: Any, resume: Callable[[], None]) -> None:
        id = delivery.mailbox.id
        assert self.deliveries is not None
        try:
            counted = 1 + (await self._read(id))[delivery.key]
            if counted >= self.deliveries:
                self.in_doubt(delivery, f"was started {counted} times, and its process ended")
            else:
                await self._publish(id, delivery.key)
        except (LinkLost, AMQPError, Refused, TimeoutError) as error:
            logger.warning("a start of %s is not counted at the broker: %s", delivery, error)
        finally:
            resume()

    async def _read(self, id: str) -> Counter[str]:
        """Return how often each redelivered message of an agent was started, by key."""
        broker = self.broker
        number, starts = self._read_before.get(id, (0, Counter()))
        if number == broker.consumer.number:
            return starts
        starts = Counter()
        name = broker.names.queue("starts", id)
        arguments = {
            "x-message-ttl": int(self.keep_s * 1000),
            "x-expires": int(self.keep_s * 2000),
            "x-max-length": _MOST,
            "x-queue-type": broker.queue_type,
        }
        declare = Channel.queue_declare
        found = await broker.control.call(declare, name, durable=True, arguments=arguments)
        read = broker.loop.create_future()
        expected = found.message_count

        def take(_: Tag, __: Any, body: bytes) -> None:
            # It is not acknowledged: after this process's death it is read again.
            starts[body.decode(errors="replace")] += 1
            if starts.total() >= expected:
                settle(read)

        number = broker.consumer.number
        classic = broker.queue_type == CLASSIC
        await broker.consumer.consume(name, take, _MOST, lambda: None, classic=classic)
        if expected:
            async with asyncio.timeout(_READ_S):
                await read
        self._read_before[id] = number, starts
        return starts

    async def _publish(self, id: str, key: str) -> None:
        """Publish that a message starts, and wait until the broker has that."""
        confirmed = self.broker.loop.create_future()
        self.broker.publisher.publish(
            Outbound(
                self.broker.new_key(),
                _START,
                self.broker.names.queue("starts", id),
                key.encode(),
                about=lambda: settle(confirmed),
                exchange="",  # to a queue by its name
            )
        )
        await confirmed

    async def forget(self, id: str) -> None:
        """Delete the counts of an agent that was removed."""
        if self._read_before.pop(id, None) is not None:
            await self.broker.control.call(
                Channel.queue_delete, self.broker.names.queue("starts", id)
            )
