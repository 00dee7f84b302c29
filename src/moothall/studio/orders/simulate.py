"""The order of `moothall simulate`, and the society that it asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from moothall import Clock, ConfigError, FileError, StateError
from moothall.build import UnreadableText, counted, load_state, read_json
from moothall.models import ModelName, budget_of, made_model
from moothall.society import DAY_S
from moothall.studio.orders.faults import about, check_none, fault

if TYPE_CHECKING:
    from moothall.journal import Journal
    from moothall.society import Experiment, Society

_ROWS_PER_THREAD: Final = 1 << 18
"""With fewer rows for each, threads wait for one another longer than they gain
(docs/benchmarks.md)."""
_MAX_WRITTEN: Final = 10_000
"""Messages of more citizens than this are counted and not written, unless a model decides."""
_MIN_CITIZENS: Final = 10
_MAX_DAYS: Final = 100_000
_SAVE_INTERVAL_S: Final = DAY_S // 4
"""How many simulated seconds pass between two recorded states."""
_TOKENS_PER_CALL: Final = 700
"""Measured in steps of 15min and 6h: a plan a day, 0.15 to 0.23 calls a citizen and step besides,
and 560 tokens a call."""


@dataclass(frozen=True)
class SimulateOrder:
    """The settings of `moothall simulate` from the command line."""

    command: ClassVar[str] = "simulate"
    part: ClassVar[str] = "moothall simulate"  # of a run: what records the order
    # What may be another when the run is resumed.
    may_change: ClassVar[tuple[str, ...]] = (
        "max_usd",
        "max_calls",
        "out",
        "parquet",
        "threads",
        "trajectories",
    )
    paths: ClassVar[tuple[str, ...]] = ("out",)
    # Options that may have an address with a key in it.
    addresses: ClassVar[tuple[str, ...]] = ("model",)

    citizens: int = 1000
    days: float = 1.0
    seed: int = 0  # what the town, its people and all chance are drawn from
    step: str = "15min"
    model: str | None = None  # which citizens ask; None for rules alone
    max_usd: float | None = None
    max_calls: int | None = None
    out: str | None = None  # the folder of the tables
    parquet: bool | None = None  # or CSV, as is None
    threads: int | None = None  # for citizens in columns; None for as many as pay
    trajectories: bool = False  # whether the tables say who was where in each step

    @property
    def steps(self) -> int:
        """The number of steps."""
        return round(self.days * DAY_S / Clock(step=self.step).step_s)

    @property
    def counts_messages(self) -> bool:
        """Whether messages are only counted, not written: of many citizens without a model."""
        return self.model is None and self.citizens > _MAX_WRITTEN

    @property
    def save_every(self) -> int:
        """How many steps pass between two recorded states."""
        return max(1, _SAVE_INTERVAL_S // Clock(step=self.step).step_s)

    @property
    def expected(self) -> tuple[int, int]:
        """The expected number of model calls, and of tokens in all; both are estimates."""
        days = -(-self.steps * Clock(step=self.step).step_s // DAY_S)
        calls = self.citizens * (2 * days + self.steps) * 9 // 40
        return calls, calls * _TOKENS_PER_CALL

    @property
    def is_remote(self) -> bool:
        """Whether its model is on a server, which may cost money."""
        return ModelName(self.model or "").is_remote

    @property
    def task(self) -> str:
        """How many citizens live for how many steps, in a line."""
        steps = counted(self.steps, "step")
        return f"{self.citizens:,} citizens, {steps} of {self.step}, seed {self.seed}"

    @property
    def in_words(self) -> str:
        """The settings, in a line."""
        return f"by {self.model or 'rules'}{f'; tables in {self.out}' if self.out else ''}"


def order_of_tables(folder: str | PathLike[str]) -> SimulateOrder:
    """Return the order of the town whose tables `moothall simulate --out` wrote to a folder.

    Raises:
        ConfigError: a model decided, so that the order alone does not give the same town
        FileError: the folder has no manifest of such a town
    """
    path = Path(folder, "manifest.json")
    try:
        settings = read_json(path.read_text(encoding="utf-8"))["settings"]
        names = {each.name for each in fields(SimulateOrder)} & settings.keys()
        if not {"citizens", "seed"} <= names:
            raise UnreadableText("it is of no town")
        state = {name: settings[name] for name in names}
        order = load_state(SimulateOrder, state, "its settings")
    except (OSError, UnicodeDecodeError, UnreadableText, LookupError, TypeError, StateError) as e:
        text = "names no town; `moothall simulate --out DIR` writes one"
        raise FileError(f"{path} {text}: {e}") from e
    if order.model is not None:
        raise ConfigError(
            f"the town in {str(folder)!r} was decided by a model, which may decide otherwise now: "
            "simulate it with --journal FILE, and open that journal"
        )
    check_simulation(order)
    return order


def check_simulation(order: SimulateOrder) -> None:
    """Check that an order can be carried out; ConfigError tells all faults."""
    check_none(_faults(order))


def _faults(order: SimulateOrder) -> Iterator[ConfigError]:
    if order.citizens < _MIN_CITIZENS:
        yield fault("citizens", f" must be {_MIN_CITIZENS} or more, got {order.citizens}")
    try:
        seconds = Clock(step=order.step).step_s
    except ConfigError as error:
        yield ConfigError(f"--{error}", argument="step")  # it names `step`
        seconds = 0
    if not 0 < order.days <= _MAX_DAYS:
        yield fault("days", f" must be above 0, at most {_MAX_DAYS}, got {order.days:g}")
    elif seconds and (not order.steps or abs(order.days * DAY_S / seconds - order.steps) > 1e-6):
        yield fault("days", f" {order.days:g} is not a whole number of steps of {order.step}")
    if order.out == "":
        yield fault("out", " must be a folder, got an empty text")
    elif order.out is not None:
        path = Path(order.out).absolute()
        existing = next(each for each in (path, *path.parents) if each.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            yield fault("out", f": nothing can be written in {str(existing)!r}")
    if order.parquet is not None and order.out is None:
        yield fault("parquet" if order.parquet else "csv", " is for the tables: give --out DIR too")
    if order.trajectories and order.out is None:
        yield fault("trajectories", " is a table: give --out DIR too")
    if order.model is None and (order.max_usd or order.max_calls):
        option = "max_usd" if order.max_usd else "max_calls"
        yield fault(option, " is for a model: give --model too")
    if order.model is not None:
        try:
            ModelName(order.model).check_spelling()
        except ConfigError as error:
            yield fault("model", f": {error}")


def threads_for(citizens: int) -> int:
    """Return how many threads pay for so many citizens in columns, on this process's cores."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    return max(1, min(cores, citizens // _ROWS_PER_THREAD))


def is_unbounded(experiment: Experiment) -> bool:
    """Return whether a cell of an experiment may ask a model on a server without a limit."""
    return any(
        ModelName(str(cell.parameters.get("llm"))).is_remote
        for cell in experiment.cells()
        if not (cell.parameters.get("max_usd") or cell.parameters.get("max_calls"))
    )


def society_of(
    order: SimulateOrder, journal: Journal | None = None, key: str | None = None
) -> Society:
    """Return the society that an order asks for: its city, people and services, by its seed.

    Run it by `await society.run(order.days, order.step, run_id=…, save_every=order.save_every)`.
    Making many citizens takes seconds: call this in a thread, not on an event loop.
    """
    from moothall.society import (
        City,
        Feed,
        LocalEngine,
        Population,
        Society,
        make_economy,
    )

    with about("model"):
        model = None if order.model is None else made_model(order.model, key)
    budget = budget_of(order.command, model, usd=order.max_usd, model_calls=order.max_calls)
    seed = order.seed
    city = City.generate(seed=seed, citizens=order.citizens)
    citizens: int | Population = order.citizens
    if order.counts_messages:
        citizens = Population(order.citizens, city, seed=seed)
    return Society(
        citizens,
        city,
        seed=seed,
        model=model,
        engine=LocalEngine(threads=order.threads or threads_for(order.citizens)),
        journal=journal,
        budget=budget,
        services=[*make_economy(city, seed=seed), Feed()],
    )
