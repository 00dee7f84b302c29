"""The tables of a run in a folder: metrics, messages and trajectories after each step, citizens.

Rows are appended to a CSV file after their step, so they survive a killed process. A resumed run
cuts off the rows of the steps that it repeats. At the end the rows become Parquet, or stay CSV.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from moothall import ConfigError, FileError, MissingExtra
from moothall.build import read_json, written_whole
from moothall.society.arrays import import_package
from moothall.society.people.table import COLUMNS as PEOPLE_COLUMNS
from moothall.society.society_step import Steps
from moothall.society.trajectories import TABLE, TYPES, check_values, csv_rows, header, types_of

_TABLES: Final = ("metrics", "citizens", "messages", TABLE)
_MESSAGE_COLUMNS: Final = ("step", "from", "to", "action", "args")
_MANIFEST: Final = "manifest.json"
_BATCH: Final = 100_000  # the rows of a population that are written at a time
_GROUP_BYTES: Final = 1 << 24  # the bytes of CSV that become one row group of Parquet


class Tables:
    """Writes the tables of one run, identified by its `settings`, into a folder."""

    def __init__(
        self,
        folder: str | PathLike[str],
        settings: Mapping[str, object],
        parquet: bool | None = None,
        trajectories: bool | Iterable[str] = False,
    ) -> None:
        """Prepare a folder; `parquet=None` writes Parquet if pyarrow is installed, else CSV."""
        self.trajectories: bool = trajectories is not False
        self.values: Any = trajectories  # that the trajectories have, too
        self.folder: Path = Path(folder)
        self.names: list[str] = []
        self.citizens: dict[str, Any] = {}  # at the end: what `citizen_columns` returns
        self._settings = dict(settings)
        self._arrow: Any = None
        try:
            if parquet is not False:
                self._arrow, self._parquet = import_arrow()
        except MissingExtra:
            if parquet:
                raise
        self._run = ""
        self._since: int | None = None
        self._rows_since: int | None = None
        self._prompts: dict[str, str] = {}
        self._messages: list[tuple[object, ...]] = []
        with writing_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def are_text(self) -> bool:
        """Whether the tables are CSV, whose bytes do not depend on pyarrow's version."""
        return self._arrow is None

    def write_manifest(self, **extra: object) -> None:
        """Write the manifest: the run's settings, and which steps the tables have."""
        content: dict[str, object] = {"settings": self._settings, "messages_from_step": self._since}
        if self.trajectories:
            content["trajectories_from_step"] = self._rows_since
            content |= {"trajectories_values": [*self.values]} if self.values else {}
        data = content | self._prompts | extra
        if not extra.get("complete"):
            data["run"] = self._run  # which alone may go on with them
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        write_whole(self.folder / _MANIFEST, lambda file: Path(file).write_text(text, "utf-8"))

    # -- during the run ----------------------------------------------------------------------------

    # Whole tables are of a run that is `is_over` for them; others of the one the manifest names.
    def check_owner(self, run: str, *, is_over: bool) -> dict[str, Any]:
        """Return the manifest of a run's earlier tables, {} for none; ConfigError: of another."""
        self._run = run
        names = [f"{name}{end}" for name in _TABLES for end in (".csv", ".parquet")]
        existing = [name for name in (_MANIFEST, *names) if (self.folder / name).exists()]
        if not existing:
            return {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            manifest: dict[str, object] = json.loads((self.folder / _MANIFEST).read_bytes())
            goes_on = is_over if manifest["complete"] else manifest.get("run", run) == run
            if manifest["settings"] == self._settings and goes_on:
                return manifest
        raise ConfigError(
            f"{self.folder / existing[0]} is of another run, whose tables would be lost: let `out` "
            "be another folder, or delete those tables first"
        )

    def begin(self, society: Steps, rows: list[dict[str, Any]], last: int) -> None:
        """Start with the metrics of earlier steps; messages stay if the folder has these."""
        step, self.values = society.number, check_values(society, self.values)
        path = self.folder / "metrics.csv"
        text = _csv([list(rows[0]), *(row.values() for row in rows)]) if rows else b""
        with writing_errors(self.folder):
            is_ours = bool(text) and path.exists() and path.read_bytes().startswith(text)
        # Whole tables with our steps: the journal is a copy of before the run's end, brought back.
        manifest = self.check_owner(self._run, is_over=step == last or is_ours)
        messages_from, complete = manifest.get("messages_from_step"), manifest.get("complete")
        rows_from = manifest.get("trajectories_from_step")
        with writing_errors(self.folder):
            continues = complete is not None and is_ours
            is_over = complete and step == last
            has_all = bool(continues or is_over)
            has_any = (
                society.given_population is None and step < last
            )  # rows' messages are only counted
            self._since = messages_from if has_all else step if has_any else None
            resumes = self.trajectories and has_all and rows_from is not None
            resumes &= manifest.get("trajectories_values", []) == [*self.values]
            self._rows_since = rows_from if resumes else step if step < last else None
            self.write_manifest(complete=bool(is_over))
            self._reopen("messages", has_all, step, _csv([_MESSAGE_COLUMNS]) if has_any else b"")
            starts_trajectories = self.trajectories and step < last
            self._reopen(TABLE, resumes, step, header(self.values) if starts_trajectories else b"")
            if continues:
                path.with_suffix(".parquet").unlink(missing_ok=True)
                os.truncate(path, len(text))
            else:
                write_whole(path, lambda file: Path(file).write_bytes(text))
        self._society = society
        if society.given_population is None:  # an observer would turn rows' messages into real ones
            society.observe(self._note_message)

    def _reopen(self, name: str, continues: bool, step: int, header: bytes) -> None:
        """Go on with a table that has the steps before `step`, or begin it anew with `header`."""
        path = self.folder / f"{name}.csv"
        if continues and path.exists():
            path.with_suffix(".parquet").unlink(missing_ok=True)  # of a run that has stopped
            os.truncate(path, _size_before(path, step))
        elif not continues:
            for suffix in (".csv", ".parquet"):
                path.with_suffix(suffix).unlink(missing_ok=True)
            if header:
                self._append(name, header)

    def _note_message(self, message: dict[str, Any]) -> None:
        action = message["action"]
        args = json.dumps(action["args"], ensure_ascii=False)
        self._messages.append((message["from"], message["to"], action["name"], args))

    def add(self, row: dict[str, Any]) -> None:
        """Write a step's messages, trajectories and row of metrics. Raises FileError."""
        messages, self._messages = self._messages, []
        if messages:
            self._append("messages", _csv([(row["step"], *each) for each in messages]))
        if self.trajectories:
            self._append(TABLE, *csv_rows(self._society, row["step"], self._arrow, self.values))
        is_empty = (self.folder / "metrics.csv").stat().st_size == 0
        self._append("metrics", _csv([row, row.values()] if is_empty else [row.values()]))

    def _append(self, name: str, *parts: bytes) -> None:
        path = self.folder / f"{name}.csv"
        size = path.stat().st_size if path.exists() else 0
        with writing_errors(path):
            try:
                with path.open("ab") as file:
                    file.writelines(parts)
            except OSError:
                os.truncate(path, size)  # no partial rows
                raise

    # -- at the end --------------------------------------------------------------------------------

    def end(self, society: Steps, *, complete: bool) -> None:
        """Finish the tables; for a completed run, write the citizens too."""
        router = society.router
        router.observers = tuple(each for each in router.observers if each != self._note_message)
        population = society.given_population
        own_metrics = () if population is None else population.metrics
        types = {"time": "string"} | dict.fromkeys(own_metrics, "float64")
        self.names = self._convert_table("metrics", types)
        if complete:
            self.names.append(self._write_citizens(society))
        types = dict.fromkeys(_MESSAGE_COLUMNS, "string") | {"step": "int64"}
        self.names += self._convert_table("messages", types)
        if self.trajectories:
            self.names += self._convert_trajectories()
        if society.model_calls.prompts_hash:
            self._prompts = {"prompts_sha256": f"{society.model_calls.prompts_hash:064x}"}
        self.write_manifest(complete=complete)
        for name in _TABLES if complete else ():
            other_ending = ".parquet" if f"{name}.csv" in self.names else ".csv"
            (self.folder / f"{name}{other_ending}").unlink(missing_ok=True)

    def _convert_trajectories(self) -> list[str]:
        """Convert the trajectories; if a value was text in some steps alone, all are texts."""
        try:
            return self._convert_table(TABLE, types_of(self._society, self.values))
        except FileError:
            if not self.values:
                raise
            return self._convert_table(TABLE, TYPES | dict.fromkeys(self.values, "name"))

    def _convert_table(self, name: str, types: dict[str, str]) -> list[str]:
        """Convert a table to Parquet, if wanted; return its file's name, if there is a file."""
        path, target = (self.folder / f"{name}{suffix}" for suffix in (".csv", ".parquet"))
        if not path.exists() or not path.stat().st_size:
            return [target.name] if target.exists() else []
        if self._arrow is None:
            return [path.name]
        try:
            write_whole(target, lambda file: convert(path, file, types))
        except ValueError as error:
            raise FileError(
                f"{target} cannot be written, its rows are in {path}: {error}"
            ) from error
        return [target.name]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of metrics of a finished run."""
        path = self.folder / self.names[0]
        if self._arrow is not None:
            rows: list[dict[str, object]] = self._parquet.read_table(path).to_pylist()
            return rows
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines)
            return [
                {n: v if n == "time" else read_json(v) for n, v in row.items()} for row in reader
            ]

    @staticmethod
    def citizen_columns(society: Steps) -> dict[str, tuple[Any, Sequence[str | None] | None]]:
        """Return the citizens in id order by column: values, and the texts they number, or None."""
        if (population := society.given_population) is not None:
            columns = {
                name: (population.columns[name], population.texts_of(name))
                for name, values in population.arrays.items()
                if values.ndim == 1
            }
            return {"id": (population.ids, None), **columns}
        rows, names_found = [], set[str]()
        for id, name, status in society.everyone():
            rows.append(_status_cells(status) | {"id": str(id), "name": name})
            names_found |= {*_attributes(status)}
        names = [*PEOPLE_COLUMNS, *sorted(names_found - {*PEOPLE_COLUMNS})]
        return {name: (_as_one_type([row.get(name) for row in rows]), None) for name in names}

    def _write_citizens(self, society: Steps) -> str:
        """Write the citizens' current state; return the file's name."""
        path = self.folder / f"citizens.{'csv' if self._arrow is None else 'parquet'}"
        columns = self.citizens = self.citizen_columns(society)

        def write(to: str) -> None:
            if self._arrow is None:
                with Path(to).open("w", encoding="utf-8", newline="") as file:
                    lines = csv.writer(file, lineterminator="\n")
                    lines.writerow(columns)
                    for at in range(0, len(columns["id"][0]), _BATCH):
                        part = (
                            _plain_list(v[at : at + _BATCH], texts) for v, texts in columns.values()
                        )
                        lines.writerows(zip(*part, strict=True))
                return
            arrays = {
                name: values
                if texts is None
                else self._arrow.array(texts, self._arrow.string()).take(values % len(texts))
                for name, (values, texts) in columns.items()
            }
            self._parquet.write_table(self._arrow.table(arrays), to)

        write_whole(path, write)
        return path.name


def convert(source: Path | IO[bytes], to: str, types: Mapping[str, str]) -> None:
    """Write a table of CSV as Parquet, in parts; `name_type` is few texts, null where empty."""
    pyarrow, parquet = import_arrow()
    pyarrow_csv = import_package("pyarrow.csv", "Parquet", "tables")
    name_type = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    column_types = {column: name_type if each == "name" else each for column, each in types.items()}
    null_options: dict[str, object] = {}
    if "name" in types.values():
        null_options = {"null_values": [""], "strings_can_be_null": True}
    options = (
        pyarrow_csv.ReadOptions(block_size=_GROUP_BYTES),
        pyarrow_csv.ParseOptions(newlines_in_values=True),
        pyarrow_csv.ConvertOptions(column_types=column_types, **null_options),
    )
    with (
        pyarrow_csv.open_csv(source, *options) as batches,
        parquet.ParquetWriter(to, batches.schema) as file,
    ):
        for batch in batches:
            file.write_batch(batch)


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    """Return rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _size_before(path: Path, step: int) -> int:
    """Return the bytes of the header and of all whole rows of messages before a step."""
    size = quotes = 0
    with path.open("rb") as lines:
        for line in lines:
            if size and quotes % 2 == 0:  # a row begins here
                number = line.partition(b",")[0]
                if not (line.endswith(b"\n") and number.isdigit() and int(number) < step):
                    break
            size += len(line)
            quotes += line.count(b'"')
    return size


def _attributes(status: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a citizen's profile that a cell can hold."""
    profile = status.get("profile")
    items = profile.items() if isinstance(profile, Mapping) else ()
    return {key: each for key, each in items if isinstance(each, str | int | float)}


def _as_one_type(values: list[object]) -> list[object]:
    """Return the cells of a column as they are if they are of one type, else as texts."""
    kinds = {type(each) for each in values if each is not None}
    if len(kinds) < 2:
        return values
    return [None if each is None else str(each) for each in values]


def _status_cells(status: Mapping[str, Any]) -> dict[str, object]:
    """Return a citizen's values by column."""
    flat = {**status, **status.get("profile", {}), **status.get("needs", {})}
    for name, value in flat.items():
        if isinstance(value, Mapping):
            flat[name] = ";".join(f"{key}:{number}" for key, number in value.items())
    return flat


def _plain_list(values: Any, texts: Sequence[str | None] | None) -> list[object]:
    """Return values as a list, with the texts in place of their numbers."""
    plain: list[Any] = values if isinstance(values, list) else values.tolist()
    return plain if texts is None else [texts[number] for number in plain]


# -- writing files -------------------------------------------------------------------------------


def import_arrow() -> tuple[Any, Any]:
    """Return the packages pyarrow and pyarrow.parquet. Raises MissingExtra without them."""
    parquet = import_package("pyarrow.parquet", "a table of results", "tables")
    return import_package("pyarrow"), parquet


@contextmanager
def writing_errors(path: Path) -> Iterator[None]:
    """Raise FileError if a file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from error


def write_whole(path: Path, write: Callable[[str], object]) -> None:
    """Write a file beside its place, and move it there when it is whole and on the disk."""
    with writing_errors(path), written_whole(path) as temporary:
        write(str(temporary))


def file_name(text: str, suffix: str) -> str:
    """Return a text as the name of a file: another one for another text."""
    name = re.sub(r"[^\w .=-]", lambda match: quote(match[0], safe=""), text)
    if len(name) > 60:  # a file system may allow 255 bytes
        name = f"{name[:50]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name + suffix


def trajectories_path(folder: Path, condition: str, seed: int, values: str) -> Path:
    """Return the file of a cell's trajectories in a folder of results; `values` are JSON."""
    name = file_name(f"{condition}, seed {seed}, {values}", ".parquet")
    return folder / "trajectories" / name
