"""Whether agents are at the broker, and what becomes of messages for those without a queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container
from typing import Final

from pika.exceptions import AMQPError

from civitas.errors import BrokerError
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.agent_queues import AgentQueues
from civitas.spaces.amqp.broker import Broker
from civitas.spaces.amqp.connection import LinkLost
from civitas.spaces.amqp.publisher import UNROUTABLE
from civitas.spaces.amqp.wire import Outbound
from civitas.spaces.delivery import Delivery

logger = logging.getLogger("civitas.amqp")

_CHECK_S: Final = 0.01
"""How long a request is unanswered before the broker is asked for its receiver."""

_GONE_S: Final = 0.05
"""How long the last answers of an agent that is gone may take."""

_LOOK_S: Final = 0.2
"""How often the broker is asked for the queue of an agent whose id is claimed."""

_RENEWED: Final = 10_000
_AGAIN_S: Final = 0.5


class Presence:
    """Asks the broker which agents are there, and has messages held until their queue is."""

    def __init__(
        self,
        broker: Broker,
        queues: AgentQueues,
        here: Container[str],
        *,
        absent: Callable[[Delivery], None],
        settled: Callable[[Outbound, str], None],
        keep_s: float,
    ) -> None:
        self._spawn = broker.thread.spawn
        self._loop = broker.loop
        self._publisher = broker.publisher
        self._queues = queues
        self._here = here
        self._absent = absent
        self._settled = settled
        self._keep_s = keep_s
        self._renewed: dict[str, float] = {}
        self._unchecked: dict[str, list[Delivery]] = {}

    # -- queues of agents that are away ------------------------------------------------------------

    def renew(self, id: str) -> None:
        """Have the queue of an agent that is away outlive what was just published to it.

        The broker deletes one that was neither consumed nor declared for twice `keep_s`.
        """
        now = self._loop.time()
        if now - self._renewed.get(id, -self._keep_s) < self._keep_s / 2:
            return
        self._renewed[id] = now
        if len(self._renewed) > _RENEWED:
            del self._renewed[next(iter(self._renewed))]
        self._spawn(self._renew(id))

    async def _renew(self, id: str) -> None:
        try:
            await self._queues.is_consumed(id)
        except (LinkLost, AMQPError):
            self._renewed.pop(id, None)

    # -- requests without an answer ----------------------------------------------------------------

    def check_receiver(self, request: Delivery) -> None:
        """End a request that is not answered in a moment if its receiver is not there."""
        to = request.envelope.to
        unchecked = self._unchecked.setdefault(to, [])
        unchecked.append(request)
        if len(unchecked) == 1:
            self._spawn(self._check(to))

    async def _check(self, to: str) -> None:
        await asyncio.sleep(_CHECK_S)
        requests = self._unchecked.pop(to)
        while requests := [request for request in requests if not request.answered]:
            try:
                if await self._is_there(to):
                    return
                await asyncio.sleep(_GONE_S)  # its last answers may be on their way
                if await self._is_there(to):
                    return
            except (LinkLost, AMQPError):
                await asyncio.sleep(_AGAIN_S)
                continue
            for request in requests:
                self._absent(request)

    async def _is_there(self, id: str) -> bool:
        return await self._queues.is_consumed(id) or await self._queues.is_claimed(id)

    # -- messages that were returned ---------------------------------------------------------------

    def hold_back(self, message: Outbound) -> bool:
        """Hold back a message that the broker returned, if its receiver may be coming."""
        to = message.to
        if not to or message.kind == wire.CANCEL or message.ended:
            return False
        if self._publisher.hold_back(message):
            self._spawn(self._await_queue(to))
        return True

    async def _await_queue(self, to: str) -> None:
        """Publish what is held back once there is a queue, or end it if nobody has the id."""
        publisher, queues, held = self._publisher, self._queues, self._publisher.held
        there = True
        try:
            while to in self._here or await queues.is_claimed(to):
                # Its process declares the queue: it is being added, or its queue was deleted.
                await asyncio.sleep(_LOOK_S)
                if await queues.is_consumed(to):
                    break
            else:
                there = any(each.kind == wire.REQUEST and each.about.wait for each in held(to))
                if there:
                    await queues.declare(to)
            # What was published before it may still be returned.
            await publisher.confirmed_or_returned(publisher.in_flight(to))
        except (LinkLost, AMQPError):
            pass  # it is published on the next connection, and returned again
        except BrokerError as error:
            logger.error("%s", error)
            await asyncio.sleep(_AGAIN_S)
        for message in publisher.take_held(to):
            if there:
                publisher.publish(message)
            else:
                self._settled(message, UNROUTABLE)
