"""A process at the broker: its connection and channels, set up again whenever one is lost."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from civitas.errors import BrokerError
from civitas.spaces.amqp.consumer import Consumer, Deliver
from civitas.spaces.amqp.link import Control, Link, LinkLost, Operation, Refused, settle
from civitas.spaces.amqp.options import AMQPOptions, Names
from civitas.spaces.amqp.publisher import Publisher
from civitas.spaces.amqp.wire import Outbound
from civitas.spaces.loop import LoopThread

_REPLIES_EXPIRE_S: Final = 3600
_REPLY_PREFETCH: Final = 2_000
_NOT_FOUND: Final = 404
_LARGEST = re.compile(r"larger than configured max size (\d+)")


class Broker:
    """The broker, as one process has it: what all that speak to it share.

    Attributes:
        process: what this process is called there
        reply_key: the routing key of the answers to its requests
        link: the connection
        control: declares, binds and deletes
        publisher: sends, until each message is confirmed
        consumer: takes what is delivered, and acknowledges it
    """

    def __init__(
        self,
        thread: LoopThread,
        options: AMQPOptions,
        names: Names,
        *,
        settled: Callable[[Outbound, str], None],
        replied: Deliver,
        replies_lost: Callable[[], None],
        attached: Callable[[], Awaitable[None]],
        on_state: Callable[[str, str], None],
        after_read: Callable[[], None],
    ) -> None:
        self.thread = thread
        self.loop = thread.loop
        self.names = names
        self.heartbeat = options.heartbeat
        self.process = secrets.token_hex(8)
        self.reply_key = names.reply_key(self.process)
        self._address = options.address
        self._replies = names.reply_queue(self.process)
        self._count = count(1)
        self._replied = replied
        self._replies_lost = replies_lost
        self._attached = attached
        self._lost = False
        self._ending = False
        self.consumer = Consumer(self.loop)
        self.publisher = Publisher(names.exchange, settled, thread.let_in)
        self.link = Link(
            self.loop,
            options,
            f"civitas {self.process}",
            up=self._up,
            down=self._down,
            on_state=on_state,
            before_write=self.consumer.flush,
            after_read=after_read,
        )
        self.control = Control(self.link)

    def new_key(self) -> str:
        """A key for a message."""
        return f"{self.process}.{next(self._count):010x}"

    async def end_replies(self) -> None:
        """Take all answers that are in this process's queue, then delete the queue."""
        self._ending = True
        queue = self._replies
        await self.control.call(
            lambda channel, done: channel.queue_declare(queue, passive=True, callback=done)
        )
        self.consumer.flush()
        await self.control.call(lambda channel, done: channel.queue_delete(queue, callback=done))

    async def _up(self) -> None:
        """Set up a new connection."""
        names = self.names
        queue, expires = self._replies, {"x-expires": _REPLIES_EXPIRE_S * 1000}
        steps: list[Operation] = [
            lambda c, done: c.exchange_declare(
                names.exchange, "topic", durable=True, callback=done
            ),
            lambda c, done: c.exchange_declare(names.dead, "fanout", durable=True, callback=done),
            lambda c, done: c.queue_declare(names.dead_letters, durable=True, callback=done),
            lambda c, done: c.queue_bind(names.dead_letters, names.dead, "", callback=done),
            lambda c, done: c.queue_declare(queue, durable=True, arguments=expires, callback=done),
            lambda c, done: c.queue_bind(queue, names.exchange, self.reply_key, callback=done),
            lambda c, done: c.queue_bind(queue, names.exchange, names.processes, callback=done),
        ]
        try:
            for step in steps:
                await self.control.call(step)
        except Refused as error:
            raise BrokerError(
                f"the broker at {self._address} has something else under the name "
                f"{names.exchange!r}, or refuses to declare it: {error}"
            ) from error
        await self._attach_publisher()
        await self._attach_consumer()

    def _down(self) -> None:
        self.control.lost()
        self.publisher.lost()
        self.consumer.lost()

    async def _attach_consumer(self) -> None:
        channel = await self.link.channel()
        channel.add_on_close_callback(lambda *_: self._closed(self._attach_consumer, self.consumer))
        self.consumer.attach(channel)
        await self.consumer.consume(
            self._replies,
            self._replied,
            _REPLY_PREFETCH,
            self._replies_deleted,
        )
        if self._lost:
            self._lost = False
            self._replies_lost()
        await self._attached()

    def _replies_deleted(self) -> None:
        """The queue of the answers is gone: declare everything again, on another connection."""
        if not self._ending:
            self._lost = True
            self.link.drop()

    async def _attach_publisher(self) -> None:
        channel = await self.link.channel()
        channel.add_on_close_callback(self._publisher_closed)
        ready = self.loop.create_future()
        channel.add_on_close_callback(lambda *_: settle(ready, False))
        channel.confirm_delivery(self.publisher.confirmed, callback=lambda _: settle(ready, True))
        if not await ready:
            raise LinkLost("the channel was lost")
        channel.connection.confirms[channel.channel_number] = self.publisher.confirmed
        self.publisher.attach(channel)

    def _publisher_closed(self, _: Channel, error: Exception) -> None:
        self._closed(self._attach_publisher, self.publisher)
        if isinstance(error, ChannelClosedByBroker) and error.reply_code == _NOT_FOUND:
            self.link.drop()  # the exchange is gone: declare everything again
        if too_large := _LARGEST.search(str(error)):
            self.publisher.refuse_larger(int(too_large[1]))

    def _closed(self, attach: Callable[[], Any], user: Consumer | Publisher) -> None:
        """A channel is closed, alone or with its connection: open another if it was alone.

        The broker closes one on which a message was unacknowledged for too long, and redelivers it.
        """
        user.lost()
        if self.link.is_up and not self._ending:

            async def again() -> None:
                try:
                    await attach()
                except Refused:
                    self.link.drop()  # a queue or exchange is gone: declare everything again
                except (LinkLost, AMQPError):
                    return  # the next connection sets everything up

            self.thread.spawn(again())
