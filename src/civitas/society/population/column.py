"""Columns: what a block keeps of each citizen of a population, and where a status has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from civitas.errors import ConfigError
from civitas.society.arrays import numpy
from civitas.text import excerpt

if TYPE_CHECKING:
    from civitas.society.network import Network

PLACE: Final = "place"
"""The dtype of a column of places: int32, the number of the place in `city.ids()`, −1 for none."""
_TYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "float32", "float64"),
)


@dataclass(frozen=True)
class Column:
    """One value, or `width` values, of each citizen.

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
        slots: whether each of its `width` values lies with those of the other citizens, so that
            values that nobody has take no memory; its default must be 0
    """

    dtype: str = "int64"
    default: Any = 0
    width: int | None = None
    seen: bool = False
    key: tuple[str, ...] = ()
    words: tuple[str | None, ...] = ()
    own: bool = False
    slots: bool = False

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

    def made(self, count: int) -> Any:
        """Return its array for so many citizens, filled with the default."""
        shape = count if self.width is None else (count, self.width)
        default = -1 if self.dtype == PLACE and not self.default else self.default
        if default == 0:
            return numpy().zeros(shape, self.stored, order="F" if self.slots else "C")
        return numpy().full(shape, default, dtype=self.stored)

    def of_status(self, name: str, status: dict[str, Any], number: Callable[[Any], int]) -> Any:
        """Return its value in a citizen's status; None where the status does not say."""
        at: Any = status
        for key in self.key or (name,):
            if not isinstance(at, dict) or key not in at:
                return None
            at = at[key]
        if self.dtype == PLACE:
            return [number(each) for each in at] if self.width else number(at)
        if self.words:
            return self.words.index(at) if at in self.words else len(self.words) - 1
        return at

    def texts(self, places: Sequence[str]) -> Sequence[str | None] | None:
        """Return what its numbers stand for, −1 being the last; None where they are numbers."""
        return [*places, None] if self.dtype == PLACE else self.words or None

    def to_status(
        self, name: str, status: dict[str, Any], value: Any, places: Sequence[str]
    ) -> None:
        """Write its value, of a row, into a citizen's status."""
        plain = value.tolist() if hasattr(value, "tolist") else value
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


class Register(Protocol):
    """The columns of a population, and what the numbers in them stand for; see `Population`."""

    seed: int
    city: Any
    network: Network | None
    blocks: Any
    ids: Any
    full: Any
    base: int
    until: int
    arrays: dict[str, Any]
    declared: dict[str, Column]
    places: tuple[str, ...]
    words: list[str]
    services: list[str]
    strangers: list[str]
    _place: dict[str, int]
    _word: dict[str, int]

    def __len__(self) -> int: ...

    @property
    def columns(self) -> Mapping[str, Any]:
        """The arrays, by name, full agents included."""
        ...

    def fresh(self, name: str) -> Any:
        """Return a column as it is now."""
        ...

    def row_of(self, id: str | int) -> int:
        """Return the row of a citizen."""
        ...

    def _row(self, id: str) -> int | None: ...

    def id_of(self, row: int) -> str:
        """Return the id of a row."""
        ...

    def encoded(self, what: str, value: Any) -> int:
        """Return the number that stands for a value in wants."""
        ...

    def decoded(self, what: str, number: int) -> Any:
        """Return what a number in wants stands for."""
        ...

    def place_number(self, place: str | None) -> int:
        """Return the number of a place."""
        ...
