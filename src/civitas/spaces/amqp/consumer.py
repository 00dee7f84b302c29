"""Messages that the broker delivers, and what it is told of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pika.channel import Channel
from pika.exceptions import AMQPError

from civitas.spaces.amqp.link import LinkLost, settle

logger = logging.getLogger("civitas.amqp")

Tag = tuple[int, int]
"""Which delivery: the channel's number in this process's life, and AMQP's delivery tag."""

_SOON_S = 0.005
"""How long an acknowledgement may wait for something to be sent with."""

_MOST = 65_535
"""The largest prefetch that AMQP can state."""


class Intake:
    """Consumes queues on one channel, and acknowledges in as few frames as it takes.

    Attributes:
        number: which channel that is, in this process's life
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
        """Consume on this channel from now on; nothing is consumed yet."""
        self.number += 1
        self._channel = channel
        self._open.clear()
        self._done.clear()
        self._consumers.clear()
        channel.add_on_cancel_callback(self._ended)

    def lost(self) -> None:
        """The channel is gone, and with it every delivery that was not acknowledged."""
        self._channel = None
        for future in self._waiting:
            if not future.done():
                future.set_exception(LinkLost("the channel was lost"))
        self._waiting.clear()

    async def consume(
        self,
        queue: str,
        deliver: Callable[[Tag, Any, Any, bytes], None],
        prefetch: int,
        cancelled: Callable[[], None],
        *,
        classic: bool = True,
    ) -> str:
        """Have `deliver(tag, method, properties, body)` called with each message of a queue."""
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
                deliver((number, tag), method, properties, body)
            except Exception:  # it would end the connection, and with it everybody's
                logger.exception("a defect in civitas: a message could not be taken")

        try:
            # It holds for the consumers that are begun after it.
            channel.basic_qos(prefetch_count=min(prefetch, _MOST))
            consumer: str = channel.basic_consume(
                queue,
                take,
                # Else RabbitMQ quietly moves it to a queue that is made again at once, and then
                # delivers nothing. Replicated queues know no such argument.
                arguments={"x-cancel-on-ha-failover": True} if classic else None,
                callback=lambda _: settle(ready, None),
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
            raise LinkLost("the queue was deleted as its consumer came")
        return consumer

    def until_ended(self, consumer: str) -> asyncio.Future[None]:
        """Done when the broker has ended a consumer, and all that it delivered before was taken.

        It ends them with the queue. One that is cancelled is told by pika to hand back what is
        still on its way to it, which then goes with the queue.
        """
        ended: asyncio.Future[None] = self._loop.create_future()
        if consumer not in self._consumers:
            settle(ended, None)
        else:
            self._consumers[consumer] = lambda: settle(ended, None)
            self._waiting.add(ended)
            ended.add_done_callback(self._waiting.discard)
        return ended

    def acknowledge(self, tag: Tag | None) -> None:
        """The broker may forget a message; it is told with what it is told next, or soon."""
        if tag is None or tag[0] != self.number or self._channel is None:
            return  # it was delivered on a channel that is gone: it comes again
        if tag[1] not in self._open:
            return  # the broker ends a channel on which something is acknowledged twice
        self._done.add(tag[1])
        if not self._flushing:
            self._flushing = True
            self._timer = self._loop.call_later(_SOON_S, self.flush)

    def flush(self) -> None:
        """Tell the broker now."""
        if self._flushing:
            self._flushing = False
            self._timer.cancel()
        channel = self._channel
        if channel is None or not self._done:
            return
        # Taken out first: what is written here may have this called again.
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
            self._channel = None  # they come again, on the next channel

    def _ended(self, frame: Any) -> None:
        """The broker has ended a consumer."""
        tell = self._consumers.pop(frame.method.consumer_tag, None)
        if tell is not None:
            tell()
