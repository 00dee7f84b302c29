"""numpy, which societies compute with, and packages of other extras, loaded on first use."""

from __future__ import annotations

import hashlib
import importlib
from typing import Any

from moothall.errors import MissingExtra

__all__ = ["larger", "np", "package", "sha256_of", "smaller"]

MissingExtra.unless("moothall.society", "society", "numpy")
import numpy as np  # noqa: E402 - an error names the extra


def package(name: str, what: str = "moothall.society", extra: str = "society") -> Any:
    """Return a package that `what` needs. Raises MissingExtra, which names the extra."""
    MissingExtra.unless(what, extra, name)
    return importlib.import_module(name)


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two whole numbers; elementwise for arrays."""
    return min(a, b) if type(a) is type(b) is int else np.minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two whole numbers; elementwise for arrays."""
    return max(a, b) if type(a) is type(b) is int else np.maximum(a, b)


def sha256_of(array: Any) -> str:
    """Return the hash of an array's values."""
    return hashlib.sha256(array.tobytes()).hexdigest()
