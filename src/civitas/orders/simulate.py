"""What is simulated, and the society that an order asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from civitas.clock import DAY_S, seconds_of
from civitas.errors import ConfigError
from civitas.orders.models import budget_of, made_model

if TYPE_CHECKING:
    from civitas.journal import Journal
    from civitas.society import Society

MOST_AGENTS: Final = 10_000
"""More citizens than this live in columns, unless a model decides."""
_MOST_DAYS: Final = 100_000
_SAVED_S: Final = DAY_S // 4
"""After so many simulated seconds the state is recorded."""
_CALL_TOKENS: Final = 900
"""Measured in steps of 15min to 6h: 1.2 calls a citizen and step, prompts of 800 tokens."""


@dataclass(frozen=True)
class SimulateOrder:
    """What the command line says to `civitas simulate`.

    Attributes:
        citizens: how many live there
        days: simulated days
        seed: what the town, its people and all chance are drawn from
        step: how long a step is, such as `15min`
        model: the name of the model that citizens ask; None for rules alone
        max_usd: what it may cost, or None
        max_calls: how often the model may be asked, or None
        out: the folder of the tables, or None
        parquet: whether tables are Parquet or CSV; None for Parquet where pyarrow is installed
        threads: how many threads run citizens in columns
    """

    command: ClassVar = "simulate"
    part: ClassVar = "civitas simulate"
    may_change: ClassVar = ("max_usd", "max_calls", "out", "parquet", "threads")
    paths: ClassVar = ("out",)
    addresses: ClassVar = ("model",)

    citizens: int = 1000
    days: float = 1.0
    seed: int = 0
    step: str = "15min"
    model: str | None = None
    max_usd: float | None = None
    max_calls: int | None = None
    out: str | None = None
    parquet: bool | None = None
    threads: int = 1

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return int(self.days * DAY_S // seconds_of(self.step))

    @property
    def in_columns(self) -> bool:
        """Whether citizens are a population in columns: many, by rules alone."""
        return self.model is None and self.citizens > MOST_AGENTS

    @property
    def save_every(self) -> int:
        """After how many steps the state is recorded."""
        return max(1, _SAVED_S // seconds_of(self.step))

    @property
    def expected(self) -> tuple[int, int]:
        """How many calls of its model it takes, and of how many tokens in all, about."""
        calls = self.citizens * self.steps * 6 // 5
        return calls, calls * _CALL_TOKENS

    @property
    def is_remote(self) -> bool:
        """Whether its model is of a server, which may cost money."""
        return (self.model or "").partition(":")[0] in ("openai", "http", "https", "litellm")

    @property
    def task(self) -> str:
        """Who lives how long."""
        return f"{self.citizens:,} citizens, {self.steps:,} steps of {self.step}, seed {self.seed}"

    @property
    def in_words(self) -> str:
        """What is set up, in a line."""
        how = self.model or ("rules, in columns" if self.in_columns else "rules")
        return f"by {how}{f'; tables in {self.out}' if self.out else ''}"


def check(order: SimulateOrder) -> None:
    """See that an order can be carried out; ConfigError if it cannot."""
    seconds = seconds_of(order.step, "--step")
    if not 0 < order.days <= _MOST_DAYS:
        raise ConfigError(f"--days must be above 0, at most {_MOST_DAYS}, got {order.days:g}")
    steps = order.days * DAY_S / seconds
    if steps != int(steps):
        raise ConfigError(f"--days {order.days:g} is not a whole number of steps of {order.step}")
    if order.parquet is not None and order.out is None:
        which = "--parquet" if order.parquet else "--csv"
        raise ConfigError(f"{which} is for the tables: give --out DIR too")
    if order.model is None and (order.max_usd or order.max_calls):
        which = "--max-usd" if order.max_usd else "--max-calls"
        raise ConfigError(f"{which} is for a model: give --model too")


def society_of(
    order: SimulateOrder, journal: Journal | None = None, key: str | None = None
) -> Society:
    """The society that an order asks for: its city, people and services, by its seed.

    `await society.run(order.days, order.step, run_id=…, save_every=order.save_every)` lives there.
    It takes seconds to make one of many citizens: do it in a thread beside a loop. `key` is for its
    model; UnknownPrice is raised if money is limited, and nobody has stated the model's price.
    """
    from civitas.society.experiments.models import town

    model = None if order.model is None else made_model(order.model, key)
    budget = budget_of(order.command, model, usd=order.max_usd, model_calls=order.max_calls)
    made: Society = town(
        order.seed,
        citizens=order.citizens,
        llm=model,
        budget=budget,
        columns=order.in_columns,
        threads=order.threads,
        journal=journal,
    )
    return made
