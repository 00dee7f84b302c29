"""An experiment's files: a Parquet part for each cell, joined at the end; whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from civitas.errors import ConfigError, FileError
from civitas.society.arrays import package

_TOTALS: Final = b"civitas totals"


_AT_ONCE: Final = 1 << 16
"""So many rows become one row group."""


class Row(NamedTuple):
    """What was measured: the condition and branch, after how many steps, what, a number or text."""

    condition: str
    step: int
    metric: str
    value: float | None
    text: str | None = None


def arrow() -> tuple[Any, Any]:
    """The packages pyarrow and pyarrow.parquet. Raises MissingExtra without them."""
    parquet = package("pyarrow.parquet", "a table of results", "tables")
    return package("pyarrow"), parquet


def _schema() -> Any:
    pa, _ = arrow()
    name = pa.dictionary(pa.int32(), pa.string())
    texts = {"experiment": name, "condition": name, "parameters": name}
    numbers = {"seed": pa.uint64(), "step": pa.int64()}
    measured = {"metric": name, "value": pa.float64(), "text": pa.string()}
    return pa.schema(list((texts | numbers | measured).items()))


class Rows:
    """Rows that are taken down until all are there: in memory while they are few, then on the disk.

    The file has no name, so nothing is left of a process that is killed.

    Args:
        beside: the file that the rows are for; they wait in its folder
    """

    def __init__(self, beside: Path) -> None:
        self._path = beside
        self._file = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            1 << 22, "w+", encoding="ascii", newline="\n", dir=str(beside.parent)
        )

    def append(self, row: Row) -> None:
        """Take down a row. Raises FileError."""
        with told(self._path):
            self._file.write(json.dumps(row) + "\n")

    def __iter__(self) -> Iterator[Row]:
        self._file.seek(0)
        return (Row(*json.loads(line)) for line in self._file)

    def close(self) -> None:
        """Forget them."""
        with contextlib.suppress(OSError):  # of a full disk, where that was said before
            self._file.close()


def write_part(
    path: Path, same: Mapping[str, Any], rows: Iterable[Row], totals: Mapping[str, Any]
) -> None:
    """Write what one cell has measured, and what is the same in each row: a whole file or none."""
    pa, parquet = arrow()
    schema = _schema().with_metadata({_TOTALS: json.dumps(totals).encode()})

    def write(to: str) -> None:
        left = iter(rows)
        with parquet.ParquetWriter(to, schema) as writer:
            while made := [{**same, **row._asdict()} for row in islice(left, _AT_ONCE)]:
                writer.write_table(pa.Table.from_pylist(made, schema=schema))

    write_whole(path, write)


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


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Raise FileError where a file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from error


def write_whole(path: Path, write: Callable[[str], Any]) -> None:
    """Have a file be written beside its place, and put there when it is whole and on the disk."""
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    with told(path):
        try:
            write(str(beside))
            with beside.open("rb+") as file:
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
