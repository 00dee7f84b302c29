"""The agents of company.yaml: a clerk with a model, and the stock, which counts itself."""

from __future__ import annotations

import asyncio

from moothall import Agent, ReActAgent, ScriptedModel, action


class Stock(Agent):
    """Knows how many of each thing there are."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.things = {"lamps": 12, "chairs": 3}
        self.changed = asyncio.Event()

    async def background(self) -> None:
        """Reorder what is short; if this raises, the agent has died and is made anew."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            if min(self.things.values()) < 0:
                raise RuntimeError(f"the stock cannot be right: {self.things}")

    @action
    async def take(self, thing: str) -> int:
        """Take one; return how many are left."""
        self.things[thing] -= 1
        self.changed.set()
        return self.things[thing]

    @action(idempotent=True)
    async def count(self, at: str) -> dict[str, int]:
        """Count everything, at a time that the schedule states."""
        return dict(self.things)


def make_clerk(id: str, greeting: str) -> ReActAgent:
    """Return the clerk; put the name of a model in the script's place."""
    model = ScriptedModel([f"{greeting}: lamps and chairs."] * 1000)
    return ReActAgent(id, model)
