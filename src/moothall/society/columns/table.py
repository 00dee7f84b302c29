"""Populations from tables and as tables: dicts of arrays, pyarrow Tables, Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError
from moothall.build import error_text
from moothall.society.arrays import Array, import_package, kind_in_words, np
from moothall.society.columns.column import PLACES, Column
from moothall.society.columns.register import Register
from moothall.society.kernel.wants import PLACE, TEXT

_EXTRA_ARGS: Final = ("tables of a population", "tables")


def columns_of(source: object) -> tuple[Any, dict[str, Any]]:
    """Return the ids and the columns of a table. Raises ConfigError: they are wrong."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        if path.suffix.lower() != ".parquet":
            raise ConfigError(f"{path.name}: a population's table must be .parquet, .csv or .tsv")
        try:
            source = import_package("pyarrow.parquet", *_EXTRA_ARGS).read_table(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path.name} cannot be read: {error_text(error)}") from None
    if hasattr(source, "column_names") and hasattr(source, "column"):
        source = {name: _arrow_array(name, source.column(name)) for name in source.column_names}
    if not isinstance(source, Mapping) or not source:
        raise ConfigError(
            "citizens must be how many there are, people such as make_people(…) returns, a dict of "
            "arrays, a pyarrow Table, or the path of a Parquet, CSV or TSV file, got "
            f"{kind_in_words(source)}"
        )
    table = {str(name): np.asarray(values) for name, values in source.items()}
    lengths = {name: len(values) if values.ndim else -1 for name, values in table.items()}
    count = next(iter(lengths.values()))
    for name, length in lengths.items():
        if count < 1:
            raise ConfigError(f"column {name!r} must have an entry for each citizen, and has none")
        if length != count:
            raise ConfigError(f"column {name!r} has {length} entries, another {count}")
    ids = table.pop("id", np.arange(1, count + 1))
    if ids.dtype.kind not in "iu" or int(ids.min()) < 0:
        raise ConfigError("column 'id' must be whole numbers from 0 up")
    order = np.argsort(ids, kind="stable")
    ids = ids[order].astype(np.uint64)
    if (ids[1:] == ids[:-1]).any():
        repeated_id = int(ids[1:][ids[1:] == ids[:-1]][0])
        raise ConfigError(f"id {repeated_id} appears twice")
    return ids, {name: values[order] for name, values in table.items()}


def _arrow_array(name: str, column: Any) -> Any:
    """Return a column of a pyarrow Table; lists, as `arrow_of` makes them, as one array."""
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):
        column = column.cast(column.type.value_type)  # `to_numpy` gives empty cells another's value
    values = column.to_numpy()
    if not len(values) or not isinstance(values[0], np.ndarray):
        return values
    try:
        return np.stack(values)
    except (TypeError, ValueError):
        raise ConfigError(f"column {name!r} must have lists of one length") from None


def fill_from_table(population: Register, table: dict[str, Any]) -> None:
    """Copy the columns of a table into a population, also those that no block declares."""
    for name, values in table.items():
        column = population.declared.get(name)
        if column is None:
            population.declared[name], population.arrays[name] = extra_column(name, values)
            continue
        array = population.arrays[name]
        if values.dtype.kind in "OUT" and column is PLACES["mode"]:
            values = np.array([population.encode(TEXT, each) for each in values.tolist()])
        elif values.dtype.kind in "OUT" and (column.dtype == PLACE or column.words):
            place_number = population.place_number
            numbers = [column.number_of(name, each, place_number) for each in values.tolist()]
            values = np.array(numbers, array.dtype)
        if values.shape != array.shape:
            raise ConfigError(
                f"column {name!r} must have the shape {array.shape}, got {values.shape}"
            )
        kind, is_integer = values.dtype.kind, array.dtype.kind != "f"
        if kind not in "biuf" or (is_integer and kind == "f" and (values % 1 != 0).any()):
            hint = " with fractions" if kind == "f" else ""
            if kind == "f" and np.isnan(values).any():
                hint = " with empty cells, which completed(read_people(…), city) draws"
            raise ConfigError(f"column {name!r} must be {array.dtype}, got {values.dtype}{hint}")
        with np.errstate(over="ignore", invalid="ignore"):
            array[...] = values
        if kind == "f" and not np.isfinite(array).all():
            raise ConfigError(f"column {name!r} must be finite numbers of {array.dtype}")
        if is_integer and (array != values).any():
            raise ConfigError(f"column {name!r} has values that are not of {array.dtype}")
        texts = population.texts_of(name)
        low = -(not column.words)  # −1 is None
        if texts and ((array < low) | (array >= len(texts) + low)).any():
            high = len(texts) + low - 1
            raise ConfigError(f"column {name!r} must be texts, or numbers from {low} to {high}")
    if (population.arrays["money"] < 0).any():
        raise ConfigError("column 'money' must be whole numbers of cents, 0 or more")


def extra_column(name: str, values: Array) -> tuple[Column, Any]:
    """Return the column of one's own numbers, or of texts, as their numbers among all of them."""
    if values.dtype.kind in "biuf":
        return Column(str(values.dtype)), values.copy()
    texts = [None if each is None or each != each else each for each in values.tolist()]
    words = {each for each in texts if each is not None}
    if values.ndim != 1 or not all(isinstance(each, str) for each in words):
        raise ConfigError(f"column {name!r} must be of numbers or of texts, got {values.dtype}")
    numbers = {word: number for number, word in enumerate((None, *sorted(words)))}
    return Column("int32", words=(*numbers,)), np.array([numbers[each] for each in texts], np.int32)


def arrow_of(population: Register, columns: Mapping[str, Any]) -> Any:
    """Return columns of a population as a pyarrow Table, `id` first."""
    arrow = import_package("pyarrow", *_EXTRA_ARGS)
    arrays = {"id": population.ids}
    for name, values in columns.items():
        texts = population.texts_of(name)
        if texts and values.ndim == 1:
            arrays[name] = arrow.array(texts, arrow.string()).take(arrow.array(values % len(texts)))
        elif values.ndim == 2:
            flat = arrow.array(values.reshape(-1))
            arrays[name] = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
        else:
            arrays[name] = values
    return arrow.table(arrays)
