"""Alliances: actors ally in pairs where both gain, and alliances ally with alliances.

Mesa's example of multi-level alliance formation, whose pairs share a gain as Shapley 1953 ("A value
for n-person games", Contributions to the Theory of Games II) shares it. Two together have 1.2 times
their power, less the more their positions differ; both gain if that is more than what they have.
In each step the actors of each level look at all pairs, in order, and keep the strongest for each.
As in Mesa's example only one of an earlier pair gives it up for a stronger one: of an actor that
was its first the partner, of one that was its second itself; so the other may still come with it.
Of a pair that is kept, who has no alliance joins that of the other. If both have none they found
one, an actor of the next level. If both have one, one of the two, drawn, is made anew by the pair.
Nobody leaves, so an actor is named by its row.

    python examples/models/alliances.py
"""

from __future__ import annotations

import asyncio
import math as standard
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Population, RowBlock, Rows, math
from moothall.society.kernel.draw import uniforms


class AllianceParams(BlockParams):
    """What an alliance gains."""

    gain: float = Field(default=1.2, ge=0, description="the power of two together, in parts")


class AllianceBlock(RowBlock):
    """Lets actors of all levels ally."""

    columns: ClassVar[dict[str, Column]] = {
        "level": Column("int32"),  # 0 for those of the start
        "power": Column("float64"),
        "position": Column("float64"),
        "alliance": Column("int64", -1),  # the row of its alliance, −1 for none
    }
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = AllianceParams
    params: AllianceParams

    def step_rows(self, rows: Rows) -> None:
        """Let each level ally, from the lowest up."""
        made = {name: rows[name].tolist() for name in self.columns}
        drawn = 0
        for level in sorted(set(made["level"])):
            for pair, (power, position) in self.kept(made, level).items():
                has = [one for one in pair if made["alliance"][one] >= 0]
                if has:
                    which = int(rows.uniform("alliances.which", drawn)[0] * len(has))
                    drawn += 1
                    alliance = made["alliance"][has[which]]
                else:
                    alliance = len(made["level"])
                    for name, value in (("level", level + 1), ("alliance", -1)):
                        made[name].append(value)
                    made["power"].append(power)
                    made["position"].append(position)
                made["power"][alliance], made["position"][alliance] = power, position
                for one in pair:
                    if made["alliance"][one] < 0:
                        made["alliance"][one] = alliance
        for new in range(len(rows), len(made["level"])):
            rows.add([0], **{name: values[new] for name, values in made.items()})
        for name, values in made.items():
            rows[name] = np.array(values[: len(rows)], self.columns[name].dtype)

    def kept(self, made: dict[str, Any], level: int) -> dict[Any, tuple[float, float]]:
        """Return the pairs of a level that are kept, with their power and position."""
        power, position = np.array(made["power"]), np.array(made["position"])
        actors = [one for one, its in enumerate(made["level"]) if its == level]
        pairs = np.array([*combinations(actors, 2)], np.int64).reshape(-1, 2)
        one, other = pairs.T
        place = 1 - np.abs(position[one] - position[other])
        together = (power[one] + power[other]) * self.params.gain * place
        extra = (together - power[one] - power[other]) / 2
        gains = (power[one] + extra > power[one]) & (power[other] + extra > power[other])
        best: dict[int, tuple[float, float, tuple[int, int]]] = {}
        for at in np.flatnonzero(gains).tolist():
            low, high = pair = int(one[at]), int(other[at])
            value = float(together[at])
            before = [best.get(low), best.get(high)]
            if any(each is not None and value <= each[0] for each in before):
                continue
            # The second of the pair of the first, and the first of the pair of the second, may be
            # the one that leaves.
            for each, side in zip(before, (1, 0), strict=True):
                if each is not None:
                    best.pop(each[2][side], None)
            best[low] = best[high] = (value, float(place[at]), pair)
        return {pair: (value, where) for value, where, pair in best.values()}


def alliances(
    seed: int = 0, *, actors: int = 50, mean: float = 0.5, deviation: float = 0.1, gain: float = 1.2
) -> Population:
    """Return actors with drawn powers and positions, from 0 to 1, by the normal law.

    Metrics: how many `alliances` there are, their `highest` level, and the share of the actors of
    the start that are `alone`.

    Args:
        seed: the seed of all draws
        actors: how many there are at the start; 2 or more
        mean: of powers and positions
        deviation: of powers and positions, the standard one
        gain: the power of two that agree, in parts of the sum of theirs
    """
    rows = np.arange(actors, dtype=np.uint64)

    def normal(name: str) -> Any:
        """Draw by the normal law, after Box and Muller 1958."""
        far = math.sqrt(-2 * math.log(1 - uniforms(seed, rows, 0, f"alliances.{name}", 0)))
        turn = math.cos(2 * standard.pi * uniforms(seed, rows, 0, f"alliances.{name}", 1))
        return math.clip(mean + deviation * far * turn, 0.0, 1.0)

    table = {"power": normal("power"), "position": normal("position")}
    metrics = {
        "alliances": lambda columns: int((columns["level"] > 0).sum()),
        "highest": lambda columns: int(columns["level"].max()),
        "alone": lambda columns: float((columns["alliance"][columns["level"] == 0] < 0).mean()),
    }
    block = AllianceBlock(block_params={"gain": gain})
    return Population(table, None, [block], seed, metrics=metrics)


async def main() -> None:
    """Print how alliances grow."""
    async with Society(alliances(seed=1)) as society:
        rows = await society.run(steps=8)
    for row in rows:
        print(
            f"step {row['step']}: {row['alliances']} alliances, the highest of level "
            f"{row['highest']}, {row['alone']:.0%} alone"
        )


if __name__ == "__main__":
    asyncio.run(main())
