"""The nearest places of a kind from every road node, in tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from civitas.society.arrays import np
from civitas.society.city.routes import WHOLE, Roads, dijkstra

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT_ONCE: Final = 1 << 22
_FARTHEST: Final = 1 << 32


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

    def keep(self, graph: Roads, kinds: Collection[str], limit: int) -> None:
        """Make the tables of `limit` near places of some kinds, and drop all others."""
        self._tables = {
            key: (places[: limit + 1].copy(), metres[: limit + 1].copy())
            for key, (places, metres) in self._tables.items()
            if key[1] in kinds
        }
        for kind in kinds:
            self.table(graph, kind, limit)

    def _made(self, graph: Roads, kind: str | None, limit: int) -> tuple[Any, Any]:
        targets = self._kinds.get(kind, self._hang[:0])
        places = np.full((graph.count, limit + 1), -1, np.int32)
        metres = np.zeros((graph.count, limit + 1), np.int32)
        hang, step = self._hang[targets], max(1, _AT_ONCE // max(1, len(targets)))
        parts = [slice(first, first + step) for first in range(0, graph.count, step)]
        if graph.count <= WHOLE and len(targets):
            for part in parts:
                self._nearest(graph.whole[part][:, hang], targets, places[part], metres[part])
        elif 0 < len(targets) <= 256:  # few targets: search from each target
            nodes, which = np.unique(hang, return_inverse=True)
            found = dijkstra(graph.matrix.T.tocsr(), indices=nodes)
            far = np.where(np.isinf(found), -1, found).astype(np.int32)[which].T
            for part in parts:
                self._nearest(far[part], targets, places[part], metres[part])
        elif len(targets):
            self._by_tiles(graph, targets, places, metres)
        return places.T.copy(), metres.T.copy()

    def _nearest(self, far: Any, targets: Any, places: Any, metres: Any) -> Any:
        """Write the nearest of `targets` by the metres to their nodes; return the last's metres."""
        width, count = places.shape[1], len(self._hang)
        none = np.iinfo(np.int64).max
        # Places are numbered in order of id, so this key has no ties.
        keys = (far.astype(np.int64) + self._access[targets]) * count + targets
        keys[far < 0] = none
        if keys.shape[1] > width:
            keys = np.partition(keys, width - 1, axis=1)[:, :width]
        keys = np.sort(keys, axis=1)
        found = keys != none
        many = keys.shape[1]
        places[:, :many] = np.where(found, keys % count, -1)
        metres[:, :many] = np.where(found, keys // count, 0)
        if many < width:
            return np.full(len(keys), np.inf)
        return np.where(found[:, -1], keys[:, -1] // count, np.inf)

    def _by_tiles(self, graph: Roads, targets: Any, places: Any, metres: Any) -> None:
        """Fill the tables of a large graph, tile by tile, with a growing search radius."""
        width, hang = places.shape[1], self._hang[targets]
        tile = self._spots // 1500
        order = np.lexsort((tile[:, 1], tile[:, 0]))
        starts = np.flatnonzero(np.r_[True, (np.diff(tile[order], axis=0) != 0).any(axis=1)])
        spread = np.ptp(self._spots, axis=0).prod() / max(1, len(targets))
        first_radius = max(500.0, 1.4 * (spread * width) ** 0.5)
        for nodes in np.split(order, starts[1:]):
            radius, left = first_radius, nodes
            while len(left) and radius < _FARTHEST:
                reach = dijkstra(graph.matrix, indices=left, min_only=True, limit=radius)
                part = np.flatnonzero(np.isfinite(reach))
                inside = np.full(graph.count, -1)
                inside[part] = np.arange(len(part))
                some = np.flatnonzero(inside[hang] >= 0)
                if len(some):
                    around = graph.matrix[part][:, part]
                    far = dijkstra(around, indices=inside[left], limit=radius)
                    far = np.where(np.isinf(far), -1, far).astype(np.int32)[:, inside[hang[some]]]
                    near, ways = places[left], metres[left]
                    near[:], ways[:] = -1, 0
                    last = self._nearest(far, targets[some], near, ways)
                    places[left], metres[left] = near, ways
                else:
                    last = np.full(len(left), np.inf)
                # A node is done if its last place is within the radius: none nearer is missing.
                left = left[last > radius] if len(part) < graph.count else left[:0]
                radius *= 2
