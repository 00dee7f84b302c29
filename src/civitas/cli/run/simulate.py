"""`civitas simulate`: a town of citizens who live by rules, for some simulated days."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import shlex
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.completion import folders
from civitas.cli.options import is_named, journal_option, run_id_option
from civitas.cli.run.json_lines import print_line
from civitas.cli.run.show import one_or_more
from civitas.clock import DAY_S, Clock, seconds_of
from civitas.errors import ConfigError
from civitas.text import escaped

if TYPE_CHECKING:
    from civitas.cli.run.simulate_files import Files
    from civitas.journal import Journal

_HELP = {"help_option_names": ["-h", "--help"]}
_MOST_DAYS: Final = 100_000
_SAVED_S: Final = DAY_S // 4
"""After so many simulated seconds the state is recorded."""
_ON_TERMINAL_S: Final = 0.2
_ON_PIPE_S: Final = 10.0
"""How often progress is shown, in seconds."""


@dataclass(frozen=True)
class _Order:
    """What is simulated, and where it is recorded and written."""

    citizens: int
    days: float
    seed: int
    step: str
    journal: str | None
    named: bool
    run_id: str | None
    out: str | None
    parquet: bool

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return int(self.days * DAY_S // seconds_of(self.step))

    def command(self) -> str:
        """The command that goes on with it."""
        days = int(self.days) if self.days == int(self.days) else self.days
        words = ["--citizens", self.citizens, "--days", days, "--seed", self.seed]
        words += ["--step", self.step]
        if self.journal is not None and self.named:
            words += ["--journal", self.journal]
        words += ["--run-id", self.run_id] if self.run_id is not None else []
        words += ["--out", self.out] if self.out is not None else []
        words += ["--parquet"] if self.parquet else []
        return shlex.join(("civitas", "simulate", *map(str, words)))


@click.command(context_settings=_HELP)
@click.option(
    "--citizens",
    type=click.IntRange(10, 1_000_000),
    default=1000,
    show_default=True,
    help="How many live there.",
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
@journal_option("A file to record the run in.")
@run_id_option
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False),
    shell_complete=folders,
    help="Write tables of steps, citizens and messages there, and a manifest.",
)
@click.option("--parquet", is_flag=True, help="Tables as Parquet instead of CSV, by pyarrow.")
@click.option("--json", "as_json", is_flag=True, help="Print each step as a line of JSON.")
def command(journal: str | None, as_json: bool, **given: Any) -> int:
    """Have a town of citizens live by rules, for some simulated days.

    The town, its people, firms, bank, government and feed are drawn by --seed, and the same command
    gives the same town, byte by byte. How far it is, is shown on standard error; what came of it is
    printed at the end.

    \b
    Examples:
      civitas simulate --citizens 1000 --days 1
      civitas simulate --citizens 5000 --days 7 \\
        --seed 3 --out week
      civitas simulate --days 30 --journal runs.db \\
        --run-id april

    With a journal, a run that Ctrl-C or a crash has stopped goes on with the same command and its
    --run-id, from the state of at most six simulated hours before, to the same result.

    --out DIR holds metrics.csv (a row for each step), citizens.csv (who they are at the end, as
    `read_people` reads it), messages.csv, manifest.json (settings, versions, hashes), and by
    matplotlib the pictures map.png and day.png.

    Exit codes: 0 done, 1 failed,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if journal is None and given["run_id"] is not None:
        raise click.UsageError("--run-id is for a run in a journal: give --journal too")
    if journal is not None and given["run_id"] is None:
        given["run_id"] = secrets.token_hex(8)
    order = _Order(journal=journal, named=is_named(), **given)
    _check(order)
    logging.getLogger("civitas").addHandler(logging.NullHandler())
    try:
        return _simulated(order, as_json)
    except KeyboardInterrupt:
        way = order.command() if journal is not None else None
        if as_json:
            print_line("interrupted", {"resume": [] if way is None else [way]})
        elif way is not None:
            click.echo(f"to go on with it: {escaped(way)}", err=True)
        else:
            hint = "with --journal FILE it would be recorded, and could go on from here"
            click.echo(f"interrupted; {hint}", err=True)
        return 130


def _check(order: _Order) -> None:
    try:
        seconds = seconds_of(order.step, "--step")
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if not 0 < order.days <= _MOST_DAYS:
        raise click.UsageError(f"--days must be above 0, at most {_MOST_DAYS}, got {order.days:g}")
    steps = order.days * DAY_S / seconds
    if steps != int(steps):
        raise click.UsageError(
            f"--days {order.days:g} is not a whole number of steps of {order.step}"
        )
    if order.parquet and order.out is None:
        raise click.UsageError("--parquet is for the tables: give --out DIR too")


def _simulated(order: _Order, as_json: bool) -> int:
    """Live as it was ordered; gives the exit code."""
    from civitas.journal import Journal
    from civitas.society import City, Feed, Society, citizens, make_economy, make_people

    city = City.generate(seed=order.seed, citizens=order.citizens)
    people = make_people(city, order.citizens, seed=order.seed)
    hashes = {"city_sha256": city.sha256, "people_sha256": _sha256(people)}
    files = _files(order, hashes)
    services = [*make_economy(city, seed=order.seed), Feed()]
    progress = None if as_json else _Progress(order)

    async def live(journal: Journal | None) -> dict[str, Any]:
        agents = citizens(people)
        async with Society(
            agents, city, seed=order.seed, services=services, journal=journal
        ) as town:

            def each(row: dict[str, Any]) -> None:
                if files is not None:
                    files.begin(row["step"])
                if progress is None:
                    print_line("step", row)
                else:
                    progress.lived(row)

            if files is not None:
                town.observe(lambda message: files.message(town.number, message))
            if progress is not None:
                progress.begin()
            rows = await town.run(
                order.days,
                order.step,
                run_id=order.run_id,
                save_every=max(1, _SAVED_S // seconds_of(order.step)),
                progress=each,
            )
            about = hashes | {"state_sha256": _sha256(town.state_dict()), "run_id": order.run_id}
            names = [] if files is None else files.finish(town, rows, about)
            return _summary(order, town.clock, rows, about, names)

    if order.journal is not None and not as_json:
        where = escaped(f"run {order.run_id}, recorded in {order.journal}")
        click.echo(where, err=True)
    try:
        with nullcontext() if order.journal is None else Journal(order.journal) as journal:
            summary = asyncio.run(live(journal))
    finally:
        if files is not None:
            files.close()
        if progress is not None:
            progress.end()
    if as_json:
        print_line("done", summary)
    else:
        _print(order, summary)
    return 0


def _files(order: _Order, hashes: dict[str, str]) -> Files | None:
    if order.out is None:
        return None
    from civitas.cli.run.simulate_files import Files

    settings = {
        "citizens": order.citizens,
        "days": order.days,
        "seed": order.seed,
        "step_s": seconds_of(order.step),
        "steps": order.steps,
        "start": Clock().start.isoformat(),
        "model": None,
        **hashes,
    }
    return Files(Path(order.out), settings, parquet=order.parquet)


def _sha256(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, separators=(",", ":")).encode()).hexdigest()


# -- what is shown ---------------------------------------------------------------------------------


class _Progress:
    """How far it is, on standard error: one line that changes on a terminal, else one at times."""

    def __init__(self, order: _Order) -> None:
        self._order = order
        self._terminal = sys.stderr.isatty()
        self._every = _ON_TERMINAL_S if self._terminal else _ON_PIPE_S
        self._begun = self._shown = 0.0
        self._lived = 0

    def begin(self) -> None:
        """Measure from now on."""
        self._begun = self._shown = time.perf_counter()

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


def _summary(
    order: _Order, clock: Clock, rows: list[dict[str, Any]], about: dict[str, Any], names: list[str]
) -> dict[str, Any]:
    """What came of it."""
    last = rows[-1]
    return {
        "citizens": order.citizens,
        "steps": len(rows),
        "until": clock.moment.isoformat(),
        "home": last["home"],
        "work": last["work"],
        "moving_most": max(row["moving"] for row in rows),
        "working_most": max(row["work"] for row in rows),
        "money": last["money"],
        "messages": sum(row["messages"] for row in rows),
        "failures": sum(row["failures"] for row in rows),
        **about,
        "files": names,
    }


def _print(order: _Order, made: dict[str, Any]) -> None:
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
    if made["files"]:
        lines.append((f"in {order.out}", ", ".join(made["files"])))
    who = f"{order.citizens:,} citizens, {one_or_more(made['steps'], 'step')} of {order.step}"
    click.echo(f"{who}, seed {order.seed}")
    for name, value in lines:
        click.echo(f"  {escaped(name):<12}  {escaped(str(value))}")
