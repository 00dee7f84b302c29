"""Messages that the broker delivers, and their acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pika.channel import Channel
from pika.exceptions import AMQPError

from civitas.spaces.amqp.connection import LinkLost
from civitas.spaces.request import settle

logger = logging.getLogger("civitas.amqp")

Tag = tuple[int, int]
"""A delivery: which of this process's consuming channels it came on, and AMQP's delivery tag."""

Deliver = Callable[[Tag, Any, bytes], None]
"""Takes a message: its tag, AMQP's properties and its body."""

_SOON_S = 0.005
"""How long an acknowledgement waits for a write that it can go with."""

_MOST = 65_535
"""The largest prefetch of AMQP."""


class Consumer:
    """Consumes queues on one channel, and acknowledges in as few frames as possible.

    Attributes:
        number: how many channels it has had
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._channel: Channel | None = None
        self.number = 0
        self._open: dict[int, None] = {}
        self._done: set[int] = set()
        self._flushing = False
        self._timer: asyncio.TimerHandle
        self._waiting: set[asyncio.Future[None]] = set()
        self._consumers: dict[str, Callable[[], None]] = {}

    def attach(self, channel: Channel) -> None:
        """Use this channel from now on; it has no consumers yet."""
        self.number += 1
        self._channel = channel
        self._open.clear()
        self._done.clear()
        self._consumers.clear()
        channel.add_on_cancel_callback(self._ended)

    def lost(self) -> None:
        """The channel is gone: what was not acknowledged is redelivered."""
        self._channel = None
        for future in self._waiting:
            if not future.done():
                future.set_exception(LinkLost("the channel was lost"))
        self._waiting.clear()

    async def consume(
        self,
        queue: str,
        deliver: Deliver,
        prefetch: int,
        cancelled: Callable[[], None],
        *,
        classic: bool = True,
    ) -> str:
        """Have `deliver(tag, properties, body)` called with each message of a queue."""
        channel = self._channel
        if channel is None:
            raise LinkLost("there is no channel")
        number = self.number
        ready: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(ready)

        def take(_: Channel, method: Any, properties: Any, body: bytes) -> None:
            tag = method.delivery_tag
            self._open[tag] = None
            try:
                deliver((number, tag), properties, body)
            except Exception:  # it would end the connection of all agents
                logger.exception("a defect in civitas: a message could not be taken")

        try:
            # It holds for the consumers that start after it.
            channel.basic_qos(prefetch_count=min(prefetch, _MOST))
            consumer: str = channel.basic_consume(
                queue,
                take,
                # Else RabbitMQ moves it to a queue of the same name that is declared at once, and
                # delivers nothing. Quorum queues have no such argument.
                arguments={"x-cancel-on-ha-failover": True} if classic else None,
                callback=lambda _: settle(ready),
            )
        except AMQPError as error:
            self._waiting.discard(ready)
            raise LinkLost(str(error)) from error
        self._consumers[consumer] = cancelled
        try:
            await ready
        finally:
            self._waiting.discard(ready)
        if consumer not in self._consumers:
            raise LinkLost("the queue was deleted as its consumer started")
        return consumer

    def until_ended(self, consumer: str) -> asyncio.Future[None]:
        """Done when the broker has cancelled a consumer, after all that it delivered to it.

        It does when the queue is deleted. A consumer that pika cancels would give back what is on
        its way, which would go with the queue.
        """
        ended: asyncio.Future[None] = self._loop.create_future()
        if consumer not in self._consumers:
            settle(ended)
        else:
            self._consumers[consumer] = lambda: settle(ended)
            self._waiting.add(ended)
            ended.add_done_callback(self._waiting.discard)
        return ended

    def acknowledge(self, tag: Tag | None) -> None:
        """Acknowledge a message, with the next write or soon."""
        if tag is None or tag[0] != self.number or self._channel is None:
            return  # delivered on a channel that is gone: it is redelivered
        if tag[1] not in self._open:
            return  # the broker closes a channel on which a tag is acknowledged twice
        self._done.add(tag[1])
        if not self._flushing:
            self._flushing = True
            self._timer = self._loop.call_later(_SOON_S, self.flush)

    def flush(self) -> None:
        """Write the acknowledgements that wait."""
        if self._flushing:
            self._flushing = False
            self._timer.cancel()
        channel = self._channel
        if channel is None or not self._done:
            return
        # Taken out first: a write calls this again.
        done, self._done = self._done, set()
        still = self._open
        last = 0
        for tag in still:
            if tag not in done:
                break
            last = tag
        ends = [tag for tag in done if tag > last]
        for tag in done:
            still.pop(tag, None)
        try:
            if last:
                channel.basic_ack(last, multiple=True)
            for tag in ends:
                channel.basic_ack(tag)
        except AMQPError:
            self._channel = None  # redelivered on the next channel

    def _ended(self, frame: Any) -> None:
        """The broker has cancelled a consumer."""
        cancelled = self._consumers.pop(frame.method.consumer_tag, None)
        if cancelled is not None:
            cancelled()
