"""A queue: customers come at any moment, and wait where all servers are busy (M/M/c).

Erlang 1917, "Solution of some problems in the theory of probabilities of significance in automatic
telephone exchanges": times between arrivals, and of service, follow exponential laws; whoever came
first is served first. Events have times of their own, so the length of a step changes nothing.

    python examples/models/waiting.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from moothall import Society
from moothall.society import Draws, EventService, math


class Counter(EventService):
    """Servers with one queue.

    Args:
        seed: the seed of all draws
        arrive: how many customers come in an hour, on average
        serve: how many a server serves in an hour, on average
        servers: how many there are
    """

    keeps = ("came", "began", "busy", "seconds_waited", "queue")

    def __init__(self, seed: int, *, arrive: float, serve: float, servers: int) -> None:
        super().__init__("counter")
        self.seed, self.servers = seed, servers
        self.arrive_s, self.serve_s = 3600 / arrive, 3600 / serve
        self.came = self.began = self.busy = 0
        self.seconds_waited = 0.0
        self.queue: list[float] = []  # the times at which those who wait have come
        self.after(self.drawn("arrives", 0, self.arrive_s), "come")

    def drawn(self, purpose: str, number: int, mean: float) -> float:
        """Draw a time of an exponential law, for a customer by number."""
        uniform = Draws(self.seed, "counter", number).uniform(f"waiting.{purpose}")
        return -mean * float(math.log(1 - uniform))

    def come(self, books: Any) -> None:
        """A customer comes, and is served or waits."""
        self.came += 1
        self.after(self.drawn("arrives", self.came, self.arrive_s), "come")
        self.queue.append(self.now)
        if self.busy < self.servers:
            self.busy += 1
            self.begin()

    def begin(self) -> None:
        """Serve who has waited longest."""
        self.seconds_waited += self.now - self.queue.pop(0)
        self.began += 1
        self.after(self.drawn("is served", self.began, self.serve_s), "leave")

    def leave(self, books: Any) -> None:
        """A customer leaves; its server serves the next."""
        if self.queue:
            self.begin()
        else:
            self.busy -= 1

    @property
    def mean_wait_s(self) -> float:
        """The mean time that customers waited before they were served, in seconds."""
        return self.seconds_waited / max(1, self.began)


async def main() -> None:
    """Print how long customers wait for one to four servers."""
    for servers in (1, 2, 3, 4):
        counter = Counter(1, arrive=10, serve=12, servers=servers)
        async with Society(services=[counter]) as society:
            await society.run(days=30, step="1h")
        print(f"{servers} servers, {counter.came} customers: {counter.mean_wait_s:.0f} s")


if __name__ == "__main__":
    asyncio.run(main())
