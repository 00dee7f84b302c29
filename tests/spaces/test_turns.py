"""Agents of one loop leave each other their turn."""

from __future__ import annotations

from typing import Any

from civitas import Agent, NativeSpace, action
from conformance.conftest import WAIT_S, Kept, message


def test_an_agent_with_a_long_mailbox_leaves_others_their_turn() -> None:
    order: Kept[str] = Kept()

    class Noting(Agent):
        @action
        async def note(self) -> None:
            """Keep that it was called."""
            order.add(str(self.id))

    class Sender(Agent):
        @action
        async def send_all(self) -> None:
            """Send a thousand messages to one agent and then one to another, at once."""
            for _ in range(1_000):
                self.send(message("busy", "note"))
            self.send(message("other", "note"))

    with NativeSpace() as space:
        for agent in (Noting("busy"), Noting("other"), Sender("sender")):
            space.add(agent)
        me: Any = space.add(Agent("me"))
        me.ask("sender", "send_all").result(timeout=WAIT_S)
        assert order.wait_for(1_001).index("other") <= 100
