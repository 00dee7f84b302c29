"""Copies of the messages of a window, which a memory returns again as long as nobody changes them.

To copy, or to compare one by one, thousands for each prompt takes longer than the rest of a turn.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from moothall.foundation.jsonvalue import copy_json

_Messages: TypeAlias = list[dict[str, Any]]


class ReturnedCopies:
    """The messages that were returned last, and the copies that were returned of them."""

    def __init__(self) -> None:
        self._messages: _Messages = []
        self._copies: _Messages = []

    def copy_messages(self, messages: _Messages) -> _Messages:
        """Return copies of messages, those of before where there are such that are still equal."""
        before, copies = self._messages, self._copies
        # Mostly, some were dropped after the first ones.
        if messages and messages[: len(before)] != before:
            pairs = zip(messages, before, strict=False)
            first = next((n for n, (each, old) in enumerate(pairs) if each is not old), 0)
            rest = enumerate(before[first:], first)
            last = next((n for n, old in rest if old is messages[first]), first)
            before, copies = before[:first] + before[last:], copies[:first] + copies[last:]
        if messages[: len(before)] == before == copies:
            copies = copies + [copy_json(each) for each in messages[len(before) :]]
        else:
            by_id = dict(zip(map(id, before), copies, strict=True))
            copies = [
                copied if (copied := by_id.get(id(each))) == each else copy_json(each)
                for each in messages
            ]
        self._messages, self._copies = messages, copies
        return [*copies]
