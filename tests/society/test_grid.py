"""Grids of cells."""

from __future__ import annotations

import numpy as np
import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import Grid


def test_neighbours_and_sides() -> None:
    assert Grid(3, 3).neighbours("0,0") == ("0,1", "1,0", "1,1")
    assert Grid(3, 3, around=4).neighbours("1,1") == ("0,1", "1,0", "1,2", "2,1")
    assert Grid(4, 3, around=4, torus=True).neighbours("0,0") == ("0,1", "0,2", "1,0", "3,0")
    assert Grid(1, 1, torus=True).neighbours("0,0") == ()
    assert Grid(2, 1, torus=True).neighbours("0,0") == ("1,0",)


@pytest.mark.parametrize("around", (4, 8))
@pytest.mark.parametrize("torus", (False, True))
def test_grid_seconds_are_those_from_neighbour_to_neighbour(around: int, torus: bool) -> None:
    grid = Grid(5, 4, around=around, torus=torus, cell_seconds=10)
    for start in grid.ids():
        steps = {start: 0}
        waiting = [start]
        for here in waiting:
            for cell in grid.neighbours(here):
                if cell not in steps:
                    steps[cell] = steps[here] + 1
                    waiting.append(cell)
        assert {cell: grid.seconds(start, cell) for cell in grid.ids()} == {
            cell: 10 * count for cell, count in steps.items()
        }


@pytest.mark.parametrize("around", (4, 8))
@pytest.mark.parametrize("torus", (False, True))
def test_neighbours_in_columns_are_those_of_each_cell(around: int, torus: bool) -> None:
    grid = Grid(4, 3, around=around, torus=torus)
    ids = grid.ids()
    for cell, found in zip(ids, grid.next_to.tolist(), strict=True):
        assert {ids[each] for each in found if each >= 0} == set(grid.neighbours(cell))
    assert grid.ways_rows([0, 1], [3, 1], [None]).tolist() == [[grid.seconds(ids[0], ids[3])], [0]]
    with pytest.raises(ConfigError, match="mode"):
        grid.ways_rows([0], [3], ["walk"])
    left, up, down, right = grid.next_to[ids.index("1,1")].tolist()[:4]
    assert [ids[each] for each in (left, up, down, right)] == ["0,1", "1,0", "1,2", "2,1"]


@pytest.mark.parametrize("around", (4, 8))
@pytest.mark.parametrize("torus", (False, True))
def test_cells_within_a_radius_are_those_so_many_steps_away(around: int, torus: bool) -> None:
    grid = Grid(6, 3, around=around, torus=torus, cell_seconds=1)
    ids = grid.ids()
    for radius in (1, 2, 9):
        table = grid.within(radius)
        for cell, near in zip(ids, table.tolist(), strict=True):
            found = [ids[each] for each in near if each >= 0]
            expected = {each for each in ids if 0 < grid.seconds(cell, each) <= radius}
            assert sorted(found) == sorted(expected)
    with pytest.raises(ConfigError, match="radius must be a whole number"):
        grid.within(0)


def test_cells_within_a_radius_are_in_order_of_their_offset() -> None:
    grid = Grid(3, 3)
    ids = grid.ids()
    middle = grid.within(1)[ids.index("1,1")].tolist()
    assert [ids[each] for each in middle] == [each for each in ids if each != "1,1"]
    assert grid.within(1)[0].tolist()[:4] == [-1] * 4  # of "0,0" what would lie to the left, above


def test_capacity_and_position() -> None:
    assert Grid(3, 2).capacity("2,1") == 1
    assert Grid(3, 2, capacity=None).capacity("2,1") is None
    assert Grid(3, 2).position("2,1") == (2, 1)
    for wrong in ("2,2", "3,1", "-1,0", "02,1", "2;1", "٢,1", "2,1,0", None):
        with pytest.raises(ConfigError, match="the grid has no cell"):
            Grid(3, 2).capacity(wrong)  # type: ignore[arg-type]


def test_grid_has_four_or_eight_cells_around_each() -> None:
    with pytest.raises(ConfigError, match="around must be 4 or 8, got 6"):
        Grid(3, 3, around=6)


def test_grid_index_of_columns_and_rows_lays_a_map_out_in_the_order_of_ids() -> None:
    grid = Grid(12, 11)
    assert [grid.ids()[grid.index_of(x, y)] for x, y in ((0, 2), (10, 1))] == ["0,2", "10,1"]
    heights = np.arange(12 * 11).reshape(12, 11)
    values = heights[tuple(grid.cells.T)]
    assert (values[grid.index_of(*np.indices((12, 11)))] == heights).all()
    with pytest.raises(ConfigError, match="x must be from 0 to 11, y to 10"):
        grid.index_of(11, 11)
    with pytest.raises(ConfigError, match="x and y must be whole numbers, got float64"):
        grid.index_of(0.5, 1)
