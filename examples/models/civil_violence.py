"""Civil violence: aggrieved citizens rebel where the police around them are few.

Epstein 2002, "Modeling civil violence: An agent-based computational approach", Proceedings of the
National Academy of Sciences 99, model I; the defaults and the order are those of Mesa's example:
all act one after the other, in a new order in each step. A citizen rebels if its grievance
(hardship · (1 − legitimacy)) less its risk (risk aversion · probability of arrest) is above a
threshold. That probability is 1 − exp(−arrests · round(police ÷ rebels)) of those in sight, itself
included. Police arrest one rebel in sight, for a drawn term. Who is free moves to a free cell in
sight; who is jailed stays where it is.

    python examples/models/civil_violence.py
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Grid, Move, Population, RowBlock, Rows, math
from moothall.society.kernel.draw import uniforms

QUIET, ACTIVE, JAILED, POLICE = range(1, 5)
"""What stands in a cell; 0 for nobody."""


class ViolenceParams(BlockParams):
    """What makes citizens rebel, and what the police do."""

    legitimacy: float = Field(default=0.8, ge=0, le=1, description="how far all accept the state")
    threshold: float = Field(default=0.1, description="of grievance less risk")
    arrests: float = Field(default=2.3, ge=0, description="how arrest grows with police per rebel")
    term: int = Field(default=1000, ge=0, description="the longest term in jail, in steps")
    sight: int = Field(default=7, ge=1, le=1000, description="of citizens, in cells")
    police_sight: int = Field(default=7, ge=1, le=1000, description="of the police, in cells")
    moves: bool = Field(default=True, description="whether the free move")


class ViolenceBlock(RowBlock):
    """Lets citizens rebel or keep quiet, and the police arrest."""

    columns: ClassVar[dict[str, Column]] = {
        "state": Column("int8", QUIET),
        "jail": Column("int32"),
        "hardship": Column("float64"),
        "aversion": Column("float64"),
    }
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = ViolenceParams
    params: ViolenceParams

    def begin_rows(self, rows: Rows) -> None:
        """Draw hardship and the aversion to risk."""
        rows["hardship"] = rows.uniform("violence.hardship")
        rows["aversion"] = rows.uniform("violence.aversion")

    def step_rows(self, rows: Rows) -> None:
        """Let each act in its turn, where the next sees it."""
        params, grid = self.params, rows.city
        sight, police_sight = grid.within(params.sight), grid.within(params.police_sight)
        state, jail, place = (rows[name].tolist() for name in ("state", "jail", "place"))
        cells = np.zeros(len(grid) + 1, np.int8)  # the last: beyond a border
        cells[-1] = -1
        cells[place] = state
        who = np.full(len(grid), -1)
        who[place] = rows.index
        grievance = (rows["hardship"] * (1 - params.legitimacy)).tolist()
        aversion = rows["aversion"].tolist()
        most = np.arange(sight.shape[1] + 1)
        arrest = (1 - math.exp(-params.arrests * most)).tolist()
        goes, takes = rows.uniform("violence.goes"), rows.uniform("violence.takes")
        terms = rows.below(params.term + 1, "violence.term")
        for one in rows.order("violence.order").tolist():
            if jail[one]:
                jail[one] -= 1
                continue
            here = place[one]
            near = police_sight[here] if state[one] == POLICE else sight[here]
            seen = cells[near]
            active = np.flatnonzero(seen == ACTIVE)
            if state[one] != POLICE:
                police = np.count_nonzero(seen == POLICE)
                risk = aversion[one] * arrest[round(police / (len(active) + 1))]
                rebels = grievance[one] - risk > params.threshold
                state[one] = cells[here] = ACTIVE if rebels else QUIET
            elif len(active):
                cell = near[active[int(takes[one] * len(active))]]
                taken = int(who[cell])
                state[taken] = cells[cell] = JAILED
                jail[taken] = int(terms[one])
            free = np.flatnonzero(seen == 0)
            if params.moves and len(free):
                to = int(near[free[int(goes[one] * len(free))]])
                cells[to], cells[here] = state[one], 0
                who[to], who[here] = one, -1
                place[one] = to
        rows["state"], rows["jail"] = np.array(state, np.int8), np.array(jail, np.int32)
        rows.want(Move, np.array(place) != rows["place"], to=np.array(place))


def civil_violence(
    seed: int = 0,
    *,
    width: int = 40,
    height: int = 40,
    citizens: float = 0.7,
    police: float = 0.074,
    **params: Any,
) -> Population:
    """Return citizens and police on a torus, where one sees its four directions' cells.

    Metrics: how many citizens are `quiet`, `active` and `jailed`.

    Args:
        seed: the seed of all draws
        width: columns; 3 or more
        height: rows; 3 or more
        citizens: the probability that a cell has a citizen at the start
        police: the probability that a cell has police at the start
        params: those of `ViolenceParams`
    """
    # Moves end in cells that are free in the order of the turns, not in that of the ids.
    grid = Grid(width, height, torus=True, around=4, capacity=None, cell_seconds=0)
    drawn = uniforms(seed, np.arange(len(grid), dtype=np.uint64), 0, "violence.first")
    place = np.flatnonzero(drawn < citizens + police)
    state = np.where(drawn[place] < citizens, QUIET, POLICE)
    table = {"place": place.astype(np.int32), "state": state.astype(np.int8)}
    names = (("quiet", QUIET), ("active", ACTIVE), ("jailed", JAILED))
    metrics = {name: number_of(code) for name, code in names}
    block = ViolenceBlock(block_params=params)
    return Population(table, grid, [block], seed, metrics=metrics)


def number_of(state: int) -> Any:
    """Return the metric of how many are in a state."""
    return lambda columns: int((columns["state"] == state).sum())


async def main() -> None:
    """Print how rebellions come and go."""
    async with Society(civil_violence(seed=1)) as society:
        rows = await society.run(steps=51)
    for row in rows[::10]:
        print(f"step {row['step']}: {row['active']} rebel, {row['jailed']} are in jail")


if __name__ == "__main__":
    asyncio.run(main())
