"""`civitas simulate EXPERIMENT.yaml`: an experiment with its conditions, seeds and parameters."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.options import usage
from civitas.cli.run.json_lines import print_line
from civitas.cli.run.permission import keyboard, says_yes
from civitas.errors import FileError, StateError
from civitas.jsonvalue import Unreadable, read_json
from civitas.orders.simulate import SimulateOrder
from civitas.text import escaped

if TYPE_CHECKING:
    from civitas.society.experiments.results import Results
    from civitas.society.experiments.study import Experiment
    from civitas.society.experiments.sweep import Progress

MANY_STEPS: Final = 100_000_000
"""Of more agent-steps it is asked whether they are meant: hours of agents, minutes of rows."""
MANY_CALLS: Final = 1_000
"""And of more calls of a model."""
_OWN: Final = ("experiment", "sweep", "seeds", "jobs", "out", "yes", "as_json")
_ON_TERMINAL_S: Final = 0.2
_ON_PIPE_S: Final = 10.0


def run_experiment(
    context: click.Context,
    path: str,
    sweep: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    out: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Run the experiment of a file, show how far it is, and what came of it; give the exit code."""
    from civitas.society.experiments.study import Experiment

    said = click.core.ParameterSource.COMMANDLINE
    for name in context.params:
        if name not in _OWN and context.get_parameter_source(name) is said:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} is of a town without an experiment: write it in {path}, or --sweep it"
            )
    instead: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    folder = Path(out or f"{Path(path).stem}-results")
    shown = _Shown(as_json)
    with usage():
        experiment = Experiment.from_yaml(path, **instead)
        if sweep:
            swept = {**experiment.parameters, **dict(map(_swept, sweep))}
            experiment = Experiment.from_yaml(path, **instead, parameters=swept)
        if not _agreed(experiment, yes):
            return 1
        try:
            running = experiment.run(jobs=jobs or 1, out=folder, progress=shown.far)
            results = asyncio.run(running)
        except (FileError, StateError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            shown.end()
            text = "interrupted; the same command goes on from the cells that have ended"
            click.echo(text, err=True)
            return 130
        finally:
            shown.end()
    if as_json:
        print_line("done", {"results": str(results.path), "report": str(folder / "report.html")})
    else:
        _print(experiment, results, folder)
    return 0


def _swept(given: str) -> tuple[str, list[Any]]:
    """The name and the values of `NAME=VALUE,VALUE`; a value is JSON, else a text."""
    name, equals, values = given.partition("=")
    if not equals or not name or not values:
        raise click.BadParameter(f"must be NAME=VALUE,VALUE, got {given!r}", param_hint="--sweep")
    return name, [_value(each) for each in values.split(",")]


def _value(text: str) -> Any:
    try:
        return read_json(text)
    except Unreadable:
        return text


def _agreed(experiment: Experiment, yes: bool) -> bool:
    """Say how large it is, if it is large or asks a remote model, and ask whether that is meant."""
    size = experiment.size()
    large = size["agent_steps"] > MANY_STEPS or size["model_calls"] > MANY_CALLS
    for cell in experiment.cells():
        given = cell.parameters
        if not (given.get("max_usd") or given.get("max_calls")):
            large = large or SimulateOrder(model=given.get("llm")).is_remote
    if not large or yes:
        return True
    text = f"{size['cells']:,} cells live {size['agent_steps']:,} agent-steps"
    if size["model_calls"]:
        text += f", and ask the model about {size['model_calls']:,} times"
    lines = keyboard()
    if lines is None:
        raise click.UsageError(f"{text}; no terminal to ask at: give --yes, or sweep less")
    click.echo(escaped(text), err=True)
    return says_yes(lines, "Go on?")


class _Shown:
    """How far it is, on standard error: one line that changes on a terminal, else one at times."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._terminal = sys.stderr.isatty()
        self._every = _ON_TERMINAL_S if self._terminal else _ON_PIPE_S
        self._last = -self._every
        self._open = False

    def far(self, progress: Progress) -> None:
        """Show it."""
        now = time.perf_counter()
        if now - self._last < self._every and progress.ended < progress.cells:
            return
        self._last = now
        if self._json:
            print_line("progress", asdict(progress))
            return
        left = "" if progress.seconds_left is None else f"  {progress.seconds_left:,.0f} s left"
        part = 100 * progress.lived // progress.steps if progress.steps else 100
        line = f"{progress.ended:,} of {progress.cells:,} cells  {part:3} %{left}"
        if self._terminal:
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
            self._open = True
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        if self._open:
            print(file=sys.stderr, flush=True)
        self._open = False


def _print(experiment: Experiment, results: Results, folder: Path) -> None:
    """Print what was measured last: a line for each metric, condition and combination."""
    click.echo(escaped(f"{experiment.name}: {len(experiment.all_seeds)} seeds"))
    for metric in results.metrics:
        for condition in results.conditions:
            for values in results.grid:
                if results.has(metric, condition, values):
                    found = results.interval(metric, condition, None, values)
                    where = condition if values == "{}" else f"{condition} {values}"
                    click.echo(escaped(f"  {metric:<24}  {where:<32}  {found}"))
    click.echo(escaped(f"  in {folder}: report.html, results.parquet"))
