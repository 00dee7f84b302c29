"""The memory of one reply whose conversation was given with its request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moothall.memory.memory import Memory

MESSAGES_KEY: Final = "messages"
"""The key of a block that stands for several messages of one request."""


class GivenMemory(Memory):
    """A conversation as it was given, and what the reply adds to it."""

    thread = None  # type: ignore[assignment]
    add_once = Memory.add_once

    def __init__(self, history: Iterable[dict[str, Any]]) -> None:
        super().__init__()
        self.items: list[dict[str, Any]] = list(history)

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a message, or those that it stands for."""
        self.items.extend(meant_by(memory))


def meant_by(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that a message stands for: mostly itself."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and MESSAGES_KEY in content[0]:
        messages: list[dict[str, Any]] = content[0][MESSAGES_KEY]
        return messages
    return [message]
