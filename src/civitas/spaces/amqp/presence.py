"""Whether an agent is in some process, and letters to those whose queue is still to come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Final

from pika.exceptions import AMQPError

from civitas.errors import BrokerError
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.agent_queues import Registrar
from civitas.spaces.amqp.link import LinkLost
from civitas.spaces.amqp.publisher import FULL, LIMIT, REFUSABLE, UNROUTABLE, Outbox
from civitas.spaces.amqp.wire import Letter
from civitas.spaces.delivery import Delivery
from civitas.spaces.loop import LoopThread

logger = logging.getLogger("civitas.amqp")

_CHECK_S: Final = 0.01
"""How long a request may be unanswered before it is asked whether anybody is there."""

_GONE_S: Final = 0.05
"""How long it is waited for the last answers of one that is no longer there."""

_FIRST_LOOK_S: Final = 0.1
_LAST_LOOK_S: Final = 1.6
"""How often it is looked whether the queue of an agent is there whose process has the id."""

_RENEWED: Final = 10_000
_AGAIN_S: Final = 0.5
_SOON_S: Final = 0.02


@dataclass(eq=False, slots=True)
class _Held:
    """What is kept for an agent without a queue.

    Attributes:
        returned: what the broker returned, by key, in the order in which it was published
        behind: what was published since, and is still to be sent
    """

    returned: dict[str, Letter] = field(default_factory=dict)
    behind: dict[str, Letter] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.returned) + len(self.behind)

    def letters(self) -> list[Letter]:
        """All of it, in order, but for requests that have ended."""
        kept = (*self.returned.values(), *self.behind.values())
        return [letter for letter in kept if not _is_over(letter)]

    def withdraw(self, key: str) -> bool:
        """Forget a request; whether it was here."""
        found = self.returned.pop(key, None) or self.behind.pop(key, None)
        return found is not None


class Whereabouts:
    """Asks the broker who is there, and keeps letters to those whose queue is still to come."""

    def __init__(
        self,
        thread: LoopThread,
        registrar: Registrar,
        outbox: Outbox,
        here: Container[str],
        nobody: Callable[[Delivery], None],
        remade: Callable[[str], None],
        settled: Callable[[Letter, str], None],
        keep_s: float,
    ) -> None:
        self._thread = thread
        self._loop = thread.loop
        self._registrar = registrar
        self._outbox = outbox
        self._here = here
        self._nobody = nobody
        self._remade = remade
        self._settled = settled
        self._keep_s = keep_s
        self._renewed: dict[str, float] = {}
        self._renewing: dict[str, None] = {}
        self._unchecked: dict[str, list[Delivery]] = {}
        self._missing: dict[str, _Held] = {}
        self._closed = False

    def close(self) -> None:
        """Ask no more."""
        self._closed = True

    def __len__(self) -> int:
        return sum(map(len, self._missing.values()))

    async def emptied(self) -> None:
        """Wait until no letter is held back."""
        while self._missing:  # noqa: ASYNC110 - nothing tells of the last
            await asyncio.sleep(_SOON_S)

    # -- queues of those that are away -------------------------------------------------------------

    def renew(self, id: str) -> None:
        """Something waits for an agent: its queue is to outlive that, so that none of it is lost.

        The broker ends a queue that was neither consumed nor asked about for twice `keep_s`.
        """
        now = self._loop.time()
        if now - self._renewed.get(id, -self._keep_s) < self._keep_s / 2:
            return
        self._renewed[id] = now
        if len(self._renewed) > _RENEWED:
            del self._renewed[next(iter(self._renewed))]
        self._renewing[id] = None
        if len(self._renewing) == 1:
            self._thread.spawn(self._renew())

    async def _renew(self) -> None:
        while self._renewing:
            id = next(iter(self._renewing))
            try:
                await self._registrar.is_consumed(id)
            except (LinkLost, AMQPError):
                self._renewed.pop(id, None)
            del self._renewing[id]

    # -- requests that are not answered ------------------------------------------------------------

    def watch(self, delivery: Delivery) -> None:
        """Find out, if it is not answered in a moment, whether a request's receiver is there."""
        self._look_again(delivery.envelope.to, [delivery], _CHECK_S)

    def _look_again(self, to: str, asked: list[Delivery], wait_s: float) -> None:
        if not self._unchecked:
            self._loop.call_later(wait_s, self._check)
        self._unchecked.setdefault(to, []).extend(asked)

    def _check(self) -> None:
        """Ask the broker for each who has not answered."""
        unchecked, self._unchecked = self._unchecked, {}
        for to, asked in unchecked.items():
            left = [delivery for delivery in asked if not delivery.answered]
            if left:
                self._thread.spawn(self._look_for(to, left))

    async def _look_for(self, to: str, asked: list[Delivery]) -> None:
        try:
            there = await self._is_there(to)
            if not there:
                # It may have left a moment ago, and what it answered then may be on its way.
                await asyncio.sleep(_GONE_S)
                there = await self._is_there(to)
        except (LinkLost, AMQPError):
            if not self._closed:
                self._look_again(to, asked, _AGAIN_S)
            return
        if not there:
            for delivery in asked:
                if not delivery.answered:
                    self._nobody(delivery)

    async def _is_there(self, id: str) -> bool:
        return await self._registrar.is_consumed(id) or await self._registrar.is_claimed(id)

    # -- letters that came back --------------------------------------------------------------------

    def publish(self, letter: Letter) -> None:
        """Send a letter, behind those to the same agent that are held back."""
        held = self._missing.get(letter.to) if self._missing and letter.to else None
        if held is None:
            self._outbox.publish(letter)
        elif letter.kind == wire.CANCEL and held.withdraw(letter.correlation_id or ""):
            if not held:
                del self._missing[letter.to]  # nobody was told of it yet, nor need be
        elif letter.kind in REFUSABLE and len(self) + len(self._outbox) >= LIMIT:
            self._settled(letter, FULL)
        else:
            held.behind[letter.key] = letter

    def returned(self, letter: Letter) -> bool:
        """Whether a letter for which there was no queue is kept, for its receiver may be coming."""
        to = letter.to
        if not to or letter.kind == wire.CANCEL or _is_over(letter):
            return False
        held = self._missing.get(to)
        if held is None:
            held = self._missing[to] = _Held()
            self._thread.spawn(self._await(to))
        held.returned[letter.key] = letter
        return True

    async def _await(self, to: str) -> None:
        """Send what is held back when there is a queue for it, or end it if nobody has the id."""
        told = remade = False
        wait_s = _FIRST_LOOK_S
        while to in self._missing:
            try:
                if to in self._here or await self._registrar.is_claimed(to):
                    # That process declares the queue: it is coming, or its queue was deleted.
                    await asyncio.sleep(wait_s)
                    wait_s = min(2 * wait_s, _LAST_LOOK_S)
                    if await self._registrar.is_consumed(to):
                        break
                    continue
                self._end(to)
                if to in self._missing:
                    await self._registrar.make_room(to)
                    remade = True
                break
            except (LinkLost, AMQPError):
                break  # it is sent on the next connection, and returned again
            except BrokerError as error:
                if not told:
                    logger.error("%s", error)
                told = True
                await asyncio.sleep(_AGAIN_S)
        self._send_held(to, remade)

    def _end(self, to: str) -> None:
        """Nobody has an id: what is held back for it ends, but for requests that wait, and more."""
        held = self._missing[to]
        for letter in held.letters():
            if letter.kind != wire.REQUEST:
                continue
            if letter.about.wait:
                return
            held.withdraw(letter.key)
            self._settled(letter, UNROUTABLE)
        for letter in self.let_go(to):
            self._settled(letter, UNROUTABLE)

    def let_go(self, to: str) -> list[Letter]:
        """Hold nothing back any longer; gives what was, in order."""
        held = self._missing.pop(to, None)
        return [] if held is None else held.letters()

    def _send_held(self, to: str, remade: bool) -> None:
        if to in self._missing and self._outbox.is_sending_to(to):
            # What was said before it is under way, and may come back.
            self._loop.call_later(_SOON_S, self._send_held, to, remade)
        elif remade:
            self._remade(to)
        else:
            for letter in self.let_go(to):
                self._outbox.publish(letter)


def _is_over(letter: Letter) -> bool:
    """Whether it is a request that has ended."""
    return letter.kind == wire.REQUEST and bool(letter.about.answered)
