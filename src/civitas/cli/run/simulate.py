"""`civitas simulate`: a town of citizens who live for some days, or an experiment of many."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.options import Above0, folders, model_option, recording_options, usage
from civitas.cli.progress import Progress
from civitas.cli.recorded import carried_out
from civitas.cli.run.town import simulated
from civitas.cli.run.watch import keyboard, print_line, says_yes
from civitas.errors import FileError, StateError
from civitas.jsonvalue import Unreadable, read_json
from civitas.orders.order import without_keys
from civitas.orders.simulate import SimulateOrder, check
from civitas.text import escaped

if TYPE_CHECKING:
    from civitas.society.experiments.results import Results
    from civitas.society.experiments.study import Experiment
    from civitas.society.experiments.sweep import Progress as Far

MANY_STEPS: Final = 100_000_000
"""Of more agent-steps it is asked whether they are meant: hours of agents, minutes of rows."""
MANY_CALLS: Final = 1_000
"""And of more calls of a model."""
_FIELDS: Final = {"days": "workflow", "seed": "seeds", "step": "society.step"}
"""Fields of an experiment that say what an option says of a town."""
_OF_EXPERIMENTS: Final = ("experiment", "sweep", "seeds", "jobs", "out", "yes", "as_json")


@click.command()
@click.argument("experiment", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--citizens",
    type=click.IntRange(10, 10_000_000),
    default=1000,
    show_default=True,
    help="How many live there; by rules more than 10,000 live in columns.",
)
@click.option("--days", type=float, default=1.0, help="Simulated days.  [default: 1]")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="What the town, its people and all chance are drawn from.",
)
@click.option(
    "--step",
    metavar="LENGTH",
    default="15min",
    show_default=True,
    help="How long a step is, such as 30min or 1h.",
)
@model_option(help="Have a model decide for the citizens.  [default: none, rules]")
@click.option("--max-usd", type=Above0("US dollars"), help="Limit of US dollars, in all.")
@click.option("--max-calls", type=click.IntRange(min=1), help="Limit of calls of the model.")
@click.option("--yes", is_flag=True, help="Do not ask before a remote model is called.")
@recording_options
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False),
    shell_complete=folders,
    help="Write tables of steps, citizens and messages there, and a manifest.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="How many threads run citizens in columns.",
)
@click.option(
    "--parquet/--csv",
    default=None,
    help="What the tables are.  [default: Parquet where pyarrow is installed]",
)
@click.option(
    "--sweep",
    metavar="NAME=V,V",
    multiple=True,
    help="Values of a parameter of EXPERIMENT; may be given several times.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    help="How many seeds EXPERIMENT has, from 0 on.  [default: its own]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    help="How many processes live EXPERIMENT's cells at a time.  [default: 1]",
)
@click.option("--json", "as_json", is_flag=True, help="Print each step as a line of JSON.")
@click.pass_context
def command(
    context: click.Context,
    /,
    experiment: str | None,
    journal: str | None,
    run_id: str | None,
    as_json: bool,
    yes: bool,
    sweep: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    **given: Any,
) -> int:
    """Have a town of citizens live for some simulated days, by rules or by a model.

    With EXPERIMENT, a YAML file as of docs/experiments.md, every condition of it is lived with
    every seed and all swept parameters, each in a process of its own, and a report is written to
    --out DIR. The same command goes on where it was stopped. Such a file runs the Python that it
    names beside it.

    The town, its people, firms, bank, government and feed are drawn by --seed, and the same command
    gives the same town, byte by byte, by rules. How far it is, is shown on standard error; what
    came of it is printed at the end.

    With --model, citizens ask it what to do. Of one on a server the expected calls and tokens are
    said first, and you are asked, unless you give a limit or --yes. Where the model fails, or a
    limit is reached, a rule decides. The key is that of CIVITAS_KEY or the provider's own variable.

    \b
    Examples:
      civitas simulate --citizens 1000 --days 1
      civitas simulate --citizens 5000 --days 7 \\
        --seed 3 --out week
      civitas simulate --days 30 --journal runs.db \\
        --run-id april
      civitas simulate --citizens 50 --max-calls 9000 \\
        --model openai:gpt-4o-mini
      civitas simulate curfew.yaml --seeds 30 \\
        --sweep citizens=100,200 --jobs 2

    With a journal, a run that Ctrl-C or a crash has stopped goes on by `civitas resume`, or with
    the same command and its --run-id, from the state of at most six simulated hours before, to the
    same result.

    More than 10,000 citizens live by rules in columns (docs/population.md): a million live a day in
    minutes. Their messages are counted, and not written.

    --out DIR holds the tables metrics (a row for each step), citizens (who they are at the end, as
    `read_people` reads it) and messages, manifest.json (settings, versions, hashes), and by
    matplotlib the pictures map.png and day.png.

    Exit codes: 0 done, 1 failed,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if experiment is not None:
        for name in context.params:
            source = context.get_parameter_source(name)
            if name not in _OF_EXPERIMENTS and source is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError(_of_a_town(name, experiment))
        instead: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
        folder = Path(given["out"] or f"{Path(experiment).stem}-results")
        return _experiment(experiment, instead, sweep, jobs or 1, folder, yes, as_json)
    if sweep or seeds is not None or jobs is not None:
        raise click.UsageError("--sweep, --seeds and --jobs are for an EXPERIMENT: name its file")
    order = SimulateOrder(**given)
    with usage():
        check(order)
        without_keys(order)
    if order.is_remote:
        calls, tokens = order.expected
        text = f"{order.model} will be asked about {calls:,} times, with {tokens:,} tokens in all"
        yes = yes or order.max_usd is not None or order.max_calls is not None
        if not _agreed(text, yes, "--max-usd, --max-calls or --yes"):
            return 1
    return carried_out(simulated, order, journal, run_id, as_json)


def _agreed(text: str, yes: bool, give: str) -> bool:
    """Say how much it is, and ask whether that is meant, unless that is said."""
    lines = keyboard()
    if not yes and lines is None:
        raise click.UsageError(f"{text}; no terminal to ask at: give {give}")
    click.echo(escaped(text), err=True)
    return yes or lines is None or says_yes(lines, "Go on?")


def _of_a_town(name: str, path: str) -> str:
    """What is told where an option of a town is given with an experiment."""
    told = f"--{name.replace('_', '-')} is of a town without an experiment"
    if name in _FIELDS:
        return f"{told}: write {_FIELDS[name]} in {path}"
    key = "llm" if name == "model" else name
    return f"{told}: write society.{key} in {path}, or --sweep {key}=VALUE"


def _experiment(
    path: str,
    instead: dict[str, Any],
    sweep: tuple[str, ...],
    jobs: int,
    folder: Path,
    yes: bool,
    as_json: bool,
) -> int:
    """Run the experiment of a file, show how far it is, and what came of it; give the exit code."""
    from civitas.society.experiments.study import Experiment

    with usage():
        experiment = Experiment.from_yaml(path, **instead)
        if sweep:
            given = [_swept(each) for each in sweep]
            if twice := next((n for n, _ in given if [m for m, _ in given].count(n) > 1), None):
                raise click.BadParameter(
                    f"{twice} is there twice: give all its values in one", param_hint="--sweep"
                )
            swept = {**experiment.parameters, **dict(given)}
            experiment = Experiment.from_yaml(path, **instead, parameters=swept)
        size = experiment.size()
    unbounded = any(
        SimulateOrder(model=cell.parameters.get("llm")).is_remote
        for cell in experiment.cells()
        if not (cell.parameters.get("max_usd") or cell.parameters.get("max_calls"))
    )
    if unbounded or size["agent_steps"] > MANY_STEPS or size["model_calls"] > MANY_CALLS:
        text = f"{size['cells']:,} cells live {size['agent_steps']:,} agent-steps"
        if size["model_calls"]:
            text += f", and ask the model about {size['model_calls']:,} times"
        if not _agreed(text, yes, "--yes, or sweep less"):
            return 1
    progress = Progress()

    def far(now: Far) -> None:
        if not progress.is_due(last=now.ended == now.cells):
            return
        if as_json:
            print_line("progress", asdict(now))
            return
        left = "" if now.seconds_left is None else f"  {now.seconds_left:,.0f} s left"
        part = 100 * now.lived // now.steps if now.steps else 100
        progress.show(f"{now.ended:,} of {now.cells:,} cells  {part:3} %{left}")

    try:
        with usage():
            results = asyncio.run(experiment.run(jobs=jobs, out=folder, progress=far))
    except (FileError, StateError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        progress.end()
        click.echo("interrupted; the same command goes on from the cells that have ended", err=True)
        return 130
    finally:
        progress.end()
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
    made: list[Any] = values.split(",")
    for number, text in enumerate(made):
        with suppress(Unreadable):
            made[number] = read_json(text)
    return name, made


def _print(experiment: Experiment, results: Results, folder: Path) -> None:
    """The table of what was measured last: a line for each metric and condition."""
    click.echo(escaped(f"{experiment.name}: {len(experiment.all_seeds)} seeds"))
    for metric in results.metrics:
        for condition in results.conditions:
            for values in results.grid:
                if results.has(metric, condition, values):
                    found = results.interval(metric, condition, None, values)
                    where = condition if values == "{}" else f"{condition} {values}"
                    click.echo(escaped(f"  {metric:<24}  {where:<32}  {found}"))
    click.echo(escaped(f"  in {folder}: report.html, results.parquet"))
