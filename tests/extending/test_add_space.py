"""A space of a user's own changes how agents are added; agents find no difference."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import Agent, DefinitionError, NativeSpace, action
from moothall.build import Delivery, Mailbox


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


class Register(NativeSpace):
    """Knows who has come and who has left."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def attach(self, agent: Agent) -> Mailbox:
        """Refuse whom nobody knows."""
        if agent.name is None:
            raise DefinitionError(f"{agent.id} has no name")
        return super().attach(agent)

    def note_agent(self, agent: Agent) -> None:
        """Note who has come."""
        super().note_agent(agent)
        self.log.append(f"{agent.name} came")

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Note who has left."""
        super().detach(mailbox, *spared)
        self.log.append(f"{mailbox.agent.name} left")


def test_space_of_a_users_own_says_who_comes_and_leaves() -> None:
    with Register() as space:
        bob = space.add(Greeter("bob", "Bob"))
        with pytest.raises(DefinitionError, match="ann has no name"):
            space.add(Greeter("ann"))
        space.replace(bob, Greeter("bob", "Bobby"))
        assert space.ids() == ["bob"]
    assert space.log == ["Bob came", "Bobby came", "Bobby left"]
    assert space.is_closed


def test_space_of_a_users_own_delivers_and_notes() -> None:
    with Audited() as space:
        space.add(Greeter("Bob"))
        me = space.add(Agent("me"))
        assert me.ask("Bob", "greet", name="Eve").result(timeout=20) == "Bob greets Eve"
    assert space.log == ["Bob", "me", "greet", "response"]
