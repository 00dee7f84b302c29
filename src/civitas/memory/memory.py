"""The plain memory: a list of chat messages."""

from __future__ import annotations

from typing import Any

__all__ = ["Memory"]


class Memory:
    """Remembers every chat message it is given, without a bound.

    A subclass may store and choose otherwise: whoever uses a memory calls `add_memory` and
    `get_memories` only, and asks anew before each prompt.

    Attributes:
        items: the messages, the oldest first
    """

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message, `{"role": …, "content": …}`."""
        self.items.append(memory)

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The messages for a prompt, the oldest first, in a list of the caller's own.

        Args:
            limit: only the last so many

        Raises:
            ValueError: the limit is negative
        """
        return last(self.items, limit)


def last(items: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """A copy of the list, or of its last `limit` items."""
    if limit is None:
        return items[:]
    if limit < 0:
        raise ValueError(f"limit is 0 or more, not {limit}")
    return items[len(items) - limit :] if limit < len(items) else items[:]
