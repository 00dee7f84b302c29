"""Many growing lists of numbers, in arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moothall.society.arrays import np

_BLOCK: Final = 8  # numbers in a block; a list is a chain of blocks
NOTHING: Final = -(1 << 31)


class Lists:
    """`count` lists of int32 numbers, which only grow."""

    def __init__(self, count: int) -> None:
        self.count: Any = np.zeros(count, np.int32)
        self._last = np.full(count, -1, np.int32)
        self._blocks = np.empty((16, _BLOCK), np.int32)
        self._before = np.empty(16, np.int32)
        self._used = 0

    def larger(self, more: int) -> Lists:
        """Add `more` empty lists; return this object."""
        self.count = np.concatenate([self.count, np.zeros(more, np.int32)])
        self._last = np.concatenate([self._last, np.full(more, -1, np.int32)])
        return self

    def append(self, at: Any, values: Any) -> None:
        """Append numbers to lists, in order; a list may occur more than once."""
        order = np.argsort(at, kind="stable")
        for turn in turns(at[order]):
            self._add(at[order[turn]], values[order[turn]])

    def _add(self, at: Any, values: Any) -> None:
        slot = self.count[at] % _BLOCK
        new = at[slot == 0]
        end = self._used + len(new)
        if end > len(self._blocks):
            room = max(end, 2 * len(self._blocks)) - len(self._blocks)
            # Unused blocks are not written, so they take no memory.
            blocks = np.empty((len(self._blocks) + room, _BLOCK), np.int32)
            before = np.empty(len(blocks), np.int32)
            blocks[: self._used] = self._blocks[: self._used]
            before[: self._used] = self._before[: self._used]
            self._blocks, self._before = blocks, before
        self._blocks[self._used : end] = NOTHING
        self._before[self._used : end] = self._last[new]
        self._last[new] = np.arange(self._used, end)
        self._used = end
        self._blocks[self._last[at], slot] = values
        self.count[at] += 1

    def parts(self, at: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Yield blocks of eight, the last first: positions in `at`, numbers, their indices."""
        block = self._last[at]
        start = (self.count[at] - 1) // _BLOCK * _BLOCK
        which = np.flatnonzero(block >= 0)
        while len(which):
            block, start = block[which], start[which]
            yield which, self._blocks[block], start[:, None] + np.arange(_BLOCK)
            nexts = np.full(len(at), -1, np.int32)
            begins = np.zeros(len(at), start.dtype)
            nexts[which], begins[which] = self._before[block], start - _BLOCK
            block, start = nexts, begins
            which = np.flatnonzero(block >= 0)

    def contains(self, at: Any, values: Any) -> Any:
        """Return for each list whether it contains a number."""
        found = np.zeros(len(at), bool)
        for which, numbers, _ in self.parts(at):
            found[which] |= (numbers == values[which, None]).any(1)
        return found

    def of(self, at: int) -> list[int]:
        """Return the numbers of one list, in order."""
        parts = [numbers[0] for _, numbers, _ in self.parts(np.array([at]))]
        return [each for part in reversed(parts) for each in part.tolist() if each != NOTHING]


def turns(given: Any) -> list[Any]:
    """Split positions in sorted numbers into parts, each with a number at most once."""
    if not len(given):
        return []
    turn = turn_of(given)
    order = np.argsort(turn, kind="stable")
    return list(np.split(order, np.cumsum(np.bincount(turn))[:-1]))


def turn_of(given: Any) -> Any:
    """Return for each of sorted numbers how often it came before."""
    starts = np.flatnonzero(np.r_[True, given[1:] != given[:-1]])
    return np.arange(len(given)) - np.repeat(starts, np.diff(np.r_[starts, len(given)]))
