"""Relations of a population as columns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from civitas.society.arrays import numpy
from civitas.society.population.column import Column

if TYPE_CHECKING:
    from civitas.society.population.rows import Rows


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

    Args:
        rows: of which
        at: their positions in the rows; all if left out

    Attributes:
        codes: with whom, by slot and row, as many slots as somebody has friends; int32
        close: how close; int64
    """

    def __init__(self, rows: Rows, at: Any = None) -> None:
        np = numpy()
        arrays, base = rows.population.arrays, rows.population.base
        self._friends, self._friendship = arrays["friends"], arrays["friendship"]
        self._index = (rows.index if at is None else rows.index[at]) - base
        codes = []
        for slot in range(self._friends.shape[1]):
            column = self._friends[self._index, slot]
            if not column.any():
                break
            codes.append(column)
        shape = len(codes), len(self._index)
        self.codes, self.close = np.empty(shape, np.int32), np.empty(shape, np.int64)
        for slot, column in enumerate(codes):
            self.codes[slot], self.close[slot] = column, self._friendship[self._index, slot]

    def of(self, codes: Any) -> Any:
        """The slot of each one's relation with somebody, −1 for none."""
        slots = numpy().full(len(codes), -1)
        for slot, column in enumerate(self.codes):
            slots[column == codes] = slot
        return slots

    def strength(self, at: Any, codes: Any) -> Any:
        """How close the ones at these positions are to somebody; 0 without a relation."""
        np = numpy()
        found = np.zeros(len(codes), np.int64)
        for column, close in zip(self.codes, self.close, strict=True):
            same = np.flatnonzero(column[at] == codes)
            found[same] = close[at[same]]
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
        mine, close, index = self.codes[:, at], self.close[:, at], self._index[at]
        slot = np.full(len(codes), -1)
        relation = np.zeros(len(codes), np.int64)
        for number, column in enumerate(mine):
            same = np.flatnonzero(column == codes)
            slot[same], relation[same] = number, close[number, same]
        count = (mine != 0).sum(0)
        most = self._friends.shape[1]
        full = np.flatnonzero((slot < 0) & (count == most))
        slot = np.where(slot >= 0, slot, np.minimum(count, most - 1))
        if len(full):
            weakest, of = close[:, full].argmin(0), index[full]
            for each in range(most - 1):
                kept = each + (each >= weakest)
                self._friends[of, each] = mine[kept, full]
                self._friendship[of, each] = close[kept, full]
        self._friends[index, slot] = codes
        self._friendship[index, slot] = change(relation)

    def keep(self, slot: Any) -> None:
        """Write how close each was in a slot, if that is one, once more."""
        at = numpy().flatnonzero(slot >= 0)
        self._friendship[self._index[at], slot[at]] = self.close[slot[at], at]

    def fade(self, fade: Callable[[Any], Any]) -> None:
        """Change how close all are."""
        for slot, close in enumerate(self.close):
            self._friendship[self._index, slot] = fade(close)


def code_of(number: Any) -> Any:
    """The code in `friends` of agents as wants name them."""
    return numpy().where(number >= 0, number + 1, number)
