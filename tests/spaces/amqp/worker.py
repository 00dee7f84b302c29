"""Agents that write down what they do, in this process or in one that is killed."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

from moothall import ACCESS_DENIED, ACCESS_REQUESTED, Agent, ApprovalRequest, action


class Notes:
    """Lines in a file that several processes append to, and that outlive them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.touch()

    def add(self, line: str) -> None:
        """Append a line; it is on the disk when this returns."""
        with self.path.open("a") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> list[str]:
        """All that was written."""
        return self.path.read_text().splitlines()


async def _is_there(path: str) -> None:
    while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240 - another makes it
        await asyncio.sleep(0.005)


class Approving:
    """Says yes, at once or when a file is there, or never; writes down what it was asked."""

    def __init__(self, notes: Notes, says: bool | str) -> None:
        self.notes = notes
        self.says = says

    async def approve(self, request: ApprovalRequest) -> bool:
        """Answer, or wait for ever."""
        self.notes.add(f"asked {request.args['text']}")
        if not self.says:
            await asyncio.Event().wait()
        if isinstance(self.says, str):
            await _is_there(self.says)
        return True


class Worker(Agent):
    """Notes what begins and what ends. Where it `holds`, what it holds does not end."""

    def __init__(self, id: str, notes: Notes, holds: bool = False, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.notes = notes
        self.holds = holds

    async def _held(self, text: str) -> str:
        self.notes.add(f"begun {text}")
        if self.holds:
            try:
                await asyncio.Event().wait()
            finally:
                self.notes.add(f"cancelled {text}")
        self.notes.add(f"done {text}")
        return f"{text} by {self.id}"

    @action
    async def note(self, text: str) -> str:
        self.notes.add(f"done {text}")
        return f"{text} by {self.id}"

    @action
    async def hold(self, text: str) -> str:
        return await self._held(text)

    @action(idempotent=True)
    async def hold_again(self, text: str) -> str:
        return await self._held(text)

    @action(detached=True)
    async def hold_detached(self, text: str) -> str:
        return await self._held(text)

    @action(detached=True, idempotent=True)
    async def hold_detached_again(self, text: str) -> str:
        return await self._held(text)

    @action(access_policy=ACCESS_REQUESTED)
    async def hold_approved(self, text: str) -> str:
        return await self._held(text)

    @action
    async def wait_for(self, text: str, path: str) -> str:
        """End when a file is there."""
        self.notes.add(f"begun {text}")
        await _is_there(path)
        self.notes.add(f"done {text}")
        return f"{text} by {self.id}"

    @action(detached=True)
    async def wait_for_detached(self, text: str, path: str) -> str:
        """The same, acknowledged before it begins."""
        return await self.wait_for(text, path)

    @action
    async def tell_when(self, text: str, to: str, path: str) -> str:
        """Send a text when a file is there."""
        self.notes.add(f"begun {text}")
        await _is_there(path)
        self.send({"to": to, "action": {"name": "say", "args": {"content": text}}})
        return f"{text} by {self.id}"

    @action
    def block(self, text: str, path: str) -> str:
        """The same, in a thread that nothing stops."""
        self.notes.add(f"begun {text}")
        while not Path(path).exists():
            threading.Event().wait(0.005)
        self.notes.add(f"done {text}")
        return text

    @action
    async def echo(self, value: Any = None) -> Any:
        return value

    @action
    async def fail(self, kind: str = "ValueError", text: str = "in vain") -> None:
        raise {"ValueError": ValueError, "KeyError": KeyError, "OSError": OSError}[kind](text)

    @action(access_policy=ACCESS_DENIED)
    async def forbidden(self) -> None:
        return None

    @action
    async def hop(self, to: list[str], left: int) -> int:
        """Ask the next of the agents in turn, until none are left; gives how many hops it took."""
        if not left:
            return 0
        found: int = await self.ask(to[0], "hop", to=[*to[1:], to[0]], left=left - 1)
        return found + 1

    @action
    async def ask_on(self, to: str, name: str, args: dict[str, Any]) -> Any:
        """Ask another, and give what it gives."""
        return await self.ask(to, name, **args)
