"""A grid of cells as a place, for the classic models."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from moothall import ConfigError
from moothall.build import check_integer, excerpt
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.city.places import SteppedPlaces, check_no_mode
from moothall.society.kernel.kept import sets_own

_DIRECTIONS = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))


class Grid(SteppedPlaces):
    """Cells in columns and rows, with ids `"x,y"`, all of kind `cell`. It never changes.

    Args:
        width: the number of columns
        height: the number of rows
        torus: whether the right side joins the left, and the top the bottom
        around: 4 neighbours (von Neumann) or 8 (Moore); citizens move to neighbours
        capacity: the citizens that a cell holds at a time; None for any number
        cell_seconds: the travel time to the next cell; with 0 each way takes one step

    Raises:
        ConfigError: an argument is wrong.
    """

    _unknown = "the grid has no cell"
    _kind_names = ("cell",)

    @sets_own
    def __init__(
        self,
        width: int,
        height: int,
        *,
        torus: bool = False,
        around: int = 8,
        capacity: int | None = 1,
        cell_seconds: int = 60,
    ) -> None:
        check_integer("width", width, 1, 100_000)
        check_integer("height", height, 1, 100_000)
        check_integer("cell_seconds", cell_seconds, 0, 86_400)
        if capacity is not None:
            check_integer("capacity", capacity, 0, 1_000_000_000)
        if around not in (4, 8):
            raise ConfigError(f"around must be 4 or 8, got {excerpt(around)}")
        if type(torus) is not bool:
            raise ConfigError(f"torus must be a boolean, got {excerpt(torus)}")
        self.width = width
        self.height = height
        self.torus = torus
        self.around = around
        self._around = _DIRECTIONS[:around]
        self._capacity = capacity
        self._step_seconds = cell_seconds
        self._within: dict[int, Array] = {}

    @property
    def digest(self) -> str:
        """What a run depends on besides the cells."""
        return f"{self.torus}, {self.around}, {self._capacity}, {self._step_seconds}"

    def __len__(self) -> int:
        return self.width * self.height

    def __repr__(self) -> str:
        return f"<Grid of {self.width} × {self.height} cells>"

    @functools.cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(sorted(f"{x},{y}" for x in range(self.width) for y in range(self.height)))

    @functools.cached_property
    def cells(self) -> Array:
        """The column and row of each cell, in the order of `ids`: int32, (n_cells, 2)."""
        return np.array([each.split(",") for each in self._ids], "int32")

    @functools.cached_property
    def next_to(self) -> Array:
        """The neighbours of each cell, by their index in `ids`, −1 for none: (n_cells, 4 or 8).

        The columns are directions: left, up, down, right, then the diagonals.
        """
        return self._shifted_cells(self._around)

    def within(self, radius: int) -> Array:
        """Return the cells at most so many steps from each: (n_cells, most), −1 for none.

        A step leads to one of the 4 or 8 cells around. They are in order of their offset (x, y),
        never the cell itself; on a torus each is there once.

        Raises:
            ConfigError: the radius is not 1 or more
        """
        check_integer("radius", radius, 1, None)
        if radius not in self._within:
            right, down = self._reach(radius, self.width), self._reach(radius, self.height)
            square = [(dx, dy) for dx in right for dy in down if dx or dy]
            is_diamond = self.around == 4
            offsets = [each for each in square if not is_diamond or sum(map(abs, each)) <= radius]
            self._within[radius] = self._shifted_cells(offsets)
        return self._within[radius]

    def _reach(self, radius: int, side: int) -> range:
        if not self.torus:
            return range(-min(radius, side - 1), min(radius, side - 1) + 1)
        return range(-min(radius, (side - 1) // 2), min(radius, side // 2) + 1)

    def _shifted_cells(self, offsets: Iterable[tuple[int, int]]) -> Array:
        """Return for each cell those at some offsets, by their index in `ids`; −1 for none."""
        x, y = self.cells[:, 0].astype(np.int64), self.cells[:, 1].astype(np.int64)
        columns = [np.empty((len(self), 0), np.int32)]
        for right, down in offsets:
            a, b = x + right, y + down
            if self.torus:
                a, b = a % self.width, b % self.height
            inside = (a >= 0) & (a < self.width) & (b >= 0) & (b < self.height)
            cells = np.where(inside, a, 0), np.where(inside, b, 0)
            columns.append(np.where(inside, self._numbers[cells], -1))
        return np.column_stack(columns)

    @functools.cached_property
    def _numbers(self) -> Array:
        """The index in `ids` of each cell, by column and row."""
        numbers = np.empty((self.width, self.height), np.int32)
        numbers[self.cells[:, 0], self.cells[:, 1]] = np.arange(len(self), dtype=np.int32)
        return numbers

    def index_of(self, x: WholeNumber, y: WholeNumber) -> Any:
        """Return the index in `ids`, as in columns, of cells in columns `x` and rows `y`.

        `values[grid.index_of(*np.indices((width, height)))]` is a map of values in columns, and
        `raster[tuple(grid.cells.T)]` the values of such a map in the order of `ids`.

        Args:
            x: whole numbers from 0 up, one or an array
            y: the same, as many

        Raises:
            ConfigError: there is no such cell
        """
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
            raise ConfigError(f"x and y must be whole numbers, got {x.dtype} and {y.dtype}")
        if ((x < 0) | (x >= self.width) | (y < 0) | (y >= self.height)).any():
            raise ConfigError(f"x must be from 0 to {self.width - 1}, y to {self.height - 1}")
        return self._numbers[x, y]

    def ways_rows(self, place: Array, to: Array, modes: Sequence[str | None]) -> Array:
        """Return `seconds` of many cells, by index in `ids`, by each mode: (n, n_modes)."""
        for mode in modes:
            check_no_mode(mode)
        seconds = (self._steps(place, to) * self._step_seconds)[:, None]
        return seconds if len(modes) == 1 else np.repeat(seconds, len(modes), axis=1)

    def capacity(self, place: str) -> int | None:
        """Return how many citizens a cell holds at a time; None for any number."""
        self._number_of(place)
        return self._capacity

    def position(self, place: str) -> tuple[int, int]:
        """Return a cell's column and row, counted from 0."""
        x, y = self.cells[self._number_of(place)].tolist()
        return x, y

    def neighbours(self, place: str) -> tuple[str, ...]:
        """Return the cells next to a cell, in order of id; never the cell itself."""
        number = self._number_of(place)
        numbers = {*self.next_to[number].tolist()} - {-1, number}
        return tuple(self._ids[each] for each in sorted(numbers))

    def _steps(self, start: Any, to: Any) -> Any:
        dx, dy = np.abs(self.cells[to].astype(np.int64) - self.cells[start]).T
        if self.torus:
            dx, dy = np.minimum(dx, self.width - dx), np.minimum(dy, self.height - dy)
        return np.maximum(dx, dy) if self.around == 8 else dx + dy
