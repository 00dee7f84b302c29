"""One connection to the broker: pika's protocol over asyncio's own transports."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pika
from pika import frame, spec
from pika.exceptions import InvalidFrameError, StreamLostError

_FRAME_HEAD = 7
"""How many bytes a frame has before what it carries."""

_AT_ONCE = 16_384
"""How many bytes are parsed at once: pika copies the rest of them for each frame."""


class Connection(pika.connection.Connection, asyncio.Protocol):  # type: ignore[misc]
    """Speaks AMQP over the loop's own transports, which know TLS.

    A system call costs more than all that pika does for a message. So the first frame of a turn of
    the loop is written at once, and those after it together, at the turn's end. pika's own adapter
    writes each frame by itself; `benchmarks/amqp.py` measures the difference.

    Attributes:
        confirms: by channel, what takes publisher confirms in place of pika's own callbacks
        before_write: called before a write: pending acknowledgements go with it
        after_read: called when all that came at once was read
    """

    def __init__(
        self,
        parameters: pika.ConnectionParameters,
        loop: asyncio.AbstractEventLoop,
        tls: ssl.SSLContext | None,
        opened: Callable[[Any], None],
        failed: Callable[[Any, BaseException], None],
        closed: Callable[[Any, BaseException], None],
    ) -> None:
        self._loop = loop
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._terminated = False
        self._unwritten: list[bytes] = []
        self._reading = False
        self.confirms: dict[int, Callable[[Any], None]] = {}
        self._writing = False
        self.before_write: Callable[[], None] | None = None
        self.after_read: Callable[[], None] | None = None
        super().__init__(parameters, opened, failed, closed)

    def abort(self) -> None:
        """Close the socket without AMQP's closing handshake."""
        if self._dialling is not None:
            self._dialling.cancel()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's side ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=2**30)  # the publisher bounds it
        self._on_stream_connected()

    def data_received(self, data: bytes) -> None:
        """Parse what the broker sent."""
        turn_ends = self._writing  # a write is scheduled already
        self._reading = True
        for start in range(0, len(data), _AT_ONCE):
            if self._terminated:
                return
            self._on_data_available(data[start : start + _AT_ONCE])
        if self.after_read is not None:
            self.after_read()
        self._reading = False
        if not turn_ends:
            self._end_turn()

    def eof_received(self) -> bool:
        """The broker sends no more: close."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        if not self._terminated:
            self._terminated = True
            if error is None and self._error is None:
                error = StreamLostError("the broker closed the connection")
            self._on_stream_terminated(error)

    # -- pika's side -------------------------------------------------------------------------------

    def _adapter_connect_stream(self) -> None:
        self._dialling = self._loop.create_task(self._dial())

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
        if self.before_write is not None and self.is_open:
            self.before_write()
        unwritten, self._unwritten = self._unwritten, []
        if unwritten and self._transport is not None:
            self._transport.write(b"".join(unwritten))

    def _end_turn(self) -> None:
        if self._unwritten:
            self._write()
        self._writing = False

    def _adapter_disconnect_stream(self) -> None:
        self._write()
        if self._dialling is not None:
            self._dialling.cancel()
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
        """Read a frame; where pika cannot decode a message's headers, as one without headers.

        Its error would end the connection, and the message would be redelivered on the next.
        """
        try:
            found: tuple[int, Any] = super()._read_frame()
            return found
        except InvalidFrameError:
            raise  # the stream itself is broken
        except Exception:  # decoding raises ValueError, OverflowError, RecursionError, …
            buffer = self._frame_buffer
            kind, channel, size = struct.unpack_from(">BHI", buffer)
            if kind != spec.FRAME_HEADER:
                raise
            (body_size,) = struct.unpack_from(">Q", buffer, _FRAME_HEAD + 4)
            header = frame.Header(channel, body_size, pika.BasicProperties())
            return _FRAME_HEAD + size + 1, header

    def _process_frame(self, frame_value: Any) -> None:
        """Take a frame; confirms and deliveries without pika's search for callbacks."""
        kind = type(frame_value)
        if kind is frame.Method:
            method = type(frame_value.method)
            if method is spec.Basic.Ack:
                take = self.confirms.get(frame_value.channel_number)
                if take is not None:
                    self.frames_received += 1
                    take(frame_value)
                    return
            elif method is spec.Basic.Deliver:
                self.frames_received += 1
                self._deliver_frame_to_channel(frame_value)
                return
        super()._process_frame(frame_value)

    def _output_marshaled_frames(self, marshaled_frames: Sequence[bytes]) -> None:
        self.bytes_sent += sum(map(len, marshaled_frames))
        self.frames_sent += len(marshaled_frames)
        self._unwritten += marshaled_frames
        if not self._writing:
            self._writing = True
            if not self._reading:
                self._loop.call_soon(self._end_turn)
            self._write()
