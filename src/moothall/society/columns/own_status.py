"""The status of a citizen that has turns: a view of its row, as its own blocks have it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.columns.column import COMMIT_COLUMNS, PLACES, Column
from moothall.society.columns.register import Register, is_number
from moothall.society.columns.status import (
    ColumnKey,
    CommitKey,
    Layout,
    Status,
    StatusPart,
    layout_of,
)
from moothall.society.kernel.draw import id_words, number_or_text

_MAX_TEMPLATES: Final = 8
"""So many are looked at: of very many, each is of other parameters."""


class Kind:
    """What the statuses of citizens with the same blocks have in columns.

    Args:
        blocks: the blocks
        columns: the columns by name
        usual: those of them that are the town's, and no block's
        has_books: whether money and place are in columns too

    Attributes:
        blocks: the blocks
        columns: the columns that have a key of a status each
        layout: what has each key of a status
    """

    def __init__(
        self,
        blocks: Sequence[Any],
        columns: Mapping[str, Column],
        usual: Iterable[str] = (),
        *,
        has_books: bool = True,
    ) -> None:
        self.blocks: tuple[Any, ...] = tuple(blocks)
        self.columns: dict[str, Column] = {
            name: each
            for name, each in columns.items()
            if not each.own and name not in COMMIT_COLUMNS
        }
        self._usual = frozenset(usual)
        self.layout: Layout = layout_of(self.columns, self.blocks, self._usual, has_books=has_books)
        declared = {n: c for each in blocks for n, c in getattr(each, "columns", {}).items()}
        self._all = {
            name: column
            for name, column in {**self.columns, **declared}.items()
            if name not in COMMIT_COLUMNS
        }
        self._defaults = {name: column.new_array(1)[0] for name, column in self._all.items()}
        self._pulled = {n: c for n, c in self.columns.items() if n not in self._usual}
        self._scratch: Alone | None = None
        self._names: dict[frozenset[str], frozenset[str]] = {}

    def is_of(self, blocks: Sequence[Any]) -> bool:
        """Return whether these blocks have the same in columns."""
        return len(blocks) == len(self.blocks) and all(
            type(mine) is type(block)
            and (mine.params is block.params or mine.params == block.params)
            for mine, block in zip(self.blocks, blocks, strict=True)
        )

    def write(
        self, register: Register, row: int, status: Mapping[str, Any], *, is_new: bool = False
    ) -> None:
        """Write a status into a row, and the defaults of what it has not, unless the row is new.

        Raises:
            ConfigError: a value does not fit its column
        """
        for name, default in self._defaults.items() if not is_new else ():
            if not self._all[name].slots or register.arrays[name][row].any():
                register.arrays[name][row] = default
        register.pull(row, status, self._pulled, self.blocks)

    def check(self, city: Any, id: str, status: Mapping[str, Any]) -> None:
        """Check that a status fits the columns. Raises ConfigError: it does not."""
        if self._scratch is None:
            self._scratch = Alone(city, self.blocks)
        self._scratch.arrays |= {
            name: self._all[name].new_array(1) for name in self._all.keys() - self._scratch.arrays
        }
        self.write(self._scratch.belong_to(id), 0, status)

    def shared(self, names: Iterable[str]) -> frozenset[str]:
        """Return names as a set that equal ones share: very many statuses have the same."""
        name_set = frozenset(names)
        return self._names.setdefault(name_set, name_set)

    def absent_from(self, status: Mapping[str, Any]) -> frozenset[str]:
        """Return the columns that a status has no value for."""
        return self.shared(
            name for name, each in self.columns.items() if not _has_key(status, each.key or (name,))
        )


def _has_key(status: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    value: Any = status
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


class OwnStatus(Status):
    """The status of a citizen that has turns; what no column has is in the dict, and hides it."""

    __slots__ = ("kind", "not_given")
    is_own: ClassVar[bool] = True
    kind: Kind
    not_given: frozenset[str]

    def __init__(self, register: Register, kind: Kind, row: int) -> None:
        super().__init__(register, kind.layout, row)
        self.kind, self.not_given = kind, kind.shared(())

    def take(self, values: Mapping[str, Any], *, is_new: bool = False) -> None:
        """Have these values, and no others, in a row that may be new. ConfigError: one is unfit."""
        self.kind.write(self.register, self.row, values, is_new=is_new)
        self.take_extras({})
        self.not_given = self.kind.absent_from(values)
        self.keep_beside(values)
        self.stuck_by: str = values.get("stuck") or ""

    def show(self, name: str) -> None:
        """Show a column from now on."""
        self.not_given = self.kind.shared(self.not_given - {name})

    def extras(self) -> dict[str, Any]:
        """Return what no column has, and which columns are not shown."""
        return super().extras() | ({"": sorted(self.not_given)} if self.not_given else {})

    def take_extras(self, extras: Mapping[str, Any]) -> None:
        """Have these values beside the columns, and no others."""
        if "money" in extras:  # all that another has been, such as one in no society
            self.take(extras)
            return
        self.not_given = self.kind.shared(extras.get("", ()))
        super().take_extras({key: each for key, each in extras.items() if key})

    def read(self, entry: Any, path: tuple[str, ...]) -> Any:
        """Return the value of a key; None for none."""
        if isinstance(entry, ColumnKey) and entry.name in self.not_given:
            number = self.register.arrays[entry.name].item(self.row)
            if number == (-1 if entry.column.default is None else entry.column.default):
                raise KeyError(path[-1])
        return super().read(entry, path)

    def write(self, entry: Any, path: tuple[str, ...], value: Any) -> None:
        """Write the value of a key; None for none. Raises ConfigError: it does not fit."""
        if isinstance(entry, CommitKey) and self.register.has_ended:
            dict.__setitem__(self, entry.name, value)
            return
        if not isinstance(entry, ColumnKey):
            super().write(entry, path, value)
            return
        name, column, is_usual = entry
        if name in self.not_given:
            self.show(name)
        part: StatusPart = self
        for key in path[:-1]:
            part = part[key]
        dict.pop(part, path[-1], None)
        if column.words and value is not None and value not in column.words:
            dict.__setitem__(part, path[-1], value)  # such as an act of one's own
            value = "idle" if name == "act" else column.words[-1]
        try:
            super().write(entry, path, value)
        except ConfigError:
            if not is_usual:
                raise
            dict.__setitem__(part, path[-1], value)  # the town's rules take what they can of it
            self.register.arrays[name][self.row] = column.new_array(1)[0]
            if isinstance(value, float) and np.isfinite(value):
                with suppress(ConfigError):
                    super().write(entry, path, int(value))


class Alone(Register):
    """The columns of one citizen that is in no society; without a city each name is a place."""

    is_alone = remembers = takes_names = True

    def __init__(self, city: Any, blocks: Sequence[Any]) -> None:
        super().__init__(id_words([0]), city, tuple(blocks), 0, None)
        self.declared.update(PLACES)
        self.arrays.update({name: column.new_array(1) for name, column in PLACES.items()})
        self.declare(blocks)

    def copy_for(self, id: str, city: Any) -> Alone:
        """Return a copy of columns that nobody has changed, for the citizen of an id."""
        columns = copy.copy(self)
        columns.city, columns.strangers = city, []
        columns.arrays = {name: array.copy() for name, array in self.arrays.items()}
        columns.words, columns.word_numbers = [*self.words], {**self.word_numbers}
        return columns.belong_to(id)

    def belong_to(self, id: str) -> Alone:
        """Be the columns of a citizen of an id."""
        self.ids: Array = id_words([number_or_text(id)])
        self.names: list[str] = [] if is_number(id) else [id]
        return self

    def has_places_of(self, city: Any) -> bool:
        """Return whether there are numbers for the places of a city, which is then its own."""
        is_known = city is None or (self.city is not None and tuple(city.ids()) == self.places)
        self.city: Any = city if is_known and city is not None else self.city
        return is_known

    def settle(self, agent: Any) -> None:
        """Take what its status says of money and place, and where it perceives itself."""
        status, arrays = agent.memory.status, self.arrays
        self.seed: int = agent.draws.words[0]
        arrays["money"][0] = status.get("money", 0)
        moving = status.get("moving") or {}
        for name, each in (("place", agent.perceived.place), ("moving_to", moving.get("to"))):
            is_known = self.city is None or each in self.place_numbers
            arrays[name][0] = self.place_number(each) if is_known else -1


_templates: WeakKeyDictionary[Any, list[tuple[Alone, Kind]]] = WeakKeyDictionary()


def alone_with(city: Any, blocks: Sequence[Any], id: str) -> tuple[Alone, Kind]:
    """Return columns of one citizen in no society, and what its status has there."""
    try:
        templates = _templates.setdefault(Alone if city is None else city, [])
    except TypeError:  # a city that cannot be a key
        templates = []
    places = () if city is None else tuple(city.ids())
    for template, kind in templates[-_MAX_TEMPLATES:]:
        if kind.is_of(blocks) and template.places == places:
            return template.copy_for(id, city), kind
    template = Alone(city, blocks)
    kind = Kind(blocks, template.declared, has_books=False)
    columns = template.copy_for(id, city)
    template.city = None  # it is as old as the city that it is of
    templates.append((template, kind))
    return columns, kind
