"""Messages that the broker delivers, and their acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.spaces.amqp.link.connection import LinkLost
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

DeliveryTag = tuple[int, int, bool]
"""A delivery: the number of this process's consuming channel, AMQP's delivery tag, and whether the
broker has delivered the message before.
"""

Deliver = Callable[[DeliveryTag, Any, bytes], None]
"""Takes a message: its tag, AMQP's properties and its body."""

_ACKNOWLEDGE_DELAY_S = 0.005

_MAX_PREFETCH = 65_535
"""The largest prefetch of AMQP."""

_GROWTH = 32
"""How many times as many are taken ahead each time, once they are small again."""


@dataclass(eq=False)
class Consumption:
    """A queue that is consumed, by one AMQP consumer after the other.

    AMQP limits how many messages a consumer takes ahead, not how large they are together. So a
    consumer is ended when they are too large; what was on its way to it goes back to the queue.
    """

    queue: str
    deliver: Deliver
    prefetch: int
    on_cancelled: Callable[[], None]  # called when the broker has ended it: the queue was deleted
    arguments: dict[str, Any] | None
    counts_bytes: bool  # whether its messages count as bytes in hand, and fewer are taken if large
    channel_number: int
    consumer_tag: str = ""  # empty before it starts
    window: int = 0  # how many messages that one takes ahead
    count: int = 0  # how many messages are in hand: not acknowledged
    bytes: int = 0  # and how many bytes they have
    is_changing: bool = False  # whether its consumer is being ended or started
    is_ended: bool = False


class ChannelConsumers:
    """Consumes queues on one channel, and acknowledges in as few frames as possible.

    Attributes:
        channel_number: how many channels it has had
        acknowledge_delay_s: how long an acknowledgement waits for a write that can carry it
        max_bytes: how many bytes the messages may have that are not acknowledged; each queue may
            have one message in any case
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_bytes: int) -> None:
        self._loop = loop
        self._channel: Channel | None = None
        self.channel_number: int = 0
        self.acknowledge_delay_s: float = _ACKNOWLEDGE_DELAY_S
        self.max_bytes: int = max_bytes
        self._bytes = 0
        # By tag: its queue, and its bytes.
        self._unacknowledged: dict[int, tuple[Consumption, int]] = {}
        self._to_acknowledge: set[int] = set()
        self._is_flush_due = False
        self._timer: asyncio.TimerHandle
        self._waiters: set[asyncio.Future[None]] = set()
        self._consumptions_by_tag: dict[str, Consumption] = {}
        self._paused_consumptions: dict[Consumption, None] = {}

    def attach(self, channel: Channel) -> None:
        """Use this channel from now on; it has no consumers yet."""
        self.channel_number += 1
        self._channel = channel
        self._bytes = 0
        self._unacknowledged.clear()
        self._to_acknowledge.clear()
        self._consumptions_by_tag.clear()
        self._paused_consumptions.clear()
        channel.add_on_cancel_callback(self._on_cancel)

    def detach(self) -> None:
        """Forget the channel, which is lost: unacknowledged messages are redelivered."""
        self._channel = None
        for future in self._waiters:
            if not future.done():
                future.set_exception(LinkLost("the channel was lost"))
        self._waiters.clear()

    async def consume(
        self,
        queue: str,
        deliver: Deliver,
        prefetch: int,
        on_cancelled: Callable[[], None],
        *,
        classic: bool = True,
        counts_bytes: bool = False,
    ) -> Consumption:
        """Call `deliver(tag, properties, body)` with each message of a queue."""
        # Without it, RabbitMQ moves the consumer to a queue that is declared at once under the same
        # name, and delivers nothing. Quorum queues have no such argument.
        arguments = {"x-cancel-on-ha-failover": True} if classic else None
        consumption = Consumption(
            queue, deliver, prefetch, on_cancelled, arguments, counts_bytes, self.channel_number
        )
        consumption.window = prefetch
        await self._start(consumption)
        if consumption.consumer_tag not in self._consumptions_by_tag:
            raise LinkLost("the queue was deleted as its consumer started")
        return consumption

    async def _start(self, consumption: Consumption) -> None:
        """Start an AMQP consumer of a queue."""
        consumption.window = max(1, min(consumption.window, consumption.prefetch, _MAX_PREFETCH))
        # As it is now: a message of this channel must not be acknowledged on the next.
        number = self.channel_number

        def take(_: Channel, method: Any, properties: Any, body: bytes) -> None:
            tag, size = method.delivery_tag, len(body)
            self._unacknowledged[tag] = consumption, size
            consumption.bytes += size
            consumption.count += 1
            if consumption.counts_bytes:
                self._bytes += size
            try:
                consumption.deliver((number, tag, method.redelivered), properties, body)
            except Exception:  # it would end the connection of all agents
                logger.exception("a defect in moothall: a message could not be taken")
            if consumption.counts_bytes and (
                self._bytes > self.max_bytes or consumption.window < consumption.prefetch
            ):
                self._regulate(consumption)

        def start(channel: Channel, done: Callable[[Any], None]) -> None:
            # The prefetch applies to the consumers that start after it.
            channel.basic_qos(prefetch_count=consumption.window)
            consumption.consumer_tag = channel.basic_consume(
                consumption.queue, take, arguments=consumption.arguments, callback=done
            )
            # Before the answer: the queue may be deleted as the consumer starts.
            self._consumptions_by_tag[consumption.consumer_tag] = consumption

        await self._await_answer(start)

    # -- bytes in hand -----------------------------------------------------------------------------

    def _regulate(self, consumption: Consumption) -> None:
        """End a consumer that takes too many bytes, or start one that takes more messages ahead."""
        if (
            consumption.is_changing
            or consumption.is_ended
            or consumption.channel_number != self.channel_number
        ):
            return
        if self._bytes > self.max_bytes and consumption.count > 1:
            if consumption.consumer_tag:
                self._start_change(consumption, 0)
        elif not consumption.consumer_tag:
            if consumption.count <= 1 or self._bytes < self.max_bytes // 2:
                self._start_change(consumption, self._fitting_window(consumption))
        elif (
            consumption.count >= consumption.window < consumption.prefetch
            and self._bytes < self.max_bytes // 2
        ):
            window = min(consumption.window * _GROWTH, self._fitting_window(consumption))
            if window > consumption.window:
                self._start_change(consumption, window)

    def _fitting_window(self, consumption: Consumption) -> int:
        """Return how many messages of the size of those in hand fit."""
        size = consumption.bytes // consumption.count if consumption.count else 0
        fitting_count = (self.max_bytes - self._bytes) // max(size, 1)
        return max(1, min(fitting_count, consumption.prefetch - consumption.count))

    def _start_change(self, consumption: Consumption, window: int) -> None:
        consumption.is_changing = True
        if not window:
            self._paused_consumptions[consumption] = None
        self._loop.create_task(self._replace(consumption, window))

    async def _replace(self, consumption: Consumption, window: int) -> None:
        try:
            if consumption.consumer_tag:
                tag, consumption.consumer_tag = consumption.consumer_tag, ""
                self._consumptions_by_tag.pop(tag, None)
                await self._await_answer(lambda channel, done: channel.basic_cancel(tag, done))
            if window and not consumption.is_ended:
                self._paused_consumptions.pop(consumption, None)
                consumption.window = window
                await self._start(consumption)
        except LinkLost:
            return  # the next channel consumes it again
        finally:
            consumption.is_changing = False
        # What was acknowledged meanwhile has regulated nothing.
        self._regulate(consumption)

    def _release(self, tags: set[int]) -> None:
        """Count messages as no longer in hand."""
        changed: dict[Consumption, None] = {}
        for tag in tags:
            consumption, size = self._unacknowledged.pop(tag)
            consumption.count -= 1
            consumption.bytes -= size
            if consumption.counts_bytes:
                self._bytes -= size
                changed[consumption] = None
        for consumption in (*changed, *self._paused_consumptions):
            self._regulate(consumption)

    # -- the end of a consumer ---------------------------------------------------------------------

    def until_ended(self, consumption: Consumption) -> asyncio.Future[None]:
        """Return a future that is done when the broker ends a consumption, after all deliveries.

        The broker does so when the queue is deleted. If pika cancelled the consumer, messages on
        their way would return to the queue and be deleted with it.
        """
        end: asyncio.Future[None] = self._loop.create_future()
        if consumption.consumer_tag not in self._consumptions_by_tag:
            settle(end)
        else:
            consumption.on_cancelled = lambda: settle(end)
            consumption.is_ended = True
            self._waiters.add(end)
            end.add_done_callback(self._waiters.discard)
        return end

    async def end(self, consumption: Consumption) -> None:
        """End a consumption; the broker gets back what it has delivered since."""
        consumption.is_ended = True
        self._paused_consumptions.pop(consumption, None)
        if self._consumptions_by_tag.pop(consumption.consumer_tag, None) is not None:
            tag = consumption.consumer_tag
            await self._await_answer(lambda channel, done: channel.basic_cancel(tag, done))

    async def sync(self) -> None:
        """Write the acknowledgements, and wait until the broker has taken them."""
        self.flush()
        # AMQP confirms none, but handles what comes on a channel in order.
        await self._await_answer(lambda channel, done: channel.basic_qos(callback=done))

    async def _await_answer(self, call: Callable[[Channel, Callable[[Any], None]], object]) -> None:
        """Call a method of the channel, and wait for the broker's answer."""
        channel = self._channel
        if channel is None:
            raise LinkLost("there is no channel")
        answer: asyncio.Future[None] = self._loop.create_future()
        # On a channel that is lost no answer comes: `detach` ends it.
        self._waiters.add(answer)
        try:
            call(channel, lambda _: settle(answer))
            await answer
        except AMQPError as error:
            raise LinkLost(str(error)) from error
        finally:
            self._waiters.discard(answer)

    def give_back(self, tag: DeliveryTag) -> None:
        """Give a message back to its queue, for another consumer."""
        if tag[0] != self.channel_number or self._channel is None or tag[1] in self._to_acknowledge:
            return
        if tag[1] in self._unacknowledged:
            self._release({tag[1]})
            try:
                self._channel.basic_nack(tag[1])
            except AMQPError:
                self._channel = None  # which gives all back

    def acknowledge(self, tag: DeliveryTag | None) -> None:
        """Acknowledge a message, with the next write or soon."""
        if tag is None or tag[0] != self.channel_number or self._channel is None:
            return  # delivered on a lost channel: it is redelivered
        if tag[1] not in self._unacknowledged:
            return  # the broker closes a channel on which a tag is acknowledged twice
        self._to_acknowledge.add(tag[1])
        if not self._is_flush_due:
            self._is_flush_due = True
            self._timer = self._loop.call_later(self.acknowledge_delay_s, self.flush)

    def flush(self) -> None:
        """Write the pending acknowledgements."""
        if self._is_flush_due:
            self._is_flush_due = False
            self._timer.cancel()
        channel = self._channel
        if channel is None or not self._to_acknowledge:
            return
        # Cleared first: a write calls this again.
        acknowledged_tags, self._to_acknowledge = self._to_acknowledge, set()
        open_tags = self._unacknowledged
        last = 0
        # One frame acknowledges all up to a tag, so up to the first that is still in hand.
        for tag in open_tags:
            if tag not in acknowledged_tags:
                break
            last = tag
        single_tags = [tag for tag in acknowledged_tags if tag > last]
        self._release(acknowledged_tags)
        try:
            if last:
                channel.basic_ack(last, multiple=True)
            for tag in single_tags:
                channel.basic_ack(tag)
        except AMQPError:
            self._channel = None  # redelivered on the next channel

    def _on_cancel(self, frame: Any) -> None:
        """Tell the owner of a consumer that the broker has cancelled it."""
        consumption = self._consumptions_by_tag.pop(frame.method.consumer_tag, None)
        if consumption is not None:
            consumption.is_ended = True
            consumption.on_cancelled()
