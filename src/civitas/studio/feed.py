"""What happens in the studio, numbered, for every page that looks on."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any, Final

_KEPT: Final = 20_000
"""So many events are kept for a page that comes back; one that was away for longer reloads."""
_FRAME: Final = 500
"""The most events in one frame."""
_BATCH_S: Final = 0.03
"""Events within this time travel in one frame: a page cannot show more frames a second."""


class Feed:
    """One stream of events. A page that knows the number of its last event misses none.

    Nothing is kept for a page: each reads at its own pace, and one that is too slow reloads.

    Attributes:
        epoch: tells this feed from that of another process
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self.epoch = secrets.token_hex(4)
        self._events: deque[str] = deque(maxlen=kept)
        self._last = 0
        self._guard = threading.Lock()
        self._waiting: set[_Bell] = set()
        self._attending: list[Callable[[bool], None]] = []

    def attend(self, tell: Callable[[bool], None]) -> None:
        """Have something told when the first page looks on, and when the last one has gone."""
        self._attending.append(tell)

    def _look(self, bell: _Bell, is_there: bool) -> None:
        with self._guard:
            (self._waiting.add if is_there else self._waiting.discard)(bell)
            told = len(self._waiting) == is_there
        for tell in self._attending if told else ():
            tell(is_there)

    @property
    def last(self) -> int:
        """The number of the last event; 0 before the first."""
        return self._last

    def publish(self, topic: str, data: Any) -> None:
        """Tell every page something, in any thread.

        Args:
            topic: what it is about, such as `message` or `run`
            data: JSON data
        """
        told = json.dumps(data, ensure_ascii=True, default=str)
        with self._guard:
            self._last += 1
            self._events.append(f'[{self._last},"{topic}",{told}]')
            waiting = [*self._waiting]
        for bell in waiting:
            bell.ring()

    async def frames(self, epoch: str, after: int) -> AsyncIterator[str]:
        """Frames of events after one, as JSON: `{"epoch", "events": [[number, topic, data], …]}`.

        The first frame comes at once. One with `"reset": true` tells that events were missed, so
        that the page loads anew what it shows.
        """
        bell = _Bell()
        self._look(bell, True)
        try:
            missed = epoch != self.epoch or not self._last - len(self._events) <= after
            if missed or after > self._last:
                after = self._last
                yield json.dumps({"epoch": self.epoch, "reset": True, "last": after, "events": []})
            else:
                yield json.dumps({"epoch": self.epoch, "last": after, "events": []})
            while True:
                await bell.wait()
                await asyncio.sleep(_BATCH_S)
                while after < self._last:
                    with self._guard:
                        first = self._last - len(self._events)
                        missed = after < first
                        after = max(after, first)
                        events = [*islice(self._events, after - first, after - first + _FRAME)]
                    if missed:
                        after = self._last
                        yield json.dumps(
                            {"epoch": self.epoch, "reset": True, "last": after, "events": []}
                        )
                        break
                    after += len(events)
                    yield f'{{"epoch":"{self.epoch}","last":{after},"events":[{",".join(events)}]}}'
        finally:
            self._look(bell, False)


class _Bell:
    """Wakes one task, from any thread; rung again before it has woken, it costs nothing."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """Wake it."""
        if self._rung:
            return
        self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            pass  # its loop has ended, and with it the page

    async def wait(self) -> None:
        """Until it is rung."""
        await self._event.wait()
        self._event.clear()
        self._rung = False
