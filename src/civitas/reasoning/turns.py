"""Taking turns: one at a time, first come first served, on any number of event loops."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

__all__ = ["Turns"]


# One for all: it is held for a few instructions, and agents are many.
_GUARD = threading.Lock()


class Turns:
    """A lock for coroutines that, unlike `asyncio.Lock`, belongs to no loop.

    An agent may be asked by several `asyncio.run` calls one after the other, and by threads with
    loops of their own at the same time.
    """

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        # Made when somebody has to wait: most agents are asked by one at a time.
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None = None

    async def take(self) -> None:
        """Wait for one's turn. Cancelled, one has none and those behind move up."""
        with _GUARD:
            if not self._taken:
                self._taken = True
                return
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            entry = (loop, future)
            if self._waiting is None:
                self._waiting = deque()
            waiting = self._waiting
            waiting.append(entry)
        try:
            await future
        except BaseException:
            with _GUARD:
                if entry in waiting:
                    waiting.remove(entry)
                    raise
            self.end()  # the turn had been given already
            raise

    def end(self) -> None:
        """End one's turn; the next begins."""
        with _GUARD:
            while self._waiting:
                loop, future = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(_begin, future)
                except RuntimeError:
                    continue  # its loop is closed, so nobody waits there any more
                return
            self._taken = False


def _begin(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
