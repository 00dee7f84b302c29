"""A citizen's status as a view of its row: what no column has lies beside, in the dict itself."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, ClassVar, Final, NamedTuple, cast

from moothall import ConfigError
from moothall.society.columns.column import COMMIT_COLUMNS, Column
from moothall.society.columns.register import Register
from moothall.society.kernel.live_values import live, plain_of
from moothall.society.kernel.wants import PLACE

_COMMIT_KEYS: Final = ("money", "place", "moving")
_HIDDEN: Final = "\0"
"""An entry that no view shows: `json` writes a dict without any as an empty one."""


class ColumnKey(NamedTuple):
    """A key of a status that a column has."""

    name: str
    column: Column
    is_usual: bool = False  # whether it is the town's, and no block's: what does not fit hides it


class CommitKey(NamedTuple):
    """A key that the commit stage alone writes."""

    name: str


class BlockKey(NamedTuple):
    """A key that a block writes into columns of its own: its `to_status` and `from_status`."""

    block: Any


Layout = dict[str, Any]
"""What has each key of a status: one of the kinds above, or the layout of a part."""


def layout_of(
    columns: Mapping[str, Column],
    blocks: Iterable[Any],
    usual: Iterable[str] = (),
    *,
    has_books: bool = True,
) -> Layout:
    """Return what has each key of a status: columns, blocks, and the commit stage of a society."""
    layout: Layout = {name: CommitKey(name) for name in _COMMIT_KEYS if has_books}
    for name, column in columns.items():
        if name not in COMMIT_COLUMNS and not column.own:
            *path, key = column.key or (name,)
            _part_of(layout, path)[key] = ColumnKey(name, column, name in usual)
    for block in blocks:
        for *path, key in getattr(block, "status_keys", ()):
            _part_of(layout, path).setdefault(key, BlockKey(block))
    return layout


def _part_of(layout: Layout, path: Iterable[str]) -> Layout:
    for each in path:
        layout = layout.setdefault(each, {})
    return layout


class StatusPart(dict[str, Any]):
    """A dict within a status, such as its needs: each key is read and written where it stands."""

    __slots__ = ("_layout", "_path", "_root")
    _layout: Layout
    _path: tuple[str, ...]
    _root: Status

    def __init__(self, root: Status, layout: Layout, path: tuple[str, ...]) -> None:
        super().__init__({_HIDDEN: None})
        self._root, self._layout, self._path = root, layout, path

    def __missing__(self, key: str) -> Any:
        entry = self._layout.get(key)
        value = None if entry is None else self._root.read(entry, (*self._path, key))
        if value is None and (entry is None or not _may_be_none(entry)):
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        entry = self._layout.get(key)
        if entry is None:
            super().__setitem__(key, value)
        elif isinstance(entry, dict):
            if not isinstance(value, Mapping):
                raise self._root.error(f"{key} must be a dict, got {value!r:.80}")
            part = self._root.read(entry, (*self._path, key))
            for each in [*value]:
                part[each] = value[each]
        else:
            self._root.write(entry, (*self._path, key), value)

    def __delitem__(self, key: str) -> None:
        if key in self._layout:
            self[key]  # raises KeyError
            self._root.write(self._layout[key], (*self._path, key), None)
        else:
            super().__delitem__(key)

    def __contains__(self, key: object) -> bool:
        return self.get(cast(str, key), self) is not self

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        try:
            return self[key]
        except (KeyError, TypeError):
            return default

    def __iter__(self) -> Iterator[str]:
        for key, entry in self._layout.items():
            if self[key] if isinstance(entry, dict) else key in self:  # an empty part is none
                yield key
        yield from (key for key in super().__iter__() if key not in self._layout and key != _HIDDEN)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the keys."""
        return KeysView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return the keys with their values."""
        return ItemsView(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return the values."""
        return ValuesView(self)

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key; return its value, or the default."""
        if key not in self and default:
            return default[0]
        value = self[key]
        value = plain_of(value)
        del self[key]
        return value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value; of a key that is not there the default, which it has then."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **values: Any) -> None:
        """Set the values of a dict."""
        for key, value in dict(*args, **values).items():
            self[key] = value

    def clear(self) -> None:
        """Remove all."""
        for key in [*self]:
            if not isinstance(self._layout.get(key), CommitKey):
                del self[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.plain() == (
            other.plain() if isinstance(other, StatusPart) else other
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return self.plain() | dict(other)

    def __repr__(self) -> str:
        return repr(self.plain())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (self.plain(),)

    def copy(self) -> dict[str, Any]:
        """Return a copy, as `plain` does."""
        return self.plain()

    def plain(self) -> dict[str, Any]:
        """Return a copy that is a dict as any other."""
        return {key: plain_of(value) for key, value in self.items()}

    def extras(self) -> dict[str, Any]:
        """Return what no column has, with that of its parts."""
        extra: dict[str, Any] = {}
        for key, value in super().items():
            value = value.extras() if isinstance(value, StatusPart) else value
            if key != _HIDDEN and (value or key not in self._layout):
                extra[key] = value
        return extra

    def take_extras(self, extras: Mapping[str, Any]) -> None:
        """Have these values beside the columns, and no others."""
        for key in [*super().keys()]:
            if isinstance(self._layout.get(key), dict):
                super().__getitem__(key).take_extras({})
            elif key != _HIDDEN:
                super().__delitem__(key)
        for key, value in extras.items():
            entry = self._layout.get(key)
            if entry is None:
                super().__setitem__(key, value)
            elif not isinstance(entry, CommitKey):
                self[key] = value  # also a state that was saved where no column had it

    def keep_beside(self, values: Mapping[str, Any]) -> None:
        """Have beside what no column has of some values."""
        for key, value in values.items():
            entry = self._layout.get(key)
            if entry is None:
                super().__setitem__(key, value)
            elif isinstance(entry, dict) and isinstance(value, Mapping):
                self[key].keep_beside(value)
            elif isinstance(entry, ColumnKey):
                words = entry.column.words
                if entry.is_usual or (words and value not in words):
                    self[key] = value

    def takes(self, values: Mapping[str, Any]) -> bool:
        """Have beside what no column has of some values; return whether columns have the others."""
        for key, value in values.items():
            entry = self._layout.get(key)
            if entry is None:
                super().__setitem__(key, value)
            elif isinstance(entry, dict):
                if not isinstance(value, dict) or not self[key].takes(value):
                    return False
            elif self.get(key) != value:
                return False
        return True

    def keep_part(self, key: str, part: StatusPart) -> StatusPart:
        """Keep a part, which the dict then finds itself."""
        super().__setitem__(key, part)
        return part


class Status(StatusPart):
    """The status of the citizen in a row; `row` follows where rows are renumbered."""

    __slots__ = ("broken_by", "register", "row", "stuck_by")
    is_own: ClassVar[bool] = False  # whether it has turns: no worker of an engine has its row
    not_given: frozenset[str] = frozenset()  # columns that it does not show until they say more
    register: Register
    row: int
    stuck_by: str  # why it cannot get to its item's place, in words
    broken_by: str  # why its plan has broken in this step, in words

    def __init__(self, register: Register, layout: Layout, row: int) -> None:
        super().__init__(self, layout, ())
        self.register, self.row = register, row
        self.stuck_by = self.broken_by = ""

    def extras(self) -> dict[str, Any]:
        """Return what no column has, with that of its parts."""
        stuck_by = {"stuck": self.stuck_by} if self.stuck_by and "stuck" in self else {}
        return super().extras() | stuck_by

    def take_extras(self, extras: Mapping[str, Any]) -> None:
        """Have these values beside the columns, and no others."""
        self.stuck_by = extras.get("stuck", "")
        super().take_extras({key: value for key, value in extras.items() if key != "stuck"})

    def error(self, reason: str) -> ConfigError:
        """Return an error that names the citizen."""
        return ConfigError(f"citizen {self.register.id_of(self.row)}: {reason}")

    def read(self, entry: Any, path: tuple[str, ...]) -> Any:
        """Return the value of a key; None for none."""
        register, row = self.register, self.row
        if isinstance(entry, ColumnKey):
            name = entry.name
            array = register.arrays[name] if self.is_own else register.pull_column(name)
            number = array.item(row) if array.ndim == 1 else array[row].tolist()
            return entry.column.decode(number, register.places)
        if isinstance(entry, CommitKey):
            return register.settled_value(row, entry.name)
        if isinstance(entry, dict):
            *above, key = path
            parent: StatusPart = self
            for each in above:
                parent = parent[each]
            if dict.__contains__(parent, key):
                return dict.__getitem__(parent, key)
            return parent.keep_part(key, StatusPart(self, entry, path))
        value: Any = {}
        entry.block.to_status(register, row, value)
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]
        if path == ("stuck",) and self.stuck_by:
            return self.stuck_by
        return live(value, lambda new: self.write(entry, path, new))

    def write(self, entry: Any, path: tuple[str, ...], value: Any) -> None:
        """Write the value of a key; None for none. Raises ConfigError: it does not fit."""
        register, row = self.register, self.row
        if isinstance(entry, CommitKey):
            if value == register.settled_value(row, entry.name):
                return
            raise self.error(f"only the commit stage changes its {entry.name!r}")
        if isinstance(entry, dict):
            self.read(entry, path).clear()
            return
        if not self.is_own:
            register.note_change()
        try:
            if isinstance(entry, ColumnKey):
                name, column, _ = entry
                is_number = not column.words and column.dtype != PLACE
                number = column.default
                if value is not None or not is_number:
                    number = column.number_of(name, value, register.place_number)
                register.set_value(name, row, number)
                return
            *above, key = path
            before = self.plain()
            values = {**before, **{each: {**before.get(each, {})} for each in above}}
            within = values
            for each in above:
                within = within[each]
            within[key] = value
            if value is None:
                del within[key]
            try:
                entry.block.from_status(register, row, values)
            except ConfigError:
                entry.block.from_status(register, row, before)
                raise
        except ConfigError as error:
            raise error if str(error).startswith("citizen ") else self.error(str(error)) from None


def _may_be_none(entry: Any) -> bool:
    """Return whether a key is there where its value is None: a place, and what is settled."""
    return isinstance(entry, CommitKey) or (isinstance(entry, ColumnKey) and not entry.column.words)
