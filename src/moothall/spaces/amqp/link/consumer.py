"""Messages that the broker delivers, and their acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.spaces.amqp.link.connection import LinkLost
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.amqp")

Tag = tuple[int, int]
"""A delivery: the number of this process's consuming channel, and AMQP's delivery tag."""

Deliver = Callable[[Tag, Any, bytes], None]
"""Takes a message: its tag, AMQP's properties and its body."""

_SOON_S = 0.005

_MOST = 65_535
"""The largest prefetch of AMQP."""


class Consumer:
    """Consumes queues on one channel, and acknowledges in as few frames as possible.

    Attributes:
        number: how many channels it has had
        soon_s: how long an acknowledgement waits for a write that can carry it
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._channel: Channel | None = None
        self.number: int = 0
        self.soon_s: float = _SOON_S
        self._open: dict[int, bool] = {}  # by tag, whether it was delivered before
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
        """Forget the channel, which is lost: unacknowledged messages are redelivered."""
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
        """Call `deliver(tag, properties, body)` with each message of a queue."""
        channel = self._channel
        if channel is None:
            raise LinkLost("there is no channel")
        number = self.number
        ready: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(ready)

        def take(_: Channel, method: Any, properties: Any, body: bytes) -> None:
            tag = method.delivery_tag
            self._open[tag] = method.redelivered
            try:
                deliver((number, tag), properties, body)
            except Exception:  # it would end the connection of all agents
                logger.exception("a defect in moothall: a message could not be taken")

        try:
            # The prefetch applies to the consumers that start after it.
            channel.basic_qos(prefetch_count=min(prefetch, _MOST))
            consumer: str = channel.basic_consume(
                queue,
                take,
                # Without it, RabbitMQ moves the consumer to a queue that is declared at once under
                # the same name, and delivers nothing. Quorum queues have no such argument.
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
        """Return a future that is done when the broker cancels a consumer, after all deliveries.

        The broker does so when the queue is deleted. If pika cancelled the consumer, messages on
        their way would return to the queue and be deleted with it.
        """
        ended: asyncio.Future[None] = self._loop.create_future()
        if consumer not in self._consumers:
            settle(ended)
        else:
            self._consumers[consumer] = lambda: settle(ended)
            self._waiting.add(ended)
            ended.add_done_callback(self._waiting.discard)
        return ended

    async def end(self, consumer: str) -> None:
        """End a consumer; the broker gets back what it has delivered since."""
        if self._consumers.pop(consumer, None) is not None:
            await self._answered(lambda channel, done: channel.basic_cancel(consumer, done))

    async def settled(self) -> None:
        """Write the acknowledgements, and wait until the broker has taken them."""
        self.flush()
        # AMQP confirms none, but handles what comes on a channel in order.
        await self._answered(lambda channel, done: channel.basic_qos(callback=done))

    async def _answered(self, call: Callable[[Channel, Callable[[Any], None]], object]) -> None:
        """Call a method of the channel, and wait for the broker's answer."""
        channel = self._channel
        if channel is None:
            raise LinkLost("there is no channel")
        answered: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(answered)
        try:
            call(channel, lambda _: settle(answered))
            await answered
        except AMQPError as error:
            raise LinkLost(str(error)) from error
        finally:
            self._waiting.discard(answered)

    def give_back(self, tag: Tag) -> None:
        """Give a message back to its queue, for another consumer."""
        if tag[0] != self.number or self._channel is None or tag[1] in self._done:
            return
        if self._open.pop(tag[1], None) is not None:
            try:
                self._channel.basic_nack(tag[1])
            except AMQPError:
                self._channel = None  # which gives all back

    def is_redelivered(self, tag: Tag) -> bool:
        """Return whether a message that is not acknowledged was delivered before."""
        return tag[0] == self.number and self._open.get(tag[1], False)

    def acknowledge(self, tag: Tag | None) -> None:
        """Acknowledge a message, with the next write or soon."""
        if tag is None or tag[0] != self.number or self._channel is None:
            return  # delivered on a lost channel: it is redelivered
        if tag[1] not in self._open:
            return  # the broker closes a channel on which a tag is acknowledged twice
        self._done.add(tag[1])
        if not self._flushing:
            self._flushing = True
            self._timer = self._loop.call_later(self.soon_s, self.flush)

    def flush(self) -> None:
        """Write the pending acknowledgements."""
        if self._flushing:
            self._flushing = False
            self._timer.cancel()
        channel = self._channel
        if channel is None or not self._done:
            return
        # Cleared first: a write calls this again.
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
        """Tell the owner of a consumer that the broker has cancelled it."""
        cancelled = self._consumers.pop(frame.method.consumer_tag, None)
        if cancelled is not None:
            cancelled()
