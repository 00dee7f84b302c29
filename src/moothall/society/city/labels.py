"""Hub labels of roads, made with scipy's Dijkstra: the metres between all nodes of a graph."""

from __future__ import annotations

from copy import copy
from typing import Any, Final

from moothall.society.arrays import Array, import_package, np

TOO_FAR: Final = 2**31 - 1
_LEAF_NODES: Final = 32
_MAX_EDGES: Final = 64
"""Of so many longer edges it is looked which nodes each concerns; of more, all are searched for."""
_MANY: Final = 0.3  # of the nodes of a cell: for fewer a search of their own pays
_BATCH_SIZE: Final = 1 << 22


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

    def lengthened(self, old: Any, graph: Any, longer: Array) -> Labels:
        """Return the labels of a graph with longer or fewer edges; all else is as it was here.

        Only cells that have both ends of such an edge are searched anew, and in these only from
        separating nodes of whose shortest routes it was part.

        Args:
            old: the graph of these labels
            graph: the graph with longer edges
            longer: the edges as they were: from, to, metres
        """
        labels = Labels.__new__(Labels)
        labels._levels, there_graphs = [], None
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
                back = back.lengthened(cells, (old, graph), inside, is_symmetric)
                if is_symmetric:
                    there = back
                else:
                    there_graphs = there_graphs or (old.T.tocsr(), graph.T.tocsr())
                    there = there.lengthened(cells, there_graphs, inside[:, [1, 0, 2]], False)
                if there.dtype != back.dtype:
                    there.widen()
                    back.widen()
            labels._levels.append((cell, there, back, separating))
        return labels

    def metres(self, start: Array, end: Array) -> Array:
        """Return the metres between nodes; int64, −1 without a route."""
        metres = np.full(len(start), TOO_FAR, np.int64)
        pairs = np.arange(len(start))
        for cell, there, back, _ in self._levels:
            # A cell's separating nodes are in neither half.
            pairs = pairs[(cell[start[pairs]] == cell[end[pairs]]) & (cell[start[pairs]] >= 0)]
            for part in np.array_split(pairs, max(1, len(pairs) * there.width // _BATCH_SIZE)):
                metres[part] = np.minimum(metres[part], there.to(start[part], back, end[part]))
        metres[metres == TOO_FAR] = -1
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
        graphs: tuple[Any, Any],
        longer: Array,
        symmetric: bool,
    ) -> _Label:
        """Return the label of a graph whose edges `longer`, as they were, are longer or gone.

        Args:
            cells: the cells that have such edges: number, nodes and which of them separate it
            graphs: the graph as it was, and as it is
            longer: the edges: from, to, metres
            symmetric: whether all edges lead both ways
        """
        changed = copy(self)
        changed._nearest, changed._excess = self._nearest.copy(), self._excess.copy()
        for _, nodes, separating in cells:
            inside = longer[np.isin(longer[:, 0], nodes)]
            edges = np.column_stack([np.searchsorted(nodes, inside[:, :2]), inside[:, 2]])
            old, new = (graph[nodes][:, nodes] for graph in graphs)
            rows = self._rows_again(nodes, separating, old, new, edges)
            if not rows:
                continue
            columns = np.unique(np.concatenate([each for _, each, _ in rows]))
            metres = self._metres_of(nodes[columns], len(separating))
            for row, concerned, values in rows:
                metres[row, np.searchsorted(columns, concerned)] = values
            span = metres[np.isfinite(metres)].max(initial=0) * (1 if symmetric else 2)
            if span >= _no_way(changed.dtype):
                changed.widen()
            changed._put_metres(nodes[columns], metres)
        return changed

    def _rows_again(
        self, nodes: Array, separating: Array, old: Any, new: Any, edges: Array
    ) -> list[tuple[int, Array, Array]]:
        """Return what is searched anew in a cell where edges are longer.

        Args:
            nodes: of the cell
            separating: which of them separate it
            old: the graph of the cell as it was
            new: the graph of the cell as it is
            edges: those that are longer or gone: from, to, metres as they were

        Returns:
            the numbers of separating nodes, each with the nodes that the edges may concern, and
            the metres from it to these
        """
        a, b, length = edges.T
        to_a, to_b = (self._metres_of(nodes[each], len(separating)) for each in (a, b))
        # An edge was on a shortest route from a node if it led on from one end to the other.
        was_on_route = (to_a + length == to_b) & np.isfinite(to_b)
        searched_rows, far_rows = [], []
        onward, back = None, None
        for row in np.flatnonzero(was_on_route.any(axis=1)).tolist():
            if len(edges) > _MAX_EDGES:
                far_rows.append(row)
                continue
            if onward is None:
                onward, back = dijkstra(old, indices=b), new.T.tocsr()
            metres, some = self._metres_of(nodes, row + 1, row)[0], was_on_route[row]
            ways = (to_a[row, some] + length[some])[:, None] + onward[some]
            is_concerned = ((ways == metres) & np.isfinite(metres)).any(axis=0)
            if is_concerned.mean() > _MANY:
                far_rows.append(row)
            else:
                values = _search_again(new, back, metres, is_concerned)
                searched_rows.append((row, np.flatnonzero(is_concerned), values))
        if far_rows:
            all_values, everyone = (
                dijkstra(new, indices=separating[far_rows]),
                np.arange(len(nodes)),
            )
            searched_rows += [
                (row, everyone, each) for row, each in zip(far_rows, all_values, strict=True)
            ]
        return searched_rows

    def _metres_of(self, nodes: Array, until: int, first: int = 0) -> Array:
        """Return the metres of nodes of a cell from its separating nodes `first` … `until` − 1."""
        excess = self._excess[nodes, first:until].T
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
        self._excess = np.where(is_no_way, np.uint32(TOO_FAR), self._excess)

    def to(self, start: Array, other: _Label, end: Array) -> Array:
        """Return the least metres over a separating node of the cells that nodes share."""
        limit = _no_way(self.dtype)
        sums = np.add(self._excess[start], other._excess[end], dtype=np.uint32)
        least = sums.min(axis=1, initial=limit).astype(np.int64)
        return np.where(least < limit, least + self._nearest[start] + other._nearest[end], TOO_FAR)


def _search_again(graph: Any, back: Any, metres: Array, is_concerned: Array) -> Array:
    """Return the metres to some nodes from a node, of whose metres to all others nothing changed.

    Args:
        graph: the graph
        back: the graph with all edges the other way
        metres: from the node to each
        is_concerned: the nodes that are searched for; booleans
    """
    nodes = np.flatnonzero(is_concerned)
    incoming, inner = back[nodes], graph[nodes][:, nodes]
    steps = metres[incoming.indices] + incoming.data
    steps[is_concerned[incoming.indices]] = np.inf
    first, has_any = np.full(len(nodes), np.inf), np.diff(incoming.indptr) > 0
    first[has_any] = np.minimum.reduceat(steps, incoming.indptr[:-1][has_any])
    entered = np.flatnonzero(np.isfinite(first))
    count = len(nodes)  # the number of the node from which all are entered
    parts = (
        np.concatenate([inner.data, first[entered]]),
        np.concatenate([inner.indices, entered]),
        np.concatenate([inner.indptr, [len(inner.data) + len(entered)]]),
    )
    matrix = import_package("scipy.sparse").csr_array(parts, shape=(count + 1, count + 1))
    metres_again: Array = dijkstra(matrix, indices=count)[:count]
    return metres_again


def _no_way(dtype: Any) -> int:
    """Return what stands for no way."""
    return min(int(np.iinfo(dtype).max), TOO_FAR)


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
