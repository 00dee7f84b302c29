"""A cluster of three nodes under load, of which one is killed, or two: all messages are counted.

docs/reliability.md has the counts of every seed:

    MOOTHALL_SEEDS=10 .venv/bin/python -m pytest -m "" -v tests/faults/test_cluster.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from uuid import uuid4

import pytest
from benchmarks.broker import Broker
from benchmarks.cluster import Cluster
from benchmarks.kept import listens

from faults.trial import Counts, Trial
from faults.worker import ID
from moothall import Agent, AMQPOptions, AMQPSpace, BrokerError

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("cluster")]

BACK_S = 15.0
"""How long it may take until messages have outcomes again after a node's death."""

MANY = int(os.environ.get("MOOTHALL_SEEDS", "5"))


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three nodes, which these tests kill."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(three: Cluster) -> Cluster:
    """Three nodes that run, whatever the test before has left."""
    three.each(Broker.start, [node for node in three.nodes if not listens(node.port)])
    return three


@pytest.fixture
def count(
    cluster: Cluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Callable[[str, Callable[[Trial], list[float]], int], Counts]:
    """Run a load that a fault breaks; see that every message had one outcome."""

    def run(name: str, fault: Callable[[Trial], list[float]], seed: int) -> Counts:
        back: list[float] = []
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        made = Trial(cluster.nodes[0], tmp_path, seed, hostname=hosts, quorum=True)
        with closing(made):
            counts = made.run(lambda trial: back.extend(fault(trial)))
        record_property("counts", (name, asdict(counts)))
        record_property("back", (name, dict(enumerate(back))))
        assert (counts.lost, counts.unanswered, counts.answered_again) == (0, 0, 0)
        assert (counts.wrong, counts.left, counts.in_doubt, counts.again) == (0, 0, 0, 0)
        assert counts.handled == counts.messages
        assert max(back) < BACK_S
        return counts

    return run


def kill_each(trial: Trial, cluster: Cluster) -> list[float]:
    """Kill each node and start it again, one after the other; gives when the service was back."""
    back = []
    for node in cluster.nodes:
        node.kill()
        trial.hits()
        back.append(trial.load.goes_on())
        newcomer(trial)
        node.start()
        trial.load.goes_on()
    return back


def kill_two(trial: Trial, cluster: Cluster, pair: tuple[Broker, ...]) -> list[float]:
    """Kill two nodes and start them again, one after the other."""
    first, second = pair
    cluster.each(Broker.kill, [*pair])
    trial.hits()
    first.start()
    back = [trial.load.goes_on()]
    newcomer(trial)
    second.start()
    trial.load.goes_on()
    return back


def newcomer(trial: Trial) -> None:
    """A process that comes while a node is down has all that it needs, and finds the worker."""
    space = AMQPSpace(amqp_options=trial.options, exchange=trial.names.exchange, quorum=True)
    with space:
        asked = space.add(Agent("newcomer")).ask(ID, "help")
        assert "work" in asked.result(timeout=BACK_S)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(MANY))
def test_cluster_goes_on_without_loss_when_a_node_is_killed(
    count: Callable[..., Counts], cluster: Cluster, seed: int
) -> None:
    count("each node of three killed in turn", lambda trial: kill_each(trial, cluster), seed)


@pytest.mark.long
@pytest.mark.parametrize("pair", (*combinations(range(3), 2), (1, 0), (2, 0), (2, 1)))
def test_cluster_goes_on_without_loss_when_one_of_two_killed_nodes_is_back(
    count: Callable[..., Counts], cluster: Cluster, pair: tuple[int, int]
) -> None:
    nodes = tuple(cluster.nodes[number] for number in pair)
    seed = pair[0] * 3 + pair[1]
    count("two nodes of three killed at once", lambda trial: kill_two(trial, cluster, nodes), seed)


@pytest.mark.long
def test_cluster_without_replication_loses_the_queues_of_a_lost_node_alone(
    cluster: Cluster,
) -> None:
    home, other = cluster.nodes[:2]
    exchange = f"faults.{uuid4().hex}"

    def space(node: Broker) -> AMQPSpace:
        options = AMQPOptions("127.0.0.1", node.port)
        return AMQPSpace(amqp_options=options, exchange=exchange, grace=0)

    with space(home) as first:
        first.add(Agent("at home"))
    home.kill()
    with space(other) as second:
        with pytest.raises(BrokerError) as caught:
            second.add(Agent("at home"))
        for part in ("'at home'", "home node", "start that node", "quorum=True (--quorum)"):
            assert part in str(caught.value)
        assert "something else" not in str(caught.value)
        assert second.add(Agent("here")).ask("here", "help").result(timeout=BACK_S) == {}
        home.start()
        assert second.add(Agent("at home")).ask("here", "help").result(timeout=BACK_S) == {}
