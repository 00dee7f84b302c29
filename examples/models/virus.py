"""A virus on a network: who carries it passes it on, and may recover without becoming immune.

Stonedahl, Wilensky 2008, "NetLogo Virus on a Network model", Northwestern University; the defaults
and the order are those of Mesa's example: citizens act one after the other, in a new order in each
step. Who carries the virus passes it on to each healthy neighbour with probability `spreads`. Then
it notices with probability `checks`, recovers with `recovers`, and is immune with `immune`.

    python examples/models/virus.py
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Network, Population, RowBlock, Rows, math
from moothall.society.kernel.draw import integers, uniforms

HEALTHY, CARRIES, IMMUNE = range(3)


class VirusParams(BlockParams):
    """How the virus spreads and ends: probabilities in a step."""

    spreads: float = Field(default=0.4, ge=0, le=1, description="to a healthy neighbour")
    checks: float = Field(default=0.4, ge=0, le=1, description="that one notices the virus")
    recovers: float = Field(default=0.3, ge=0, le=1, description="if one has noticed it")
    immune: float = Field(default=0.5, ge=0, le=1, description="if one has recovered")


class VirusBlock(RowBlock):
    """Passes the virus on to neighbours, and may recover."""

    columns: ClassVar[dict[str, Column]] = {"health": Column("int8")}
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = VirusParams
    params: VirusParams

    def step_rows(self, rows: Rows) -> None:
        """Let each have its turn; neighbours have it one after the other."""
        params, count = self.params, rows.citizens
        if not (rows["health"] == CARRIES).any():
            return
        starts, others = rows.links()
        source = np.repeat(np.arange(count), np.diff(starts))
        health = rows["health"]
        notices = rows.uniform("virus.checks") < params.checks
        recovers = notices & (rows.uniform("virus.recovers") < params.recovers)
        spared = math.power(1 - params.spreads, np.arange(np.diff(starts).max(initial=0) + 1))
        after = np.where(rows.uniform("virus.immune") < params.immune, IMMUNE, HEALTHY)
        for turn, now in enumerate(rows.turns("virus.order")):
            acts = np.zeros(count, bool)
            acts[now] = health[now] == CARRIES
            if not acts.any():
                continue
            ill = np.bincount(others[acts[source]], minlength=count)
            at = np.flatnonzero((ill > 0) & (health == HEALTHY))
            if len(at):
                catches = rows.uniform("virus.spreads", turn)[at] >= spared[ill[at]]
                health[at[catches]] = CARRIES
            ends = acts & recovers
            health[ends] = after[ends]
        rows["health"] = health


def virus(
    seed: int = 0,
    *,
    citizens: int = 10,
    degree: float = 3,
    first: int = 1,
    spreads: float = 0.4,
    checks: float = 0.4,
    recovers: float = 0.3,
    immune: float = 0.5,
    network: Network | None = None,
) -> Population:
    """Return citizens of a network, of whom `first`, drawn by the seed, carry the virus.

    Metrics: the shares that are `healthy`, that `carries` it and that are `immune`.

    Args:
        seed: the seed of all draws
        citizens: how many there are
        degree: the mean number of neighbours; each pair is as likely as another
        first: how many carry the virus at the start
        spreads: the probability that a carrier infects a healthy neighbour, in a step
        checks: the probability that a carrier notices it, in a step
        recovers: the probability that one recovers who has noticed it
        immune: the probability that one who recovers is immune
        network: the network instead of a drawn one, whose drawing takes all pairs' memory
    """
    if network is None:
        network = uniform_network(citizens, degree, seed)
    order = np.argsort(integers(seed, np.arange(citizens, dtype=np.uint64), 0, "virus.first"))
    health = np.full(citizens, HEALTHY, np.int8)
    health[order[:first]] = CARRIES
    params = {"spreads": spreads, "checks": checks, "recovers": recovers, "immune": immune}
    block = VirusBlock(block_params=params)
    names = ("healthy", "carries", "immune")
    metrics = {name: share_of(code) for code, name in enumerate(names)}
    return Population({"health": health}, None, [block], seed, network=network, metrics=metrics)


def uniform_network(citizens: int, degree: float, seed: int) -> Network:
    """Return a network in which each pair knows each other with probability degree ÷ citizens."""
    one, other = np.triu_indices(citizens, 1)
    drawn = uniforms(seed, np.arange(len(one), dtype=np.uint64), 0, "virus.network")
    knows = drawn < degree / citizens
    return Network.from_numbers(citizens, one[knows], other[knows])


def share_of(health: int) -> Any:
    """Return the metric of the share of citizens in a state of health."""

    def share(columns: Any) -> float:
        values = columns["health"]
        return np.count_nonzero(values == health) / len(values)

    return share


async def main() -> None:
    """Print how the virus spreads and stays."""
    async with Society(virus(seed=1, citizens=1000, first=5)) as society:
        rows = await society.run(steps=61)
    for row in rows[::12]:
        print(f"step {row['step']}: {row['carries']:.1%} carry it, {row['immune']:.1%} are immune")


if __name__ == "__main__":
    asyncio.run(main())
