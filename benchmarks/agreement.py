"""The classic models beside Mesa's: whether both come to the same, over seeds.

    python -m benchmarks.agreement [--quick]

Mesa's `Schelling` and `VirusOnNetwork` are its own examples, its wealth model is that of its
tutorial, and its opinions are Deffuant's pairs, all by `shuffle_do`: one agent after the other.
Ours change all at once. Where that changes nothing, `interval` (95 %, of the difference of the
means) includes zero; where the order matters by law, `law` is what the order of each gives.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from examples.models.epidemic import EpidemicBlock, EpidemicParams
from examples.models.opinions import opinions
from examples.models.schelling import SchellingBlock, SchellingParams
from examples.models.wealth import wealth

from benchmarks.measure import emit, installed
from moothall import Society
from moothall.society import Grid, Network, Population

WEALTH = {"citizens": 300, "mean": 20, "steps": 6_000}
SCHELLING = {"width": 40, "alike": 375, "steps": 60}
EPIDEMIC = {"citizens": 1_000, "degree": 6, "infects": 0.05, "recovers": 0.1, "first": 10}
OPINIONS = {"citizens": 500, "steps": 200}


def lived(population: Population, steps: int) -> Population:
    """The population, so many steps later."""

    async def live() -> None:
        async with Society(population) as society:
            await society.run(steps=steps)

    asyncio.run(live())
    return population


def gini(money: Any) -> float:
    """The Gini coefficient."""
    ordered = np.sort(np.asarray(money))
    weighted = float((ordered * np.arange(1, len(ordered) + 1)).sum())
    return 2 * weighted / float(ordered.sum()) / len(ordered) - 1 - 1 / len(ordered)


def groups(opinion: Any, bound: float) -> int:
    """How many groups of a hundredth or more are further than a quarter of the bound apart."""
    found = np.sort(np.asarray(opinion))
    ends = np.flatnonzero(np.r_[np.diff(found) > bound / 4, True])
    return int((np.diff(np.r_[-1, ends]) * 100 >= len(found)).sum())


# -- one seed of each: ours, Mesa's ----------------------------------------------------------------


def wealth_pair(seed: int) -> tuple[float, float]:
    """The Gini coefficient of money."""
    import mesa

    count, mean, steps = WEALTH["citizens"], WEALTH["mean"], WEALTH["steps"]
    ours = lived(wealth(seed, citizens=count, mean=mean), steps)

    class Giver(mesa.Agent):
        wealth = mean

        def exchange(self) -> None:
            if self.wealth > 0:
                self.random.choice(everyone).wealth += 1
                self.wealth -= 1

    model = mesa.Model(seed=seed)
    everyone = list(Giver.create_agents(model, count))
    for _ in range(steps):
        model.agents.shuffle_do("exchange")
    return gini(ours.columns["money"]), gini([each.wealth for each in everyone])


def schelling_pair(seed: int) -> tuple[float, float]:
    """The mean share of neighbours of one's own kind, from the same start."""
    from mesa.examples.basic.schelling.model import Schelling

    width, alike = SCHELLING["width"], SCHELLING["alike"]
    model = Schelling(width, width, density=0.9, homophily=alike / 1000, seed=seed)
    grid = Grid(width, width, around=8, cell_seconds=1)
    at = {tuple(cell): number for number, cell in enumerate(grid.cells)}
    start = [(at[tuple(each.cell.coordinate)], each.type) for each in model.agents]
    block = SchellingBlock(block_params=SchellingParams(alike=alike))
    table = {
        "place": np.array([place for place, _ in start], np.int32),
        "kind": np.array([kind for _, kind in start], np.int8),
    }
    ours = lived(Population(table, grid, [block], seed), SCHELLING["steps"])
    for _ in range(SCHELLING["steps"]):
        if model.running:
            model.step()
    shares = []
    for each in model.agents:
        near = [other.type for other in each.cell.get_neighborhood(radius=1).agents]
        shares.append(near.count(each.type) / len(near) if near else 1.0)
    return float(np.mean(ours.columns["alike"])) / 1000, statistics.fmean(shares)


def epidemic_pair(seed: int) -> tuple[float, float]:
    """The share that was ever infected, on the same network from the same first ones."""
    from mesa.examples.basic.virus_on_network.agents import State
    from mesa.examples.basic.virus_on_network.model import VirusOnNetwork

    count, infects, recovers = (EPIDEMIC[name] for name in ("citizens", "infects", "recovers"))
    random.seed(seed)  # networkx draws Mesa's network from it
    model = VirusOnNetwork(
        num_nodes=int(count),
        avg_node_degree=EPIDEMIC["degree"],
        initial_outbreak_size=EPIDEMIC["first"],
        virus_spread_chance=infects,
        virus_check_frequency=1.0,
        recovery_chance=recovers,
        gain_resistance_chance=1.0,
        seed=seed,
    )
    ill = np.array([each.state is State.INFECTED for each in model.agents], np.int8)
    edges = np.array(list(model.grid.G.edges))
    network = Network.from_numbers(int(count), edges[:, 0], edges[:, 1])
    params = EpidemicParams(infects=infects, recovers=recovers)
    block = EpidemicBlock(block_params=params)
    ours = lived(Population({"health": ill}, None, [block], seed, network=network), 400)
    while any(each.state is State.INFECTED for each in model.agents):
        model.step()
    spared = sum(each.state is State.SUSCEPTIBLE for each in model.agents)
    return float(np.mean(ours.columns["health"] != 0)), 1 - spared / count


def opinions_pair(seed: int, bound: float = 0.2) -> tuple[float, float]:
    """How many groups of opinions are left."""
    import mesa

    count, steps = OPINIONS["citizens"], OPINIONS["steps"]
    ours = lived(opinions(seed, citizens=count, bound=bound), steps)

    class Listener(mesa.Agent):
        def __init__(self, model: Any) -> None:
            super().__init__(model)
            self.opinion = self.random.random()

        def meet(self) -> None:
            other = self.random.choice(everyone)
            apart = other.opinion - self.opinion
            if abs(apart) <= bound:
                self.opinion += apart / 2
                other.opinion -= apart / 2

    model = mesa.Model(seed=seed)
    everyone = list(Listener.create_agents(model, count))
    for _ in range(steps // 2):  # two move at each meeting
        model.agents.shuffle_do("meet")
    return groups(ours.columns["opinion"], bound), groups(
        [each.opinion for each in everyone], bound
    )


# -- over seeds ------------------------------------------------------------------------------------


def queue_gini(mean: float) -> float:
    """The Gini coefficient where all give at once: each is an M/D/1 queue (Pollaczek 1930)."""
    # The mean of a queue of load r is r + r²/(2(1 − r)): solved for r.
    load = mean + 1 - math.sqrt(mean * mean + 1)
    # Its generating function, on the unit circle.
    at = np.exp(2j * np.pi * np.arange(1 << 14) / (1 << 14))
    come = np.exp(load * (at - 1))
    values = np.ones(len(at), complex)
    values[1:] = ((1 - load) * (1 - at) * come)[1:] / (come - at)[1:]
    return law_gini(np.fft.fft(values).real / len(at))


def law_gini(law: Any) -> float:
    """The Gini coefficient of a law over 0, 1, 2, …"""
    above = 1 - np.cumsum(law)
    return 1 - float((above * above).sum()) / float(above.sum())


def compare(name: str, pair: Callable[[int], tuple[float, float]], seeds: int, **more: Any) -> None:
    """Run both for each seed, and print the means and the interval of their difference."""
    ours, theirs = zip(*(pair(seed) for seed in range(1, seeds + 1)), strict=True)
    apart = statistics.fmean(ours) - statistics.fmean(theirs)
    error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / seeds)
    half = 2.02 * error  # Student's t of about 40 degrees of freedom
    emit(
        "agreement",
        name,
        statistics.fmean(ours),
        "mean over seeds",
        mesa=statistics.fmean(theirs),
        difference=apart,
        interval=[round(apart - half, 4), round(apart + half, 4)],
        seeds=seeds,
        **more,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five seeds in the place of twenty")
    seeds = 5 if parser.parse_args().quick else 20
    if not installed("mesa"):
        print("mesa is not installed: pip install 'moothall[bench]'", file=sys.stderr)
        return 0
    mean = float(WEALTH["mean"])
    law = [round(queue_gini(mean), 4), round((1 + mean) / (1 + 2 * mean), 4)]
    compare("wealth, Gini coefficient", wealth_pair, seeds, law=law)
    compare("segregation, share of neighbours alike", schelling_pair, seeds)
    compare("epidemic, share ever infected", epidemic_pair, seeds)
    compare("opinions, groups left", opinions_pair, seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
