"""numpy, which societies compute with, packages of other extras, and rows of CSV files."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from moothall import ConfigError, MissingExtra
from moothall.build import stated_delimiter

__all__ = [
    "Array",
    "ArrayLike",
    "Flag",
    "Number",
    "Numbers",
    "WholeNumber",
    "any_of",
    "chosen_at",
    "csv_rows",
    "import_package",
    "larger",
    "np",
    "sha256_of",
    "smaller",
    "table_suffix",
    "where",
    "within",
]

MissingExtra.unless("moothall.society", "society", "numpy")
import numpy as np  # noqa: E402 - an error names the extra
from numpy.typing import ArrayLike  # noqa: E402

Array: TypeAlias = np.ndarray[Any, Any]
"""Numbers of many: a column, or what rules compute of one."""
WholeNumber: TypeAlias = int | Array
"""A whole number of one citizen, or those of many."""
Flag: TypeAlias = bool | Array
"""Whether something holds of one citizen, or of each of many."""
Number: TypeAlias = float | Array
"""A number of one, or those of many."""


def import_package(name: str, feature: str = "moothall.society", extra: str = "society") -> Any:
    """Return a package that `feature` needs. Raises MissingExtra, which names the extra."""
    MissingExtra.unless(feature, extra, name)
    return importlib.import_module(name)


def smaller(a: WholeNumber, b: WholeNumber) -> Any:
    """Return the smaller of two whole numbers; elementwise for arrays."""
    return min(a, b) if type(a) is type(b) is int else np.minimum(a, b)


def larger(a: WholeNumber, b: WholeNumber) -> Any:
    """Return the larger of two whole numbers; elementwise for arrays."""
    return max(a, b) if type(a) is type(b) is int else np.maximum(a, b)


def within(low: int, number: WholeNumber, high: int) -> WholeNumber:
    """Return a whole number, or `low` or `high` if it is below or above; elementwise for arrays."""
    if type(number) is int:
        return low if number < low else high if number > high else number
    return np.clip(number, low, high)


def where(chosen: Flag, a: ArrayLike, b: ArrayLike) -> Any:
    """Return `a` where something holds, else `b`; elementwise for arrays."""
    return (a if chosen else b) if type(chosen) is bool else np.where(chosen, a, b)


def any_of(chosen: Flag) -> bool:
    """Return whether something holds, or holds anywhere in an array."""
    if type(chosen) is bool:
        return chosen
    return bool(chosen.any() if isinstance(chosen, np.ndarray) else chosen)


def chosen_at(chosen: Flag) -> Array:
    """Return where something holds: positions in an array; 0, or none, of one citizen."""
    if isinstance(chosen, np.ndarray) and chosen.ndim > 0:
        return chosen.nonzero()[0]
    return np.flatnonzero(chosen)


class Numbers:
    """Numbers by index: of one whole number a number, of an array of them an array.

    Where there are several of an index, they are several such numbers, or arrays.
    """

    def __init__(self, numbers: Iterable[object], dtype: str) -> None:
        self._numbers = [*numbers]
        self._dtype = dtype

    @cached_property
    def _array(self) -> Array:
        return np.array(self._numbers, self._dtype)

    def __getitem__(self, at: WholeNumber) -> Any:
        return self._numbers[at] if type(at) is int else self._array.take(at, axis=0).T


def kind_in_words(value: object) -> str:
    """Return what a value is that is no table, for an error; of a data frame, what to do."""
    if not hasattr(value, "to_csv"):
        return f"{value!r:.80}"
    return f"a {type(value).__name__}: write it by to_csv(path, index=False), and give the path"


def sha256_of(array: Array) -> str:
    """Return the hash of an array's values."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def table_suffix(path: str | PathLike[str]) -> str:
    """Return the suffix of a table's file in small letters, such as `.csv`, also of `.csv.gz`."""
    file = Path(path)
    is_packed = file.suffix.lower() == ".gz"
    suffix = Path(file.stem).suffix.lower() if is_packed else file.suffix.lower()
    return "" if is_packed and suffix not in (".csv", ".tsv") else suffix


@contextmanager
def csv_rows(file: Path) -> Iterator[Any]:
    """Open a CSV file as spreadsheets write it: with commas, semicolons or tabs; UTF-8 or UTF-16.

    One that ends in `.gz` is unpacked.

    Spaces divide cells if there is nothing else. Lines before the first row that begin with `# `,
    as SNAP has them, are left out.

    Raises:
        ConfigError: it is in another encoding
    """
    opens: Any = gzip.open if file.suffix.lower() == ".gz" else open
    with opens(file, "rb") as head:
        is_utf16 = head.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        encoding = "utf-16" if is_utf16 else "utf-8-sig"
        with opens(file, "rt", encoding=encoding, newline="") as lines:
            start, first_line = 0, lines.readline(1 << 16)
            while first_line.startswith("# "):
                start, first_line = lines.tell(), lines.readline(1 << 16)
            if not (declared := stated_delimiter(first_line)):
                lines.seek(start)
            hits = {each: first_line.count(each) for each in ",;\t"}
            delimiter = declared or (max(hits, key=hits.__getitem__) if any(hits.values()) else " ")
            yield csv.reader(
                lines, delimiter=delimiter, strict=True, skipinitialspace=delimiter == " "
            )
    except UnicodeDecodeError:
        raise ConfigError(
            f"{file.name} is not in UTF-8: save it so; Excel calls it 'CSV UTF-8'"
        ) from None
