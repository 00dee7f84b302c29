"""`Experiment`: written in YAML or Python, run, and presented in a report."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from moothall import ConfigError, MissingExtra
from moothall.build import read_yaml, refuse_on_loop
from moothall.society.experiments.design import Design
from moothall.society.experiments.design_parts import (
    Chart,
    ConditionDesign,
    MetricDesign,
    Published,
    SocietyDesign,
)
from moothall.society.experiments.results import Results
from moothall.society.experiments.sweep import SweepProgress, sweep
from moothall.society.experiments.workflow import FieldError, first_faults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from moothall.society.experiments.fitting import Fit
    from moothall.society.experiments.sensitivity import Sensitivity


class Experiment(Design):
    """A question, asked of a society in several conditions, with several seeds and parameters.

    It is data, as in YAML; some fields may be functions.

    Attributes:
        name: its name
        question: the question that it is to answer
        society: the society: `model` of `moothall.society.experiments.models` (`town` if left out)
            or `make` of your own, `step`, and the parameters of that function
        metrics: what is measured: columns of `Society.metrics`, or functions of a society; a list,
            or a mapping by name, with label and unit
        charts: more pictures of the report: curves of several metrics, or drawn by a function
        every: how many steps there are from one measurement to the next
        workflow: the items: `run`, `step`, `interview`, `survey`, `intervene`, `save`, `branch`
        conditions: by name, other parameters or another workflow; one, `base`, if left out
        seeds: how many seeds, from 0, or a list of seeds
        parameters: values of parameters of the society, or of `$name`s in the workflow, in all
            combinations
        maps: whether a map is drawn for each condition, at the end of its first seed
        trajectories: whether `out` has a table for each cell of who was where in each step
        published: published figures, which the report compares with ours
        source: where the figures are published
        notes: what readers of the report should know
        about: texts for elements of the ODD protocol, such as `emergence`; see `odd`
        folder: the folder of the file; functions are looked up below it

    Raises:
        ConfigError: a field is wrong; the text names it, and for YAML the line
    """

    if TYPE_CHECKING:  # what may be given, before pydantic makes it what the fields are

        def __init__(
            self,
            *,
            name: str,
            workflow: Sequence[Mapping[str, object]],
            question: str = "",
            society: Mapping[str, object] | SocietyDesign = ...,
            metrics: Sequence[str | Mapping[str, Any] | MetricDesign]
            | Mapping[str, Mapping[str, Any] | None] = (),
            charts: Mapping[str, Mapping[str, object] | Chart | None] = ...,
            every: int = 1,
            conditions: Mapping[str, Mapping[str, object] | ConditionDesign] = ...,
            seeds: int | Sequence[int] = 1,
            parameters: Mapping[str, Sequence[object]] = ...,
            maps: bool = False,
            trajectories: bool = False,
            published: Sequence[Mapping[str, object] | Published] = (),
            source: str = "",
            notes: str = "",
            about: Mapping[str, str] = ...,
            folder: Path = ...,
        ) -> None: ...

    @classmethod
    def from_yaml(cls, path: str | Path, *, command: str | None = None, **instead: object) -> Self:
        """Return the experiment of a YAML file.

        Args:
            path: the file
            command: the command that repeats it, for the report, if fields are replaced
            instead: fields that replace those of the file, such as `seeds=30`

        Raises:
            ConfigError: the file cannot be read, or a field is wrong
            MissingExtra: PyYAML is not installed
        """
        path = Path(path)
        data, lines = read_yaml(path, "Experiment", "society")
        if not isinstance(data, dict):
            raise ConfigError(f"{path} must be a mapping of fields, such as name and workflow")
        try:
            if "folder" in data:  # it is that of the file
                raise FieldError((("folder",), "there is no such field"))
            experiment = cls(**{**data, **instead, "folder": path.parent})
            shell_command = None if instead else shlex.join(["moothall", "simulate", str(path)])
            experiment.set_command(command or shell_command)
            return experiment
        except FieldError as error:
            messages = [lines.at(*each) for each in error.faults]
            raise ConfigError(first_faults(messages)) from None

    async def run(
        self,
        *,
        jobs: int = 1,
        out: str | Path | None = None,
        progress: Callable[[SweepProgress], object] | None = None,
        report: bool = True,
    ) -> Results:
        """Run every condition with every seed and all parameters, and join the measurements.

        With `out`, the same call continues where a killed one stopped, and cells that have ended
        do not run again.

        Args:
            jobs: how many processes at a time; 0 runs all in this process, for a notebook
            out: the folder of `results.parquet`, `experiment.json`, the report and its pictures
            progress: called with a `SweepProgress` whenever it changes
            report: whether to write the report; it needs matplotlib

        Raises:
            ConfigError: the folder has other results, or a cell cannot run; the text names it
            FileError: something cannot be written; nothing is left half-written
            StateError: the process of a cell was killed, twice
            MissingExtra: pyarrow or matplotlib is not installed
        """
        if out is None:
            with tempfile.TemporaryDirectory(prefix="moothall-") as folder:
                path = await sweep(self, Path(folder), jobs=jobs, progress=progress)
                return Results(path, self._draw)
        if report:  # before cells run that take hours
            MissingExtra.unless("a report (report=False leaves it out)", "pictures", "matplotlib")
        out_folder = Path(out)
        results = Results(await sweep(self, out_folder, jobs=jobs, progress=progress), self._draw)
        if report:
            from moothall.society.experiments.report import write_report

            await asyncio.to_thread(write_report, self, results, out_folder)
        return results

    def _draw(
        self, results: Results, metric: str, path: str | Path | None, ax: Axes | None = None
    ) -> Figure:
        from moothall.society.experiments.report import draw_metric

        return draw_metric(self, results, metric, path, ax)

    def odd(self, path: str | Path | None = None) -> str:
        """Return a description of the study by the ODD protocol (Grimm et al. 2020), in Markdown.

        It is written from the study itself: its fields, the docstrings and parameters of its blocks
        and services, and the society of the first cell, which is made and not run. What only
        the author knows stands in the field `about`.

        Args:
            path: the file that it is written to; None for no file

        Raises:
            ConfigError: the society cannot be made
            FileError: the file cannot be written
        """
        from moothall.society.experiments.odd import odd_page
        from moothall.society.tables import write_whole

        page = odd_page(self)
        if path is not None:
            write_whole(Path(path), lambda file: Path(file).write_text(page, encoding="utf-8"))
        return page

    async def sensitivity(
        self,
        method: str = "sobol",
        bounds: Mapping[str, Sequence[float]] | None = None,
        *,
        samples: int = 64,
        condition: str | None = None,
        seed: int = 0,
        jobs: int = 1,
        out: str | Path | None = None,
        progress: Callable[[SweepProgress], object] | None = None,
    ) -> Sensitivity:
        """Measure how much each parameter moves each metric, by SALib.

        Each point is run with all seeds of the experiment, and its metrics are their means at the
        end. `sobol` (Saltelli 2010) runs `samples * (parameters + 2)` points, `morris` (1991)
        `samples * (parameters + 1)`. With `out`, the same call goes on where a killed one stopped.

        Args:
            method: `sobol`, for shares of the variance, or `morris`, which screens with fewer runs
            bounds: the lowest and highest value by parameter, or `$name` of the workflow; two whole
                numbers have whole values; those of `parameters` if left out
            samples: the size of the sample: a power of 2 for `sobol`, the trajectories for `morris`
            condition: the condition; needed if there are several
            seed: the seed of the sample
            jobs: as of `run`
            out: as of `run`
            progress: as of `run`

        Raises:
            ConfigError: an argument is wrong, or a cell cannot run
            MissingExtra: SALib is not installed
        """
        from moothall.society.experiments.sensitivity import analyse

        folder = None if out is None else Path(out)
        return await analyse(self, method, bounds, samples, condition, seed, jobs, folder, progress)

    def sensitivity_sync(
        self,
        method: str = "sobol",
        bounds: Mapping[str, Sequence[float]] | None = None,
        **options: Any,
    ) -> Sensitivity:
        """Call `sensitivity` from a script, and wait for it; the arguments are the same."""
        refuse_on_loop("sensitivity_sync of an Experiment", "sensitivity()")
        return asyncio.run(self.sensitivity(method, bounds, **options))

    async def fit(
        self,
        targets: Mapping[str, object],
        priors: Mapping[str, object],
        *,
        points: int = 64,
        rounds: int = 10,
        least: float = 0.05,
        seed: int = 0,
        jobs: int = 1,
        out: str | Path | None = None,
        progress: Callable[[SweepProgress], object] | None = None,
    ) -> Fit:
        """Find the values of parameters with which metrics come near known figures.

        Approximate Bayesian computation in rounds (Lenormand et al. 2013). The first runs `points`
        points drawn from the priors. Each later round keeps the nearer half, and runs as many new
        points near these. Each point is run with all seeds of the experiment, and its metrics are
        their means. With `out`, the same call continues where a killed one stopped.

        Args:
            targets: the known figure by metric; or a dict with `value` and any of `condition`,
                `step` (after how many steps; the last if left out) and `scale`, the error that
                counts as 1; the metric's deviation in the first round if left out
            priors: by parameter, or `$name` of the workflow, (low, high), evenly; of two whole
                numbers all whole ones between; or a distribution of `scipy.stats`, such as
                `norm(0.3, 0.1)`
            points: how many points the first round runs, 4 or more
            rounds: how many rounds there are at most
            least: it ends when a smaller share of the new points is nearer than the old bound
            seed: the seed of the draws
            jobs: as of `run`
            out: as of `run`; each round has a folder in it
            progress: as of `run`, for each round

        Raises:
            ConfigError: an argument is wrong, or a cell cannot run
        """
        from moothall.society.experiments.fitting import fit

        folder = None if out is None else Path(out)
        return await fit(self, targets, priors, points, rounds, least, seed, jobs, folder, progress)

    def fit_sync(
        self, targets: Mapping[str, Any], priors: Mapping[str, Any], **options: Any
    ) -> Fit:
        """Call `fit` from a script, and wait for it; the arguments are the same."""
        refuse_on_loop("fit_sync of an Experiment", "fit()")
        return asyncio.run(self.fit(targets, priors, **options))

    def run_sync(
        self,
        *,
        jobs: int = 1,
        out: str | Path | None = None,
        progress: Callable[[SweepProgress], object] | None = None,
        report: bool = True,
    ) -> Results:
        """Call `run` from a script, and wait for the results.

        Raises:
            RuntimeError: called where an event loop is running, which it would block
        """
        refuse_on_loop("run_sync of an Experiment", "run()")
        return asyncio.run(self.run(jobs=jobs, out=out, progress=progress, report=report))
