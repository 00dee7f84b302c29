"""Runs one town of `moothall simulate`, shows it, and with --out writes tables and pictures."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moothall import Clock, MissingExtra
from moothall.build import escaped
from moothall.cli.interrupts import INTERRUPTED, interruptible
from moothall.cli.progress import ProgressLine
from moothall.cli.recorded_runs import RecordedRun
from moothall.cli.run.watch import print_line
from moothall.cli.shared_options import as_usage_error
from moothall.society import METRICS
from moothall.studio.orders import SimulateOrder, check_simulation, record_order, society_of

if TYPE_CHECKING:
    from moothall.society import Society, Tables

_PACKAGES: Final = ("moothall", "numpy", "scipy")


def run_simulation(order: SimulateOrder, as_json: bool, recorded: RecordedRun | None = None) -> int:
    """Run a town by its order, show it, and write the tables; return the exit code."""
    start, display = time.perf_counter(), _TownDisplay(order, as_json, recorded)
    display.show_run()
    try:
        with closing(display.progress):
            display.say(f"making a town of {order.citizens:,}")
            with as_usage_error():  # not on the loop: Ctrl-C ends it at once
                check_simulation(order)
                journal = None if recorded is None else recorded.journal
                town = society_of(order, journal, os.environ.get("MOOTHALL_KEY"))
            summary = interruptible(_run_town(town, display))
    except KeyboardInterrupt:
        display.show_interrupted()
        return INTERRUPTED
    if as_json:
        print_line("done", summary)
    else:
        _print_summary(order, summary)
        cost = f"{time.perf_counter() - start:,.0f} s, {_peak_memory():,.2f} GB of memory"
        click.echo(f"  {'took':<12}  {cost}", err=True)
    return 0


@dataclass
class _TownDisplay:
    """A run of a town as a terminal, or a reader of JSON, sees it."""

    order: SimulateOrder
    as_json: bool
    recorded: RecordedRun | None
    progress: ProgressLine = field(default_factory=ProgressLine)
    start: float = 0.0
    first_step: int = -1

    def say(self, line: str) -> None:
        """Show a line of progress."""
        if not self.as_json:
            self.progress.show(line)

    def show_run(self) -> None:
        """Show where the run is recorded."""
        if self.recorded is not None and not self.as_json:
            record_line = f"run {self.recorded.run_id}, recorded in {self.recorded.journal.path}"
            click.echo(escaped(record_line), err=True)
            if self.recorded.description:
                click.echo(escaped(self.recorded.description), err=True)

    def show_step(self, row: dict[str, Any]) -> None:
        """Show a step."""
        is_last = row["step"] + 1 == self.order.steps
        if self.first_step < 0:  # the first step takes longer: people are drawn, ways are found
            self.start, self.first_step = time.perf_counter(), row["step"]
        if self.as_json:
            print_line("step", row)
        elif self.progress.is_due(last=is_last):
            steps_run, seconds = row["step"] - self.first_step, time.perf_counter() - self.start
            self.progress.show(_progress_line(self.order, row, steps_run, seconds))
        if is_last and self.order.out is not None:
            self.say(f"writing {self.order.out}")

    def show_interrupted(self) -> None:
        """Show how an interrupted run can be resumed."""
        commands = [] if self.recorded is None else self.recorded.next_commands("cancelled")
        if self.as_json:
            print_line("interrupted", {"resume": [command for _, command in commands]})
        else:
            hint = "with --journal FILE it would be recorded and could be resumed"
            lines = [f"{words}: {escaped(command)}" for words, command in commands] or [
                f"interrupted; {hint}"
            ]
            click.echo("\n".join(lines), err=True)


async def _run_town(society: Society, display: _TownDisplay) -> dict[str, Any]:
    """Run a town, write its tables, and return what came of it."""
    order, recorded = display.order, display.recorded
    async with society as town:
        if recorded is not None:
            await record_order(order, recorded.journal, recorded.run_id, town)
            if display.as_json:
                print_line("run", recorded.run_fields)
        people = [{"id": id, "name": name, **status} for id, name, status in town.everyone()]
        hashes = {"city_sha256": town.city.sha256, "people_sha256": _hash(town, people)}
        run_id, tables = None if recorded is None else recorded.run_id, _make_tables(order, hashes)
        rows = await town.run(
            order.days,
            order.step,
            run_id=run_id,
            save_every=None if recorded is None else order.save_every,
            progress=display.show_step,
            out=tables,
        )
        facts = hashes | {"state_sha256": _state_hash(town, order, tables), "run_id": run_id}
        names: list[str] = []
        if tables is not None:
            _write_manifest(tables, facts, order.model is not None)
            rows = tables.rows()
            names = [*tables.names, *_draw_pictures(town, rows, tables.folder), "manifest.json"]
        summaries = [each.summary(rows) for each in METRICS]
        return {
            "citizens": order.citizens,
            "steps": len(rows),
            "until": town.clock.moment.isoformat(),
            **{name: value for each in summaries for name, value in each.items()},
            **({"first_fallback": reason} if (reason := town.model_calls.first_unusable) else {}),
            **facts,
            "files": names,
        }


def _make_tables(order: SimulateOrder, hashes: dict[str, str]) -> Tables | None:
    """Return the tables of a run; None without --out."""
    if order.out is None:
        return None
    from moothall.society import Tables

    settings = {k: v for k, v in asdict(order).items() if k not in order.may_change}
    settings |= {"steps": order.steps, "start": Clock().start.isoformat(), **hashes}
    return Tables(order.out, settings, order.parquet or False, order.trajectories)


def _peak_memory() -> float:
    """Return the process's peak memory in GB; Linux counts the parent's in `ru_maxrss`."""
    try:
        status = Path("/proc/self/status").read_text("utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1e6
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1e9 if sys.platform == "darwin" else 1e6)


def _write_manifest(tables: Tables, facts: dict[str, Any], has_model: bool) -> None:
    """Write the manifest: settings, versions, hashes, and which of them are deterministic."""
    reproducible = ["city_sha256", "people_sha256"]
    if not has_model:  # a model may answer otherwise the next time
        reproducible += ["state_sha256", *(tables.names if tables.are_text else ())]
    unstable = [each for each in ("state_sha256", *tables.names) if each not in reproducible]
    if has_model:
        unstable.append("prompts_sha256")  # they tell what the model answered before
    versions = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    hashes = {}
    for name in tables.names:
        with (tables.folder / name).open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    tables.write_manifest(
        complete=True,
        **facts,
        sha256=hashes,
        deterministic=reproducible,
        not_deterministic=["run_id", "versions", *unstable],
        versions=versions,
    )


def _draw_pictures(town: Society, rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Draw the pictures; return their names, none if matplotlib is not installed."""
    from moothall.society import draw_day, draw_map

    try:
        draw_map(town, folder / "map.png")
        draw_day(rows, folder / "day.png")
    except MissingExtra as error:
        print(f"no pictures: {error}", file=sys.stderr)
        return []
    return ["map.png", "day.png"]


def _progress_line(
    order: SimulateOrder, row: dict[str, Any], steps_run: int, seconds: float
) -> str:
    """Return the progress after a step, at the rate of `steps_run` steps in `seconds`."""
    done = row["step"] + 1
    text = f"{row['time'][:16].replace('T', ' ')}  {100 * done // order.steps:3} %"
    if not steps_run:
        return text
    rate = steps_run / seconds
    return (
        f"{text}  {rate * order.citizens:,.0f} agent-steps/s  "
        f"{(order.steps - done) / rate:,.0f} s left"
    )


def _state_hash(town: Society, order: SimulateOrder, tables: Tables | None) -> str:
    """Return the hash of the state; by rules, of what agents and rows both have: no memories."""
    from moothall.society import Tables

    if order.model is not None:
        return _hash(town, town.state_dict())
    columns: dict[str, Any] = {}
    if town.given_population is None:  # many statuses take seconds
        columns = Tables.citizen_columns(town) if tables is None else tables.citizens
    return _hash(
        town, [town.books.state_dict(), {name: each for name, (each, _) in columns.items()}]
    )


def _hash(town: Society, state: Any) -> str:
    """Return the hash of `state`; with a population, of its columns and the money instead."""
    if (population := town.given_population) is None:
        data = json.dumps(state, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(data.encode()).hexdigest()
    digest = hashlib.sha256(json.dumps(town.books.state_dict(), sort_keys=True).encode())
    for name, values in sorted(population.columns.items()):
        digest.update(name.encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _print_summary(order: SimulateOrder, summary: dict[str, Any]) -> None:
    lines = [
        ("until", summary["until"].replace("T", " ")),
        *((each.label, each.text(summary)) for each in METRICS if each.label),
        ("state", summary["state_sha256"]),
    ]
    if order.model is not None:
        decisions = (
            f"{summary['model_calls']:,} decisions, {summary['fallbacks']:,} of them by rule"
        )
        if "first_fallback" in summary:
            decisions += f"; the first: {summary['first_fallback']}"
        lines.insert(-1, ("model", decisions))
    if summary["files"]:
        lines.append((f"in {order.out}", ", ".join(summary["files"])))
    click.echo(order.task)
    for name, value in lines:
        click.echo(f"  {escaped(name):<12}  {escaped(str(value))}")
