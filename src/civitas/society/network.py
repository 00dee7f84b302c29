"""A graph as a place: people or sites as nodes, edges as steps."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable
from typing import Any

from civitas.errors import ConfigError
from civitas.society.arrays import numpy
from civitas.society.city.map import check_integer, check_text
from civitas.society.draw import Draws
from civitas.society.places import Near
from civitas.society.wants import id_order
from civitas.text import excerpt


class Network:
    """An undirected graph without loops or parallel edges. It never changes.

    Args:
        nodes: ids of the nodes; a mapping gives each its kind
        edges: pairs of ids; one that is there twice counts once
        edge_seconds: how long it takes to pass an edge

    Raises:
        ConfigError: a node is there twice, an edge leads to a node that does not exist or to
            itself, or an argument is wrong.
    """

    def __init__(
        self,
        nodes: Iterable[str] | dict[str, str],
        edges: Iterable[tuple[str, str]] = (),
        *,
        edge_seconds: int = 60,
    ) -> None:
        check_integer("edge_seconds", edge_seconds, 1, 86_400)
        self._edge_seconds = edge_seconds
        kinds = {}
        for node in nodes:
            check_text("nodes: an id", node)
            if node in kinds:
                raise ConfigError(f"nodes: {excerpt(node)} is there twice")
            kinds[node] = nodes[node] if isinstance(nodes, dict) else "node"
            check_text(f"node {excerpt(node)}: kind", kinds[node])
        self._kinds = dict(sorted(kinds.items()))
        next_to: dict[str, set[str]] = {node: set() for node in self._kinds}
        for number, edge in enumerate(edges):
            if not isinstance(edge, (tuple, list)) or len(edge) != 2:
                raise ConfigError(f"edges[{number}] must be a pair of ids, got {excerpt(edge)}")
            for end in edge:
                if not isinstance(end, str) or end not in next_to:
                    raise ConfigError(
                        f"edges[{number}]: {excerpt(end)} is no node: add it to nodes"
                    )
            a, b = edge
            if a == b:
                raise ConfigError(f"edges[{number}] leads from {excerpt(a)} to itself")
            next_to[a].add(b)
            next_to[b].add(a)
        self._next = {node: tuple(sorted(others)) for node, others in next_to.items()}
        self._hops = functools.lru_cache(maxsize=1024)(self._search)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_hops"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._hops = functools.lru_cache(maxsize=1024)(self._search)

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
        """Return a ring whose edges are rewired, of nodes `0` … `n−1`.

        After Watts and Strogatz 1998 ("Collective dynamics of 'small-world' networks", Nature 393):
        each node has edges to the `neighbours` nearest on a ring, half on either side; round by
        round, an edge is led to another node with probability `rewired`, never to one that it has
        an edge to.

        Args:
            n: nodes
            neighbours: an even number, less than n
            rewired: the probability, 0 … 1
            seed: of the draws
        """
        check_integer("n", n, 3, 10_000_000)
        check_integer("neighbours", neighbours, 2, n - 1)
        if neighbours % 2:
            raise ConfigError(f"neighbours must be even, got {neighbours}")
        if not isinstance(rewired, (int, float)) or not 0 <= rewired <= 1:
            raise ConfigError(f"rewired must be a probability, 0 to 1, got {excerpt(rewired)}")
        ahead = range(1, neighbours // 2 + 1)
        has = [{(i + d) % n for d in ahead} | {(i - d) % n for d in ahead} for i in range(n)]
        edges = []
        for distance in ahead:
            for node in range(n):
                other = (node + distance) % n
                draws = Draws(seed, node, distance)
                if draws.uniform("network.rewire") < rewired and len(has[node]) < n - 1:
                    has[node].discard(other)
                    has[other].discard(node)
                    taken, draw = has[node] | {node, other}, 0
                    while other in taken:
                        other = draws.below(n, "network.target", draw)
                        draw += 1
                    has[node].add(other)
                    has[other].add(node)
                edges.append((node, other))
        return cls._numbered(n, edges)

    @classmethod
    def scale_free(cls, n: int, *, edges: int = 2, seed: int) -> Network:
        """Return a network grown by preferential attachment, of nodes `0` … `n−1`.

        After Barabási and Albert 1999 ("Emergence of scaling in random networks", Science 286):
        each new node has `edges` edges to earlier ones, with a probability in proportion to their
        degrees. It begins with `edges` + 1 nodes that all have edges to each other.
        """
        check_integer("edges", edges, 1, 1000)
        check_integer("n", n, edges + 1, 10_000_000)
        found = [(a, b) for b in range(edges + 1) for a in range(b)]
        # A node is in here once for each of its edges.
        ends = [end for edge in found for end in edge]
        for node in range(edges + 1, n):
            draws = Draws(seed, node, 0)
            chosen: list[int] = []
            draw = 0
            while len(chosen) < edges:
                other = ends[draws.below(len(ends), "network.attach", draw)]
                draw += 1
                if other not in chosen:
                    chosen.append(other)
            found += [(node, other) for other in chosen]
            ends += [end for other in chosen for end in (node, other)]
        return cls._numbered(n, found)

    @classmethod
    def _numbered(cls, n: int, edges: list[tuple[int, int]]) -> Network:
        names = [str(number) for number in range(n)]
        return cls(names, [(names[a], names[b]) for a, b in edges])

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, place: object) -> bool:
        return place in self._kinds

    def __repr__(self) -> str:
        return f"<Network of {len(self)} nodes, {len(self.edges)} edges>"

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Every edge once, the smaller id first, in order."""
        return tuple((a, b) for a, others in self._next.items() for b in others if a < b)

    @functools.cached_property
    def links(self) -> tuple[Any, Any]:
        """The network as compressed rows: where each node's neighbours begin, and they, as numbers.

        A node's number is its place in the order of ids, numbers by number. Both are int64 arrays,
        the first of one entry more than there are nodes.
        """
        np = numpy()
        order = sorted(self._next, key=id_order)
        number = {node: at for at, node in enumerate(order)}
        starts = np.zeros(len(order) + 1, np.int64)
        np.cumsum([len(self._next[node]) for node in order], out=starts[1:])
        others = [sorted(number[other] for other in self._next[node]) for node in order]
        return starts, np.array([each for several in others for each in several], np.int64)

    def ids(self) -> tuple[str, ...]:
        """Return every node's id, in order."""
        return tuple(self._kinds)

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of nodes that there are, in order."""
        return tuple(sorted(set(self._kinds.values())))

    def kind(self, place: str) -> str:
        """Return a node's kind; `node` where none was given."""
        return self._kinds[self._known(place)]

    def by_kind(self, kind: str) -> tuple[str, ...]:
        """Return the nodes of a kind in order of id; none where there is no such kind."""
        return tuple(node for node, found in self._kinds.items() if found == kind)

    def neighbours(self, place: str) -> tuple[str, ...]:
        """Return the nodes that a node has edges to, in order of id."""
        return self._next[self._known(place)]

    def seconds(self, a: str, b: str, mode: str | None = None) -> int | None:
        """Return the seconds over the fewest edges from `a` to `b`; None if there is no way."""
        no_mode(mode)
        hops = self._hops(self._known(a)).get(self._known(b))
        return None if hops is None else hops * self._edge_seconds

    def near(
        self, place: str, kind: str | None = None, limit: int = 10, mode: str | None = None
    ) -> tuple[Near, ...]:
        """Return the nearest other nodes that can be reached, with the seconds to each."""
        no_mode(mode)
        check_integer("limit", limit, 1, None)
        found = [
            (hops, node)
            for node, hops in self._hops(self._known(place)).items()
            if node != place and kind in (None, self._kinds[node])
        ]
        return tuple(Near(node, hops * self._edge_seconds) for hops, node in sorted(found)[:limit])

    def _search(self, start: str) -> dict[str, int]:
        """Return the fewest edges to every node that can be reached."""
        hops = {start: 0}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for other in self._next[here]:
                if other not in hops:
                    hops[other] = hops[here] + 1
                    waiting.append(other)
        return hops

    def _known(self, place: str) -> str:
        if not isinstance(place, str) or place not in self._kinds:
            raise ConfigError(f"the network has no node {excerpt(place)}")
        return place


def no_mode(mode: str | None) -> None:
    """Raise ConfigError for a mode of travel, where there is but one way to go."""
    if mode is not None:
        raise ConfigError(f"mode must be None: only a City has modes; got {excerpt(mode)}")
