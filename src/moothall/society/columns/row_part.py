"""Which rows a block's rule is about: their columns, what they see, and what they want."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self, TypeVar

from moothall import ConfigError
from moothall.build import guard
from moothall.society.arrays import Array, ArrayLike, np
from moothall.society.city.network import Network
from moothall.society.clock import Clock
from moothall.society.columns.layers import Layers
from moothall.society.columns.register import Register
from moothall.society.columns.want_table import Table, checked_fields
from moothall.society.kernel import draw
from moothall.society.kernel.perception import View
from moothall.society.kernel.wants import Want

_CACHE_LOCK: Final = guard()
_OWN_TO_EACH: Final = ("index", "ids", "_calls")  # what a part of rows does not take over
Result = TypeVar("Result")


@dataclass
class Moment:
    """What all rows share in a step: the world as the step before left it."""

    view: View
    visible: Mapping[str, Array] = field(default_factory=dict)
    answers: Mapping[type[Want], Table] = field(default_factory=dict)
    messages: Any = None
    feed: Any = None
    cache: dict[object, Any] = field(default_factory=dict)

    def once(self, name: str, function: Callable[[], Result]) -> Result:
        """Return what a function gives, called once in a step for all parts of a population."""
        with _CACHE_LOCK:
            if name not in self.cache:
                self.cache[name] = function()
            result: Result = self.cache[name]
            return result


class RowPart:
    """Some rows of a population in a step: what each part of `Rows` stands on."""

    def __init__(
        self,
        population: Register,
        moment: Moment,
        first: int,
        until: int,
        wants: dict[type[Want], list[tuple[Array, Mapping[str, Array]]]],
    ) -> None:
        self.population = population
        self.moment: Moment = moment
        view = moment.view
        self.step: int = view.step
        self.lasted: int = view.lasted
        self.seconds: int = view.seconds
        self.time: int = view.time
        self.clock: Clock = view.clock
        self.facts: Mapping[str, Any] = view.facts or {}
        self.city: Any = view.city
        self.seed: int = population.seed
        self.citizens: int = len(population)
        self.blocks: Sequence[Any] = population.blocks
        self.params: Any = None
        self.first: int = first
        self.until: int = until
        self._wants = wants
        self._chosen: Array | None = (
            None  # which rows between `first` and `until` these are; None for all
        )
        self._declared: Mapping[str, object] = {}
        self._block = ""
        self._has_all = False
        self._gathered: dict[str, Array] = {}

    @property
    def network(self) -> Network | None:
        """Who knows whom; None for none."""
        return self.population.network

    @network.setter
    def network(self, network: Network | None) -> None:
        self._check_whole("network")
        self.population.network = network

    @property
    def layers(self) -> Layers:
        """What each place has, by name; only a rule of all rows writes it."""
        return self.population.layers if self._has_all else self.population.layers.read_only()

    def __len__(self) -> int:
        return self.until - self.first if self._chosen is None else len(self._chosen)

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self.population!r}, step {self.step}>"

    @property
    def remembers(self) -> bool:
        """Whether there are agents of rows that remember what they do."""
        return self.population.remembers

    def who_remembers(self, row: int) -> Any:
        """Return the agent of a row that remembers what it does; None for none."""
        population: Any = self.population
        return population.handles.get(row)

    # -- columns -----------------------------------------------------------------------------------

    @property
    def has_places(self) -> bool:
        """Whether there are places."""
        return bool(self.population.places)

    @cached_property
    def index(self) -> Array:
        """Which rows of the population these are."""
        if self._chosen is None:
            return np.arange(self.first, self.until)
        index: Array = self._chosen + self.first if self.first else self._chosen
        return index

    @cached_property
    def ids(self) -> Array:
        """Their ids."""
        return self.part(self.population.ids)

    def part(self, array: Array) -> Array:
        """Return these rows' entries of an array over the whole population, read-only."""
        return self.inside(array[self.first : self.until])

    def inside(self, array: Array) -> Array:
        """Return the entries of these rows in an array over the rows `first` … `until` − 1."""
        chosen: Array = array if self._chosen is None else array[self._chosen]
        return chosen

    def column(self, name: str) -> Array:
        """Return the current column of these rows, read-only."""
        base = self.population.base
        return self.inside(self.population.arrays[name][self.first - base : self.until - base])

    @property
    def at(self) -> Array:
        """The indices of these rows in `population.arrays`, of which a worker has a part."""
        base = self.population.base
        return self.index - base if base else self.index

    def __getitem__(self, name: str) -> Array:
        values = self._gathered.get(name)
        if values is None:
            columns = self.population.arrays
            if name not in columns:
                raise ConfigError(
                    f"block {self._block}: there is no column {name!r}: {', '.join(columns)}"
                )
            values = self.column(name)
            if name not in self._declared:
                values = values.view()
                values.flags.writeable = False
            self._gathered[name] = values
        return values

    def __setitem__(self, name: str, values: ArrayLike) -> None:
        if name not in self._declared:
            raise ConfigError(
                f"block {self._block} writes the column {name!r}, which it does not declare in "
                "`columns`; money and places change by `rows.want` alone"
            )
        if values is self._gathered.get(name, self):
            return  # `rows[name] += 1` has written it already
        column = self.population.arrays[name]
        array = np.asarray(values)
        shape = (len(self), *column.shape[1:])
        if array.dtype == column.dtype and array.shape == shape and self._chosen is not None:
            self._gathered[name] = array if array is not values else array.copy()
            return
        if array.shape not in ((), shape):
            raise ConfigError(
                f"block {self._block}: column {name!r} must have the shape {shape}, got "
                f"{array.shape}"
            )
        is_number = type(values) is int and column.dtype.kind in "iu"
        is_kind = np.can_cast(array.dtype, column.dtype, "same_kind")
        if array.dtype.kind not in "biuf" or not (is_number or is_kind):
            raise ConfigError(
                f"block {self._block}: column {name!r} is {column.dtype}, got {array.dtype}"
            )
        if self._chosen is None or name in self._gathered:
            stored = self[name]
        else:
            stored = self._gathered[name] = np.empty(shape, column.dtype)
        stored[...] = array
        if column.dtype.kind != "f" and not np.can_cast(array.dtype, column.dtype):
            self._check(name, stored == array, f"does not fit {column.dtype}")

    def write_back(self) -> None:
        """Write gathered columns back; check that they are finite."""
        for name, values in self._gathered.items():
            if name not in self._declared:
                continue
            if values.dtype.kind == "f":
                self._check(name, np.isfinite(values), "is not finite")
            if self._chosen is not None:
                self.population.arrays[name][self.at] = values
        self._gathered = {}

    def _check(self, name: str, is_valid: Array, fault: str) -> None:
        if not is_valid.all():
            citizen = int(self.ids[~is_valid.reshape(len(self), -1).all(axis=1)][0])
            raise ConfigError(
                f"block {self._block} left a column {name!r} that {fault}, of citizen {citizen} in "
                f"step {self.step}"
            )

    def only(self, chosen: ArrayLike) -> Iterator[Self]:
        """Yield those of these rows for which something holds, as rows of their own, if any."""
        yield from self.some(np.asarray(chosen).nonzero()[0])

    def some(self, at: Array) -> Iterator[Self]:
        """Yield the rows at rising positions in these, as rows of their own, if any."""
        if len(at):
            self.write_back()
            part = type(self).__new__(type(self))
            part.__dict__.update(self.__dict__, _gathered={})
            part._chosen = at if self._chosen is None else self._chosen[at]
            for name in _OWN_TO_EACH:
                part.__dict__.pop(name, None)
            yield part
            part.write_back()

    def of(self, block: Any, chosen: Array | None = None) -> Self:
        """Return these rows, or the chosen of them, for a block."""
        part = type(self).__new__(type(self))
        part.__dict__.update(self.__dict__, _chosen=chosen, _gathered={})
        part._declared, part._block = getattr(block, "columns", {}), block.name
        part._has_all = getattr(block, "whole", False)
        part.params = block.params
        return part

    def parameter(self, block: Any, name: str) -> Any:
        """Return a parameter of a block: one, or one for each of these rows."""
        return getattr(block.params, name)

    def once(self, name: str, function: Callable[[], Result]) -> Result:
        """Return the result of a function that is called once per step for all rows.

        Args:
            name: what it is, with the block's name before it
            function: without arguments
        """
        return self.moment.once(name, function)

    def integer(self, purpose: str, draw_: int = 0) -> Array:
        """Return `draws.integer` of each: 64 random bits, uint64."""
        return draw.integers(self.population.seed, self.ids, self.step, purpose, draw_)

    def links(self) -> tuple[Array, Array]:
        """Return the network as compressed rows: starts and neighbours."""
        if self.network is None:
            raise ConfigError(f"block {self._block} needs a network: Population(…, network=…)")
        return self.network.links

    # -- wants -------------------------------------------------------------------------------------

    def want(
        self, kind: type[Want], /, where: ArrayLike | None = None, **fields: ArrayLike | None
    ) -> None:
        """Make a want (`Pay`, `Move`, …) for these rows or some of them.

        Args:
            kind: `Pay`, `Move`, `Work`, …
            where: which of the rows: booleans, or positions in them; all if left out
            fields: the want's, each one number for all or one for each of *these* rows: a citizen
                as its row, a place as its number, a text as itself
        """
        arrays = checked_fields(kind, fields, len(self), self.population)
        index = self.index
        if where is not None:
            where = self._positions(where)
            index = index[where]
        if not len(index):
            return
        chosen = {
            name: values if where is None or not values.shape else values[where]
            for name, values in arrays.items()
        }
        self._wants.setdefault(kind, []).append((index, chosen))

    def want_each(self, kind: type[Want], at: Array, /, **fields: ArrayLike) -> None:
        """Make wants, of which a row may have several.

        Args:
            kind: of which kind
            at: the positions in these rows, rising; one may be there more than once
            fields: the want's, one number for each of `at`
        """
        if len(at):
            arrays = checked_fields(kind, fields, len(at), self.population)
            self._wants.setdefault(kind, []).append((self.index[self._positions(at)], arrays))

    def _positions(self, where: ArrayLike) -> Array:
        """Return positions in these rows, of booleans too. ConfigError: they are of others."""
        count = len(self)
        where = np.asarray(where)
        if where.dtype.kind == "b":
            if where.shape != (count,):
                raise ConfigError(
                    f"block {self._block}: where= must have {count} entries, got {where.shape}"
                )
            return np.flatnonzero(where)
        if where.ndim != 1 or (len(where) and where.dtype.kind not in "iu"):
            raise ConfigError(
                f"block {self._block}: where= must be booleans or positions, got {where!r:.80}"
            )
        where = where.astype(np.int64, copy=False)  # an empty list, too
        if len(where) and (where.min() < 0 or where.max() >= count):
            raise ConfigError(f"block {self._block} names rows of other people")
        return where

    def _check_whole(self, name: str) -> None:
        if not self._has_all:
            raise ConfigError(
                f"block {self._block}: rows.{name} is of all citizens: say `whole = True` in "
                "the block, so that its rows come in one part"
            )
