"""Who was where when: the rows of a table in each step, and the table as it is read again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError
from moothall.build import check_integer, error_text
from moothall.society.arrays import Array, import_package, np
from moothall.society.kernel.intervention import checked_list
from moothall.society.map_positions import places_and_acts
from moothall.society.society_step import Steps

if TYPE_CHECKING:
    from pandas import DataFrame

TABLE: Final = "trajectories"
COLUMNS: Final = ("step", "citizen", "place", "to", "act")
TYPES: Final = {"step": "int64", "citizen": "string", **dict.fromkeys(COLUMNS[2:], "name")}
_MAX_ROWS: Final = 100_000  # the rows that are made at a time


def csv_rows(
    society: Steps, step: int, arrow: object = None, values: Sequence[str] = ()
) -> Iterator[bytes]:
    """Yield CSV of where all citizens are after a step, and of values of theirs, in id order.

    `arrow` is far faster. A value is a column, or stands in the status at a path: `needs.hunger`.
    """
    places, ids, place, to, *_, act = places_and_acts(society)
    names = [*places, None]
    columns: list[tuple[Array, list[str | None] | None]] = [
        (np.where(each < 0, len(places), each), names) for each in (place, to)
    ]
    columns += [act, *(_value_column(society, each) for each in values)]
    for start in range(0, len(ids), _MAX_ROWS):
        part = slice(start, start + _MAX_ROWS)
        parts = [(numbers[part], texts) for numbers, texts in columns]
        yield _rows_as_csv(step, ids[part], parts, arrow, values)


def header(values: Sequence[str] = ()) -> bytes:
    """Return the first line of the table."""
    return f"{','.join((*COLUMNS, *values))}\n".encode()


def check_values(society: Steps, values: object) -> tuple[str, ...]:
    """Return which values of citizens a table is to have. Raises ConfigError: none has one."""
    names = () if isinstance(values, bool) else checked_list(values, "trajectories")
    population = society.rows
    for name in names:
        if not isinstance(name, str) or name in COLUMNS or "," in name:
            raise ConfigError(f"trajectories must be True, or names of values, got {name!r:.80}")
        if population is not None and getattr(population.columns.get(name), "ndim", 0) != 1:
            raise ConfigError(f"trajectories: citizens have no column {name!r} of one value")
    return tuple(names)


def types_of(society: Steps, values: Sequence[str]) -> dict[str, str]:
    """Return the types of the table's columns, as `tables.convert` takes them."""
    kinds = ("float64" if _value_column(society, each)[1] is None else "name" for each in values)
    return TYPES | dict(zip(values, kinds, strict=True))


def _value_column(society: Steps, path: str) -> tuple[Array, list[str | None] | None]:
    """Return a value of each citizen: numbers, NaN for none; or numbers of texts, and these."""
    if (population := society.rows) is not None:
        texts, values = population.texts_of(path), population.columns[path]
        return (values + 0.0, None) if texts is None else (values % len(texts), [*texts])
    cells = []
    for mailbox in society.citizen_mailboxes:
        value = mailbox.agent.memory.status
        for each in path.split("."):
            value = value.get(each) if isinstance(value, dict) else None
        cells.append(value)
    if all(value is None or isinstance(value, int | float) for value in cells):
        return np.array([np.nan if value is None else float(value) for value in cells]), None
    labels = [value if value is None else str(value) for value in cells]
    distinct = list(dict.fromkeys(labels))
    return np.array([distinct.index(each) for each in labels], np.int64), distinct


def _rows_as_csv(
    step: int,
    ids: Array,
    coded: Iterable[tuple[Array, list[str | None] | None]],
    arrow: Any,
    values: Sequence[str],
) -> bytes:
    """Return rows as CSV; `coded` has each column's numbers, and the texts that these number."""
    if arrow is None:
        buffer = io.StringIO()
        cells = (
            [None if each != each else each for each in numbers.tolist()]
            if texts is None
            else [texts[each] for each in numbers.tolist()]
            for numbers, texts in coded
        )
        rows = zip([step] * len(ids), ids, *cells, strict=True)
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        return buffer.getvalue().encode()
    writer = import_package("pyarrow.csv", "Parquet", "tables")
    columns = [arrow.array(np.full(len(ids), step)), arrow.array(ids).cast(arrow.string())]
    columns += [
        arrow.array(n, from_pandas=True)
        if texts is None
        else arrow.array(texts, arrow.string()).take(arrow.array(n))
        for n, texts in coded
    ]
    out = io.BytesIO()
    table = arrow.table(columns, names=[*COLUMNS, *values])
    writer.write_csv(table, out, writer.WriteOptions(include_header=False))
    return out.getvalue()


class Trajectories:
    """Who was where when: the table that a run with `trajectories=True` has written.

    A row has the `step`, the `citizen`'s id, its `place` at the end of the step (None on the way
    and without a city), the place that it is on the way `to` (else None), its `act`, and the values
    that the run was asked for, `trajectories=["wealth"]`, None for none.

    Args:
        path: the folder of the run, or the table, `trajectories.parquet` or `trajectories.csv`

    Attributes:
        path: the table

    Raises:
        ConfigError: there is no such table
        MissingExtra: pyarrow is not installed, and it is Parquet
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        source = Path(path)
        files = [source]
        if source.is_dir():
            files = [source / f"{TABLE}{suffix}" for suffix in (".parquet", ".csv")]
        file = next((each for each in files if each.is_file()), None)
        if file is None:
            raise ConfigError(f"{source} has no table {TABLE}: run with trajectories=True")
        self.path: Path = file
        first = next(iter(self._column_parts()), None)
        if first is not None and tuple(first)[: len(COLUMNS)] != COLUMNS:
            raise ConfigError(f"{file} is not a table of trajectories: it has {', '.join(first)}")

    def __repr__(self) -> str:
        return f"Trajectories({str(self.path)!r})"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts, by step and then in id order; memory does not grow with them."""
        for part in self._column_parts():
            yield from (
                dict(zip(part, row, strict=True)) for row in zip(*part.values(), strict=True)
            )

    def of(self, citizen: str | int) -> list[dict[str, Any]]:
        """Return the rows of a citizen, in the order of steps; none if it was not there."""
        return list(self._matching_rows("citizen", str(citizen)))

    def at(self, step: int) -> dict[str, str | None]:
        """Return where each citizen was at the end of a step: places by the citizens' ids."""
        check_integer("step", step, 0, None)
        return {row["citizen"]: row["place"] for row in self._matching_rows("step", step)}

    def to_pandas(self) -> DataFrame:
        """Return the whole table as a data frame of pandas. Raises MissingExtra: none is there."""
        pandas = import_package("pandas", "Trajectories.to_pandas()", "pandas")
        if self.path.suffix == ".parquet":
            frame: DataFrame = pandas.read_parquet(self.path)
        else:
            frame = pandas.read_csv(self.path, dtype=dict.fromkeys(COLUMNS[1:], "string"))
        return frame

    def _matching_rows(self, name: str, value: object) -> Iterator[dict[str, Any]]:
        if self.path.suffix == ".parquet":
            parquet = import_package("pyarrow.parquet", "a table of results", "tables")
            table = parquet.read_table(self.path, filters=[(name, "=", value)])
            yield from table.to_pylist()
        else:
            yield from (row for row in self if row[name] == value)

    def _column_parts(self) -> Iterator[dict[str, list[object]]]:
        """Yield the table in parts, each as columns."""
        if self.path.suffix == ".parquet":
            parquet = import_package("pyarrow.parquet", "a table of results", "tables")
            try:
                with parquet.ParquetFile(self.path) as file:
                    for batch in file.iter_batches(_MAX_ROWS):
                        yield batch.to_pydict()
            except (OSError, ValueError) as error:
                raise ConfigError(f"{self.path} cannot be read: {error_text(error)}") from error
            return
        with self.path.open(encoding="utf-8", newline="") as lines:
            # Where a run was killed, the last row may be cut.
            rows = csv.reader(line for line in lines if line.endswith("\n"))
            names = next(rows, [])
            if tuple(names)[: len(COLUMNS)] != COLUMNS:
                yield {name: [] for name in names}  # for the error that tells the columns
                return
            for row in rows:
                value_cells = (_cell_value(each) for each in row[len(COLUMNS) :])
                cells = [
                    int(row[0]),
                    *(each or None for each in row[1 : len(COLUMNS)]),
                    *value_cells,
                ]
                yield {name: [each] for name, each in zip(names, cells, strict=True)}


def _cell_value(cell: str) -> float | str | None:
    """Return the number or the text of a cell; None of an empty one."""
    try:
        return float(cell) if cell else None
    except ValueError:
        return cell
