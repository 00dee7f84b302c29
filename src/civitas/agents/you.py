"""A person in a space, to whom a chat or a page shows what happens there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from civitas.action import action
from civitas.agent import Agent
from civitas.errors import AgentNotFound, RequestError
from civitas.message import BROADCAST
from civitas.spaces.complete import Help
from civitas.spaces.native import NativeSpace

_QUIET_S: Final = 0.5
_ALONE_S: Final = 2.0
_HELP_S: Final = 2.0


class You(Agent):
    """A person in a space. An observer of the space shows what is sent to them.

    There is no list of the agents of other processes: all are asked for their help.
    """

    asking: Final = ("who-is-there", "what-is-offered")
    """The ids of messages that a chat or a page itself sends as questions."""

    def __init__(self, id: str = "You") -> None:
        super().__init__(id, receive_own_broadcasts=False)
        self.elsewhere: dict[str, None] = {}  # ids of other processes
        self._news = asyncio.Event()
        self._offers: dict[str, Help] = {}

    @action
    async def say(self, content: str) -> None:
        """Say something to the person.

        Args:
            content: what to say
        """

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Receive what went wrong with a message."""

    # -- who else is there -------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Whether several processes share the space."""
        return not isinstance(self.space, NativeSpace | None)

    def others(self) -> list[str]:
        """Return the ids of the known agents, in the order in which they became known."""
        here = [] if self.space is None else self.space.ids()
        return [id for id in dict.fromkeys((*here, *self.elsewhere)) if id != str(self.id)]

    def note_sender(self, message: dict[str, Any]) -> None:
        """Record a message's sender as present."""
        sender, me = str(message["from"]), str(self.id)
        if not self.is_shared or sender == me or message["to"] not in (me, BROADCAST):
            return
        if sender not in self.elsewhere:
            self.elsewhere[sender] = None
            self._news.set()

    def forget(self, id: str) -> None:
        """Forget an agent that has left."""
        self.elsewhere.pop(id, None)

    async def discover(self) -> None:
        """Ask all until no new agent has answered for a moment; busy ones are recorded later."""
        if not self.is_shared:
            return
        self.send({"id": self.asking[0], "to": BROADCAST, "action": {"name": "help"}})
        with suppress(TimeoutError):
            while True:
                self._news.clear()
                # The number of agents is not known, so nor is whether all have answered.
                quiet = _QUIET_S if self.elsewhere else _ALONE_S
                await asyncio.wait_for(self._news.wait(), quiet)

    async def offers_of(self, id: str) -> Help:
        """Return what an agent offers; empty if it does not answer in time."""
        if id not in self._offers:
            help = {"id": self.asking[1], "to": id, "action": {"name": "help"}}
            try:
                answer = await self.request(help, timeout=_HELP_S)
            except AgentNotFound:
                self.forget(id)
                return {}
            except RequestError:  # it is busy
                return {}
            self._offers[id] = answer if isinstance(answer, dict) else {}
        return self._offers[id]

    def forget_offers(self) -> None:
        """Forget what agents offer, so that they are asked again."""
        self._offers.clear()
