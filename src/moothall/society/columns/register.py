"""The register of a population: its columns, and what the numbers in them stand for."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from moothall import ConfigError
from moothall.build import excerpt
from moothall.society.arrays import Array, np
from moothall.society.city.network import Network
from moothall.society.columns.column import COMMIT_COLUMNS, MONEY, PLACES, Column
from moothall.society.columns.layers import Layers
from moothall.society.kernel.draw import number_or_text
from moothall.society.kernel.wants import AGENT_ID, INT, PLACE, TEXT, id_order

FIRST_STRANGER: Final = -(1 << 30)
_PART_SIZE: Final = 1 << 16


def empty_register() -> Register:
    """Return a register without citizens, for what no society uses yet."""
    return Register(np.zeros(0, np.uint64), None, (), 0, None)


@functools.cache
def _range_of(dtype: Any) -> tuple[int, int]:
    """Return the least and the greatest number that a type has; of floats none."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return (0, 1) if dtype.kind == "b" else (1, 0)


def is_number(id: str) -> bool:
    """Return whether an id is a number that a row can have; others are words."""
    return type(number_or_text(id)) is int


class Register:
    """The columns of citizens, and what stands for a citizen, a place or a text in them.

    A `Population` is one, and so is the part of it that a worker of an engine has.
    """

    network: Network | None
    layers: Layers
    source: Any = None  # the engine whose workers hold the columns; None if they are here
    pool: Any = None  # the thread pool of its engine, if it has several threads
    is_part: bool = False  # whether it is in a worker of an engine, which has some rows
    remembers: bool = False  # whether rows have agents that remember what they did
    is_alone: bool = False  # whether it is of one citizen in no society
    takes_names: bool = False  # whether names of places and texts that are new get numbers

    def __init__(
        self, ids: Array, city: Any, blocks: tuple[object, ...], seed: int, network: Network | None
    ) -> None:
        self.ids: Array = ids
        self.names: list[str] = []  # the ids in words: of the last rows, in order of id
        self.city: Any = city
        self.blocks: tuple[Any, ...] = blocks
        self.seed: int = seed
        self.network = network
        self.places: tuple[str, ...] = () if city is None else tuple(city.ids())
        city_numbers = getattr(city, "place_numbers", None)  # shared: it is as large as the city
        self.place_numbers: Mapping[str, int] = city_numbers or {
            place: number for number, place in enumerate(self.places)
        }
        declared = {name: c for b in blocks for name, c in getattr(b, "columns", {}).items()}
        self.declared: dict[str, Column] = {**MONEY, **(PLACES if self.places else {}), **declared}
        names = [mode.name for mode in getattr(city, "modes", ())]
        block_words = [word for block in blocks for word in getattr(block, "words", ())]
        self.words: list[str] = list(dict.fromkeys(["", *names, *block_words]))
        self.word_numbers: dict[str, int] = {word: number for number, word in enumerate(self.words)}
        self.services: list[str] = []
        self.strangers: list[str] = []
        self._stranger_numbers: tuple[list[str], dict[str, int]] = (self.strangers, {})
        self.full: Array = np.zeros(len(ids), bool)
        self.base: int = 0
        self.until: int = len(ids)
        """The rows that `arrays` has: all, but in a worker of an engine."""
        self.arrays: dict[str, Array] = {
            name: column.new_array(len(ids)) for name, column in self.declared.items()
        }

    @property
    def has_ended(self) -> bool:
        """Whether its society is closed, so that each citizen goes on alone."""
        return False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fixed_by(self) -> str:
        """Why nobody can come or leave: of a worker's part of a population, always."""
        return "it runs on several processes"

    def row_of(self, id: str | int) -> int:
        """Return the row of a citizen.

        Raises:
            ConfigError: no citizen has that id
        """
        row = self.find_row(str(id))
        if row is None:
            raise ConfigError(f"there is no citizen {excerpt(id)} in the population")
        return row

    def find_row(self, id: str) -> int | None:
        """Return the row of a citizen; None if no citizen has that id."""
        row = self.insertion_row(id)
        return row if row < len(self.ids) and self.id_of(row) == id else None

    def insertion_row(self, id: str) -> int:
        """Return the row that a citizen of an id has, or would have."""
        numbered_count = len(self.ids) - len(self.names)
        if is_number(id):
            return int(np.searchsorted(self.ids[:numbered_count], np.uint64(int(id))))
        return numbered_count + bisect_left(self.names, id_order(id), key=id_order)

    def id_of(self, row: int) -> str:
        """Return the id of a row."""
        number = row - len(self.ids) + len(self.names)
        return str(int(self.ids[row])) if number < 0 else self.names[number]

    def all_ids(self) -> list[str]:
        """Return the ids of all rows, in order."""
        return [*map(str, self.ids[: len(self.ids) - len(self.names)].tolist()), *self.names]

    def number_of(self, id: str) -> int:
        """Return the number of any agent in wants; agents that are no rows are strangers."""
        row = self.find_row(id)
        return self.stranger(id) if row is None else row

    def stranger(self, id: str) -> int:
        """Return the number of an agent that is no row."""
        strangers, numbers = self._stranger_numbers
        if strangers is not self.strangers:  # of a state that was loaded
            numbers = {each: FIRST_STRANGER - index for index, each in enumerate(self.strangers)}
            self._stranger_numbers = self.strangers, numbers
        if id not in numbers:
            numbers[id] = FIRST_STRANGER - len(self.strangers)
            self.strangers.append(id)
        return numbers[id]

    def encode(self, content: str, value: Any) -> int:
        """Return the number that stands for a value in wants. Raises ConfigError: none does."""
        if content == PLACE:
            return self.place_number(value)
        if content == TEXT:
            if value is None:
                return -1
            number = self.word_numbers.get(value) if isinstance(value, str) else None
            if number is None and isinstance(value, str) and self.takes_names:
                number = self.word_numbers[value] = len(self.words)
                self.words.append(value)
            if number is None:
                raise ConfigError(
                    f"the text {excerpt(value)} must be declared in a block's `words`, so that "
                    "rows can want it"
                )
            return number
        if content == AGENT_ID:
            if str(value) in self.services:
                return -1 - self.services.index(str(value))
            return self.row_of(value)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise ConfigError(f"a whole number is needed, got {excerpt(value)}")
        return value

    def decode(self, content: str, number: int) -> Any:
        """Return the value that a number stands for."""
        if content == INT:
            return number
        if content == AGENT_ID:
            if number <= FIRST_STRANGER:
                return self.strangers[FIRST_STRANGER - number]
            return self.services[-1 - number] if number < 0 else self.id_of(number)
        if number < 0:
            return None
        return self.places[number] if content == PLACE else self.words[number]

    def of_kind(self, kind: str, limit: int | None = None) -> Array:
        """Return the numbers of the (first) places of a kind, in order of id."""
        places = () if self.city is None else self.city.by_kind(kind)[:limit]
        return np.array([self.place_numbers[each] for each in places], np.int64)

    def place_number(self, place: str | None) -> int:
        """Return the number of a place, −1 for None. Raises ConfigError: there is no such place."""
        if place is None:
            return -1
        number = self.place_numbers.get(place) if isinstance(place, str) else None
        if number is None and isinstance(place, str) and self.takes_names and self.city is None:
            number = len(self.places)
            self.places = (*self.places, place)
            self.place_numbers = {**self.place_numbers, place: number}
        if number is None:
            raise ConfigError(f"there is no place {excerpt(place)} in the population's city")
        return number

    # -- the columns -------------------------------------------------------------------------------

    def pull_column(self, name: str) -> Array:
        """Return the column, also from workers; what full agents have may be newer."""
        if self.source is not None:
            self.source.pull([name])
        return self.arrays[name]

    def note_written(self, name: str) -> None:
        """Note that the commit stage has written a column, which it had pulled, of workers."""
        if self.source is not None:
            self.source.written_columns.add(name)

    def note_change(self) -> None:
        """Note that the arrays are about to change between two steps."""
        if self.source is not None:
            self.source.changed()

    def texts_of(self, name: str) -> Sequence[str | None] | None:
        """Return the texts that a column's numbers stand for, −1 the last; None of plain ones."""
        column = self.declared[name]
        return [*self.words, None] if column is PLACES["mode"] else column.texts(self.places)

    def set_value(self, name: str, rows: int | list[int], value: object) -> None:
        """Write a value into a column of some rows. Raises ConfigError: it does not fit."""
        array = self.arrays[name]
        if array.ndim == 1 and type(value) in (int, bool):  # numpy takes ten times as long
            low, high = _range_of(array.dtype)
            if low <= value <= high:  # type: ignore[operator]
                array[rows] = value
                return
        array[rows] = self.fit_value(name, value)

    def fit_value(self, name: str, value: object) -> Array:
        """Return a value as a column has it. Raises ConfigError: it does not fit."""
        array = self.arrays[name]
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                converted = np.asarray(value).astype(array.dtype)
            fits = np.isfinite(converted) if array.dtype.kind == "f" else converted == value
            if converted.shape != array.shape[1:] or not fits.all():
                raise ValueError
            return converted
        except (TypeError, ValueError, OverflowError):
            fit = f"{name} must fit its column of {array.dtype}"
            raise ConfigError(f"{fit}, got {excerpt(value)}") from None

    def pull(
        self,
        row: int,
        status: Mapping[str, Any],
        columns: Mapping[str, Column] | None = None,
        blocks: Iterable[Any] | None = None,
    ) -> None:
        """Write a status into a row. Raises ConfigError: a value does not fit its column."""
        try:
            for name, column in (self.declared if columns is None else columns).items():
                if not column.own and name not in COMMIT_COLUMNS:
                    value = column.of_status(name, status, self.place_number)
                    if value is not None:
                        self.set_value(name, row, value)
            for block in self.blocks if blocks is None else blocks:
                if hasattr(block, "from_status"):
                    block.from_status(self, row, status)
        except ConfigError as error:
            is_told = str(error).startswith("citizen ")
            raise error if is_told else ConfigError(f"citizen {self.id_of(row)}: {error}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"its status does not fit the columns of its blocks: {error!r:.200}"
            raise ConfigError(f"citizen {self.id_of(row)}: {reason}") from error

    def declare(self, blocks: Iterable[Any], usual: Mapping[str, Column] | None = None) -> None:
        """Have the columns and words of blocks. ConfigError: one is declared otherwise already.

        Args:
            blocks: the blocks
            usual: the columns that blocks may declare otherwise
        """
        for block in blocks:
            columns = {**getattr(block, "columns", {})}
            if (act := columns.get("act")) is not None:  # acts of one's own come after the usual
                for words in (block.acts, self.declared.get("act", act).words):
                    if words[: len(act.words)] == act.words:
                        act = columns["act"] = replace(act, words=words)
            for name, column in columns.items():
                before = self.declared.get(name)
                if before == column:
                    continue
                array = column.new_array(len(self.ids))
                if before is not None and name == "act" and len(column.words) > len(before.words):
                    array[...] = self.arrays[name]
                elif before is not None and before == (usual or {}).get(name):
                    array[...] = self.arrays[name].astype(array.dtype)
                elif before is not None:
                    raise ConfigError(
                        f"block {block.name!r} declares the column {name!r} otherwise than a block "
                        "of another citizen: give it another name, or both the same parameters"
                    )
                self.declared[name], self.arrays[name] = column, array
            modes = [mode for mode in [getattr(block.params, "mode", None)] if mode is not None]
            for word in (*getattr(block, "words", ()), *modes):
                if word not in self.word_numbers:
                    self.word_numbers[word] = len(self.words)
                    self.words.append(word)

    def settled_value(self, row: int, name: str) -> Any:
        """Return the money, the place or the movement of a row, as a status has it."""
        if name == "money":
            return self.arrays["money"].item(row)
        if name == "place" or not self.places or self.arrays["moving_to"].item(row) < 0:
            number = self.arrays["place"].item(row) if name == "place" and self.places else -1
            return None if number < 0 else self.places[number]
        return self.settled_status(row)["moving"]

    def settled_status(self, row: int) -> dict[str, Any]:
        """Return the part of a status that the commit stage owns: money, place, movement."""
        arrays = self.arrays
        status: dict[str, object] = {"money": int(arrays["money"][row])}
        if not self.places:
            return {**status, "place": None, "moving": None}
        place, to = int(arrays["place"][row]), int(arrays["moving_to"][row])
        status["place"] = self.decode(PLACE, place)
        status["moving"] = None
        if to >= 0:
            status["moving"] = {
                "to": self.places[to],
                "arrives": int(arrays["arrives"][row]),
                "mode": self.decode(TEXT, int(arrays["mode"][row])),
                "from": self.decode(PLACE, int(arrays["moving_from"][row])),
                "left": int(arrays["left"][row]),
            }
        return status

    def apply(self, function: Callable[[int, int], object], count: int) -> list[Any]:
        """Return what a function of (first, until) gives for parts of `count` items, on threads."""
        firsts = range(0, count, _PART_SIZE)
        run = map if self.pool is None else self.pool.map
        return list(run(function, firsts, [min(count, first + _PART_SIZE) for first in firsts]))
