"""A process's connection and channels to the broker, set up again when one is lost."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from moothall.foundation.errors import BrokerError
from moothall.spaces.amqp.amqp_options import AMQPOptions, BrokerLimits, Names, node_options
from moothall.spaces.amqp.link.connection import (
    NO_PERMISSION,
    NOT_FOUND,
    Connection,
    Control,
    LinkLost,
    RefusedByBroker,
)
from moothall.spaces.amqp.link.consumer import ChannelConsumers, Deliver
from moothall.spaces.amqp.link.dialling import (
    DIAL_S,
    connection_parameters,
    explain,
    refusal_text,
    tls_context,
)
from moothall.spaces.amqp.link.publisher import Publisher
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.loop import LoopThread
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_FIRST_WAIT_S: Final = 0.2
_MAX_WAIT_S: Final = 15.0
_CLOSE_S: Final = 2.0
_REPLIES_EXPIRE_S: Final = 3600
_UNLIMITED: Final = 2**31 - 1
_REPLY_PREFETCH: Final = 2_000
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
_RETRY_S: Final = 1.0
_UNCONFIRMED_S: Final = 3.0
_POLL_INTERVAL_S: Final = 5.0
"""How often a process looks whether the exchange still routes to it."""
_BIND_TRIES: Final = 10
_MAX_SIZE_TEXT = re.compile(r"larger than configured max size (\d+)")


@dataclass(eq=False, repr=False)
class Broker:
    """One process's connection to the broker, and what all users of the connection share.

    Everything runs on the loop.

    Attributes:
        process: the name of this process at the broker
        queue_type: of every queue that outlives a connection; named, because a virtual host may
            have another default
        reply_key: the routing key of the answers to its requests
        control: declares, binds and deletes
        publisher: publishes messages until each is confirmed
        consumer: takes and acknowledges deliveries
    """

    thread: LoopThread
    options: AMQPOptions
    names: Names
    limits: BrokerLimits
    quorum: bool
    on_outcome: Callable[[Outbound, str], None]  # called when publishing a message has ended
    on_reply: Deliver  # takes what comes for this process
    on_replies_lost: Callable[[], None]  # called when the queue of the replies is there again
    declare_more: Callable[[], Awaitable[None]]  # declares what else a new connection publishes to
    on_attached: Callable[[], Awaitable[None]]  # called when there is a new channel to consume on
    on_state: Callable[[str, str], None]
    after_read: Callable[[], None]
    find_remedy: Callable[[], str]  # says what helps if the broker waits no longer for a message
    reaches_itself: Callable[[], Awaitable[bool]]  # if what it publishes for itself arrives
    bind_agents: Callable[[], Awaitable[None]]  # binds the queues of agents and observers again
    _has_lost_replies: bool = False
    _is_ending: bool = False
    _connection: Connection | None = None
    _address: str = ""  # of the node that it is connected to
    _open_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reconnect_task: asyncio.Task[None] | None = None
    _watch_tasks: tuple[asyncio.Task[None], ...] = ()
    _is_blocked: bool = False  # whether the broker takes no messages
    _is_closing: bool = False

    def __post_init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = self.thread.loop
        self.queue_type: str = QUORUM if self.quorum else CLASSIC
        self.process_name: str = secrets.token_hex(8)
        self.reply_key: str = self.names.key("reply", self.process_name)
        self._reply_queue = ""
        self._counter = count(1)
        self.consumer: ChannelConsumers = ChannelConsumers(self.loop, self.limits.prefetch_bytes)
        self.publisher: Publisher = Publisher(
            self.names.exchange, self.on_outcome, self.thread.set_open
        )
        self.control: Control = Control(self.channel)

    def new_key(self) -> str:
        """Return a new idempotency key for a message."""
        return f"{self.process_name}.{next(self._counter):010x}"

    async def end_replies(self) -> None:
        """Take all answers in this process's reply queue, then delete the queue."""
        self._is_ending = True
        await self.control.call(Channel.queue_delete, self._reply_queue)

    # -- the connection ----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether the connection is open."""
        return self._connection is not None and self._connection.is_open

    async def open(self) -> None:
        """Connect; from then on the connection is reopened whenever it is lost."""
        async with self._open_lock:
            if self._reconnect_task is not None:
                return
            await self._connect()
            self._reconnect_task = self.loop.create_task(self._reconnect())
            watchers = [self._watch_exchange, *([self._watch_confirms] if self.quorum else [])]
            self._watch_tasks = tuple(self.loop.create_task(each()) for each in watchers)

    async def channel(self) -> Channel:
        """Open a channel."""
        connection = self._connection
        if connection is None or not connection.is_open:
            raise LinkLost("there is no connection")
        opening: asyncio.Future[Channel] = self.loop.create_future()
        connection.channel(on_open_callback=lambda channel: settle(opening, channel))
        await asyncio.wait((opening, connection.loss), return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            raise LinkLost(str(connection.loss.result()))
        return opening.result()

    async def close(self) -> None:
        """Close the connection for good."""
        self._is_closing = True
        for task in (self._reconnect_task, *self._watch_tasks):
            if task is not None:
                task.cancel()
        connection = self._connection
        if connection is not None:
            if connection.is_open:
                connection.close()
            await asyncio.wait((connection.loss,), timeout=_CLOSE_S)
            connection.abort()

    def drop(self) -> None:
        """Close this connection, so that another is opened."""
        if self._connection is not None and self._connection.is_open:
            self._connection.close(reply_code=541, reply_text="closed to declare everything again")

    async def _connect(self) -> None:
        """Connect to one of the hosts that the options name."""
        # Shuffled: a thousand processes must not all be at the first node of a cluster.
        nodes, errors = node_options(self.options), list[BrokerError]()
        for node in random.sample(nodes, len(nodes)):
            try:
                return await self._connect_to(node)
            except BrokerError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise BrokerError("; ".join(map(str, errors))) from errors[0]

    async def _connect_to(self, node: AMQPOptions) -> None:
        connection = Connection(
            connection_parameters(node, f"moothall {self.process_name}"),
            self.loop,
            tls_context(node),
            before_write=self.consumer.flush,
            after_read=self.after_read,
        )
        try:
            async with asyncio.timeout(DIAL_S):  # a broker may accept it and send nothing
                await connection.opened
        except Exception as error:
            connection.abort()
            raise BrokerError(explain(error, node)) from error
        except asyncio.CancelledError:
            connection.close()
            raise
        connection.add_on_connection_blocked_callback(lambda *_: self._note_blocked(True))
        connection.add_on_connection_unblocked_callback(lambda *_: self._note_blocked(False))
        self._connection, self._is_blocked = connection, False
        try:
            await self._set_up()
        except BaseException as error:
            if connection.is_open:
                connection.close()
            self._on_disconnect()
            if isinstance(error, RefusedByBroker):
                raise BrokerError(refusal_text(error, self.names.exchange, node)) from error
            if isinstance(error, LinkLost | AMQPError):
                raise BrokerError(explain(error, node)) from error
            raise
        self._address = node.address
        self.on_state("connected", f"connected to the message broker at {node.address}")

    def _note_blocked(self, is_blocked: bool) -> None:
        self._is_blocked = is_blocked
        if is_blocked:
            self.on_state("blocked", "the broker is short of memory or disk; messages wait")
        else:
            self.on_state("unblocked", "the broker takes messages again")

    async def _reconnect(self) -> None:
        """Open another connection whenever one is lost."""
        while not self._is_closing and self._connection is not None:
            error = await asyncio.shield(self._connection.loss)
            self._on_disconnect()
            if self._is_closing:
                return
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            label = f"the message broker at {self._address}"
            self.on_state("lost", f"the connection to {label} is lost: {reason}")
            wait_s = _FIRST_WAIT_S
            while True:
                # Jitter: a thousand processes must not reconnect at the same moment.
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                try:
                    await self._connect()
                    break
                except Exception as failure:  # another try may succeed
                    if not isinstance(failure, BrokerError | LinkLost | AMQPError):
                        logger.exception("a defect in moothall: a connection could not be set up")
                    wait_s = min(wait_s * 2, _MAX_WAIT_S)
                    self.on_state("retrying", f"{failure}; trying again within {wait_s:.1f} s")

    async def _set_up(self) -> None:
        """Set up a new connection."""
        await self._declare_replies()
        await self._bind()
        await self._attach_publisher()
        await self._attach_consumer()

    async def _bind(self) -> None:
        """Declare the exchanges, and bind what is not of an agent."""
        call, names = self.control.call, self.names
        await call(Channel.exchange_declare, names.exchange, "topic", durable=True)
        await call(Channel.exchange_declare, names.dead_exchange, "fanout", durable=True)
        await self.declare_dead_letters()
        await call(Channel.queue_bind, self._reply_queue, names.exchange, self.reply_key)
        await call(Channel.queue_bind, self._reply_queue, names.exchange, names.processes)
        await self.declare_more()

    async def declare_dead_letters(self) -> bool:
        """Declare the queue of the dead letters; return False if it is on a node that is down."""
        dead_queue = self.names.dead_queue
        arguments: dict[str, Any] = {"x-queue-type": self.queue_type}
        if self.quorum:
            # Listing them delivers each again: RabbitMQ 4 would delete it after twenty times.
            arguments["x-delivery-limit"] = _UNLIMITED
        try:
            await self.control.declare(dead_queue, arguments)
        except RefusedByBroker as error:
            if error.code != NOT_FOUND:
                raise
            logger.error("there are no dead letters until their node is back: %s", error)
            return False
        await self.control.call(Channel.queue_bind, dead_queue, self.names.dead_exchange, "")
        return True

    async def _declare_replies(self) -> None:
        """Declare this process's reply queue, which must not depend on a node of a cluster.

        A durable queue keeps the answers while this process has no connection. One that is not
        replicated is lost with its node, and a replicated one takes seconds to delete while a node
        is down: in a cluster each connection has a queue of its own, and requests are sent again.
        """
        classic = {"x-queue-type": CLASSIC}
        if self.quorum:
            self._has_lost_replies = bool(self._reply_queue)
            # A new name: the broker may not know yet that the old connection is lost.
            self._reply_queue = self.names.queue("reply", self.new_key())
            options: dict[str, Any] = {"exclusive": True, "arguments": classic}
        else:
            self._reply_queue = self.names.queue("reply", self.process_name)
            arguments = classic | {"x-expires": _REPLIES_EXPIRE_S * 1000}
            options = {"durable": True, "arguments": arguments}
        await self.control.call(Channel.queue_declare, self._reply_queue, **options)

    def _on_disconnect(self) -> None:
        self._connection = None
        self.control.connection_lost()
        self.publisher.detach()
        self.consumer.detach()

    async def _attach_consumer(self) -> None:
        channel = await self.channel()
        channel.add_on_close_callback(lambda _, error: self._consumer_closed(error))
        self.consumer.attach(channel)
        await self.consumer.consume(
            self._reply_queue, self.on_reply, _REPLY_PREFETCH, self._replies_deleted
        )
        if self._has_lost_replies:
            self._has_lost_replies = False
            self.on_replies_lost()
        await self.on_attached()

    def _replies_deleted(self) -> None:
        """Declare everything again on another connection: the reply queue was deleted."""
        if not self._is_ending:
            self._has_lost_replies = True
            self.drop()

    async def _attach_publisher(self) -> None:
        channel = await self.channel()
        channel.add_on_close_callback(self._publisher_closed)
        ready = self.loop.create_future()
        channel.add_on_close_callback(lambda *_: settle(ready, False))
        channel.confirm_delivery(
            self.publisher.take_confirm, callback=lambda _: settle(ready, True)
        )
        if not await ready:
            raise LinkLost("the channel was lost")
        channel.connection.confirms[channel.channel_number] = self.publisher.take_confirm
        self.publisher.attach(channel)

    async def _watch_confirms(self) -> None:
        """Publish on another channel what a cluster leaves unconfirmed for too long.

        When the leader of a replicated queue dies, RabbitMQ may forget what a channel has just
        published to that queue, and then confirms nothing more of it on that channel.
        """
        previous: object = None
        while True:
            await asyncio.sleep(_UNCONFIRMED_S)
            previous, oldest = self.publisher.oldest_unconfirmed(), previous
            if oldest is not None and oldest == previous and not self._is_blocked:
                logger.warning("the broker confirms nothing; publishing on another channel")
                self.publisher.close_channel()

    async def _watch_exchange(self) -> None:
        """Declare everything again after the exchange was deleted, which no process is told.

        Another process may have declared it already; what that binds is not this one's.
        """
        while True:
            await asyncio.sleep(_POLL_INTERVAL_S)
            # A busy process may miss one.
            if not (await self.reaches_itself() or await self.reaches_itself()) and self.is_up:
                with suppress(LinkLost, AMQPError):  # the next connection binds everything
                    await self._bind_again()

    async def _bind_again(self) -> None:
        """Declare the exchange and its bindings again; what was lost meanwhile is sent again."""
        logger.warning(
            "the exchange %r was deleted: this process declares it and its bindings again",
            self.names.exchange,
        )
        for _ in range(_BIND_TRIES):
            try:
                await self._bind()
                await self.bind_agents()
                self.on_replies_lost()
                return
            except (RefusedByBroker, BrokerError):  # it was deleted again, or a queue was
                await asyncio.sleep(_FIRST_WAIT_S)
        self.drop()  # the next connection says why

    def _consumer_closed(self, error: Exception) -> None:
        # The broker closes a channel with a message unacknowledged for too long.
        remedy = self.find_remedy() if "timed out" in str(error) else ""
        consequence = "delivers again what had not ended"
        self._on_channel_closed(self._attach_consumer, self.consumer, error, consequence, remedy)

    def _publisher_closed(self, _: Channel, error: Exception) -> None:
        consequence = "is sent again what it had not confirmed"

        async def attach() -> None:
            if isinstance(error, ChannelClosedByBroker) and error.reply_code == NOT_FOUND:
                await self._bind_again()
            await self._attach_publisher()

        self._on_channel_closed(attach, self.publisher, error, consequence)
        if too_large := _MAX_SIZE_TEXT.search(str(error)):
            self.publisher.refuse_larger(int(too_large[1]))

    def _on_channel_closed(
        self,
        attach: Callable[[], Any],
        channel_user: ChannelConsumers | Publisher,
        error: Exception,
        consequence: str,
        remedy: str = "",
    ) -> None:
        """Open another channel after one was closed, unless its connection is closed too."""
        channel_user.detach()
        connection = self._connection
        if self.is_up and not self._is_ending:
            if isinstance(error, ChannelClosedByBroker):
                reason = f"{error.reply_text}; {remedy}" if remedy else error.reply_text
                logger.warning("the broker closed a channel, and %s: %s", consequence, reason)

            async def reopen() -> None:
                if getattr(error, "reply_code", 0) == NO_PERMISSION:
                    await asyncio.sleep(_RETRY_S)
                try:
                    if connection is self._connection:
                        await attach()
                except RefusedByBroker:
                    self.drop()  # a queue or exchange was deleted: declare everything again
                except (LinkLost, AMQPError):
                    return  # the next connection sets everything up

            self.thread.spawn(reopen())
