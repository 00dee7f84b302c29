"""The results of an experiment: a Parquet part for each cell, joined at the end, and read again.

Means and intervals are over seeds. A file is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall import ConfigError
from moothall.build import check_text, counted, display, error_text, one_line
from moothall.society.arrays import import_package
from moothall.society.tables import arrow, trajectories_path, write_whole, writing_errors
from moothall.society.trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Key = tuple[str, str, str]  # condition, values of parameters (JSON), metric
ANSWERS: Final = "answers "
"""How the metric of a text begins that has each citizen's answers to the survey of that name."""
_TOTALS: Final = b"moothall totals"
_AT_ONCE: Final = 1 << 16  # how many rows become one row group


@dataclass(frozen=True)
class Interval:
    """A mean over `n` seeds and its 95 % interval by Student's t; of one seed, the mean alone."""

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> Interval:
        """Return the mean of values and its interval. Raises ConfigError: there is no value."""
        n = len(values)
        if n == 0:
            raise ConfigError("there is no value to take the mean of")
        mean = math.fsum(values) / n
        if n == 1:
            return cls(mean, mean, mean, 1)
        variance = math.fsum((each - mean) ** 2 for each in values) / (n - 1)
        t = float(import_package("scipy.special").stdtrit(n - 1, 0.975))
        half = t * math.sqrt(variance / n)
        return cls(mean, mean - half, mean + half, n)

    def __str__(self) -> str:
        if self.n == 1:
            return _short(self.mean)
        return f"{_short(self.mean)} [{_short(self.low)}, {_short(self.high)}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


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

    Raises:
        ConfigError: `path` is not such a file
        MissingExtra: pyarrow is not installed
    """

    def __init__(self, path: Path | str, draw: Callable[..., Figure] | None = None) -> None:
        self.path: Path = Path(path)
        self._draw = draw
        _, parquet = arrow()
        names = ("condition", "parameters", "metric", "step", "seed", "value", "text")
        try:
            with parquet.ParquetFile(self.path) as file:
                columns, metadata = file.read().to_pydict(), file.metadata.metadata or {}
            totals = json.loads(metadata.get(_TOTALS, "{}"))
            rows = zip(*(columns[each] for each in names), strict=True)
        except (OSError, ValueError, KeyError) as error:
            reason = f"{self.path} has no results of an experiment: {error_text(error)}"
            raise ConfigError(reason) from error
        self.failures: int = totals.get("failures", 0)
        self.first_failures: list[str] = totals.get("first_failures", [])
        self._values: dict[Key, dict[int, dict[int, float]]] = {}
        self.texts: list[tuple[str, str, int, int, str, str]] = []
        self._answers: list[tuple[str, str, int, int, str, str]] = []
        for condition, values, metric, step, seed, value, text in rows:
            if value is None:
                texts = self._answers if metric.startswith(ANSWERS) else self.texts
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
        sizes = [counted(len(self.conditions), "condition"), counted(len(seeds), "seed")]
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
        return display.table(heads, rows, len(rows))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All measurements: condition, parameters (JSON) and each, metric, step, seed, value."""
        names = ("condition", "parameters", "metric", "step", "seed", "value")
        return [
            {**json.loads(key[1]), **dict(zip(names, (*key, step, seed, value), strict=True))}
            for key, steps in self._values.items()
            for step, of in sorted(steps.items())
            for seed, value in sorted(of.items())
        ]

    def to_pandas(self) -> DataFrame:
        """Return `rows` as a data frame of pandas. Raises MissingExtra: it is not installed."""
        pandas = import_package("pandas", "Results.to_pandas()", "pandas")
        frame: DataFrame = pandas.DataFrame(self.rows)
        return frame

    def plot(self, metric: str | None = None, path: str | Path | None = None) -> Figure:
        """Return a picture of a metric, the first if left out; `path` is a file to write it to.

        Raises:
            ConfigError: there is no such metric, or the results were read from a file
            MissingExtra: matplotlib is not installed
        """
        if self._draw is None:  # the experiment knows labels and how long a step is
            raise ConfigError(f"{self.path} has no labels: plot what experiment.run(out=…) returns")
        name = self.metrics[0] if metric is None else metric
        check_text("metric", name, self.metrics)
        return self._draw(self, name, path)

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
                "survey": metric.removeprefix(ANSWERS),
                "citizen": citizen,
                "question": question,
                "value": value,
                "source": source,
            }
            for condition, values, seed, step, metric, text in self._answers
            if survey is None or metric == ANSWERS + survey
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
        at = max(steps) if step is None else step
        if at not in steps:
            raise ConfigError(f"{metric!r} was not measured after {at} steps")
        return steps[at]

    def interval(
        self,
        metric: str,
        condition: str = "base",
        step: int | None = None,
        parameters: Mapping[str, object] | str | None = None,
    ) -> Interval:
        """Return the mean over seeds and its interval; arguments as of `values`."""
        return Interval.of(list(self.values(metric, condition, step, parameters).values()))

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
        return Interval.of([first[seed] - second[seed] for seed in first if seed in second])


def _short(value: float) -> str:
    """Return a number as text with four significant digits."""
    size = abs(value)
    if size >= 1000 or size == int(size):
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.1e}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"


# -- its files -------------------------------------------------------------------------------------


class MeasurementRow(NamedTuple):
    """A measurement: condition and branch, number of steps, metric, and a number or text."""

    condition: str
    step: int
    metric: str
    value: float | None
    text: str | None = None


def _schema() -> Any:
    pa, _ = arrow()
    name = pa.dictionary(pa.int32(), pa.string())
    texts = {"experiment": name, "condition": name, "parameters": name}
    numbers = {"seed": pa.uint64(), "step": pa.int64()}
    measured = {"metric": name, "value": pa.float64(), "text": pa.string()}
    return pa.schema(list((texts | numbers | measured).items()))


class Measurements:
    """A cell's measurements, with the columns `hashed`; all but the last in a nameless file."""

    def __init__(self, path: Path, **hashed: object) -> None:
        self._path, self._hashed = path, hashed
        self._rows: list[MeasurementRow] = []
        with writing_errors(path):
            self._file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        self._writer = arrow()[1].ParquetWriter(self._file, _schema())

    def append(self, row: MeasurementRow) -> None:
        """Add a row. Raises FileError."""
        self._rows.append(row)
        if len(self._rows) == _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        rows = [self._hashed | row._asdict() for row in self._rows]
        with writing_errors(self._path):
            self._writer.write_table(arrow()[0].Table.from_pylist(rows, schema=_schema()))
        self._rows.clear()

    def write(self, totals: Mapping[str, object]) -> None:
        """Write all rows and the totals to `path`: a whole file or none."""
        self._flush()
        self._writer.add_key_value_metadata({_TOTALS: json.dumps(totals)})
        with writing_errors(self._path):
            self._writer.close()
            self._file.seek(0)
            write_whole(self._path, self._copy)

    def close(self) -> None:
        """Discard what was not written."""
        with contextlib.suppress(OSError), self._file:  # of a full disk, which `append` has told
            self._writer.close()

    def _copy(self, to: str) -> None:
        with open(to, "wb") as file:
            shutil.copyfileobj(self._file, file)


def join(parts: Iterable[Path], path: Path) -> dict[str, Any]:
    """Write one table of all parts, in order; return the sums of their totals."""
    _, parquet = arrow()
    sums: dict[str, Any] = {}

    def write(to: str) -> None:
        with parquet.ParquetWriter(to, _schema()) as writer:
            for part in parts:
                try:
                    with parquet.ParquetFile(part) as file:
                        totals = json.loads(file.metadata.metadata[_TOTALS])
                        table = file.read().cast(_schema())
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(f"{part} is damaged ({error}): delete it") from error
                writer.write_table(table)
                for name, value in totals.items():
                    sums[name] = sums[name] + value if name in sums else value
                sums["first_failures"] = sums["first_failures"][:3]
                sums["first_fallback"] = sums.get("first_fallback", [])[:1]
            writer.add_key_value_metadata({_TOTALS: json.dumps(sums)})

    write_whole(path, write)
    return sums
