"""A model of a user's own is any object that completes a conversation."""

from __future__ import annotations

from typing import Any

from moothall import Call, ModelReply, ReActAgent


class Sums:
    """A model that has sums done by an action, and says the result."""

    name = "sums"

    async def complete(self, messages: list[dict[str, Any]], actions: Any = None) -> ModelReply:
        """Ask for the sum, then say it."""
        if messages[-1]["role"] == "tool":
            return ModelReply(f"it is {messages[-1]['content']}")
        a, b = map(int, messages[-1]["content"].split("+"))
        return ModelReply(calls=(Call("1", "add", {"a": a, "b": b}),), finish_reason="calls")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_model_of_a_users_own_calls_actions_and_answers() -> None:
    assert ReActAgent("Ann", Sums(), actions=[add]).reply_sync("2+3").text == "it is 5"
