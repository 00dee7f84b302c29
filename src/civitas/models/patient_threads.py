"""Threads of a library's own that do not spin for long while they wait for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["patient_threads"]

_TURNS = "400"


@contextmanager
def patient_threads() -> Iterator[None]:
    """Around the import that loads an OpenMP library, which reads this once, when it is loaded.

    Left alone, its threads spin for milliseconds at every step. On a machine that does anything
    beside, the one that is waited for is then kept off its core: on two busy ones, products of
    matrices in PyTorch took 51 s, against 6 s with this many turns.
    """
    chosen = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if not chosen:
        os.environ["GOMP_SPINCOUNT"] = _TURNS
    try:
        yield
    finally:
        if not chosen:
            os.environ.pop("GOMP_SPINCOUNT", None)
