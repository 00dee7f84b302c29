"""The connection to the broker, opened again whenever it is lost, and declarations over it."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pika
from pika.channel import Channel
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosed,
    IncompatibleProtocolError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from civitas.errors import BrokerError
from civitas.spaces.amqp.connection import Connection
from civitas.spaces.amqp.options import AMQPOptions

logger = logging.getLogger("civitas.amqp")

_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 15.0
_DIAL_S = 10.0
_CLOSE_S = 2.0
_NOT_ALLOWED = 530
_OTHER_NAME = (62, 64)  # OpenSSL's: the certificate is for another host, another address


class LinkLost(Exception):
    """The connection was lost during a call."""


def parameters(options: AMQPOptions, name: str) -> pika.ConnectionParameters:
    """Pika's parameters; the broker's tools show `name`."""
    return pika.ConnectionParameters(
        host=options.hostname,
        port=options.port,
        virtual_host=options.virtual_host,
        credentials=pika.PlainCredentials(options.username, options.password),
        heartbeat=options.heartbeat,
        stack_timeout=_DIAL_S,
        client_properties={"connection_name": name, "product": "civitas"},
    )


def settle(future: asyncio.Future[Any], value: Any) -> None:
    """Set a future's value, unless it is done."""
    if not future.done():
        future.set_result(value)


def tls(options: AMQPOptions) -> ssl.SSLContext | None:
    """The TLS context, if any; the broker's certificate is always verified."""
    if not options.use_ssl:
        return None
    try:
        return ssl.create_default_context(cafile=options.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(f"ca_file {str(options.ca_file)!r} cannot be read: {error}") from error


def explain(error: BaseException, options: AMQPOptions) -> str:
    """Why there is no connection and what to do, in one line."""
    where = f"the message broker at {options.address}"
    if isinstance(error, ProbableAuthenticationError):
        return (
            f"{where} refuses the user {options.username!r} or the password: "
            "set AMQP_USERNAME and AMQP_PASSWORD"
        )
    if isinstance(error, ProbableAccessDeniedError) or (
        isinstance(error, ConnectionClosed) and error.reply_code == _NOT_ALLOWED
    ):
        return (
            f"{where} has no virtual host {options.virtual_host!r} for the user "
            f"{options.username!r}: set AMQP_VHOST, or have it made (rabbitmqctl add_vhost, "
            "set_permissions)"
        )
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OTHER_NAME:
        return (
            f"the certificate of {where} is not to be trusted ({error.verify_message}): "
            "connect to a name that it is for, by hostname= or AMQP_HOST"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is not to be trusted ({error.verify_message}): "
            "give its authority as ca_file="
        )
    if isinstance(error, ssl.SSLError | IncompatibleProtocolError):
        other = "without use_ssl=True" if options.use_ssl else "with use_ssl=True"
        return f"{where} does not speak AMQP 0-9-1 on that port: try it {other}"
    if isinstance(error, ConnectionResetError | StreamLostError):
        # A TLS port closes a plain connection without an error.
        other = "" if options.use_ssl else "try it with use_ssl=True, or "
        return f"{where} hung up before AMQP began: {other}check AMQP_PORT and the broker's log"
    if isinstance(error, ConnectionClosed):
        return f"{where} closed the connection: {error.reply_text}"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer in {_DIAL_S:.0f} s: check AMQP_HOST and AMQP_PORT"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (
        f"no message broker at {options.address} ({reason or type(error).__name__}): "
        "start RabbitMQ, or set AMQP_HOST and AMQP_PORT"
    )


class Link:
    """Keeps a connection open. Everything happens on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: AMQPOptions,
        name: str,
        *,
        up: Callable[[], Awaitable[None]],
        down: Callable[[], None],
        on_state: Callable[[str, str], None],
        before_write: Callable[[], None],
        after_read: Callable[[], None],
    ) -> None:
        self._before_write = before_write
        self._after_read = after_read
        self._loop = loop
        self._options = options
        self._name = name
        self._up = up
        self._down = down
        self._on_state = on_state
        self._connection: Connection | None = None
        self._lost: asyncio.Future[BaseException] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def is_up(self) -> bool:
        """Whether the connection is open."""
        return self._connection is not None and self._connection.is_open

    async def open(self) -> None:
        """Connect; from then on the connection is opened again whenever it is lost."""
        if self._keeping is not None:
            return
        if self._opening is None:
            self._opening = self._loop.create_task(self._open())
        opening = self._opening
        await asyncio.shield(opening)

    async def _open(self) -> None:
        try:
            await self._connect()
        except BrokerError:
            raise
        except (LinkLost, AMQPError) as error:
            raise BrokerError(explain(error, self._options)) from error
        finally:
            self._opening = None
        self._keeping = self._loop.create_task(self._keep())

    async def channel(self) -> Channel:
        """Open a channel."""
        connection, lost = self._connection, self._lost
        if connection is None or lost is None or not connection.is_open:
            raise LinkLost("there is no connection")
        opened: asyncio.Future[Channel] = self._loop.create_future()
        connection.channel(on_open_callback=lambda found: settle(opened, found))
        await asyncio.wait((opened, lost), return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            raise LinkLost(str(lost.result()))
        return opened.result()

    async def close(self) -> None:
        """Close the connection for good."""
        self._closing = True
        for task in (self._keeping, self._opening):
            if task is not None:
                task.cancel()
        connection, lost = self._connection, self._lost
        if connection is not None and lost is not None:
            if connection.is_open:
                connection.close()
            await asyncio.wait((lost,), timeout=_CLOSE_S)
            connection.abort()

    def drop(self) -> None:
        """Close this connection; another is opened."""
        if self._connection is not None and self._connection.is_open:
            self._connection.close(reply_code=541, reply_text="given up by the client")

    async def _connect(self) -> None:
        opened: asyncio.Future[None] = self._loop.create_future()
        lost: asyncio.Future[BaseException] = self._loop.create_future()

        def failed(_: Any, error: BaseException) -> None:
            if not opened.done():
                opened.set_exception(BrokerError(explain(error, self._options)))

        connection = Connection(
            parameters(self._options, self._name),
            self._loop,
            tls(self._options),
            lambda _: settle(opened, None),
            failed,
            lambda _, error: settle(lost, error),
        )
        try:
            async with asyncio.timeout(_DIAL_S):  # a broker may accept it and send nothing
                await opened
        except TimeoutError as error:
            connection.abort()
            raise BrokerError(explain(error, self._options)) from None
        except asyncio.CancelledError:
            connection.close()
            raise
        connection.add_on_connection_blocked_callback(
            lambda *_: self._on_state(
                "blocked", "the broker is short of memory or disk and takes none"
            )
        )
        connection.add_on_connection_unblocked_callback(
            lambda *_: self._on_state("unblocked", "the broker takes messages again")
        )
        connection.before_write, connection.after_read = self._before_write, self._after_read
        self._connection, self._lost = connection, lost
        try:
            await self._up()
        except BaseException:
            if connection.is_open:
                connection.close()
            self._connection = self._lost = None
            self._down()
            raise
        self._on_state("connected", f"connected to the message broker at {self._options.address}")

    async def _keep(self) -> None:
        """Open another connection whenever one is lost."""
        while not self._closing:
            assert self._lost is not None
            error = await asyncio.shield(self._lost)
            self._connection = None
            self._down()
            if self._closing:
                return
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            where = f"the message broker at {self._options.address}"
            self._on_state("lost", f"the connection to {where} is lost: {reason}")
            wait = _FIRST_WAIT_S
            while True:
                # Jitter: a thousand processes must not come back in one moment.
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                try:
                    await self._connect()
                    break
                except Exception as failure:  # another try may succeed
                    if not isinstance(failure, BrokerError | LinkLost | AMQPError):
                        logger.exception("a defect in civitas: a connection could not be set up")
                    wait = min(wait * 2, _LONGEST_WAIT_S)
                    self._on_state("retrying", f"{failure}; trying again within {wait:.1f} s")


# It warns of each refusal: `Control` expects them, and other channels are opened again.
logging.getLogger("pika.channel").setLevel(logging.ERROR)

Operation = Callable[[Channel, Callable[[Any], None]], Any]


class Refused(Exception):
    """The broker refused an operation.

    Attributes:
        code: AMQP's: 403 refused, 404 not found, 405 locked, 406 other settings
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Control:
    """Declares, binds and deletes. A refusal closes the channel; the next call opens another."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._channel: Channel | None = None
        self._waiting: asyncio.Future[Any] | None = None
        self._turn = asyncio.Lock()

    async def call(self, operation: Operation) -> Any:
        """Do one operation and give the broker's answer."""
        async with self._turn:
            channel = self._channel
            if channel is None or not channel.is_open:
                channel = self._channel = await self._link.channel()
                channel.add_on_close_callback(self._closed)
            waiting = self._waiting = asyncio.get_running_loop().create_future()
            operation(channel, lambda frame: settle(waiting, frame.method))
            try:
                return await waiting
            finally:
                if not waiting.done() or waiting.cancelled():
                    # Its answer may still come, and is not the next call's.
                    self._channel = None
                    with suppress(AMQPError):
                        channel.close()

    def lost(self) -> None:
        """The connection was lost."""
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
