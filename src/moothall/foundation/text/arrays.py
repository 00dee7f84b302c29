"""Arrays and tables of numpy, pandas, polars and their like as plain Python data."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from moothall.foundation.errors import MissingExtra

_MAX_CELLS: Final = 100_000  # a larger table is a text that leaves most of it out, by its class


def plain_data(value: Any) -> Any:
    """Return an array as lists, a table as a list of dicts; the value itself if it is neither.

    A missing value (NaN, NaT, NA) in it is None. An index of pandas that is not just the rows'
    numbers becomes columns. The value itself comes back if it has over 100,000 cells, too.
    """
    kind = type(value)
    if not (hasattr(kind, "shape") and math.prod(value.shape) <= _MAX_CELLS):
        return value
    if hasattr(kind, "reset_index"):  # pandas
        if type(value.index).__name__ != "RangeIndex":
            value = value.reset_index()
        return _missing_as_none(
            value.to_dict("records") if hasattr(value, "columns") else value.tolist()
        )
    for name in ("to_dicts", "to_pylist", "tolist", "to_list"):  # polars, pyarrow, numpy, polars
        if hasattr(kind, name):
            return _missing_as_none(getattr(value, name)())
    return value


def _missing_as_none(part: Any) -> Any:
    if isinstance(part, list):
        return [_missing_as_none(each) for each in part]
    if isinstance(part, dict):
        return {str(name): _missing_as_none(each) for name, each in part.items()}
    is_missing = type(part).__name__ == "NAType" or (part != part) is True
    return None if is_missing else part


def data_frame(
    feature: str, rows: Sequence[Sequence[Any]], names: Sequence[str], moments: Iterable[str] = ()
) -> Any:
    """Return rows as a data frame of pandas; `moments` are columns of seconds since 1970.

    Raises:
        MissingExtra: pandas is not installed; it names the feature that needs it
    """
    MissingExtra.unless(feature, "pandas", "pandas")
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame(rows, columns=list(names))
    for name in moments:
        frame[name] = pandas.to_datetime(frame[name], unit="s", utc=True)
    return frame
