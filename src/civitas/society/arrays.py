"""Packages of extras, such as numpy, scipy and pyarrow, loaded when they are first used."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from civitas.errors import MissingExtra


def package(name: str, what: str = "civitas.society", extra: str = "society") -> Any:
    """Return a package that `what` needs. Raises MissingExtra, which names the extra, without."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(what, extra) from error


@functools.cache
def numpy() -> Any:
    """Return the package numpy. Raises MissingExtra without it."""
    return package("numpy")


@functools.cache
def csgraph() -> Any:
    """Return the package scipy.sparse.csgraph. Raises MissingExtra without it."""
    return package("scipy.sparse.csgraph")


@functools.cache
def sparse() -> Any:
    """Return the package scipy.sparse. Raises MissingExtra without it."""
    return package("scipy.sparse")


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two whole numbers, or of each two of arrays."""
    return min(a, b) if type(a) is type(b) is int else numpy().minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two whole numbers, or of each two of arrays."""
    return max(a, b) if type(a) is type(b) is int else numpy().maximum(a, b)
