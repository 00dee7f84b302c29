"""Where places begin and end their ways by a mode of travel, and how far that is."""

from __future__ import annotations

from typing import Any, Final

from moothall.society.arrays import Array, WholeNumber, import_package, np
from moothall.society.city.map import Mode
from moothall.society.city.routes import Roads

_TINY_PART: Final = 1000
"""A strong part of fewer nodes is passed over for a larger one: the limit of OSRM."""


class Access:
    """The roads of a mode, and each place's node on them, at the end of a walk along x and y."""

    # `snaps` says which places may be led to another node than theirs, `parts` which nodes are
    # connected by roads of any mode: nobody walks over water.
    def __init__(
        self,
        roads: Roads,
        node: Array,
        xy: Array,
        spots: Array,
        snaps: Array | None = None,
        parts: Array | None = None,
        walk: Mode | None = None,
    ) -> None:
        self.roads = roads
        self.base: Access | None = None  # the access to the usual roads, if these are changed
        self.node: Array = (
            node if snaps is None else _snap_to_large_part(roads, node, xy, spots, snaps, parts)
        )
        self.walk_m: Array = abs(xy - spots[self.node]).sum(axis=1)
        is_led = self.node != node
        self._walk = walk if is_led.any() else None
        self._walked: Array = self.walk_m * is_led
        self._parts_of: tuple[Roads, Array] | None = None

    def has_way(self, start: Array, end: Array) -> Array:
        """Return whether there is a way from places to places; booleans."""
        a, b = self.node[start], self.node[end]
        is_connected: Array = self._strong_parts[a] == self._strong_parts[b]
        rest = np.flatnonzero(~is_connected)  # there may be a way in this direction alone
        if len(rest):
            is_connected[rest] = self.roads.metres(a[rest], b[rest]) >= 0
        return is_connected

    @property
    def _strong_parts(self) -> Array:
        """The number of each node's part, whose nodes all have ways to each other."""
        if self._parts_of is None or self._parts_of[0] is not self.roads:
            self._parts_of = self.roads, connected_parts(self.roads.matrix, "strong")
        return self._parts_of[1]

    def metres(self, start: Array, end: Array) -> Array:
        """Return the metres between places of two arrays; int64, −1 without a route."""
        metres = self.roads.metres(self.node[start], self.node[end])
        return np.where(metres < 0, -1, metres + self.walk_m[start] + self.walk_m[end])

    def metres_between(self, start: int, end: int) -> int:
        """Return the metres from one place to another; −1 without a route."""
        metres = self.roads.metres_between(self.node.item(start), self.node.item(end))
        return -1 if metres < 0 else int(metres + self.walk_m.item(start) + self.walk_m.item(end))

    def seconds(
        self, mode: Mode, metres: WholeNumber, start: WholeNumber, end: WholeNumber
    ) -> WholeNumber:
        """Return the time of a way of so many metres: from another node than theirs, on foot."""
        if self._walk is None:
            return mode.time(metres)
        on_foot = self._walked[start] + self._walked[end]
        return mode.time(metres - on_foot) + self._walk.time(on_foot) - self._walk.wait


def _snap_to_large_part(
    roads: Roads, node: Array, xy: Array, spots: Array, snaps: Array, parts: Any
) -> Array:
    """Return the nearest node of the largest strong part, for places whose node is in a tiny one.

    A strong part's nodes all have ways to each other. The largest is that of the same part of the
    map, which any roads connect.
    """
    strong_parts = connected_parts(roads.matrix, "strong")
    size = np.bincount(strong_parts)[strong_parts]
    order = np.lexsort((strong_parts, -size, parts))
    first = order[np.r_[True, np.diff(parts[order]) > 0]]  # by part
    is_main = strong_parts == strong_parts[first][parts]
    is_main &= size > 1
    nodes: Array = node.copy()
    stranded = np.flatnonzero(snaps & ~is_main[node] & (size[node] < _TINY_PART))
    for part in np.unique(parts[node[stranded]]).tolist():
        goals = np.flatnonzero(is_main & (parts == part))
        moved = stranded[parts[node[stranded]] == part]
        if len(goals):
            nearest = import_package("scipy.spatial").cKDTree(spots[goals]).query(xy[moved], p=1)[1]
            nodes[moved] = goals[nearest]
    return nodes


def connected_parts(matrix: object, kind: str = "weak") -> Array:
    """Return the number of each node's connected part."""
    graph = import_package("scipy.sparse.csgraph")
    parts: Array = graph.connected_components(matrix, directed=True, connection=kind)[1]
    return parts
