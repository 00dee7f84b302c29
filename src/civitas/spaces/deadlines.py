"""Deadlines of very many requests, most of which end long before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from civitas.spaces.delivery import Delivery

TICK = 0.025
"""Seconds between two sweeps: a deadline is kept to within about this much."""

_FAR = 1e9
"""Seconds that no process lasts; later deadlines are taken for this one."""


class Deadlines:
    """A calendar of deliveries by the tick at which they end.

    Adding and discarding cost the same however many there are, and nothing stays behind of what was
    discarded. While it is empty no timer runs.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, expired: Callable[[Delivery], None]
    ) -> None:
        self._loop = loop
        self._expired = expired
        self._ticks: dict[int, dict[Delivery, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._swept = 0

    def __len__(self) -> int:
        return sum(len(due) for due in self._ticks.values())

    def add(self, delivery: Delivery, timeout: float) -> None:
        """Have `expired` called with the delivery in `timeout` seconds."""
        now = self._loop.time()
        tick = int((now + min(max(timeout, 0.0), _FAR)) / TICK) + 1
        delivery.tick = tick
        due = self._ticks.get(tick)
        if due is None:
            due = self._ticks[tick] = {}
        due[delivery] = None
        if self._timer is None:
            self._swept = int(now / TICK)
            self._timer = self._loop.call_later(TICK, self._sweep)

    def discard(self, delivery: Delivery) -> None:
        """Forget a delivery."""
        due = self._ticks.get(delivery.tick)
        if due is not None and due.pop(delivery, delivery) is None and not due:
            del self._ticks[delivery.tick]
        delivery.tick = 0

    def _sweep(self) -> None:
        now = int(self._loop.time() / TICK)
        ticks = self._ticks
        # After a long sleep there are fewer ticks in the calendar than have gone by.
        passed = range(self._swept + 1, now + 1)
        due_ticks = passed if len(passed) <= len(ticks) else sorted(t for t in ticks if t <= now)
        self._swept = now
        try:
            for tick in due_ticks:
                for delivery in ticks.pop(tick, ()):
                    delivery.tick = 0
                    self._expired(delivery)
        finally:
            self._timer = self._loop.call_later(TICK, self._sweep) if ticks else None

    def close(self) -> None:
        """Stop the timer and forget everything."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ticks.clear()
