"""Boids: a flock that nobody leads, of birds that each mind those around them.

Reynolds 1987, "Flocks, herds, and schools: A distributed behavioral model", Computer Graphics 21;
the defaults, the weights and the order are those of Mesa's example. A bird turns towards the birds
that it sees (cohesion), away from those that are too near (separation), and to where they fly
(alignment), then flies on. Turns are `random` (one after the other in a new order in each step) or
`simultaneous`, which suits large flocks. The sides of the plane are joined.

    python examples/models/boids.py
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from moothall import BlockParams, Society
from moothall.society import Column, Plane, Population, RowBlock, Rows
from moothall.society.kernel.draw import uniforms


class BoidsParams(BlockParams):
    """How birds see and fly."""

    turns: Literal["random", "simultaneous"] = "random"
    speed: float = Field(default=1.0, ge=0, description="units a step")
    sight: float = Field(default=10.0, gt=0, description="how far others are seen, in units")
    apart: float = Field(default=2.0, ge=0, description="nearer ones are avoided")
    cohere: float = Field(default=0.03, description="the weight of turning to the others")
    separate: float = Field(default=0.015, description="the weight of turning from the near ones")
    match: float = Field(default=0.05, description="the weight of flying as they do")


class BoidsBlock(RowBlock):
    """Turns a bird by those it sees, and lets it fly."""

    columns: ClassVar[dict[str, Column]] = {
        name: Column("float64") for name in ("x", "y", "right", "up")
    }
    whole: ClassVar[bool] = True
    ParamsType: ClassVar[type[BlockParams]] = BoidsParams
    params: BoidsParams

    def step_rows(self, rows: Rows) -> None:
        """Let each have its turn."""
        names = ("x", "y", "right", "up")
        birds = np.array([rows[name] for name in names])
        turns: Any = [rows.index]
        if self.params.turns == "random":
            # Who is further away is not seen in this step, though both fly towards each other.
            longest = max(1.0, float(np.sqrt((birds[2:] * birds[2:]).sum(axis=0).max())))
            far = self.params.sight + 2 * longest * self.params.speed
            turns = rows.turns("boids.order", rows.city.points(*birds[:2]).within(far))
        for now in turns:
            birds[:, now] = self._flown(rows.city, birds, now)
        for name, values in zip(names, birds, strict=True):
            rows[name] = values

    def _flown(self, plane: Plane, birds: Any, now: Any) -> Any:
        """Return positions and directions of some birds after their turns."""
        params = self.params
        x, y, right, up = birds
        starts, others = plane.points(x, y).within(params.sight, now)
        many = np.diff(starts)
        me, part = np.repeat(now, many), np.repeat(np.arange(len(now)), many)
        dx, dy = plane.offset(x[me], y[me], x[others], y[others])
        near = dx * dx + dy * dy < params.apart * params.apart
        weight = params.cohere - np.where(near, params.separate, 0.0)
        turned = []
        for way, flies in ((dx, right), (dy, up)):
            turn = np.bincount(part, way * weight + flies[others] * params.match, len(now))
            turned.append(flies[now] + turn / np.maximum(many, 1))
        # As in Mesa's example, only who sees others flies at the common speed from the start.
        length = np.sqrt(turned[0] * turned[0] + turned[1] * turned[1])
        length = np.where((many > 0) & (length > 0), length, 1.0)
        right, up = (each / length for each in turned)
        return *plane.moved(x[now], y[now], right * params.speed, up * params.speed), right, up


def boids(
    seed: int = 0,
    *,
    birds: int = 100,
    width: float = 100,
    height: float = 100,
    **params: Any,
) -> Population:
    """Return birds at drawn positions, with drawn directions.

    Metric: `order`, the length of the mean of all directions: 1 if all fly the same way.

    Args:
        seed: the seed of all draws
        birds: how many there are
        width: of the plane, in units
        height: of the plane, in units
        params: those of `BoidsParams`
    """
    rows = np.arange(birds, dtype=np.uint64)
    drawn = {name: uniforms(seed, rows, 0, f"boids.{name}") for name in ("x", "y", "right", "up")}
    table = {
        "x": drawn["x"] * width,
        "y": drawn["y"] * height,
        "right": drawn["right"] * 2 - 1,
        "up": drawn["up"] * 2 - 1,
    }
    block = BoidsBlock(block_params=params)
    plane = Plane((width, height), torus=True)
    return Population(table, plane, [block], seed, metrics={"order": order})


def order(columns: Any) -> float:
    """Return the length of the mean of all directions."""
    right, up = columns["right"], columns["up"]
    length = np.sqrt(right * right + up * up)
    length = np.where(length > 0, length, 1.0)
    x, y = (right / length).mean(), (up / length).mean()
    return float(np.sqrt(x * x + y * y))


async def main() -> None:
    """Print how the birds come to fly the same way."""
    async with Society(boids(seed=1)) as society:
        rows = await society.run(steps=101)
    for row in rows[::20]:
        print(f"step {row['step']}: the mean direction has length {row['order']:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
