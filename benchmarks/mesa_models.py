"""The models of Mesa's examples, ours beside its own: equal in distribution.

    python -m benchmarks.mesa_models [--quick] [--seeds N] [MODEL ...]

Both run with the parameters of Mesa's examples. `p` is that of the two-sample Kolmogorov-Smirnov
test of an outcome over the seeds; where both begin from the same start and draw nothing, `equal` is
the share of seeds whose series are equal. `benchmarks.mesa_speed` says how fast both are.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from examples.models.alliances import alliances
from examples.models.boids import boids, order
from examples.models.boltzmann import boltzmann
from examples.models.civil_violence import civil_violence
from examples.models.life import life
from examples.models.prisoners import prisoners
from examples.models.schelling import schelling
from examples.models.sugarscape import sugarscape
from examples.models.virus import virus
from examples.models.wolf_sheep import wolf_sheep

from benchmarks.measure import emit, installed
from moothall import Society
from moothall.society import Population

Series = Mapping[str, list[float]]


@dataclass
class Pair:
    """A model of both: how each is made, what is read after each step, and what comes out."""

    steps: int
    theirs: Callable[[int], Any]
    ours: Callable[[int, Any], Population]
    read: Callable[[Any], Mapping[str, float]]
    outcomes: Callable[[Series], Mapping[str, float]]
    step: Callable[[Any], Any] = lambda model: model.step()
    equal: bool = False


# -- how each comes out ----------------------------------------------------------------------------


def last(name: str, series: Series) -> float:
    """The last of a series."""
    return series[name][-1]


def violent(series: Series) -> Mapping[str, float]:
    """How a rebellion went."""
    return {
        "rebels, most": max(series["active"]),
        "rebels, mean of the last half": statistics.fmean(series["active"][-25:]),
        "jailed at the end": last("jailed", series),
    }


def eaten(series: Series) -> Mapping[str, float]:
    """How wolves and sheep fared."""
    sheep, wolves = series["sheep"], series["wolves"]
    return {
        "sheep, most": max(sheep),
        "wolves, most": max(wolves),
        "step with most wolves": wolves.index(max(wolves)),
        "sheep at step 21": sheep[20],
        "wolves at the end": wolves[-1],
    }


def spread(series: Series) -> Mapping[str, float]:
    """How a virus went."""
    carries = series["carries"]
    return {
        "carriers, most": max(carries),
        "steps until none carries it, or 60": next(
            (n for n, c in enumerate(carries) if not c), len(carries)
        ),
        "immune at the end": last("immune", series),
    }


def traded(series: Series) -> Mapping[str, float]:
    """How a market went."""
    return {
        "traders at step 10": series["traders"][9],
        "traders at the end": last("traders", series),
        "trades, first step": series["trades"][0],
        "trades, all steps": sum(series["trades"]),
        "price, first step": series["price"][0],
        "price, median of the steps": statistics.median(series["price"]),
    }


# -- Mesa's ----------------------------------------------------------------------------------------


def their_life(seed: int) -> Any:
    from mesa.examples.basic.conways_game_of_life.model import ConwaysGameOfLife

    return ConwaysGameOfLife(seed=seed)


def living(model: Any) -> Any:
    """Which cells live: a row for each column."""
    made = np.zeros(model.grid.dimensions, bool)
    for each in model.agents:
        made[each.cell.coordinate] = each.is_alive
    return made


def their_violence(seed: int) -> Any:
    from mesa.examples.advanced.epstein_civil_violence.model import EpsteinCivilViolence

    return EpsteinCivilViolence(width=20, height=20, legitimacy=0.6, seed=seed)


def their_animals(seed: int) -> Any:
    from mesa.examples.advanced.wolf_sheep.model import WolfSheep
    from mesa.experimental.devs import ABMSimulator

    return WolfSheep(seed=seed, simulator=ABMSimulator())


def animals(model: Any) -> Mapping[str, float]:
    """How many there are."""
    kinds = [type(each).__name__ for each in model.agents]
    return {"sheep": kinds.count("Sheep"), "wolves": kinds.count("Wolf")}


def their_birds(seed: int) -> Any:
    from mesa.examples.basic.boid_flockers.model import BoidFlockers

    return BoidFlockers(seed=seed)


def flown(model: Any) -> Mapping[str, float]:
    """How far the birds fly the same way."""
    ways = np.array([each.direction for each in model.agents])
    return {"order": order({"right": ways[:, 0], "up": ways[:, 1]})}


def their_virus(seed: int, **params: Any) -> Any:
    from mesa.examples.basic.virus_on_network.model import VirusOnNetwork

    random.seed(seed)  # networkx draws Mesa's network from it
    return VirusOnNetwork(seed=seed, **params)


def carriers(model: Any) -> Mapping[str, float]:
    """The shares in each state."""
    states = [each.state.value for each in model.agents]
    names = ("healthy", "carries", "immune")
    return {name: states.count(code) / len(states) for code, name in enumerate(names)}


def their_prisoners(seed: int, turns: str) -> Any:
    from mesa.examples.advanced.pd_grid.model import PdGrid

    return PdGrid(activation_order=turns, seed=seed)


def cooperating(model: Any) -> Any:
    """Who cooperates: a row for each column."""
    made = np.zeros(model.grid.dimensions, bool)
    for each in model.agents:
        made[each.cell.coordinate] = each.move == "C"
    return made


def their_traders(seed: int) -> Any:
    from mesa.examples.advanced.sugarscape_g1mt.model import SugarscapeG1mt

    return SugarscapeG1mt(seed=seed)


def trading(model: Any) -> Mapping[str, float]:
    """Who lives, and how they trade."""
    prices = [each for trader in model.agents for each in trader.prices]
    price = math.exp(statistics.fmean(map(math.log, prices))) if prices else math.nan
    return {"traders": len(model.agents), "trades": len(prices), "price": price}


def their_wealth(seed: int) -> Any:
    from mesa.examples.basic.boltzmann_wealth_model.model import BoltzmannWealth

    return BoltzmannWealth(seed=seed)


def their_alliances(seed: int) -> Any:
    from mesa.examples.advanced.alliance_formation.model import MultiLevelAllianceModel

    return MultiLevelAllianceModel(seed=seed)


def allied(model: Any) -> Mapping[str, float]:
    """How many alliances there are, and how high."""
    levels = [each.level for each in model.agents]
    first = [each for each in model.agents if not each.level]
    alone = sum(not hasattr(each, "meta_agent") for each in first) / len(first)
    return {"alliances": len(levels) - len(first), "highest": max(levels), "alone": alone}


def their_neighbours(seed: int) -> Any:
    from mesa.examples.basic.schelling.model import Schelling

    return Schelling(seed=seed)


def settled(model: Any) -> Any:
    """The kind in each cell, -1 for a free one: a row for each column."""
    made = np.full(model.grid.dimensions, -1)
    for each in model.agents:
        made[each.cell.coordinate] = each.type
    return made


def segregated(model: Any) -> Mapping[str, float]:
    """How alike neighbours are."""
    shares = []
    for each in model.agents:
        near = [other.type for other in each.cell.get_neighborhood(radius=1).agents]
        shares.append(near.count(each.type) * 1000 // max(len(near), 1))
    return {"alike": statistics.fmean(shares), "content": model.happy}


# -- the pairs -------------------------------------------------------------------------------------

PAIRS: dict[str, Pair] = {
    "life": Pair(
        100,
        their_life,
        lambda seed, model: life(seed, start=living(model)),
        lambda model: {"alive": int(living(model).sum())},
        lambda series: {"cells alive at the end": last("alive", series)},
        equal=True,
    ),
    "civil violence": Pair(
        50,
        their_violence,
        lambda seed, model: civil_violence(seed, width=20, height=20, legitimacy=0.6),
        lambda model: {"active": model.ACTIVE, "jailed": model.ARRESTED},
        violent,
    ),
    "wolf-sheep": Pair(
        60,
        their_animals,
        lambda seed, model: wolf_sheep(seed),
        animals,
        eaten,
        lambda model: model.simulator.run_for(1),
    ),
    "boids": Pair(
        100,
        their_birds,
        lambda seed, model: boids(seed),
        flown,
        lambda series: {
            "order at step 25": series["order"][24],
            "order at step 100": series["order"][99],
        },
    ),
    "boltzmann": Pair(
        100,
        their_wealth,
        lambda seed, model: boltzmann(seed),
        lambda model: {"gini": model.compute_gini()},
        lambda series: {"Gini, step 20": series["gini"][19], "Gini, step 100": series["gini"][99]},
    ),
    "virus": Pair(60, their_virus, lambda seed, model: virus(seed), carriers, spread),
    "virus, 300 citizens": Pair(
        60,
        lambda seed: their_virus(seed, num_nodes=300, initial_outbreak_size=3),
        lambda seed, model: virus(seed, citizens=300, first=3),
        carriers,
        spread,
    ),
    "sugarscape": Pair(
        40,
        their_traders,
        lambda seed, model: sugarscape(seed, sugar=model.sugar_distribution),
        trading,
        traded,
    ),
    "alliances": Pair(
        6,
        their_alliances,
        lambda seed, model: alliances(seed),
        allied,
        lambda series: {
            "alliances after step 1": series["alliances"][0],
            "alliances at the end": last("alliances", series),
            "highest level at the end": last("highest", series),
            "share alone at the end": last("alone", series),
        },
    ),
    "prisoners": Pair(
        20,
        lambda seed: their_prisoners(seed, "Random"),
        lambda seed, model: prisoners(seed),
        lambda model: {"cooperates": float(cooperating(model).mean())},
        lambda series: {
            "cooperators after step 1": series["cooperates"][0],
            "cooperators after step 3": series["cooperates"][2],
            "cooperators at the end": last("cooperates", series),
        },
    ),
    "schelling": Pair(
        30,
        their_neighbours,
        lambda seed, model: schelling(
            seed, width=20, alike=400, turns="random", torus=False, start=settled(model)
        ),
        segregated,
        lambda series: {
            "neighbours alike after step 1": series["alike"][0],
            "content after step 1": series["content"][0],
            "content after step 3": series["content"][2],
            "neighbours alike at the end": last("alike", series),
            "content at the end": last("content", series),
        },
    ),
    "prisoners, simultaneous": Pair(
        20,
        lambda seed: their_prisoners(seed, "Simultaneous"),
        lambda seed, model: prisoners(seed, turns="simultaneous", start=cooperating(model)),
        lambda model: {"cooperates": float(cooperating(model).mean())},
        lambda series: {"cooperators at the end": last("cooperates", series)},
        equal=True,
    ),
}


# -- over seeds ------------------------------------------------------------------------------------


def run_ours(population: Population, steps: int) -> Series:
    """Our series."""
    with Society(population) as society:
        rows = society.run_sync(steps=steps)
    return {name: [float(row[name]) for row in rows] for name in population.metrics}


def run_theirs(pair: Pair, model: Any) -> Series:
    """Mesa's series."""
    series: dict[str, list[float]] = {}
    for _ in range(pair.steps):
        pair.step(model)
        for name, value in pair.read(model).items():
            series.setdefault(name, []).append(float(value))
    return series


def compare(name: str, pair: Pair, seeds: int) -> None:
    """Run both for each seed; print each outcome's means and p."""
    from scipy.stats import ks_2samp

    ours: list[Mapping[str, float]] = []
    theirs: list[Mapping[str, float]] = []
    equal = 0
    for seed in range(1, seeds + 1):
        model = pair.theirs(seed)
        mine, its = run_ours(pair.ours(seed, model), pair.steps), run_theirs(pair, model)
        ours.append(pair.outcomes(mine))
        theirs.append(pair.outcomes(its))
        equal += all(mine[each] == values for each, values in its.items())
    more: dict[str, Any] = {"equal": equal / seeds} if pair.equal else {}
    for outcome in ours[0]:
        one, other = ([each[outcome] for each in side] for side in (ours, theirs))
        emit(
            f"mesa models: {name}",
            outcome,
            statistics.fmean(one),
            "mean over seeds",
            mesa=statistics.fmean(other),
            p=float(ks_2samp(one, other).pvalue),
            seeds=seeds,
            **more,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesa_models", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five seeds")
    parser.add_argument("--seeds", type=int, default=60, help="how many; 60 if left out")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(PAIRS))
    options = parser.parse_args()
    unknown = sorted(set(options.models) - set(PAIRS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PAIRS)}")
    if not installed("mesa"):
        print("mesa is not installed: pip install 'moothall[bench]'", file=sys.stderr)
        return 0
    for name in options.models or PAIRS:
        compare(name, PAIRS[name], 5 if options.quick else options.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
