"""Callbacks that see the messages of every process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.spaces.amqp import wire
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost
from moothall.spaces.amqp.link.consumer import Tag
from moothall.spaces.amqp.wire import Unreadable
from moothall.threads import failing

logger: logging.Logger = logging.getLogger("moothall.amqp")

_KEPT: Final = 10_000
_PREFETCH: Final = 2_000

Callback = Callable[[dict[str, Any]], Any]


class Observers:
    """Shows callbacks the exchange's copies of all messages, each once."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._callbacks: tuple[Callback, ...] = ()
        self._seen: dict[str, None] = {}
        self._channel = 0
        self._attaching = asyncio.Lock()

    async def add(self, callback: Callback) -> None:
        """Show a callback the messages of every process from now on."""
        await self._broker.open()
        self._callbacks = (*self._callbacks, callback)
        with suppress(LinkLost, AMQPError):  # the next connection attaches
            await self.attach()

    def is_new(self, key: str) -> bool:
        """Return whether a message is seen for the first time."""
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]
        return True

    async def attach(self) -> None:
        """Consume the copies on a new channel, if there is a callback."""
        names, call = self._broker.names, self._broker.control.call
        async with self._attaching:  # who comes meanwhile returns when the queue is bound
            if not self._callbacks or self._channel == self._broker.consumer.number:
                return
            self._channel = self._broker.consumer.number
            # A new queue each time: the broker may not know yet that the old connection is lost.
            queue = names.queue("observer", self._broker.new_key())
            await call(Channel.queue_declare, queue, exclusive=True, auto_delete=True)
            await call(Channel.queue_bind, queue, names.exchange, "#")
            await self._broker.consumer.consume(queue, self._observed, _PREFETCH, lambda: None)

    def _observed(self, tag: Tag, properties: Any, body: bytes) -> None:
        self._broker.consumer.acknowledge(tag)
        try:
            inbound = wire.read(properties, body)
        except Unreadable as error:
            logger.warning("an observer is not shown a message that cannot be read: %s", error)
            return
        of_ours = inbound.kind in (wire.CANCEL, *wire.NOTICES)
        if of_ours or not self.is_new(f"everywhere {inbound.key}"):
            return
        envelope = inbound.envelope
        if inbound.kind == wire.REPLY and envelope.args.get("data", 0) is None:
            return
        told = (self._callbacks, envelope.to_dict, "observer", logger, BaseException)
        for failed in failing(*told):
            self._callbacks = tuple(each for each in self._callbacks if each is not failed)
