"""A memory that keeps within a number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moothall.arguments import check_function, check_integer, names_checked
from moothall.memory.memory import Memory, check_memory

DEFAULT_TOKENS = 8192
"""The default bound, in tokens."""

ASSUMED_CONTEXT = 32_768
"""The context of a model, in tokens, where nobody states it."""

_PER_BLOCK = 1500
"""The tokens of a block that is not text: about what providers count for a large image."""
_PER_MESSAGE = 4
"""The tokens that a chat format adds to each message: its role, its start and its end."""


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text has, on the high side."""
    # English has about one token per four characters, code and JSON one per two to three;
    # tokenizers made for English use up to one per byte for other scripts.
    size = len(text)
    if text.isascii():
        return (size + 1) // 2
    return (size + 1) // 2 + len(text.encode("utf-8", "surrogatepass")) - size


@names_checked
class TokenBoundedMemory(Memory):
    """Remembers the last messages that together fit a number of tokens; drops older ones.

    The oldest is dropped first, but never, even if these alone are too large,

    * a system message,
    * the last message, with the call that it belongs to,
    * the last user message, which is the agent's task,
    * a call without its results, or results without their call.

    Args:
        max_tokens: how many tokens there may be
        reply_tokens: how many there may be before messages after the last user message are dropped,
            which an agent needs for its reply; `max_tokens` if left out
        count: returns how many tokens a text has; default: an estimate on the high side

    Raises:
        DefinitionError: a number of tokens is not a positive integer

    Attributes:
        left_out: how many messages after the last user message were dropped
    """

    _only_grows = True

    def __init__(
        self,
        max_tokens: int = DEFAULT_TOKENS,
        count: Callable[[str], int] | None = None,
        *,
        reply_tokens: int | None = None,
    ) -> None:
        check_integer(f"{type(self).__name__}: max_tokens=", max_tokens)
        check_integer(f"{type(self).__name__}: reply_tokens=", reply_tokens, optional=True)
        check_function(f"{type(self).__name__}: count=", count, optional=True)
        self.max_tokens = max_tokens
        self.reply_tokens = reply_tokens
        self._count = count or estimate_tokens
        super().__init__()

    def _start_empty(self) -> None:
        super()._start_empty()
        self._sizes: list[int] = []
        self._tokens = 0
        self.left_out: int = 0
        self._task = -1  # the index of the last user message

    if not TYPE_CHECKING:  # for a checker they are inherited; at run time a subclass loses them
        add_once = Memory.add_once
        thread = Memory.thread

    @property
    def tokens(self) -> int:
        """How many tokens the remembered messages have."""
        if len(self._sizes) != len(self._items):
            self._recount()
        return self._tokens

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message, and drop the oldest ones that no longer fit."""
        if type(memory) is not dict:
            check_memory(memory)
        if len(self._sizes) != len(self._items):
            self._recount()
        if memory.get("role") == "user":
            self._task, self.left_out = len(self._items), 0
        self._items.append(memory)
        size = self._size(memory)
        self._sizes.append(size)
        self._tokens += size
        if self._tokens > self.max_tokens:
            self._drop()

    def _recount(self) -> None:
        """Count anew: the list is public, and other code may have cleared or extended it."""
        self._sizes = [self._size(item) for item in self._items]
        self._tokens = sum(self._sizes)
        users = [place for place, item in enumerate(self._items) if item.get("role") == "user"]
        self._task = users[-1] if users else -1

    def _size(self, item: dict[str, Any]) -> int:
        content = item.get("content")
        size = _PER_MESSAGE
        if type(content) is str:
            if content:
                size += self._count(content)
        elif isinstance(content, list):
            for block in content:
                text = block.get("text") if isinstance(block, dict) else None
                size += self._count(text) if isinstance(text, str) else _PER_BLOCK
        elif content is not None:
            size += self._count(repr(content))
        calls = item.get("tool_calls")
        if calls:
            size += self._count(repr(calls))
        return size

    def _drop(self) -> None:
        """Drop the oldest until the rest fits."""
        items = self._items
        newest = len(items) - 1
        while newest > 0 and items[newest].get("role") == "tool":
            newest -= 1  # the last message and its call start here
        start = 0
        while self._tokens > self._most(start):
            while start < newest and (start == self._task or items[start].get("role") == "system"):
                start += 1
            if start >= newest or self._tokens <= self._most(start):
                break
            end = start + 1
            while items[end].get("role") == "tool":  # the newest is none
                end += 1
            self.left_out += end - start if start > self._task >= 0 else 0
            self._remove(start, end)
            newest -= end - start

    def _most(self, place: int) -> int:
        """Return how many tokens there may be before the message in a place is dropped."""
        of_reply = self.reply_tokens if place > self._task >= 0 else None
        return max(self.max_tokens, of_reply or 0)

    def _remove(self, start: int, end: int) -> None:
        self._tokens -= sum(self._sizes[start:end])
        del self._items[start:end]
        del self._sizes[start:end]
        if self._task >= end:
            self._task -= end - start
        elif self._task >= start:
            self._task = -1
