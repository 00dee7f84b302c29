"""A person in a space, who is shown what happens there by a chat or a page."""

from __future__ import annotations

from typing import Any

from civitas.action import action
from civitas.agent import Agent


class You(Agent):
    """A person in a space. What is sent to them is shown by what observes the space."""

    def __init__(self, id: str = "You") -> None:
        super().__init__(id, receive_own_broadcasts=False)

    @action
    async def say(self, content: str) -> None:
        """Say something to the person.

        Args:
            content: what to say
        """

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        """Receive the value of an action."""

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Receive what went wrong with a message."""
