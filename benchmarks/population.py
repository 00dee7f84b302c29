"""Populations in columns: the classic models and the whole day, beside Mesa and plain numpy.

    python -m benchmarks.population [--quick] [--day] [--largest]

Wealth, segregation, an epidemic and opinions at 10,000 to 10,000,000 citizens (`--quick`: to
100,000). `limit` is the same model as a plain loop of numpy on one thread, `peer` Mesa's
`shuffle_do`, all in the same run; `ratio` is ours over the limit. Rates are of wall time, and
`cpu` of processor time, since other work comes and goes. Then threads beside what bare numpy gains
from as many, Ray's workers, the whole day of a city, and what a citizen takes in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from examples.models.epidemic import epidemic
from examples.models.opinions import opinions
from examples.models.schelling import schelling
from examples.models.wealth import wealth

from benchmarks.measure import emit, installed
from moothall import Society
from moothall.society import (
    City,
    Engine,
    Feed,
    LocalEngine,
    Population,
    RayEngine,
    all_blocks,
    make_economy,
)

MODELS: dict[str, Callable[[int], Population]] = {
    "wealth": lambda n: wealth(1, citizens=n),
    "segregation": lambda n: schelling(1, width=max(3, int((n / 0.9) ** 0.5))),
    "epidemic": lambda n: epidemic(1, citizens=n, infected=n // 100, meets=4),
    "opinions": lambda n: opinions(1, citizens=n),
}

MANY = 1_000_000
"""So many citizens the targets are of; a quick run has fewer."""


async def rate(population: Population, steps: int, engine: Engine) -> tuple[float, float]:
    """Agent-steps a second, of wall and of processor time."""
    async with Society(population, engine=engine) as society:
        await society.run(steps=2)
        wall, cpu = time.perf_counter(), time.process_time()
        await society.run(steps=steps)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return len(population) * steps / wall, len(population) * steps / cpu


def plain(name: str, count: int, steps: int) -> float:
    """Agent-steps a second of a plain loop of numpy, with its own generator, on one thread."""
    random = np.random.default_rng(1)
    money, opinion = np.full(count, 100), random.random(count)
    health = np.zeros(count, np.int8)
    health[: count // 100] = 1
    begin = time.perf_counter()
    for _ in range(steps):
        if name == "wealth":
            gives = np.flatnonzero(money >= 1)
            money[gives] -= 1
            np.add.at(money, random.integers(0, count, len(gives)), 1)
        elif name == "epidemic":
            ill = health == 1
            met = sum(ill[random.integers(0, count, count)].view(np.int8) for _ in range(4))
            caught = (health == 0) & (random.random(count) >= 0.95**met)
            over = ill & (random.random(count) < 0.1)
            health[caught], health[over] = 1, 2
        else:
            apart = opinion[random.integers(0, count, count)] - opinion
            opinion = np.where(np.abs(apart) <= 0.2, opinion + 0.5 * apart, opinion)
    return count * steps / (time.perf_counter() - begin)


def mesa_wealth(count: int, steps: int) -> float:
    """Agent-steps a second of Mesa's wealth model by `shuffle_do`."""
    import mesa

    class Giver(mesa.Agent):  # type: ignore[misc]
        def __init__(self, model: Any) -> None:
            super().__init__(model)
            self.money = 100

        def give(self) -> None:
            if self.money >= 1:
                self.money -= 1
                givers[self.model.random.randrange(count)].money += 1

    model = mesa.Model(seed=1)
    givers = [Giver(model) for _ in range(count)]
    begin = time.perf_counter()
    for _ in range(steps):
        model.agents.shuffle_do("give")
    return count * steps / (time.perf_counter() - begin)


def classic(counts: list[int]) -> None:
    """The classic models, each at each size."""
    for name, make in MODELS.items():
        for count in counts:
            steps = max(3, min(50, 3_000_000 // count))
            wall, cpu = asyncio.run(rate(make(count), steps, LocalEngine(threads=2)))
            about: dict[str, Any] = {"cpu": cpu}
            if name != "segregation":
                about["limit"] = plain(name, count, steps)
                about["ratio"] = wall / about["limit"]
            if name == "wealth" and count <= 100_000 and installed("mesa"):
                about["peer"] = "mesa shuffle_do"
                about["peer_rate"] = mesa_wealth(count, 5)
                about["over_peer"] = wall / about["peer_rate"]
            emit(name, f"{count} citizens", wall, "1/s", **about)


def threads(count: int) -> None:
    """What two threads gain, beside what bare numpy gains from them."""
    data = [np.random.default_rng(1).random(count // 2) for _ in range(2)]

    def work(part: Any) -> None:
        for at in range(0, len(part), 32_768):
            chunk = part[at : at + 32_768]
            for _ in range(20):
                chunk = chunk * 1.000001 + 0.5

    begin = time.perf_counter()
    for part in data:
        work(part)
    alone = time.perf_counter() - begin
    with ThreadPoolExecutor(2) as pool:
        begin = time.perf_counter()
        list(pool.map(work, data))
        bare = alone / (time.perf_counter() - begin)
    one, _ = asyncio.run(rate(opinions(1, citizens=count), 10, LocalEngine()))
    two, _ = asyncio.run(rate(opinions(1, citizens=count), 10, LocalEngine(threads=2)))
    emit(
        "threads",
        "2 over 1",
        two / one,
        "x",
        limit=bare,
        ratio=two / one / bare,
        target=">= 0.8 ratio",
    )
    if installed("ray"):
        first, _ = asyncio.run(rate(opinions(1, citizens=count), 10, RayEngine(workers=1)))
        second, _ = asyncio.run(rate(opinions(1, citizens=count), 10, RayEngine(workers=2)))
        aim = ">= 1.25" if count >= MANY else None
        emit("ray", "2 workers over 1", second / first, "x", target=aim, rate=second)


async def workers(count: int, steps: int) -> None:
    """What two workers of Ray gain over one in the whole day, each step in turn."""
    city = City.generate(seed=1, citizens=min(count, 1_000_000))

    def town(number: int) -> Society:
        services = [*make_economy(city, seed=1), Feed()]
        population = Population(count, city, all_blocks(), 1)
        engine = RayEngine(workers=number)
        return Society(population, services=services, engine=engine, start="2026-01-05T07:00")

    took = [0.0, 0.0]
    async with town(1) as one, town(2) as two:
        for society in (one, two):
            await society.run(steps=2)
        for _ in range(steps):
            for number, society in enumerate((one, two)):
                begin = time.perf_counter()
                await society.step()
                took[number] += time.perf_counter() - begin
    ratio = took[0] / took[1]
    aim = ">= 1.25" if count >= MANY else None
    emit("ray", f"day of {count} citizens, 2 workers over 1", ratio, "x", target=aim)


def day(count: int, engine: Engine) -> None:
    """The whole day of a city: all blocks, firms, a bank, a government and a feed."""
    begin = time.perf_counter()
    city = City.generate(seed=1, citizens=count)
    population = Population(count, city, all_blocks(), 1)
    made = time.perf_counter() - begin
    services = [*make_economy(city, seed=1), Feed()]

    async def live() -> tuple[float, float]:
        async with Society(population, services=services, engine=engine) as society:
            wall, cpu = time.perf_counter(), time.process_time()
            await society.run(days=1)
            return time.perf_counter() - wall, time.process_time() - cpu

    wall, cpu = asyncio.run(live())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    emit(
        "day",
        f"{count} citizens",
        count * 96 / wall,
        "1/s",
        target=">= 4e6" if count >= MANY else None,
        cpu=count * 96 / cpu,
        made_s=made,
        day_s=wall,
        memory_mib=most,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer citizens")
    parser.add_argument("--day", type=int, metavar="N", help="the day of N citizens alone")
    parser.add_argument("--largest", action="store_true", help="10,000,000 citizens too")
    options = parser.parse_args()
    engine = LocalEngine(threads=min(2, os.cpu_count() or 1))
    if options.day:
        day(options.day, engine)
        return
    counts = [10_000, 100_000] if options.quick else [10_000, 100_000, 1_000_000]
    classic([*counts, 10_000_000] if options.largest else counts)
    threads(counts[-1])
    for count in counts:
        day(count, engine)
    for count in counts[1:] if installed("ray") else ():
        asyncio.run(workers(count, 12))


if __name__ == "__main__":
    main()
