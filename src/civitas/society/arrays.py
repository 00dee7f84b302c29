"""Packages of extras, such as numpy, scipy and pyarrow, loaded when they are first used."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
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


@functools.cache
def give_back() -> None:
    """Have the C library give the memory of large arrays back to the system when they are freed.

    glibc does so from 128 KB on, but raises that to the size of what was freed, up to 32 MB, and
    keeps what is smaller: of 600,000 citizens a quarter of all memory.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return  # somebody has said how memory is kept
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 1 << 22)  # M_MMAP_THRESHOLD
        mallopt(-1, 1 << 26)  # M_TRIM_THRESHOLD, which else falls to 128 KB


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two whole numbers, or of each two of arrays."""
    return min(a, b) if type(a) is type(b) is int else numpy().minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two whole numbers, or of each two of arrays."""
    return max(a, b) if type(a) is type(b) is int else numpy().maximum(a, b)
