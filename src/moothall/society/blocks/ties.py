"""Relations of a population as columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.columns.column import Column, Walk
from moothall.society.columns.rows import Rows

_BLOCK: Final = 8  # relations stored together; most citizens have no more
_HASHED: Final = 1 << 16
"""Codes are first compared modulo this: different last bits mean different agents."""


@functools.cache
def friend_columns(friends: int) -> dict[str, Column]:
    """Return the columns of relations, in the order of the first contacts; strengths 0 … 1000."""
    return {
        # The friend's row + 1; 0 for none; below 0 an agent that is not a citizen.
        "friends": Column("int32", width=friends, own=True, slots=_BLOCK),
        "friendship": Column("int16", width=friends, own=True, slots=_BLOCK),
        "faded": Column("int32", -1),  # the day on which they last faded
    }


class Ties:
    """Reads and changes the relations of some rows, or what else has codes and strengths.

    A row's relations fill the first slots, so a walk slot by slot drops rows as they run out.
    """

    def __init__(
        self, rows: Rows, at: Any = None, names: tuple[str, str] = ("friends", "friendship")
    ) -> None:
        self._friends, self._friendship = (rows.population.arrays[name] for name in names)
        self._index = rows.at if at is None else rows.at[at]

    def slots(self, at: Any = ...) -> Iterator[tuple[int, Any, Any, Walk]]:
        """Walk the slots; yield the slot, positions of rows that use it, codes, and strengths."""
        index = self._index[at]
        left = np.arange(len(index))
        friends, close = Walk(self._friends, index), Walk(self._friendship, index)
        for slot in range(self._friends.shape[1]):
            codes = friends.of(slot)
            some = codes.nonzero()[0]
            if len(some) < len(codes):
                if not len(some):
                    return
                left, codes = left[some], codes[some]
                friends.keep(some)
                close.keep(some)
            yield slot, left, codes, close

    def total(self) -> Any:
        """Return the sum of each row's strengths; int64."""
        sums = np.zeros(len(self._index), np.int64)
        for slot, left, _, close in self.slots():
            sums[left] += close.of(slot)
        return sums

    def choice(self, at: Any, share: Any) -> Any:
        """Return for each position the friend where the summed strength first exceeds `share`."""
        rest, found = share.copy(), np.zeros(len(at), np.int32)
        for slot, left, codes, close in self.slots(at):
            before = rest[left]
            after = before - close.of(slot)
            rest[left] = after
            now = ((before >= 0) & (after < 0)).nonzero()[0]
            found[left[now]] = codes[now]
        return found

    def strength(self, codes: Any) -> Any:
        """Return the strengths with others, (n, others) as their codes; 0 without a relation."""
        found = np.zeros(codes.shape, np.int64)
        maybe = np.zeros(_HASHED, bool)
        maybe[codes & (_HASHED - 1)] = True
        for slot, left, friends, _ in self.slots():
            some = maybe[friends & (_HASHED - 1)].nonzero()[0]
            if len(some):
                at, which = np.nonzero(codes[left[some]] == friends[some, None])
                mine = left[some[at]]
                found[mine, which] = self._friendship.of(self._index[mine], slot)
        return found

    def closer(self, at: Any, codes: Any, change: Callable[[Any], Any]) -> None:
        """Change or add one relation of each row; if full, drop the (first) weakest other."""
        index, most = self._index[at], self._friends.shape[1]
        slot = self._found(index, codes)
        relation = np.zeros(len(index), np.int64)
        has = np.flatnonzero(slot < most)
        relation[has] = self._friendship.of(index[has], slot[has])
        full = index[slot == most]
        if len(full):
            weakest = self._friendship[full].argmin(1)
            kept = np.arange(most - 1) + (np.arange(most - 1) >= weakest[:, None])
            for column in (self._friends, self._friendship):
                values = column[full]
                values[:, : most - 1] = np.take_along_axis(values, kept, 1)
                column[full] = values
            slot = np.minimum(slot, most - 1)
        self._friends.put(index, slot, codes)
        self._friendship.put(index, slot, change(relation))

    def _found(self, index: Any, codes: Any) -> Any:
        """Return each row's slot of a code, else its first empty slot, else the number of slots."""
        most = self._friends.shape[1]
        slots, left = np.full(len(index), most), np.arange(len(index))
        friends = Walk(self._friends, index)
        for slot in range(most):
            here = friends.of(slot)
            goes_on = (here != codes) & (here != 0)
            slots[left] = slot
            some = goes_on.nonzero()[0]
            left, codes = left[some], codes[some]
            friends.keep(some)
            if not len(left):
                break
        slots[left] = most
        return slots

    def fade(self, fade: Callable[[Any], Any], but: Ties, codes: Any) -> None:
        """Change all strengths, except each relation of the rows of `but` with their `codes`."""
        kept = but._found(but._index, codes)
        has = np.flatnonzero(kept < self._friends.shape[1])
        kept_at = but._index[has], kept[has]
        close = self._friendship.of(*kept_at)
        for slot, left, _, strength in self.slots():
            after = fade(strength.of(slot).astype(np.int64))
            self._friendship.put(self._index[left], slot, after)
        self._friendship.put(*kept_at, close)


def code_of(number: Any) -> Any:
    """Return the codes in `friends` of agents numbered as in wants."""
    return np.where(number >= 0, number + 1, number)
