"""Classic models, each a block of some thirty lines: wealth, segregation, epidemic, opinions.

All citizens read the step before; then all changes happen at once, conflicts in id order. Where the
published model updates one citizen after the other, the docstring states the difference. Each block
has a form for one citizen (`forward`) and one for rows (`step_rows`), with the same results.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from moothall.arguments import check_integer
from moothall.errors import ConfigError
from moothall.params import BlockParams
from moothall.society import math
from moothall.society.arrays import np
from moothall.society.blocks.block import CitizenBlockParams
from moothall.society.blocks.row_block import RowBlock
from moothall.society.city.grid import Grid
from moothall.society.city.network import Network
from moothall.society.columns.column import Column
from moothall.society.kernel.draw import integers
from moothall.society.kernel.wants import Move, Pay
from moothall.society.population.population import Population

SUSCEPTIBLE, INFECTED, RECOVERED = range(3)
_Share = Annotated[float, Field(ge=0, le=1)]
_Thousand = Annotated[int, Field(ge=0, le=1000)]
_Gift = Annotated[int, Field(ge=1)]
_Pull = Annotated[float, Field(ge=0, le=0.5)]


class WealthParams(CitizenBlockParams):
    """How much a citizen gives."""

    gift: _Gift = Field(default=1, description="cents given in a step")


class WealthBlock(RowBlock):
    """Each citizen that can gives a cent to one drawn among all: the Boltzmann wealth model.

    Dragulescu, Yakovenko 2000, "Statistical mechanics of money", European Physical Journal B 17:
    one giver at a time leads to the geometric law, whose limit for a mean of many gifts is the
    exponential. Here all give at once, so each citizen is a queue: one cent leaves, a Poisson
    number arrives (M/D/1, Pollaczek 1930, Khinchine 1932); its law for large means is exponential.
    """

    ParamsType: ClassVar[type[BlockParams]] = WealthParams
    params: WealthParams

    async def forward(self) -> None:
        """Give, if the citizen has enough."""
        other = self.draws.below(self.perceived.citizens, "wealth.other")
        if self.status["money"] >= self.params.gift:
            self.want(Pay(self.perceived.citizen(other), self.params.gift))

    def step_rows(self, rows: Any) -> None:
        """Do `forward` for rows."""
        other = rows.below(rows.citizens, "wealth.other")
        gift = self.params.gift
        rows.want(Pay, rows["money"] >= gift, to=other, cents=gift)


class SchellingParams(CitizenBlockParams):
    """When a citizen is content."""

    alike: _Thousand = Field(
        default=375, description="neighbours of its kind it wants, in thousandths"
    )


class SchellingBlock(RowBlock):
    """A citizen with too few neighbours of its kind moves to a free cell: Schelling's segregation.

    Schelling 1971, "Dynamic models of segregation", Journal of Mathematical Sociology 1. Here all
    citizens that are not content move at once, each to a cell drawn among the free ones; of several
    that want the same cell, the first in id order gets it, and the others stay.
    """

    columns: ClassVar[dict[str, Column]] = {
        "kind": Column("int8", seen=True),
        "alike": Column("int32"),
    }
    ParamsType: ClassVar[type[BlockParams]] = SchellingParams
    params: SchellingParams

    async def forward(self) -> None:
        """Count the neighbours of the same kind, and move if not content."""
        seen, grid = self.perceived.seen, self.perceived.view.city
        kinds = _cell_kinds(seen("kind"), seen("place"), len(grid))
        here = seen("place", self.perceived.id)
        around = grid.next_to[here]
        near = kinds[around[around >= 0]]
        like, others = int((near == self.status["kind"]).sum()), int((near >= 0).sum())
        self.status["alike"] = like * 1000 // others if others else 1000
        free = np.flatnonzero(kinds < 0)
        if len(free) and self.status["alike"] < self.params.alike:
            x, y = grid.cells[free[self.draws.below(len(free), "schelling.cell")]]
            self.want(Move(f"{x},{y}"))

    def step_rows(self, rows: Any) -> None:
        """Do `forward` for rows."""
        grid = rows.city
        kinds = rows.once(
            "schelling.kinds", lambda: _cell_kinds(rows.seen("kind"), rows.seen("place"), len(grid))
        )
        free = rows.once("schelling.free", lambda: np.flatnonzero(kinds < 0))
        around = grid.next_to[rows["place"]]
        near = np.where(around >= 0, kinds[around], -1)
        like = (near == rows["kind"][:, None]).sum(axis=1)
        others = (near >= 0).sum(axis=1)
        rows["alike"] = np.where(others > 0, like * 1000 // np.maximum(others, 1), 1000)
        if len(free):
            cell = free[rows.below(len(free), "schelling.cell")]
            rows.want(Move, rows["alike"] < self.params.alike, to=cell)


class EpidemicParams(CitizenBlockParams):
    """How an infection spreads."""

    infects: _Share = Field(default=0.05, description="by a contact, in a step")
    recovers: _Share = Field(default=0.1, description="in a step")
    meets: _Thousand = Field(default=0, description="drawn contacts; 0: the network's")


class EpidemicBlock(RowBlock):
    """Susceptible, infected, recovered: SIR on the network, or among drawn contacts.

    Kermack, McKendrick 1927, "A contribution to the mathematical theory of epidemics", Proceedings
    of the Royal Society A 115. Each infected contact infects with equal probability in each step.
    """

    columns: ClassVar[dict[str, Column]] = {"health": Column("int8", seen=True)}
    ParamsType: ClassVar[type[BlockParams]] = EpidemicParams
    params: EpidemicParams

    async def forward(self) -> None:
        """Become infected, or recover."""
        params, draws = self.params, self.draws
        health = self.status["health"]
        if health == SUSCEPTIBLE:
            seen = self.perceived.seen("health")
            if params.meets:
                drawn = (
                    draws.below(self.perceived.citizens, "sir.meets", number)
                    for number in range(params.meets)
                )
                ill = sum(int(seen[row] == INFECTED) for row in drawn)
            else:
                others = self.perceived.neighbours
                ill = sum(self.perceived.seen("health", one) == INFECTED for one in others)
            spared = math.power(1 - params.infects, ill)
            if draws.uniform("sir.infected") >= spared:
                self.status["health"] = INFECTED
        elif health == INFECTED and draws.uniform("sir.recovers") < params.recovers:
            self.status["health"] = RECOVERED

    def step_rows(self, rows: Any) -> None:
        """Do `forward` for rows."""
        params = self.params
        health = rows["health"]
        ill = rows.once("sir.ill", lambda: (rows.seen("health") == INFECTED).view(np.int8))
        if params.meets:
            met = np.zeros(len(rows), np.int64)
            for number in range(params.meets):
                met += ill[rows.below(rows.citizens, "sir.meets", number)]
        else:
            met = rows.neighbour_sum(ill)
        spared = math.power(1 - params.infects, np.arange(met.max(initial=0) + 1))[met]
        caught = (health == SUSCEPTIBLE) & (rows.uniform("sir.infected") >= spared)
        over = (health == INFECTED) & (rows.uniform("sir.recovers") < params.recovers)
        rows["health"] = np.where(caught, INFECTED, np.where(over, RECOVERED, health))


class OpinionParams(CitizenBlockParams):
    """How opinions move."""

    bound: _Share = Field(default=0.2, description="how far apart others are heard")
    pull: _Pull = Field(default=0.5, description="the part of the distance it moves")


class OpinionBlock(RowBlock):
    """Hears one other, and moves towards its opinion unless it is too far: bounded confidence.

    Deffuant, Neau, Amblard, Weisbuch 2000, "Mixing beliefs among interacting agents", Advances in
    Complex Systems 3, where pairs meet one after the other and both move. Here each citizen hears
    one drawn among its neighbours, or among all without a network; all move at once, each alone.
    Opinions, 0 … 1, still gather in about 1 ÷ (2 · bound) groups.
    """

    columns: ClassVar[dict[str, Column]] = {"opinion": Column("float64", seen=True)}
    ParamsType: ClassVar[type[BlockParams]] = OpinionParams
    params: OpinionParams

    def begin_rows(self, rows: Any) -> None:
        """Draw opinions uniformly from 0 to 1."""
        rows["opinion"] = rows.uniform("opinion.first")

    async def forward(self) -> None:
        """Hear one other citizen."""
        me, draws = self.perceived, self.draws
        if me.view.others.network is not None:
            others = me.neighbours
            if not others:
                return
            other = me.seen("opinion", others[draws.below(len(others), "opinion.other")])
        else:
            other = float(me.seen("opinion")[draws.below(me.citizens, "opinion.other")])
        apart = other - self.status["opinion"]
        if -self.params.bound <= apart <= self.params.bound:
            self.status["opinion"] += self.params.pull * apart

    def step_rows(self, rows: Any) -> None:
        """Do `forward` for rows."""
        if rows.network is not None:
            other = rows.neighbour("opinion.other")
        else:
            other = rows.below(rows.citizens, "opinion.other")
        mine = rows["opinion"]
        apart = rows.seen("opinion")[other] - mine
        hears = (other >= 0) & (np.abs(apart) <= self.params.bound)
        rows["opinion"] = np.where(hears, mine + self.params.pull * apart, mine)


def wealth(citizens: int = 1000, *, mean: int = 100, gift: _Gift = 1, seed: int = 0) -> Population:
    """Return a population of `WealthBlock`, each citizen with `mean` cents at the start.

    Its metrics are `gini`, the Gini coefficient of money, and `without`, the share without money.
    """
    check_integer("citizens", citizens, 1, None)
    check_integer("mean", mean, 0, None)
    block = WealthBlock(block_params={"gift": gift})
    metrics = {"gini": _gini, "without": _share("money", 0)}
    return Population({"money": np.full(citizens, mean)}, None, [block], seed, metrics=metrics)


def schelling(
    width: int = 50, *, free: int = 100, alike: _Thousand = 375, around: int = 8, seed: int = 0
) -> Population:
    """Return a population of `SchellingBlock` on a torus of width × width cells, of two kinds.

    Args:
        width: columns and rows; 3 or more
        free: cells without a citizen, of a thousand
        alike: neighbours of its kind that a citizen wants, of a thousand
        around: 4 or 8 neighbours
        seed: the seed of all draws
    """
    check_integer("width", width, 3, None)
    check_integer("free", free, 0, 999)
    grid = Grid(width, width, torus=True, around=around, cell_seconds=0)
    count = len(grid) * (1000 - free) // 1000
    taken = _drawn(seed, len(grid), "schelling.first")[:count]
    table = {"place": taken.astype(np.int32), "kind": np.arange(count, dtype=np.int8) % 2}
    block = SchellingBlock(block_params={"alike": alike})
    return Population(table, grid, [block], seed, metrics={"alike": _mean("alike")})


def epidemic(
    citizens: int = 1000,
    *,
    infected: int = 10,
    infects: _Share = 0.05,
    recovers: _Share = 0.1,
    meets: _Thousand = 0,
    network: Network | str | None = None,
    seed: int = 0,
) -> Population:
    """Return a population of `EpidemicBlock`, with `infected` drawn citizens infected.

    Args:
        citizens: the number of citizens
        infected: the number of infected citizens at the start
        infects: the probability that a contact infects, in a step
        recovers: the probability of recovery, in a step
        meets: the drawn contacts of a citizen in a step; 0: its neighbours in the network
        network: the network of contacts, or its kind: `random` (also if left out and `meets` is
            0), `small_world`, `scale_free` or `spatial`
        seed: the seed of all draws
    """
    check_integer("citizens", citizens, 1, None)
    check_integer("infected", infected, 0, citizens)
    if not meets and network is None:
        network = "random"
    health = np.zeros(citizens, np.int8)
    health[_drawn(seed, citizens, "sir.first")[:infected]] = INFECTED
    params = {"infects": infects, "recovers": recovers, "meets": meets}
    block = EpidemicBlock(block_params=params)
    names = ("susceptible", "infected", "recovered")
    metrics = {name: _share("health", code) for code, name in enumerate(names)}
    network = _network(network, citizens, seed)
    return Population({"health": health}, None, [block], seed, network=network, metrics=metrics)


def opinions(
    citizens: int = 1000,
    *,
    bound: _Share = 0.2,
    pull: _Pull = 0.5,
    network: Network | str | None = None,
    seed: int = 0,
) -> Population:
    """Return a population of `OpinionBlock`, on a network or among all.

    Its metrics are `groups`, the groups of at least a hundredth of the citizens that are more than
    a quarter of the bound apart, and `spread`, the distance between the outermost opinions.
    """
    block = OpinionBlock(block_params={"bound": bound, "pull": pull})
    metrics: dict[str, Any] = {
        "groups": lambda columns: _groups(columns["opinion"], bound),
        "spread": lambda columns: float(np.ptp(columns["opinion"])),
    }
    network = _network(network, citizens, seed)
    return Population(citizens, None, [block], seed, network=network, metrics=metrics)


def _drawn(seed: int, count: int, purpose: str) -> Any:
    """Return the numbers 0 … count−1 in an order drawn by the seed."""
    return np.argsort(integers(seed, np.arange(count, dtype=np.uint64), 0, purpose), kind="stable")


def _cell_kinds(kinds: Any, places: Any, cells: int) -> Any:
    """Return the kind of the citizen in each cell; −1 for a free cell."""
    made = np.full(cells, -1, np.int8)
    made[places[places >= 0]] = kinds[places >= 0]
    return made


def _mean(name: str) -> Any:
    return lambda columns: float(columns[name].sum()) / len(columns[name])


def _share(name: str, code: int) -> Any:
    return lambda columns: float((columns[name] == code).sum()) / len(columns[name])


def _network(given: Network | str | None, citizens: int, seed: int) -> Network | None:
    """Return the given network, or draw one of the given kind."""
    if not isinstance(given, str):
        return given
    kinds = ("random", "scale_free", "small_world", "spatial")
    if given not in kinds:
        raise ConfigError(f"network must be one of {', '.join(kinds)}, got {given!r:.40}")
    made: Network = getattr(Network, given)(citizens, seed=seed)
    return made


def _gini(columns: Any) -> float:
    money = np.sort(columns["money"])
    total, count = int(money.sum()), len(money)
    weighted = int((money * np.arange(1, count + 1)).sum())
    return (2 * weighted / total - count - 1) / count if total else 0.0


def _groups(opinions: Any, bound: float) -> int:
    found = np.sort(opinions)
    ends = np.flatnonzero(np.r_[np.diff(found) > bound / 4, True])
    return int((np.diff(np.r_[-1, ends]) * 100 >= len(found)).sum())
