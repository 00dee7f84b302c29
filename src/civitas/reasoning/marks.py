"""Marks: how much of a run an object of this process knows, so that it is told nothing twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import Any, Final
from weakref import ref

__all__ = ["Marks"]

_MOST: Final = 10_000
"""Of how many runs an object's marks are kept; those of the oldest are forgotten first."""


class Marks:
    """For objects, such as memories and budgets, how far they are in each run.

    A memory that was told the first five messages of a run, and is told of the run once more, is
    only told those from the sixth on. An object is itself alone, whatever it says it equals; one
    that cannot be referred to weakly has no marks.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of: dict[int, tuple[ref[Any], OrderedDict[str, int]]] = {}

    def get(self, of: Any, run: str) -> int:
        """How far an object is in a run; 0 if nothing is known."""
        with self._guard:
            marks = self._marks(of)
            return 0 if marks is None else marks.get(run, 0)

    def set(self, of: Any, run: str, place: int) -> None:
        """Say how far an object is in a run."""
        with self._guard:
            marks = self._marks(of)
            if marks is None:
                marks = OrderedDict()
                try:
                    self._of[id(of)] = (ref(of, partial(_forget, self._of, id(of))), marks)
                except TypeError:
                    return
            marks[run] = place
            marks.move_to_end(run)
            if len(marks) > _MOST:
                marks.popitem(last=False)

    def _marks(self, of: Any) -> OrderedDict[str, int] | None:
        known = self._of.get(id(of))
        return None if known is None or known[0]() is not of else known[1]


def _forget(of: dict[int, tuple[ref[Any], Any]], number: int, gone: ref[Any]) -> None:
    # Without the guard, which whoever is interrupted by the collector may hold.
    known = of.get(number)
    if known is not None and known[0] is gone:
        of.pop(number, None)
