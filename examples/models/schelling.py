"""Segregation: mild wishes for neighbours of one's own kind separate everyone.

Schelling 1971, "Dynamic models of segregation", Journal of Mathematical Sociology 1. Here all
citizens that are not content move at once, each to a cell drawn among the free ones; of several
that want the same cell, the first who is heard gets it, and the others stay. With `turns="random"`
they move as in Mesa's example: one after the other, in a new order in each step, to a cell that is
free then; who has no neighbours is not content.

    python examples/models/schelling.py
    moothall simulate examples/segregation.yaml
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Grid, Move, Population, RowBlock, Rows
from moothall.society.kernel.draw import integers


class SchellingParams(BlockParams):
    """When a citizen is content."""

    alike: int = Field(
        default=375, ge=0, le=1000, description="neighbours of its kind it wants, in thousandths"
    )


class SchellingBlock(RowBlock):
    """Moves a citizen with too few neighbours of its kind to a free cell."""

    columns: ClassVar[dict[str, Column]] = {
        "kind": Column("int8", seen=True),
        "alike": Column("int32"),
    }
    ParamsType: ClassVar[type[BlockParams]] = SchellingParams
    params: SchellingParams

    def step_rows(self, rows: Rows) -> None:
        """Count the neighbours of the same kind, and move if not content."""
        grid = rows.city
        kinds = rows.once(
            "schelling.kinds",
            lambda: kinds_by_cell(rows.seen("kind"), rows.seen("place"), len(grid)),
        )
        free = rows.once("schelling.free", lambda: np.flatnonzero(kinds < 0))
        around = grid.next_to[rows["place"]]
        near = np.where(around >= 0, kinds[around], -1)
        like = (near == rows["kind"][:, None]).sum(axis=1)
        others = (near >= 0).sum(axis=1)
        rows["alike"] = np.where(others > 0, like * 1000 // np.maximum(others, 1), 1000)
        if len(free):
            cell = free[rows.below(len(free), "schelling.cell")]
            rows.want(Move, rows["alike"] < self.params.alike, to=cell)


class SchellingTurnsBlock(RowBlock):
    """Moves citizens with too few neighbours of their kind, one after the other."""

    columns: ClassVar[dict[str, Column]] = SchellingBlock.columns
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = SchellingParams
    params: SchellingParams

    def step_rows(self, rows: Rows) -> None:
        """Let each that is not content move in its turn; then count how alike neighbours are."""
        kinds = kinds_by_cell(rows["kind"], rows["place"], len(rows.city))
        alike = alike_in(rows.city, kinds, rows["place"])
        free, discontent = np.flatnonzero(kinds < 0).tolist(), alike < self.params.alike
        rows["alike"] = alike
        if not (free and discontent.any()):
            return
        place, drawn = rows["place"].tolist(), rows.uniform("schelling.cell").tolist()
        order = rows.order("schelling.order")
        for one in order[discontent[order]].tolist():
            at = int(drawn[one] * len(free))
            place[one], free[at] = free[at], place[one]
        after = np.array(place)
        kinds = kinds_by_cell(rows["kind"], after, len(rows.city))
        rows["alike"] = alike_in(rows.city, kinds, after)
        rows.want(Move, after != rows["place"], to=after)


def schelling(
    seed: int = 0,
    *,
    width: int = 50,
    free: int = 100,
    alike: int = 375,
    around: int = 8,
    turns: Literal["simultaneous", "random"] = "simultaneous",
    torus: bool = True,
    start: Any = None,
) -> Population:
    """Return citizens of two kinds on a grid of width × width cells.

    Metric: `alike`, the mean share of neighbours of one's own kind, in thousandths, before a step's
    moves. By turns it is that after them, and another metric, `content`, says how many have as many
    as they want.

    Args:
        seed: the seed of all draws
        width: columns and rows; 3 or more
        free: cells without a citizen, of a thousand
        alike: neighbours of its kind that a citizen wants, of a thousand
        around: 4 or 8 neighbours
        turns: `simultaneous`, or `random`: one after the other
        torus: whether a cell at a border has neighbours at the other one
        start: the kind in each cell at the start, 0 or 1, or −1 for a free one: a row for each
            column of the grid; without it, as many of each kind in drawn cells
    """
    if turns not in ("simultaneous", "random"):
        raise ValueError(f"turns= must be 'simultaneous' or 'random', got {turns!r}")
    by_turns = turns == "random"
    # By turns, moves end in cells that are free then, not in the order of the ids.
    more: dict[str, Any] = {"capacity": None} if by_turns else {}
    grid = Grid(width, width, torus=torus, around=around, cell_seconds=0, **more)
    if start is None:
        count = len(grid) * (1000 - free) // 1000
        cells = np.arange(len(grid), dtype=np.uint64)
        taken = np.argsort(integers(seed, cells, 0, "schelling.first"), kind="stable")[:count]
        kinds = np.arange(count, dtype=np.int8) % 2
    else:
        if np.shape(start) != (width, width):
            raise ValueError(f"start= must be {width} × {width} kinds, got {np.shape(start)}")
        given = np.asarray(start, np.int8)[grid.cells[:, 0], grid.cells[:, 1]]
        taken = np.flatnonzero(given >= 0)
        kinds = given[taken]
    table = {"place": taken.astype(np.int32), "kind": kinds}
    block = (SchellingTurnsBlock if by_turns else SchellingBlock)(block_params={"alike": alike})
    metrics: dict[str, Any] = {"alike": lambda columns: float(columns["alike"].mean())}
    if by_turns:
        metrics["content"] = lambda columns: int((columns["alike"] >= alike).sum())
    return Population(table, grid, [block], seed, metrics=metrics)


def alike_in(grid: Grid, kinds: Any, places: Any) -> Any:
    """Return the share of neighbours of its kind of each citizen, in thousandths; 0 if alone."""
    around = grid.next_to[places]
    near = np.where(around >= 0, kinds[around], -1)
    like = (near == kinds[places][:, None]).sum(axis=1)
    return like * 1000 // np.maximum((near >= 0).sum(axis=1), 1)


def kinds_by_cell(kinds: Any, places: Any, cells: int) -> Any:
    """Return the kind of the citizen in each cell; −1 for a free cell."""
    made = np.full(cells, -1, np.int8)
    made[places[places >= 0]] = kinds[places >= 0]
    return made


async def main() -> None:
    """Print how alike neighbours become."""
    async with Society(schelling(seed=1, width=40)) as society:
        rows = await society.run(steps=30)
    for row in rows[::10]:
        print(f"step {row['step']}: {row['alike']:.0f} of 1,000 neighbours are of one's own kind")


if __name__ == "__main__":
    asyncio.run(main())
