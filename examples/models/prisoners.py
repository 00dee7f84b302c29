"""A prisoner's dilemma with all neighbours: whoever did best around is imitated.

Nowak, May 1992, "Evolutionary games and spatial chaos", Nature 359, by Mesa's example (Demographic
Prisoner's Dilemma on a Grid), whose payoffs add up from step to step. In its turn a citizen takes
the move of the one with the highest payoff among its eight neighbours and itself, then plays it
against each neighbour. Turns are `random` (one after the other in a new order in each step),
`sequential` (in order of ids) or `simultaneous`. Of equal ones the first neighbour counts, from
the upper left on, then itself.

    python examples/models/prisoners.py
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Grid, Population, RowBlock, Rows


class PrisonersParams(BlockParams):
    """When citizens have their turns, and what tempts them."""

    turns: Literal["random", "sequential", "simultaneous"] = "random"
    temptation: float = Field(
        default=1.6, ge=0, le=100, description="who defects has it of each that cooperates"
    )


class PrisonersBlock(RowBlock):
    """Imitates the best neighbour, and plays; the citizen in row n is in the n-th cell."""

    columns: ClassVar[dict[str, Column]] = {
        "cooperates": Column("bool", seen=True),
        "payoff": Column("float64", seen=True),
    }
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = PrisonersParams
    params: PrisonersParams

    def begin_rows(self, rows: Rows) -> None:
        """Draw who cooperates, one of two."""
        rows["cooperates"] = rows.below(2, "prisoners.first") == 1

    def step_rows(self, rows: Rows) -> None:
        """Let each have its turn."""
        around = rows.city.within(1)
        choices = np.column_stack([around, rows.index])
        # Sums, as who adds one payoff after the other has them.
        tempted = np.cumsum([0.0] + [self.params.temptation] * 8)
        cooperates, payoff = rows["cooperates"], rows["payoff"]
        turns: Any
        if self.params.turns == "simultaneous":
            turns = [rows.index]
        else:
            links = (np.arange(len(rows) + 1) * 8, around.ravel())
            purpose = "prisoners.order" if self.params.turns == "random" else None
            turns = rows.turns(purpose, links)
        for now in turns:
            mine = choices[now]
            best = payoff[mine].argmax(axis=1)
            cooperates[now] = cooperates[mine[np.arange(len(now)), best]]
            others = cooperates[around[now]].sum(axis=1)
            payoff[now] += np.where(cooperates[now], others, tempted[others])
        rows["cooperates"], rows["payoff"] = cooperates, payoff


def prisoners(
    seed: int = 0,
    *,
    width: int = 50,
    height: int = 50,
    turns: str = "random",
    temptation: float = 1.6,
    start: Any = None,
) -> Population:
    """Return citizens on all cells of a torus, of whom about one half cooperates.

    Metric: `cooperates`, the share that does.

    Args:
        seed: the seed of all draws
        width: columns; 3 or more
        height: rows; 3 or more
        turns: `random`, `sequential` or `simultaneous`
        temptation: what who defects has of each neighbour that cooperates; who cooperates has 1
        start: who cooperates at the start: booleans, a row for each column of the torus
    """
    grid = Grid(width, height, torus=True, cell_seconds=0)
    block = PrisonersBlock(block_params={"turns": turns, "temptation": temptation})
    table = {"place": np.arange(len(grid), dtype=np.int32)}
    if start is not None:
        table["cooperates"] = np.asarray(start, bool)[grid.cells[:, 0], grid.cells[:, 1]]
    metrics = {"cooperates": lambda columns: float(columns["cooperates"].mean())}
    return Population(table, grid, [block], seed, metrics=metrics)


async def main() -> None:
    """Print how many cooperate, by when they have their turns."""
    for turns in ("random", "sequential", "simultaneous"):
        async with Society(prisoners(seed=1, turns=turns)) as society:
            *_, row = await society.run(steps=50)
        print(f"turns {turns}: {row['cooperates']:.1%} cooperate")


if __name__ == "__main__":
    asyncio.run(main())
