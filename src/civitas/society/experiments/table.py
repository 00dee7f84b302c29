"""An experiment's files: a Parquet part for each cell, joined at the end; whole or not there."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from civitas.errors import ConfigError, FileError, MissingExtra
from civitas.society.experiments.workflow import Row

_COLUMNS: Final = (
    "experiment",
    "condition",
    "parameters",
    "seed",
    "step",
    "metric",
    "value",
    "text",
)
_TOTALS: Final = b"civitas totals"


def arrow() -> tuple[Any, Any]:
    """The packages pyarrow and pyarrow.parquet. Raises MissingExtra without them."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("a table of results", "tables") from error


def _schema() -> Any:
    pa, _ = arrow()
    name = pa.dictionary(pa.int32(), pa.string())
    types = (name, name, name, pa.uint64(), pa.int64(), name, pa.float64(), pa.string())
    return pa.schema(list(zip(_COLUMNS, types, strict=True)))


def write_part(
    path: Path,
    name: str,
    seed: int,
    values: Mapping[str, Any],
    rows: Iterable[Row],
    totals: Mapping[str, Any],
) -> None:
    """Write what one cell has measured: the whole file or none. Raises FileError."""
    pa, parquet = arrow()
    told = json.dumps(values, sort_keys=True)
    cells = [(name, row.condition, told, seed, *row[1:]) for row in rows]
    table = pa.Table.from_pylist(
        [dict(zip(_COLUMNS, each, strict=True)) for each in cells], schema=_schema()
    ).replace_schema_metadata({_TOTALS: json.dumps(totals).encode()})
    write_whole(path, lambda to: parquet.write_table(table, to))


def join(parts: Iterable[Path], path: Path) -> dict[str, Any]:
    """Write one table of all parts, in their order; gives the sums of their totals."""
    _, parquet = arrow()
    sums: dict[str, Any] = {}

    def write(to: str) -> None:
        with parquet.ParquetWriter(to, _schema()) as writer:
            for part in parts:
                try:
                    table = parquet.read_table(part)
                    totals = json.loads(table.schema.metadata[_TOTALS])
                    table = table.cast(_schema())
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(f"{part} is damaged ({error}): delete it") from error
                writer.write_table(table)
                for name, value in totals.items():
                    sums[name] = sums[name] + value if name in sums else value
                sums["first_failures"] = sums["first_failures"][:3]

    write_whole(path, write)
    return sums


def file_name(text: str, suffix: str) -> str:
    """A text as the name of a file."""
    return re.sub("[^a-zA-Z0-9_.-]", "-", text) + suffix


def write_whole(path: Path, write: Callable[[str], Any]) -> None:
    """Have a file be written beside its place, and put there when it is whole and on the disk."""
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(str(beside))
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
