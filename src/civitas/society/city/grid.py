"""A grid of cells as a place, for the classic models."""

from __future__ import annotations

import functools
from typing import Any

from civitas.errors import ConfigError
from civitas.society.arrays import larger, np, smaller
from civitas.society.city.map import check_integer
from civitas.society.network import no_mode
from civitas.society.places import Near
from civitas.text import excerpt

_AROUND = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))


class Grid:
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
        self._around = _AROUND[:around]
        self._capacity = capacity
        self._cell_seconds = cell_seconds

    def __len__(self) -> int:
        return self.width * self.height

    def __contains__(self, place: object) -> bool:
        try:
            self.position(place)  # type: ignore[arg-type]
        except ConfigError:
            return False
        return True

    def __repr__(self) -> str:
        return f"<Grid of {self.width} × {self.height} cells>"

    @functools.cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(sorted(f"{x},{y}" for x in range(self.width) for y in range(self.height)))

    def ids(self) -> tuple[str, ...]:
        """Return every cell's id, sorted as text."""
        return self._ids

    @functools.cached_property
    def cells(self) -> Any:
        """The column and row of each cell, in the order of `ids`: int32, (n_cells, 2)."""
        return np.array([each.split(",") for each in self._ids], "int32")

    @functools.cached_property
    def next_to(self) -> Any:
        """The neighbours of each cell, by their index in `ids`, −1 for none: (n_cells, 4 or 8).

        The columns are directions: left, up, down, right, then the diagonals.
        """
        x, y = self.cells[:, 0].astype(np.int64), self.cells[:, 1].astype(np.int64)
        number = np.empty(len(self), np.int32)
        number[x * self.height + y] = np.arange(len(self), dtype=np.int32)
        made = []
        for right, down in self._around:
            a, b = x + right, y + down
            if self.torus:
                a, b = a % self.width, b % self.height
            inside = (a >= 0) & (a < self.width) & (b >= 0) & (b < self.height)
            at = np.where(inside, a * self.height + b, 0)
            made.append(np.where(inside, number[at], -1))
        return np.column_stack(made)

    def seconds_rows(self, a: Any, b: Any, mode: Any, words: Any) -> Any:
        """Return the seconds between cells by index in `ids`, as `seconds`; 0 where `a` is −1."""
        steps = self._steps(*np.abs(self.cells[a].astype(np.int64) - self.cells[b]).T)
        return np.where(np.asarray(a) < 0, 0, steps * self._cell_seconds)

    def kinds(self) -> tuple[str, ...]:
        """Return `("cell",)`."""
        return ("cell",)

    def kind(self, place: str) -> str:
        """Return `cell`."""
        self.position(place)
        return "cell"

    def by_kind(self, kind: str) -> tuple[str, ...]:
        """Return every cell for the kind `cell`, none for other kinds."""
        return self._ids if kind == "cell" else ()

    def capacity(self, place: str) -> int | None:
        """Return how many citizens a cell holds at a time; None for any number."""
        self.position(place)
        return self._capacity

    def position(self, place: str) -> tuple[int, int]:
        """Return a cell's column and row, counted from 0."""
        if isinstance(place, str):
            x, comma, y = place.partition(",")
            if comma and x.isdecimal() and y.isdecimal() and len(place) < 16:
                column, row = int(x), int(y)
                if column < self.width and row < self.height and f"{column},{row}" == place:
                    return column, row
        raise ConfigError(f"the grid has no cell {excerpt(place)}")

    def neighbours(self, place: str) -> tuple[str, ...]:
        """Return the cells next to a cell, in order of id; never the cell itself."""
        x, y = self.position(place)
        found = set()
        for dx, dy in self._around:
            column, row = x + dx, y + dy
            if self.torus:
                column, row = column % self.width, row % self.height
            if 0 <= column < self.width and 0 <= row < self.height:
                found.add(f"{column},{row}")
        return tuple(sorted(found - {place}))

    def seconds(self, a: str, b: str, mode: str | None = None) -> int:
        """Return the seconds from `a` to `b` over the fewest cells."""
        no_mode(mode)
        (x, y), (column, row) = self.position(a), self.position(b)
        return int(self._steps(abs(x - column), abs(y - row))) * self._cell_seconds

    def near(
        self, place: str, kind: str | None = None, limit: int = 10, mode: str | None = None
    ) -> tuple[Near, ...]:
        """Return the nearest other cells, with the seconds to each."""
        no_mode(mode)
        check_integer("limit", limit, 1, None)
        x, y = self.position(place)
        if kind not in (None, "cell"):
            return ()
        steps = self._steps(*abs(self.cells - (x, y)).T)
        order = np.argsort(steps, kind="stable")[1 : limit + 1]
        return tuple(
            Near(self._ids[cell], int(steps[cell]) * self._cell_seconds) for cell in order.tolist()
        )

    def _steps(self, dx: Any, dy: Any) -> Any:
        """Return the fewest steps over `dx` columns and `dy` rows; numbers or arrays."""
        if self.torus:
            dx, dy = smaller(dx, self.width - dx), smaller(dy, self.height - dy)
        return larger(dx, dy) if self.around == 8 else dx + dy
