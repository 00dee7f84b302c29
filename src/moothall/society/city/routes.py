"""Shortest routes over roads and the nearest places, by scipy's Dijkstra, for one or many."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall.errors import ConfigError
from moothall.society.arrays import np, package

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHOLE: Final = 2500  # up to this many nodes, one table has the metres between all of them
_FARTHEST: Final = 2**31 - 1
_TABLES: Final = 1 << 26  # the entries in the cached tables of a larger graph, at most
_CACHED: Final = 1 << 22
_METRES: Final = (1 << 24) - 1
_LEAF: Final = 32
_AT_ONCE: Final = 1 << 22
_WIDEST: Final = 1 << 32
_NO_PLACE: Final = 2**63 - 1


class Route(NamedTuple):
    """A route from one place to another.

    Attributes:
        nodes: every place and road node on the route, with both ends
        seconds: the travel time
        metres: the length
    """

    nodes: tuple[str, ...]
    seconds: int
    metres: int


class Roads:
    """A graph of nodes 0 … n−1, and the shortest routes between them, in exact whole metres."""

    # An edge is (from, to, metres).
    def __init__(self, edges: NDArray[Any], oneway: NDArray[Any], spots: NDArray[Any]) -> None:
        if int(edges[:, 2].sum()) > _FARTHEST:
            raise ConfigError(f"the roads together must have at most {_FARTHEST} metres")
        both = np.concatenate([edges, edges[~oneway][:, [1, 0, 2]]])
        # Keep the shortest of roads between the same nodes; scipy would add them up.
        order = np.lexsort((both[:, 2], both[:, 1], both[:, 0]))
        both = both[order]
        first = np.ones(len(both), dtype=bool)
        first[1:] = (both[1:, :2] != both[:-1, :2]).any(axis=1)
        both = both[first]
        self.count: int = len(spots)
        self._symmetric = not oneway.any()
        self._spots = spots
        ends = (both[:, 0], both[:, 1])
        shape = (self.count, self.count)
        self.matrix: Any = package("scipy.sparse").csr_array(
            (both[:, 2].astype(float), ends), shape=shape
        )
        self._tables: dict[int, NDArray[Any]] = {}

    @functools.cached_property
    def whole(self) -> NDArray[Any]:
        """The metres between all nodes of a small graph; int32, −1 without a route."""
        found = dijkstra(self.matrix)
        return np.where(np.isinf(found), -1, found).astype(np.int32)

    @functools.cached_property
    def _labels(self) -> Labels:
        return Labels(self.matrix, self._spots)

    @functools.cached_property
    def _kept(self) -> NDArray[Any]:
        return np.zeros(_CACHED, np.uint64)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that an engine's worker needs; it keeps routes of its own."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}

    def table(self, source: int) -> NDArray[Any]:
        """Return the metres from a node to every node: int32, (n_nodes,), −1 without a route."""
        table = self.whole[source] if self.count <= _WHOLE else self._tables.get(source)
        if table is None:
            # One source at a time: for many at once, scipy takes as long per source.
            found = dijkstra(self.matrix, indices=source)
            table = np.where(np.isinf(found), -1, found).astype(np.int32)
            if len(self._tables) * self.count >= _TABLES:
                self._tables.clear()
            self._tables[source] = table
        return table

    def metres(self, start: Any, end: Any) -> NDArray[Any]:
        """Return the metres between nodes of two arrays; int64, −1 without a route."""
        found: NDArray[Any]
        if self.count <= _WHOLE:
            found = self.whole[start, end].astype(np.int64)
            return found
        if not self._symmetric:
            found = np.empty(len(start), np.int64)
            for node in np.unique(start).tolist():
                at = np.flatnonzero(start == node)
                found[at] = self.table(node)[end[at]]
            return found
        if self.count > 1 << 20:
            return self._labels.metres(start, end)
        # Citizens return and repeat routes, so the last ones are cached (0.04 µs, labels take 0.6),
        # each in one word (which a thread writes atomically): both nodes, and the metres + 1.
        one, other = np.minimum(start, end), np.maximum(start, end)
        pair = one.astype(np.uint64) << np.uint64(20) | other.astype(np.uint64)
        at = (pair * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(42)
        word = self._kept[at]
        known = word >> np.uint64(24) == pair
        known &= word & np.uint64(_METRES) != 0
        found = (word & np.uint64(_METRES)).astype(np.int64) - 1
        new = np.flatnonzero(~known)
        if len(new):
            found[new] = self._labels.metres(one[new], other[new])
            fits = new[(found[new] >= 0) & (found[new] < _METRES)]
            self._kept[at[fits]] = pair[fits] << np.uint64(24) | (found[fits] + 1).astype(np.uint64)
        return found

    def between(self, start: int, end: int) -> int:
        """Return the metres from one node to another; −1 without a route."""
        if self.count <= _WHOLE:
            return int(self.whole.item(start, end))
        return int(self.metres(np.array([start]), np.array([end]))[0])

    def way(self, source: int, target: int) -> list[int] | None:
        """Return the nodes of the shortest route, with both ends, or None."""
        table = self.table(source)
        if table[target] < 0:
            return None
        way, back = [target], self.matrix.tocsc()
        while way[-1] != source:
            here = way[-1]
            part = slice(back.indptr[here], back.indptr[here + 1])
            before = back.indices[part]
            # Of equal lengths, traced back from the end, the node with the smallest number.
            fits = (table[before] >= 0) & (table[before] + back.data[part] == table[here])
            way.append(int(before[fits].min()))
        return way[::-1]


def dijkstra(graph: Any, **options: Any) -> Any:
    """Return scipy's shortest lengths over a sparse graph."""
    return package("scipy.sparse.csgraph").dijkstra(graph, **options)


class Labels:
    """Hub labels: the metres between all nodes of a graph without one-way roads.

    The nodes are halved recursively by their coordinates. The nodes of one half with a road to the
    other half separate the two, so the shortest route between two nodes of a cell either passes one
    of them or stays in a half. Each node's label has the metres, within each of its cells, to the
    nodes that separate the cell. The shortest route is the smallest sum of two labels over the
    cells of both nodes (Gavoille, Peleg, Pérennes, Raz 2004, "Distance labeling in graphs", J.
    Algorithms 53).
    """

    def __init__(self, graph: Any, spots: NDArray[Any]) -> None:
        # By level: the number of each node's cell, −1 in none; the metres from each node to the
        # nearest that separates its cell; and how many more it is to each of those.
        self._cells: list[Any] = []
        self._nearest: list[Any] = []
        self._beyond: list[Any] = []
        level = [np.arange(len(spots))]
        while level:
            cells, deeper = [], []
            for nodes in level:
                between, halves = _split(graph, spots, nodes)
                part = graph[nodes][:, nodes]
                far = dijkstra(part, indices=np.searchsorted(nodes, between))
                nearest = far.min(axis=0, initial=np.inf)
                nearest[np.isinf(nearest)] = 0
                far -= nearest
                cells.append((nodes, nearest, far))
                deeper += halves
            self._add(len(spots), cells)
            level = deeper

    def _add(self, count: int, cells: list[Any]) -> None:
        width = max(len(far) for *_, far in cells)
        span = max(far[np.isfinite(far)].max(initial=0) for *_, far in cells)
        dtype = np.uint16 if span < _none(np.uint16) else np.uint32
        cell, least = np.full(count, -1, np.int32), np.zeros(count, np.int32)
        beyond = np.full((count, width), _none(dtype), dtype)
        for number, (nodes, nearest, far) in enumerate(cells):
            far[np.isinf(far)] = _none(dtype)
            cell[nodes], least[nodes], beyond[nodes, : len(far)] = number, nearest, far.T
        self._cells.append(cell)
        self._nearest.append(least)
        self._beyond.append(beyond)

    def metres(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return the metres between nodes; int64, −1 without a route."""
        found = np.full(len(start), _FARTHEST, np.int64)
        both = np.arange(len(start))
        for cell, nearest, beyond in zip(self._cells, self._nearest, self._beyond, strict=True):
            # A cell's separating nodes are in neither half.
            both = both[(cell[start[both]] == cell[end[both]]) & (cell[start[both]] >= 0)]
            for part in np.array_split(both, max(1, len(both) * beyond.shape[1] // _AT_ONCE)):
                one, other = start[part], end[part]
                # The least is within the span of a label, so below `none`, or there is no way.
                none = _none(beyond.dtype)
                more = np.add(beyond[one], beyond[other], dtype=np.uint32)
                more = more.min(axis=1, initial=none).astype(np.int64)
                ways = np.where(more < none, more + nearest[one] + nearest[other], _FARTHEST)
                found[part] = np.minimum(found[part], ways)
        found[found == _FARTHEST] = -1
        return found


def _none(dtype: Any) -> int:
    """Return what stands for no way."""
    return min(int(np.iinfo(dtype).max), _FARTHEST)


def _split(graph: Any, spots: Any, nodes: Any) -> tuple[Any, list[Any]]:
    """Return the nodes that separate a cell, and its two halves without them."""
    if len(nodes) <= _LEAF:
        return nodes, []
    own = spots[nodes]
    axis = int(np.ptp(own[:, 1]) > np.ptp(own[:, 0]))
    order = np.lexsort((nodes, own[:, 1 - axis], own[:, axis]))
    right = np.zeros(len(nodes), bool)
    right[order[len(nodes) // 2 :]] = True
    part = graph[nodes][:, nodes].tocoo()
    across = ~right[part.row] & right[part.col]
    ends = (np.unique(part.row[across]), np.unique(part.col[across]))
    border = min(ends, key=len)
    left = ~right
    left[border] = False
    right[border] = False
    return nodes[border], [nodes[half] for half in (left, right) if half.any()]


class Nearest:
    """The nearest places of each kind (None: all) from every node, in tables made on first use."""

    def __init__(
        self,
        kinds: Mapping[str | None, NDArray[Any]],
        hang: NDArray[Any],
        access: NDArray[Any],
        spots: NDArray[Any],
    ) -> None:
        self._kinds, self._hang, self._access, self._spots = kinds, hang, access, spots
        self._tables: dict[tuple[Roads, str | None], tuple[Any, Any]] = {}

    def table(self, graph: Roads, kind: str | None, limit: int) -> tuple[Any, Any]:
        """Return each node's `limit` + 1 nearest places of a kind, and their metres, by rank."""
        made = self._tables.get(key := (graph, kind))
        if made is None or len(made[0]) <= limit:
            made = self._tables[key] = self._made(graph, kind, limit)
        return made[0][: limit + 1], made[1][: limit + 1]  # the table may have more ranks

    def _made(self, graph: Roads, kind: str | None, limit: int) -> tuple[Any, Any]:
        targets = self._kinds.get(kind, self._hang[:0])
        keys = np.full((graph.count, limit + 1), _NO_PLACE, np.int64)
        if graph.count > _WHOLE:
            self._search(graph, targets, keys)
        else:
            for part in _parts(np.arange(graph.count), len(targets)):
                self._add(keys, part, graph.whole[part][:, self._hang[targets]], targets)
        keys = np.ascontiguousarray(np.sort(keys, axis=1).T)
        found, count = keys != _NO_PLACE, len(self._hang)
        places = np.where(found, keys % count, -1).astype(np.int32)
        return places, np.where(found, keys // count, 0).astype(np.int32)

    def _add(self, keys: Any, nodes: Any, far: Any, targets: Any) -> None:
        """Keep the least keys of nodes, of those they have and of `targets` `far` away."""
        # Places are numbered in order of id, so this key has no ties.
        new = (far.astype(np.int64) + self._access[targets]) * len(self._hang) + targets
        new[far < 0] = _NO_PLACE
        both, width = np.concatenate([keys[nodes], new], axis=1), keys.shape[1]
        keys[nodes] = np.partition(both, width - 1, axis=1)[:, :width]

    def _search(self, graph: Roads, targets: Any, keys: Any) -> None:
        """Find the least keys in a large graph, from the places, since they are fewer than nodes.

        The radius grows until each node has all its places, or nothing bounds it any more. Places
        of a tile are searched for together, in the part of the graph that has their routes.
        """
        back, hang, width = graph.matrix.T.tocsr(), self._hang, keys.shape[1]
        # Of the places at one node, only the first can be among the nearest of any node.
        targets = targets[np.lexsort((targets, self._access[targets], hang[targets]))]
        first = np.searchsorted(hang[targets], hang[targets])
        targets = targets[np.arange(len(targets)) - first < width]
        extent = np.ptp(self._spots, axis=0)
        radius = max(500.0, 1.4 * (extent.prod() / max(1, len(targets)) * width) ** 0.5)
        tile_side, left = max(1500, int(radius)), np.arange(graph.count)
        while len(left) and radius <= _WIDEST:
            near = dijkstra(graph.matrix, indices=left, min_only=True, limit=radius)
            keys[left] = _NO_PLACE
            asks = np.zeros(graph.count, bool)
            asks[left] = True
            for tile in self._tiles(targets[np.isfinite(near[hang[targets]])], tile_side):
                reach = dijkstra(back, indices=np.unique(hang[tile]), min_only=True, limit=radius)
                part = np.flatnonzero(near + reach <= radius)
                around, wanted = back[part][:, part], asks[part]
                for few in _parts(tile, len(part)):
                    starts, which = np.unique(hang[few], return_inverse=True)
                    far = dijkstra(around, indices=np.searchsorted(part, starts), limit=radius)
                    far = np.where(np.isinf(far), -1, far)[:, wanted]
                    self._add(keys, part[wanted], far[which].T, few)
            # A node is done if its last place is within the radius: none nearer is missing.
            left = left[keys[left].max(axis=1) // len(self._hang) > radius]
            radius = 2 * radius if radius < extent.sum() else max(2 * radius, _WIDEST)

    def _tiles(self, places: Any, side: int) -> list[Any]:
        """Return the places of each square of the map, in the order that they have."""
        if not len(places):
            return []
        square = self._spots[self._hang[places]] // side
        order = np.lexsort((square[:, 1], square[:, 0]))
        starts = np.flatnonzero((np.diff(square[order], axis=0) != 0).any(axis=1)) + 1
        return np.split(places[order], starts)


def _parts(rows: Any, width: int) -> list[Any]:
    """Return rows in parts small enough for a table of so many columns."""
    return np.array_split(rows, max(1, len(rows) * width // _AT_ONCE))
