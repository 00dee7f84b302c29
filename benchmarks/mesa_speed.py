"""How fast the models of examples/models are beside Mesa's, at 10, 100 and 300 agents.

    python -m benchmarks.mesa_speed [--quick] [MODEL ...]

Both have Mesa's parameters, on a grid that fits the number: of `life` and `prisoners` each cell is
an agent. Mesa has no example of opinions, of an epidemic and of wealth without places: there it
runs the agents of `benchmarks.agreement`, or its `VirusOnNetwork` with an epidemic's parameters. A
round runs each side from its start; the sides take turns, and the figures are the least of the
rounds' processor times. `ratio` is Mesa's time over ours: above 1, we are faster.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import math
import random
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from examples.models.alliances import alliances
from examples.models.boids import boids
from examples.models.boltzmann import boltzmann
from examples.models.civil_violence import civil_violence
from examples.models.epidemic import epidemic
from examples.models.life import life
from examples.models.opinions import opinions
from examples.models.prisoners import prisoners
from examples.models.schelling import schelling
from examples.models.sugarscape import sugarscape
from examples.models.virus import virus
from examples.models.wealth import wealth
from examples.models.wolf_sheep import wolf_sheep

from benchmarks.measure import emit, installed
from moothall import Society
from moothall.society import Network, Population

AGENTS = (10, 100, 300)
SEED = 1


class Beside(NamedTuple):
    """A model by its number of agents, ours and Mesa's, and how many steps a round has."""

    steps: int
    ours: Callable[[int], Population]
    theirs: Callable[[int], Any]
    step: Callable[[Any], Any] = lambda model: model.step()


def side(agents: int) -> int:
    """The side of a square of at least so many cells."""
    return math.isqrt(agents - 1) + 1


# -- Mesa's ----------------------------------------------------------------------------------------


def their_alliances(agents: int) -> Any:
    from mesa.examples.advanced.alliance_formation.model import MultiLevelAllianceModel

    return MultiLevelAllianceModel(n=agents, seed=SEED)


def their_birds(agents: int) -> Any:
    from mesa.examples.basic.boid_flockers.model import BoidFlockers

    return BoidFlockers(population_size=agents, seed=SEED)


def their_boltzmann(agents: int) -> Any:
    from mesa.examples.basic.boltzmann_wealth_model.model import BoltzmannWealth

    return BoltzmannWealth(n=agents, width=side(agents), height=side(agents), seed=SEED)


def their_violence(agents: int) -> Any:
    from mesa.examples.advanced.epstein_civil_violence.model import EpsteinCivilViolence

    width = side(round(agents / 0.774))
    return EpsteinCivilViolence(width=width, height=width, legitimacy=0.6, seed=SEED)


def their_life(agents: int) -> Any:
    from mesa.examples.basic.conways_game_of_life.model import ConwaysGameOfLife

    return ConwaysGameOfLife(width=side(agents), height=side(agents), seed=SEED)


def their_prisoners(agents: int) -> Any:
    from mesa.examples.advanced.pd_grid.model import PdGrid

    return PdGrid(width=side(agents), height=side(agents), seed=SEED)


def their_neighbours(agents: int) -> Any:
    from mesa.examples.basic.schelling.model import Schelling

    width = side(round(agents / 0.8))
    return Schelling(width=width, height=width, seed=SEED)


def their_traders(agents: int) -> Any:
    from mesa.examples.advanced.sugarscape_g1mt.model import SugarscapeG1mt

    return SugarscapeG1mt(initial_population=agents, seed=SEED)


def their_virus(agents: int) -> Any:
    from mesa.examples.basic.virus_on_network.model import VirusOnNetwork

    random.seed(SEED)  # networkx draws Mesa's network from it
    return VirusOnNetwork(num_nodes=agents, initial_outbreak_size=agents // 10, seed=SEED)


def their_epidemic(agents: int) -> Any:
    from mesa.examples.basic.virus_on_network.model import VirusOnNetwork

    random.seed(SEED)
    return VirusOnNetwork(
        num_nodes=agents,
        avg_node_degree=6,
        initial_outbreak_size=agents // 10,
        virus_spread_chance=0.05,
        virus_check_frequency=1.0,
        recovery_chance=0.1,
        gain_resistance_chance=1.0,
        seed=SEED,
    )


def their_animals(agents: int) -> Any:
    from mesa.examples.advanced.wolf_sheep.model import WolfSheep
    from mesa.experimental.devs import ABMSimulator

    herd = {"initial_sheep": agents - agents // 3, "initial_wolves": agents // 3}
    return WolfSheep(simulator=ABMSimulator(), seed=SEED, **herd)


def their_givers(agents: int) -> Any:
    import mesa

    class Giver(mesa.Agent):
        wealth = 100

        def exchange(self) -> None:
            if self.wealth > 0:
                self.random.choice(everyone).wealth += 1
                self.wealth -= 1

    class Givers(mesa.Model):
        def step(self) -> None:
            self.agents.shuffle_do("exchange")
            self.datacollector.collect(self)

    def gini(model: Any) -> float:
        owned = sorted(each.wealth for each in model.agents)
        weighted = sum(each * rank for rank, each in enumerate(owned, 1))
        return 2 * weighted / (sum(owned) * len(owned)) - 1 - 1 / len(owned)

    model = Givers(seed=SEED)
    model.datacollector = mesa.DataCollector({"gini": gini})
    everyone = list(Giver.create_agents(model, agents))
    return model


def their_listeners(agents: int) -> Any:
    import mesa

    class Listener(mesa.Agent):
        def __init__(self, model: Any) -> None:
            super().__init__(model)
            self.opinion = self.random.random()

        def meet(self) -> None:
            other = self.random.choice(everyone)
            apart = other.opinion - self.opinion
            if abs(apart) <= 0.2:
                self.opinion += apart / 2
                other.opinion -= apart / 2

    class Listeners(mesa.Model):
        def step(self) -> None:
            self.agents.shuffle_do("meet")
            self.datacollector.collect(self)

    def groups(model: Any) -> int:
        found = sorted(each.opinion for each in model.agents)
        return 1 + sum(b - a > 0.05 for a, b in itertools.pairwise(found))

    model = Listeners(seed=SEED)
    model.datacollector = mesa.DataCollector({"groups": groups})
    everyone = list(Listener.create_agents(model, agents))
    return model


def our_violence(agents: int) -> Population:
    """As many citizens and police as Mesa's grid has, in the mean."""
    width = side(round(agents / 0.774))
    return civil_violence(SEED, width=width, height=width, legitimacy=0.6)


def our_neighbours(agents: int) -> Population:
    """The same share of free cells, by turns, with borders."""
    width = side(round(agents / 0.8))
    return schelling(SEED, width=width, free=200, alike=400, turns="random", torus=False)


def our_epidemic(agents: int) -> Population:
    """On a drawn network of the same degree."""
    network = Network.random(agents, degree=6, seed=SEED)
    return epidemic(SEED, citizens=agents, infected=agents // 10, network=network)


MODELS: dict[str, Beside] = {
    "alliances": Beside(6, lambda n: alliances(SEED, actors=n), their_alliances),
    "boids": Beside(100, lambda n: boids(SEED, birds=n), their_birds),
    "boltzmann": Beside(
        200,
        lambda n: boltzmann(SEED, citizens=n, width=side(n), height=side(n)),
        their_boltzmann,
    ),
    "civil violence": Beside(100, our_violence, their_violence),
    "epidemic": Beside(200, our_epidemic, their_epidemic),
    "life": Beside(200, lambda n: life(SEED, width=side(n), height=side(n)), their_life),
    "opinions": Beside(200, lambda n: opinions(SEED, citizens=n), their_listeners),
    "prisoners": Beside(
        100, lambda n: prisoners(SEED, width=side(n), height=side(n)), their_prisoners
    ),
    "schelling": Beside(100, our_neighbours, their_neighbours),
    "sugarscape": Beside(50, lambda n: sugarscape(SEED, traders=n), their_traders),
    "virus": Beside(200, lambda n: virus(SEED, citizens=n, first=n // 10), their_virus),
    "wealth": Beside(200, lambda n: wealth(SEED, citizens=n), their_givers),
    "wolf-sheep": Beside(
        100,
        lambda n: wolf_sheep(SEED, sheep=n - n // 3, wolves=n // 3),
        their_animals,
        lambda model: model.simulator.run_for(1),
    ),
}


def our_seconds(population: Population, steps: int) -> float:
    """The processor seconds of the steps of ours."""

    async def live() -> float:
        async with Society(population) as society:
            gc.collect()
            began = time.process_time()
            await society.run(steps=steps)
            return time.process_time() - began

    return asyncio.run(live())


def their_seconds(model: Any, step: Callable[[Any], Any], steps: int) -> float:
    """The processor seconds of the steps of Mesa's."""
    gc.collect()
    began = time.process_time()
    for _ in range(steps):
        step(model)
    return time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesa_speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three rounds instead of seven")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    options = parser.parse_args()
    unknown = sorted(set(options.models) - set(MODELS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    if not installed("mesa"):
        print("mesa is not installed: pip install 'moothall[bench]'", file=sys.stderr)
        return 0
    for name in options.models or MODELS:
        steps, ours, theirs, step = MODELS[name]
        for agents in AGENTS:
            mine, its = math.inf, math.inf
            for _ in range(3 if options.quick else 7):
                mine = min(mine, our_seconds(ours(agents), steps))
                its = min(its, their_seconds(theirs(agents), step, steps))
                if its > 1:  # a second is no matter of luck
                    break
            emit(
                f"mesa speed: {name}",
                f"{agents} agents",
                mine / steps * 1e6,
                "µs a step",
                mesa=its / steps * 1e6,
                ratio=its / mine,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
