"""numpy and scipy, which are in the extra `society`, loaded when they are first used."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from civitas.errors import MissingExtra


@functools.cache
def numpy() -> Any:
    """Return the package numpy. Raises MissingExtra without it."""
    return _load("numpy")


@functools.cache
def csgraph() -> Any:
    """Return the package scipy.sparse.csgraph. Raises MissingExtra without it."""
    return _load("scipy.sparse.csgraph")


@functools.cache
def sparse() -> Any:
    """Return the package scipy.sparse. Raises MissingExtra without it."""
    return _load("scipy.sparse")


def tree(points: Any) -> Any:
    """Return scipy's k-d tree of points. Raises MissingExtra without it."""
    return _load("scipy.spatial").cKDTree(points)


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two whole numbers, or of each two of arrays."""
    return min(a, b) if type(a) is type(b) is int else numpy().minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two whole numbers, or of each two of arrays."""
    return max(a, b) if type(a) is type(b) is int else numpy().maximum(a, b)


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra("civitas.society", "society") from error
