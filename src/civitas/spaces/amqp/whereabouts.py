"""Who is somewhere, as far as a process knows, and letters to those who may be back in a moment."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Container
from typing import Final

from pika.exceptions import AMQPError

from civitas.errors import BrokerError
from civitas.spaces.amqp import letter as letters
from civitas.spaces.amqp.letter import Letter
from civitas.spaces.amqp.link import LinkLost
from civitas.spaces.amqp.outbox import FULL, LIMIT, REFUSABLE, RETURNED, Outbox
from civitas.spaces.amqp.registrar import Registrar
from civitas.spaces.delivery import Delivery
from civitas.spaces.loop import LoopThread

__all__ = ["Whereabouts"]

logger = logging.getLogger("civitas.amqp")

_CHECK_S: Final = 0.01
"""How long a request may be unanswered before it is asked whether anybody is there."""

_GONE_S: Final = 0.05
"""How long it is waited for the last answers of one that is no longer there."""

_MISSING_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
"""When a message is sent again to an agent whose queue has gone, as it may for a moment.

While a process has the agent's id it makes the queue again, and the last of these goes on.
"""

_MET: Final = 10_000
"""How many ids of agents elsewhere are kept."""

_RENEWED: Final = 10_000
_Name = tuple[str | None, bool]
"""A letter's key, and whether it is one that is sent again."""
_AGAIN_S: Final = 0.5
_SOON_S: Final = 0.02


class Whereabouts:
    """Asks the broker who is there, and sends again what came back too early.

    Args:
        thread: the loop's thread
        registrar: knows whose queue is consumed
        outbox: sends
        here: the ids of the agents of this process
        nobody: called with a request that is not answered, and whose receiver is nowhere
        settled: called with a letter that is not held back any longer, and how it went
        keep_s: how long messages wait for an agent that is away
    """

    def __init__(
        self,
        thread: LoopThread,
        registrar: Registrar,
        outbox: Outbox,
        here: Container[str],
        nobody: Callable[[Delivery], None],
        settled: Callable[[Letter, str], None],
        keep_s: float,
    ) -> None:
        self._thread = thread
        self._loop = thread.loop
        self._registrar = registrar
        self._outbox = outbox
        self._here = here
        self._nobody = nobody
        self._settled = settled
        self._keep_s = keep_s
        self._renewed: dict[str, float] = {}
        self._renewing: dict[str, None] = {}
        self._met: dict[str, None] = {}
        self._unchecked: dict[str, list[Delivery]] = {}
        self._missing: dict[str, dict[_Name, Letter]] = {}
        self._closed = False

    def met(self, id: str) -> None:
        """Somebody of that id was there a moment ago."""
        if id not in self._met and id not in self._here:
            self._met[id] = None
            if len(self._met) > _MET:
                del self._met[next(iter(self._met))]

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
        elif letter.kind == letters.CANCEL and (letter.correlation_id, False) in held:
            del held[letter.correlation_id, False]  # nobody was told of it yet, nor need be
        elif letter.kind in REFUSABLE and len(self) + len(self._outbox) >= LIMIT:
            self._settled(letter, FULL)
        else:
            held[letter.key, letter.is_copy] = letter

    def returned(self, letter: Letter) -> bool:
        """Whether a letter for which there was no queue is sent again later."""
        to = letter.to
        request = letter.kind == letters.REQUEST
        if not to or letter.kind == letters.CANCEL or (request and letter.about.answered):
            return False
        if request and letter.about.wait and to not in self._here:
            letter.tries += 1
            self._hold_back(letter)
            self._thread.spawn(self._make_room(to))
            return True
        if letter.tries >= len(_MISSING_S):
            return False
        letter.tries += 1
        if self._hold_back(letter):
            self._thread.spawn(self._await(to, letter.tries - 1))
        return True

    async def _await(self, to: str, tries: int) -> None:
        """Send what is held back when the agent's queue may be there again.

        If a process has the agent's id, that is when its queue is consumed, however long it takes:
        it may be busy, or its broker short of something.
        """
        registrar = self._registrar
        there = False
        while not there and to in self._missing:
            claimed = False
            try:
                claimed = await registrar.is_claimed(to)
                if not claimed and to not in self._here:
                    self._let_go(to)
                if to in self._missing:
                    await asyncio.sleep(_MISSING_S[tries])
                there = not claimed or await registrar.is_consumed(to)
            except (LinkLost, AMQPError):
                there = not claimed  # all is sent again on the next connection
            tries = min(tries + 1, len(_MISSING_S) - 1)
        self._send_held(to)

    def _let_go(self, to: str) -> None:
        """Nobody is about to make the queue: a request is not kept waiting, nor is a stranger."""
        left: dict[_Name, Letter] = {}
        for letter in self._missing.pop(to, {}).values():
            request = letter.kind == letters.REQUEST
            if (request and letter.about.wait) or (not request and to in self._met):
                left[letter.key, letter.is_copy] = letter
            else:
                letter.tries = len(_MISSING_S)
                self._settled(letter, RETURNED)
        if left:
            self._missing[to] = left | self._missing.pop(to, {})

    def _hold_back(self, letter: Letter) -> bool:
        """Keep a letter; whether it is the first to that agent."""
        held = self._missing.setdefault(letter.to, {})
        held[letter.key, letter.is_copy] = letter
        return len(held) == 1

    def back(self, to: str) -> None:
        """Somebody's queue is there again."""
        self.met(to)
        self._send_held(to)

    def _send_held(self, to: str) -> None:
        if to in self._missing and self._outbox.is_sending_to(to):
            # What was said before it is under way, and may come back.
            self._loop.call_later(_SOON_S, self._send_held, to)
            return
        for letter in sorted(self._missing.pop(to, {}).values(), key=_age):
            if letter.kind != letters.REQUEST or not letter.about.answered:
                self._outbox.publish(letter)

    async def _make_room(self, to: str) -> None:
        """Have a queue for an agent that was never there, for a request that waits for it."""
        told = False
        while to in self._missing:
            try:
                await self._registrar.make_room(to)
                break
            except (LinkLost, AMQPError):
                pass
            except BrokerError as error:
                if not told:
                    logger.error("%s", error)
                told = True
            await asyncio.sleep(_AGAIN_S)
        self._send_held(to)


def _age(letter: Letter) -> float:
    """What letters are sent by: in the order in which they were published first."""
    return letter.number or math.inf
