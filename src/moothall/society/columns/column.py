"""Columns: what a block keeps of each citizen of a population, and where a status has it."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer, excerpt
from moothall.society.arrays import Array, np
from moothall.society.kernel.wants import PLACE

_TYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "float32", "float64"),
)

_BOUNDS: Final = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}


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
        slots: whether each of the `width` values lies with those of the other citizens, so that
            slots that nobody uses take no memory; its default must be 0
        citizen: whether its numbers are rows + 1 of citizens (below 0: agents that are no rows), so
            that they follow a row whose number changes
        renumbered: where its numbers stand for places, or kinds of places, otherwise than `"place"`
            does: a function of them and of a `Renumbering`, which returns those of another city
    """

    dtype: str = "int64"
    default: Any = 0
    width: int | None = None
    seen: bool = False
    key: tuple[str, ...] = ()
    words: tuple[str | None, ...] = ()
    own: bool = False
    slots: bool = False
    citizen: bool = False
    renumbered: Callable[[Array, Any], Array] | None = None

    def __post_init__(self) -> None:
        if self.width is not None:
            check_integer("a column's width", self.width, 1, None)
        if self.dtype not in (PLACE, *_TYPES):
            raise ConfigError(
                f"a column's dtype must be of booleans, integers or floats, or 'place', got "
                f"{excerpt(self.dtype)}"
            )
        if not self._can_hold(self.default):
            expected = "0" if self.slots else f"a value of {self.dtype}"
            raise ConfigError(f"a column's default must be {expected}, got {excerpt(self.default)}")

    def _can_hold(self, value: object) -> bool:
        """Return whether its array can hold a value as it is."""
        if self.dtype == PLACE and value is None:
            return True
        if self.slots or self.dtype == "bool":
            return isinstance(value, Real) and value in ((0,) if self.slots else (0, 1))
        if self.dtype.startswith("float"):
            return isinstance(value, Real)
        low, high = _BOUNDS[self.stored]
        low = -1 if self.dtype == PLACE else low
        return isinstance(value, Integral) and low <= int(value) <= high

    @property
    def stored(self) -> str:
        """The type of its array."""
        return "int32" if self.dtype == PLACE else self.dtype

    def new_array(self, count: int) -> Array:
        """Return an array for `count` citizens, filled with the default."""
        shape: Any = count if self.width is None else (count, self.width)
        default = -1 if self.dtype == PLACE and not self.default else self.default
        if self.slots:
            return lazy_zeros(shape, self.stored)
        if default == 0:
            return np.zeros(shape, self.stored)
        return np.full(shape, default, dtype=self.stored)

    def array_of(self, values: Any) -> Any:
        """Return an array of given values, of which there may be more per citizen than declared."""
        if not self.slots:
            return values.copy()
        copy = lazy_zeros(values.shape, values.dtype)
        for slot in values.any(axis=0).nonzero()[0]:
            copy[:, slot] = values[:, slot]
        return copy

    def of_status(
        self, name: str, status: Mapping[str, object], number: Callable[[Any], int]
    ) -> Any:
        """Return the column's value in a citizen's status; None if the status lacks it."""
        value: Any = status
        for key in self.key or (name,):
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]
        if self.words and value not in self.words:
            return len(self.words) - 1
        return self.number_of(name, value, number)

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

    def decode(self, value: Any, places: Sequence[str]) -> Any:
        """Return what the column's value of a row stands for."""
        if self.words:
            return self.words[value]
        if self.dtype == PLACE:
            is_list = self.width is not None
            return [_place_id(n, places) for n in value] if is_list else _place_id(value, places)
        is_empty = isinstance(value, float) and not math.isfinite(value)
        return None if is_empty else value  # an empty cell of a table is no JSON

    def to_status(
        self, name: str, status: dict[str, Any], value: Any, places: Sequence[str]
    ) -> None:
        """Write the column's value of a row into a citizen's status."""
        plain = self.decode(value.tolist() if hasattr(value, "tolist") else value, places)
        if self.words and plain is None:
            return
        if not self.key:
            status[name] = plain
            return
        parent = status
        *path, last = self.key
        for key in path:
            parent = parent.setdefault(key, {})
        parent[last] = plain


def _place_id(number: int, places: Sequence[str]) -> str | None:
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
COMMIT_COLUMNS: Final[tuple[str, ...]] = (
    "money",
    "place",
    "moving_to",
    "moving_from",
    "arrives",
    "left",
    "mode",
)
"""The columns that the commit stage alone writes."""


# -- several values of each ------------------------------------------------------------------------


def lazy_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros in Fortran order; a page takes memory only once it is written."""
    # numpy's own lie in pages of 2 MB where the system has such: one value then takes a whole one.
    count = int(np.prod(shape))
    is_small = count * np.dtype(dtype).itemsize < mmap.PAGESIZE
    if is_small or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(shape, dtype, order="F")
    memory = mmap.mmap(-1, count * np.dtype(dtype).itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype, count).reshape(shape, order="F")


def fill(array: Array, row: int, values: Sequence[object]) -> None:
    """Write values into the first slots of a row, and 0 into the others that had a value."""
    array[row, : len(values)] = values
    rest = array[row, len(values) :]
    rest[rest != 0] = 0  # what is not written takes no memory
