"""Callbacks that see the messages of every process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.foundation.errors import BrokerError
from moothall.foundation.threads import call_observers
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost, RefusedByBroker
from moothall.spaces.amqp.link.consumer import DeliveryTag
from moothall.spaces.amqp.wire import Unreadable

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_MAX_KEYS: Final = 10_000
_PREFETCH: Final = 25
_PREFETCH_OVERFLOW: Final = 5
"""How many are taken ahead: the broker's limits of bytes do not count those."""

_QUEUE_LIMITS: Final = {"x-max-length": 10_000, "x-max-length-bytes": 2**25}
"""How much waits for callbacks that are slower than the messages."""
_OVERFLOW_LIMITS: Final = {"x-max-length": 1_000, "x-max-length-bytes": 2**23}
_EXPIRE_S: Final = 60
"""How long the queues of a lost channel stay."""

Callback = Callable[[dict[str, Any]], Any]


class Observers:
    """Shows callbacks the exchange's copies of all messages, each once.

    Their queue is bounded, and the oldest give way. The broker passes these on to a queue of their
    own, which is only counted.
    """

    def __init__(self, broker: Broker, warn: Callable[[str, str], None]) -> None:
        self._broker = broker
        self._warn = warn
        self._callbacks: tuple[Callback, ...] = ()
        self._seen_keys: dict[str, None] = {}
        self._channel_number = 0
        self._queue = ""
        self._attach_lock = asyncio.Lock()

    async def add(self, callback: Callback) -> None:
        """Show a callback the messages of every process from now on."""
        await self._broker.open()
        self._callbacks = (*self._callbacks, callback)
        try:
            with suppress(LinkLost, AMQPError):  # the next connection attaches
                await self.attach()
        except RefusedByBroker as error:
            self._channel_number = 0
            self._callbacks = tuple(each for each in self._callbacks if each is not callback)
            raise BrokerError(f"an observer can have no queue at the broker: {error}") from error

    def is_new(self, key: str) -> bool:
        """Return whether a message is seen for the first time."""
        if key in self._seen_keys:
            return False
        self._seen_keys[key] = None
        if len(self._seen_keys) > _MAX_KEYS:
            del self._seen_keys[next(iter(self._seen_keys))]
        return True

    async def attach(self) -> None:
        """Consume the copies on a new channel, if there is a callback."""
        names, call = self._broker.names, self._broker.control.call
        async with self._attach_lock:  # who comes meanwhile returns when the queue is bound
            if not self._callbacks or self._channel_number == self._broker.consumer.channel_number:
                return
            self._channel_number = self._broker.consumer.channel_number
            # A new queue each time: the broker may not know yet that the old connection is lost.
            queue = names.queue("observer", self._broker.new_key())
            overflow = names.queue("unobserved", self._broker.new_key())
            overflow_route = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": overflow}
            # Not deleted with its consumer, which may be ended for a while.
            expires = {"x-expires": _EXPIRE_S * 1000}
            declare = partial(call, Channel.queue_declare, exclusive=True)
            await declare(overflow, arguments=_OVERFLOW_LIMITS | expires)
            await declare(queue, arguments=_QUEUE_LIMITS | overflow_route | expires)
            self._queue = queue
            await self.bind()
            consume = self._broker.consumer.consume
            await consume(overflow, self._count_overflow, _PREFETCH_OVERFLOW, lambda: None)
            await consume(queue, self._show, _PREFETCH, lambda: None, counts_bytes=True)

    async def bind(self) -> None:
        """Have the broker route the copies of all messages to the queue, if there is one."""
        if self._queue:
            exchange = self._broker.names.exchange
            await self._broker.control.call(Channel.queue_bind, self._queue, exchange, "#")

    def _count_overflow(self, tag: DeliveryTag, _: Any, __: bytes) -> None:
        self._broker.consumer.acknowledge(tag)
        text = "observers are slower than the messages: at least one was not shown to them"
        self._warn("messages, at least, were not shown to observers", text)

    def _show(self, tag: DeliveryTag, properties: Any, body: bytes) -> None:
        self._broker.consumer.acknowledge(tag)
        try:
            inbound = wire.read_message(properties, body)
        except Unreadable as error:
            logger.warning("an observer is not shown a message that cannot be read: %s", error)
            return
        is_internal = inbound.kind in (wire.CANCEL, *wire.NOTICES)
        if is_internal or not self.is_new(f"everywhere {inbound.key}"):
            return
        envelope = inbound.envelope
        if inbound.kind == wire.REPLY and envelope.args.get("data", 0) is None:
            return
        notification = (self._callbacks, envelope.to_dict, "observer", logger, BaseException)
        for failed in call_observers(*notification):
            self._callbacks = tuple(each for each in self._callbacks if each is not failed)
