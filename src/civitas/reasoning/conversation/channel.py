"""Events on their way from where something runs to who reads them, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["Channel"]


class Channel:
    """Events from where a conversation runs to who reads them, one at a time.

    The one who puts waits until the next is asked for. The two may be on different loops.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._event: tuple[Any, asyncio.Future[None]] | None = None
        self._read: asyncio.Future[None] | None = None
        self._over = False
        self._closed = False

    async def put(self, event: Any) -> None:
        """Give an event, and wait until the one after it is asked for.

        Raises:
            asyncio.CancelledError: nobody reads any more
        """
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _call(self._loop, self._give, event, read)
        await read

    def _give(self, event: Any, read: asyncio.Future[None]) -> None:
        if self._closed:
            _call(read.get_loop(), read.cancel)
            return
        self._event = (event, read)
        self._wake.set()

    def end(self) -> None:
        """Say that there are no more."""
        self._over = True
        self._wake.set()

    def close(self) -> None:
        """Read no more: whoever gives an event, now or later, is cancelled."""
        self._closed = True
        waiting = [self._read, self._event[1] if self._event is not None else None]
        self._read = self._event = None
        for each in waiting:
            if each is not None:
                _call(each.get_loop(), each.cancel)

    async def get(self) -> Any:
        """The next event; None after the last."""
        if self._read is not None:
            _call(self._read.get_loop(), _set, self._read)
            self._read = None
        while self._event is None:
            if self._over:
                return None
            self._wake.clear()
            await self._wake.wait()
        event, self._read = self._event
        self._event = None
        return event


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any) -> None:
    if loop is asyncio.get_running_loop():
        function(*args)
        return
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        pass  # the loop has ended, and with it whoever waited there


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
