"""The memory of one reply whose conversation was given with its request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from moothall.foundation.jsonvalue import json_text
from moothall.memory.memory import Memory

JOINED_KEY: Final = "messages"
"""The key of a block that stands for several messages of one request."""


class RequestMemory(Memory):
    """A conversation as it was given, and what the reply adds to it."""

    thread = None  # type: ignore[assignment]
    add_once = Memory.add_once

    def __init__(self, history: Iterable[dict[str, Any]]) -> None:
        super().__init__()
        self.items: list[dict[str, Any]] = list(history)

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a message, or those that it stands for."""
        self.items.extend(split_message(memory))


def join_messages(messages: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return chat messages as the content of one request; `split_message` gives them back."""
    if len(messages) == 1 and messages[0]["role"] == "user":
        content: str | list[dict[str, Any]] = messages[0]["content"]
        return content
    text = "\n".join(json_text(each["content"]) for each in messages)
    return [{"type": "text", "text": text, JOINED_KEY: messages}]


def split_message(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chat messages that a message stands for: mostly itself."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and JOINED_KEY in content[0]:
        messages: list[dict[str, Any]] = content[0][JOINED_KEY]
        return messages
    return [message]


def attachments_in(content: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the images, files and sounds in what a user says, or links to such."""
    for block in content:
        if isinstance(block, dict):
            for message in block.get(JOINED_KEY, ()):  # what a client said in several messages
                if message["role"] == "user" and isinstance(message["content"], list):
                    yield from attachments_in(message["content"])
            if block.get("type") != "text":
                yield block
