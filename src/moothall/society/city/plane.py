"""A plane on which citizens stand anywhere: distances, and who is near, by a k-d tree."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from moothall import ConfigError
from moothall.build import check_integer, excerpt
from moothall.society.arrays import Array, ArrayLike, import_package, np
from moothall.society.kernel.kept import sets_own


class Plane:
    """A rectangle without places, whose citizens keep their positions themselves. It never changes.

    It is the `city` of a `Population` whose blocks have columns of positions, such as `x` and `y`
    with `seen=True`; a block reaches it as `rows.city`.

    Args:
        size: the side of a square, or the width and height
        torus: whether the right side joins the left, and the top the bottom

    Attributes:
        width: from 0 to this along x
        height: from 0 to this along y
        torus: whether sides are joined

    Raises:
        ConfigError: an argument is wrong
    """

    @sets_own
    def __init__(self, size: float | Sequence[float], *, torus: bool = False) -> None:
        sides = [*size] if isinstance(size, Sequence) else [size, size]
        are_sizes = len(sides) == 2 and all(
            isinstance(each, int | float) and not isinstance(each, bool) for each in sides
        )
        if not are_sizes or not all(0 < each <= sys.float_info.max for each in sides):
            raise ConfigError(f"size must be above 0, or a width and a height, got {excerpt(size)}")
        if type(torus) is not bool:
            raise ConfigError(f"torus must be a boolean, got {excerpt(torus)}")
        self.width: float = float(sides[0])
        self.height: float = float(sides[1])
        self.torus: bool = torus

    def __repr__(self) -> str:
        sides = ", sides joined" if self.torus else ""
        return f"<Plane of {self.width:g} × {self.height:g}{sides}>"

    @property
    def digest(self) -> str:
        """What a run depends on."""
        return repr(self)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of its places: it has none."""
        return ()

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of its places: it has none."""
        return ()

    def by_kind(self, kind: str) -> tuple[str, ...]:
        """Return the places of a kind: it has none."""
        return ()

    def moved(self, x: Array, y: Array, dx: Array, dy: Array) -> tuple[Array, Array]:
        """Return positions after moving by (dx, dy): round the sides, or up to them without torus.

        All may be numbers or arrays.
        """
        return self._inside(x + dx, self.width), self._inside(y + dy, self.height)

    def offset(self, x: Array, y: Array, other_x: Array, other_y: Array) -> tuple[Array, Array]:
        """Return the shortest way from positions to others, as (dx, dy)."""
        return self._shortest_offset(other_x - x, self.width), self._shortest_offset(
            other_y - y, self.height
        )

    def distance(self, x: Any, y: Any, other_x: Any, other_y: Any) -> Any:
        """Return the length of the shortest way between positions."""
        dx, dy = self.offset(x, y, other_x, other_y)
        return np.sqrt(dx * dx + dy * dy)

    def points(self, x: Array, y: Array) -> Points:
        """Return positions that can be asked who is near whom.

        Raises:
            ConfigError: one of them is not on the plane, or there are not as many x as y
        """
        x, y = np.asarray(x, float), np.asarray(y, float)
        if x.ndim != 1 or x.shape != y.shape:
            raise ConfigError(f"x and y must be as many numbers, got {x.shape} and {y.shape}")
        return Points(self, x, y)

    def _inside(self, position: Array, side: float) -> Array:
        if not self.torus:
            inside = np.clip(position, 0.0, side)
        else:
            inside = np.mod(position, side)
            inside = np.where(inside >= side, 0.0, inside)  # of a number just below 0
        return inside.item() if np.ndim(position) == 0 else inside

    def _shortest_offset(self, offset: Array, side: float) -> Array:
        if not self.torus:
            return offset
        return offset - side * np.round(offset / side)


class Points:
    """Positions on a plane, numbered from 0; `Plane.points` makes them."""

    def __init__(self, plane: Plane, x: Array, y: Array) -> None:
        self._positions = np.column_stack([x, y])
        low, high = np.zeros(2), np.array([plane.width, plane.height])
        is_inside = (self._positions >= low) & (
            (self._positions < high) if plane.torus else (self._positions <= high)
        )
        if not is_inside.all():
            row = int(np.flatnonzero(~is_inside.all(axis=1))[0])
            text = (
                f"position {row}, {self._positions[row].tolist()}, is not on {plane!r}: use `moved`"
            )
            raise ConfigError(text)
        tree_type = import_package("scipy.spatial").cKDTree
        self._tree = tree_type(self._positions, boxsize=high if plane.torus else None)

    def __len__(self) -> int:
        return len(self._positions)

    def within(self, radius: float, rows: ArrayLike | None = None) -> tuple[Array, Array]:
        """Return who is at most so far away, as compressed rows.

        Args:
            radius: the distance, as of the plane
            rows: the numbers of those who ask, such as `rows.index`; all if left out

        Returns:
            starts and neighbours: those of the k-th who asks are `neighbours[starts[k]:starts[k +
            1]]`, rising, without itself; int64
        """
        if isinstance(radius, bool) or not isinstance(radius, int | float) or not radius > 0:
            raise ConfigError(f"radius must be above 0, got {excerpt(radius)}")
        asking = np.arange(len(self)) if rows is None else np.asarray(rows)
        lists = self._tree.query_ball_point(self._positions[asking], radius, return_sorted=True)
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        neighbours = np.concatenate([*lists, []]).astype(np.int64)
        is_self = np.repeat(asking, counts) == neighbours
        sizes = np.add.reduceat(~is_self, _starts(counts)[:-1]) if len(counts) else counts
        return _starts(sizes), neighbours[~is_self]

    def nearest(self, count: int, rows: ArrayLike | None = None) -> tuple[Array, Array]:
        """Return the nearest others of each, and how far they are, the nearest first.

        Args:
            count: how many others
            rows: the numbers of those who ask; all if left out

        Returns:
            numbers, −1 for none, and distances, infinite for none: a row for each who asks
        """
        check_integer("count", count, 1, None)
        asking = np.arange(len(self)) if rows is None else np.asarray(rows)
        distances, neighbours = self._tree.query(self._positions[asking], k=range(1, count + 2))
        is_self = neighbours == asking[:, None]
        is_self[~is_self.any(axis=1), -1] = True  # more than `count` stand at its own position
        shape = (len(asking), count)
        neighbours = neighbours[~is_self].reshape(shape)
        distances = distances[~is_self].reshape(shape)
        return np.where(neighbours == len(self), -1, neighbours), distances


def _starts(counts: Array) -> Array:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts
