"""The agents of this process at the broker: added, restored after a loss, removed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pika.exceptions import AMQPError

from civitas.errors import AgentStopped, BrokerError, DuplicateAgent, RequestError
from civitas.spaces.amqp.agent_queues import AgentQueue, AgentQueues
from civitas.spaces.amqp.broker import Broker
from civitas.spaces.amqp.consumer import Tag
from civitas.spaces.amqp.link import LinkLost, Refused
from civitas.spaces.amqp.receiver import Receiver
from civitas.spaces.amqp.wire import Outbound
from civitas.spaces.mailbox import Mailbox
from civitas.spaces.router import Router

logger = logging.getLogger("civitas.amqp")

_BACKLOG_S: Final = 2.0
"""How long to wait for all messages that waited for an agent before it begins the first."""

_AGAIN_S: Final = 0.5


class LocalAgents:
    """Consumes the queue of each agent of this process, for as long as it is here."""

    def __init__(
        self,
        router: Router,
        broker: Broker,
        queues: AgentQueues,
        receiver: Receiver,
        *,
        queue_lost: Callable[[str], None],
        evict: Callable[[Mailbox, RequestError], None],
    ) -> None:
        self._router = router
        self._thread = router.thread
        self._loop = router.loop
        self._link = broker.link
        self._publisher = broker.publisher
        self._names = broker.names
        self._heartbeat = broker.heartbeat
        self._queues = queues
        self._receiver = receiver
        self._queue_lost = queue_lost
        self._evict = evict
        self._here: dict[Mailbox, AgentQueue] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._not_deleted: dict[str, AgentQueue] = {}  # left when there was no connection

    # -- added -------------------------------------------------------------------------------------

    async def add(self, mailbox: Mailbox) -> bool:
        """Claim an agent's id and consume its queue; False if it was removed meanwhile."""
        if self._router.ending:
            raise self._router.gone()
        await self._link.open()
        while (leaving := self._leaving.get(mailbox.id)) is not None:
            await asyncio.wait((leaving,))  # the queue of an agent of that id is being deleted
        if not mailbox.open:
            return self._removed()
        queue = AgentQueue(mailbox, self._names.agent_queue(mailbox.id))
        self._here[mailbox] = queue
        try:
            async with queue.lock:
                while mailbox.open:
                    try:
                        await self._consume(queue)
                        break
                    except LinkLost:
                        await asyncio.sleep(_AGAIN_S)  # for the next connection
        except DuplicateAgent:
            self._here.pop(mailbox, None)  # it has nothing at the broker to delete
            self._delete_left(mailbox.id)
            raise
        if queue.claimed:
            self._not_deleted.pop(mailbox.id, None)  # what waited there is for this agent now
        self._report_loss(queue)
        if not mailbox.open:
            return self._removed()
        if not queue.backlog:  # else it resumes when the backlog is here, cancellations included
            self._receiver.resume(mailbox)
        return True

    def _removed(self) -> bool:
        if self._router.ending:
            raise self._router.gone()
        return False

    async def _consume(self, queue: AgentQueue) -> None:
        """Consume a queue, and note whether it was deleted while nobody did."""
        was_here = queue.claimed or queue.id in self._not_deleted
        if was_here and not queue.lost:
            queue.lost = not await self._queues.exists(queue)
        mailbox, receiver = queue.mailbox, self._receiver

        def deliver(tag: Tag, method: Any, properties: Any, body: bytes) -> None:
            if queue.backlog:
                # The whole backlog is here before any of it begins: a request in it may be
                # cancelled further on.
                queue.early.append((tag, method, properties, body))
                if len(queue.early) >= queue.backlog:
                    begin()
            else:
                receiver.take(mailbox, tag, properties, body, redelivered=method.redelivered)

        def begin() -> None:
            first = queue.backlog and mailbox.open
            queue.backlog = 0
            early, queue.early = queue.early, []
            for tag, method, properties, body in early:
                receiver.take(mailbox, tag, properties, body, redelivered=method.redelivered)
            if first:
                receiver.resume(mailbox)

        def cancelled() -> None:
            queue.consumer = ""
            queue.lost = True
            if self._here.get(mailbox) is queue and not self._router.ending:
                logger.warning(
                    "the queue of agent %r is gone from the broker; declaring it again", mailbox.id
                )
                self._thread.spawn(self._restore(queue))

        await self._queues.claim_and_consume(queue, deliver, cancelled)
        if queue.backlog:
            self._loop.call_later(_BACKLOG_S, begin)

    # -- removed -----------------------------------------------------------------------------------

    def remove(self, mailbox: Mailbox) -> None:
        """Delete a removed agent's queue, and then release its id."""
        queue = self._here.pop(mailbox, None)
        if queue is not None:
            # What is published after this may be for another agent of that id.
            self._remove(queue, self._publisher.in_flight(mailbox.id))

    def _remove(self, queue: AgentQueue, sent: list[Outbound]) -> None:
        if not self._router.ending:
            self._leaving[queue.id] = self._thread.spawn(self._release(queue, sent))

    async def removed(self, mailbox: Mailbox) -> None:
        """Wait until a removed agent's queue is deleted."""
        leaving = self._leaving.get(mailbox.id)
        if leaving is not None:
            await asyncio.wait((leaving,))

    async def all_removed(self, timeout: float) -> None:
        """Wait until the queues of all removed agents are deleted, up to so many seconds."""
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()), timeout=timeout)

    async def _release(self, queue: AgentQueue, sent: list[Outbound]) -> None:
        try:
            async with queue.lock:
                await self._delete(queue, sent)
        except (BrokerError, Refused) as error:
            logger.error("the queue of the removed agent %r stays: %s", queue.id, error)
            with suppress(LinkLost, AMQPError, Refused):
                await self._queues.release_claim(queue.id)
        finally:
            del self._leaving[queue.id]
            if not queue.claimed:
                self._delete_left(queue.id)

    async def _delete(self, queue: AgentQueue, sent: list[Outbound]) -> None:
        """Have what is on its way to an agent end, then delete its queue."""
        while queue.claimed:
            try:
                if not self._queues.is_consumed_here(queue):
                    await self._consume(queue)  # what waits there ends too, rather than never
                await self._publisher.confirmed_or_returned(sent)
                await self._queues.delete(queue)
                if queue.lost:
                    self._queue_lost(queue.id)
                return
            except (LinkLost, AMQPError):
                if not self._link.is_up:
                    logger.info("agent %r left while there was no connection", queue.id)
                    self._not_deleted[queue.id] = queue
                    return
            except DuplicateAgent:
                # Another process has the id, or the broker does not know yet that our old
                # connection is lost.
                if queue.until is None:
                    queue.until = self._stale_until()
                if self._loop.time() < queue.until:
                    self._not_deleted[queue.id] = queue
                    self._loop.call_later(_AGAIN_S, self._delete_left, queue.id)
                return
            await asyncio.sleep(_AGAIN_S)

    def _delete_left(self, id: str) -> None:
        """Delete the queue of one removed without a connection, unless an agent has its id now."""
        here = id in self._leaving or any(mailbox.id == id for mailbox in self._here)
        if id in self._not_deleted and not here and self._link.is_up:
            self._remove(self._not_deleted.pop(id), [])

    def _stale_until(self) -> float:
        """Until when another claim may be that of our old connection.

        The broker may take two heartbeats, and some seconds, to see that it is lost.
        """
        return self._loop.time() + 3 * self._heartbeat + 10

    # -- restored ----------------------------------------------------------------------------------

    def restore(self) -> None:
        """Consume the queues on a new channel, and delete those that were left."""
        for id in list(self._not_deleted):
            self._delete_left(id)
        for queue in self._here.values():
            self._thread.spawn(self._restore(queue))

    def _report_loss(self, queue: AgentQueue) -> None:
        if queue.lost and queue.consumer:
            queue.lost = False
            self._queue_lost(queue.id)

    async def _restore(self, queue: AgentQueue) -> None:
        async with queue.lock:
            await self._consume_again(queue)

    async def _consume_again(self, queue: AgentQueue) -> None:
        mailbox, until = queue.mailbox, self._stale_until()
        while self._here.get(mailbox) is queue and self._link.is_up:
            if self._queues.is_consumed_here(queue):
                return
            try:
                await self._consume(queue)
                self._report_loss(queue)
                continue
            except (LinkLost, AMQPError):
                if not self._link.is_up:
                    return  # the next connection restores all
            except DuplicateAgent:
                if self._loop.time() > until:
                    self._here.pop(mailbox, None)
                    self._receiver.give_up(mailbox)
                    text = f'agent "{mailbox.id}" was replaced by one of another process'
                    logger.error("%s while this one had no connection", text)
                    self._evict(mailbox, AgentStopped(text))
                    return
            except BrokerError as error:
                logger.error("%s", error)
            await asyncio.sleep(_AGAIN_S * random.uniform(0.5, 1.0))
