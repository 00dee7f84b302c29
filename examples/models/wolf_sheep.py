"""Wolves, sheep and grass: who eats lives on and multiplies, and numbers rise and fall in turn.

Wilensky 1997, "NetLogo Wolf Sheep Predation model", Northwestern University; the defaults and the
order are those of Mesa's example. In each step the sheep act one after the other in a drawn order,
then the wolves. Sheep go to one of four cells, where no wolf is if they can, and of those to grass;
wolves go where sheep are. Each loses an energy, eats what is there, dies below zero, and otherwise
has a child with a given probability, to whom it gives half its energy. Grass that is eaten grows
again after a number of steps.

The first rows are the cells' patches of grass, which never leave; animals are born and die.

    python examples/models/wolf_sheep.py
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Grid, Move, Population, RowBlock, Rows
from moothall.society.kernel.draw import draw_below, uniforms

GRASS, SHEEP, WOLF = range(3)


class WolfSheepParams(BlockParams):
    """What animals gain, and how often they have a child."""

    sheep_gain: float = Field(default=4, ge=0, description="energy of a patch of grass")
    wolf_gain: float = Field(default=20, ge=0, description="energy of a sheep")
    sheep_child: float = Field(default=0.04, ge=0, le=1, description="the probability, in a step")
    wolf_child: float = Field(default=0.05, ge=0, le=1, description="the probability, in a step")
    regrowth: int = Field(default=30, ge=1, description="steps until grass has grown again")


class WolfSheepBlock(RowBlock):
    """Moves, feeds and multiplies the animals, and lets grass grow."""

    columns: ClassVar[dict[str, Column]] = {
        "kind": Column("int8"),
        "energy": Column("float64"),
        "grown": Column("int32"),  # of a patch: the first step in which sheep find it grown
    }
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = WolfSheepParams
    params: WolfSheepParams

    def step_rows(self, rows: Rows) -> None:
        """Let all sheep act, then all wolves."""
        cells = len(rows.city)
        grown = rows["grown"][:cells]
        for animals in rows.some(np.arange(cells, len(rows))):
            herd = _Herd(animals, grown.tolist(), self.params)
            order = animals.order("wolf_sheep.order")
            kind = animals["kind"][order]
            for one in order[kind == SHEEP].tolist():
                herd.sheep_acts(one)
            for one in order[kind == WOLF].tolist():
                herd.wolf_acts(one)
            grown[:] = herd.grown
            animals["energy"] = energy = np.array(herd.energy)
            place = np.array(herd.place)
            animals.want(Move, place != animals["place"], to=place)
            animals.add(sorted(herd.children), kind=animals["kind"], energy=energy, place=place)
            animals.remove(herd.dead)


class _Herd:
    """The animals and the grass within a step."""

    def __init__(self, rows: Rows, grown: list[int], params: WolfSheepParams) -> None:
        self.params = params
        self.step = rows.step
        self.energy, self.place = rows["energy"].tolist(), rows["place"].tolist()
        self.grown = grown
        self.around = cells_around(rows.city)
        self.sheep: dict[int, list[int]] = defaultdict(list)
        self.wolves = [0] * len(grown)
        for one, (kind, place) in enumerate(zip(rows["kind"].tolist(), self.place, strict=True)):
            if kind == SHEEP:
                self.sheep[place].append(one)
            elif kind == WOLF:
                self.wolves[place] += 1
        self.goes = rows.uniform("wolf_sheep.goes").tolist()
        self.eats = rows.uniform("wolf_sheep.eats").tolist()
        self.breeds = rows.uniform("wolf_sheep.child").tolist()
        self.dead: list[int] = []
        self.children: set[int] = set()  # by their parents; in `sheep`, −1 − the parent

    def sheep_acts(self, one: int) -> None:
        """Go where no wolf is, best to grass; eat it; die or have a child."""
        here = self.place[one]
        safe = [cell for cell in self.around[here] if not self.wolves[cell]]
        if safe:
            there = self._one_of([c for c in safe if self.grown[c] <= self.step] or safe, one)
            self.sheep[here].remove(one)
            self.sheep[there].append(one)
            self.place[one] = here = there
        self.energy[one] -= 1
        if self.grown[here] <= self.step:
            self.energy[one] += self.params.sheep_gain
            self.grown[here] = self.step + self.params.regrowth + 1
        if self.energy[one] < 0:
            self.sheep[here].remove(one)
            self.dead.append(one)
        elif self.breeds[one] < self.params.sheep_child:
            self.energy[one] /= 2
            self.children.add(one)
            self.sheep[here].append(-1 - one)

    def wolf_acts(self, one: int) -> None:
        """Go to where sheep are, if they are near; eat one; die or have a child."""
        here = self.place[one]
        near = self.around[here]
        there = self._one_of([cell for cell in near if self.sheep[cell]] or near, one)
        self.place[one] = there
        self.energy[one] -= 1
        sheep = self.sheep[there]
        if sheep:
            self.energy[one] += self.params.wolf_gain
            eaten = sheep.pop(int(self.eats[one] * len(sheep)))
            if eaten < 0:
                self.children.remove(-1 - eaten)
            else:
                self.dead.append(eaten)
        if self.energy[one] < 0:
            self.dead.append(one)
        elif self.breeds[one] < self.params.wolf_child:
            self.energy[one] /= 2
            self.children.add(one)

    def _one_of(self, cells: list[int], one: int) -> int:
        return cells[int(self.goes[one] * len(cells))]


@functools.lru_cache(maxsize=8)
def cells_around(grid: Grid) -> list[list[int]]:
    """Return the cells around each cell."""
    around: list[list[int]] = grid.within(1).tolist()
    return around


def wolf_sheep(
    seed: int = 0,
    *,
    width: int = 20,
    height: int = 20,
    sheep: int = 100,
    wolves: int = 50,
    **params: Any,
) -> Population:
    """Return animals at drawn cells of a torus, half of which has grown grass.

    Metrics: how many `sheep` and `wolves` there are.

    Args:
        seed: the seed of all draws
        width: columns; 3 or more
        height: rows; 3 or more
        sheep: at the start
        wolves: at the start
        params: those of `WolfSheepParams`
    """
    grid = Grid(width, height, torus=True, around=4, capacity=None, cell_seconds=0)
    block = WolfSheepBlock(block_params=params)
    cells = len(grid)
    kind = np.repeat([GRASS, SHEEP, WOLF], [cells, sheep, wolves]).astype(np.int8)
    rows = np.arange(len(kind), dtype=np.uint64)
    gain = np.array([0, block.params.sheep_gain, block.params.wolf_gain])[kind]
    waits = draw_below(block.params.regrowth, seed, rows, 0, "wolf_sheep.grows")
    # What has not grown at the start grows after a step, as what is eaten in it does.
    grown = np.where(draw_below(2, seed, rows, 0, "wolf_sheep.grass") == 1, 0, waits)
    table = {
        "kind": kind,
        "place": np.where(
            kind == GRASS, rows, draw_below(cells, seed, rows, 0, "wolf_sheep.place")
        ).astype(np.int32),
        "energy": 2 * gain * uniforms(seed, rows, 0, "wolf_sheep.energy"),
        "grown": np.where(kind == GRASS, grown, 0).astype(np.int32),
    }
    metrics = {
        "sheep": lambda columns: int((columns["kind"] == SHEEP).sum()),
        "wolves": lambda columns: int((columns["kind"] == WOLF).sum()),
    }
    return Population(table, grid, [block], seed, metrics=metrics)


async def main() -> None:
    """Print how many animals there are."""
    async with Society(wolf_sheep(seed=1)) as society:
        rows = await society.run(steps=201)
    for row in rows[::25]:
        print(f"step {row['step']}: {row['sheep']} sheep, {row['wolves']} wolves")


if __name__ == "__main__":
    asyncio.run(main())
