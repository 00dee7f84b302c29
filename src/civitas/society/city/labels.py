"""Shortest ways between any two of many nodes: by labels, as of hubs that every way passes.

The nodes are halved by their coordinates again and again. The nodes of one half that have a road to
the other separate the two, so the shortest way between two nodes of a cell either passes one of
them or stays in a half. Each node keeps the metres, within each cell that it is in, to the nodes
that separate the cell; the shortest way is the smallest sum of two labels over the cells that both
nodes are in (Gavoille, Peleg, Pérennes, Raz 2004, "Distance labeling in graphs", J. Algorithms 53).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from civitas.society.arrays import csgraph, numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAF: Final = 32
_AT_ONCE: Final = 1 << 22
_NO_WAY: Final = (1 << 30) - 1  # twice this fits an int32


class Labels:
    """The metres between all nodes of a graph without one-way roads.

    Args:
        graph: the lengths of the roads: a sparse matrix of whole numbers, symmetric
        spots: where the nodes are; int64, (n, 2)
    """

    def __init__(self, graph: Any, spots: NDArray[Any]) -> None:
        np = numpy()
        count = len(spots)
        cells: list[list[tuple[Any, Any, Any]]] = []
        """By level: the nodes of each cell, those that separate it, and the metres between."""
        level = [np.arange(count)]
        while level:
            made, deeper = [], []
            for nodes in level:
                between, halves = _split(graph, spots, nodes)
                part = graph[nodes][:, nodes]
                far = csgraph().dijkstra(part, indices=np.searchsorted(nodes, between))
                made.append((nodes, between, np.where(np.isinf(far), _NO_WAY, far)))
                deeper += halves
            cells.append(made)
            level = deeper
        widths = [max(len(between) for _, between, _ in made) for made in cells]
        longest = max(int(far[far < _NO_WAY].max(initial=0)) for made in cells for *_, far in made)
        if longest >= _NO_WAY // 2:  # the sum of two must fit
            raise OverflowError(f"ways of {longest} metres are too long")
        self._ends = np.cumsum(widths)
        self._labels = np.full((count, int(self._ends[-1])), _NO_WAY, np.int32)
        self._cell = np.full((count, len(cells)), -1, np.int32)
        for depth, made in enumerate(cells):
            start = int(self._ends[depth]) - widths[depth]
            for number, (nodes, between, far) in enumerate(made):
                self._labels[nodes, start : start + len(between)] = far.T
                self._cell[nodes, depth] = number

    def metres(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return the metres between nodes; int64, −1 without a way."""
        np = numpy()
        found = np.empty(len(start), np.int64)
        one, other = self._cell[start], self._cell[end]
        # Of the cells that both are in, the smallest; nodes that separate a cell are in no half.
        depth = ((one == other) & (one >= 0)).sum(axis=1) - 1
        for level in np.unique(depth).tolist():
            at = np.flatnonzero(depth == level)
            width = int(self._ends[level])
            for part in np.array_split(at, max(1, len(at) * width // _AT_ONCE)):
                sums = self._labels[start[part], :width] + self._labels[end[part], :width]
                found[part] = sums.min(axis=1)
        found[found >= _NO_WAY] = -1
        return found


def _split(graph: Any, spots: Any, nodes: Any) -> tuple[Any, list[Any]]:
    """Return the nodes that separate a cell, and its two halves without them."""
    np = numpy()
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
