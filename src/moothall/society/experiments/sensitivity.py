"""How much each parameter of an experiment moves its metrics, by SALib."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError
from moothall.build import SafeHTML, check_integer
from moothall.society.arrays import import_package, np
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

METHODS: Final = {
    "sobol": ("S1", "S1_conf", "ST", "ST_conf"),
    "morris": ("mu", "mu_star", "mu_star_conf", "sigma"),
}
"""The indices of each method, as SALib calls them."""
_MORRIS_LEVELS: Final = 4  # of the grid of Morris's method


@dataclass(frozen=True)
class Sensitivity:
    """How much each parameter moves each metric.

    Attributes:
        method: `sobol` or `morris`
        rows: a dict for each metric and parameter: `metric`, `parameter`, and the indices. Of
            `sobol`: `S1`, the share of the variance that the parameter explains alone, and `ST`,
            with all its interactions, both with the half width of their 95 % interval. Of
            `morris`: `mu`, the mean effect of a step of the parameter, `mu_star`, that of its size,
            and `sigma`, how much the effect depends on where it is taken. An index is None where
            the metric never changes
        results: the measurements
        points: the values of the parameters, in the order of the conditions `0: NAME`, `1: NAME`, …
    """

    method: str
    rows: list[dict[str, Any]]
    results: Results
    points: list[Point]

    def of(self, metric: str) -> dict[str, dict[str, float | None]]:
        """Return the indices of a metric, by parameter. Raises ConfigError: it was not measured."""
        indices = {
            row["parameter"]: {name: row[name] for name in METHODS[self.method]}
            for row in self.rows
            if row["metric"] == metric
        }
        if not indices:
            metrics = ", ".join(dict.fromkeys(row["metric"] for row in self.rows))
            raise ConfigError(f"there is no metric {metric!r}; there are: {metrics}")
        return indices

    def to_pandas(self) -> DataFrame:
        """Return `rows` as a data frame of pandas."""
        frame: DataFrame = import_package("pandas", "Sensitivity.to_pandas()", "pandas").DataFrame(
            self.rows
        )
        return frame

    def _repr_html_(self) -> str:
        heads = ("metric", "parameter", *METHODS[self.method])
        cells = [[_cell_text(row[name]) for name in heads] for row in self.rows]
        return SafeHTML.table(heads, cells, len(cells))


def bounds_of(design: Design, bounds: Mapping[str, object] | None) -> dict[str, Bounds]:
    """Return bounds by parameter; without any, those of the values that the design sweeps."""
    if bounds is None:
        swept = {name: values for name, values in design.parameters.items() if len(values) > 1}
        not_numbers = [
            name
            for name, values in swept.items()
            if not all(type(each) in (int, float) for each in values)
        ]
        if not_numbers or not swept:
            reason = f"{not_numbers[0]!r} has other values" if not_numbers else "nothing is swept"
            raise ConfigError(f"bounds= must be given, as {{name: (low, high)}}: {reason}")
        bounds = {name: (min(values), max(values)) for name, values in swept.items()}
    if not bounds:
        raise ConfigError("bounds= must have one parameter or more")
    return {name: Bounds(name, each) for name, each in bounds.items()}


async def analyse(
    design: Design,
    method: str,
    bounds: Mapping[str, object] | None,
    samples: int,
    condition: str | None,
    seed: int,
    jobs: int,
    out: Path | None,
    progress: Callable[[SweepProgress], object] | None,
) -> Sensitivity:
    """Run an experiment at the points of a method of SALib, and analyse its metrics."""
    if method not in METHODS:
        raise ConfigError(f"method must be one of {', '.join(METHODS)}, got {method!r:.40}")
    check_integer("samples", samples, 2, None)
    if method == "sobol" and samples & (samples - 1):
        raise ConfigError(f"samples must be a power of 2 for sobol, got {samples}")
    condition_name = checked_condition(design, condition)
    ranges = bounds_of(design, bounds)
    sampler = import_package(f"SALib.sample.{method}", "sensitivity", "sensitivity")
    analyser = import_package(f"SALib.analyze.{method}", "sensitivity", "sensitivity")
    # The levels of Morris's grid are equally likely as they are.
    bounds_drawn = [
        each.ends if method == "sobol" else (each.low, each.high) for each in ranges.values()
    ]
    problem = {"num_vars": len(ranges), "names": list(ranges), "bounds": bounds_drawn}
    if method == "sobol":
        sample = sampler.sample(problem, samples, calc_second_order=False, seed=seed)
    else:
        sample = sampler.sample(problem, samples, num_levels=_MORRIS_LEVELS, seed=seed)
    points: list[Point] = [
        {key: ranges[key].value(value) for key, value in zip(ranges, row, strict=True)}
        for row in sample.tolist()
    ]
    results = await run_points(
        design, points, [condition_name], jobs=jobs, out=out, progress=progress
    )
    rows = []
    for metric in results.metrics:
        point_conditions = (condition_at(number, condition_name) for number in range(len(points)))
        values = np.array([results.interval(metric, each).mean for each in point_conditions])
        indices = METHODS[method]
        if np.ptp(values) == 0:
            result = {name: [None] * len(ranges) for name in indices}
        elif method == "sobol":
            result = analyser.analyze(problem, values, calc_second_order=False, seed=seed)
        else:
            result = analyser.analyze(problem, sample, values, num_levels=_MORRIS_LEVELS, seed=seed)
        for index, parameter in enumerate(ranges):
            row = {"metric": metric, "parameter": parameter}
            rows.append(row | {name: _finite_or_none(result[name][index]) for name in indices})
    return Sensitivity(method, rows, results, points)


def _finite_or_none(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _cell_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value:.4g}"
