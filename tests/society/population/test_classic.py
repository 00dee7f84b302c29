"""The models of examples/models: rows do what full agents do, and known results come out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from examples.models.epidemic import EpidemicBlock, EpidemicParams, epidemic
from examples.models.opinions import OpinionBlock, OpinionParams, opinions
from examples.models.schelling import SchellingBlock, SchellingParams, schelling
from examples.models.wealth import WealthBlock, WealthParams, wealth
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.society.population.lives import lived, same

from moothall import Society
from moothall.foundation.errors import ConfigError
from moothall.society import LocalEngine, Network, Population
from moothall.society.city.grid import Grid

SEEDS = st.integers(0, 2**64 - 1)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.integers(0, 5) | st.just(10**12), min_size=1, max_size=12), SEEDS, st.integers(1, 3)
)
def test_wealth_is_the_same_in_rows(money: list[int], seed: int, gift: int) -> None:
    block = WealthBlock(block_params=WealthParams(gift=gift))
    asyncio.run(same(lambda: Population({"money": np.array(money)}, None, [block], seed), 20))


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(SEEDS, st.integers(0, 1000), st.sampled_from([4, 8]), st.integers(1, 15), st.booleans())
def test_segregation_is_the_same_in_rows(
    seed: int, alike: int, around: int, count: int, torus: bool
) -> None:
    block = SchellingBlock(block_params=SchellingParams(alike=alike))
    grid = Grid(4, 4, torus=torus, around=around, cell_seconds=1)
    table = {"place": np.arange(count, dtype=np.int32), "kind": np.arange(count, dtype=np.int8) % 2}
    asyncio.run(same(lambda: Population(table, grid, [block], seed), 15))


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(SEEDS, st.floats(0, 1), st.floats(0, 1), st.integers(0, 4), st.integers(0, 30))
def test_epidemic_is_the_same_in_rows(
    seed: int, infects: float, recovers: float, meets: int, ill: int
) -> None:
    block = EpidemicBlock(
        block_params=EpidemicParams(infects=infects, recovers=recovers, meets=meets)
    )
    network = Network.random(30, degree=2, seed=seed)
    health = (np.arange(30) < ill).astype(np.int8)
    asyncio.run(
        same(lambda: Population({"health": health}, None, [block], seed, network=network), 15)
    )


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.floats(0, 1), st.floats(0, 0.5), st.booleans())
def test_opinions_are_the_same_in_rows(
    seed: int, bound: float, pull: float, all_meet: bool
) -> None:
    block = OpinionBlock(block_params=OpinionParams(bound=bound, pull=pull))
    network = None if all_meet else Network.random(25, degree=2, seed=seed)
    asyncio.run(same(lambda: Population(25, None, [block], seed, network=network), 15))


async def test_money_comes_to_the_law_of_all_giving_at_once() -> None:
    """Each loses a cent if there is one, and gets a Poisson number of them, as a queue does."""
    citizens, mean = 5_000, 4
    after = await lived(wealth(1, citizens=citizens, mean=mean), 300, LocalEngine())
    assert {int(columns["money"].sum()) for columns in after} == {citizens * mean}
    # The mean of such a queue is r + r² ÷ (2 (1 − r)), with r who can give (Pollaczek, Khinchine).
    givers = mean + 1 - np.sqrt((mean + 1) ** 2 - 2 * mean)
    arrivals = np.exp(-givers) * np.cumprod(np.r_[1.0, givers / np.arange(1, 30)])
    law = np.eye(1, 120)[0]
    for _ in range(2_000):
        law = np.convolve(np.r_[law[0] + law[1], law[2:], 0.0], arrivals)[:120]
    found = np.bincount(after[-1]["money"], minlength=120)[:12] / citizens
    assert found == pytest.approx(law[:12], abs=4 * np.sqrt(0.25 / citizens))


async def test_gini_metric_is_half_the_mean_difference_in_parts_of_the_mean() -> None:
    population = wealth(1, citizens=20, mean=4)
    async with Society(population) as society:
        *_, row = await society.run(steps=20)
    money = population.columns["money"]
    apart = np.abs(money[:, None] - money).mean()
    assert row["gini"] == pytest.approx(apart / 2 / money.mean())


async def test_classic_models_measure_what_they_say() -> None:
    async def lasts(population: Population) -> tuple[Any, dict[str, Any]]:
        async with Society(population) as society:
            return population.columns, (await society.run(steps=3))[-1]

    columns, row = await lasts(wealth(1, citizens=20, mean=1))
    assert row["without"] == (columns["money"] == 0).mean() > 0
    _, row = await lasts(wealth(citizens=3, mean=0))
    assert (row["gini"], row["without"]) == (0, 1)
    first = opinions(1, citizens=4).columns["opinion"]
    two = Network.from_numbers(4, [0], [3])
    alone = opinions(1, citizens=4, bound=1, network=two)
    alone.promote(2)  # who has nobody to hear, too
    columns, row = await lasts(alone)
    assert (columns["opinion"] == first).tolist() == [False, True, True, False]
    assert row["failures"] == 0
    columns, row = await lasts(opinions(1, citizens=150, bound=0.2))
    last = np.sort(columns["opinion"])
    parts = np.split(last, np.flatnonzero(np.diff(last) > 0.05) + 1)
    assert row["groups"] == sum(len(part) >= 2 for part in parts)
    assert row["spread"] == last[-1] - last[0]
    columns, row = await lasts(epidemic(citizens=10, infected=3, infects=0, recovers=0, meets=1))
    assert (row["susceptible"], row["infected"], row["recovered"]) == (0.7, 0.3, 0)
    population = schelling(1, width=10, free=100)
    columns, row = await lasts(population)
    assert len(set(columns["place"].tolist())) == 90
    assert np.bincount(columns["kind"]).tolist() == [45, 45]
    assert row["alike"] == columns["alike"].mean()
    for network, edges in (("small_world", 60), ("scale_free", 57), (None, 120)):
        made = epidemic(1, citizens=30, infected=1, network=network).network
        assert made is not None
        assert edges * 0.8 < len(made.edges) <= edges
    assert epidemic(citizens=30, meets=2).network is None
    for population, params in (
        (wealth(citizens=9, gift=3), {"gift": 3}),
        (schelling(width=5, alike=100), {"alike": 100}),
        (
            epidemic(citizens=9, infected=1, infects=0.2, recovers=0.3, meets=2),
            {"infects": 0.2, "recovers": 0.3, "meets": 2},
        ),
        (opinions(citizens=9, bound=0.3, pull=0.1), {"bound": 0.3, "pull": 0.1}),
    ):
        assert population.blocks[0].params.model_dump(include=set(params)) == params
    for around, count in ((8, 8), (4, 4)):
        cells = schelling(width=5, around=around).city
        assert len(cells.neighbours("0,0")) == count
        assert {"4,0", "0,4"} <= set(cells.neighbours("0,0"))  # a torus
    for make in (wealth, opinions, epidemic):
        made = make(citizens=40)  # type: ignore[operator]
        assert (made.seed, len(made)) == (0, 40)
    assert (len(wealth()), len(epidemic()), len(opinions())) == (1000, 1000, 1000)
    assert (epidemic().columns["health"] == 1).sum() == 10
    assert (len(schelling()), schelling().seed) == (2250, 0)


async def test_neighbours_become_alike() -> None:
    population = schelling(1, width=40, alike=375)
    async with Society(population) as society:
        rows = await society.run(steps=1, step="1s")
        moved = population.columns["moving_to"]
        assert (moved < 0).all()  # all who moved are there, however short the step is
        rows += await society.run(steps=39)
    assert rows[0]["alike"] == pytest.approx(500, abs=25)
    assert rows[-1]["alike"] > 700
    # Nobody moves any more who is content.
    assert rows[-1]["moving"] < rows[0]["moving"] / 10


async def test_epidemic_ends_at_its_final_size() -> None:
    """Newman 2002, Physical Review E 66: the part ever infected solves S = 1 − exp(−z T S)."""
    degree, infects, recovers = 8.0, 0.06, 0.25
    network = Network.random(40_000, degree=degree, seed=2)
    population = epidemic(
        2, citizens=40_000, infected=200, infects=infects, recovers=recovers, network=network
    )
    async with Society(population) as society:
        rows = await society.run(steps=160)
    transmits = 1 - recovers * (1 - infects) / (1 - (1 - recovers) * (1 - infects))
    size = 0.5
    for _ in range(200):
        size = 1 - np.exp(-degree * transmits * size)
    assert rows[-1]["infected"] == 0
    assert rows[-1]["recovered"] == pytest.approx(size, abs=0.02)


@pytest.mark.parametrize(("bound", "groups"), ((0.5, 1), (0.2, 2), (0.1, 5)))
async def test_opinions_gather_in_groups(bound: float, groups: int) -> None:
    """About 1 ÷ (2 · bound) of them, as Deffuant and others found in 2000."""
    population = opinions(3, citizens=4_000, bound=bound)
    last = np.sort((await lived(population, 120, LocalEngine()))[-1]["opinion"])
    parts = np.split(last, np.flatnonzero(np.diff(last) > bound / 4) + 1)
    assert sum(len(part) > 100 for part in parts) == pytest.approx(groups, abs=groups // 5)


@pytest.mark.parametrize(
    ("made", "why"),
    (
        (
            lambda: wealth(citizens=9, gift=0),
            "WealthParams.gift: .* greater than or equal to 1, got 0",
        ),
        (
            lambda: schelling(width=9, alike=1001),
            "SchellingParams.alike: .* equal to 1000, got 1001",
        ),
        (
            lambda: epidemic(citizens=99, infects=2),
            "EpidemicParams.infects: .* less than or equal to 1",
        ),
        (
            lambda: opinions(citizens=9, pull="far"),
            "OpinionParams.pull: .* a valid number.*, got 'far'",
        ),
    ),
)
def test_classic_model_tells_a_wrong_number(made: Callable[[], Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made()
