"""Many lists of numbers, in arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moothall.society.arrays import Array, np
from moothall.society.columns.column import lazy_zeros


class Lists:
    """`count` lists of int32 numbers: an array has the k-th number of each."""

    def __init__(self, count: int) -> None:
        self.count: Array = np.zeros(count, np.int32)
        self._slots: list[Array] = []

    def extend(self, count: int) -> Lists:
        """Add `count` empty lists; return this object."""
        self.count = np.concatenate([self.count, np.zeros(count, np.int32)])
        for number, old in enumerate(self._slots):
            self._slots[number] = lazy_zeros((len(self.count),), np.int32)
            used = old.nonzero()[0]  # what is not written takes no memory
            self._slots[number][used] = old[used]
        return self

    def append(self, lists: Array, values: Array) -> None:
        """Append numbers to lists, in order; a list may occur more than once."""
        order = np.argsort(lists, kind="stable")
        for turn in split_by_turn(lists[order]):
            turn_lists, numbers = lists[order[turn]], values[order[turn]]
            slot = self.count[turn_lists]
            for number in np.unique(slot).tolist():
                if number == len(self._slots):
                    self._slots.append(lazy_zeros((len(self.count),), np.int32))
                is_here = slot == number
                self._slots[number][turn_lists[is_here]] = numbers[is_here]
            self.count[turn_lists] += 1

    def remove(self, lists: Array, values: Array) -> Array:
        """Remove numbers that are once in their lists; return which were there."""
        was_there, order = np.zeros(len(lists), bool), np.argsort(lists, kind="stable")
        for turn in split_by_turn(lists[order]):
            turn_lists, numbers = lists[order[turn]], values[order[turn]]
            hit = np.zeros(len(turn_lists), bool)
            for slot, part, current in self.parts(turn_lists):
                hit[part] |= current == numbers[part]
                longer = turn_lists[part[hit[part] & (self.count[turn_lists[part]] > slot + 1)]]
                if len(longer):
                    self._slots[slot][longer] = self._slots[slot + 1][longer]
            self.count[turn_lists] -= hit
            was_there[order[turn]] = hit
        return was_there

    def parts(self, lists: Array) -> Iterator[tuple[int, Array, Array]]:
        """Yield each slot, the positions in `lists` of those that reach it, and their numbers."""
        count, positions = self.count[lists], np.arange(len(lists))
        for slot, numbers in enumerate(self._slots):
            positions = positions[count[positions] > slot]
            if not len(positions):
                return
            yield slot, positions, numbers[lists[positions]]

    def contains(self, lists: Array, values: Array) -> Array:
        """Return for each list whether it contains a number."""
        is_in = np.zeros(len(lists), bool)
        for _, positions, numbers in self.parts(lists):
            is_in[positions] |= numbers == values[positions]
        return is_in

    def numbers_of(self, list_number: int) -> list[int]:
        """Return the numbers of one list, in order."""
        return [numbers.item(0) for *_, numbers in self.parts(np.array([list_number]))]


def split_by_turn(numbers: Array) -> list[Array]:
    """Split positions in sorted numbers into parts, each with a number at most once."""
    if not len(numbers):
        return []
    turn = occurrence_of(numbers)
    order = np.argsort(turn, kind="stable")
    return list(np.split(order, np.cumsum(np.bincount(turn))[:-1]))


def occurrence_of(numbers: Array) -> Any:
    """Return for each of sorted numbers how often it came before."""
    is_first = np.ones(len(numbers), bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    starts = is_first.nonzero()[0]
    return np.arange(len(numbers)) - starts[np.cumsum(is_first) - 1]
