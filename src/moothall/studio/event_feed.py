"""The numbered events of the studio, for every connected page."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from moothall.build import guard

_MAX_EVENTS: Final = 20_000
"""How many events are kept for a page that reconnects; a page that missed more reloads."""
_MAX_CHARACTERS: Final = 32 << 20
_FRAME_SIZE: Final = 500
"""The most events in one frame."""
_FRAME_CHARS: Final = 1 << 20
"""A frame ends with the event that reaches this size."""
_BATCH_S: Final = 0.03
"""Events within this time share a frame: a page cannot show more frames a second."""
_HEARTBEAT_S: Final = 15.0
"""After this time without an event a page gets an empty frame: its connection is there."""
_JSON: Final = json.JSONEncoder(default=str, allow_nan=False, separators=(",", ":"))


def as_json(data: Any) -> str:
    """Return JSON that every browser reads: ASCII, and null for NaN and infinity."""
    try:
        return _JSON.encode(data)
    except ValueError:
        cleaned = json.loads(json.dumps(data, default=str), parse_constant=lambda name: None)
        return _JSON.encode(cleaned)


class EventFeed:
    """One stream of events. A page that knows the number of its last event misses none.

    No page has a queue: each reads at its own pace, and one that is too slow reloads.

    Attributes:
        epoch: tells this feed from that of another process
        last: the number of the last event; 0 before the first
    """

    def __init__(self) -> None:
        self.epoch: str = secrets.token_hex(4)
        self.last: int = 0
        self._events: deque[str] = deque()
        self._character_count = 0
        self._lock = guard()
        self._pages: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def is_watched(self) -> bool:
        """Whether a page is connected."""
        return bool(self._pages)

    def publish(self, topic: str, data: Any) -> None:
        """Send JSON data of a topic, such as `message` or `run`, to every page, in any thread."""
        text = as_json(data)
        with self._lock:
            self.last += 1
            self._events.append(f'[{self.last},"{topic}",{text}]')
            self._character_count += len(self._events[-1])
            while len(self._events) > _MAX_EVENTS or self._character_count > _MAX_CHARACTERS:
                self._character_count -= len(self._events.popleft())
            # A copy: pages come and go, each on its own loop, while these are woken.
            pages = [*self._pages.items()]
        for wake_event, loop in pages:
            # A page is woken once for all that comes until it looks.
            if not wake_event.is_set():
                with suppress(RuntimeError):  # its loop has ended, and with it the page
                    loop.call_soon_threadsafe(wake_event.set)

    async def frames(self, epoch: str, after: int) -> AsyncIterator[str]:
        """Yield JSON of later events: `{"epoch", "last", "events": [[number, topic, data], …]}`.

        The first frame comes at once. One with `"reset": true` says that events were missed; the
        page then reloads what it shows.
        """
        wake_event = asyncio.Event()
        with self._lock:
            can_resume = epoch == self.epoch and self.last - len(self._events) <= after <= self.last
            after = after if can_resume else self.last
            self._pages[wake_event] = asyncio.get_running_loop()
        try:
            yield self._frame(after, [], reset=not can_resume)
            while True:
                while after < self.last:
                    events = self._next_events(after)
                    after = after + len(events) if events else self.last
                    yield self._frame(after, events, reset=not events)
                try:
                    async with asyncio.timeout(_HEARTBEAT_S):
                        await wake_event.wait()
                except TimeoutError:
                    yield self._frame(after, [], reset=False)
                # Before `last` is read: what is published in between wakes the page again.
                wake_event.clear()
                await asyncio.sleep(_BATCH_S)
        finally:
            with self._lock:
                del self._pages[wake_event]

    def _next_events(self, after: int) -> list[str]:
        """Return the events after one, as many as fit a frame; none if the first was dropped."""
        events: list[str] = []
        with self._lock:
            i = after - (self.last - len(self._events))
            size = 0
            # Below 0: it was dropped while the page read what came before.
            while 0 <= i < len(self._events) and len(events) < _FRAME_SIZE and size < _FRAME_CHARS:
                events.append(self._events[i])
                size += len(events[-1])
                i += 1
        return events

    def _frame(self, last: int, events: list[str], *, reset: bool) -> str:
        text = ',"reset":true' if reset else ""
        return f'{{"epoch":"{self.epoch}","last":{last},"events":[{",".join(events)}]{text}}}'
