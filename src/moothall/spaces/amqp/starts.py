"""Messages whose processes die: how often each was started is counted at the broker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost, RefusedByBroker
from moothall.spaces.amqp.link.consumer import DeliveryTag
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.mailbox import Mailbox

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_START: Final = "start"  # AMQP's `type` of what is counted


@dataclass(slots=True, eq=False, repr=False)
class Starts:
    """Counts the starts of redelivered messages, and ends those that were started too often.

    A process that dies cannot count. So before a redelivered message starts, that is published to a
    queue of the message's own, which no process consumes. Everything runs on the loop.

    Attributes:
        in_doubt: ends a message that has been started so often
    """

    broker: Broker
    end_in_doubt: Callable[[Any, str], None]
    # By agent: the number of the channel, and how many redelivered messages came on it.
    _redeliveries: dict[str, tuple[int, int]] = field(default_factory=dict)

    def must_count(self, mailbox: Mailbox, tag: DeliveryTag) -> bool:
        """Return whether the start of a message that came again is counted."""
        if self.broker.limits.max_deliveries is None or mailbox.shared:
            return self.broker.limits.max_deliveries is not None
        # What ran there was the first in its queue, so it is among the first that come again.
        channel, redeliveries = self._redeliveries.get(mailbox.id, (0, 0))
        redeliveries = redeliveries + 1 if channel == tag[0] else 1
        self._redeliveries[mailbox.id] = tag[0], redeliveries
        places: int = mailbox.places
        return redeliveries <= places

    def count(self, delivery: Any) -> None:
        """Count the start of a message, which waits until that is done."""
        delivery.must_count_start = False
        delivery.start_queue = self.broker.names.queue("starts", " ".join(delivery.ident))
        mailbox = delivery.mailbox
        mailbox.put_back(delivery)
        self.broker.thread.spawn(self._count(delivery, mailbox.pause()))

    async def _count(self, delivery: Any, resume: Callable[[], None]) -> None:
        broker, limits, name = self.broker, self.broker.limits, delivery.start_queue
        assert limits.max_deliveries is not None
        arguments = {
            "x-expires": int(limits.message_ttl_s * 2000),
            "x-queue-type": broker.queue_type,
        }
        try:
            declared, _ = await broker.control.declare(name, arguments)
            start_count = 1 + declared.message_count
            if start_count >= limits.max_deliveries:
                self.end_in_doubt(
                    delivery, f"was started {start_count} times, and its process ended"
                )
                return
            start = Outbound(broker.new_key(), _START, name, b"", exchange="")  # to that queue
            broker.publisher.publish(start)
            await broker.publisher.confirmed_or_returned([start])
        except (LinkLost, AMQPError, RefusedByBroker) as error:
            logger.warning("a start of %s is not counted at the broker: %s", delivery, error)
        finally:
            resume()

    async def delete_count(self, name: str) -> None:
        """Delete the count of a message that has ended."""
        with suppress(LinkLost, AMQPError, RefusedByBroker):  # the queue expires
            await self.broker.control.call(Channel.queue_delete, name)
