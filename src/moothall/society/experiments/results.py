"""The results of an experiment, read from their file; means and intervals are over seeds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moothall import ConfigError, Interval
from moothall.build import SafeHTML, check_text, counted, error_text, one_line
from moothall.society.arrays import import_package
from moothall.society.experiments.measurements import ANSWERS_PREFIX, TOTALS_KEY, fallbacks_in_words
from moothall.society.tables import import_arrow, trajectories_path
from moothall.society.trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

Key = tuple[str, str, str]  # condition, values of parameters (JSON), metric


class Results:
    """The measurements of an experiment.

    Args:
        path: the Parquet file with columns experiment, condition, parameters, seed, step, metric,
            value and text

    Attributes:
        path: the file
        conditions: the conditions and branches, in order
        grid: the combinations of swept parameters, as JSON
        metrics: the names of the metrics
        texts: answers in interviews, as (condition, parameters, seed, step, question, text)
        failures: how often a citizen lost its turn, a service failed or a question had no answer
        first_failures: the first mistakes, each with its step, citizen, file and line
        model_calls: how often a model was to decide
        fallbacks: how often it could not, and a rule decided
        by_rule: how often that was for each block, in brackets; empty for no model
        first_fallback: why a rule decided the first time; empty for never

    Raises:
        ConfigError: `path` is not such a file
        MissingExtra: pyarrow is not installed
    """

    def __init__(self, path: Path | str, draw: Callable[..., Figure] | None = None) -> None:
        self.path: Path = Path(path)
        self._draw = draw
        _, parquet = import_arrow()
        names = ("condition", "parameters", "metric", "step", "seed", "value", "text")
        try:
            with parquet.ParquetFile(self.path) as file:
                columns, metadata = file.read().to_pydict(), file.metadata.metadata or {}
            totals = json.loads(metadata.get(TOTALS_KEY, "{}"))
            rows = zip(*(columns[each] for each in names), strict=True)
        except (OSError, ValueError, KeyError) as error:
            reason = f"{self.path} has no results of an experiment: {error_text(error)}"
            raise ConfigError(reason) from error
        self.failures: int = totals.get("failures", 0)
        self.first_failures: list[str] = totals.get("first_failures", [])
        self.model_calls: int = totals.get("model_calls", 0)
        self.fallbacks: int = totals.get("fallbacks", 0)
        self.by_rule: str = fallbacks_in_words(totals)
        self.first_fallback: str = "".join(totals.get("first_fallback", [])[:1])
        self._values: dict[Key, dict[int, dict[int, float]]] = {}
        self.texts: list[tuple[str, str, int, int, str, str]] = []
        self._answers: list[tuple[str, str, int, int, str, str]] = []
        for condition, values, metric, step, seed, value, text in rows:
            if value is None:
                texts = self._answers if metric.startswith(ANSWERS_PREFIX) else self.texts
                texts.append((condition, values, seed, step, metric, text))
                continue
            of_key = self._values.setdefault((condition, values, metric), {})
            of_key.setdefault(step, {})[seed] = value
        parts = list(zip(*self._values, strict=True)) or [(), (), ()]
        self.conditions: list[str]
        self.grid: list[str]
        self.metrics: list[str]
        self.conditions, self.grid, self.metrics = (list(dict.fromkeys(each)) for each in parts)

    def __repr__(self) -> str:
        seeds = {seed for of in self._values.values() for at in of.values() for seed in at}
        swept = [counted(len(self.grid), "parameter set")]
        sizes = [counted(len(self.conditions), "condition"), *swept * (len(self.grid) > 1)]
        sizes.append(counted(len(seeds), "seed"))
        if self.failures:
            sizes.append(f"{self.failures:,} failures, the first in {self.first_failures[0]}")
        return f"Results({', '.join(sizes)}, metrics: {one_line(', '.join(self.metrics), 200)})"

    def _repr_html_(self) -> str:
        rows = [
            (metric, condition, values, str(interval), interval.n, max(self._values[key]))
            for key in self._values
            for condition, values, metric in (key,)
            for interval in (self.interval(metric, condition, None, values),)
        ]
        heads = ("metric", "condition", "parameters", "mean [95 %]", "seeds", "after steps")
        return SafeHTML.table(heads, rows, len(rows))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All measurements: condition, parameters (JSON) and each, metric, step, seed, value."""
        names = ("condition", "parameters", "metric", "step", "seed", "value")
        return [
            {**json.loads(key[1]), **dict(zip(names, (*key, step, seed, value), strict=True))}
            for key, steps in self._values.items()
            for step, by_seed in sorted(steps.items())
            for seed, value in sorted(by_seed.items())
        ]

    def to_pandas(self) -> DataFrame:
        """Return `rows` as a data frame of pandas. Raises MissingExtra: it is not installed."""
        pandas = import_package("pandas", "Results.to_pandas()", "pandas")
        frame: DataFrame = pandas.DataFrame(self.rows)
        return frame

    def plot(
        self,
        metric: str | None = None,
        path: str | Path | None = None,
        *,
        ax: Axes | None = None,
    ) -> Figure:
        """Return a picture of a metric.

        Args:
            metric: its name; the first one if left out
            path: a file to write the picture to
            ax: axes of matplotlib to draw in, of a figure of your own; None for a new figure

        Raises:
            ConfigError: there is no such metric, or the results were read from a file
            MissingExtra: matplotlib is not installed
        """
        if self._draw is None:  # the experiment knows labels and how long a step is
            raise ConfigError(f"{self.path} has no labels: plot what experiment.run(out=…) returns")
        name = self.metrics[0] if metric is None else metric
        check_text("metric", name, self.metrics)
        return self._draw(self, name, path, ax)

    def answers(self, survey: str | None = None) -> list[dict[str, Any]]:
        """Return what each citizen answered in surveys that say `keep: true`, as dicts.

        A dict has condition, parameters (JSON), seed, step, survey, citizen, question, value and
        source (`model`, `rule` or `none`); `pandas.DataFrame` takes them.

        Args:
            survey: the name of the survey; all surveys if left out
        """
        return [
            {
                "condition": condition,
                "parameters": values,
                "seed": seed,
                "step": step,
                "survey": metric.removeprefix(ANSWERS_PREFIX),
                "citizen": citizen,
                "question": question,
                "value": value,
                "source": source,
            }
            for condition, values, seed, step, metric, text in self._answers
            if survey is None or metric == ANSWERS_PREFIX + survey
            for citizen, question, value, source in json.loads(text)
        ]

    def trajectories(
        self,
        condition: str = "base",
        seed: int = 0,
        parameters: Mapping[str, object] | str | None = None,
    ) -> Trajectories:
        """Return who was where when in a cell; its experiment has `trajectories: true`.

        Args:
            condition: the condition or branch
            seed: the seed
            parameters: the values of the swept parameters; not needed if none is swept

        Raises:
            ConfigError: the folder of the results has no such table
        """
        path = trajectories_path(self.path.parent, condition, seed, self._grid(parameters))
        if not path.is_file():
            raise ConfigError(
                f"{path.parent} has no trajectories of condition {condition!r} and seed {seed}: "
                "run the experiment with trajectories: true and out="
            )
        return Trajectories(path)

    def _grid(self, parameters: Mapping[str, object] | str | None) -> str:
        """Return a combination of swept parameters as JSON; the only one if None."""
        if parameters is None:
            if len(self.grid) > 1:
                raise ConfigError(f"say which parameters, one of {', '.join(self.grid)}")
            return self.grid[0] if self.grid else ""
        if isinstance(parameters, Mapping):
            parameters = json.dumps(
                dict(parameters),
                sort_keys=True,
                default=lambda each: getattr(each, "item", each.__repr__)(),  # numbers of NumPy
            )
        if not isinstance(parameters, str) or (self.grid and parameters not in self.grid):
            options = " or ".join(self.grid) or "left out"
            raise ConfigError(f"parameters must be {options}, got {parameters!r:.200}")
        return parameters

    def measured(self, metric: str) -> list[tuple[str, str]]:
        """Return the conditions and parameters for which a metric was measured, in order."""
        pairs = itertools.product(self.conditions, self.grid)
        return [each for each in pairs if (*each, metric) in self._values]

    def curve(
        self,
        metric: str,
        condition: str = "base",
        parameters: Mapping[str, object] | str | None = None,
    ) -> dict[int, dict[int, float]]:
        """Return the values by number of steps, then by seed; arguments as of `values`."""
        parameters = self._grid(parameters)
        by_step = self._values.get((condition, parameters, metric))
        if by_step is None:
            raise ConfigError(
                f"there is no {metric!r} of condition {condition!r} with {parameters}; metrics: "
                f"{', '.join(self.metrics)}; conditions: {', '.join(self.conditions)}"
            )
        return {step: by_step[step] for step in sorted(by_step)}

    def values(
        self,
        metric: str,
        condition: str = "base",
        step: int | None = None,
        parameters: Mapping[str, object] | str | None = None,
    ) -> dict[int, float]:
        """Return the value of each seed.

        Args:
            metric: the name of the metric; of a survey `NAME.QUESTION`
            condition: the condition or branch
            step: after how many steps; the last with this metric if left out
            parameters: the values of the swept parameters; not needed if none is swept

        Raises:
            ConfigError: there is no such value
        """
        steps = self.curve(metric, condition, parameters)
        step_number = max(steps) if step is None else step
        if step_number not in steps:
            raise ConfigError(f"{metric!r} was not measured after {step_number} steps")
        return steps[step_number]

    def interval(
        self,
        metric: str,
        condition: str = "base",
        step: int | None = None,
        parameters: Mapping[str, object] | str | None = None,
    ) -> Interval:
        """Return the mean over seeds and its interval; arguments as of `values`."""
        return Interval.of_values(list(self.values(metric, condition, step, parameters).values()))

    def difference(
        self,
        metric: str,
        condition: str,
        other: str,
        step: int | None = None,
        parameters: Mapping[str, object] | str | None = None,
    ) -> Interval:
        """Return how far a condition is above `other`, seed by seed; arguments as of `values`."""
        first = self.values(metric, condition, step, parameters)
        second = self.values(metric, other, step, parameters)
        return Interval.of_values([first[seed] - second[seed] for seed in first if seed in second])
