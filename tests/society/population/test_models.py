"""The models of examples/models that Mesa has too: the same by their seed, and a known property."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from examples.models.alliances import AllianceBlock, alliances
from examples.models.boids import BoidsBlock, boids
from examples.models.boltzmann import boltzmann
from examples.models.civil_violence import civil_violence
from examples.models.life import life
from examples.models.prisoners import prisoners
from examples.models.schelling import schelling
from examples.models.sugarscape import sugarscape
from examples.models.virus import virus
from examples.models.wolf_sheep import wolf_sheep
from tests.society.population.lives import differing, lived, same

from moothall.society import LocalEngine, Network, Population, Rows

MODELS: dict[str, Callable[[int], Population]] = {
    "alliances": lambda seed: alliances(seed, actors=15),
    "boids": lambda seed: boids(seed, birds=40, width=30, height=30),
    "boltzmann": lambda seed: boltzmann(seed, citizens=30, width=4, height=5),
    "civil violence": lambda seed: civil_violence(seed, width=12, height=12, sight=3),
    "life": lambda seed: life(seed, width=12, height=9),
    "prisoners": lambda seed: prisoners(seed, width=8, height=11),
    "schelling": lambda seed: schelling(seed, width=9, turns="random"),
    "sugarscape": lambda seed: sugarscape(seed, width=12, height=12, traders=20),
    "virus": lambda seed: virus(seed, citizens=40, first=3),
    "wolf-sheep": lambda seed: wolf_sheep(seed, width=9, height=8, sheep=30, wolves=6),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
async def test_mesa_model_is_the_same_by_its_seed_on_any_threads(
    make: Callable[[int], Population],
) -> None:
    one = await lived(make(3), 4, LocalEngine())
    again = await lived(make(3), 4, LocalEngine(threads=2))
    other = await lived(make(4), 4, LocalEngine())
    assert [each.keys() for each in one] == [each.keys() for each in again]
    assert [len(each["money"]) for each in one] == [len(each["money"]) for each in again]
    assert differing(one, again) == []
    assert any(
        a[name].tobytes() != b[name].tobytes()
        for a, b in zip(one, other, strict=True)
        for name in a
    )


async def test_life_is_the_same_in_rows() -> None:
    await same(lambda: life(2, width=6, height=5, alive=0.4), 6)


async def test_life_glider_is_a_cell_further_after_four_steps() -> None:
    start = np.zeros((6, 6), bool)
    start[[1, 2, 0, 1, 2], [0, 1, 2, 2, 2]] = True
    population = life(width=6, height=6, start=start)
    cells = population.city.cells
    after = await lived(population, 4 * 6, LocalEngine())
    for steps, by in ((4, 1), (8, 2), (24, 6)):  # at last round both sides
        moved = np.roll(start, (by, by), (0, 1))
        assert (after[steps - 1]["alive"] == moved[cells[:, 0], cells[:, 1]]).all()


async def test_rebels_without_police_are_all_whose_grievance_is_above_the_threshold() -> None:
    population = civil_violence(1, width=10, height=10, police=0, legitimacy=0.7)
    after = await lived(population, 3, LocalEngine())
    for each in after:
        assert ((each["state"] == 2) == (each["hardship"] * (1 - 0.7) > 0.1)).all()
        assert len(set(each["place"].tolist())) == len(each["place"])
    assert (after[0]["place"] != after[1]["place"]).mean() > 0.8


async def test_civil_violence_jails_rebels_who_stay_where_they_are() -> None:
    population = civil_violence(1, width=12, height=12, police=0.05, legitimacy=0.2, arrests=0)
    after = await lived(population, 5, LocalEngine())
    jailed = [each["state"] == 3 for each in after]
    assert 0 < jailed[0].sum() < jailed[-1].sum()
    for before, now in itertools.pairwise(after):
        still = (before["state"] == 3) & (before["jail"] > 0)
        assert (before["place"][still] == now["place"][still]).all()
        assert len(set(now["place"].tolist())) == len(now["place"])


async def test_wolves_without_sheep_starve_by_their_energy() -> None:
    population = wolf_sheep(1, width=5, height=5, sheep=0, wolves=20, wolf_child=0)
    energy = population.columns["energy"][25:].copy()
    after = await lived(population, 41, LocalEngine())
    alive = [len(each["kind"]) - 25 for each in after]
    assert alive == [int((energy >= step).sum()) for step in range(1, 42)]
    assert alive[0] > 0 == alive[-1]


async def test_sheep_that_have_no_children_eat_grass_that_grows_again() -> None:
    population = wolf_sheep(2, width=4, height=4, sheep=6, wolves=0, sheep_child=0, regrowth=3)
    after = await lived(population, 12, LocalEngine())
    for step, each in enumerate(after):
        grown = each["grown"][:16]
        assert (grown <= step + 4).all()
        assert ((each["place"] >= 0) & (each["place"] < 16)).all()
    assert len({*map(len, (each["kind"] for each in after))}) <= 7  # nobody is born


async def test_boids_that_mind_only_directions_come_to_fly_the_same_way() -> None:
    population = boids(1, birds=60, width=20, height=20, cohere=0, separate=0, match=1)
    after = await lived(population, 20, LocalEngine())
    right, up = after[-1]["right"], after[-1]["up"]
    assert right * right + up * up == pytest.approx(1)
    assert np.hypot(right.mean(), up.mean()) > 0.95


async def test_boids_by_turns_fly_as_one_after_the_other() -> None:
    class OneAfterTheOther(BoidsBlock):
        def step_rows(self, rows: Rows) -> None:
            names = ("x", "y", "right", "up")
            birds = np.array([rows[name] for name in names])
            for one in rows.order("boids.order"):
                now = np.array([one])
                birds[:, now] = self._flown(rows.city, birds, now)
            for name, values in zip(names, birds, strict=True):
                rows[name] = values

    population = boids(1, birds=25, width=30, height=20, sight=4, speed=0.7)
    table = {name: population.columns[name].copy() for name in ("x", "y", "right", "up")}
    alone = Population(
        table, population.city, [OneAfterTheOther(block_params={"sight": 4, "speed": 0.7})], 1
    )
    turns = await lived(population, 4, LocalEngine())
    assert differing(await lived(alone, 4, LocalEngine()), turns) == []
    simultaneous = boids(1, birds=25, width=30, height=20, sight=4, speed=0.7, turns="simultaneous")
    assert differing(await lived(simultaneous, 4, LocalEngine()), turns)


async def test_boids_that_are_too_near_fly_apart() -> None:
    def apart(columns: dict[str, Any]) -> float:
        x, y = columns["x"], columns["y"]
        return float(np.hypot(x[0] - x[1], y[0] - y[1]))

    population = boids(1, birds=2, width=50, height=50, sight=5, apart=5, cohere=0, match=0)
    table = {"x": np.array([20.0, 20.5]), "y": np.array([20.0, 20.0])}
    table |= {"right": np.array([0.0, 0.0]), "up": np.array([1.0, 1.0])}
    near = Population(table, population.city, population.blocks, 1)
    after = await lived(near, 20, LocalEngine())
    assert apart(after[-1]) > 1


async def test_virus_that_always_spreads_reaches_all_linked_to_its_first() -> None:
    network = Network.from_numbers(8, [0, 1, 2, 5], [1, 2, 3, 6])
    population = virus(1, citizens=8, spreads=1, checks=0, network=network)
    first = int(np.flatnonzero(population.columns["health"] == 1)[0])
    after = await lived(population, 8, LocalEngine())
    groups = ({0, 1, 2, 3}, {5, 6}, {4}, {7})
    reached = {*np.flatnonzero(after[-1]["health"] == 1).tolist()}
    assert reached == next(each for each in groups if first in each)


async def test_virus_ends_in_immunity_where_all_notice_it() -> None:
    population = virus(1, citizens=30, first=5, spreads=0, checks=1, recovers=1, immune=1)
    carries = population.columns["health"] == 1
    after = await lived(population, 1, LocalEngine())
    assert ((after[0]["health"] == 2) == carries).all()


@pytest.mark.parametrize("turns", ("random", "sequential", "simultaneous"))
async def test_prisoners_without_temptation_come_to_cooperate(turns: str) -> None:
    start = np.ones((6, 7), bool)
    start[2, 3] = False
    after = await lived(
        prisoners(1, width=6, height=7, turns=turns, temptation=0, start=start), 3, LocalEngine()
    )
    assert after[-1]["cooperates"].all()


async def test_prisoner_in_simultaneous_turns_does_as_the_best_neighbour_did() -> None:
    start = np.random.default_rng(1).random((6, 5)) < 0.5
    population = prisoners(1, width=6, height=5, turns="simultaneous", start=start)
    cells = population.city.cells
    payoff, moves = np.zeros((6, 5)), start
    around = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]
    for each in await lived(population, 4, LocalEngine()):
        best = np.array([np.roll(payoff, (-x, -y), (0, 1)) for x, y in around] + [payoff])
        theirs = np.array([np.roll(moves, (-x, -y), (0, 1)) for x, y in around] + [moves])
        moves = np.take_along_axis(theirs, best.argmax(axis=0)[None], 0)[0]
        near = sum(np.roll(moves, (-x, -y), (0, 1)).astype(int) for x, y in around)
        payoff = payoff + np.where(moves, near, 1.6 * near)
        assert (each["cooperates"] == moves[cells[:, 0], cells[:, 1]]).all()
        assert each["payoff"] == pytest.approx(payoff[cells[:, 0], cells[:, 1]])


async def test_traders_that_find_nothing_starve_together() -> None:
    population = sugarscape(
        1, width=9, height=9, traders=10, endowment=(4, 4), eats=(1, 1), sugar=np.zeros((9, 9))
    )
    after = await lived(population, 4, LocalEngine())
    assert [int(each["trader"].sum()) for each in after] == [10, 10, 10, 0]
    assert all(each["trades"].sum() == 0 for each in after)  # all value both alike


async def test_trade_makes_no_sugar_and_no_spice() -> None:
    population = sugarscape(1, width=8, height=8, traders=20, sugar=np.zeros((8, 8)))
    had = {name: population.columns[name].sum() for name in ("sugar", "spice")}
    (after,) = await lived(population, 1, LocalEngine())
    assert len(after["trader"]) == 64 + 20
    assert after["trades"].sum() > 5
    for name, total in had.items():
        assert after[name].sum() == total - after[f"eats_{name}"].sum()
        assert (after[name][64:] > 0).all()


async def test_actors_ally_with_whom_both_gain_and_alliances_ally_with_alliances() -> None:
    # The third and the fourth agree, the first and the second nearly; pairs of both are too far.
    table = {"power": np.array([0.4, 0.4, 0.3, 0.3]), "position": np.array([0.2, 0.25, 0.9, 0.9])}
    after = await lived(Population(table, None, [AllianceBlock()], 1), 3, LocalEngine())
    assert after[0]["alliance"].tolist() == [4, 4, 5, 5, -1, -1]
    assert after[0]["level"].tolist() == [0, 0, 0, 0, 1, 1]
    assert after[0]["power"][4:] == pytest.approx([0.8 * 1.2 * 0.95, 0.6 * 1.2])
    assert after[0]["position"][4:] == pytest.approx([0.95, 1.0])
    # The two alliances stand near each other, and found one of the second level.
    assert after[1]["alliance"].tolist() == [4, 4, 5, 5, 6, 6, -1]
    assert after[2]["alliance"].tolist() == after[1]["alliance"].tolist()


async def test_alliance_is_not_made_without_a_gain() -> None:
    after = await lived(alliances(1, actors=20, gain=1), 2, LocalEngine())
    assert after[-1]["alliance"].tolist() == [-1] * 20


async def test_segregation_by_turns_moves_only_the_discontent_to_free_cells() -> None:
    population = schelling(1, width=20, alike=400, turns="random", torus=False)
    grid = population.city
    before = {name: population.columns[name].copy() for name in ("place", "kind")}
    for after in await lived(population, 5, LocalEngine()):
        near = grid.next_to[before["place"]]
        kinds = np.full(len(grid) + 1, -1, np.int8)  # the last: beyond a border
        kinds[before["place"]] = before["kind"]
        like = (kinds[near] == before["kind"][:, None]).sum(axis=1)
        others = (kinds[near] >= 0).sum(axis=1)
        moved = after["place"] != before["place"]
        assert (moved == (like * 5 < others * 2) | (others == 0)).all()
        assert len(set(after["place"].tolist())) == len(after["place"])
        before = after


async def test_segregation_begins_where_its_start_has_citizens() -> None:
    start = np.full((4, 5), -1)
    start[1, 2], start[3, 0] = 0, 1
    with pytest.raises(ValueError, match=r"start= must be 6 × 6 kinds, got \(4, 5\)"):
        schelling(start=start, width=6)
    start = np.full((5, 5), -1)
    start[1, 2], start[3, 0] = 0, 1
    made = schelling(start=start, width=5, turns="random")
    cells = made.city.cells[made.columns["place"]].tolist()
    assert dict(zip(map(tuple, cells), made.columns["kind"].tolist(), strict=True)) == {
        (1, 2): 0,
        (3, 0): 1,
    }
    with pytest.raises(ValueError, match="turns= must be 'simultaneous' or 'random', got 'both'"):
        schelling(turns="both")  # type: ignore[arg-type]


async def test_coins_go_to_those_in_the_cell_and_none_is_lost() -> None:
    after = await lived(boltzmann(1, citizens=40, width=4, height=3), 6, LocalEngine())
    ids = boltzmann(1, citizens=40, width=4, height=3).city.cells
    for before, now in itertools.pairwise(after):
        assert now["coins"].sum() == 40
        assert now["coins"].min() >= 0
        steps = np.abs(ids[now["place"]] - ids[before["place"]]).max(axis=1)
        assert (steps == 1).all()
    alone = await lived(boltzmann(1, citizens=1), 3, LocalEngine())
    assert alone[-1]["coins"].tolist() == [1]
