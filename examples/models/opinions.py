"""Opinions under bounded confidence: citizens listen only to those who think much as they do.

Deffuant, Neau, Amblard, Weisbuch 2000, "Mixing beliefs among interacting agents", Advances in
Complex Systems 3, where pairs meet one after the other and both move. Here each citizen hears one
drawn among its neighbours, or among all without a network; all move at once, each alone. Opinions,
0 … 1, still gather in about 1 ÷ (2 · bound) groups.

    python examples/models/opinions.py
    moothall simulate examples/opinions.yaml
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Network, Population, RowBlock, Rows


class OpinionParams(BlockParams):
    """How opinions move."""

    bound: float = Field(default=0.2, ge=0, le=1, description="how far apart others are heard")
    pull: float = Field(default=0.5, ge=0, le=0.5, description="the part of the distance it moves")


class OpinionBlock(RowBlock):
    """Hears one other citizen, and moves towards its opinion unless it is too far away."""

    columns: ClassVar[dict[str, Column]] = {"opinion": Column("float64", seen=True)}
    ParamsType: ClassVar[type[BlockParams]] = OpinionParams
    params: OpinionParams

    def begin_rows(self, rows: Rows) -> None:
        """Draw opinions uniformly from 0 to 1."""
        rows["opinion"] = rows.uniform("opinion.first")

    def step_rows(self, rows: Rows) -> None:
        """Hear one other citizen."""
        if rows.network is not None:
            other = rows.neighbour("opinion.other")
        else:
            other = rows.below(rows.citizens, "opinion.other")
        mine = rows["opinion"]
        apart = rows.seen("opinion")[other] - mine
        hears = (other >= 0) & (np.abs(apart) <= self.params.bound)
        rows["opinion"] = np.where(hears, mine + self.params.pull * apart, mine)


def opinions(
    seed: int = 0,
    *,
    citizens: int = 1000,
    bound: float = 0.2,
    pull: float = 0.5,
    network: Network | str | None = None,
) -> Population:
    """Return citizens with drawn opinions, on a network, or its kind, or among all.

    Metrics: `groups`, the groups of at least a hundredth of the citizens that are more than a
    quarter of the bound apart, and `spread`, the distance between the outermost opinions.
    """
    block = OpinionBlock(block_params={"bound": bound, "pull": pull})
    metrics: dict[str, Any] = {
        "groups": lambda columns: groups_of(columns["opinion"], bound),
        "spread": lambda columns: float(columns["opinion"].max() - columns["opinion"].min()),
    }
    links: Network | None = (
        getattr(Network, network)(citizens, seed=seed) if isinstance(network, str) else network
    )
    return Population(citizens, None, [block], seed, network=links, metrics=metrics)


def groups_of(opinions: Any, bound: float) -> int:
    """Return how many groups of opinions have a hundredth of the citizens or more."""
    found = np.sort(opinions)
    begins = np.flatnonzero(found[1:] - found[:-1] > bound / 4) + 1
    edges = [0, *begins.tolist(), len(found)]
    return sum((b - a) * 100 >= len(found) for a, b in itertools.pairwise(edges))


async def main() -> None:
    """Print into how many groups opinions gather."""
    async with Society(opinions(seed=1)) as society:
        rows = await society.run(steps=61)
    for row in rows[::20]:
        print(f"step {row['step']}: {row['groups']} groups, {row['spread']:.2f} apart")


if __name__ == "__main__":
    asyncio.run(main())
