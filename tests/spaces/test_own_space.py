"""A space of a user's own says who may come, and hears who comes and leaves."""

from __future__ import annotations

import pytest

from moothall import Agent, DefinitionError, NativeSpace
from moothall.build import Delivery, Mailbox


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


def test_space_subclass_refuses_agents_and_hears_of_those_that_come_and_leave() -> None:
    with Register() as space:
        bob = space.add(Agent("bob", "Bob"))
        with pytest.raises(DefinitionError, match="ann has no name"):
            space.add(Agent("ann"))
        space.replace(bob, Agent("bob", "Bobby"))
        assert space.ids() == ["bob"]
    assert space.log == ["Bob came", "Bobby came", "Bobby left"]
    assert space.is_closed
