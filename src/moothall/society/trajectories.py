"""Who was where when: the rows of a table in each step, and the table as it is read again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall.foundation.arguments import check_integer
from moothall.foundation.errors import ConfigError
from moothall.foundation.text import error_text
from moothall.society.arrays import np, package
from moothall.society.positions import present
from moothall.society.steps import Steps

if TYPE_CHECKING:
    from pandas import DataFrame

NAME: Final = "trajectories"
COLUMNS: Final = ("step", "citizen", "place", "to", "act")
TYPES: Final = {"step": "int64", "citizen": "string", **dict.fromkeys(COLUMNS[2:], "name")}
_ROWS: Final = 100_000  # the rows that are made at a time


def rows_of(society: Steps, step: int, arrow: Any = None) -> Iterator[bytes]:
    """Yield CSV of where all citizens are after a step, in id order; `arrow` is far faster."""
    places, ids, place, to, *_, act = present(society)
    names = [*places, None]
    coded = *((np.where(each < 0, len(places), each), names) for each in (place, to)), act
    for at in range(0, len(ids), _ROWS):
        part = slice(at, at + _ROWS)
        some = [(numbers[part], texts) for numbers, texts in coded]
        yield _text(step, ids[part], some, arrow)


def header() -> bytes:
    """Return the first line of the table."""
    return f"{','.join(COLUMNS)}\n".encode()


def _text(step: int, ids: Any, coded: Iterable[tuple[Any, list[str | None]]], arrow: Any) -> bytes:
    if arrow is None:
        made = io.StringIO()
        cells = ([texts[each] for each in numbers.tolist()] for numbers, texts in coded)
        rows = zip([step] * len(ids), ids, *cells, strict=True)
        csv.writer(made, lineterminator="\n").writerows(rows)
        return made.getvalue().encode()
    writer = package("pyarrow.csv", "Parquet", "tables")
    columns = [arrow.array(np.full(len(ids), step)), arrow.array(ids).cast(arrow.string())]
    columns += [arrow.array(texts, arrow.string()).take(n) for n, texts in coded]
    out = io.BytesIO()
    table = arrow.table(columns, names=list(COLUMNS))
    writer.write_csv(table, out, writer.WriteOptions(include_header=False))
    return out.getvalue()


class Trajectories:
    """Who was where when: the table that a run with `trajectories=True` has written.

    A row has the `step`, the `citizen`'s id, its `place` at the end of the step (None on the way
    and without a city), the place that it is on the way `to` (else None), and its `act`.

    Args:
        path: the folder of the run, or the table, `trajectories.parquet` or `trajectories.csv`

    Attributes:
        path: the table

    Raises:
        ConfigError: there is no such table
        MissingExtra: pyarrow is not installed, and it is Parquet
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        given = Path(path)
        files = [given]
        if given.is_dir():
            files = [given / f"{NAME}{suffix}" for suffix in (".parquet", ".csv")]
        found = next((each for each in files if each.is_file()), None)
        if found is None:
            raise ConfigError(f"{given} has no table {NAME}: run with trajectories=True")
        self.path: Path = found
        first = next(iter(self._parts()), None)
        if first is not None and tuple(first) != COLUMNS:
            raise ConfigError(f"{found} is not a table of trajectories: it has {', '.join(first)}")

    def __repr__(self) -> str:
        return f"Trajectories({str(self.path)!r})"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts, by step and then in id order; memory does not grow with them."""
        for part in self._parts():
            yield from (
                dict(zip(part, row, strict=True)) for row in zip(*part.values(), strict=True)
            )

    def of(self, citizen: str | int) -> list[dict[str, Any]]:
        """Return the rows of a citizen, in the order of steps; none if it was not there."""
        return list(self._chosen("citizen", str(citizen)))

    def at(self, step: int) -> dict[str, str | None]:
        """Return where each citizen was at the end of a step: places by the citizens' ids."""
        check_integer("step", step, 0, None)
        return {row["citizen"]: row["place"] for row in self._chosen("step", step)}

    def to_pandas(self) -> DataFrame:
        """Return the whole table as a data frame of pandas. Raises MissingExtra: none is there."""
        pandas = package("pandas", "Trajectories.to_pandas()", "pandas")
        if self.path.suffix == ".parquet":
            made: DataFrame = pandas.read_parquet(self.path)
        else:
            made = pandas.read_csv(self.path, dtype=dict.fromkeys(COLUMNS[1:], "string"))
        return made

    def _chosen(self, name: str, value: Any) -> Iterator[dict[str, Any]]:
        if self.path.suffix == ".parquet":
            parquet = package("pyarrow.parquet", "a table of results", "tables")
            found = parquet.read_table(self.path, filters=[(name, "=", value)])
            yield from found.to_pylist()
        else:
            yield from (row for row in self if row[name] == value)

    def _parts(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the table in parts, each as columns."""
        if self.path.suffix == ".parquet":
            parquet = package("pyarrow.parquet", "a table of results", "tables")
            try:
                with parquet.ParquetFile(self.path) as file:
                    for batch in file.iter_batches(_ROWS):
                        yield batch.to_pydict()
            except (OSError, ValueError) as error:
                raise ConfigError(f"{self.path} cannot be read: {error_text(error)}") from error
            return
        with self.path.open(encoding="utf-8", newline="") as lines:
            rows = csv.reader(lines)
            names = next(rows, [])
            if tuple(names) != COLUMNS:
                yield {name: [] for name in names}  # for the error that tells the columns
                return
            for row in rows:
                whole = [int(row[0]), *(each or None for each in row[1:])]
                yield {name: [each] for name, each in zip(names, whole, strict=True)}
