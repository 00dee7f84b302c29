"""An agent's place at the broker: its id is claimed, its queue is there and is consumed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pika.channel import Channel

from civitas.errors import BrokerError, DuplicateAgent
from civitas.spaces.amqp.consumer import Intake, Tag
from civitas.spaces.amqp.link import Control, LinkLost, Refused
from civitas.spaces.amqp.names import Names

logger = logging.getLogger("civitas.amqp")

_NOT_FOUND = 404
_LOCKED = 405
_OTHER_SETTINGS = 406

_SPARE = 100
"""How many more than its mailbox holds an agent is sent: they come to be refused."""

_DRAIN_S = 0.02
_LONGEST_DRAIN_S = 5.0


@dataclass(eq=False)
class Registration:
    """One agent at the broker.

    Attributes:
        id: the agent's
        queue: where its messages wait
        consumer: AMQP's name of its consumer, empty while it has none
        claimed: whether the id was this process's, and is, as far as it knows
        channel: the number of the channel that it consumes on
        backlog: how many messages waited when it came, and are still to be delivered
        early: those of them that were
        settled: whether it has come, or has failed to
        lost: whether its queue was, with what was in it
        until: when it is given up to whoever claims its id; None while nobody does
        restoring: the task that has it consume again after a loss
    """

    id: str
    queue: str
    consumer: str = ""
    claimed: bool = False
    channel: int = 0
    backlog: int = 0
    early: list[tuple[Tag, Any, Any, bytes]] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False
    until: float | None = None
    restoring: asyncio.Task[None] | None = None


class Registrar:
    """Claims ids and keeps the agents' queues."""

    def __init__(
        self,
        control: Control,
        intake: Intake,
        names: Names,
        *,
        mailbox: int,
        keep_s: float,
        quorum: bool,
    ) -> None:
        self._control = control
        self._intake = intake
        self._names = names
        self._mailbox = mailbox
        self._arguments: dict[str, Any] = {
            "x-dead-letter-exchange": names.dead,
            # An agent that stays away is nobody in the end. Its queue goes when all that came in
            # time has gone to the dead letters; who sends something to it has it stay for longer.
            "x-message-ttl": int(keep_s * 1000),
            "x-expires": int(keep_s * 2000),
            "x-max-length": mailbox,
            "x-overflow": "reject-publish",
        }
        if quorum:
            self._arguments["x-queue-type"] = "quorum"

    async def renounce(self, id: str) -> None:
        """Give an id back."""
        name = self._names.claim_queue(id)
        await self._control.call(lambda channel, done: channel.queue_delete(name, callback=done))

    async def enter(
        self,
        registration: Registration,
        deliver: Callable[[Tag, Any, Any, bytes], None],
        cancelled: Callable[[], None],
        concurrency: int,
    ) -> None:
        """Take an id for this process, as long as its connection lasts, and consume its queue."""
        id = registration.id
        registration.early.clear()
        prefetch = self._mailbox + concurrency + _SPARE
        count, classic = await self._declare(id, claims=True)
        registration.claimed = True
        registration.backlog = min(count, prefetch)
        bound = asyncio.ensure_future(self._bind(id))
        try:
            channel = self._intake.number
            registration.consumer = await self._intake.consume(
                registration.queue, deliver, prefetch, cancelled, classic=classic
            )
            registration.channel = channel
        finally:
            await bound

    def is_served(self, registration: Registration) -> bool:
        """Whether an agent's queue is consumed, on the channel that there is."""
        return bool(registration.consumer) and registration.channel == self._intake.number

    async def make_room(self, id: str) -> None:
        """Have a queue for an agent that is not here."""
        await self._declare(id, claims=False)
        await self._bind(id)

    async def _declare(self, id: str, *, claims: bool) -> tuple[int, bool]:
        """Have a queue for an agent."""
        arguments = self._arguments
        queue = self._names.agent_queue(id)

        def declare(channel: Channel, done: Callable[[Any], None]) -> None:
            if claims:
                # Without waiting: if it is refused, the channel ends before what follows.
                channel.queue_declare(self._names.claim_queue(id), exclusive=True)
            channel.queue_declare(queue, durable=True, arguments=arguments, callback=done)

        classic = "x-queue-type" not in arguments
        try:
            try:
                found = await self._control.call(declare)
            except Refused as error:
                if error.code != _OTHER_SETTINGS:
                    raise
                # Made by a space with another mailbox= or keep=: those settings hold.
                found = await self._state(queue)
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
        queue = names.agent_queue(id)

        def bind(channel: Channel, done: Callable[[Any], None]) -> None:
            channel.queue_bind(queue, names.exchange, names.everyone)
            channel.queue_bind(queue, names.exchange, names.agent_key(id), callback=done)

        try:
            await self._control.call(bind)
        except Refused as error:
            raise BrokerError(f"agent {id!r} can have no messages routed to it: {error}") from error

    async def leave(self, registration: Registration) -> None:
        """Delete an agent's queue, when all that is in it was taken, and give its id back."""
        names, queue, id = self._names, registration.queue, registration.id

        def unbind(channel: Channel, done: Callable[[Any], None]) -> None:
            channel.queue_unbind(
                queue,
                names.exchange,
                names.agent_key(id),
                callback=lambda _: channel.queue_unbind(
                    queue, names.exchange, names.everyone, callback=done
                ),
            )

        try:
            await self._control.call(unbind)
            await self._drain(registration)
            # What the broker has delivered may still be on its way here: the queue's end comes
            # behind it.
            taken = self._intake.until_ended(registration.consumer)
            try:
                await self._control.call(
                    lambda channel, done: channel.queue_delete(queue, callback=done)
                )
                await taken
            finally:
                taken.cancel()
        except Refused as error:
            if error.code != _NOT_FOUND:
                raise BrokerError(
                    f"the queue of agent {id!r} cannot be deleted: {error}"
                ) from error
            registration.lost = True
        await self.renounce(id)

    async def _drain(self, registration: Registration) -> None:
        """Wait until an agent was brought all that is in its queue."""
        clock = asyncio.get_running_loop().time
        until = clock() + _LONGEST_DRAIN_S
        while left := (await self._state(registration.queue)).message_count:
            if clock() > until:  # nothing is taken: its inbox cannot be written, say
                logger.error(
                    "agent %r leaves, and %d messages go with its queue", registration.id, left
                )
                return
            self._intake.flush()
            await asyncio.sleep(_DRAIN_S)
            if not self.is_served(registration):
                raise LinkLost("the channel was lost")
        if not self.is_served(registration):
            raise LinkLost("the channel was lost")

    async def is_there(self, registration: Registration) -> bool:
        """Whether an agent's queue is."""
        try:
            await self._state(registration.queue)
        except Refused as error:
            return error.code != _NOT_FOUND
        return True

    async def is_consumed(self, id: str) -> bool:
        """Whether messages of the agent of that id come to some process now."""
        try:
            found = await self._state(self._names.agent_queue(id))
        except Refused:
            return False
        return bool(found.consumer_count)

    async def is_claimed(self, id: str) -> bool:
        """Whether some process has an agent of that id, even if its queue has just been lost."""
        try:
            await self._state(self._names.claim_queue(id))
        except Refused as error:
            return error.code == _LOCKED
        return True

    async def _state(self, queue: str) -> Any:
        return await self._control.call(
            lambda channel, done: channel.queue_declare(queue, passive=True, callback=done)
        )
