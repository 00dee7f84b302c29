"""The files of an experiment's measurements: a Parquet part for each cell, joined at the end.

A file is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall import ConfigError
from moothall.society.tables import import_arrow, write_whole, writing_errors

ANSWERS_PREFIX: Final = "answers "
"""How the metric of a text begins that has each citizen's answers to the survey of that name."""
BY_RULE: Final = "by rule: "
"""How the totals begin that say how often a rule decided instead of a model, by who asked it."""
TOTALS_KEY: Final = b"moothall totals"
"""The key of the totals in a file."""
_ROWS_PER_GROUP: Final = 1 << 16  # how many rows become one row group


def fallbacks_in_words(totals: Mapping[str, Any]) -> str:
    """Return in brackets how often a rule decided for each block that had asked a model."""
    counts = {k.removeprefix(BY_RULE): v for k, v in totals.items() if k.startswith(BY_RULE)}
    order = sorted(counts, key=lambda block: (-counts[block], block))
    return f" ({', '.join(f'{block} {counts[block]:,}' for block in order)})" if counts else ""


class MeasurementRow(NamedTuple):
    """A measurement: condition and branch, number of steps, metric, and a number or text."""

    condition: str
    step: int
    metric: str
    value: float | None
    text: str | None = None


def _schema() -> Any:
    pa, _ = import_arrow()
    name = pa.dictionary(pa.int32(), pa.string())
    texts = {"experiment": name, "condition": name, "parameters": name}
    numbers = {"seed": pa.uint64(), "step": pa.int64()}
    measurements = {"metric": name, "value": pa.float64(), "text": pa.string()}
    return pa.schema(list((texts | numbers | measurements).items()))


class Measurements:
    """A cell's measurements, with the columns `hashed`; all but the last in a nameless file."""

    def __init__(self, path: Path, **hashed: object) -> None:
        self._path, self._cell_columns = path, hashed
        self._rows: list[MeasurementRow] = []
        with writing_errors(path):
            self._file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        self._writer = import_arrow()[1].ParquetWriter(self._file, _schema())

    def append(self, row: MeasurementRow) -> None:
        """Add a row. Raises FileError."""
        self._rows.append(row)
        if len(self._rows) == _ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        rows = [self._cell_columns | row._asdict() for row in self._rows]
        with writing_errors(self._path):
            self._writer.write_table(import_arrow()[0].Table.from_pylist(rows, schema=_schema()))
        self._rows.clear()

    def write(self, totals: Mapping[str, object]) -> None:
        """Write all rows and the totals to `path`: a whole file or none."""
        self._flush()
        self._writer.add_key_value_metadata({TOTALS_KEY: json.dumps(totals)})
        with writing_errors(self._path):
            self._writer.close()
            self._file.seek(0)
            write_whole(self._path, self._copy)

    def close(self) -> None:
        """Discard what was not written."""
        with contextlib.suppress(OSError), self._file:  # of a full disk, which `append` has told
            self._writer.close()

    def _copy(self, to: str) -> None:
        with open(to, "wb") as file:
            shutil.copyfileobj(self._file, file)


def join_parts(parts: Iterable[Path], path: Path) -> dict[str, Any]:
    """Write one table of all parts, in order; return the sums of their totals."""
    _, parquet = import_arrow()
    sums: dict[str, Any] = {}

    def write(to: str) -> None:
        with parquet.ParquetWriter(to, _schema()) as writer:
            for part in parts:
                try:
                    with parquet.ParquetFile(part) as file:
                        totals = json.loads(file.metadata.metadata[TOTALS_KEY])
                        table = file.read().cast(_schema())
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(f"{part} is damaged ({error}): delete it") from error
                writer.write_table(table)
                for name, value in totals.items():
                    sums[name] = sums[name] + value if name in sums else value
                sums["first_failures"] = sums["first_failures"][:3]
                sums["first_fallback"] = sums.get("first_fallback", [])[:1]
            writer.add_key_value_metadata({TOTALS_KEY: json.dumps(sums)})

    write_whole(path, write)
    return sums
