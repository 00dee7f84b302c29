"""What happens in the studio, numbered, for every page that looks on."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

_KEPT: Final = 20_000
"""So many events are kept for a page that comes back; one that was away for longer reloads."""
_KEPT_CHARACTERS: Final = 32 << 20
_FRAME: Final = 500
"""The most events in one frame."""
_FRAME_CHARACTERS: Final = 1 << 20
"""A frame ends with the event that reaches this."""
_BATCH_S: Final = 0.03
"""Events within this time travel in one frame: a page cannot show more frames a second."""


def as_json(data: Any) -> str:
    """JSON that every browser reads: ASCII, and null for a number that JSON lacks."""
    compact = (",", ":")
    try:
        return json.dumps(data, default=str, allow_nan=False, separators=compact)
    except ValueError:
        read = json.loads(json.dumps(data, default=str), parse_constant=lambda name: None)
        return json.dumps(read, separators=compact)


class Feed:
    """One stream of events. A page that knows the number of its last event misses none.

    Nothing is kept for a page: each reads at its own pace, and one that is too slow reloads. Its
    `epoch` tells this feed from that of another process.
    """

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self._events: deque[str] = deque()
        self._characters = 0
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
        """Tell every page JSON data of a topic, such as `message` or `run`, in any thread."""
        told = as_json(data)
        with self._guard:
            self._last += 1
            self._events.append(f'[{self._last},"{topic}",{told}]')
            self._characters += len(self._events[-1])
            while len(self._events) > _KEPT or self._characters > _KEPT_CHARACTERS:
                self._characters -= len(self._events.popleft())
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
            with self._guard:
                follows = epoch == self.epoch and self._first <= after <= self._last
                after = after if follows else self._last
            yield self._frame(after, [], reset=not follows)
            while True:
                while after < self._last:
                    events = self._some(after)
                    after = after + len(events) if events else self._last
                    yield self._frame(after, events, reset=not events)
                await bell.wait()
                await asyncio.sleep(_BATCH_S)
        finally:
            self._look(bell, False)

    @property
    def _first(self) -> int:
        """The number before that of the first event that is kept."""
        return self._last - len(self._events)

    def _some(self, after: int) -> list[str]:
        """The events after one, as many as a frame takes; none if the first of them has gone."""
        events: list[str] = []
        with self._guard:
            at = after - self._first
            size = 0
            while 0 <= at < len(self._events) and len(events) < _FRAME and size < _FRAME_CHARACTERS:
                events.append(self._events[at])
                size += len(events[-1])
                at += 1
        return events

    def _frame(self, last: int, events: list[str], *, reset: bool) -> str:
        told = ',"reset":true' if reset else ""
        return f'{{"epoch":"{self.epoch}","last":{last},"events":[{",".join(events)}]{told}}}'


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
