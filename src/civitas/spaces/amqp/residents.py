"""The agents of a process at the broker: they come, are there again after a loss, and leave."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from pika.exceptions import AMQPError

from civitas.errors import AgentStopped, BrokerError, DuplicateAgent, RequestError
from civitas.spaces.amqp import letter as letters
from civitas.spaces.amqp.control import Refused
from civitas.spaces.amqp.link import LinkLost
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.registrar import Registrar, Registration

if TYPE_CHECKING:
    from civitas.spaces.amqp.intake import Tag
    from civitas.spaces.amqp.office import AMQPOffice
    from civitas.spaces.seat import Seat

__all__ = ["Residents"]

logger = logging.getLogger("civitas.amqp")

_BACKLOG_S: Final = 2.0
"""How long it is waited for all that had waited for an agent."""

_AGAIN_S: Final = 0.5


class Residents:
    """Has the messages of each agent here come here, for as long as it is here.

    Args:
        office: takes what comes
        names: what things are called at the broker
        registrar: claims and consumes
        heartbeat: seconds; the broker may take two of them to see that a connection is dead
        evict: called with the seat of an agent whose id another process has taken
    """

    def __init__(
        self,
        office: AMQPOffice,
        names: Names,
        registrar: Registrar,
        heartbeat: int,
        evict: Callable[[Seat, RequestError], None],
    ) -> None:
        self._office = office
        self._names = names
        self._registrar = registrar
        self._heartbeat = heartbeat
        self._evict = evict
        self._registrations: dict[Seat, Registration] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._left_behind: dict[Seat, Registration] = {}

    @property
    def ids(self) -> Iterable[str]:
        """The ids of those that are here, or about to be."""
        return (seat.id for seat in self._registrations)

    # -- coming ------------------------------------------------------------------------------------

    async def claim(self, seat: Seat) -> bool:
        """Have an agent's messages come here.

        Returns:
            whether it is still here, when that is done; it may have been removed meanwhile

        Raises:
            SpaceClosed: the space is being closed
            DuplicateAgent: another process has an agent of that id
            BrokerError: there is no broker, or it would not
        """
        office = self._office
        await office.link.open()
        while (leaving := self._leaving.get(seat.id)) is not None:
            await asyncio.wait((leaving,))  # one of that id, whose queue is being deleted
        if not seat.open:
            return self._left(seat)
        registration = Registration(seat.id, self._names.agent_queue(seat.id))
        self._registrations[seat] = registration
        try:
            while seat.open:
                try:
                    await self._enter(seat, registration)
                    break
                except LinkLost:
                    await asyncio.sleep(_AGAIN_S)  # the connection is made again
        except DuplicateAgent:
            self._registrations.pop(seat, None)  # nothing of it is there to be given up
            raise
        finally:
            registration.settled.set()
        if not seat.open:
            return self._left(seat)
        if not registration.backlog:  # else when that is there, with what was cancelled meanwhile
            office.arrivals.resume(seat)
        return True

    def _left(self, seat: Seat) -> bool:
        if self._office.ending:
            raise self._office.gone()
        return False

    async def _enter(self, seat: Seat, registration: Registration) -> None:
        arrivals = self._office.arrivals

        def deliver(tag: Tag, method: Any, properties: Any, body: bytes) -> None:
            if registration.backlog:
                # What waited comes whole, before any of it is begun: among it may be word that
                # whoever asked wants the answer no more.
                registration.early.append((tag, method, properties, body))
                if len(registration.early) >= registration.backlog:
                    begin()
            else:
                arrivals.take(seat, tag, properties, body, again=method.redelivered)

        def begin() -> None:
            first = registration.backlog and seat.open
            registration.backlog = 0
            early, registration.early = registration.early, []
            for _, _, properties, _ in early:
                if properties.type == letters.CANCEL:
                    arrivals.unwanted(properties.correlation_id or "", seat.id)
            for tag, method, properties, body in early:
                arrivals.take(seat, tag, properties, body, again=method.redelivered)
            if first:
                arrivals.resume(seat)

        def cancelled() -> None:
            if self._registrations.get(seat) is registration and not self._office.ending:
                logger.warning("the queue of agent %r is gone from the broker; making it", seat.id)
                registration.consumer = ""
                registration.lost = True
                self._restore(seat, registration)

        await self._registrar.enter(registration, deliver, cancelled, seat.concurrency)
        if registration.backlog:
            self._office.loop.call_later(_BACKLOG_S, begin)

    # -- leaving -----------------------------------------------------------------------------------

    def departs(self, seat: Seat) -> None:
        """An agent leaves for good: its queue goes, and then its id is free."""
        registration = self._registrations.pop(seat, None)
        if registration is not None:
            self._leave(seat, registration)

    def _leave(self, seat: Seat, registration: Registration) -> None:
        if not self._office.ending:
            leaving = self._office.thread.spawn(self._release(seat, registration))
            self._leaving[seat.id] = leaving

    async def departed(self, seat: Seat) -> None:
        """Wait until it is."""
        leaving = self._leaving.get(seat.id)
        if leaving is not None:
            await asyncio.wait((leaving,))

    async def _release(self, seat: Seat, registration: Registration) -> None:
        try:
            await registration.settled.wait()
            if registration.restoring is not None:
                await asyncio.wait((registration.restoring,))
            if not registration.claimed:
                return
            if not self._registrar.is_served(registration):
                # What waits there ends too, rather than its senders wait for ever.
                await self._enter(seat, registration)
            await self._office.outbox.taken(seat.id)
            await self._registrar.leave(registration)
        except (LinkLost, AMQPError):
            logger.info("agent %r left while there was no connection", seat.id)
            self._left_behind[seat] = registration
        except DuplicateAgent:
            pass  # another process has it by now, and what waits there is for that one
        except (BrokerError, Refused) as error:
            logger.error("agent %r has left, but not the broker: %s", seat.id, error)
        finally:
            del self._leaving[seat.id]

    # -- after a loss ------------------------------------------------------------------------------

    def restore(self) -> None:
        """Have everybody's messages come here again, on a new channel; but for those who left."""
        left, self._left_behind = self._left_behind, {}
        for seat, registration in left.items():
            if seat.id not in self._leaving and seat.id not in self.ids:
                self._leave(seat, registration)
        for seat, registration in list(self._registrations.items()):
            if registration.settled.is_set():
                self._restore(seat, registration)

    def _restore(self, seat: Seat, registration: Registration) -> None:
        coming = registration.restoring
        if coming is None or coming.done():  # else it sees to it that all is there in the end
            registration.restoring = self._office.thread.spawn(self._come_back(seat, registration))

    async def _come_back(self, seat: Seat, registration: Registration) -> None:
        office = self._office
        # The broker may take two heartbeats, and some seconds, to see that our old self is dead.
        until = office.loop.time() + 3 * self._heartbeat + 10
        while self._registrations.get(seat) is registration and office.link.is_up:
            if self._registrar.is_served(registration):
                return
            try:
                await self._enter(seat, registration)
                if registration.lost:
                    registration.lost = False
                    office.was_lost(seat.id)
                continue
            except (LinkLost, AMQPError):
                if not office.link.is_up:
                    return  # the next connection restores all
            except DuplicateAgent:
                if office.loop.time() > until:
                    self._registrations.pop(seat, None)
                    office.arrivals.disown(seat)
                    text = f'agent "{seat.id}" was replaced by one of another process'
                    logger.error("%s while this one had no connection", text)
                    self._evict(seat, AgentStopped(text))
                    return
            except BrokerError as error:
                logger.error("%s", error)
            await asyncio.sleep(_AGAIN_S * random.uniform(0.5, 1.0))
