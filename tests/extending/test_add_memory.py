"""A memory of a user's own is any object that takes chat messages and returns those of a prompt."""

from __future__ import annotations

from typing import Any

from moothall import ReActAgent, ScriptedModel


class LastTwo:
    """Remembers the last two messages."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add one and drop the oldest."""
        self.items = [*self.items, memory][-2:]

    def get_memories(self) -> list[dict[str, Any]]:
        """Return both."""
        return list(self.items)


def test_memory_of_a_users_own_decides_what_the_model_is_shown() -> None:
    model = ScriptedModel(["one", "two"])
    agent = ReActAgent("Ann", model, memory=LastTwo())
    agent.reply_sync("first")
    agent.reply_sync("second")
    asked = [
        [each["content"] for each in sent if each["role"] != "system"] for sent in model.received
    ]
    assert asked == [["first"], ["one", "second"]]
