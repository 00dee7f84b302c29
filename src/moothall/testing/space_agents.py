"""The agents with which the suite of spaces talks."""

from __future__ import annotations

import asyncio
from queue import SimpleQueue
from typing import Any

from moothall import ACCESS_DENIED, ACCESS_REQUESTED, Agent, action

WAIT_S = 20
"""Seconds after which what a test waits for is taken to be lost."""


class ListeningAgent(Agent):
    """Keeps the messages that it gets."""

    def __init__(self, id: str | int, **options: Any) -> None:
        super().__init__(id, **options)
        self.messages: SimpleQueue[dict[str, Any]] = SimpleQueue()

    @action
    async def say(self, content: Any) -> None:
        """Keep what is said."""
        self._keep_message()

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        """Keep an answer."""
        self._keep_message()

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Keep an error."""
        self._keep_message()

    def _keep_message(self) -> None:
        assert self.current_message is not None
        self.messages.put(self.current_message)

    def next_message(self) -> dict[str, Any]:
        """Wait for the next message."""
        return self.messages.get(timeout=WAIT_S)


class WorkingAgent(ListeningAgent):
    """Has an action of each kind."""

    def __init__(self, id: str | int, **options: Any) -> None:
        super().__init__(id, **options)
        self.begun_holds: SimpleQueue[Any] = SimpleQueue()
        self.ended_holds: SimpleQueue[Any] = SimpleQueue()

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @action
    def add_plainly(self, a: int, b: int) -> int:
        """Add two numbers in a worker thread."""
        return a + b

    @action
    async def echo(self, value: Any) -> Any:
        """Give a value back."""
        return value

    @action
    async def fail(self) -> None:
        """Fail."""
        raise ZeroDivisionError("division by zero")

    @action
    async def hold(self, value: Any = None) -> None:
        """Wait for ever."""
        self.begun_holds.put(value)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended_holds.put(value)

    @action(access_policy=ACCESS_DENIED)
    async def secret(self) -> None:
        """Never run."""

    @action(access_policy=ACCESS_REQUESTED)
    async def delete(self, path: str) -> str:
        """Run if it is approved."""
        return f"deleted {path}"

    @action
    async def pass_on(self, to: str, value: Any, via: str = "") -> Any:
        """Ask another agent, by way of a third one if there is one."""
        args = {"to": to, "value": value} if via else {"value": value}
        return await self.ask(via or to, "pass_on" if via else "echo", **args)
