"""Threads of a library's own that do not spin for long while they wait for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def patient_threads(turns: int) -> Iterator[None]:
    """Around the import that loads an OpenMP library, which reads this once, when it is loaded.

    Left alone, its threads spin for milliseconds at every step. On a machine that does anything
    beside, the one that is waited for is then kept off its core. Threads that sleep at once have to
    be woken, which on a virtual machine may take as long as the step.
    """
    chosen = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if not chosen:
        os.environ["GOMP_SPINCOUNT"] = str(turns)
    try:
        yield
    finally:
        if not chosen:
            os.environ.pop("GOMP_SPINCOUNT", None)
