"""The nearest places from every node of the roads, by searches from the places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moothall.society.arrays import Array, np
from moothall.society.city.access import Access
from moothall.society.city.labels import dijkstra
from moothall.society.city.routes import MAX_IN_TABLE

_MAX_CHECKED: Final = 64
"""For so many changed roads it is looked which nodes they concern; of more, all are searched."""
_MAX_CELLS: Final = 1 << 22
_MAX_RADIUS: Final = 1 << 32
_NO_PLACE: Final = 2**63 - 1


class Nearest:
    """The nearest places of each kind (None: all) from every node, in tables made on first use."""

    def __init__(
        self, kinds: Mapping[str | None, Array], spots: Array, usual: Nearest | None = None
    ) -> None:
        self._kinds, self._node_positions = kinds, spots
        self._usual = usual  # of the usual roads, where these are changed
        self._tables: dict[tuple[Access, str | None], tuple[Array, Array]] = {}

    @property
    def parts(self) -> tuple[Mapping[str | None, Array], Array]:
        """The places of each kind, and the positions of the nodes."""
        return self._kinds, self._node_positions

    def table(self, access: Access, kind: str | None, limit: int) -> tuple[Array, Array]:
        """Return each node's `limit` + 1 nearest places of a kind, and their metres, by rank."""
        if self._usual is not None and access.base is None:
            return self._usual.table(access, kind, limit)
        table = self._tables.get(key := (access, kind))
        if table is None or len(table[0]) <= limit:
            table = self._tables[key] = self._build(access, kind, limit)
        return table[0][: limit + 1], table[1][: limit + 1]  # the table may have more ranks

    def _build(self, access: Access, kind: str | None, limit: int) -> tuple[Array, Array]:
        targets, roads = self._kinds.get(kind, np.zeros(0, np.int32)), access.roads
        keys = np.full((roads.count, limit + 1), _NO_PLACE, np.int64)
        if roads.count > MAX_IN_TABLE:
            self._search(access, targets, keys, self._keep_unchanged(access, kind, keys))
        else:
            for part in _row_parts(np.arange(roads.count), len(targets)):
                metres = roads.all_metres[part][:, access.node[targets]]
                _keep_nearest(access, keys, part, metres, targets)
        keys = np.ascontiguousarray(np.sort(keys, axis=1).T)
        is_place, count = keys != _NO_PLACE, len(access.node)
        places = np.where(is_place, keys % count, -1).astype(np.int32)
        return places, np.where(is_place, keys // count, 0).astype(np.int32)

    def _keep_unchanged(self, access: Access, kind: str | None, keys: Array) -> Array:
        """Keep the keys of nodes whose nearest places changed roads do not concern; return others.

        Where roads are longer or gone, the routes that did not lead over them are the shortest yet.
        """
        nodes = np.arange(access.roads.count)
        longer, base = access.roads.longer, access.base
        if self._usual is None or base is None or longer is None or len(longer) > _MAX_CHECKED:
            return nodes
        places, metres = self._usual.table(base, kind, keys.shape[1] - 1)
        is_place, at = places >= 0, base.node[places]
        metres_to_node = metres - base.walk_m[places]
        is_concerned = np.zeros(places.shape, bool)
        there = base.roads.matrix
        back = there.T.tocsr()
        for a, b, length in longer.tolist():
            to, on = dijkstra(back, indices=a), dijkstra(there, indices=b)
            is_concerned |= to + length + on[at] == metres_to_node
        is_concerned &= is_place
        kept_keys = np.where(is_place, metres.astype(np.int64) * len(base.node) + places, _NO_PLACE)
        keys[...] = kept_keys.T
        return nodes[is_concerned.any(axis=0)]

    def _search(self, access: Access, targets: Array, keys: Array, pending: Array) -> None:
        """Find the least keys of nodes in a large graph, from the places, since these are fewer.

        The radius grows until each node has all its places, or nothing bounds it any more. Places
        of a tile are searched for together, in the part of the graph that has their routes.
        """
        graph, nodes, width = access.roads, access.node, keys.shape[1]
        back = graph.matrix.T.tocsr()
        # Of the places at one node, only the first can be among the nearest of any node.
        targets = targets[np.lexsort((targets, access.walk_m[targets], nodes[targets]))]
        first = np.searchsorted(nodes[targets], nodes[targets])
        targets = targets[np.arange(len(targets)) - first < width]
        extent = np.ptp(self._node_positions, axis=0)
        radius = max(500.0, 1.4 * (extent.prod() / max(1, len(targets)) * width) ** 0.5)
        tile_side = max(1500, int(radius))
        while len(pending) and radius <= _MAX_RADIUS:
            near = dijkstra(graph.matrix, indices=pending, min_only=True, limit=radius)
            keys[pending] = _NO_PLACE
            is_pending = np.zeros(graph.count, bool)
            is_pending[pending] = True
            for tile in self._tiles(nodes, targets[np.isfinite(near[nodes[targets]])], tile_side):
                reach = dijkstra(back, indices=np.unique(nodes[tile]), min_only=True, limit=radius)
                part = np.flatnonzero(near + reach <= radius)
                matrix, is_asking = back[part][:, part], is_pending[part]
                for places in _row_parts(tile, len(part)):
                    starts, start_index = np.unique(nodes[places], return_inverse=True)
                    metres = dijkstra(matrix, indices=np.searchsorted(part, starts), limit=radius)
                    metres = np.where(np.isinf(metres), -1, metres)[:, is_asking]
                    _keep_nearest(access, keys, part[is_asking], metres[start_index].T, places)
            # A node is done if its last place is within the radius: none nearer is missing.
            pending = pending[keys[pending].max(axis=1) // len(nodes) > radius]
            radius = 2 * radius if radius < extent.sum() else max(2 * radius, _MAX_RADIUS)

    def _tiles(self, nodes: Array, places: Array, side: int) -> list[Array]:
        """Return the places of each square of the map, in the order that they have."""
        if not len(places):
            return []
        square = self._node_positions[nodes[places]] // side
        order = np.lexsort((square[:, 1], square[:, 0]))
        starts = np.flatnonzero((np.diff(square[order], axis=0) != 0).any(axis=1)) + 1
        return np.split(places[order], starts)


def _keep_nearest(access: Access, keys: Array, nodes: Array, metres: Array, targets: Array) -> None:
    """Keep the least keys of nodes, of those they have and of `targets` `metres` away."""
    # Places are numbered in order of id, so this key has no ties.
    new_keys = (metres.astype(np.int64) + access.walk_m[targets]) * len(access.node) + targets
    new_keys[metres < 0] = _NO_PLACE
    all_keys, width = np.concatenate([keys[nodes], new_keys], axis=1), keys.shape[1]
    keys[nodes] = np.partition(all_keys, width - 1, axis=1)[:, :width]


def _row_parts(rows: Array, width: int) -> list[Array]:
    """Return rows in parts small enough for a table of so many columns."""
    return np.array_split(rows, max(1, len(rows) * width // _MAX_CELLS))
