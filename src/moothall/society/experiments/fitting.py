"""Fit the parameters of an experiment to known figures, by approximate Bayesian computation.

The algorithm is that of Lenormand, Jabot, Deffuant 2013, "Adaptive approximate Bayesian
computation for complex models", Computational Statistics 28: each round keeps the better part of
its points, draws new ones near these, and weighs them by importance, until few are better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError
from moothall.build import SafeHTML, check_integer, nearest
from moothall.society.arrays import Array, import_package, np
from moothall.society.experiments.design import Design
from moothall.society.experiments.points import (
    Bounds,
    Point,
    checked_condition,
    condition_at,
    run_points,
)
from moothall.society.experiments.results import Results

if TYPE_CHECKING:
    from pandas import DataFrame

    from moothall.society.experiments.sweep import SweepProgress

_KEPT_SHARE: Final = 0.5  # the part of the points that a round keeps
_MAX_TRIES: Final = 1000  # how often a point outside the prior is drawn again


@dataclass(frozen=True)
class Target:
    """A known figure of a metric in a condition after some steps; `scale` is the unit of errors."""

    metric: str
    value: float
    condition: str
    step: int | None = None
    scale: float | None = None


@dataclass(frozen=True)
class Fit:
    """Points of the parameters that come near the targets: a sample of the posterior.

    Attributes:
        points: the values of the parameters at each point, the nearest first
        weights: the weight of each point; their sum is 1
        distances: how far each point's metrics are from the targets: the root of the sum of the
            squared differences, each in units of its target's scale
        rounds: what each round did: `simulated`, `accepted` (the share of its new points that came
            nearer than the bound before) and `distance` (the bound after it)
        means: each target's metric at the nearest point
    """

    points: list[Point]
    weights: list[float]
    distances: list[float]
    rounds: list[dict[str, float]]
    means: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> Point:
        """The nearest point."""
        return self.points[0]

    def mean(self, name: str) -> float:
        """Return a parameter's weighted mean. Raises ConfigError: there is no such parameter."""
        values = self._values(name)
        return math.fsum(a * b for a, b in zip(values, self.weights, strict=True))

    def interval(self, name: str, share: float = 0.95) -> tuple[float, float]:
        """Return the bounds between which a share of a parameter's weight lies."""
        if not 0 < share < 1:
            raise ConfigError(f"share must be between 0 and 1, got {share!r:.40}")
        rows = sorted(zip(self._values(name), self.weights, strict=True))
        bounds: list[float] = []
        for part in ((1 - share) / 2, (1 + share) / 2):
            weight = 0.0
            for value, each in rows:
                weight += each
                if weight >= part - 1e-12:
                    bounds.append(value)
                    break
        return bounds[0], bounds[-1]

    @property
    def rows(self) -> list[dict[str, float]]:
        """The points as dicts, with `weight` and `distance`."""
        triples = zip(self.points, self.weights, self.distances, strict=True)
        return [{**point, "weight": weight, "distance": gap} for point, weight, gap in triples]

    def to_pandas(self) -> DataFrame:
        """Return `rows` as a data frame of pandas."""
        frame: DataFrame = import_package("pandas", "Fit.to_pandas()", "pandas").DataFrame(
            self.rows
        )
        return frame

    def _values(self, name: str) -> list[float]:
        if name not in self.best:
            names = ", ".join(self.best)
            raise ConfigError(f"there is no parameter {name!r}{nearest(name, self.best)}: {names}")
        return [each[name] for each in self.points]

    def _repr_html_(self) -> str:
        rows = []
        for name in self.best:
            low, high = self.interval(name)
            cells = (self.mean(name), low, high, self.best[name])
            rows.append([name, *(f"{each:.4g}" for each in cells)])
        return SafeHTML.table(("parameter", "mean", "2.5 %", "97.5 %", "nearest"), rows, len(rows))


def checked_targets(design: Design, targets: Mapping[str, Any]) -> list[Target]:
    """Return the targets, checked."""
    measured = [each.name for each in design.metrics]
    measured += [name for each in design.surveys() for name in each.metrics]
    checked = []
    for metric, target in targets.items():
        if metric not in measured:
            near = nearest(metric, measured)
            names = ", ".join(dict.fromkeys(measured)) or "none"
            raise ConfigError(
                f"targets: no metric {metric!r} is measured{near}; there are: {names}"
            )
        parts = dict(target) if isinstance(target, Mapping) else {"value": target}
        if unknown := set(parts) - {"value", "condition", "step", "scale"}:
            rule = "has value, condition, step and scale"
            raise ConfigError(f"targets: {metric!r} {rule}, got {min(unknown)!r:.40}")
        for name in ("value", "scale"):
            number: Any = parts.get(name)
            if number is None and name == "scale":
                continue
            if type(number) not in (int, float) or not math.isfinite(number):
                raise ConfigError(f"targets: {metric}.{name} must be a number, got {number!r:.40}")
        if parts.get("scale") is not None and parts["scale"] <= 0:
            raise ConfigError(f"targets: {metric}.scale must be above 0, got {parts['scale']}")
        condition = checked_condition(design, parts.pop("condition", None))
        checked.append(Target(metric, parts.pop("value"), condition, **parts))
    if not checked:
        raise ConfigError("targets must have one metric or more, as {metric: value}")
    return checked


class Priors:
    """What is known of the parameters before: bounds, or distributions of scipy.stats."""

    def __init__(self, priors: Mapping[str, object]) -> None:
        if not priors:
            raise ConfigError("priors must have one parameter or more, as {name: (low, high)}")
        uniform = import_package("scipy.stats").uniform
        self.names: list[str] = list(priors)
        self._priors: list[Any] = []
        self._bounds: list[Bounds | None] = []
        for name, prior in priors.items():
            if callable(getattr(prior, "ppf", None)) and callable(getattr(prior, "pdf", None)):
                self._priors.append(prior)
                self._bounds.append(None)
                continue
            bounds = Bounds(name, prior)
            low, high = bounds.ends
            self._priors.append(uniform(low, high - low))
            self._bounds.append(bounds)

    def draw_points(self, units: Any) -> Array:
        """Return points for numbers from 0 to 1, a column for each parameter."""
        columns = [each.ppf(units[:, at]) for at, each in enumerate(self._priors)]
        return np.column_stack(columns)

    def density(self, points: Array) -> Any:
        """Return the density of points."""
        return np.prod([each.pdf(points[:, at]) for at, each in enumerate(self._priors)], axis=0)

    def point(self, row: Any) -> Point:
        """Return a row of numbers as values of the parameters."""
        pairs = zip(self.names, row.tolist(), self._bounds, strict=True)
        return {name: at if bounds is None else bounds.value(at) for name, at, bounds in pairs}


async def fit(
    design: Design,
    targets: Mapping[str, object],
    priors: Mapping[str, object],
    points: int,
    rounds: int,
    min_accepted: float,
    seed: int,
    jobs: int,
    out: Path | None,
    progress: Callable[[SweepProgress], object] | None,
) -> Fit:
    """Return points that come near the targets; see `Experiment.fit`."""
    check_integer("points", points, 4, 100_000)
    check_integer("rounds", rounds, 1, 1000)
    prior, goals = Priors(priors), checked_targets(design, targets)
    conditions = list(dict.fromkeys(each.condition for each in goals))
    random = np.random.default_rng(seed)
    kept_count = max(2, int(points * _KEPT_SHARE))
    scales: list[float] = []

    async def simulate(rows: Array, number: int) -> tuple[Array, Array]:
        folder = None if out is None else out / f"round-{number}"
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        at = [prior.point(row) for row in rows]
        results = await run_points(design, at, conditions, jobs=jobs, out=folder, progress=progress)
        measured = np.array([_measured_targets(results, goals, each) for each in range(len(at))])
        if not scales:
            spread = measured.std(axis=0)
            scales.extend(
                each.scale or (float(deviation) if deviation > 0 else 1.0)
                for each, deviation in zip(goals, spread, strict=True)
            )
        distance = (measured - [each.value for each in goals]) / scales
        return measured, np.sqrt((distance**2).sum(axis=1))

    units = (
        import_package("scipy.stats.qmc")
        .LatinHypercube(len(prior.names), rng=random)
        .random(points)
    )
    rows = prior.draw_points(units)
    measured, distances = await simulate(rows, 1)
    weights = np.ones(points)  # of importance: the prior's density, divided by the proposal's
    history: list[dict[str, float]] = []
    accepted, new_count = 1.0, points
    for number in range(1, rounds + 1):
        best = np.argsort(distances, kind="stable")[:kept_count]
        rows, weights, distances, measured = (
            each[best] for each in (rows, weights, distances, measured)
        )
        bound = float(distances[-1])
        history.append({"simulated": new_count, "accepted": accepted, "distance": bound})
        if number == rounds or accepted < min_accepted or bound == 0:
            break
        new_rows, new_weights = _move_points(rows, weights, prior, points - kept_count, random)
        new_measured, new_distances = await simulate(new_rows, number + 1)
        new_count, accepted = len(new_rows), float(np.mean(new_distances <= bound))
        rows = np.vstack([rows, new_rows])
        weights = np.concatenate([weights, new_weights])
        distances = np.concatenate([distances, new_distances])
        measured = np.vstack([measured, new_measured])
    best_means = {each.metric: float(mean) for each, mean in zip(goals, measured[0], strict=True)}
    row_points = [prior.point(row) for row in rows]
    weights = weights / weights.sum()
    return Fit(row_points, weights.tolist(), distances.tolist(), history, best_means)


def _measured_targets(results: Results, targets: list[Target], number: int) -> list[float]:
    return [
        results.interval(each.metric, condition_at(number, each.condition), each.step).mean
        for each in targets
    ]


def _move_points(
    rows: Array, weights: Array, prior: Priors, count: int, random: np.random.Generator
) -> tuple[Array, Array]:
    """Return new points near others, drawn by weight, and their weights by importance."""
    size, weights = rows.shape[1], weights / weights.sum()
    spread = 2 * np.atleast_2d(np.cov(rows.T, aweights=weights))
    floor = 1e-12 * np.maximum(1.0, np.abs(rows).max(axis=0)) ** 2
    spread = spread + np.diag(floor)  # all points may have the same value
    moved = np.empty((count, size))
    for index in range(count):
        for _ in range(_MAX_TRIES):
            centre = rows[random.choice(len(rows), p=weights)]
            moved[index] = random.multivariate_normal(centre, spread)
            if prior.density(moved[index : index + 1])[0] > 0:
                break
        else:
            moved[index] = centre
    kernel = import_package("scipy.stats").multivariate_normal(np.zeros(size), spread)
    densities = kernel.pdf((moved[:, None, :] - rows[None, :, :]).reshape(-1, size))
    proposed = densities.reshape(count, len(rows)) @ weights
    return moved, prior.density(moved) / proposed
