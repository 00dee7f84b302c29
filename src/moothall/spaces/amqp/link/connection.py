"""The connection to the broker, and the channel for declarations."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, cast

import pika
from pika import frame, spec
from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker, InvalidFrameError, StreamLostError

from moothall.spaces.request import settle

_FRAME_HEAD = 7
"""How many bytes a frame has before its payload."""

_PARSE_BYTES = 16_384
"""How many bytes are parsed at once: for each frame pika copies all that follow it."""

_BASIC = 60
_END = bytes((spec.FRAME_END,))
_HEADER_HEAD = struct.Struct(">BHIHHQ")
_BODY_HEAD = struct.Struct(">BHI")


@lru_cache(maxsize=4096)
def _publish_frame(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:
    method = spec.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    marshalled: bytes = frame.Method(channel, method).marshal()
    return marshalled


class LinkLost(Exception):
    """The connection was lost during a call."""


class Connection(pika.connection.Connection, asyncio.Protocol):  # type: ignore[misc]
    """Speaks AMQP over the loop's own transports, which support TLS.

    A system call costs more than all that pika does for a message. So the first frame in a turn of
    the loop is written at once, and the others together at the end of the turn. pika's own adapter
    writes each frame separately; `benchmarks/amqp.py` measures the difference.

    Attributes:
        opened: done when it is open, or with why it cannot be
        loss: done when it is closed, with why
        confirms: by channel, the callback for publisher confirms, instead of pika's own

    Args:
        before_write: called before a write: pending acknowledgements go with it
        after_read: called when all data that came at once is parsed
    """

    def __init__(
        self,
        parameters: pika.ConnectionParameters,
        loop: asyncio.AbstractEventLoop,
        tls: ssl.SSLContext | None,
        *,
        before_write: Callable[[], None],
        after_read: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._dial_task: asyncio.Task[None] | None = None
        self._terminated = False
        self._unwritten: list[bytes] = []
        self._reading = False
        self.confirms: dict[int, Callable[[Any], None]] = {}
        self._writing = False
        self._before_write = before_write
        self._after_read = after_read
        self.opened: asyncio.Future[None] = loop.create_future()
        self.loss: asyncio.Future[BaseException] = loop.create_future()
        super().__init__(
            parameters,
            lambda _: settle(self.opened),
            self._on_failure,
            lambda _, error: settle(self.loss, error),
        )

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        properties: bytes,
        body: bytes,
    ) -> None:
        """Do what pika's `basic_publish` does, in less time: `benchmarks/amqp.py` measures it."""
        frames = [
            _publish_frame(channel, exchange, routing_key, mandatory),
            _HEADER_HEAD.pack(
                spec.FRAME_HEADER, channel, 12 + len(properties), _BASIC, 0, len(body)
            ),
            properties,
        ]
        for start in range(0, len(body), self._body_max_length):
            piece = body[start : start + self._body_max_length]
            frames += (_END, _BODY_HEAD.pack(spec.FRAME_BODY, channel, len(piece)), piece)
        frames.append(_END)
        self._output_marshaled_frames((b"".join(frames),))

    def _on_failure(self, _: Any, error: BaseException) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)

    def abort(self) -> None:
        """Close the socket without AMQP's closing handshake."""
        if self._dial_task is not None:
            self._dial_task.cancel()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's side ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        # By its methods: uvloop's transports do not derive from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        try:
            self._on_stream_connected()
        except Exception as error:  # the loop would log it, and `opened` would never end
            self._transport.abort()
            self.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Parse what the broker sent."""
        is_turn_scheduled = self._writing  # a write is scheduled already
        self._reading = True
        for start in range(0, len(data), _PARSE_BYTES):
            if self._terminated:
                return
            self._on_data_available(data[start : start + _PARSE_BYTES])
        self._after_read()
        self._reading = False
        if not is_turn_scheduled:
            self._end_turn()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        if not self._terminated:
            self._terminated = True
            if error is None and self._error is None:
                error = StreamLostError("the broker closed the connection")
            self._on_stream_terminated(error)

    # -- pika's side -------------------------------------------------------------------------------

    def _adapter_connect_stream(self) -> None:
        self._dial_task = self._loop.create_task(self._dial())

    async def _dial(self) -> None:
        host, port = self.params.host, self.params.port
        try:
            async with asyncio.timeout(self.params.stack_timeout):
                await self._loop.create_connection(
                    lambda: self,
                    host,
                    port,
                    ssl=self._tls,
                    server_hostname=host if self._tls is not None else None,
                )
        except (OSError, ValueError) as error:  # ValueError: not a host name, such as `a..b`
            self.connection_lost(error)

    def _write(self) -> None:
        """Write all frames that wait."""
        if self.is_open:
            self._before_write()
        unwritten, self._unwritten = self._unwritten, []
        if unwritten and self._transport is not None:
            self._transport.write(b"".join(unwritten))

    def _end_turn(self) -> None:
        if self._unwritten:
            self._write()
        self._writing = False

    def _adapter_disconnect_stream(self) -> None:
        self._write()
        if self._dial_task is not None:
            self._dial_task.cancel()
        if self._transport is None:
            self._loop.call_soon(self.connection_lost, None)
        elif isinstance(self._error, pika.exceptions.ConnectionClosed):
            self._transport.close()  # after it has sent what was written
        else:
            self._transport.abort()

    def _adapter_call_later(self, delay: float, callback: Callable[[], None]) -> object:
        return self._loop.call_later(delay, callback)

    def _adapter_remove_timeout(self, timeout_id: Any) -> None:
        timeout_id.cancel()

    def _adapter_add_callback_threadsafe(self, callback: Callable[..., None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def _adapter_emit_data(self, data: bytes) -> None:
        self._output_marshaled_frames((data,))

    def _read_frame(self) -> tuple[int, Any]:
        """Read a frame; if pika cannot decode a message's headers, leave the headers out.

        pika's error would end the connection, and the next one would redeliver the message.
        """
        try:
            decoded: tuple[int, Any] = super()._read_frame()
            return decoded
        except InvalidFrameError:
            raise  # the stream itself is broken
        except Exception:  # decoding raises ValueError, OverflowError, RecursionError, …
            buffer = self._frame_buffer
            kind, channel, size = struct.unpack_from(">BHI", buffer)
            if kind != spec.FRAME_HEADER:
                raise
            (body_size,) = struct.unpack_from(">Q", buffer, _FRAME_HEAD + 4)
            header = frame.Header(channel, body_size, pika.BasicProperties(type="undecodable"))
            return _FRAME_HEAD + size + 1, header

    def _process_frame(self, frame_value: Any) -> None:
        """Process a frame; confirms and deliveries skip pika's search for callbacks."""
        kind = type(frame_value)
        method = type(frame_value.method) if kind is frame.Method else None
        take_confirm = (
            self.confirms.get(frame_value.channel_number) if method is spec.Basic.Ack else None
        )
        if take_confirm is not None:
            take_confirm(frame_value)
        elif method is spec.Basic.Deliver or kind in (frame.Header, frame.Body):
            self._deliver_frame_to_channel(frame_value)
        else:
            super()._process_frame(frame_value)

    def _output_marshaled_frames(self, marshaled_frames: Sequence[bytes]) -> None:
        self._unwritten += marshaled_frames
        if not self._writing:
            self._writing = True
            # While data is read, `data_received` ends the turn.
            if not self._reading:
                self._loop.call_soon(self._end_turn)
            self._write()


# pika warns of each refusal: `Control` expects them, and other channels are reopened.
logging.getLogger("pika.channel").setLevel(logging.ERROR)


NO_PERMISSION: Final = 403
NOT_FOUND: Final = 404
LOCKED: Final = 405
_PRECONDITION_FAILED: Final = 406


class RefusedByBroker(Exception):
    """The broker refused an operation.

    Attributes:
        code: AMQP's, such as `NOT_FOUND`
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def has_other_settings(self) -> bool:
        """Whether something is there under the name, with other settings."""
        # A limit of queues has the same code: only these words tell it.
        return self.code == _PRECONDITION_FAILED and "inequivalent arg" in str(self)


class Control:
    """Declares, binds and deletes. A refusal closes the channel; the next call opens another."""

    def __init__(self, open_channel: Callable[[], Awaitable[Channel]]) -> None:
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._call_lock = asyncio.Lock()

    async def call(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of `Channel` that takes a callback, and return the broker's answer."""
        # One at a time: AMQP answers in order, and an answer names no call.
        async with self._call_lock:
            channel = self._channel
            if channel is None or not channel.is_open:
                channel = self._channel = await self._open_channel()
                channel.add_on_close_callback(self._on_channel_closed)
            answer = self._answer = asyncio.get_running_loop().create_future()
            operation(channel, *args, callback=lambda f: settle(answer, f.method), **kwargs)
            try:
                return await answer
            finally:
                if not answer.done() or answer.cancelled():
                    # Its answer may still come, and must not be taken for the next call's.
                    self._channel = None
                    with suppress(AMQPError):
                        channel.close()

    async def declare(
        self,
        name: str,
        arguments: dict[str, Any],
        call_first: Callable[[Channel], None] | None = None,
    ) -> tuple[Any, bool]:
        """Declare a durable queue; return the broker's answer, and if it has these arguments.

        One that a space with other settings has declared stays as it is.
        """

        def declare(channel: Channel, callback: Callable[[Any], None]) -> None:
            if call_first is not None:
                call_first(channel)  # without waiting: a refusal closes the channel before the next
            channel.queue_declare(name, durable=True, arguments=arguments, callback=callback)

        try:
            return await self.call(declare), True
        except RefusedByBroker as error:
            if not error.has_other_settings:
                raise
        return await self.call(Channel.queue_declare, name, passive=True), False

    def connection_lost(self) -> None:
        """End the call in progress: the connection was lost."""
        self._channel = None
        self._end(LinkLost("the connection was lost"))

    def _on_channel_closed(self, channel: Channel, error: Exception) -> None:
        # One that a cancelled call has given up; later calls have another.
        if channel is not self._channel:
            return
        self._channel = None
        if isinstance(error, ChannelClosedByBroker):
            self._end(RefusedByBroker(error.reply_code, error.reply_text))
        else:
            self._end(LinkLost(str(error)))

    def _end(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
