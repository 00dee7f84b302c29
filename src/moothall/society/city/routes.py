"""Shortest routes over roads, by scipy's Dijkstra and labels made with it, for one or many."""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from moothall import ConfigError
from moothall.society.arrays import Array, import_package, np
from moothall.society.city.labels import TOO_FAR, Labels, dijkstra

MAX_IN_TABLE: Final = 2500  # up to this many nodes, one table has the metres between all of them
_MAX_TABLE_ENTRIES: Final = 1 << 26  # the entries in the cached tables of a larger graph, at most
_CACHE_SIZE: Final = 1 << 22
_METRES_MASK: Final = (1 << 24) - 1


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
        if int(edges[:, 2].sum()) > TOO_FAR:
            raise ConfigError(f"the roads together must have at most {TOO_FAR} metres")
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
            return self.base._labels.lengthened(self.base.matrix, self.matrix, self.longer)
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
