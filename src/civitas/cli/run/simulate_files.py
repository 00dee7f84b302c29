"""What `civitas simulate --out DIR` writes: steps, citizens, messages, pictures, and a manifest."""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from civitas.errors import MissingExtra

if TYPE_CHECKING:
    from civitas.society.population.population import Population
    from civitas.society.society import Society

MESSAGES: Final = ("step", "from", "to", "action", "args")
_MANIFEST: Final = "manifest.json"
_ROWS: Final = 100_000
"""So many rows of a population are written at a time."""
_PACKAGES: Final = ("civitas", "numpy", "scipy")


class Files:
    """The files of one simulation.

    Messages are written as they are sent, so that those of a run that is killed are there when it
    goes on: what it lives again it writes again.

    Args:
        folder: where they are written; made if it is not there
        settings: what the run is made from; the messages of another run are not kept
        parquet: whether tables are Parquet instead of CSV

    Raises:
        MissingExtra: pyarrow is wanted and not installed
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
        rows.writerow(MESSAGES)
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
                if len(row) == len(MESSAGES) and int(row[0]) < step
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
            names += [self._table("citizens", people_of(society)), *self._all_messages()]
        else:
            names.append(self._columns(society.population))
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
        """Write the columns of a population, one value a citizen; gives the file's name."""
        single = {name for name, values in population.arrays.items() if values.ndim == 1}
        if self._arrow is not None:
            table = population.to_arrow()
            kept = [name for name in table.column_names if name == "id" or name in single]
            self._parquet.write_table(table.select(kept), self.folder / "citizens.parquet")
            return "citizens.parquet"
        path = self.folder / "citizens.csv"
        columns = {name: population.columns[name] for name in population.arrays if name in single}
        with path.open("w", encoding="utf-8", newline="") as file:
            made = csv.writer(file, lineterminator="\n")
            made.writerow(["id", *columns])
            for at in range(0, len(population), _ROWS):
                part = [each[at : at + _ROWS].tolist() for each in columns.values()]
                made.writerows(zip(population.ids[at : at + _ROWS].tolist(), *part, strict=True))
        return path.name

    def _all_messages(self) -> list[str]:
        path = self.folder / "messages.csv"
        if self._arrow is None or not path.exists():
            there = [each for each in (path, path.with_suffix(".parquet")) if each.exists()]
            return [each.name for each in there[:1]]
        with path.open(encoding="utf-8", newline="") as lines:
            table = [{**row, "step": int(row["step"])} for row in csv.DictReader(lines)]
        made = self._table("messages", table, MESSAGES)
        path.unlink()
        return [made]

    def _table(
        self, name: str, rows: list[dict[str, Any]], columns: Iterable[str] | None = None
    ) -> str:
        """Write a table; gives the file's name."""
        names = list(columns or rows[0])
        if self._arrow is not None:
            columns_of = {each: [row[each] for row in rows] for each in names}
            self._parquet.write_table(
                self._arrow.table(columns_of), self.folder / f"{name}.parquet"
            )
            return f"{name}.parquet"
        path = self.folder / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            made = csv.DictWriter(file, names, lineterminator="\n")
            made.writeheader()
            made.writerows(rows)
        return path.name


def people_of(society: Society) -> list[dict[str, Any]]:
    """The citizens as they are, in id order, with the columns that `read_people` takes."""
    from civitas.society.people.table import COLUMNS

    found = []
    for seat in society.seats:
        agent: Any = seat.agent
        status = agent.status
        row = dict.fromkeys(COLUMNS) | {"id": str(agent.id), "name": agent.name}
        flat = {**status, **status.get("profile", {}), **status.get("needs", {})}
        for column in COLUMNS[2:]:
            value = flat.get(column)
            row[column] = _weights(value) if isinstance(value, Mapping) else value
        found.append(row)
    return found


def _weights(value: Mapping[str, int]) -> str:
    return ";".join(f"{name}:{number}" for name, number in value.items())
