"""What a process has on each connection to the broker: declared, and attached to its channels."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from civitas.errors import BrokerError
from civitas.spaces.amqp.consumer import Intake, Tag
from civitas.spaces.amqp.link import Control, Link, LinkLost, Refused, settle
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.options import AMQPOptions
from civitas.spaces.amqp.publisher import Outbox
from civitas.spaces.loop import LoopThread

_REPLIES_EXPIRE_S: Final = 3600
_REPLY_PREFETCH: Final = 2_000
_NOT_FOUND: Final = 404
_LARGEST = re.compile(r"larger than configured max size (\d+)")


class Channels:
    """A connection with its channels, set up again whenever it, or one of them, is lost.

    Attributes:
        link: the connection
        control: declares
    """

    def __init__(
        self,
        thread: LoopThread,
        options: AMQPOptions,
        names: Names,
        process: str,
        intake: Intake,
        outbox: Outbox,
        *,
        replied: Callable[[Tag, Any, bytes], None],
        missed: Callable[[], None],
        attached: Callable[[], Awaitable[None]],
        told: Callable[[str, str], None],
        heard: Callable[[], None],
    ) -> None:
        self._thread = thread
        self._options = options
        self._names = names
        self._replies = names.reply_queue(process)
        self._reply_key = names.reply_key(process)
        self._intake = intake
        self._outbox = outbox
        self._replied = replied
        self._missed = missed
        self._attached = attached
        self._lost = False
        self._ending = False
        self.link = Link(
            thread.loop,
            options,
            f"civitas {process}",
            up=self._up,
            down=self._down,
            told=told,
            last_words=intake.flush,
            heard=heard,
        )
        self.control = Control(self.link)

    async def empty(self) -> None:
        """Wait until all answers that the broker has for this process are here; want no more."""
        self._ending = True
        queue = self._replies
        await self.control.call(
            lambda channel, done: channel.queue_declare(queue, passive=True, callback=done)
        )
        self._intake.flush()
        await self.control.call(lambda channel, done: channel.queue_delete(queue, callback=done))

    async def _up(self) -> None:
        """Set up a new connection."""
        names = self._names
        queue, expires = self._replies, {"x-expires": _REPLIES_EXPIRE_S * 1000}
        steps: list[Callable[[Channel, Callable[[Any], None]], Any]] = [
            lambda c, done: c.exchange_declare(
                names.exchange, "topic", durable=True, callback=done
            ),
            lambda c, done: c.exchange_declare(names.dead, "fanout", durable=True, callback=done),
            lambda c, done: c.queue_declare(names.dead_letters, durable=True, callback=done),
            lambda c, done: c.queue_bind(names.dead_letters, names.dead, "", callback=done),
            lambda c, done: c.queue_declare(queue, durable=True, arguments=expires, callback=done),
            lambda c, done: c.queue_bind(queue, names.exchange, self._reply_key, callback=done),
            lambda c, done: c.queue_bind(queue, names.exchange, names.processes, callback=done),
        ]
        try:
            for step in steps:
                await self.control.call(step)
        except Refused as error:
            raise BrokerError(
                f"the broker at {self._options.address} has something else under the name "
                f"{names.exchange!r}, or refuses to have it made: {error}"
            ) from error
        await self._attach_outbox()
        await self._attach_intake()

    def _down(self) -> None:
        self.control.lost()
        self._outbox.lost()
        self._intake.lost()

    async def _attach_intake(self) -> None:
        channel = await self.link.channel()
        channel.add_on_close_callback(lambda *_: self._closed(self._attach_intake, self._intake))
        self._intake.attach(channel)
        await self._intake.consume(
            self._replies,
            lambda tag, _, properties, body: self._replied(tag, properties, body),
            _REPLY_PREFETCH,
            self._lost_replies,
        )
        if self._lost:
            self._lost = False
            self._missed()
        await self._attached()

    def _lost_replies(self) -> None:
        """The queue of the answers is gone, so all is declared anew on another connection."""
        if not self._ending:
            self._lost = True
            self.link.drop()

    async def _attach_outbox(self) -> None:
        channel = await self.link.channel()
        channel.add_on_close_callback(self._outbox_closed)
        ready = self._thread.loop.create_future()
        channel.add_on_close_callback(lambda *_: settle(ready, False))
        channel.confirm_delivery(self._outbox.confirmed, callback=lambda _: settle(ready, True))
        if not await ready:
            raise LinkLost("the channel was lost")
        channel.connection.confirmed[channel.channel_number] = self._outbox.confirmed
        self._outbox.attach(channel)

    def _outbox_closed(self, _: Channel, error: Exception) -> None:
        self._closed(self._attach_outbox, self._outbox)
        if isinstance(error, ChannelClosedByBroker) and error.reply_code == _NOT_FOUND:
            self.link.drop()  # the exchange is gone, so all is declared anew
        if too_large := _LARGEST.search(str(error)):
            self._outbox.refuse_larger(int(too_large[1]))

    def _closed(self, attach: Callable[[], Any], part: Intake | Outbox) -> None:
        """The broker has closed a channel: of a connection that goes on, or with it.

        It does so when something was unacknowledged for too long, which it then brings again.
        """
        part.lost()
        if self.link.is_up and not self._ending:

            async def again() -> None:
                try:
                    await attach()
                except Refused:
                    self.link.drop()  # something of it is gone, so all is declared anew
                except (LinkLost, AMQPError):
                    return  # the next connection sets up all

            self._thread.spawn(again())
