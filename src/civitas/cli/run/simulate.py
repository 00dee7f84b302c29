"""`civitas simulate`: a town of citizens who live for some simulated days."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.completion import folders, models
from civitas.cli.options import Above0, Recorded, journal_option, run_id_option, usage
from civitas.cli.run.json_lines import print_line
from civitas.cli.run.order import carried_out
from civitas.cli.run.permission import keyboard, says_yes
from civitas.clock import Clock
from civitas.orders.order import record, without_keys
from civitas.orders.simulate import SimulateOrder, check, society_of
from civitas.text import escaped

if TYPE_CHECKING:
    from civitas.cli.run.simulate_files import Files
    from civitas.journal import Journal
    from civitas.society import Society

_HELP = {"help_option_names": ["-h", "--help"]}
_ON_TERMINAL_S: Final = 0.2
_ON_PIPE_S: Final = 10.0
"""How often progress is shown, in seconds."""


@click.command(context_settings=_HELP)
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
@click.option(
    "--model",
    metavar="MODEL",
    shell_complete=models,
    help="Have a model decide for the citizens.  [default: none, rules]",
)
@click.option("--max-usd", type=Above0("US dollars"), help="Limit of US dollars, in all.")
@click.option("--max-calls", type=click.IntRange(min=1), help="Limit of calls of the model.")
@click.option("--yes", is_flag=True, help="Do not ask before a remote model is called.")
@journal_option("A file to record the run in.")
@run_id_option
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
@click.option("--parquet", is_flag=True, help="Tables as Parquet instead of CSV, by pyarrow.")
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

    --out DIR holds metrics.csv (a row for each step), citizens.csv (who they are at the end, as
    `read_people` reads it), messages.csv, manifest.json (settings, versions, hashes), and by
    matplotlib the pictures map.png and day.png.

    Exit codes: 0 done, 1 failed,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if experiment is not None:
        from civitas.cli.run.simulate_experiment import run_experiment

        return run_experiment(context, experiment, sweep, seeds, jobs, given["out"], yes, as_json)
    if sweep or seeds is not None or jobs is not None:
        raise click.UsageError("--sweep, --seeds and --jobs are for an EXPERIMENT: name its file")
    order = SimulateOrder(**given)
    with usage():
        check(order)
        without_keys(order)
    if order.is_remote and not _agreed(order, yes):
        return 1
    return carried_out(simulated, order, journal, run_id, as_json)


def _agreed(order: SimulateOrder, yes: bool) -> bool:
    """Say what a remote model will be asked, and ask whether it may be, unless that is said."""
    yes = yes or order.max_usd is not None or order.max_calls is not None
    lines = keyboard()
    if not yes and lines is None:
        raise click.UsageError("no terminal to ask at: give --max-usd, --max-calls or --yes")
    calls, tokens = order.expected
    text = f"{order.model} will be asked about {calls:,} times, with {tokens:,} tokens in all"
    click.echo(escaped(text), err=True)
    return yes or lines is None or says_yes(lines, "Go on?")


def simulated(
    order: SimulateOrder,
    as_json: bool,
    journal: Journal | None = None,
    recorded: Recorded | None = None,
) -> int:
    """Live as it was ordered, show it, and write the tables; give the exit code."""
    run_id = None if recorded is None else recorded.run_id
    if recorded is not None and not as_json:
        click.echo(escaped(f"run {run_id}, recorded in {recorded.path}"), err=True)
        if recorded.about:
            click.echo(escaped(recorded.about), err=True)

    async def live() -> dict[str, Any]:
        with usage():
            made = society_of(order, journal, os.environ.get("CIVITAS_KEY"))
        async with made as town:
            if journal is not None and run_id is not None:
                await record(order, journal, run_id, town)
            hashes = {"city_sha256": town.city.sha256, "people_sha256": _people_sha256(town)}
            files = _files(order, hashes)
            progress = None if as_json else _Progress(order)
            show = partial(print_line, "step") if progress is None else progress.lived

            def each(row: dict[str, Any]) -> None:
                if files is not None:
                    files.begin(row["step"])
                show(row)

            if files is not None and town.population is None:
                town.observe(lambda message: files.message(town.number, message))
            try:
                rows = await town.run(
                    order.days,
                    order.step,
                    run_id=run_id,
                    save_every=order.save_every,
                    progress=each,
                )
                about = hashes | {"state_sha256": _state_sha256(town), "run_id": run_id}
                names = [] if files is None else files.finish(town, rows, about)
                sums = ("messages", "model_calls", "fallbacks", "failures")
                return {
                    "citizens": order.citizens,
                    "steps": len(rows),
                    "until": town.clock.moment.isoformat(),
                    **{name: rows[-1][name] for name in ("home", "work", "money")},
                    "moving_most": max(row["moving"] for row in rows),
                    "working_most": max(row["work"] for row in rows),
                    **{name: sum(row[name] for row in rows) for name in sums},
                    **about,
                    "files": names,
                }
            finally:
                if files is not None:
                    files.close()
                if progress is not None:
                    progress.end()

    try:
        summary = asyncio.run(live())
    except KeyboardInterrupt:
        ways = [] if recorded is None else recorded.ways("cancelled")
        if as_json:
            print_line("interrupted", {"resume": [way for _, way in ways]})
        else:
            hint = "with --journal FILE it would be recorded, and could go on from here"
            said = [f"{words}: {escaped(way)}" for words, way in ways] or [f"interrupted; {hint}"]
            click.echo("\n".join(said), err=True)
        return 130
    if as_json:
        print_line("done", summary)
    else:
        _print(order, summary)
    return 0


def _files(order: SimulateOrder, hashes: dict[str, str]) -> Files | None:
    if order.out is None:
        return None
    from civitas.cli.run.simulate_files import Files

    settings = {k: v for k, v in asdict(order).items() if k not in order.may_change}
    settings |= {"steps": order.steps, "start": Clock().start.isoformat(), **hashes}
    return Files(Path(order.out), settings, parquet=order.parquet)


def _people_sha256(town: Society) -> str:
    """The hash of who lives there, before the first step."""
    if town.population is not None:
        return _columns_sha256(town)
    agents: list[Any] = [each.agent for each in town.seats]
    return _sha256([{"id": a.id, "name": a.name, **a.memory.status} for a in agents])


def _state_sha256(town: Society) -> str:
    """The hash of all that the society is."""
    return _sha256(town.state_dict()) if town.population is None else _columns_sha256(town)


def _columns_sha256(town: Society) -> str:
    """The hash of a population's columns, and of its services' money."""
    assert town.population is not None
    made = hashlib.sha256(json.dumps(town.books.state_dict(), sort_keys=True).encode())
    for name, values in sorted(town.population.columns.items()):
        made.update(name.encode())
        made.update(values.tobytes())
    return made.hexdigest()


def _sha256(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, separators=(",", ":")).encode()).hexdigest()


# -- what is shown ---------------------------------------------------------------------------------


class _Progress:
    """How far it is, on standard error: one line that changes on a terminal, else one at times."""

    def __init__(self, order: SimulateOrder) -> None:
        self._order = order
        self._terminal = sys.stderr.isatty()
        self._every = _ON_TERMINAL_S if self._terminal else _ON_PIPE_S
        self._begun = self._shown = time.perf_counter()
        self._lived = 0

    def lived(self, row: dict[str, Any]) -> None:
        """Show a step that was lived."""
        self._lived += 1
        now = time.perf_counter()
        done, steps = row["step"] + 1, self._order.steps
        if now - self._shown < self._every and done < steps:
            return
        self._shown = now
        rate = self._lived / max(now - self._begun, 1e-9)
        left = (steps - done) / rate
        line = (
            f"{row['time'][:16].replace('T', ' ')}  {100 * done // steps:3} %  "
            f"{rate * self._order.citizens:,.0f} agent-steps/s  {left:,.0f} s left"
        )
        if self._terminal:
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        if self._terminal and self._lived:
            print(file=sys.stderr, flush=True)


def _print(order: SimulateOrder, made: dict[str, Any]) -> None:
    lines = [
        ("until", made["until"].replace("T", " ")),
        ("at home", f"{made['home']:,}"),
        ("at work", f"{made['work']:,}, at most {made['working_most']:,}"),
        ("on the way", f"at most {made['moving_most']:,}"),
        ("messages", f"{made['messages']:,}"),
        ("money", f"{made['money'] / 100:,.2f}"),
        ("failures", f"{made['failures']:,}"),
        ("state", made["state_sha256"]),
    ]
    if order.model is not None:
        by_rule = f"{made['model_calls']:,} decisions, {made['fallbacks']:,} of them by rule"
        lines.insert(-1, ("model", by_rule))
    if made["files"]:
        lines.append((f"in {order.out}", ", ".join(made["files"])))
    click.echo(order.task)
    for name, value in lines:
        click.echo(f"  {escaped(name):<12}  {escaped(str(value))}")
