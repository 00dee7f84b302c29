"""The Game of Life: cells live or die by how many of their eight neighbours live.

Gardner 1970, "The fantastic combinations of John Conway's new solitaire game 'life'", Scientific
American 223. A living cell with two or three living neighbours lives on, a dead one with three
comes to life. All change at once; the sides are joined. The defaults are those of Mesa's example.

    python examples/models/life.py
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np

from moothall import Society
from moothall.society import Column, Grid, Population, RowBlock, Rows
from moothall.society.kernel.draw import uniforms


class LifeBlock(RowBlock):
    """Counts the living around a cell; the citizen in row n is the n-th cell."""

    columns: ClassVar[dict[str, Column]] = {"alive": Column("bool", seen=True)}

    def step_rows(self, rows: Rows) -> None:
        """Live on, come to life, or die."""
        around = rows.city.next_to[rows.index]
        near = rows.seen("alive")[around].sum(axis=1)
        rows["alive"] = (near == 3) | ((near == 2) & rows["alive"])


def life(
    seed: int = 0,
    *,
    width: int = 50,
    height: int = 50,
    alive: float = 0.2,
    start: Any = None,
) -> Population:
    """Return the cells of a torus as citizens.

    Metric: `alive`, how many live.

    Args:
        seed: of the draw of who lives at the start
        width: columns; 3 or more
        height: rows; 3 or more
        alive: the probability that a cell lives at the start
        start: who lives at the start instead: booleans, a row for each column of the torus
    """
    grid = Grid(width, height, torus=True, cell_seconds=0)
    cells = np.arange(len(grid))
    if start is None:
        lives = uniforms(seed, cells.astype(np.uint64), 0, "life.first") < alive
    else:
        lives = np.asarray(start, bool)[grid.cells[:, 0], grid.cells[:, 1]]
    table = {"place": cells.astype(np.int32), "alive": lives}
    metrics = {"alive": lambda columns: int(columns["alive"].sum())}
    return Population(table, grid, [LifeBlock()], seed, metrics=metrics)


async def main() -> None:
    """Print how many cells live."""
    async with Society(life(seed=1)) as society:
        rows = await society.run(steps=201)
    for row in rows[::40]:
        print(f"step {row['step']}: {row['alive']} cells live")


if __name__ == "__main__":
    asyncio.run(main())
