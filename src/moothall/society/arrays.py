"""Packages of extras, such as numpy, scipy and pyarrow, loaded on first use."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import os
from types import ModuleType
from typing import Any

from moothall.errors import MissingExtra


def package(name: str, what: str = "moothall.society", extra: str = "society") -> Any:
    """Return a package that `what` needs. Raises MissingExtra, which names the extra."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(what, extra) from error


def _of_numpy(name: str) -> Any:
    """Return a name of numpy, and keep it in `np`."""
    value = getattr(package("numpy"), name)
    setattr(np, name, value)
    return value


# A module: attributes of other objects with a `__getattr__` are several times as slow.
np: Any = ModuleType("numpy", "The package numpy; MissingExtra is raised without it.")
np.__getattr__ = _of_numpy


@functools.cache
def tune_malloc() -> None:
    """Have the C library return the memory of large arrays to the system when they are freed.

    glibc returns blocks from 128 KB on. It raises this limit to the size of each freed block, up to
    32 MB, and keeps smaller blocks: with 600,000 citizens a quarter of all memory.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return  # the user has configured the allocator
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 22)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 1 << 26)  # M_TRIM_THRESHOLD; its default is 128 KB


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two whole numbers; elementwise for arrays."""
    return min(a, b) if type(a) is type(b) is int else np.minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two whole numbers; elementwise for arrays."""
    return max(a, b) if type(a) is type(b) is int else np.maximum(a, b)


def sha256_of(array: Any) -> str:
    """Return the hash of an array's values."""
    return hashlib.sha256(array.tobytes()).hexdigest()
