"""Wealth by chance on a grid: who meets somebody in its cell gives a coin, if it has one.

Dragulescu, Yakovenko 2000, "Statistical mechanics of money", European Physical Journal B 17, by
Mesa's example (Boltzmann wealth model), whose defaults and order these are: all act one after the
other, in a new order in each step. Each moves to one of the cells around it, then gives a coin to
one who is there. `wealth.py` is the model of the paper, without a grid, where all give at once.

    python examples/models/boltzmann.py
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any, ClassVar

import numpy as np

from moothall import Society
from moothall.society import Column, Grid, Move, Population, RowBlock, Rows
from moothall.society.kernel.draw import draw_below


class BoltzmannBlock(RowBlock):
    """Moves, and gives a coin to one who is there."""

    columns: ClassVar[dict[str, Column]] = {"coins": Column("int64", 1)}
    whole: ClassVar[bool] = True

    def step_rows(self, rows: Rows) -> None:
        """Let each act in its turn."""
        around = cells_around(rows.city)
        place, coins = rows["place"].tolist(), rows["coins"].tolist()
        there: list[list[int]] = [[] for _ in around]
        for one, cell in enumerate(place):
            there[cell].append(one)
        goes, gives = (rows.uniform(f"boltzmann.{what}").tolist() for what in ("goes", "gives"))
        for one in rows.order("boltzmann.order").tolist():
            near = around[place[one]]
            there[place[one]].remove(one)
            place[one] = cell = near[int(goes[one] * len(near))]
            if coins[one] > 0 and there[cell]:
                other = there[cell][int(gives[one] * len(there[cell]))]
                coins[one] -= 1
                coins[other] += 1
            there[cell].append(one)
        rows["coins"] = np.array(coins)
        rows.want(Move, np.array(place) != rows["place"], to=np.array(place))


@functools.lru_cache(maxsize=8)
def cells_around(grid: Grid) -> list[list[int]]:
    """Return the cells around each cell."""
    return [[cell for cell in near if cell >= 0] for near in grid.within(1).tolist()]


def boltzmann(
    seed: int = 0, *, citizens: int = 100, width: int = 10, height: int = 10
) -> Population:
    """Return citizens with a coin each, at drawn cells of a grid with borders.

    Metric: `gini`, the Gini coefficient of coins.

    Args:
        seed: the seed of all draws
        citizens: how many there are
        width: columns; 2 or more
        height: rows; 2 or more
    """
    grid = Grid(width, height, capacity=None, cell_seconds=0)
    ids = np.arange(citizens, dtype=np.uint64)
    place = draw_below(len(grid), seed, ids, 0, "boltzmann.place")
    table = {"place": place.astype(np.int32)}
    return Population(table, grid, [BoltzmannBlock()], seed, metrics={"gini": gini})


def gini(columns: Any) -> float:
    """Return the Gini coefficient of coins."""
    coins = np.sort(columns["coins"])
    count, total = len(coins), int(coins.sum())
    return float((2 * np.arange(1, count + 1) - count - 1) @ coins) / (count * total)


async def main() -> None:
    """Print how inequality grows."""
    async with Society(boltzmann(seed=1)) as society:
        rows = await society.run(steps=101)
    for row in rows[::20]:
        print(f"step {row['step']}: Gini coefficient {row['gini']:.3f}")


if __name__ == "__main__":
    asyncio.run(main())
