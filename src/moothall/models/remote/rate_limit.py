"""Keeping to a provider's limits of requests and tokens in any minute."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from moothall.foundation.arguments import check_integer
from moothall.foundation.errors import ConfigError
from moothall.foundation.threads import ProcessBound, WaitingLine, guard

_MINUTE_S = 60.0


@dataclass(eq=False, slots=True)
class RateReservation:
    """A call's share of a limit."""

    _limit: RateLimit
    at: float
    tokens: int
    counted: bool = True

    def settle(self, tokens: int) -> None:
        """Replace the estimate by the provider's count; 0 is no count."""
        if tokens:
            self._limit.recount(self, tokens)


class RateLimit(ProcessBound, remedy="make one there, with its share of the limit"):
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
        check_integer("RateLimit: requests_per_minute=", requests_per_minute, optional=True)
        check_integer("RateLimit: tokens_per_minute=", tokens_per_minute, optional=True)
        if clock is not None and not hasattr(clock, "now"):
            raise ConfigError(f"RateLimit: clock= must have now and sleep, got {clock!r:.80}")
        self.requests_per_minute = requests_per_minute
        self.tokens_per_minute = tokens_per_minute
        self._now = time.monotonic if clock is None else clock.now
        # Held for a few instructions, never while waiting.
        self._lock = guard()
        self._reservations: deque[RateReservation] = deque()
        self._tokens = 0
        self._line = WaitingLine(asyncio.sleep if clock is None else clock.sleep)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._line)

    async def acquire(self, tokens: int = 0) -> RateReservation:
        """Wait until a request may begin.

        Args:
            tokens: an estimate of its tokens
        """
        try:
            return await self._line.wait(partial(self._try_reserve, tokens))
        finally:
            self._line.wake_first()

    def recount(self, reservation: RateReservation, tokens: int) -> None:
        """Replace the estimate of a reservation."""
        with self._lock:
            if reservation.counted:
                self._tokens += tokens - reservation.tokens
            has_fewer = tokens < reservation.tokens
            reservation.tokens = tokens
        if has_fewer:
            self._line.wake_first()

    def _try_reserve(self, tokens: int, first: bool) -> tuple[RateReservation | None, float | None]:
        """Return a reservation if there is room, else in how many seconds there may be."""
        if not first:
            return None, None
        with self._lock:
            now = self._now()
            reservations = self._reservations
            while reservations and reservations[0].at + _MINUTE_S <= now:
                oldest = reservations.popleft()
                oldest.counted = False
                self._tokens -= oldest.tokens
            requests, tokens_limit = self.requests_per_minute, self.tokens_per_minute
            is_full = requests is not None and len(reservations) >= requests
            if tokens_limit is not None and not is_full:
                is_full = bool(self._tokens) and self._tokens + tokens > tokens_limit
            if is_full:
                return None, max(reservations[0].at + _MINUTE_S - now, 0.001)
            reservation = RateReservation(self, now, tokens)
            reservations.append(reservation)
            self._tokens += tokens
            return reservation, None
