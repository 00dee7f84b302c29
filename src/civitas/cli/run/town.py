"""One town of `civitas simulate`: lived, shown, and with --out written as tables and pictures."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from civitas.cli.options import usage
from civitas.cli.recorded import Recorded
from civitas.cli.run.watch import print_line
from civitas.clock import Clock
from civitas.errors import MissingExtra
from civitas.orders.order import record
from civitas.orders.simulate import SimulateOrder, society_of
from civitas.text import escaped

if TYPE_CHECKING:
    from civitas.society import Society
    from civitas.society.population.population import Population

_MESSAGES: Final = ("step", "from", "to", "action", "args")
_MANIFEST: Final = "manifest.json"
_ROWS: Final = 100_000
"""So many rows of a population are written at a time."""
_PACKAGES: Final = ("civitas", "numpy", "scipy")
_ON_TERMINAL_S: Final = 0.2
_ON_PIPE_S: Final = 10.0
"""How often progress is shown, in seconds."""


class Progress:
    """How far it is, on standard error: one line that changes on a terminal, else one at times."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._every = _ON_TERMINAL_S if self._terminal else _ON_PIPE_S
        self._last = time.perf_counter()
        self._open = False

    def is_due(self, *, last: bool) -> bool:
        """Whether to show something again; the last is always shown."""
        now = time.perf_counter()
        if now - self._last < self._every and not last:
            return False
        self._last = now
        return True

    def show(self, line: str) -> None:
        """Show a line, in place of the one before."""
        self._open = self._terminal
        text, end = (f"\r{line}\x1b[K", "") if self._terminal else (line, "\n")
        print(text, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        if self._open:
            print(file=sys.stderr, flush=True)
        self._open = False


def simulated(order: SimulateOrder, as_json: bool, recorded: Recorded | None = None) -> int:
    """Live as it was ordered, show it, and write the tables; give the exit code."""
    run_id, journal = (None, None) if recorded is None else (recorded.run_id, recorded.journal)
    if recorded is not None and not as_json:
        click.echo(escaped(f"run {run_id}, recorded in {recorded.journal.path}"), err=True)
        if recorded.about:
            click.echo(escaped(recorded.about), err=True)

    async def live() -> dict[str, Any]:
        with usage():
            made = society_of(order, journal, os.environ.get("CIVITAS_KEY"))
        async with made as town:
            if journal is not None and run_id is not None:
                await record(order, journal, run_id, town)
            agents: list[Any] = town.agents
            people = [{"id": a.id, "name": a.name, **a.memory.status} for a in agents]
            hashes = {"city_sha256": town.city.sha256, "people_sha256": _sha256(town, people)}
            files: _Files | None = None
            if order.out is not None:
                settings = {k: v for k, v in asdict(order).items() if k not in order.may_change}
                settings |= {"steps": order.steps, "start": Clock().start.isoformat(), **hashes}
                files = _Files(Path(order.out), settings, parquet=order.parquet)
            progress, began, first = Progress(), time.perf_counter(), -1

            def each(row: dict[str, Any]) -> None:
                nonlocal first
                first = row["step"] if first < 0 else first
                if files is not None:
                    files.begin(row["step"])
                if as_json:
                    print_line("step", row)
                elif progress.is_due(last=row["step"] + 1 == order.steps):
                    lived = row["step"] + 1 - first
                    progress.show(_how_far(order, row, lived / (time.perf_counter() - began)))

            if files is not None and town.population is None:
                town.observe(lambda message: files.message(town.number, message))
            try:
                options = {"save_every": order.save_every, "progress": each}
                rows = await town.run(order.days, order.step, run_id=run_id, **options)
                about = hashes | {"state_sha256": _sha256(town, None), "run_id": run_id}
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


def _how_far(order: SimulateOrder, row: dict[str, Any], rate: float) -> str:
    """How far it is after a step, at so many steps a second."""
    done = row["step"] + 1
    return (
        f"{row['time'][:16].replace('T', ' ')}  {100 * done // order.steps:3} %  "
        f"{rate * order.citizens:,.0f} agent-steps/s  {(order.steps - done) / rate:,.0f} s left"
    )


def _sha256(town: Society, objects: Any) -> str:
    """The hash of objects, or the whole state; of citizens in columns, these and their money."""
    if town.population is None:
        data = town.state_dict() if objects is None else objects
        return hashlib.sha256(json.dumps(data, separators=(",", ":")).encode()).hexdigest()
    made = hashlib.sha256(json.dumps(town.books.state_dict(), sort_keys=True).encode())
    for name, values in sorted(town.population.columns.items()):
        made.update(name.encode())
        made.update(values.tobytes())
    return made.hexdigest()


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


class _Files:
    """The files of one simulation. Messages are written as they are sent.

    So those of a run that is killed are there when it goes on: what it lives again it writes again.
    Of a run with other settings they are not kept.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, parquet: bool) -> None:
        self.folder = folder
        self._arrow: Any = None
        if parquet:
            try:
                self._arrow = importlib.import_module("pyarrow")
                self._parquet = importlib.import_module("pyarrow.parquet")
            except ImportError as error:
                raise MissingExtra("Parquet", "tables") from error
        self._settings = settings
        self._messages: TextIO | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._from = self._written_from()
        self._manifest({"complete": False})

    def _written_from(self) -> int | None:
        """From which step on this run's messages are there already; None for none."""
        try:
            before = json.loads((self.folder / _MANIFEST).read_bytes())
            found = before["messages_from_step"] if before["settings"] == self._settings else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if type(found) is int else None

    def _manifest(self, more: dict[str, Any]) -> None:
        whole = {"settings": self._settings, "messages_from_step": self._from, **more}
        text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
        (self.folder / _MANIFEST).write_text(text, encoding="utf-8")

    # -- messages ----------------------------------------------------------------------------------

    def begin(self, step: int) -> None:
        """A step is lived: the first of this process says from where on messages are written."""
        if self._messages is not None:
            return
        path = self.folder / "messages.csv"
        kept = self._kept(path, step)
        self._messages = path.open("w", encoding="utf-8", newline="", buffering=1)
        rows = csv.writer(self._messages, lineterminator="\n")
        rows.writerow(_MESSAGES)
        rows.writerows(kept)
        self._manifest({"complete": False})

    def _kept(self, path: Path, step: int) -> list[list[str]]:
        """The messages of the steps that another process has lived; none of another run."""
        if self._from is None or self._from >= step or not path.exists():
            self._from = step
            return []
        with path.open(encoding="utf-8", newline="") as lines:
            return [
                row
                for row in list(csv.reader(lines))[1:]
                if len(row) == len(_MESSAGES) and int(row[0]) < step
            ]

    def message(self, step: int, message: dict[str, Any]) -> None:
        """Write a message that is sent in a step."""
        self.begin(step)
        action = message["action"]
        args = json.dumps(action["args"], ensure_ascii=False)
        row = (step, message["from"], message["to"], action["name"], args)
        csv.writer(self._messages, lineterminator="\n").writerow(row)  # type: ignore[arg-type]

    def close(self) -> None:
        """Write no further messages."""
        if self._messages is not None:
            self._messages.close()

    # -- at the end --------------------------------------------------------------------------------

    def finish(
        self, society: Society, rows: list[dict[str, Any]], about: dict[str, Any]
    ) -> list[str]:
        """Write the tables, the pictures and the manifest; gives the names of the files."""
        self.close()
        names = [self._table("metrics", rows)]
        if society.population is None:
            names += [self._table("citizens", _people_of(society)), *self._all_messages()]
        else:
            names.append(self._columns(society.population))
            (self.folder / "messages.csv").unlink(missing_ok=True)  # they are counted alone
        same = ["city_sha256", "people_sha256"]
        if self._settings["model"] is None:  # which may answer otherwise the next time
            same += ["state_sha256", *(names if self._arrow is None else ())]
        self._manifest(
            {
                "complete": True,
                **about,
                "sha256": {
                    name: hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
                    for name in names
                },
                "deterministic": same,
                "not_deterministic": ["run_id", "versions"],
                "versions": {"python": platform.python_version()}
                | {name: version(name) for name in _PACKAGES},
            }
        )
        return [*names, *self._pictures(society, rows), _MANIFEST]

    def _pictures(self, society: Society, rows: list[dict[str, Any]]) -> list[str]:
        """Draw the pictures; gives their names, none where matplotlib is not installed."""
        from civitas.society.experiments.pictures import draw_day, draw_map

        try:
            draw_map(society, self.folder / "map.png")
            draw_day(rows, self.folder / "day.png")
        except MissingExtra as error:
            print(f"no pictures: {error}", file=sys.stderr)
            return []
        return ["map.png", "day.png"]

    def _columns(self, population: Population) -> str:
        """Write the columns of a population; in CSV, places by their ids and words as texts."""
        single = {name for name, values in population.arrays.items() if values.ndim == 1}
        if self._arrow is not None:
            table = population.to_arrow()
            kept = [name for name in table.column_names if name == "id" or name in single]
            self._parquet.write_table(table.select(kept), self.folder / "citizens.parquet")
            return "citizens.parquet"
        path = self.folder / "citizens.csv"
        columns = {name: population.columns[name] for name in population.arrays if name in single}
        texts = {name: population.declared[name].texts(population.places) for name in columns}
        with path.open("w", encoding="utf-8", newline="") as file:
            made = csv.writer(file, lineterminator="\n")
            made.writerow(["id", *columns])
            for at in range(0, len(population), _ROWS):
                part = [each[at : at + _ROWS].tolist() for each in columns.values()]
                for index, said in enumerate(texts.values()):
                    if said is not None:
                        part[index] = [said[number] for number in part[index]]
                made.writerows(zip(population.ids[at : at + _ROWS].tolist(), *part, strict=True))
        return path.name

    def _all_messages(self) -> list[str]:
        path = self.folder / "messages.csv"
        if self._arrow is None or not path.exists():
            there = [each for each in (path, path.with_suffix(".parquet")) if each.exists()]
            return [each.name for each in there[:1]]
        with path.open(encoding="utf-8", newline="") as lines:
            table = [{**row, "step": int(row["step"])} for row in csv.DictReader(lines)]
        made = self._table("messages", table, _MESSAGES)
        path.unlink()
        return [made]

    def _table(
        self, name: str, rows: list[dict[str, Any]], columns: Iterable[str] | None = None
    ) -> str:
        """Write a table; gives the file's name."""
        names = list(columns or rows[0])
        if self._arrow is not None:
            table = self._arrow.table({each: [row[each] for row in rows] for each in names})
            self._parquet.write_table(table, self.folder / f"{name}.parquet")
            return f"{name}.parquet"
        path = self.folder / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            made = csv.DictWriter(file, names, lineterminator="\n")
            made.writeheader()
            made.writerows(rows)
        return path.name


def _people_of(society: Society) -> list[dict[str, Any]]:
    """The citizens as they are, in id order, with the columns that `read_people` takes."""
    from civitas.society.people.table import COLUMNS

    found = []
    for agent in society.agents:
        status = agent.status
        row = dict.fromkeys(COLUMNS) | {"id": str(agent.id), "name": agent.name}
        flat = {**status, **status.get("profile", {}), **status.get("needs", {})}
        for column in COLUMNS[2:]:
            value = flat.get(column)
            if isinstance(value, Mapping):
                value = ";".join(f"{name}:{number}" for name, number in value.items())
            row[column] = value
        found.append(row)
    return found
