"""Networks: given, from edge lists, small worlds and scale-free ones."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from moothall.foundation.errors import ConfigError
from moothall.society import Network, read_network

GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed">'


def test_ways_take_the_fewest_edges() -> None:
    network = Network.from_edges([("a", "b"), ("b", "c"), ["c", "d"], ("a", "b")], edge_seconds=90)
    assert network.edges == (("a", "b"), ("b", "c"), ("c", "d"))
    assert network.seconds("a", "d") == 270
    assert Network.from_edges([("a", "b")]).seconds("a", "b") == 60
    assert Network(["a", "b"], [("a", "b")]).seconds("b", "a") == 60
    assert network.neighbours("b") == ("a", "c")
    star = Network.from_edges([("m", "z"), ("m", "k"), ("z", "a"), ("k", "b")])
    assert [near.id for near in star.near("m")] == ["k", "z", "a", "b"]  # of equal ones by id


def test_network_of_numbers_has_each_edge_once_and_numbers_in_their_order() -> None:
    network = Network.from_numbers(12, [0, 10, 0, 2], [10, 0, 11, 10], edge_seconds=30)
    assert network.neighbours("10") == ("0", "2")
    assert network.edges == (("0", "10"), ("0", "11"), ("10", "2"))
    starts, others = network.links
    for each in network.links:  # which all societies of the network share
        with pytest.raises(ValueError, match="read-only"):
            each.sort()
    assert (starts.tolist(), others.tolist()) == (
        [0, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 5, 6],
        [10, 11, 10, 0, 2, 0],
    )
    ends = np.array([[0, 10]], np.uint64)  # as ids of citizens are
    assert Network.from_numbers(12, ends[:, 0], ends[:, 1]).edges == (("0", "10"),)
    assert Network.from_numbers(2, [], []).edges == ()
    named = Network(["10", "9", "b"], [("9", "b")])  # as citizens are in order: by number
    assert [each.tolist() for each in named.links] == [[0, 1, 1, 2], [2, 0]]
    assert [tuple(each) for each in network.near("11", limit=2)] == [("0", 30), ("10", 60)]
    assert network.seconds("0", "5") is None
    assert repr(network) == "<Network of 12 nodes, 3 edges>"
    assert repr(Network([])) == "<Network of 0 nodes, 0 edges>"
    kinds = Network({"b": "club", "a": "bar", "c": "club"})
    assert (kinds.kinds(), kinds.by_kind("club"), kinds.kind("a")) == (
        ("bar", "club"),
        ("b", "c"),
        "bar",
    )


@pytest.mark.parametrize("make", (Network.random, Network.spatial))
def test_network_at_random_or_in_space_has_its_degree(make: Any) -> None:
    n = 2000
    network = make(n, degree=6, seed=4)
    degrees = [len(network.neighbours(node)) for node in network.ids()]
    # Loops and repeated edges are left out; near the border there are fewer neighbours.
    assert 5.4 < sum(degrees) / n < 6.1
    assert 2 < sum(each**2 for each in degrees) / n - (sum(degrees) / n) ** 2 < 8
    assert network.edges == make(n, degree=6, seed=4).edges
    assert network.edges != make(n, degree=6, seed=5).edges


def test_network_of_a_ring_without_rewiring_is_regular() -> None:
    ring = Network.small_world(12, neighbours=4, rewired=0, seed=1)
    assert ring.neighbours("0") == ("1", "10", "11", "2")
    assert len(ring.edges) == 24


@pytest.mark.parametrize("rewired", (0.1, 1))
def test_rewiring_moves_its_share_of_the_edges(rewired: float) -> None:
    n = 1000
    ring = {frozenset(e) for e in Network.small_world(n, rewired=0, seed=5).edges}
    world = Network.small_world(n, rewired=rewired, seed=5)
    assert len(world.edges) == 2 * n
    moved = len({frozenset(edge) for edge in world.edges} - ring)
    spread = 5 * math.sqrt(2 * n * rewired * (1 - rewired)) + 2 * n * 0.01
    assert abs(moved - 2 * n * rewired) < spread
    assert world.edges == Network.small_world(n, rewired=rewired, seed=5).edges
    assert world.edges != Network.small_world(n, rewired=rewired, seed=6).edges


def test_small_networks_that_are_nearly_full_can_be_rewired() -> None:
    for n in range(3, 8):
        for neighbours in range(2, n, 2):
            world = Network.small_world(n, neighbours=neighbours, rewired=1, seed=n)
            assert len(world.edges) == min(n * neighbours // 2, n * (n - 1) // 2)


def test_preferential_attachment_has_hubs() -> None:
    """The share of nodes of degree k or more is that of Barabási and Albert.

    With m edges for each new node it is m(m+1) / (k(k+1)) in the limit (Bollobás and others 2001).
    """
    n, m = 4000, 2
    network = Network.scale_free(n, edges=m, seed=9)
    degrees = [len(network.neighbours(node)) for node in network.ids()]
    assert sum(degrees) == 2 * len(network.edges) == 2 * (3 + (n - 3) * m)
    assert min(degrees) == m
    for k in (3, 5, 10):
        share = m * (m + 1) / (k * (k + 1))
        found = sum(degree >= k for degree in degrees) / n
        assert abs(found - share) < 5 * math.sqrt(share * (1 - share) / n) + 0.005
    assert network.edges == Network.scale_free(n, edges=m, seed=9).edges


@pytest.mark.parametrize(
    ("make", "text"),
    (
        (lambda: Network(["a", "a"]), 'nodes: "a" appears twice'),
        (lambda: Network([1]), "nodes: an id must be 1–255 printable characters, got 1"),
        (lambda: Network(["\ud800"]), "nodes: an id must be 1–255 printable"),
        (lambda: Network({"a": ""}), 'node "a": kind must be 1–255 printable'),
        (lambda: Network(["a"], [("a", "b")]), 'edges[0]: "b" is not a node'),
        (lambda: Network(["a"], [("a", "a")]), 'edges[0] leads from "a" to itself'),
        (lambda: Network(["a"], ["ab"]), "edges[0] must be a pair of ids"),
        (lambda: Network.from_edges([("a", 1)]), "edges[0]: an id must be a text, got 1"),
        (lambda: Network.from_edges([("a", ["b"])]), "edges[0]: an id must be a text, got array"),
        (lambda: Network.from_edges([5]), "edges[0] must be a pair"),
        (lambda: Network.random(9, degree=9, seed=1), "degree must be above 0 and below 9, got 9"),
        (lambda: Network.spatial(9, degree=0, seed=1), "degree must be above 0 and below 9, got 0"),
        (lambda: Network.random(1, seed=1), "n must be a whole number from 2"),
        (lambda: Network.spatial(0, seed=1), "n must be a whole number from 1"),
        (lambda: Network.from_numbers(0, [], []), "n must be a whole number from 1"),
        (
            lambda: Network.from_numbers(3, [0.5], [1]),
            "a must be whole numbers, as many in a as in b",
        ),
        (lambda: Network.from_numbers(3, [0, 1], [1]), "a must be whole numbers, as many"),
        (lambda: Network.from_numbers(3, [[0]], [[1]]), "a must be whole numbers, as many"),
        (lambda: Network.from_numbers(3, [0], [3]), "b must be numbers of nodes, 0 to 2"),
        (lambda: Network.from_numbers(3, [-1], [2]), "a must be numbers of nodes, 0 to 2"),
        (lambda: Network.from_numbers(3, [0, 1], [2, 1]), "an edge leads from node 1 to itself"),
        (lambda: Network.small_world(2, seed=1), "n must be a whole number from 3"),
        (lambda: Network.small_world(9, neighbours=3, seed=1), "neighbours must be even, got 3"),
        (
            lambda: Network.small_world(8, neighbours=8, seed=1),
            "neighbours must be a whole number",
        ),
        (lambda: Network.small_world(9, rewired=math.nan, seed=1), "rewired must be a probability"),
        (lambda: Network.small_world(9, rewired="1", seed=1), "rewired must be a probability"),
        (lambda: Network.small_world(9, seed=-1), "seed must be a whole number"),
        (lambda: Network.scale_free(2, edges=2, seed=1), "n must be a whole number from 3"),
        (lambda: Network.scale_free(9, edges=0, seed=1), "edges must be a whole number from 1"),
    ),
)
def test_wrong_networks_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "edges"),
    (
        ("0,1\n1,2\n2,10\n", 3),
        ("7,8\n", 1),
        ("1,1\n1,2\n2,3\n", 2),  # the first is an edge to itself
        ("ann,bo\nbo,cy\n", 2),
        ("source,target\nann,bo\n", 1),
        ("person,friend\nann,bo\nbo,cy\n", 2),
    ),
)
def test_network_edge_list_with_or_without_names_of_columns_loses_no_edge(
    tmp_path: Path, text: str, edges: int
) -> None:
    (tmp_path / "e.csv").write_text(text)
    assert len(read_network(tmp_path / "e.csv").edges) == edges


def test_network_edge_list_has_its_ends_in_columns_of_any_spelling(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("Id,Source,Target\n1,a,b\n2,b,c\n")
    assert read_network(tmp_path / "e.csv").edges == (("a", "b"), ("b", "c"))
    pq.write_table(pa.table({"to": ["a"], "id": ["1"], "FROM": ["b"]}), tmp_path / "e.PARQUET")
    assert read_network(tmp_path / "e.PARQUET").edges == (("a", "b"),)


def test_network_row_of_a_node_is_its_number_in_links_whatever_the_order_of_ids() -> None:
    network = Network.from_edges([("1", "2"), ("1", "3"), ("1", "10"), ("10", "b")])
    degree = {"1": 3, "2": 1, "3": 1, "10": 2, "b": 1}
    starts = network.links[0].tolist()
    for node, many in degree.items():
        row = network.row_of(node)
        assert starts[row + 1] - starts[row] == many
    assert [network.row_of(each) for each in network.ids()] == [0, 3, 1, 2, 4]
    with pytest.raises(ConfigError, match="the network has no node"):
        network.row_of("4")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    (
        ("e.graphml", f"{GRAPHML}<node id='a'/></graph></graphml>", "has no edges"),
        ("e.graphml", "<graphml>", "networkx.read_graphml cannot read"),
        ("e.GEXF", "<gexf/>", "networkx.read_gexf cannot read"),
        ("e.mtx", "2 2 1\n", "networkx.from_scipy_sparse_array cannot read"),
        ("e.json", "{", "networkx.node_link_graph cannot read"),
        ("e.json", '{"nodes": [], "links": []}', "has no edges"),
        ("e.csv", '<graphml><graph><node id="a"/></graph></graphml>', "is XML"),
        ("e.csv", "0,0,0\n0,0,0\n0,0,0\n", "has no edges"),
        ("e.csv", "1,0,0\n0,1,0\n0,0,1\n", "has no edges"),
        ("e.csv", "7,7\n8,8\n", "has no edges"),
        ("e.csv", "source,target\n", "has no edges"),
        ("e.csv", "", "must have two columns"),
    ),
)
def test_network_file_without_edges_or_that_is_damaged_is_refused_with_what_reads_it(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        read_network(tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)


@pytest.mark.parametrize("suffix", ("graphml", "gexf", "gml", "net", "json", "mtx"))
def test_network_of_networkx_is_read_from_each_format_it_writes(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = networkx.MultiDiGraph([("0", "2"), ("2", "0"), ("2", "10"), ("10", "10")])
    graph.add_nodes_from(["1", *map(str, range(3, 10))])
    file = tmp_path / f"e.{suffix}"
    if suffix == "json":
        file.write_text(json.dumps(networkx.node_link_data(graph)))
    elif suffix == "mtx":
        order = [str(n) for n in range(11)]
        scipy.io.mmwrite(file, networkx.to_scipy_sparse_array(graph, nodelist=order))
    else:
        writer = {"net": "pajek"}.get(suffix, suffix)
        getattr(networkx, f"write_{writer}")(graph, file)
    network = read_network(file, edge_seconds=30)
    assert network.edges == (("0", "2"), ("10", "2"))
    assert (len(network), network.seconds("0", "10")) == (11, 60)
    monkeypatch.setitem(sys.modules, "networkx", None)  # as where it is not installed
    with pytest.raises(ConfigError, match="read by networkx alone: pip install networkx"):
        read_network(file)


def test_network_of_a_matrix_has_its_rows_as_nodes(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("0,1,0\n1,1,1\n0,1,0\n")
    assert read_network(tmp_path / "m.csv").edges == (("0", "1"), ("1", "2"))


def test_network_edge_list_of_snap_is_read_after_its_notes(tmp_path: Path) -> None:
    for text in ("# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n", "0 1\n1  2\n"):
        (tmp_path / "edges.txt").write_text(text)
        assert read_network(tmp_path / "edges.txt").edges == (("0", "1"), ("1", "2"))
