"""The queues of agents at the broker: declared, consumed, deleted; the claims of their ids."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pika.channel import Channel

from civitas.errors import BrokerError, DuplicateAgent
from civitas.spaces.amqp.broker import Broker
from civitas.spaces.amqp.consumer import Tag
from civitas.spaces.amqp.link import LinkLost, Refused
from civitas.spaces.mailbox import Mailbox

logger = logging.getLogger("civitas.amqp")

_NOT_FOUND = 404
_LOCKED = 405
_OTHER_SETTINGS = 406

_SPARE = 100
"""How many more messages than its mailbox holds an agent prefetches: they are to be refused."""

_DRAIN_S = 0.02
_LONGEST_DRAIN_S = 5.0


@dataclass(eq=False)
class AgentQueue:
    """The queue of one agent of this process.

    Attributes:
        mailbox: the agent's, where its messages go
        name: the queue's name
        consumer: AMQP's consumer tag, empty while it is not consumed
        claimed: whether this process had the id, and has it as far as it knows
        channel: the number of the channel that it is consumed on
        backlog: how many messages waited when it was first consumed, and are still to be delivered
        early: those of them that were delivered
        lock: held by the task that adds, restores or removes the agent
        lost: whether the queue was deleted, with what was in it
        until: until when another process's claim may be that of our old connection; None: unclaimed
    """

    mailbox: Mailbox
    name: str
    consumer: str = ""
    claimed: bool = False
    channel: int = 0
    backlog: int = 0
    early: list[tuple[Tag, Any, Any, bytes]] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    lost: bool = False
    until: float | None = None

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.mailbox.id


class AgentQueues:
    """Claims ids, declares and consumes the agents' queues, and deletes them."""

    def __init__(self, broker: Broker, *, limit: int, keep_s: float, quorum: bool) -> None:
        self._call = broker.control.call
        self._consumer = broker.consumer
        self._names = names = broker.names
        self._limit = limit
        self._arguments: dict[str, Any] = {
            "x-dead-letter-exchange": names.dead,
            # A queue that nobody consumes expires when all that came in time is dead-lettered;
            # what is sent to it meanwhile has it live longer (`Presence.renew`).
            "x-message-ttl": int(keep_s * 1000),
            "x-expires": int(keep_s * 2000),
            "x-max-length": limit,
            "x-overflow": "reject-publish",
        }
        if quorum:
            self._arguments["x-queue-type"] = "quorum"

    async def claim_and_consume(
        self,
        queue: AgentQueue,
        deliver: Callable[[Tag, Any, Any, bytes], None],
        cancelled: Callable[[], None],
    ) -> None:
        """Claim an id for this process, as long as its connection lasts, and consume its queue."""
        queue.early.clear()
        prefetch = self._limit + queue.mailbox.places + _SPARE
        count, classic = await self._declare(queue.id, claims=True)
        queue.claimed = True
        queue.backlog = min(count, prefetch)
        bound = asyncio.ensure_future(self._bind(queue.id))
        try:
            channel = self._consumer.number
            queue.consumer = await self._consumer.consume(
                queue.name, deliver, prefetch, cancelled, classic=classic
            )
            queue.channel = channel
        finally:
            await bound

    async def release_claim(self, id: str) -> None:
        """Give an id up."""
        name = self._names.claim_queue(id)
        await self._call(lambda channel, done: channel.queue_delete(name, callback=done))

    def is_consumed_here(self, queue: AgentQueue) -> bool:
        """Whether a queue is consumed on the present channel."""
        return bool(queue.consumer) and queue.channel == self._consumer.number

    async def declare(self, id: str) -> None:
        """Declare the queue of an agent that is not here."""
        await self._declare(id, claims=False)
        await self._bind(id)

    async def _declare(self, id: str, *, claims: bool) -> tuple[int, bool]:
        """How many messages wait in the queue, and whether it is surely a classic one."""
        arguments = self._arguments
        name = self._names.agent_queue(id)

        def declare(channel: Channel, done: Callable[[Any], None]) -> None:
            if claims:
                # Without waiting: a refusal closes the channel before the next declaration.
                channel.queue_declare(self._names.claim_queue(id), exclusive=True)
            channel.queue_declare(name, durable=True, arguments=arguments, callback=done)

        classic = "x-queue-type" not in arguments
        try:
            try:
                found = await self._call(declare)
            except Refused as error:
                if error.code != _OTHER_SETTINGS:
                    raise
                # Declared by a space with another mailbox= or keep=: those settings hold.
                found = await self._state(name)
                classic = False
        except Refused as error:
            if error.code == _LOCKED and claims:
                raise DuplicateAgent(
                    f"an agent {id!r} is in another process of this exchange, and ids are unique"
                ) from None
            raise BrokerError(f"agent {id!r} can have no queue at the broker: {error}") from error
        return found.message_count, classic

    async def _bind(self, id: str) -> None:
        names = self._names
        name = names.agent_queue(id)

        def bind(channel: Channel, done: Callable[[Any], None]) -> None:
            channel.queue_bind(name, names.exchange, names.everyone)
            channel.queue_bind(name, names.exchange, names.agent_key(id), callback=done)

        try:
            await self._call(bind)
        except Refused as error:
            raise BrokerError(f"agent {id!r} can have no messages routed to it: {error}") from error

    async def delete(self, queue: AgentQueue) -> None:
        """Delete an agent's queue once all that was in it is here, and release its id."""
        names, id = self._names, queue.id

        def unbind(channel: Channel, done: Callable[[Any], None]) -> None:
            def next_binding(_: Any) -> None:
                channel.queue_unbind(queue.name, names.exchange, names.everyone, callback=done)

            channel.queue_unbind(
                queue.name, names.exchange, names.agent_key(id), callback=next_binding
            )

        try:
            await self._call(unbind)
            await self._drain(queue)
            # Messages may be on their way here: the broker cancels the consumer after them.
            taken = self._consumer.until_ended(queue.consumer)
            try:
                await self._call(
                    lambda channel, done: channel.queue_delete(queue.name, callback=done)
                )
                await taken
            finally:
                taken.cancel()
        except Refused as error:
            if error.code != _NOT_FOUND:
                raise BrokerError(
                    f"the queue of agent {id!r} cannot be deleted: {error}"
                ) from error
            queue.lost = True
        await self.release_claim(id)

    async def _drain(self, queue: AgentQueue) -> None:
        """Wait until all that is in a queue was delivered here."""
        clock = asyncio.get_running_loop().time
        until = clock() + _LONGEST_DRAIN_S
        while left := (await self._state(queue.name)).message_count:
            if clock() > until:  # nothing is taken: its inbox cannot be written, say
                logger.error(
                    "agent %r is removed, and %d messages are lost with its queue", queue.id, left
                )
                return
            self._consumer.flush()
            await asyncio.sleep(_DRAIN_S)
            if not self.is_consumed_here(queue):
                raise LinkLost("the channel was lost")
        if not self.is_consumed_here(queue):
            raise LinkLost("the channel was lost")

    async def exists(self, queue: AgentQueue) -> bool:
        """Whether a queue is at the broker."""
        return (await self._consumers(queue.name))[1] != _NOT_FOUND

    async def is_consumed(self, id: str) -> bool:
        """Whether some process consumes the queue of an agent."""
        return (await self._consumers(self._names.agent_queue(id)))[0] > 0

    async def is_claimed(self, id: str) -> bool:
        """Whether some process has an agent of that id, even if its queue was just deleted."""
        return (await self._consumers(self._names.claim_queue(id)))[1] in (0, _LOCKED)

    async def _consumers(self, name: str) -> tuple[int, int]:
        """How many consumers a queue has, and the broker's code if it refuses to say."""
        try:
            return (await self._state(name)).consumer_count, 0
        except Refused as error:
            return 0, error.code

    async def _state(self, name: str) -> Any:
        return await self._call(
            lambda channel, done: channel.queue_declare(name, passive=True, callback=done)
        )
