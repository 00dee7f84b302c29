"""The results of an experiment: means and intervals over seeds, and their differences."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from civitas.errors import ConfigError
from civitas.society.arrays import package
from civitas.society.experiments.table import arrow

Key = tuple[str, str, str]
"""Condition, values of parameters (JSON), metric."""


@dataclass(frozen=True)
class Interval:
    """A mean over `n` seeds and its 95 % interval by Student's t; of one seed, the mean alone."""

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> Interval:
        """The mean of values and its interval. Raises ConfigError: there is no value."""
        n = len(values)
        if n == 0:
            raise ConfigError("there is no value to take the mean of")
        mean = math.fsum(values) / n
        if n == 1:
            return cls(mean, mean, mean, 1)
        variance = math.fsum((each - mean) ** 2 for each in values) / (n - 1)
        t = float(package("scipy.special").stdtrit(n - 1, 0.975))
        half = t * math.sqrt(variance / n)
        return cls(mean, mean - half, mean + half, n)

    def __str__(self) -> str:
        if self.n == 1:
            return _short(self.mean)
        return f"{_short(self.mean)} [{_short(self.low)}, {_short(self.high)}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


class Results:
    """What an experiment has measured.

    Args:
        path: the Parquet with the columns experiment, condition, parameters, seed, step, metric,
            value and text

    Attributes:
        path: the file
        conditions: the conditions and branches, in their order
        grid: the combinations of swept parameters, as JSON
        metrics: what was measured
        texts: what was said in interviews, as (condition, parameters, seed, step, question, text)

    Raises:
        ConfigError: it is no such file
        MissingExtra: pyarrow is not installed
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        _, parquet = arrow()
        names = ("condition", "parameters", "metric", "step", "seed", "value", "text")
        try:
            columns = parquet.read_table(self.path).to_pydict()
            rows = zip(*(columns[each] for each in names), strict=True)
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(f"{self.path} has no results of an experiment: {error}") from error
        self._values: dict[Key, dict[int, dict[int, float]]] = {}
        self.texts: list[tuple[str, str, int, int, str, str]] = []
        for condition, values, metric, step, seed, value, text in rows:
            if value is None:
                self.texts.append((condition, values, seed, step, metric, text))
                continue
            of_key = self._values.setdefault((condition, values, metric), {})
            of_key.setdefault(step, {})[seed] = value
        parts = list(zip(*self._values, strict=True)) or [(), (), ()]
        self.conditions, self.grid, self.metrics = (list(dict.fromkeys(each)) for each in parts)

    def has(self, metric: str, condition: str, parameters: str) -> bool:
        """Whether it was measured there."""
        return (condition, parameters, metric) in self._values

    def curve(
        self,
        metric: str,
        condition: str = "base",
        parameters: Mapping[str, Any] | str | None = None,
    ) -> dict[int, dict[int, float]]:
        """The value of each seed, by how many steps were lived; arguments as of `values`."""
        if parameters is None:
            if len(self.grid) > 1:
                raise ConfigError(f"say which parameters, one of {', '.join(self.grid)}")
            parameters = self.grid[0] if self.grid else ""
        elif not isinstance(parameters, str):
            parameters = json.dumps(dict(parameters), sort_keys=True)
        found = self._values.get((condition, parameters, metric))
        if found is None:
            raise ConfigError(
                f"there is no {metric!r} of condition {condition!r} with {parameters}; metrics: "
                f"{', '.join(self.metrics)}; conditions: {', '.join(self.conditions)}"
            )
        return {step: found[step] for step in sorted(found)}

    def values(
        self,
        metric: str,
        condition: str = "base",
        step: int | None = None,
        parameters: Mapping[str, Any] | str | None = None,
    ) -> dict[int, float]:
        """The value of each seed.

        Args:
            metric: what was measured; of a survey `NAME.QUESTION`
            condition: in which condition
            step: after how many steps; the last with this metric if left out
            parameters: the values of the swept parameters; not needed where none is swept

        Raises:
            ConfigError: there is no such value
        """
        steps = self.curve(metric, condition, parameters)
        at = max(steps) if step is None else step
        if at not in steps:
            raise ConfigError(f"{metric!r} was not measured after {at} steps")
        return steps[at]

    def interval(
        self,
        metric: str,
        condition: str = "base",
        step: int | None = None,
        parameters: Mapping[str, Any] | str | None = None,
    ) -> Interval:
        """The mean over seeds and its interval; arguments as of `values`."""
        return Interval.of(list(self.values(metric, condition, step, parameters).values()))

    def difference(
        self,
        metric: str,
        condition: str,
        other: str,
        step: int | None = None,
        parameters: Mapping[str, Any] | str | None = None,
    ) -> Interval:
        """By how much a condition is above another, seed by seed; arguments as of `values`."""
        one = self.values(metric, condition, step, parameters)
        two = self.values(metric, other, step, parameters)
        return Interval.of([one[seed] - two[seed] for seed in one if seed in two])


def _short(value: float) -> str:
    """A number with four digits that count."""
    size = abs(value)
    if size >= 1000 or size == int(size) == value:
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.1e}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"
