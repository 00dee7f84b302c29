"""A cluster of RabbitMQ nodes of one's own on loopback, each of which can be killed and started.

    with Cluster() as nodes:
        nodes[0].kill()

Linux has the addresses 127.0.0.2 and on by itself; elsewhere they are to be added to the loopback
interface (`ifconfig lo0 alias 127.0.0.2`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from benchmarks.broker import Broker, Member
from benchmarks.ports import free_port


class Cluster:
    """Nodes that find each other as they start; `with` gives them, and leaves nothing behind."""

    def __init__(self, count: int = 3) -> None:
        distribution, cookie = free_port(), secrets.token_hex(16)
        members = [Member(number, distribution, cookie) for number in range(1, count + 1)]
        found = {
            f"cluster_formation.classic_config.nodes.{each.number}": each.name for each in members
        }
        settings = {"cluster_formation.peer_discovery_backend": "classic_config", **found}
        self.nodes = [Broker(settings=settings, member=each) for each in members]

    def each(self, do: Callable[[Broker], object], nodes: list[Broker] | None = None) -> None:
        """Do something with all nodes, or some, at the same time."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(do, self.nodes if nodes is None else nodes))

    def __enter__(self) -> Cluster:
        try:
            self.each(Broker.start)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill every node, and remove all that they wrote."""
        self.each(Broker.close)
