"""What the tests of requests, cancellation and order are made of: gates, and agents that wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from conformance.conftest import WAIT_S, Kept
from moothall import Agent, action

LATE_S = 1
"""Seconds until a deadline by which what was asked has begun: over a broker that takes a moment."""


class Gate:
    """Closed until it is opened, once; awaited on any loop, waited for in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let everyone through, now and later."""
        with self._lock:
            self._opened.set()
            waiters, self._waiters = self._waiters, []
        for loop, event in waiters:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                continue  # that loop has ended

    def wait(self, timeout: float = WAIT_S) -> None:
        """Wait in a thread.

        Raises:
            AssertionError: nobody has opened it in `timeout` seconds
        """
        if not self._opened.wait(timeout):
            raise AssertionError(f"nobody opened the gate in {timeout} s")

    def __await__(self) -> Generator[Any, None, None]:
        return self._passed().__await__()

    async def _passed(self) -> None:
        event = asyncio.Event()
        with self._lock:
            if self._opened.is_set():
                return
            self._waiters.append((asyncio.get_running_loop(), event))
        await event.wait()


async def fall_due(limit: asyncio.Timeout, when: Gate) -> None:
    """Have a time limit be over when a gate is opened."""
    await when
    limit.reschedule(asyncio.get_running_loop().time())


class Holder(Agent):
    """Holds whoever calls it until a gate is opened, and keeps what began and how it ended."""

    def __init__(self, id: str | int, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self.begun: Kept[str] = Kept()
        self.ended: Kept[str] = Kept()

    def gate(self, name: str) -> Gate:
        """The gate of that name."""
        with self._lock:
            return self._gates.setdefault(name, Gate())

    @action
    async def hold(self, name: str = "one") -> str:
        self.begun.add(name)
        how = "cancelled"
        try:
            await self.gate(name)
            how = "done"
        finally:
            self.ended.add(f"{name} {how}")
        return name

    @action
    def hold_plainly(self, name: str = "one") -> str:
        self.begun.add(name)
        self.gate(name).wait()
        self.ended.add(f"{name} done")
        return name

    @action
    async def hold_stubbornly(self, name: str = "one") -> str:
        """Swallows every cancellation."""
        self.begun.add(name)
        while True:
            try:
                await self.gate(name)
                break
            except asyncio.CancelledError:
                continue
        self.ended.add(f"{name} done")
        return name

    @action
    async def note(self, name: str) -> str:
        self.begun.add(name)
        self.ended.add(f"{name} done")
        return name


Step = Callable[[Any, Any], Coroutine[Any, Any, Any]]
PlainStep = Callable[[Any, Any], Any]


class Doer(Agent):
    """Does what a test gave it: `do` an async step `(agent, value)`, `do_plainly` a plain one."""

    def __init__(
        self,
        id: str | int,
        do: Step | None = None,
        do_plainly: PlainStep | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(id, **kwargs)
        self.step = do
        self.plain_step = do_plainly

    @action
    async def do(self, value: Any = None) -> Any:
        assert self.step is not None
        return await self.step(self, value)

    @action
    def do_plainly(self, value: Any = None) -> Any:
        assert self.plain_step is not None
        return self.plain_step(self, value)

    @action
    async def echo(self, value: Any = None) -> Any:
        return value


def handling(space: Any, id: str) -> list[str]:
    """The actions that an agent is busy with."""
    found: list[str] = space.statistics()["agents"][id]["handling"]
    return found
