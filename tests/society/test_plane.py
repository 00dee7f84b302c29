"""A plane without places: where one comes, and who is near whom."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import Column, LocalEngine, Plane, Population, RowBlock, Society


def brute(plane: Plane, x: Any, y: Any, radius: float) -> list[list[int]]:
    """Who is within a radius of whom, pair by pair."""
    near = []
    for a in range(len(x)):
        away = [plane.distance(x[a], y[a], x[b], y[b]) for b in range(len(x))]
        near.append([b for b, each in enumerate(away) if b != a and each <= radius])
    return near


@pytest.mark.parametrize("torus", (False, True))
def test_neighbours_are_those_that_each_pair_tells(torus: bool) -> None:
    plane, random = Plane((10, 4), torus=torus), np.random.default_rng(3)
    x, y = random.uniform(0, 10, 60), random.uniform(0, 4, 60)
    x[1], y[1] = x[0], y[0]
    points = plane.points(x, y)
    starts, others = points.within(1.5)
    wanted = brute(plane, x, y, 1.5)
    assert [others[a:b].tolist() for a, b in itertools.pairwise(starts)] == wanted
    some = np.array([7, 0, 59])
    starts, others = points.within(1.5, some)
    found = [others[a:b].tolist() for a, b in itertools.pairwise(starts)]
    assert found == [wanted[each] for each in some]
    numbers, away = points.nearest(3, some)
    for row, each in enumerate(some):
        order = sorted(plane.distance(x[each], y[each], x[b], y[b]) for b in range(60) if b != each)
        assert away[row].tolist() == pytest.approx(order[:3])
        assert each not in numbers[row]
    alone = plane.points([1.0], [1.0])
    assert alone.within(1.0)[1].tolist() == []
    assert alone.nearest(2)[0].tolist() == [[-1, -1]]


def test_ways_lead_round_the_sides_of_a_torus_and_end_at_those_of_a_plane() -> None:
    torus, plane = Plane(10, torus=True), Plane(10)
    assert torus.moved(9.5, 0.5, 1.0, -1.0) == (0.5, 9.5)
    assert plane.moved(9.5, 0.5, 1.0, -1.0) == (10.0, 0.0)
    assert torus.moved(0.0, 0.0, -1e-18, 0.0) == (0.0, 0.0)
    assert torus.offset(9.5, 0.5, 0.5, 9.5) == (1.0, -1.0)
    assert plane.distance(0, 0, 3, 4) == 5
    assert repr(torus) == "<Plane of 10 × 10, sides joined>"
    for wrong in (0, -1, (1, 2, 3), math.inf, "ab", True):
        with pytest.raises(ConfigError, match="size"):
            Plane(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"position 1, \[11.0, 1.0\], is not on"):
        plane.points([1.0, 11.0], [1.0, 1.0])


class Gathers(RowBlock):
    """Each goes halfway to the middle of those whom it sees, as far as 3 away."""

    columns = {"x": Column("float64", seen=True), "y": Column("float64", seen=True)}  # noqa: RUF012

    def step_rows(self, rows: Any) -> None:
        plane = rows.city
        x, y = rows.seen("x"), rows.seen("y")
        points = rows.once("gathers.points", lambda: plane.points(x, y))
        starts, others = points.within(3.0, rows.index)
        mine = np.repeat(rows.index, np.diff(starts))
        dx, dy = plane.offset(x[mine], y[mine], x[others], y[others])
        at, many = np.repeat(np.arange(len(rows)), np.diff(starts)), np.maximum(1, np.diff(starts))
        along, across = (np.bincount(at, each, len(rows)) / many / 2 for each in (dx, dy))
        rows["x"], rows["y"] = plane.moved(rows["x"], rows["y"], along, across)


async def test_plane_holds_a_population_alike_on_threads() -> None:
    ends = []
    for threads in (1, 3):
        random = np.random.default_rng(5)
        table = {name: random.uniform(0, 20, 200) for name in "xy"}
        people = Population(table, Plane(20, torus=True), [Gathers()], seed=1)
        async with Society(people, engine=LocalEngine(threads=threads)) as society:
            await society.run(steps=15)
            ends.append(np.stack([people.columns["x"], people.columns["y"]]))
    assert (ends[0] == ends[1]).all()
    before, after = (
        len(Plane(20, torus=True).points(*each).within(0.5)[1])
        for each in ((table["x"], table["y"]), ends[0])
    )
    assert after > 3 * before


@pytest.mark.parametrize(("x", "y"), (([1.0], [1.0, 2.0]), (1.0, 1.0), ([[1.0]], [[1.0]])))
def test_plane_positions_of_unequal_lengths_are_refused(x: Any, y: Any) -> None:
    with pytest.raises(ConfigError, match="x and y must be as many numbers, got"):
        Plane(5).points(x, y)
