"""Shortest routes over roads, by scipy's Dijkstra and labels made with it, for one or many."""

from __future__ import annotations

import functools
from copy import copy
from typing import Any, Final, NamedTuple

from moothall import ConfigError
from moothall.society.arrays import Array, import_package, np

MAX_IN_TABLE: Final = 2500  # up to this many nodes, one table has the metres between all of them
_TOO_FAR: Final = 2**31 - 1
_MAX_TABLE_ENTRIES: Final = 1 << 26  # the entries in the cached tables of a larger graph, at most
_CACHE_SIZE: Final = 1 << 22
_METRES_MASK: Final = (1 << 24) - 1
_LEAF_NODES: Final = 32
_BATCH_SIZE: Final = 1 << 22


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
    """A graph of nodes 0 … n−1, and the shortest routes between them, in exact whole metres.

    `base` is the graph of which this one has some edges changed: its labels are taken over where
    the changes do not reach.
    """

    # An edge is (from, to, metres).
    def __init__(
        self, edges: Array, oneway: Array, spots: Array, *, base: Roads | None = None
    ) -> None:
        if int(edges[:, 2].sum()) > _TOO_FAR:
            raise ConfigError(f"the roads together must have at most {_TOO_FAR} metres")
        directed = np.concatenate([edges, edges[~oneway][:, [1, 0, 2]]])
        # Keep the shortest of roads between the same nodes; scipy would add them up.
        order = np.lexsort((directed[:, 2], directed[:, 1], directed[:, 0]))
        directed = directed[order]
        is_first = np.ones(len(directed), dtype=bool)
        is_first[1:] = (directed[1:, :2] != directed[:-1, :2]).any(axis=1)
        directed = directed[is_first]
        self.count: int = len(spots)
        self._symmetric: bool = not oneway.any() if base is None else base._symmetric
        self.spots = spots
        self.base = base
        ends = (directed[:, 0], directed[:, 1])
        shape = (self.count, self.count)
        self.matrix: Any = import_package("scipy.sparse").csr_array(
            (directed[:, 2].astype(float), ends), shape=shape
        )
        self._tables: dict[int, Array] = {}

    @functools.cached_property
    def all_metres(self) -> Array:
        """The metres between all nodes of a small graph; int32, −1 without a route."""
        distances = dijkstra(self.matrix)
        return np.where(np.isinf(distances), -1, distances).astype(np.int32)

    @functools.cached_property
    def longer(self) -> Array | None:
        """The edges of `base` that are longer here, or gone: from, to, metres there.

        None: there is no base, or some edge is shorter here.
        """
        if self.base is None:
            return None
        gain = (self.base.matrix - self.matrix).tocoo()
        # Of an edge that is gone, the gain is its length; of a longer one, it is below 0.
        old = np.asarray(self.base.matrix[gain.row, gain.col]).reshape(-1)
        is_changed = gain.data != 0
        if (is_changed & (gain.data > 0) & (gain.data != old)).any() or (
            is_changed & (old == 0)
        ).any():
            return None
        parts = (gain.row, gain.col, old)
        return np.stack([each[is_changed].astype(np.int64) for each in parts], axis=1)

    @functools.cached_property
    def _labels(self) -> Labels:
        if self.base is not None and self.longer is not None:
            return self.base._labels.lengthened(self.matrix, self.longer)
        return Labels(self.matrix, self.spots, symmetric=self._symmetric)

    @functools.cached_property
    def _cache(self) -> Array:
        return np.zeros(_CACHE_SIZE, np.uint64)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that an engine's worker needs; it keeps routes of its own."""
        return {name: value for name, value in vars(self).items() if name != "_cache"}

    def table(self, source: int) -> Array:
        """Return the metres from a node to every node: int32, (n_nodes,), −1 without a route."""
        table = self.all_metres[source] if self.count <= MAX_IN_TABLE else self._tables.get(source)
        if table is None:
            # One source at a time: for many at once, scipy takes as long per source.
            distances = dijkstra(self.matrix, indices=source)
            table = np.where(np.isinf(distances), -1, distances).astype(np.int32)
            if len(self._tables) * self.count >= _MAX_TABLE_ENTRIES:
                self._tables.clear()
            self._tables[source] = table
        return table

    def metres(self, start: Array, end: Array) -> Array:
        """Return the metres between nodes of two arrays; int64, −1 without a route."""
        metres: Array
        if self.count <= MAX_IN_TABLE:
            metres = self.all_metres[start, end].astype(np.int64)
            return metres
        if self.count > 1 << 20:
            return self._labels.metres(start, end)
        # Citizens return and repeat routes, so the last ones are cached (0.04 µs, labels take 0.6),
        # each in one word (which a thread writes atomically): both nodes, and the metres + 1.
        first, second = start, end
        if self._symmetric:
            first, second = np.minimum(start, end), np.maximum(start, end)
        pair = first.astype(np.uint64) << np.uint64(20) | second.astype(np.uint64)
        slots = (pair * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(42)
        word = self._cache[slots]
        is_cached = word >> np.uint64(24) == pair
        is_cached &= word & np.uint64(_METRES_MASK) != 0
        metres = (word & np.uint64(_METRES_MASK)).astype(np.int64) - 1
        missing = np.flatnonzero(~is_cached)
        if len(missing):
            metres[missing] = self._labels.metres(first[missing], second[missing])
            storable = missing[(metres[missing] >= 0) & (metres[missing] < _METRES_MASK)]
            words = (metres[storable] + 1).astype(np.uint64)
            self._cache[slots[storable]] = pair[storable] << np.uint64(24) | words
        return metres

    def metres_between(self, start: int, end: int) -> int:
        """Return the metres from one node to another; −1 without a route."""
        if self.count <= MAX_IN_TABLE:
            return int(self.all_metres.item(start, end))
        return int(self.metres(np.array([start]), np.array([end]))[0])

    def find_route(self, source: int, target: int) -> list[int] | None:
        """Return the nodes of the shortest route, with both ends, or None."""
        table = self.table(source)
        if table[target] < 0:
            return None
        route, incoming = [target], self.matrix.tocsc()
        while route[-1] != source:
            node = route[-1]
            part = slice(incoming.indptr[node], incoming.indptr[node + 1])
            previous = incoming.indices[part]
            # Of equal lengths, traced back from the end, the node with the smallest number.
            fits = (table[previous] >= 0) & (table[previous] + incoming.data[part] == table[node])
            route.append(int(previous[fits].min()))
        return route[::-1]


def dijkstra(graph: object, **options: object) -> Any:
    """Return scipy's shortest lengths over a sparse graph."""
    return import_package("scipy.sparse.csgraph").dijkstra(graph, **options)


class Labels:
    """Hub labels: the metres between all nodes of a graph.

    The nodes are halved recursively by their coordinates. The nodes of one half with a road to or
    from the other half separate the two, so the shortest route between two nodes of a cell either
    passes one of them or stays in a half. Each node's label has the metres, within each of its
    cells, to and from the nodes that separate the cell; with one-way roads they differ. The
    shortest route is the smallest sum of two labels over the cells of both nodes (Gavoille, Peleg,
    Pérennes, Raz 2004, "Distance labeling in graphs", J. Algorithms 53; with two labels a node:
    Cohen, Halperin, Kaplan, Zwick 2003, "Reachability and distance queries via 2-hop labels", SIAM
    J. Computing 32).
    """

    def __init__(self, graph: Any, spots: Array, *, symmetric: bool = False) -> None:
        # By level: the number of each node's cell, −1 in none, its labels, there and back, and
        # which nodes of each cell separate it.
        self._levels: list[tuple[Array, _Label, _Label, list[Array]]] = []
        transposed = None if symmetric else graph.T.tocsr()
        undirected = graph if transposed is None else graph + transposed
        level = [np.arange(len(spots))]
        while level:
            cells, next_level = [], []
            for nodes in level:
                separating, halves = _split_cell(undirected, spots, nodes)
                cells.append((nodes, np.searchsorted(nodes, separating)))
                next_level += halves
            cell = np.full(len(spots), -1, np.int32)
            for number, (nodes, _) in enumerate(cells):
                cell[nodes] = number
            # Searches begin at the separating nodes, so those of ways to them go backwards.
            back = _Label(len(spots), cells, graph, symmetric)
            there = back if transposed is None else _Label(len(spots), cells, transposed, symmetric)
            if there.dtype != back.dtype:
                there.widen()
                back.widen()
            self._levels.append((cell, there, back, [separating for _, separating in cells]))
            level = next_level

    def lengthened(self, graph: Any, longer: Array) -> Labels:
        """Return the labels of a graph with longer or fewer edges; all else is as it was here.

        Only cells that have both ends of such an edge are searched anew, and in these only from
        separating nodes of whose shortest routes it was part.

        Args:
            graph: the graph
            longer: the edges as they were: from, to, metres
        """
        labels = Labels.__new__(Labels)
        labels._levels = []
        for cell, there, back, separating in self._levels:
            a, b = cell[longer[:, 0]], cell[longer[:, 1]]
            is_inside = (a == b) & (a >= 0)
            if is_inside.any():
                inside = longer[is_inside]
                cells = [
                    (number, np.flatnonzero(cell == number), separating[number])
                    for number in np.unique(a[is_inside]).tolist()
                ]
                is_symmetric = there is back
                back = back.lengthened(cells, graph, inside, is_symmetric)
                there = (
                    back
                    if is_symmetric
                    else there.lengthened(cells, graph.T.tocsr(), inside[:, [1, 0, 2]], False)
                )
                if there.dtype != back.dtype:
                    there.widen()
                    back.widen()
            labels._levels.append((cell, there, back, separating))
        return labels

    def metres(self, start: Array, end: Array) -> Array:
        """Return the metres between nodes; int64, −1 without a route."""
        metres = np.full(len(start), _TOO_FAR, np.int64)
        pairs = np.arange(len(start))
        for cell, there, back, _ in self._levels:
            # A cell's separating nodes are in neither half.
            pairs = pairs[(cell[start[pairs]] == cell[end[pairs]]) & (cell[start[pairs]] >= 0)]
            for part in np.array_split(pairs, max(1, len(pairs) * there.width // _BATCH_SIZE)):
                metres[part] = np.minimum(metres[part], there.to(start[part], back, end[part]))
        metres[metres == _TOO_FAR] = -1
        return metres


class _Label:
    """The metres of one level, of all nodes, from the nodes that separate their cell."""

    def __init__(
        self, count: int, cells: list[tuple[Array, Array]], graph: Any, symmetric: bool
    ) -> None:
        parts = []
        for nodes, separating in cells:
            metres = dijkstra(graph[nodes][:, nodes], indices=separating)
            nearest = metres.min(axis=0, initial=np.inf)
            nearest[np.isinf(nearest)] = 0
            parts.append((nodes, nearest, metres - nearest))
        self.width = max(len(metres) for *_, metres in parts)
        # The least sum is below `none`: within a span by the nearest, if it leads on, or else two.
        span = max(metres[np.isfinite(metres)].max(initial=0) for *_, metres in parts)
        span *= 1 if symmetric else 2
        dtype = np.uint16 if span < _no_way(np.uint16) else np.uint32
        self._nearest = np.zeros(count, np.int32)
        self._excess = np.full((count, self.width), _no_way(dtype), dtype)
        for nodes, nearest, metres in parts:
            metres[np.isinf(metres)] = _no_way(dtype)
            self._nearest[nodes], self._excess[nodes, : len(metres)] = nearest, metres.T

    @property
    def dtype(self) -> Any:
        return self._excess.dtype

    def lengthened(
        self,
        cells: list[tuple[int, Array, Array]],
        graph: Any,
        longer: Array,
        symmetric: bool,
    ) -> _Label:
        """Return the label of a graph whose edges `longer`, as they were, are longer or gone.

        Args:
            cells: the cells that have such edges: number, nodes and which of them separate it
            graph: the graph
            longer: the edges: from, to, metres
            symmetric: whether all edges lead both ways
        """
        changed = copy(self)
        changed._nearest, changed._excess = self._nearest.copy(), self._excess.copy()
        for _, nodes, separating in cells:
            metres = self._metres_of(nodes, len(separating))
            is_here = np.isin(longer[:, 0], nodes)
            a, b = (np.searchsorted(nodes, longer[is_here, end]) for end in (0, 1))
            # An edge was on a shortest route from a node if it led on from one end to the other.
            was_on_route = metres[:, a] + longer[is_here, 2] == metres[:, b]
            sources = np.flatnonzero((was_on_route & np.isfinite(metres[:, b])).any(axis=1))
            if not len(sources):
                continue
            metres[sources] = dijkstra(graph[nodes][:, nodes], indices=separating[sources])
            span = metres[np.isfinite(metres)].max(initial=0) * (1 if symmetric else 2)
            if span >= _no_way(changed.dtype):
                changed.widen()
            changed._put_metres(nodes, metres)
        return changed

    def _metres_of(self, nodes: Array, count: int) -> Array:
        """Return the metres of nodes of a cell from each of its `count` separating nodes."""
        excess = self._excess[nodes, :count].T
        return np.where(excess == _no_way(self.dtype), np.inf, excess + self._nearest[nodes])

    def _put_metres(self, nodes: Array, metres: Array) -> None:
        """Write the metres of nodes of a cell from each of its separating nodes."""
        nearest = metres.min(axis=0, initial=np.inf)
        nearest[np.isinf(nearest)] = 0
        excess = metres - nearest
        excess[np.isinf(excess)] = _no_way(self.dtype)
        self._nearest[nodes], self._excess[nodes, : len(metres)] = nearest, excess.T

    def widen(self) -> None:
        """Hold 32 bits each, as the other label of the level: no way must be above their sums."""
        is_no_way = self._excess == _no_way(self.dtype)
        self._excess = np.where(is_no_way, np.uint32(_TOO_FAR), self._excess)

    def to(self, start: Array, other: _Label, end: Array) -> Array:
        """Return the least metres over a separating node of the cells that nodes share."""
        limit = _no_way(self.dtype)
        sums = np.add(self._excess[start], other._excess[end], dtype=np.uint32)
        least = sums.min(axis=1, initial=limit).astype(np.int64)
        return np.where(least < limit, least + self._nearest[start] + other._nearest[end], _TOO_FAR)


def _no_way(dtype: Any) -> int:
    """Return what stands for no way."""
    return min(int(np.iinfo(dtype).max), _TOO_FAR)


def _split_cell(graph: Any, spots: Array, nodes: Array) -> tuple[Array, list[Array]]:
    """Return the nodes that separate a cell, and its two halves without them."""
    if len(nodes) <= _LEAF_NODES:
        return nodes, []
    positions = spots[nodes]
    axis = int(np.ptp(positions[:, 1]) > np.ptp(positions[:, 0]))
    order = np.lexsort((nodes, positions[:, 1 - axis], positions[:, axis]))
    right_half = np.zeros(len(nodes), bool)
    right_half[order[len(nodes) // 2 :]] = True
    part = graph[nodes][:, nodes].tocoo()
    is_across = ~right_half[part.row] & right_half[part.col]
    ends = (np.unique(part.row[is_across]), np.unique(part.col[is_across]))
    border = min(ends, key=len)
    left_half = ~right_half
    left_half[border] = False
    right_half[border] = False
    return nodes[border], [nodes[half] for half in (left_half, right_half) if half.any()]
