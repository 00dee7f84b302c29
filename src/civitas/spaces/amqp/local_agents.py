"""The agents of a process at the broker: they come, are there again after a loss, and leave."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from pika.exceptions import AMQPError

from civitas.errors import AgentStopped, BrokerError, DuplicateAgent, RequestError
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.agent_queues import Registrar, Registration
from civitas.spaces.amqp.consumer import Tag
from civitas.spaces.amqp.link import Link, LinkLost, Refused
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.publisher import Outbox
from civitas.spaces.amqp.receiver import Receiver
from civitas.spaces.amqp.wire import Letter
from civitas.spaces.mailbox import Seat
from civitas.spaces.router import PostOffice

logger = logging.getLogger("civitas.amqp")

_BACKLOG_S: Final = 2.0
"""How long it is waited for all that had waited for an agent."""

_AGAIN_S: Final = 0.5


class Residents:
    """Has the messages of each agent here come here, for as long as it is here."""

    def __init__(
        self,
        office: PostOffice,
        *,
        link: Link,
        receiver: Receiver,
        outbox: Outbox,
        names: Names,
        registrar: Registrar,
        heartbeat: int,
        lost: Callable[[str], None],
        evict: Callable[[Seat, RequestError], None],
    ) -> None:
        self._office = office
        self._thread = office.thread
        self._loop = office.loop
        self._lost = lost
        self._link = link
        self._receiver = receiver
        self._outbox = outbox
        self._names = names
        self._registrar = registrar
        self._heartbeat = heartbeat
        self._evict = evict
        self._registrations: dict[Seat, Registration] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._left_behind: dict[str, tuple[Seat, Registration]] = {}

    @property
    def ids(self) -> Iterable[str]:
        """The ids of those that are here, or about to be."""
        return (seat.id for seat in self._registrations)

    # -- coming ------------------------------------------------------------------------------------

    async def claim(self, seat: Seat) -> bool:
        """Have an agent's messages come here."""
        await self._link.open()
        while (leaving := self._leaving.get(seat.id)) is not None:
            await asyncio.wait((leaving,))  # one of that id, whose queue is being deleted
        if not seat.open:
            return self._left(seat)
        registration = Registration(seat.id, self._names.agent_queue(seat.id))
        self._registrations[seat] = registration
        try:
            while seat.open:
                try:
                    await self._enter_again(seat, registration)
                    break
                except LinkLost:
                    await asyncio.sleep(_AGAIN_S)  # the connection is made again
        except DuplicateAgent:
            self._registrations.pop(seat, None)  # nothing of it is there to be given up
            self._look_back(seat.id)
            raise
        finally:
            registration.settled.set()
        if registration.claimed:
            self._left_behind.pop(seat.id, None)  # what waited for that one is for this one now
        self._tell_of_loss(registration)
        if not seat.open:
            return self._left(seat)
        if not registration.backlog:  # else when that is there, with what was cancelled meanwhile
            self._receiver.resume(seat)
        return True

    def _left(self, seat: Seat) -> bool:
        if self._office.ending:
            raise self._office.gone()
        return False

    async def _enter(self, seat: Seat, registration: Registration) -> None:
        receiver = self._receiver

        def deliver(tag: Tag, method: Any, properties: Any, body: bytes) -> None:
            if registration.backlog:
                # What waited comes whole, before any of it is begun: among it may be word that
                # whoever asked wants the answer no more.
                registration.early.append((tag, method, properties, body))
                if len(registration.early) >= registration.backlog:
                    begin()
            else:
                receiver.take(seat, tag, properties, body, again=method.redelivered)

        def begin() -> None:
            first = registration.backlog and seat.open
            registration.backlog = 0
            early, registration.early = registration.early, []
            for _, _, properties, _ in early:
                if properties.type == wire.CANCEL:
                    receiver.unwanted(properties.correlation_id or "", seat.id)
            for tag, method, properties, body in early:
                receiver.take(seat, tag, properties, body, again=method.redelivered)
            if first:
                receiver.resume(seat)

        def cancelled() -> None:
            registration.consumer = ""
            registration.lost = True
            if self._registrations.get(seat) is registration and not self._office.ending:
                logger.warning("the queue of agent %r is gone from the broker; making it", seat.id)
                self._restore(seat, registration)

        await self._registrar.enter(registration, deliver, cancelled, seat.places)
        if registration.backlog:
            self._loop.call_later(_BACKLOG_S, begin)

    # -- leaving -----------------------------------------------------------------------------------

    def departs(self, seat: Seat) -> None:
        """An agent leaves for good: its queue goes, and then its id is free."""
        registration = self._registrations.pop(seat, None)
        if registration is not None:
            # What is sent from here on may be for another of that id.
            self._leave(seat, registration, self._outbox.watch(seat.id))

    def _leave(self, seat: Seat, registration: Registration, sent: set[Letter]) -> None:
        if self._office.ending:
            self._outbox.forget(sent)
        else:
            leaving = self._thread.spawn(self._release(seat, registration, sent))
            self._leaving[seat.id] = leaving

    async def departed(self, seat: Seat) -> None:
        """Wait until it is."""
        leaving = self._leaving.get(seat.id)
        if leaving is not None:
            await asyncio.wait((leaving,))

    async def all_departed(self, timeout: float) -> None:
        """Wait until nobody is about to leave, for so many seconds at the most."""
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()), timeout=timeout)

    async def _release(self, seat: Seat, registration: Registration, sent: set[Letter]) -> None:
        try:
            await registration.settled.wait()
            if registration.restoring is not None:
                await asyncio.wait((registration.restoring,))
            while registration.claimed:
                try:
                    await self._give_up(seat, registration, sent)
                    return
                except (LinkLost, AMQPError):
                    if not self._link.is_up:
                        logger.info("agent %r left while there was no connection", seat.id)
                        self._left_behind[seat.id] = (seat, registration)
                        return
                except DuplicateAgent:
                    # Another process has it by now, or the broker has still to see that our old
                    # self is dead.
                    if registration.until is None:
                        registration.until = self._patience()
                    if self._loop.time() < registration.until:
                        self._left_behind[seat.id] = (seat, registration)
                        self._loop.call_later(_AGAIN_S, self._look_back, seat.id)
                    return
                await asyncio.sleep(_AGAIN_S)
        except (BrokerError, Refused) as error:
            logger.error("agent %r has left, but not the broker: %s", seat.id, error)
            with suppress(LinkLost, AMQPError, Refused):
                await self._registrar.renounce(seat.id)
        finally:
            self._outbox.forget(sent)
            del self._leaving[seat.id]
            if not registration.claimed:
                self._look_back(seat.id)

    async def _give_up(self, seat: Seat, registration: Registration, sent: set[Letter]) -> None:
        """Have what is on its way to an agent end, its queue deleted, and its id free."""
        if not self._registrar.is_served(registration):
            # What waits there ends too, rather than its senders wait for ever.
            await self._enter_again(seat, registration)
        await self._outbox.taken(sent)
        await self._registrar.leave(registration)
        if registration.lost:
            self._lost(seat.id)

    def _look_back(self, id: str) -> None:
        """See to one who left while it could not be seen to, unless another of its id is here."""
        here = id in self._leaving or id in set(self.ids)
        if id in self._left_behind and not here and self._link.is_up:
            self._leave(*self._left_behind.pop(id), set())

    def _patience(self) -> float:
        """Until when another process's claim may be that of our own old self.

        The broker may take two heartbeats, and some seconds, to see that it is dead.
        """
        return self._loop.time() + 3 * self._heartbeat + 10

    # -- after a loss ------------------------------------------------------------------------------

    def restore(self) -> None:
        """Have everybody's messages come here again, on a new channel; but for those who left."""
        for id in list(self._left_behind):
            self._look_back(id)
        for seat, registration in list(self._registrations.items()):
            if registration.settled.is_set():
                self._restore(seat, registration)

    def _restore(self, seat: Seat, registration: Registration) -> None:
        coming = registration.restoring
        if coming is None or coming.done():  # else it sees to it that all is there in the end
            registration.restoring = self._thread.spawn(self._come_back(seat, registration))

    async def _enter_again(self, seat: Seat, registration: Registration) -> None:
        """Enter, and see whether the queue was deleted while nobody consumed it."""
        was_here = registration.claimed or seat.id in self._left_behind
        if was_here and not registration.lost:
            registration.lost = not await self._registrar.is_there(registration)
        await self._enter(seat, registration)

    def _tell_of_loss(self, registration: Registration) -> None:
        if registration.lost and registration.consumer:
            registration.lost = False
            self._lost(registration.id)

    async def _come_back(self, seat: Seat, registration: Registration) -> None:
        until = self._patience()
        while self._registrations.get(seat) is registration and self._link.is_up:
            if self._registrar.is_served(registration):
                return
            try:
                await self._enter_again(seat, registration)
                self._tell_of_loss(registration)
                continue
            except (LinkLost, AMQPError):
                if not self._link.is_up:
                    return  # the next connection restores all
            except DuplicateAgent:
                if self._loop.time() > until:
                    self._registrations.pop(seat, None)
                    self._receiver.disown(seat)
                    text = f'agent "{seat.id}" was replaced by one of another process'
                    logger.error("%s while this one had no connection", text)
                    self._evict(seat, AgentStopped(text))
                    return
            except BrokerError as error:
                logger.error("%s", error)
            await asyncio.sleep(_AGAIN_S * random.uniform(0.5, 1.0))
