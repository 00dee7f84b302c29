"""`moothall simulate`: a town of citizens who live for some days, or an experiment of many."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moothall import ConfigError
from moothall.build import UnreadableText, counted, escaped, read_json
from moothall.cli.interrupts import INTERRUPTED, interruptible
from moothall.cli.option_types import NumberType, WholeNumberType, above_0
from moothall.cli.progress import ProgressLine
from moothall.cli.recorded_runs import execute_order
from moothall.cli.run.town import run_simulation
from moothall.cli.run.watch import keyboard, print_line, says_yes
from moothall.cli.shared_options import (
    as_usage_error,
    folders,
    is_on_command_line,
    model_option,
    recording_options,
)
from moothall.studio.orders import SimulateOrder, check_no_keys, check_simulation, is_unbounded

if TYPE_CHECKING:
    from moothall.society import Experiment, Results, SweepProgress

MANY_STEPS: Final = 100_000_000
"""Ask before more agent-steps than this: hours for agents, minutes for citizens in columns."""
MANY_CALLS: Final = 1_000
"""Ask before more calls of a model than this."""
_EXPERIMENT_FIELDS: Final = {"days": "workflow", "seed": "seeds", "step": "society.step"}
"""The fields of an experiment that stand for options of a town."""
_EXPERIMENT_PARAMS: Final = ("experiment", "sweep", "seeds", "jobs", "odd", "out", "yes", "as_json")


@click.command()
@click.argument("experiment", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--citizens",
    type=WholeNumberType(10, 10_000_000),
    default=1000,
    show_default=True,
    help="Number of citizens; without a model, 20 or more are stored in columns.",
)
@click.option("--days", type=NumberType(), default=1.0, help="Days, in whole steps.  [default: 1]")
@click.option(
    "--seed",
    type=WholeNumberType(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Seed of the town, its people and all random numbers.",
)
@click.option(
    "--step",
    metavar="LENGTH",
    default="15min",
    show_default=True,
    help="Length of a step, such as 30min or 1h.",
)
@model_option(help="Have a model decide for the citizens.  [default: rules decide]")
@click.option("--max-usd", type=above_0("US dollars"), help="Limit of costs in US dollars.")
@click.option("--max-calls", type=WholeNumberType(min=1), help="Limit of model calls.")
@click.option("--yes", is_flag=True, help="Do not ask before calling a remote model.")
@recording_options
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False),
    shell_complete=folders,
    help="Write tables, manifest and pictures to DIR.",
)
@click.option(
    "--threads",
    type=WholeNumberType(1, 256),
    default=None,
    help="Threads for citizens in columns.  [default: as many as pay]",
)
@click.option("--parquet/--csv", default=None, help="Format of the tables.  [default: CSV]")
@click.option(
    "--trajectories", is_flag=True, help="Write where each citizen was in each step, too."
)
@click.option(
    "--sweep",
    metavar="NAME=V,V",
    multiple=True,
    help="Values of a parameter of EXPERIMENT. May be repeated.",
)
@click.option(
    "--seeds",
    type=WholeNumberType(1, 100_000),
    help="Number of seeds of EXPERIMENT, from 0.  [default: those of the file]",
)
@click.option(
    "--jobs",
    type=WholeNumberType(1, 1024),
    help="Processes that simulate EXPERIMENT side by side.  [default: 1]",
)
@click.option(
    "--odd",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Describe EXPERIMENT by the ODD protocol in FILE, and run nothing.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print each step as a line of JSON; money is in cents."
)
def command(
    experiment: str | None,
    journal: str | None,
    run_id: str | None,
    as_json: bool,
    yes: bool,
    sweep: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    odd: str | None,
    **values: Any,
) -> int:
    """Simulate a town of citizens for some days, or run an EXPERIMENT.

    --seed determines the town: its people, firms, bank, government and feed. Without a model, the
    same command gives the same results, byte for byte. Progress goes to standard error, a summary
    to standard output.

    With --model, a model decides for the citizens. Where it fails or a limit is reached, a rule
    decides. Before a remote model is called, the command states the expected calls and tokens and
    asks you, unless you give a limit or --yes. The key comes from MOOTHALL_KEY or the provider's
    own variable.

    EXPERIMENT is a YAML file (docs/experiments.md). The command simulates each condition with each
    seed and each swept value, in processes of their own, and writes a report to --out DIR. The same
    command continues an experiment that was stopped. The file may name Python code beside it, which
    is run.

    \b
    Examples:
      moothall simulate --citizens 1000 --days 1
      moothall simulate --citizens 5000 --days 7 \\
        --seed 3 --out week
      moothall simulate --days 30 --journal runs.db \\
        --run-id april
      moothall simulate --citizens 50 --max-calls 9000 \\
        --model openai:gpt-4o-mini
      moothall simulate curfew.yaml --seeds 30 \\
        --sweep citizens=100,200 --jobs 2

    --journal records the run. After Ctrl-C or a crash, `moothall resume` or the same command with
    the same --run-id continues from a state at most six simulated hours old, to the same result.

    Without a model, 20 citizens or more are stored in columns (docs/population.md): a day of a
    million takes minutes. Messages of more than 10,000 are counted and not written.

    --out writes the tables metrics (a row per step), citizens (as they are at the end) and
    messages, manifest.json (settings, versions, hashes), and, with matplotlib, the pictures map.png
    and day.png; with --trajectories also where each citizen was after each step.
    `moothall.society.read_people` reads citizens again, `Trajectories` where they were.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if experiment is not None:
        for name in click.get_current_context().params:
            if name not in _EXPERIMENT_PARAMS and is_on_command_line(name):
                raise click.UsageError(_town_option_error(name, experiment))
        replacements: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
        if odd is not None:
            return _write_odd(experiment, odd)
        folder = Path(values["out"] or f"{Path(experiment).stem}-results")
        return _run_experiment(experiment, replacements, sweep, jobs or 1, folder, yes, as_json)
    if sweep or seeds is not None or jobs is not None or odd is not None:
        raise click.UsageError(
            "--sweep, --seeds, --jobs and --odd are for an EXPERIMENT: name its file"
        )
    order = SimulateOrder(**values)
    with as_usage_error():
        check_simulation(order)
        check_no_keys(order)
    if order.is_remote:
        calls, tokens = order.expected
        text = f"{order.model} will be asked about {calls:,} times, with {tokens:,} tokens in all"
        yes = yes or order.max_usd is not None or order.max_calls is not None
        if not _confirm_plan(text, yes, "--max-usd, --max-calls or --yes"):
            return 1
    return execute_order(run_simulation, order, journal, run_id, as_json)


def _confirm_plan(text: str, is_confirmed: bool, options: str) -> bool:
    """Print what is planned, and ask whether to go on, unless `is_confirmed`; return the answer."""
    reader = keyboard()
    if not is_confirmed and reader is None:
        raise click.UsageError(f"{text}; no terminal to ask at: give {options}")
    click.echo(escaped(text), err=True)
    return is_confirmed or reader is None or says_yes(reader, "Continue?")


def _town_option_error(name: str, path: str) -> str:
    """Return the error text for an option of a town that is given with an experiment."""
    text = f"--{name.replace('_', '-')} is of a town without an experiment"
    if name in _EXPERIMENT_FIELDS:
        return f"{text}: write {_EXPERIMENT_FIELDS[name]} in {path}"
    if name in ("journal", "run_id", "parquet"):
        return f"{text}: leave it out"
    key = "llm" if name == "model" else name
    return f"{text}: write society.{key} in {path}, or --sweep {key}=VALUE"


def _run_experiment(
    path: str,
    overrides: dict[str, Any],
    sweep: tuple[str, ...],
    jobs: int,
    folder: Path,
    yes: bool,
    as_json: bool,
) -> int:
    """Run the experiment of a file, show its progress and its results; return the exit code."""
    from moothall.society import Experiment

    with as_usage_error():
        options = [f"--{name}={value}" for name, value in overrides.items()]  # only the seeds
        options += [f"--sweep={each}" for each in sweep]
        if sweep:
            swept = [_swept_values(each) for each in sweep]
            if repeated := next((n for n, _ in swept if [m for m, _ in swept].count(n) > 1), None):
                raise click.BadParameter(
                    f"{repeated} appears twice: give all its values in one", param_hint="--sweep"
                )
            own_parameters = Experiment.from_yaml(path, **overrides).parameters
            overrides["parameters"] = {**own_parameters, **dict(swept)}
        command = shlex.join(["moothall", "simulate", path, *options])
        experiment = Experiment.from_yaml(path, command=command, **overrides)
        size = experiment.size()
    if not _may_run(experiment, size, yes):
        return 1
    progress = ProgressLine()

    def show_progress(state: SweepProgress) -> None:
        if not progress.is_due(last=state.ended == state.cells):
            return
        if as_json:
            print_line("progress", asdict(state))
            return
        time_left = "" if state.seconds_left is None else f"  {state.seconds_left:,.0f} s left"
        percent = 100 * state.lived // state.steps if state.steps else 100
        progress.show(f"{state.ended:,} of {state.cells:,} cells  {percent:3} %{time_left}")

    try:
        with closing(progress):
            results = interruptible(experiment.run(jobs=jobs, out=folder, progress=show_progress))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        click.echo(
            "interrupted; the same command continues after the cells that have ended", err=True
        )
        return INTERRUPTED
    if as_json:
        paths = {"results": str(results.path), "report": str(folder / "report.html")}
        print_line("done", paths | {"failures": results.failures})
    else:
        _print_results(experiment, results, folder)
    return 0


def _may_run(experiment: Experiment, size: dict[str, int], yes: bool) -> bool:
    """Return whether an experiment is small, or its user wants one of this size."""
    unbounded = is_unbounded(experiment)
    if not unbounded and size["agent_steps"] <= MANY_STEPS and size["model_calls"] <= MANY_CALLS:
        return True
    text = f"{size['cells']:,} cells, {size['agent_steps']:,} agent-steps"
    if size["model_calls"]:
        text += f", and the model asked about {size['model_calls']:,} times"
    advice = "set society.max_calls or max_usd" if unbounded else "sweep less"
    return _confirm_plan(text, yes, f"--yes, or {advice}")


def _write_odd(path: str, odd: str) -> int:
    """Describe the experiment of a file by the ODD protocol; return the exit code."""
    from moothall.society import Experiment

    with as_usage_error():
        experiment = Experiment.from_yaml(path)
        if Path(odd).resolve() == Path(path).resolve():
            raise ConfigError(f"--odd would write over the experiment {path!r}: name another file")
        experiment.odd(odd)
    click.echo(escaped(f"{odd}: {path} by the ODD protocol"))
    return 0


def _swept_values(option: str) -> tuple[str, list[Any]]:
    """Return the name and the values of `NAME=VALUE,VALUE`; a value is JSON, else a text."""
    name, equals, values = option.partition("=")
    if not equals or not name or not values:
        raise click.BadParameter(f"must be NAME=VALUE,VALUE, got {option!r}", param_hint="--sweep")
    swept_values: list[Any] = []
    text = ""
    for part in values.split(","):
        text += part
        try:
            swept_values.append(read_json(text))
        except UnreadableText:
            if text.startswith(("[", "{", '"')):  # a list or a quoted text has commas of its own
                text += ","
                continue
            swept_values.append(text)
        text = ""
    if text:
        raise click.BadParameter(f"must be JSON, got {text[:-1]!r}", param_hint="--sweep")
    return name, swept_values


def _print_results(experiment: Experiment, results: Results, folder: Path) -> None:
    """Print what was measured last: a line for each metric, condition and combination of values."""
    click.echo(escaped(f"{experiment.name}: {counted(len(experiment.all_seeds), 'seed')}"))
    for metric in results.metrics:
        for condition, values in results.measured(metric):
            interval = results.interval(metric, condition, None, values)
            label = condition if values == "{}" else f"{condition} {values}"
            click.echo(escaped(f"  {metric:<24}  {label:<32}  {interval}"))
    for name in (each.name for each in experiment.metrics if each.name not in results.metrics):
        click.echo(escaped(f"  {name:<24}  no value in any cell"))
    click.echo(escaped(f"  in {folder}: report.html, results.parquet"))
    if results.failures:
        first = results.first_failures[0]
        click.echo(escaped(f"  failures: {results.failures:,}, the first in {first}"))
    if first := results.first_fallback:
        by_rule = f"{results.fallbacks:,} of a model's {results.model_calls:,} decisions"
        by_rule += f"{results.by_rule}, the first: {first}"
        click.echo(escaped(f"  by rule instead: {by_rule}"))
