"""Columns: what a block keeps of each citizen of a population, and where a status has it."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moothall.errors import ConfigError
from moothall.society.arrays import np
from moothall.society.kernel.wants import PLACE
from moothall.text import excerpt
from moothall.threads import guard

_TYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "float32", "float64"),
)


@dataclass(frozen=True)
class Column:
    """One value, or `width` values, per citizen.

    Attributes:
        dtype: a numpy type of booleans, integers or floats, or `"place"`: the number of a place in
            `city.ids()`, −1 for None, kept as int32
        default: what citizens begin with whose status does not say
        width: how many values each citizen has; None for one
        seen: whether others may read it (`rows.seen`, `perceived.seen`), as it was before the step
        key: where it stands in a citizen's status, such as `("needs", "hunger")`; its name if empty
        words: what its numbers stand for in a status, from 0 up; None is left out of a status, and
            what is not among them counts as the last
        own: whether the block's `to_status` and `from_status` bring it into a status and back
        slots: whether values that nobody has take no memory: True where each of the `width` values
            lies with those of the other citizens, a number for blocks of so many (`Slots`), of
            which who has more values gets more; its default must be 0
    """

    dtype: str = "int64"
    default: Any = 0
    width: int | None = None
    seen: bool = False
    key: tuple[str, ...] = ()
    words: tuple[str | None, ...] = ()
    own: bool = False
    slots: bool | int = False

    def __post_init__(self) -> None:
        if self.width is not None and (type(self.width) is not int or self.width < 1):
            raise ConfigError(f"a column's width must be 1 or more, got {excerpt(self.width)}")
        if self.dtype not in (PLACE, *_TYPES):
            raise ConfigError(
                f"a column's dtype must be of booleans, integers or floats, or 'place', got "
                f"{excerpt(self.dtype)}"
            )

    @property
    def stored(self) -> str:
        """The type of its array."""
        return "int32" if self.dtype == PLACE else self.dtype

    def new_array(self, count: int) -> Any:
        """Return an array for `count` citizens, filled with the default."""
        shape: Any = count if self.width is None else (count, self.width)
        default = -1 if self.dtype == PLACE and not self.default else self.default
        if self.slots:
            if self.slots is True:
                return untouched(shape, self.stored)
            return Slots(shape, self.stored, self.slots)
        if default == 0:
            return np.zeros(shape, self.stored)
        return np.full(shape, default, dtype=self.stored)

    def array_of(self, values: Any) -> Any:
        """Return an array of given values, of which there may be more per citizen than declared."""
        if self.slots is True or not self.slots:
            return values.copy("F" if self.slots else "C")
        made = self.new_array(len(values))
        made[...] = values
        return made

    def of_status(self, name: str, status: dict[str, Any], number: Callable[[Any], int]) -> Any:
        """Return the column's value in a citizen's status; None if the status lacks it."""
        at: Any = status
        for key in self.key or (name,):
            if not isinstance(at, dict) or key not in at:
                return None
            at = at[key]
        if self.words and at not in self.words:
            return len(self.words) - 1
        return self.number_of(name, at, number)

    def number_of(self, name: str, value: Any, number: Callable[[Any], int]) -> Any:
        """Return what stands for a value in the column. Raises ConfigError if nothing does."""
        if self.dtype == PLACE:
            return [number(each) for each in value] if self.width else number(value)
        if not self.words:
            return value
        if value not in self.words:
            words = ", ".join(filter(None, self.words))
            raise ConfigError(f"{name} must be one of {words}, got {excerpt(value)}")
        return self.words.index(value)

    def texts(self, places: Sequence[str]) -> Sequence[str | None] | None:
        """Return the texts that its numbers stand for, −1 the last; None for plain numbers."""
        return [*places, None] if self.dtype == PLACE else self.words or None

    def to_status(
        self, name: str, status: dict[str, Any], value: Any, places: Sequence[str]
    ) -> None:
        """Write the column's value of a row into a citizen's status."""
        plain = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(plain, float) and not math.isfinite(plain):
            plain = None  # an empty cell of a table is no JSON
        if self.dtype == PLACE:
            plain = (
                [_place(each, places) for each in plain] if self.width else _place(plain, places)
            )
        if self.words:
            plain = self.words[plain]
            if plain is None:
                return
        at = status
        *path, last = self.key or (name,)
        for key in path:
            at = at.setdefault(key, {})
        at[last] = plain


def _place(number: int, places: Sequence[str]) -> str | None:
    return None if number < 0 else places[number]


MONEY: Final = {"money": Column("int64")}
PLACES: Final = {
    "place": Column(PLACE, None),
    "home": Column(PLACE, None),
    "moving_to": Column(PLACE, None),
    "moving_from": Column(PLACE, None),
    "arrives": Column("int32"),
    "left": Column("int32"),
    "mode": Column("int16", -1),
}
"""What every population has, and those that have places."""
SETTLED: Final = ("money", "place", "moving_to", "moving_from", "arrives", "left", "mode")
"""The columns that the commit stage alone writes."""


# -- several values of each ------------------------------------------------------------------------


_ADDING: Final = guard()


def untouched(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros in Fortran order; a page takes memory only once it is written.

    numpy's own lie in pages of 2 MB where the system has such: one value then takes a whole one.
    """
    count = int(np.prod(shape))
    if not count or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(shape, dtype, order="F")
    room = mmap.mmap(-1, count * np.dtype(dtype).itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, dtype, count).reshape(shape, order="F")


class Slots:
    """A column of several values per citizen in linked blocks; who has more values gets more.

    `slots[rows]` are all values of rows, as a copy, and `numpy.asarray(slots)` those of all; both
    may be assigned to, where values that are left out are 0. Threads may write different rows at a
    time.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, block: int) -> None:
        self.shape: tuple[int, int] = shape
        self.dtype: Any = np.dtype(dtype)
        self.ndim: int = 2
        self._block = block
        self._blocks = [np.zeros((shape[0], block), dtype, order="F")]
        """By level. In the first each has one; in the others who needs it, as they came, and block
        0 is nobody's and stays empty."""
        self._nexts: list[Any] = []
        """By level: the block of the next level that goes on with each; 0 for none."""
        self._used = [shape[0]]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        whole = untouched(self.shape, self.dtype)
        rows = np.arange(len(self))
        for level in range(len(self._blocks)):
            first = level * self._block
            rows = rows[self._at(rows, level) > 0] if level else rows
            for slot in range(first, min(first + self._block, self.shape[1])):
                whole[rows, slot] = self.of(rows, slot)
        return whole if dtype is None else whole.astype(dtype)

    def __getitem__(self, rows: Any) -> Any:
        some = self._rows(rows)
        found = np.zeros((len(some), self.shape[1]), self.dtype)
        for slot in range(min(len(self._blocks) * self._block, self.shape[1])):
            found[:, slot] = self.of(some, slot)
        return found if np.ndim(rows) or isinstance(rows, slice) else found[0]

    def __setitem__(self, rows: Any, values: Any) -> None:
        some = self._rows(rows)
        values = np.atleast_2d(values)
        last = values.any(axis=0).nonzero()[0].max(initial=-1)  # 0 beyond it and in no block
        for slot in range(min(self.shape[1], max(last + 1, len(self._blocks) * self._block))):
            each = values[:, slot] if slot < values.shape[1] else values.dtype.type(0)
            self.put(some, slot, np.broadcast_to(each, len(some)))

    def of(self, rows: Any, slot: Any) -> Any:
        """Return the value of each row in a slot: one slot, or one of each."""
        if np.ndim(slot) == 0:
            return Walk(self, rows).of(slot)
        level, column = np.divmod(slot, self._block)
        if not level.any():
            return self._blocks[0][rows, column]
        found = np.zeros(len(rows), self.dtype)
        for each, blocks in enumerate(self._blocks):
            some = np.flatnonzero(level == each)
            found[some] = blocks[self._at(rows[some], each), column[some]]
        return found

    def put(self, rows: Any, slot: Any, values: Any) -> None:
        """Write the value of each row, each there once, in a slot: one slot, or one of each."""
        level, column = np.divmod(slot, self._block)
        deepest = int(level.max(initial=0))
        if np.ndim(slot) == 0 or not deepest:
            self._put(rows, deepest, column, values)
            return
        for each in range(deepest + 1):
            some = np.flatnonzero(level == each)
            self._put(rows[some], each, column[some], values[some])

    # -- blocks ------------------------------------------------------------------------------------

    def _rows(self, rows: Any) -> Any:
        if rows is Ellipsis or isinstance(rows, slice):
            return np.arange(len(self))[rows]
        return np.atleast_1d(rows)

    def _put(self, rows: Any, level: int, column: Any, values: Any) -> None:
        if not level:
            self._blocks[0][rows, column] = values
            return
        if level >= len(self._blocks):
            if not values.any():
                return
            self._deepen(level)
        at = self._at(rows, level)
        new = np.flatnonzero((at == 0) & (values != 0))
        if len(new):
            at[new] = self._at(rows[new], level, add=True)
        self._blocks[level][at, column] = values  # who has no block writes 0 to that of nobody

    def _at(self, rows: Any, level: int, add: bool = False) -> Any:
        """The blocks of rows in a level; 0 for none, or a new one if `add`."""
        for above, nexts in enumerate(self._nexts[:level]):
            if add:
                new = np.unique(rows[nexts[rows] == 0])
                with _ADDING:
                    first = self._used[above + 1]
                    self._used[above + 1] += len(new)
                nexts[new] = np.arange(first, first + len(new))
            rows = nexts[rows]
        return rows

    def _deepen(self, level: int) -> None:
        with _ADDING:
            while level >= len(self._blocks):
                self._nexts.append(np.zeros(len(self._blocks[-1]), np.int32))
                self._used.append(1)
                self._blocks.append(np.zeros((len(self) + 1, self._block), self.dtype))


class Walk:
    """Reads the values of rows of a column slot by slot, in rising order."""

    def __init__(self, slots: Slots, rows: Any) -> None:
        self._slots, self._at, self._level = slots, rows, 0

    def of(self, slot: int) -> Any:
        """Return the value of each row in a slot."""
        slots = self._slots
        level, column = divmod(slot, slots._block)
        if level >= len(slots._blocks):
            return np.zeros(len(self._at), slots.dtype)
        while self._level < level:
            self._at = slots._nexts[self._level][self._at]
            self._level += 1
        return slots._blocks[level][:, column][self._at]

    def keep(self, some: Any) -> None:
        """Go on with some of the rows."""
        self._at = self._at[some]
