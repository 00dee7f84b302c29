"""Messages that wait at the broker for their time: a queue for each power of two."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost, RefusedByBroker
from moothall.spaces.amqp.wire import Outbound

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_STEP_S: Final = 0.1
_LEVELS: Final = 28
"""The longest delay is 2 ** 28 steps: 310 days."""

# No word of an agent's or group's routing key is one of these: there, % begins two digits.
_WAIT_WORD: Final = "%1"
_PASS_WORD: Final = "%0"

_RETRY_S: Final = 0.5


@dataclass(eq=False, repr=False)
class Delays:
    """Publishes messages that the broker routes to their receiver after a delay.

    The delay, in tenths of a second, is written as a binary number. For each digit there is an
    exchange `EXCHANGE.delay.N`. A message with that digit waits in a queue, whose messages all
    expire after 2 ** N steps; from there, or at once without the digit, it goes to the exchange of
    the next lower digit, and after the last to the space's exchange. So no message waits behind
    another that expires later, and each is kept by the broker all the time.

    The routing key is the digits; the receiver's key is in the header `CC`, which the broker
    routes by, too.
    """

    broker: Broker
    _is_declared: bool = False
    _is_declaring: bool = False

    def publish(self, message: Outbound, delay: float) -> None:
        """Publish a message to be delivered after `delay` seconds."""
        publisher = self.broker.publisher
        if len(message.body) <= publisher.largest:  # else the publisher ends it
            steps = min(max(1, round(delay / _STEP_S + 0.499)), 2**_LEVELS - 1)
            digits = f"{steps:0{_LEVELS}b}"
            message.headers = {**(message.headers or {}), "CC": [message.routing_key]}
            message.routing_key = ".".join(
                _WAIT_WORD if each == "1" else _PASS_WORD for each in digits
            )
            message.exchange = self._exchange(_LEVELS - 1)
            message.mandatory = False
            if not (self._is_declared or self._is_declaring):
                self._is_declaring = True
                publisher.hold(message.exchange)
                self.broker.thread.spawn(self._declare_first(message.exchange))
        publisher.publish(message)

    async def _declare_first(self, exchange: str) -> None:
        """Declare everything, and have the publisher release what waits for it."""
        while not self._is_declared:
            try:
                await self._declare()
            except (LinkLost, AMQPError):
                await asyncio.sleep(_RETRY_S)  # for the next connection
            except RefusedByBroker as error:
                logger.error("messages cannot wait at the broker for their time: %s", error)
                await asyncio.sleep(_RETRY_S)
        self.broker.publisher.release(exchange)

    async def restore(self) -> None:
        """Declare everything again on another connection, if messages were delayed."""
        if self._is_declared:
            await self._declare()

    async def _declare(self) -> None:
        """Declare the exchanges and queues, from the last digit to the first."""
        next_exchange = self.broker.names.exchange
        for level in range(_LEVELS):
            await self._declare_level(level, next_exchange)
            next_exchange = self._exchange(level)
        self._is_declared = True

    async def _declare_level(self, level: int, next_exchange: str) -> None:
        exchange, pattern_start = self._exchange(level), "*." * (_LEVELS - 1 - level)
        arguments = {
            "x-message-ttl": round(2**level * _STEP_S * 1000),
            "x-dead-letter-exchange": next_exchange,
            "x-queue-type": self.broker.queue_type,
        }

        def bind(channel: Channel, callback: Callable[[Any], None]) -> None:
            # Without waiting for all but the last: the broker handles them in order.
            channel.exchange_declare(exchange, "topic", durable=True)
            channel.queue_bind(exchange, exchange, f"{pattern_start}{_WAIT_WORD}.#")
            channel.exchange_bind(
                next_exchange, exchange, f"{pattern_start}{_PASS_WORD}.#", callback=callback
            )

        await self.broker.control.declare(exchange, arguments)
        await self.broker.control.call(bind)

    def _exchange(self, level: int) -> str:
        return f"{self.broker.names.exchange}.delay.{level}"
