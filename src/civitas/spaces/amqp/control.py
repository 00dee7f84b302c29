"""What is declared at the broker: one thing after the other, on a channel of its own."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from civitas.spaces.amqp.link import Link, LinkLost, settle

__all__ = ["Control", "Refused"]

_CHANNELS: weakref.WeakSet[Channel] = weakref.WeakSet()


def _unexpected(record: logging.LogRecord) -> bool:
    """Whether it says more than that a question was answered with no, which pika warns of."""
    said = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(each, Channel) and each in _CHANNELS for each in said)


logging.getLogger("pika.channel").addFilter(_unexpected)

Operation = Callable[[Channel, Callable[[Any], None]], Any]


class Refused(Exception):
    """The broker would not.

    Attributes:
        code: AMQP's: 403 refused, 404 not found, 405 locked, 406 other settings
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Control:
    """Declares, binds and deletes. A refusal ends AMQP's channel, so this opens the next."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._channel: Channel | None = None
        self._waiting: asyncio.Future[Any] | None = None
        self._turn = asyncio.Lock()

    async def call(self, operation: Operation) -> Any:
        """Do one thing and wait for the broker's word.

        Args:
            operation: called with a channel and the callback that pika is to be given

        Returns:
            the method of the broker's answer

        Raises:
            Refused: it would not
            LinkLost: there is no connection, or it was lost meanwhile
        """
        async with self._turn:
            channel = self._channel
            if channel is None or not channel.is_open:
                channel = self._channel = await self._link.channel()
                channel.add_on_close_callback(self._closed)
                _CHANNELS.add(channel)
            waiting = self._waiting = asyncio.get_running_loop().create_future()
            operation(channel, lambda frame: settle(waiting, frame.method))
            try:
                return await waiting
            finally:
                if not waiting.done() or waiting.cancelled():
                    # Its answer is still to come, and must not be taken for the next one's.
                    self._channel = None
                    with suppress(AMQPError):
                        channel.close()

    def lost(self) -> None:
        """The connection is gone."""
        self._channel = None
        self._end(LinkLost("the connection was lost"))

    def _closed(self, channel: Channel, error: Exception) -> None:
        if channel is not self._channel:
            return
        self._channel = None
        if isinstance(error, ChannelClosedByBroker):
            self._end(Refused(error.reply_code, error.reply_text))
        else:
            self._end(LinkLost(str(error)))

    def _end(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
