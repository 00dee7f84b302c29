"""Agents of one's own that reply: what a subclass defines, and what no action may replace."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import ConversationalAgent, DefinitionError, ReActAgent, Reply, action


class Parrot(ConversationalAgent):
    """Repeats what it is asked, after what it has observed."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.observed: list[str] = []

    async def respond(self, request: Any) -> Reply:
        return Reply(" ".join([*self.observed, request.content]))

    async def remember(self, message: dict[str, Any], thread: Any) -> None:
        self.observed.append(message["content"])


async def test_conversational_agent_replies_by_respond_and_observes_by_remember() -> None:
    parrot = Parrot("Polly")
    await parrot.observe("first")
    assert (await parrot.reply("second")).text == "first second"


@pytest.mark.parametrize("name", ("respond", "remember", "reply", "describe_program"))
def test_action_may_not_replace_a_method_that_a_replying_agent_calls(name: str) -> None:
    async def work(self: Any, text: str) -> None:
        """Do something else."""

    with pytest.raises(DefinitionError, match=rf'Ann\.{name}: .* @action\(name="{name}"\)'):
        type("Ann", (ReActAgent,), {name: action(work)})
