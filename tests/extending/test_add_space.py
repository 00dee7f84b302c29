"""A space of a user's own changes how agents are added; agents find no difference."""

from __future__ import annotations

from typing import Any

from moothall import Agent, NativeSpace, action


class Greeter(Agent):
    """Greets."""

    @action
    async def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"{self.id} greets {name}"


class Audited(NativeSpace):
    """Notes the agents and the actions of all messages."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.log: list[Any] = []
        self.observe(lambda message: self.log.append(message["action"]["name"]))

    def add(self, agent: Any) -> Any:
        """Add an agent and note it."""
        self.log.append(agent.id)
        return super().add(agent)


def test_space_of_a_users_own_delivers_and_notes() -> None:
    with Audited() as space:
        space.add(Greeter("Bob"))
        me = space.add(Agent("me"))
        assert me.ask("Bob", "greet", name="Eve").result(timeout=20) == "Bob greets Eve"
    assert space.log == ["Bob", "me", "greet", "response"]
