"""The agents of this process at the broker: their queues are consumed, restored, deleted."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pika.exceptions import AMQPError

from moothall.foundation.errors import AgentStopped, BrokerError, DuplicateAgent, RequestError
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import NOT_FOUND, LinkLost, RefusedByBroker
from moothall.spaces.amqp.link.consumer import Consumption, DeliveryTag
from moothall.spaces.amqp.queues import Queues
from moothall.spaces.amqp.receiver import Receiver
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.router import Router

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_EXTRA_PREFETCH: Final = 100
"""How many messages an agent prefetches beyond its mailbox, which refuses them."""

_DRAIN_S: Final = 0.02
_MAX_DRAIN_S: Final = 5.0

_BACKLOG_S: Final = 2.0
"""How long to wait for the backlog of an agent before it starts the first message."""

_RETRY_S: Final = 0.5


@dataclass(eq=False)
class AgentQueue:
    """The queue of one agent of this process."""

    mailbox: Mailbox
    name: str
    consumer: Consumption | None = None  # while it is consumed
    claim: Consumption | None = None  # that of a shared agent's claim
    is_claimed: bool = False  # whether this process has the id, as far as it knows
    backlog_count: int = 0  # of the messages that waited at first, those not delivered yet
    end_pause: Callable[[], None] | None = None  # lets the agent start after the backlog
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while added, restored, removed
    was_deleted: bool = False  # whether it was deleted, with what was in it

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.mailbox.id


@dataclass(eq=False, repr=False)
class AgentQueues:
    """Claims the ids of this process's agents, and consumes their queues until they are removed."""

    router: Router
    broker: Broker
    queues: Queues
    receiver: Receiver
    on_queue_lost: Callable[[str], None]  # has all processes send its open requests again
    evict: Callable[[Mailbox, RequestError], None]  # removes an agent of this process
    _queue_by_mailbox: dict[Mailbox, AgentQueue] = field(default_factory=dict)
    _release_tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._consumer = self.broker.consumer
        self._publisher = self.broker.publisher
        self._names = self.broker.names

    # -- agents come -------------------------------------------------------------------------------

    def _is_consumed_here(self, queue: AgentQueue) -> bool:
        """Return whether a queue is consumed on the present channel."""
        return (
            queue.consumer is not None
            and queue.consumer.channel_number == self._consumer.channel_number
        )

    async def add(self, mailbox: Mailbox) -> bool:
        """Claim an agent's id and consume its queue; return False if it was removed meanwhile."""
        if self.router.ending:
            raise self.router.closed_error()
        await self.broker.open()
        while (release := self._release_tasks.get(mailbox.id)) is not None:
            await asyncio.wait((release,))  # the queue of an agent of that id is being deleted
        queue = AgentQueue(mailbox, self._names.queue("agent", mailbox.id))
        if mailbox.open:
            self._queue_by_mailbox[mailbox] = queue
        try:
            async with queue.lock:
                while mailbox.open and not self._is_consumed_here(queue):
                    try:
                        # What was broadcast before is not for it, and the broker routes messages
                        # and binds queues on two channels.
                        await self._publisher.confirmed_or_returned(self._publisher.in_flight(""))
                        await self._consume(queue)
                    except LinkLost:
                        await asyncio.sleep(_RETRY_S)  # for the next connection
        except DuplicateAgent:
            self._queue_by_mailbox.pop(mailbox, None)  # it has nothing at the broker to delete
            raise
        if self.router.ending:
            raise self.router.closed_error()
        return mailbox.open

    async def _consume(self, queue: AgentQueue) -> None:
        """Claim an id for as long as this process's connection lasts, and consume its queue."""
        mailbox = queue.mailbox
        default_prefetch = self.router.capacity + mailbox.concurrency + _EXTRA_PREFETCH
        if mailbox.shared:  # what waits is for the process that is free first
            default_prefetch = mailbox.places
        prefetch = self.broker.limits.prefetch or default_prefetch
        count, classic = await self.queues.claim(queue.id, shared=mailbox.shared)
        queue.is_claimed = True
        if mailbox.shared:
            self._consumer.acknowledge_delay_s = 0.0  # then the broker brings the next message
            claim = self._names.queue("claim", queue.id)
            queue.claim = await self._consumer.consume(
                claim,
                lambda tag, *_: self._consumer.acknowledge(tag),
                1,
                lambda: None,
                classic=classic,
            )
        else:
            queue.backlog_count = min(count, prefetch)
        if queue.backlog_count and queue.end_pause is None:
            queue.end_pause = mailbox.pause()
        self.receiver.resume(mailbox)  # that came before what waits at the broker
        binding = asyncio.ensure_future(self.queues.bind(queue.id, mailbox.groups))
        try:
            queue.consumer = await self._consumer.consume(
                queue.name,
                partial(self._deliver, queue),
                prefetch,
                partial(self._on_cancelled, queue),
                classic=classic,
                counts_bytes=True,
            )
        finally:
            await binding
        self.router.loop.call_later(_BACKLOG_S, self._end_pause, queue)
        if queue.was_deleted:
            queue.was_deleted = False
            self.on_queue_lost(queue.id)

    def _deliver(self, queue: AgentQueue, tag: DeliveryTag, properties: Any, body: bytes) -> None:
        self.receiver.take(queue.mailbox, tag, properties, body)
        if queue.end_pause is not None:
            # The agent starts after the whole backlog is here: a later message in it may cancel a
            # request.
            queue.backlog_count -= 1
            if not queue.backlog_count:
                self._end_pause(queue)

    def _end_pause(self, queue: AgentQueue) -> None:
        end_pause, queue.end_pause = queue.end_pause, None
        if end_pause is not None:
            end_pause()

    def _on_cancelled(self, queue: AgentQueue) -> None:
        """Restore a queue that was deleted."""
        queue.consumer = None
        queue.was_deleted = True
        if self._queue_by_mailbox.get(queue.mailbox) is queue and not self.router.ending:
            logger.warning(
                "the queue of agent %r is gone from the broker; declaring it again", queue.id
            )
            self.router.thread.spawn(self._restore(queue))

    def restore(self) -> None:
        """Consume the queues on a new channel."""
        for queue in self._queue_by_mailbox.values():
            if not queue.mailbox.finishing:
                self.router.thread.spawn(self._restore(queue))

    async def bind_again(self) -> None:
        """Bind the queues to an exchange that is declared again, and ask for what it has lost."""
        for queue in list(self._queue_by_mailbox.values()):
            async with queue.lock:
                if (
                    self._queue_by_mailbox.get(queue.mailbox) is queue
                    and queue.consumer is not None
                ):
                    await self.queues.bind(queue.id, queue.mailbox.groups)
                    self.on_queue_lost(queue.id)

    async def _restore(self, queue: AgentQueue) -> None:
        mailbox = queue.mailbox
        # The broker may take two heartbeats, and some seconds, to see that a connection is lost.
        deadline = self.router.loop.time() + 3 * self.broker.options.heartbeat + 10
        async with queue.lock:
            while (
                self._queue_by_mailbox.get(mailbox) is queue
                and self.broker.is_up  # else the next connection restores all
                and not self._is_consumed_here(queue)
            ):
                try:
                    await self._consume(queue)
                    continue
                except (LinkLost, AMQPError):
                    pass
                except DuplicateAgent:
                    # Another process has the id, or the broker does not know yet that our old
                    # connection is lost.
                    if self.router.loop.time() > deadline:
                        self._on_replaced(mailbox)
                except BrokerError as error:
                    logger.error("%s", error)
                await asyncio.sleep(_RETRY_S * random.uniform(0.5, 1.0))

    def _on_replaced(self, mailbox: Mailbox) -> None:
        del self._queue_by_mailbox[mailbox]
        self.receiver.leave_to_others(mailbox)
        text = f'agent "{mailbox.id}" was replaced by one of another process'
        logger.error("%s while this one had no connection", text)
        self.evict(mailbox, AgentStopped(text))

    # -- agents leave ------------------------------------------------------------------------------

    def has_queue(self, mailbox: Mailbox) -> bool:
        """Return whether an agent has had its queue at the broker."""
        return mailbox in self._queue_by_mailbox

    async def stop_routing(self, mailbox: Mailbox) -> None:
        """Have the broker route no more messages to an agent; it is still brought what waits.

        One of several processes of a shared agent leaves what waits to the others.
        """
        queue = self._queue_by_mailbox[mailbox]
        if mailbox.shared:
            mailbox.finish_waiting()
            await self._withdraw(queue)
            return
        with suppress(LinkLost, AMQPError, RefusedByBroker):  # `removed` tries again
            await self.queues.unbind(queue.id, queue.mailbox.groups)

    async def leave_shared(self) -> None:
        """Leave the messages that have not started to the other processes: this one ends."""
        for mailbox in list(self._queue_by_mailbox):
            if mailbox.shared:
                await self.stop_routing(mailbox)
                self.receiver.give_back(mailbox)

    async def _withdraw(self, queue: AgentQueue) -> None:
        """End the consumers of a shared agent."""
        consumptions = (queue.consumer, queue.claim) if self._is_consumed_here(queue) else ()
        queue.consumer = queue.claim = None
        with suppress(LinkLost, AMQPError):  # the broker has ended them
            for each in consumptions:
                if each is not None:
                    await self._consumer.end(each)

    def remove(self, mailbox: Mailbox) -> None:
        """Delete a removed agent's queue, and then release its id."""
        queue = self._queue_by_mailbox.pop(mailbox, None)
        if queue is not None and not self.router.ending:
            # What is published after this may be for another agent of that id.
            messages = self._publisher.in_flight(mailbox.id)
            self._release_tasks[queue.id] = self.router.thread.spawn(self._release(queue, messages))

    async def wait_until_deleted(self, id: str | None = None, timeout: float | None = None) -> None:
        """Wait until the queue of a removed agent, or each of all, is deleted."""
        releases = [task for each, task in self._release_tasks.items() if id in (None, each)]
        if releases:
            await asyncio.wait(releases, timeout=timeout)

    async def _release(self, queue: AgentQueue, messages: list[Outbound]) -> None:
        """Wait for the messages sent to an agent, then delete its queue and release its id."""
        try:
            async with queue.lock:
                if not queue.is_claimed:
                    return
                if queue.mailbox.shared:
                    await self._withdraw(queue)
                    return
                try:
                    with suppress(LinkLost):  # else they are published again, on another channel
                        await self._publisher.confirmed_or_returned(messages)
                    await self._delete(queue)
                except (LinkLost, AMQPError, RefusedByBroker) as error:
                    logger.warning("the queue of the removed agent %r stays: %s", queue.id, error)
                with suppress(LinkLost, AMQPError, RefusedByBroker):
                    await self.queues.delete("claim", queue.id)
        finally:
            del self._release_tasks[queue.id]
        if queue.was_deleted:
            self.on_queue_lost(queue.id)  # its requests are sent again, and find no receiver

    async def _delete(self, queue: AgentQueue) -> None:
        """Delete an agent's queue once all its messages are delivered here."""
        consumer = queue.consumer
        if consumer is None or not self._is_consumed_here(queue):
            raise LinkLost("there is no connection")
        try:
            await self.queues.unbind(queue.id, queue.mailbox.groups)
            await self._drain(queue)
            # Messages may be on their way here: the broker cancels the consumer after them.
            consumer_end = self._consumer.until_ended(consumer)
            try:
                await self.queues.delete("agent", queue.id)
                await consumer_end
            finally:
                consumer_end.cancel()
        except RefusedByBroker as error:
            if error.code != NOT_FOUND:
                raise
            queue.was_deleted = True

    async def _drain(self, queue: AgentQueue) -> None:
        """Wait until all messages in a queue are delivered here."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + _MAX_DRAIN_S
        while True:
            state = await self.queues.state("agent", queue.id)
            if not state.exists:
                queue.was_deleted = True
                return
            if not self._is_consumed_here(queue):
                raise LinkLost("the channel was lost")
            if not state.messages:
                return
            if clock() > deadline:  # nothing is taken, as when its inbox cannot be written
                logger.error(
                    "agent %r is removed, and %d messages are lost with its queue",
                    queue.id,
                    state.messages,
                )
                return
            self._consumer.flush()
            await asyncio.sleep(_DRAIN_S)
