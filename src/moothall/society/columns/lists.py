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

    def larger(self, more: int) -> Lists:
        """Add `more` empty lists; return this object."""
        self.count = np.concatenate([self.count, np.zeros(more, np.int32)])
        for number, old in enumerate(self._slots):
            self._slots[number] = lazy_zeros((len(self.count),), np.int32)
            some = old.nonzero()[0]  # what is not written takes no memory
            self._slots[number][some] = old[some]
        return self

    def append(self, at: Array, values: Array) -> None:
        """Append numbers to lists, in order; a list may occur more than once."""
        order = np.argsort(at, kind="stable")
        for turn in turns(at[order]):
            which, numbers = at[order[turn]], values[order[turn]]
            slot = self.count[which]
            for number in np.unique(slot).tolist():
                if number == len(self._slots):
                    self._slots.append(lazy_zeros((len(self.count),), np.int32))
                some = slot == number
                self._slots[number][which[some]] = numbers[some]
            self.count[which] += 1

    def remove(self, at: Array, values: Array) -> Array:
        """Remove numbers that are once in their lists; return which were there."""
        there, order = np.zeros(len(at), bool), np.argsort(at, kind="stable")
        for turn in turns(at[order]):
            which, numbers = at[order[turn]], values[order[turn]]
            hit = np.zeros(len(which), bool)
            for slot, part, current in self.parts(which):
                hit[part] |= current == numbers[part]
                later = which[part[hit[part] & (self.count[which[part]] > slot + 1)]]
                if len(later):
                    self._slots[slot][later] = self._slots[slot + 1][later]
            self.count[which] -= hit
            there[order[turn]] = hit
        return there

    def parts(self, at: Array) -> Iterator[tuple[int, Array, Array]]:
        """Yield each slot, the positions in `at` of the lists that reach it, and their numbers."""
        count, which = self.count[at], np.arange(len(at))
        for slot, numbers in enumerate(self._slots):
            which = which[count[which] > slot]
            if not len(which):
                return
            yield slot, which, numbers[at[which]]

    def contains(self, at: Array, values: Array) -> Array:
        """Return for each list whether it contains a number."""
        is_in = np.zeros(len(at), bool)
        for _, which, numbers in self.parts(at):
            is_in[which] |= numbers == values[which]
        return is_in

    def of(self, at: int) -> list[int]:
        """Return the numbers of one list, in order."""
        return [numbers.item(0) for *_, numbers in self.parts(np.array([at]))]


def turns(numbers: Array) -> list[Array]:
    """Split positions in sorted numbers into parts, each with a number at most once."""
    if not len(numbers):
        return []
    turn = turn_of(numbers)
    order = np.argsort(turn, kind="stable")
    return list(np.split(order, np.cumsum(np.bincount(turn))[:-1]))


def turn_of(numbers: Array) -> Any:
    """Return for each of sorted numbers how often it came before."""
    begins = np.ones(len(numbers), bool)
    np.not_equal(numbers[1:], numbers[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return np.arange(len(numbers)) - starts[np.cumsum(begins) - 1]
