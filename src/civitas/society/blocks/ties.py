"""Relations of a population as columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from civitas.society.arrays import numpy
from civitas.society.population.column import Column

if TYPE_CHECKING:
    from civitas.society.population.rows import Rows

_LITTLE: Final = 64
"""So few rows look at all their relations at once."""
_HASHED: Final = 1 << 16
"""By so many last bits it is seen that two agents are not the same."""


@functools.cache
def friend_columns(friends: int) -> dict[str, Column]:
    """The columns of relations: with whom, and how close; in the order in which they came.

    friends: 1 more than the friend's row; 0 for none; below 0 an agent that is no citizen
    friendship: 0 … 1000
    """
    return {
        "friends": Column("int32", width=friends, own=True, slots=True),
        "friendship": Column("int16", width=friends, own=True, slots=True),
    }


class Ties:
    """The relations of some rows, to be read and changed.

    They are packed left, so they are walked slot by slot by those rows that have so many.

    Args:
        rows: of which
        at: their positions in the rows; all if left out
    """

    def __init__(self, rows: Rows, at: Any = None) -> None:
        arrays = rows.population.arrays
        self._friends, self._friendship = arrays["friends"], arrays["friendship"]
        self._index = rows.at if at is None else rows.at[at]

    def _slots(self, index: Any) -> Iterator[tuple[int, Any, Any, Any]]:
        """Walk the slots: the slot, positions of those who have it, their rows, with whom it is."""
        np = numpy()
        left = np.arange(len(index))
        for slot in range(self._friends.shape[1]):
            codes = self._friends[:, slot][index]
            some = codes.nonzero()[0]
            if len(some) < len(codes):
                if not len(some):
                    return
                left, index, codes = left[some], index[some], codes[some]
            yield slot, left, index, codes

    def total(self) -> Any:
        """How close all friends of each are together; int64."""
        np = numpy()
        sums = np.zeros(len(self._index), np.int64)
        for slot, left, index, _ in self._slots(self._index):
            sums[left] += self._friendship[:, slot][index]
        return sums

    def choice(self, at: Any, share: Any) -> Any:
        """The friend of each at these positions up to whom all together are closer than a share."""
        np = numpy()
        rest, found = share.copy(), np.zeros(len(at), np.int32)
        for slot, left, index, codes in self._slots(self._index[at]):
            before = rest[left]
            after = before - self._friendship[:, slot][index]
            rest[left] = after
            now = ((before >= 0) & (after < 0)).nonzero()[0]
            found[left[now]] = codes[now]
        return found

    def strength(self, codes: Any) -> Any:
        """How close each is to some others, (n, others) like their codes; 0 without a relation."""
        np = numpy()
        found = np.zeros(codes.shape, np.int64)
        maybe = np.zeros(_HASHED, bool)
        maybe[codes & (_HASHED - 1)] = True
        for slot, left, index, friends in self._slots(self._index):
            some = maybe[friends & (_HASHED - 1)].nonzero()[0]
            if len(some):
                at, which = np.nonzero(codes[left[some]] == friends[some, None])
                found[left[some[at]], which] = self._friendship[index[some[at]], slot]
        return found

    def closer(self, at: Any, codes: Any, change: Callable[[Any], Any]) -> None:
        """Change the relation of some with somebody; where it has no room, the weakest other goes.

        The weakest that is first in the order goes, and those after it move up.

        Args:
            at: their positions among these, each once
            codes: with whom each of them
            change: gives the relation by what it was
        """
        np = numpy()
        index, most = self._index[at], self._friends.shape[1]
        slot = self._found(index, codes)
        relation = np.zeros(len(index), np.int64)
        has = np.flatnonzero(slot < most)
        relation[has] = self._friendship[index[has], slot[has]]
        full = index[slot == most]
        if len(full):
            weakest = self._friendship[full].argmin(1)
            kept = np.arange(most - 1) + (np.arange(most - 1) >= weakest[:, None])
            for column in (self._friends, self._friendship):
                column[full, : most - 1] = np.take_along_axis(column[full], kept, 1)
            slot = np.minimum(slot, most - 1)
        self._friends[index, slot] = codes
        self._friendship[index, slot] = change(relation)

    def _found(self, index: Any, codes: Any) -> Any:
        """The slot of the relation of rows with somebody, else their first empty slot, if any."""
        np = numpy()
        most = self._friends.shape[1]
        slots, left = np.full(len(index), most), np.arange(len(index))
        for slot in range(most):
            if len(index) < _LITTLE:
                here = self._friends[index]
                ends = (here == codes[:, None]) | (here == 0)
                slots[left] = np.where(ends.any(1), ends.argmax(1), most)
                break
            here = self._friends[:, slot][index]
            goes_on = (here != codes) & (here != 0)
            slots[left] = slot
            some = goes_on.nonzero()[0]
            left, index, codes = left[some], index[some], codes[some]
        else:
            slots[left] = most
        return slots

    def fade(self, fade: Callable[[Any], Any], but: Ties, codes: Any) -> None:
        """Change how close all are, but for the relations of others with somebody each."""
        np = numpy()
        kept = but._found(but._index, codes)
        has = np.flatnonzero(kept < self._friends.shape[1])
        kept_at = but._index[has], kept[has]
        close = self._friendship[kept_at]
        for slot, _, index, _ in self._slots(self._index):
            column = self._friendship[:, slot]
            column[index] = fade(column[index].astype(np.int64))
        self._friendship[kept_at] = close


def code_of(number: Any) -> Any:
    """The code in `friends` of agents as wants name them."""
    return numpy().where(number >= 0, number + 1, number)
