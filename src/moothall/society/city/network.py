"""A graph as a place: people or sites as nodes, edges as steps."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer, check_text, excerpt
from moothall.society.arrays import Array, ArrayLike, import_package, np
from moothall.society.city.labels import dijkstra
from moothall.society.city.places import SteppedPlaces
from moothall.society.kernel.draw import Draws, draw_below, uniforms
from moothall.society.kernel.wants import id_order

_MAX_LAID_OUT: Final = 1_000  # of more nodes, forces would take seconds
_MAX_SEARCHES: Final = 1024  # the starts whose searches are cached


class Network(SteppedPlaces):
    """An undirected graph without loops or parallel edges. It never changes.

    Args:
        nodes: ids of the nodes; a mapping has the kind of each
        edges: pairs of ids; repeated edges count once
        edge_seconds: the travel time of an edge

    Raises:
        ConfigError: a node occurs twice, an edge leads to a node that does not exist or from a
            node to itself, or an argument is wrong.
    """

    _unknown = "the network has no node"
    _kind_names = ("node",)
    _has_names = False  # whether its nodes are not 0 … n−1
    links: tuple[Array, Array]
    _steps_by_start: dict[int, Array]

    def __init__(
        self,
        nodes: Iterable[str] | dict[str, str],
        edges: Iterable[tuple[str, str]] = (),
        *,
        edge_seconds: int = 60,
    ) -> None:
        kinds = {}
        for name, values in (("nodes", nodes), ("edges", edges)):
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise ConfigError(f"{name} must be a list, got {excerpt(values)}")
        self._has_names = True
        for node in nodes:
            check_text("nodes: an id", node)
            if node in kinds:
                raise ConfigError(f"nodes: {excerpt(node)} appears twice")
            kinds[node] = nodes[node] if isinstance(nodes, dict) else "node"
            check_text(f"node {excerpt(node)}: kind", kinds[node])
        self._ids = tuple(sorted(kinds))
        names, self._kind_numbers = np.unique(
            [kinds[node] for node in self._ids], return_inverse=True
        )
        self._kind_names = tuple(names.tolist())
        number_of = {node: at for at, node in enumerate(sorted(kinds, key=id_order))}
        pairs: list[list[int]] = []
        for at, edge in enumerate(edges):
            if not isinstance(edge, (tuple, list)) or len(edge) != 2:
                raise ConfigError(f"edges[{at}] must be a pair of ids, got {excerpt(edge)}")
            for end in edge:
                if not isinstance(end, str):
                    raise ConfigError(f"edges[{at}]: an id must be a text, got {excerpt(end)}")
                if end not in number_of:
                    raise ConfigError(f"edges[{at}]: {excerpt(end)} is not a node: add it to nodes")
            if edge[0] == edge[1]:
                raise ConfigError(f"edges[{at}] leads from {excerpt(edge[0])} to itself")
            pairs.append([number_of[end] for end in edge])
        ends = np.array(pairs, "int64").reshape(-1, 2)
        self._link(len(kinds), ends[:, 0], ends[:, 1], edge_seconds)

    def _link(self, n: int, a: Array, b: Array, edge_seconds: int) -> None:
        """Store the edges between numbered nodes, each once."""
        check_integer("edge_seconds", edge_seconds, 1, 86_400)
        a, b = (each.astype(np.int64, copy=False) for each in (a, b))
        directed = np.sort(np.concatenate([a * n + b, b * n + a]))
        directed = (
            directed[np.r_[True, directed[1:] != directed[:-1]]] if len(directed) else directed
        )
        starts = np.zeros(n + 1, np.int64)
        if n:
            np.cumsum(np.bincount(directed // n, minlength=n), out=starts[1:])
        self.links = starts, directed % max(n, 1)
        for each in self.links:
            each.flags.writeable = False
        """Compressed rows: where each node's neighbours begin, and the neighbours' numbers.

        A node's number is that of `row_of`. Both are int64 arrays; the first has one more entry
        than there are nodes.
        """
        self._step_seconds = edge_seconds
        self._steps_by_start = {}

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[str, str]], *, edge_seconds: int = 60) -> Network:
        """Return the network of an edge list: its nodes are the ends of the edges."""
        pairs = list(edges)
        ends = [end for pair in pairs if isinstance(pair, (tuple, list)) for end in pair]
        nodes = {end for end in ends if isinstance(end, str)}
        return cls(nodes, pairs, edge_seconds=edge_seconds)

    @classmethod
    def small_world(
        cls, n: int, *, neighbours: int = 4, rewired: float = 0.1, seed: int
    ) -> Network:
        """Return a ring with rewired edges, of nodes `0` … `n−1`.

        After Watts and Strogatz 1998 ("Collective dynamics of 'small-world' networks", Nature 393):
        each node has edges to the `neighbours` nearest on a ring, half on either side; round by
        round, an edge is rewired to another node with probability `rewired`, never to a node that
        it has an edge to.

        Args:
            n: the number of nodes
            neighbours: an even number, less than n
            rewired: the probability, 0 … 1
            seed: the seed of the draws
        """
        check_integer("n", n, 3, 10_000_000)
        check_integer("neighbours", neighbours, 2, n - 1)
        if neighbours % 2:
            raise ConfigError(f"neighbours must be even, got {neighbours}")
        if not isinstance(rewired, (int, float)) or not 0 <= rewired <= 1:
            raise ConfigError(f"rewired must be a probability, 0 to 1, got {excerpt(rewired)}")
        nodes = np.arange(n, dtype=np.uint64)
        linked: dict[int, set[int]] = {}
        """The neighbours of nodes that no longer have only their edges of the ring."""

        def neighbours_of(node: int) -> set[int]:
            if node not in linked:
                steps = range(1, neighbours // 2 + 1)
                linked[node] = {(node + d) % n for d in steps} | {(node - d) % n for d in steps}
            return linked[node]

        ends = []
        for distance in range(1, neighbours // 2 + 1):
            targets = (nodes.astype(np.int64) + distance) % n
            is_rewired = uniforms(seed, nodes, distance, "network.rewire") < rewired
            for node in np.flatnonzero(is_rewired).tolist():
                if len(neighbours_of(node)) == n - 1:
                    continue
                other = (node + distance) % n
                neighbours_of(node).discard(other)
                neighbours_of(other).discard(node)
                draws = Draws(seed, node, distance)
                excluded, draw = neighbours_of(node) | {node, other}, 0
                while other in excluded:
                    other = draws.below(n, "network.target", draw)
                    draw += 1
                neighbours_of(node).add(other)
                neighbours_of(other).add(node)
                targets[node] = other
            ends.append(targets)
        pairs = (np.tile(np.arange(n), len(ends)), np.concatenate(ends))
        return cls.from_numbers(n, *pairs)

    @classmethod
    def scale_free(cls, n: int, *, edges: int = 2, seed: int) -> Network:
        """Return a network grown by preferential attachment, of nodes `0` … `n−1`.

        After Barabási and Albert 1999 ("Emergence of scaling in random networks", Science 286):
        each new node has `edges` edges to earlier ones, with a probability in proportion to their
        degrees. The first `edges` + 1 nodes all have edges to each other.
        """
        check_integer("edges", edges, 1, 1000)
        check_integer("n", n, edges + 1, 10_000_000)
        links = [(a, b) for b in range(edges + 1) for a in range(b)]
        # A node occurs once for each of its edges.
        ends = [end for edge in links for end in edge]
        for node in range(edges + 1, n):
            draws = Draws(seed, node, 0)
            chosen: list[int] = []
            draw = 0
            while len(chosen) < edges:
                other = ends[draws.below(len(ends), "network.attach", draw)]
                draw += 1
                if other not in chosen:
                    chosen.append(other)
            links += [(node, other) for other in chosen]
            ends += [end for other in chosen for end in (node, other)]
        pairs = np.array(links, np.int64)
        return cls.from_numbers(n, pairs[:, 0], pairs[:, 1])

    @classmethod
    def random(cls, n: int, *, degree: float = 8, seed: int) -> Network:
        """Return a network of n · degree ÷ 2 drawn edges, of nodes `0` … `n−1`.

        After Erdős and Rényi 1959 ("On random graphs I", Publicationes Mathematicae 6); loops and
        edges drawn twice are left out, so degrees follow a Poisson law of a mean below `degree` by
        some degree²/n.
        """
        check_integer("n", n, 2, 10_000_000)
        _check_degree(degree, n)
        edges = np.arange(int(n * degree / 2), dtype=np.uint64)
        a, b = (draw_below(n, seed, edges, 0, f"network.{end}") for end in ("from", "to"))
        return cls.from_numbers(n, a[a != b], b[a != b])

    @classmethod
    def spatial(cls, n: int, *, degree: float = 8, seed: int) -> Network:
        """Return a network of points drawn in a square, of nodes `0` … `n−1`.

        After Dall and Christensen 2002 ("Random geometric graphs", Physical Review E 66): two nodes
        have an edge if their distance is below a radius, here the radius that gives a node far from
        the border `degree` neighbours on average. Nodes with close numbers lie close together.

        Args:
            n: the number of nodes
            degree: edges of a node far from the border, on average
            seed: the seed of the draws
        """
        check_integer("n", n, 1, 10_000_000)
        _check_degree(degree, n)
        nodes = np.arange(n, dtype=np.uint64)
        x, y = (uniforms(seed, nodes, 0, f"network.{axis}") for axis in "xy")
        side = max(1, int((n / 64) ** 0.5))  # cells of about 64 points, row by row
        order = np.lexsort((x, (x * side).astype(np.int64), (y * side).astype(np.int64)))
        radius = (degree / (n * 3.141592653589793)) ** 0.5
        tree = import_package("scipy.spatial").cKDTree(np.column_stack([x, y])[order])
        pairs = tree.query_pairs(radius, output_type="ndarray")
        return cls.from_numbers(n, pairs[:, 0], pairs[:, 1])

    @classmethod
    def from_numbers(cls, n: int, a: ArrayLike, b: ArrayLike, *, edge_seconds: int = 60) -> Network:
        """Return the network of nodes `0` … `n−1` with an edge from each of `a` to each of `b`.

        Args:
            n: the number of nodes
            a: whole numbers 0 … n−1, an array or a list
            b: the other ends, as many as `a`
            edge_seconds: the travel time of an edge

        Raises:
            ConfigError: a number is not 0 … n−1, or an edge leads from a node to itself
        """
        check_integer("n", n, 1, 2**31 - 1)
        a, b = np.asarray(a), np.asarray(b)
        for name, ends in (("a", a), ("b", b)):
            if (ends.dtype.kind not in "iu" and ends.size) or ends.ndim != 1 or a.shape != b.shape:
                raise ConfigError(f"{name} must be whole numbers, as many in a as in b")
            if ends.size and not (ends.min() >= 0 and ends.max() < n):
                raise ConfigError(f"{name} must be numbers of nodes, 0 to {n - 1}")
        if (a == b).any():
            raise ConfigError(f"an edge leads from node {int(a[a == b][0])} to itself")
        network = cls.__new__(cls)
        network._link(n, a, b, edge_seconds)
        return network

    @functools.cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, range(len(self)))))

    @functools.cached_property
    def _matrix(self) -> Any:
        """The edges between places by their number in `ids`, where `links` has them by number."""
        order = np.argsort(self._row_numbers)
        starts, neighbours = self.links
        ends = order[np.repeat(np.arange(len(self)), np.diff(starts))], order[neighbours]
        weights = np.ones(len(neighbours), np.int8)
        return import_package("scipy.sparse").csr_array(
            (weights, ends), shape=(len(self), len(self))
        )

    def nodes_json(self) -> dict[str, Any]:
        """Return all but the edges, as JSON data."""
        names = self._ids if self._has_names else ()
        kinds = {each: self.kind(each) for each in names}
        return {"kinds": kinds, "seconds": self._step_seconds}

    @classmethod
    def of_json(cls, nodes: dict[str, Any], starts: Array, neighbours: Array) -> Network:
        """Return the network that `nodes_json` and `links` describe."""
        network = cls(nodes["kinds"], edge_seconds=nodes["seconds"])
        if not nodes["kinds"]:
            network = cls.__new__(cls)
        source = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        network._link(len(starts) - 1, source, neighbours, nodes["seconds"])
        return network

    @functools.lru_cache(maxsize=4)  # noqa: B019 - it keeps four networks at most
    def drawn(self) -> Array:
        """Return where the nodes are drawn, by their number in `links`: (n, 2).

        Linked nodes attract, all repel each other (Fruchterman, Reingold 1991, "Graph drawing by
        force-directed placement"), from a circle on; of more than 1,000 nodes, the circle.
        """
        count = len(self)
        angle = 2 * np.pi * np.arange(count) / max(1, count)
        at = np.column_stack([np.cos(angle), np.sin(angle)])
        if count > _MAX_LAID_OUT:
            return at
        starts, targets = self.links
        source = np.repeat(np.arange(count), np.diff(starts))
        unit = 2 / np.sqrt(max(1, count))  # the distance of linked nodes
        for step in np.linspace(0.2, 0.005, 60):
            offset = at[:, None] - at[None]
            far = np.maximum(np.sqrt((offset**2).sum(axis=2)), 1e-3)
            force = (offset * (unit / far)[:, :, None] ** 2).sum(axis=1)
            pull = (at[source] - at[targets]) * far[source, targets][:, None] / unit
            for axis in (0, 1):
                force[:, axis] -= np.bincount(source, pull[:, axis], count)
            length = np.maximum(np.sqrt((force**2).sum(axis=1)), 1e-9)[:, None]
            at = at + force / length * np.minimum(length, step)
        return at

    def __len__(self) -> int:
        return len(self.links[0]) - 1

    def __repr__(self) -> str:
        return f"<Network of {len(self)} nodes, {len(self.links[1]) // 2} edges>"

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Every edge once, the smaller id first, in order."""
        return tuple((a, b) for a in self._ids for b in self.neighbours(a) if a < b)

    def row_of(self, node: str) -> int:
        """Return a node's number in `links`: the row of its citizen in `Population(network=)`.

        Nodes are numbered in the order of ids, `2` before `10`; `ids()` has texts in their order.

        Raises:
            ConfigError: the network has no such node
        """
        return int(self._row_numbers[self._number_of(node)])

    @functools.cached_property
    def _row_numbers(self) -> Array:
        """The number in `links` of each node, by its index in `ids`."""
        order = sorted(range(len(self)), key=lambda each: id_order(self._ids[each]))
        numbers = np.empty(len(self), np.int64)
        numbers[order] = np.arange(len(self))
        return numbers

    def neighbours(self, place: str) -> tuple[str, ...]:
        """Return the nodes that a node has edges to, in order of id."""
        starts, number = self._matrix.indptr, self._number_of(place)
        numbers = self._matrix.indices[starts[number] : starts[number + 1]].tolist()
        return tuple(self._ids[each] for each in sorted(numbers))

    def _steps(self, start: Any, to: Any) -> Any:
        steps = self._steps_by_start.get(start)
        if steps is None:
            distances = dijkstra(self._matrix, indices=start, unweighted=True)
            steps = np.where(np.isinf(distances), -1, distances).astype(np.int32)
            if len(self._steps_by_start) >= _MAX_SEARCHES:
                self._steps_by_start.clear()
            self._steps_by_start[start] = steps
        return steps[to]


def _check_degree(degree: float, n: int) -> None:
    if not isinstance(degree, (int, float)) or not 0 < degree < n:
        raise ConfigError(f"degree must be above 0 and below {n}, got {excerpt(degree)}")
