"""Who else is in a space of several processes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from civitas.agent import Agent
from civitas.message import BROADCAST

_QUIET_S: Final = 0.5
_ALONE_S: Final = 2.0


class Neighbours:
    """Agents of other processes. No list of them is kept anywhere: all are asked for their help."""

    question: Final = "who-is-there"
    """The id of the messages that ask, and so of those that the answers are to."""

    def __init__(self, me: Agent) -> None:
        self._me = me
        self._there: dict[str, None] = {}
        self._news = asyncio.Event()

    @property
    def ids(self) -> list[str]:
        """Those that are known, in the order in which they were heard of."""
        return list(self._there)

    def heard(self, message: dict[str, Any]) -> None:
        """Whoever sends something is there."""
        sender, me = str(message["from"]), str(self._me.id)
        if sender != me and message["to"] in (me, BROADCAST) and sender not in self._there:
            self._there[sender] = None
            self._news.set()

    def gone(self, id: str) -> None:
        """It is there no longer."""
        self._there.pop(id, None)

    async def look(self) -> None:
        """Ask all, until nobody new has answered for a moment; who is busy is heard of later."""
        self._me.send({"id": self.question, "to": BROADCAST, "action": {"name": "help"}})
        with suppress(TimeoutError):
            while True:
                self._news.clear()
                # Nothing tells how many there are, and so that they all have answered.
                await asyncio.wait_for(self._news.wait(), _QUIET_S if self._there else _ALONE_S)
