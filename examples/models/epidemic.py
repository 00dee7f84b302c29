"""An epidemic: susceptible, infected, recovered, on a network or among drawn contacts.

Kermack, McKendrick 1927, "A contribution to the mathematical theory of epidemics", Proceedings of
the Royal Society A 115. Each infected contact infects with equal probability in each step.

    python examples/models/epidemic.py
    moothall simulate examples/epidemic.yaml
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Network, Population, RowBlock, Rows, math
from moothall.society.kernel.draw import integers

SUSCEPTIBLE, INFECTED, RECOVERED = range(3)


class EpidemicParams(BlockParams):
    """How an infection spreads."""

    infects: float = Field(default=0.05, ge=0, le=1, description="by a contact, in a step")
    recovers: float = Field(default=0.1, ge=0, le=1, description="in a step")
    meets: int = Field(default=0, ge=0, le=1000, description="drawn contacts; 0: the network's")


class EpidemicBlock(RowBlock):
    """Lets a citizen become infected by its contacts, and recover."""

    columns: ClassVar[dict[str, Column]] = {"health": Column("int8", seen=True)}
    ParamsType: ClassVar[type[BlockParams]] = EpidemicParams
    params: EpidemicParams

    def step_rows(self, rows: Rows) -> None:
        """Become infected, or recover."""
        params = self.params
        health = rows["health"]
        ill = rows.once("sir.ill", lambda: (rows.seen("health") == INFECTED).view(np.int8))
        if not rows.once("sir.any", ill.any):
            return
        if params.meets:
            met = np.zeros(len(rows), np.int64)
            for number in range(params.meets):
                met += ill[rows.below(rows.citizens, "sir.meets", number)]
        else:
            met = rows.neighbour_sum(ill)
        spared = math.power(1 - params.infects, np.arange(met.max(initial=0) + 1))[met]
        caught = (health == SUSCEPTIBLE) & (rows.uniform("sir.infected") >= spared)
        over = (health == INFECTED) & (rows.uniform("sir.recovers") < params.recovers)
        rows["health"] = np.where(caught, INFECTED, np.where(over, RECOVERED, health))


def epidemic(
    seed: int = 0,
    *,
    citizens: int = 1000,
    infected: int = 10,
    infects: float = 0.05,
    recovers: float = 0.1,
    meets: int = 0,
    network: Network | str | None = None,
) -> Population:
    """Return citizens of whom `infected`, drawn by the seed, are infected.

    Metrics: the shares `susceptible`, `infected` and `recovered`.

    Args:
        seed: the seed of all draws
        citizens: how many there are
        infected: how many are infected at the start
        infects: the probability that a contact infects, in a step
        recovers: the probability of recovery, in a step
        meets: the drawn contacts of a citizen in a step; 0: its neighbours in the network
        network: the network of contacts, or its kind: `random` (also if left out and `meets` is
            0), `small_world`, `scale_free` or `spatial`
    """
    if not meets and network is None:
        network = "random"
    links: Network | None = (
        getattr(Network, network)(citizens, seed=seed) if isinstance(network, str) else network
    )
    rows = np.arange(citizens, dtype=np.uint64)
    health = np.zeros(citizens, np.int8)
    health[np.argsort(integers(seed, rows, 0, "sir.first"), kind="stable")[:infected]] = INFECTED
    block = EpidemicBlock(block_params={"infects": infects, "recovers": recovers, "meets": meets})
    names = ("susceptible", "infected", "recovered")
    metrics = {name: share_of(code) for code, name in enumerate(names)}
    return Population({"health": health}, None, [block], seed, network=links, metrics=metrics)


def share_of(health: int) -> Any:
    """Return the metric of the share of citizens in a state of health."""

    def share(columns: Any) -> float:
        values = columns["health"]
        return np.count_nonzero(values == health) / len(values)

    return share


async def main() -> None:
    """Print how an epidemic comes and goes."""
    async with Society(epidemic(seed=1, citizens=5000, recovers=0.2)) as society:
        rows = await society.run(steps=100)
    for row in rows[::20]:
        print(
            f"step {row['step']}: {row['infected']:.1%} infected, {row['recovered']:.1%} recovered"
        )


if __name__ == "__main__":
    asyncio.run(main())
