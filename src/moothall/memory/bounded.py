"""A memory that keeps within a number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moothall.foundation.arguments import (
    check_boolean,
    check_function,
    check_integer,
    names_checked,
)
from moothall.memory.long_results import RESULT_KEY, cleared_result, is_cleared, number_of, range_of
from moothall.memory.memory import Memory, check_memory
from moothall.models.blocks import BLOCK_TOKENS

DEFAULT_TOKENS = 8192
"""The default bound, in tokens."""

ASSUMED_CONTEXT = 32_768
"""The context of a model, in tokens, where nobody states it."""

_TOKENS_PER_MESSAGE = 4
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

    Before messages are dropped, old results of calls are cleared: each becomes one line with the
    number by which an agent's model reads it again (docs/many-actions.md). So much is cleared at a
    time that prompts grow at their end for a while.

    The oldest message is dropped first, but never, even if these alone are too large,

    * a system message,
    * the last message, with the call that it belongs to,
    * the last user message, which is the agent's task,
    * a call without its results, or results without their call.

    Args:
        max_tokens: how many tokens there may be
        reply_tokens: how many there may be while messages come after the last user message, which
            an agent needs for its reply; what was before them goes first; `max_tokens` if left out
        clear: whether old results are cleared
        count: returns how many tokens a text has; default: an estimate on the high side

    Raises:
        DefinitionError: a number of tokens is not a positive integer

    Attributes:
        left_out: how many messages after the last user message were dropped
    """

    only_grows = True

    def __init__(
        self,
        max_tokens: int = DEFAULT_TOKENS,
        count: Callable[[str], int] | None = None,
        *,
        reply_tokens: int | None = None,
        clear: bool = True,
    ) -> None:
        check_integer(f"{type(self).__name__}: max_tokens=", max_tokens)
        if clear is not True:
            check_boolean(f"{type(self).__name__}: clear=", clear)
        if reply_tokens is not None:
            check_integer(f"{type(self).__name__}: reply_tokens=", reply_tokens)
        if count is not None:
            check_function(f"{type(self).__name__}: count=", count, "text")
        self.max_tokens = max_tokens
        self.reply_tokens = reply_tokens
        self.clear: bool = clear
        self._count = count or estimate_tokens
        super().__init__()

    def start_empty(self) -> None:
        """Begin without memories."""
        super().start_empty()
        self._sizes: list[int] = []
        self._tokens = 0
        self.left_out: int = 0
        self._task_index = -1  # the index of the last user message
        self._cleared: tuple[int, ...] = ()
        self._numbered_count = 0  # how many results have a number
        self._clearable_count = 0  # how many of them could be cleared

    if not TYPE_CHECKING:  # for a checker they are inherited; at run time a subclass loses them
        add_once = Memory.add_once
        thread = Memory.thread
        view_of_fork = Memory.view_of_fork

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
        items = self._items
        if len(self._sizes) != len(items):
            self._recount()
        if memory.get("role") == "user":
            self._task_index, self.left_out = len(items), 0
        items.append(memory)
        size = self.size_of(memory)
        self._sizes.append(size)
        tokens = self._tokens = self._tokens + size
        if RESULT_KEY in memory:
            self._numbered_count += 1
            self._clearable_count += _may_clear(memory)
        if tokens > self.max_tokens and tokens > (bound := self._bound):
            self._shrink_to(bound)

    def _shrink_to(self, bound: int) -> None:
        has_clearable = self.clear and self._clearable_count > 0
        if self.reply_tokens is not None:  # what earlier replies left goes first
            if has_clearable:
                self._clear(in_reply=False)
            self._drop(bound, in_reply=False)
        if self._tokens > bound:
            if has_clearable:
                self._clear()
            self._drop(bound)

    def take_cleared(self) -> list[int]:
        """Return the numbers of results that were cleared since, once."""
        if not self._cleared:
            return []
        numbers, self._cleared = self._cleared, ()
        return list(numbers)

    def make_room(self) -> bool:
        """Make the prompt shorter; return whether it is."""
        tokens_before = self.tokens
        if self.clear:
            self._clear(tokens_before // 2)
        if self._tokens > tokens_before // 2:
            self._drop(tokens_before // 2)
        return self._tokens < tokens_before

    def _recount(self) -> None:
        """Count anew: the list is public, and other code may have cleared or extended it."""
        self._sizes = [self.size_of(item) for item in self._items]
        self._tokens = sum(self._sizes)
        self._numbered_count = sum(RESULT_KEY in item for item in self._items)
        self._clearable_count = sum(map(_may_clear, self._items))
        user_indexes = [
            index for index, item in enumerate(self._items) if item.get("role") == "user"
        ]
        self._task_index = user_indexes[-1] if user_indexes else -1

    def size_of(self, item: dict[str, Any]) -> int:
        """Return how many tokens a message has."""
        content, count = item.get("content"), self._count
        size = _TOKENS_PER_MESSAGE
        if content.__class__ is str:
            if content:
                size += count(content)
        elif isinstance(content, list):
            for block in content:
                text = block.get("text") if isinstance(block, dict) else None
                size += count(text) if isinstance(text, str) else BLOCK_TOKENS
        elif content is not None:
            size += count(repr(content))
        calls = item.get("tool_calls")
        if calls:
            size += count(repr(calls))
        return size

    @property
    def _newest_start(self) -> int:
        """Where the last message and its call start."""
        newest = len(self._items) - 1
        while newest > 0 and self._items[newest].get("role") == "tool":
            newest -= 1
        return newest

    @property
    def _third_of_window(self) -> int:
        """A third of the model's window, of which `max_tokens` are half."""
        return self.max_tokens * 2 // 3

    def _clear(self, limit: int | None = None, in_reply: bool = True) -> None:
        """Clear old results: if there are too many tokens, or down to `limit`, if that is given.

        If not `in_reply`, those of the running reply stay.
        """
        if not self._clearable_count:
            return
        if limit is None:
            if self._tokens <= self._bound:
                return
            limit = min(self._bound - self._third_of_window, self._third_of_window)
        for index in range(self._newest_start if in_reply else self._task_index):
            if self._tokens <= limit:
                break
            item = self._items[index]
            number = number_of(item)
            if number is not None and _may_clear(item) and not self._is_being_read(item):
                self._replace(index, cleared_result(item, number, number))
                self._cleared += (number,)
        self._join_cleared()

    def _join_cleared(self) -> None:
        """Have one line stand for the oldest cleared results, once these take too much."""
        items = self._items
        spans = [
            (index, end)
            for index, item in enumerate(items)
            if item.get("tool_calls")
            and (end := self._end_of(index)) > index + 1
            and all(map(is_cleared, items[index + 1 : end]))
        ]
        sizes = [sum(self._sizes[start:end]) for start, end in spans]
        size = sum(sizes)
        if size <= self._third_of_window // 3:
            return
        merged_count = 0
        while merged_count < len(spans) - 1 and size > self._third_of_window // 6:
            size -= sizes[merged_count]
            merged_count += 1
        for start, end in reversed(spans[:merged_count]):
            self._remove(start, end)

    def _end_of(self, index: int) -> int:
        """Return where the results of a call end."""
        end = index + 1
        while end < len(self._items) and self._items[end].get("role") == "tool":
            end += 1
        return end

    def _replace(self, index: int, item: dict[str, Any]) -> None:
        size = self.size_of(item)
        self._tokens += size - self._sizes[index]
        self._clearable_count += _may_clear(item) - _may_clear(self._items[index])
        self._items[index], self._sizes[index] = item, size

    def _is_being_read(self, item: dict[str, Any]) -> bool:
        """Whether a model is reading a message to summarise it."""
        return False

    def _drop(self, limit: int, in_reply: bool = True) -> None:
        """Drop the oldest down to `limit` tokens; if not `in_reply`, only what is before the reply.

        Of that, an eighth of `max_tokens` stays, as results of the reply can be read again.
        """
        if not in_reply:
            limit = max(limit, sum(self._sizes[self._task_index :]) + self.max_tokens // 8)
        items, sizes = self._items, self._sizes
        newest = self._newest_start if in_reply else self._task_index
        # A line for cleared results changes with each that goes.
        one_by_one = self._numbered_count > 0
        start = 0
        while (tokens := self._tokens) > limit:
            while start < newest and (
                start == self._task_index or items[start].get("role") == "system"
            ):
                start += 1
            if start >= newest:
                break
            end, stop = start, newest if start > self._task_index else min(newest, self._task_index)
            while end < stop:  # what goes, goes at once: each call with its results
                role = items[end].get("role")
                if role != "tool" and (tokens <= limit or role == "system"):
                    break
                if one_by_one and role != "tool" and end > start:
                    break
                tokens -= sizes[end]
                end += 1
            self.left_out += end - start if start > self._task_index >= 0 else 0
            self._remove(start, end)
            newest -= end - start

    @property
    def _bound(self) -> int:
        """How many tokens there may be now: more while a reply runs."""
        bound, reply_bound = self.max_tokens, self.reply_tokens
        if reply_bound is None or not -1 < self._task_index < len(self._items) - 1:
            return bound
        return bound if bound > reply_bound else reply_bound

    def _remove(self, start: int, end: int) -> None:
        cleared_numbers: list[int] = []
        if self._numbered_count:
            numbered = [item for item in self._items[start:end] if RESULT_KEY in item]
            cleared_numbers = [range_of(item)[0] for item in numbered if is_cleared(item)]
            self._numbered_count -= len(numbered)
            self._clearable_count -= sum(map(_may_clear, numbered))
        self._tokens -= sum(self._sizes[start:end])
        del self._items[start:end]
        del self._sizes[start:end]
        if self._task_index >= end:
            self._task_index -= end - start
        elif self._task_index >= start:
            self._task_index = -1
        if cleared_numbers:  # the next line stands for these, too
            for index in range(start, len(self._items)):
                if is_cleared(item := self._items[index]):
                    first, last = range_of(item)
                    self._replace(index, cleared_result(item, min(first, *cleared_numbers), last))
                    break


def _may_clear(item: dict[str, Any]) -> bool:
    """Whether a message has a result with a number that is not cleared."""
    return number_of(item) is not None and not is_cleared(item)
