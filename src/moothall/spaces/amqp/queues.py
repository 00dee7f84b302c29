"""The agents' queues at the broker: declared, bound and looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pika.channel import Channel
from pika.exceptions import AMQPError

from moothall.foundation.errors import BrokerError, DuplicateAgent
from moothall.spaces.amqp.link.broker import CLASSIC, Broker
from moothall.spaces.amqp.link.connection import LOCKED, NOT_FOUND, LinkLost, RefusedByBroker

_HINTS: Final = {NOT_FOUND: ": start that node, or use quorum=True (--quorum) from the beginning"}

_SHARED_CLAIM_MS: Final = 1000
"""How long an id stays shared after the last of its processes has gone."""


class QueueState(NamedTuple):
    """What the broker says of a queue."""

    exists: bool
    in_use: bool  # whether it is consumed, or belongs to another connection
    messages: int


@dataclass(eq=False, repr=False)
class Queues:
    """Declares the queues of agents, and asks the broker about them.

    An agent's process claims its id by an exclusive queue, which no other process can declare. The
    processes of a shared agent declare the same queue without that, and consume it.
    """

    broker: Broker

    def __post_init__(self) -> None:
        limits = self.broker.limits
        self._call = self.broker.control.call
        self._names = self.broker.names
        self._arguments: dict[str, Any] = {
            "x-dead-letter-exchange": self._names.dead_exchange,
            # A queue without a consumer expires after its last messages are dead-lettered;
            # messages that are sent to it meanwhile extend its life (`Presence.renew`).
            "x-message-ttl": int(limits.message_ttl_s * 1000),
            "x-expires": int(limits.message_ttl_s * 2000),
            "x-max-length": limits.max_messages,
            "x-max-length-bytes": limits.max_bytes,
            "x-overflow": "reject-publish",
            "x-queue-type": self.broker.queue_type,
        }
        self._shared_claim_options: dict[str, Any] = {
            "durable": True,
            "arguments": {"x-expires": _SHARED_CLAIM_MS, "x-queue-type": self.broker.queue_type},
        }

    # -- declared ----------------------------------------------------------------------------------

    async def claim(self, id: str, *, shared: bool) -> tuple[int, bool]:
        """Claim an id while the connection lasts, and declare the queue of its agent."""
        return await self.declare(id, self._shared_claim_options if shared else {"exclusive": True})

    async def declare(
        self, id: str, claim_options: dict[str, Any] | None = None
    ) -> tuple[int, bool]:
        """Declare an agent's queue; return how many messages wait, and if it is surely classic."""

        def declare_claim(channel: Channel) -> None:
            if claim_options is not None:
                channel.queue_declare(self._names.queue("claim", id), **claim_options)

        name, arguments = self._names.queue("agent", id), self._arguments
        try:
            declaration, has_our_arguments = await self.broker.control.declare(
                name, arguments, declare_claim
            )
        except RefusedByBroker as error:
            if error.code == LOCKED and claim_options is not None:
                raise DuplicateAgent(
                    f"an agent {id!r} is in another process of this exchange, and ids are unique: "
                    "give this one another id, or end that process, or add each with shared=True"
                ) from None
            raise BrokerError(
                f"agent {id!r} can have no queue at the broker: {error}{_HINTS.get(error.code, '')}"
            ) from error
        return declaration.message_count, has_our_arguments and self.broker.queue_type == CLASSIC

    def _routing_keys(self, id: str, groups: Iterable[str]) -> list[str]:
        """Return the routing keys of all messages to an agent, those to it alone last."""
        names = self._names
        to_groups = (names.key("group", each) for each in groups)
        return [names.all_agents, *to_groups, names.key("agent", id)]

    async def bind(self, id: str, groups: Iterable[str]) -> None:
        """Have the broker route to its queue an agent's messages, its groups', and broadcasts."""
        name, exchange = self._names.queue("agent", id), self._names.exchange
        *other_keys, own_key = self._routing_keys(id, groups)

        def bind(channel: Channel, callback: Callable[[Any], None]) -> None:
            # The broker answers the last one alone: it works in order, so that all are bound then.
            for key in other_keys:
                channel.queue_bind(name, exchange, key)
            channel.queue_bind(name, exchange, own_key, callback=callback)

        try:
            await self._call(bind)
        except RefusedByBroker as error:
            raise BrokerError(f"agent {id!r} can have no messages routed to it: {error}") from error

    async def unbind(self, id: str, groups: Iterable[str]) -> None:
        """Have the broker route nothing more to an agent's queue."""
        name, exchange = self._names.queue("agent", id), self._names.exchange
        for key in self._routing_keys(id, groups):
            await self._call(Channel.queue_unbind, name, exchange, key)

    async def delete(self, kind: str, id: str) -> None:
        """Delete a queue of an agent."""
        await self._call(Channel.queue_delete, self._names.queue(kind, id))

    # -- looked at ---------------------------------------------------------------------------------

    async def state(self, kind: str, id: str) -> QueueState:
        """Return what the broker says of a queue of an agent."""
        name = self._names.queue(kind, id)
        try:
            declaration = await self._call(Channel.queue_declare, name, passive=True)
        except RefusedByBroker as error:
            is_locked = error.code == LOCKED  # the exclusive queue of another process
            return QueueState(is_locked, is_locked, 0)
        return QueueState(True, declaration.consumer_count > 0, declaration.message_count)

    async def is_served(self, id: str) -> bool:
        """Return whether some process has an agent of that id, or waits to take the id over."""
        return (await self.state("agent", id)).in_use or await self.is_claimed(id)

    async def is_claimed(self, id: str) -> bool:
        """Return whether some other process has that id, even without a queue, or waits for it."""
        # The claim of a shared agent outlives its processes.
        has_claim = (await self.state("claim", id)).in_use
        return has_claim or (await self.state("standby", id)).exists

    async def stand_by(self, id: str) -> bool:
        """Have requests to an id wait while no process has it, since this one takes it over.

        Return whether they do; this is called again and again, since connections are lost.
        """
        await self.broker.open()
        name = self._names.queue("standby", id)
        try:
            await self._call(Channel.queue_declare, name, exclusive=True)
        except RefusedByBroker as error:
            if error.code == LOCKED:  # another process stands by, too
                return True
            raise BrokerError(
                f"no queue can wait for agent {id!r} at the broker: {error}"
            ) from error
        except (LinkLost, AMQPError):
            return False
        return True
