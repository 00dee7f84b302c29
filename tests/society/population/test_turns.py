"""Turns within a step: citizens that act one after the other, in columns."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.society.population.lives import lived

from moothall import CitizenAgent, Society
from moothall.foundation.errors import ConfigError
from moothall.society import Column, Grid, LocalEngine, Network, Population, RowBlock, Rows


class Whispers(RowBlock):
    """Adds up what the neighbours have said so far, and says it; in its turn, or in a loop."""

    columns: ClassVar[dict[str, Column]] = {"said": Column("int64", 1), "at": Column("int32")}
    whole: ClassVar[bool] = True

    def __init__(self, by_turns: bool, purpose: str | None) -> None:
        super().__init__()
        self.by_turns, self.purpose = by_turns, purpose

    def step_rows(self, rows: Rows) -> None:
        """Speak."""
        starts, others = rows.links()
        said, at = rows["said"], rows["at"]
        order = rows.index if self.purpose is None else rows.order(self.purpose)
        at[order] = np.arange(len(rows))
        turns: Any = rows.turns(self.purpose) if self.by_turns else order[:, None]
        for now in turns:
            sums = [said[others[starts[one] : starts[one + 1]]].sum() for one in now]
            said[now] = (said[now] + sums) % 1_000_003
        rows["said"], rows["at"] = said, at


def whispers(by_turns: bool, purpose: str | None = "order") -> Population:
    network = Network.random(60, degree=5, seed=4)
    return Population(60, None, [Whispers(by_turns, purpose)], seed=9, network=network)


@pytest.mark.parametrize("purpose", ("order", None))
async def test_turns_come_to_what_one_after_the_other_comes_to(purpose: str | None) -> None:
    alone = await lived(whispers(False, purpose), 4, LocalEngine())
    turns = await lived(whispers(True, purpose), 4, LocalEngine(threads=3))
    for one, other in zip(alone, turns, strict=True):
        assert one["said"].tolist() == other["said"].tolist()
        assert sorted(one["at"].tolist()) == list(range(60))
    drawn = [each["at"].tolist() for each in alone]
    assert (drawn[0] == drawn[1]) is (purpose is None)  # another order in each step


class Eats(RowBlock):
    """Takes what lies on its place, of those of its breed alone."""

    columns: ClassVar[dict[str, Column]] = {"breed": Column("int8"), "eaten": Column("int64")}
    whole: ClassVar[bool] = True
    breed: ClassVar[int]

    def fits_rows(self, rows: Rows) -> Any:
        return rows["breed"] == self.breed

    def before_rows(self, rows: Rows) -> None:
        """Food grows, once in a step."""
        rows.layers["food"] = 1

    def step_rows(self, rows: Rows) -> None:
        """Eat one after the other."""
        food, eaten, place = rows.layers["food"], rows["eaten"], rows["place"]
        for now in rows.order("eats"):
            eaten[now] += food[place[now]]
            food[place[now]] = 0
        rows["eaten"] = eaten


class Wolf(Eats):
    breed = 0


class Fox(Eats):
    breed = 1


async def eaten(kinds: list[type[Eats]], mixed: bool) -> list[int]:
    """Return how much 60 wolves and 60 foxes of one place have eaten after 200 steps."""
    people = {"place": np.zeros(120, int), "breed": np.arange(120) % 2}
    blocks = [type(each.__name__, (each,), {"mixed": mixed})() for each in kinds]
    grid, layers = Grid(1, 1, capacity=None), {"food": Column("float64")}
    population = Population(people, grid, blocks, seed=4, layers=layers)
    async with Society(population) as society:
        await society.run(steps=200)
    sums = np.bincount(population.columns["breed"], population.columns["eaten"])
    return [int(each) for each in sums]


async def test_mixed_blocks_of_two_kinds_have_equal_chances_in_any_order_of_the_list() -> None:
    assert await eaten([Wolf, Fox], mixed=False) == [200, 0]  # the first block takes all
    wolves, foxes = await eaten([Wolf, Fox], mixed=True)
    assert wolves + foxes == 200
    assert 70 < wolves < 130  # 100 ± 7
    assert await eaten([Fox, Wolf], mixed=True) == [wolves, foxes]


def test_block_that_says_mixed_and_not_whole_is_refused() -> None:
    class Parts(RowBlock):
        mixed = True

    with pytest.raises(ConfigError, match="'Parts' says `mixed = True`: say `whole = True` too"):
        Population(3, None, [Parts()])


async def test_citizen_of_a_block_of_all_rows_is_not_promoted_alone() -> None:
    population = whispers(True)
    refused = "block 'Whispers' says `whole = True`.* citizen 7 alone"
    population.promote(3, blocks=[])
    async with Society(population) as society:
        with pytest.raises(ConfigError, match=refused):
            population.promote(7)
        assert population.full.tolist() == [id == 3 for id in range(1, 61)]
        with pytest.raises(ConfigError, match=refused.replace("7", "3")):
            await asyncio.to_thread(
                society.replace,
                population.agents[2],
                CitizenAgent(3, blocks=[Whispers(True, None)]),
            )
    population = whispers(True)
    population.promote(7)
    with pytest.raises(ConfigError, match=refused):
        Society(population)


async def test_rows_order_is_any_order_equally_often() -> None:
    class Orders(RowBlock):
        columns: ClassVar[dict[str, Column]] = {"place_in_line": Column("int32", width=400)}
        whole: ClassVar[bool] = True

        def step_rows(self, rows: Rows) -> None:
            made = rows["place_in_line"].copy()
            for number in range(400):
                made[rows.order(f"orders.{number}"), number] = np.arange(3)
            rows["place_in_line"] = made

    last = (await lived(Population(3, None, [Orders()], 5), 1, LocalEngine()))[-1]
    orders, counts = np.unique(last["place_in_line"], axis=1, return_counts=True)
    assert orders.shape == (3, 6)
    assert counts.min() > 40  # of 400 in six orders; less has a probability below 10⁻⁴


async def test_turns_beyond_the_border_of_a_grid_are_nobodys() -> None:
    class Alone(RowBlock):
        columns: ClassVar[dict[str, Column]] = {"turn": Column("int64")}
        whole: ClassVar[bool] = True

        def step_rows(self, rows: Rows) -> None:
            around = rows.city.next_to  # with −1 beyond the border
            links = np.arange(len(rows) + 1) * around.shape[1], around.ravel()
            for number, now in enumerate(rows.turns(None, links)):
                rows["turn"][now] = number

    corners = Population({"place": np.arange(9)}, Grid(3, 3, around=4), [Alone()], 1)
    last = (await lived(corners, 1, LocalEngine()))[-1]
    assert last["turn"].tolist() == [0, 1, 2, 1, 2, 3, 2, 3, 4]


@pytest.mark.parametrize("method", ("order", "turns"))
async def test_rows_order_of_a_block_without_whole_is_refused(method: str) -> None:
    class Parts(RowBlock):
        def step_rows(self, rows: Rows) -> None:
            getattr(rows, method)("parts")

    async with Society(Population(5, None, [Parts()], 1)) as society:
        with pytest.raises(ConfigError, match=rf"Parts: rows.{method} .* say `whole = True`"):
            await society.step()


async def test_turns_by_links_of_other_citizens_are_refused() -> None:
    class Links(RowBlock):
        whole: ClassVar[bool] = True

        def step_rows(self, rows: Rows) -> None:
            rows.turns(None, ([0, 1], [2]))

    async with Society(Population(5, None, [Links()], 1)) as society:
        with pytest.raises(ConfigError, match="links must be starts and neighbours of all 5"):
            await society.step()


async def test_births_and_deaths_at_no_positions_are_none() -> None:
    class Nobody(RowBlock):
        def step_rows(self, rows: Rows) -> None:
            rows.add([])
            rows.remove([])

    class Halves(RowBlock):
        def step_rows(self, rows: Rows) -> None:
            rows.remove([0.5])

    population = Population(3, None, [Nobody()], 1)
    async with Society(population) as society:
        await society.run(steps=2)
    assert population.ids.tolist() == [1, 2, 3]
    async with Society(Population(3, None, [Halves()], 1)) as society:
        with pytest.raises(ConfigError, match="must be booleans or positions, got"):
            await society.step()
