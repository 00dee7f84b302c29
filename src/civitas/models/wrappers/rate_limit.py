"""Keeping to a provider's limits of requests and tokens in any minute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from civitas.arguments import check_count
from civitas.threads import settle

if TYPE_CHECKING:
    from civitas.models.protocol import Usage

_MINUTE_S = 60.0


@dataclass(eq=False, slots=True)
class Reservation:
    """A call's share of a limit."""

    _limit: RateLimit
    at: float
    tokens: int
    counted: bool = True

    def settle_by(self, usage: Usage) -> None:
        """Settle with the provider's count; without a count, the estimate remains."""
        if usage.total:
            self.settle(usage.total)

    def settle(self, tokens: int) -> None:
        """Replace the estimate by the actual number of tokens."""
        limit = self._limit
        with limit._guard:
            if self.counted:
                limit._tokens += tokens - self.tokens
            fewer = tokens < self.tokens
            self.tokens = tokens
            if fewer:
                limit._wake_first()


class RateLimit:
    """A limit of requests and tokens in any 60 seconds, shared by all that use this object.

    Models, agents, threads and event loops may share one. Requests begin in order of arrival: a
    small one does not overtake a large one. A waiting request holds no lock, and one that is
    cancelled while waiting takes nothing.

    A request counts by its estimate when it begins, and by the provider's count when it has ended.
    A request with an estimate above the limit waits until no other counts.

    Args:
        requests_per_minute: how many requests may begin in any 60 seconds; None for no limit
        tokens_per_minute: how many tokens these may have together; None for no limit
        clock: for tests, what has `now()` in seconds and an async `sleep(seconds)`

    Raises:
        DefinitionError: a limit is not a whole number from 1
    """

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        clock: Any = None,
    ) -> None:
        check_count("RateLimit", "requests_per_minute", requests_per_minute, optional=True)
        check_count("RateLimit", "tokens_per_minute", tokens_per_minute, optional=True)
        self.requests_per_minute = requests_per_minute
        self.tokens_per_minute = tokens_per_minute
        self._now = time.monotonic if clock is None else clock.now
        self._wait = asyncio.sleep if clock is None else clock.sleep
        # Held for a few instructions, never while waiting.
        self._guard = threading.Lock()
        self._begun: deque[Reservation] = deque()
        self._tokens = 0
        # In order of arrival; each is woken, on its own loop, to check whether there is room.
        self._waiting: dict[object, asyncio.Future[None]] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    async def acquire(self, tokens: int = 0) -> Reservation:
        """Wait until a request may begin.

        Args:
            tokens: an estimate of its tokens
        """
        place, loop = object(), asyncio.get_running_loop()
        try:
            while True:
                delay = None
                with self._guard:
                    woken = self._waiting[place] = loop.create_future()
                    if self._first() is woken:
                        delay, taken = self._take(tokens)
                        if taken is not None:
                            return taken
                await self._sleep(woken, delay)
        finally:
            with self._guard:
                self._waiting.pop(place, None)
                self._wake_first()

    async def _sleep(self, woken: asyncio.Future[None], delay: float | None) -> None:
        """Wait to be woken, at most `delay` seconds."""
        if delay is None:
            await woken
            return
        sleeper = asyncio.ensure_future(self._wait(delay))
        try:
            await asyncio.wait((sleeper, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not sleeper.get_loop().is_closed():
                sleeper.cancel()

    def _take(self, tokens: int) -> tuple[float, Reservation | None]:
        """Return seconds until there may be room, and a reservation if there is room."""
        now = self._now()
        begun = self._begun
        while begun and begun[0].at + _MINUTE_S <= now:
            past = begun.popleft()
            past.counted = False
            self._tokens -= past.tokens
        requests, most = self.requests_per_minute, self.tokens_per_minute
        full = requests is not None and len(begun) >= requests
        if most is not None and not full:
            full = bool(self._tokens) and self._tokens + tokens > most
        if full:
            return max(begun[0].at + _MINUTE_S - now, 0.001), None
        taken = Reservation(self, now, tokens)
        begun.append(taken)
        self._tokens += tokens
        return 0.0, taken

    def _first(self) -> asyncio.Future[None] | None:
        """Return the first waiter whose loop is not closed."""
        for place, woken in list(self._waiting.items()):
            if not woken.get_loop().is_closed():
                return woken
            del self._waiting[place]
        return None

    def _wake_first(self) -> None:
        while (first := self._first()) is not None and not settle(first):
            pass  # its loop has just been closed
