"""The nearest places from every node of the roads, by searches from the places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moothall.society.arrays import Array, np
from moothall.society.city.access import Access
from moothall.society.city.routes import MOST_IN_TABLE, dijkstra

_AT_ONCE: Final = 1 << 22
_WIDEST: Final = 1 << 32
_NO_PLACE: Final = 2**63 - 1


class Nearest:
    """The nearest places of each kind (None: all) from every node, in tables made on first use."""

    def __init__(self, kinds: Mapping[str | None, Array], spots: Array) -> None:
        self._kinds, self._spots = kinds, spots
        self._tables: dict[tuple[Access, str | None], tuple[Array, Array]] = {}

    def table(self, access: Access, kind: str | None, limit: int) -> tuple[Array, Array]:
        """Return each node's `limit` + 1 nearest places of a kind, and their metres, by rank."""
        table = self._tables.get(key := (access, kind))
        if table is None or len(table[0]) <= limit:
            table = self._tables[key] = self._build(access, kind, limit)
        return table[0][: limit + 1], table[1][: limit + 1]  # the table may have more ranks

    def _build(self, access: Access, kind: str | None, limit: int) -> tuple[Array, Array]:
        targets, roads = self._kinds.get(kind, np.zeros(0, np.int32)), access.roads
        keys = np.full((roads.count, limit + 1), _NO_PLACE, np.int64)
        if roads.count > MOST_IN_TABLE:
            self._search(access, targets, keys)
        else:
            for part in _row_parts(np.arange(roads.count), len(targets)):
                far = roads.all_metres[part][:, access.node[targets]]
                _add(access, keys, part, far, targets)
        keys = np.ascontiguousarray(np.sort(keys, axis=1).T)
        is_place, count = keys != _NO_PLACE, len(access.node)
        places = np.where(is_place, keys % count, -1).astype(np.int32)
        return places, np.where(is_place, keys // count, 0).astype(np.int32)

    def _search(self, access: Access, targets: Array, keys: Array) -> None:
        """Find the least keys in a large graph, from the places, since they are fewer than nodes.

        The radius grows until each node has all its places, or nothing bounds it any more. Places
        of a tile are searched for together, in the part of the graph that has their routes.
        """
        graph, hang, width = access.roads, access.node, keys.shape[1]
        back = graph.matrix.T.tocsr()
        # Of the places at one node, only the first can be among the nearest of any node.
        targets = targets[np.lexsort((targets, access.far[targets], hang[targets]))]
        first = np.searchsorted(hang[targets], hang[targets])
        targets = targets[np.arange(len(targets)) - first < width]
        extent = np.ptp(self._spots, axis=0)
        radius = max(500.0, 1.4 * (extent.prod() / max(1, len(targets)) * width) ** 0.5)
        tile_side, pending = max(1500, int(radius)), np.arange(graph.count)
        while len(pending) and radius <= _WIDEST:
            near = dijkstra(graph.matrix, indices=pending, min_only=True, limit=radius)
            keys[pending] = _NO_PLACE
            asks = np.zeros(graph.count, bool)
            asks[pending] = True
            for tile in self._tiles(hang, targets[np.isfinite(near[hang[targets]])], tile_side):
                reach = dijkstra(back, indices=np.unique(hang[tile]), min_only=True, limit=radius)
                part = np.flatnonzero(near + reach <= radius)
                around, is_asking = back[part][:, part], asks[part]
                for few in _row_parts(tile, len(part)):
                    starts, which = np.unique(hang[few], return_inverse=True)
                    far = dijkstra(around, indices=np.searchsorted(part, starts), limit=radius)
                    far = np.where(np.isinf(far), -1, far)[:, is_asking]
                    _add(access, keys, part[is_asking], far[which].T, few)
            # A node is done if its last place is within the radius: none nearer is missing.
            pending = pending[keys[pending].max(axis=1) // len(hang) > radius]
            radius = 2 * radius if radius < extent.sum() else max(2 * radius, _WIDEST)

    def _tiles(self, hang: Array, places: Array, side: int) -> list[Array]:
        """Return the places of each square of the map, in the order that they have."""
        if not len(places):
            return []
        square = self._spots[hang[places]] // side
        order = np.lexsort((square[:, 1], square[:, 0]))
        starts = np.flatnonzero((np.diff(square[order], axis=0) != 0).any(axis=1)) + 1
        return np.split(places[order], starts)


def _add(access: Access, keys: Array, nodes: Array, far: Array, targets: Array) -> None:
    """Keep the least keys of nodes, of those they have and of `targets` `far` away."""
    # Places are numbered in order of id, so this key has no ties.
    new = (far.astype(np.int64) + access.far[targets]) * len(access.node) + targets
    new[far < 0] = _NO_PLACE
    both, width = np.concatenate([keys[nodes], new], axis=1), keys.shape[1]
    keys[nodes] = np.partition(both, width - 1, axis=1)[:, :width]


def _row_parts(rows: Array, width: int) -> list[Array]:
    """Return rows in parts small enough for a table of so many columns."""
    return np.array_split(rows, max(1, len(rows) * width // _AT_ONCE))
