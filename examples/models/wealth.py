"""Wealth by chance: who can gives a cent to somebody drawn, and inequality grows out of nothing.

Dragulescu, Yakovenko 2000, "Statistical mechanics of money", European Physical Journal B 17: one
giver at a time leads to the geometric law, whose limit for a mean of many gifts is the exponential.
Here all give at once, so each citizen is a queue: one cent leaves, a Poisson number arrives (M/D/1,
Pollaczek 1930, Khinchine 1932); its law for large means is exponential.

    python examples/models/wealth.py
    moothall simulate examples/wealth.yaml
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Pay, Population, RowBlock, Rows


class WealthParams(BlockParams):
    """How much a citizen gives."""

    gift: int = Field(default=1, ge=1, description="cents given in a step")


class WealthBlock(RowBlock):
    """Gives `gift` cents to one citizen drawn among all, in every step in which it has them."""

    ParamsType: ClassVar[type[BlockParams]] = WealthParams
    params: WealthParams

    def step_rows(self, rows: Rows) -> None:
        """Give, if the citizen has enough."""
        other = rows.below(rows.citizens, "wealth.other")
        gift = self.params.gift
        rows.want(Pay, rows["money"] >= gift, to=other, cents=gift)


def wealth(seed: int = 0, *, citizens: int = 1000, mean: int = 100, gift: int = 1) -> Population:
    """Return citizens who each have `mean` cents.

    Metrics: `gini`, the Gini coefficient of money, and `without`, the share without money.
    """
    block = WealthBlock(block_params={"gift": gift})
    metrics = {"gini": gini, "without": without}
    return Population({"money": np.full(citizens, mean)}, None, [block], seed, metrics=metrics)


def gini(columns: Any) -> float:
    """Return the Gini coefficient of money."""
    money = np.sort(columns["money"])
    total, count = int(money.sum()), len(money)
    weighted = int((money * np.arange(1, count + 1)).sum())
    return (2 * weighted / total - count - 1) / count if total else 0.0


def without(columns: Any) -> float:
    """Return the share without money."""
    return np.count_nonzero(columns["money"] == 0) / len(columns["money"])


async def main() -> None:
    """Print how inequality grows."""
    async with Society(wealth(seed=1, mean=20)) as society:
        rows = await society.run(steps=1500)
    for row in rows[::300]:
        print(f"step {row['step']}: Gini coefficient {row['gini']:.3f}")


if __name__ == "__main__":
    asyncio.run(main())
