"""Marks: how much of a run an object of this process knows, so that it is told nothing twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final
from weakref import WeakKeyDictionary

__all__ = ["Marks"]

_MOST: Final = 10_000
"""Of how many runs an object's marks are kept; those of the oldest are forgotten first."""


class Marks:
    """For objects, such as memories and budgets, how far they are in each run.

    A memory that was told the first five messages of a run, and is told of the run once more, is
    only told those from the sixth on. An object that cannot be a key has no marks.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of: WeakKeyDictionary[Any, OrderedDict[str, int]] = WeakKeyDictionary()

    def get(self, of: Any, run: str) -> int:
        """How far an object is in a run; 0 if nothing is known."""
        with self._guard:
            try:
                return self._of[of].get(run, 0)
            except (KeyError, TypeError):
                return 0

    def set(self, of: Any, run: str, place: int) -> None:
        """Say how far an object is in a run."""
        with self._guard:
            try:
                marks = self._of.get(of)
                if marks is None:
                    marks = self._of[of] = OrderedDict()
            except TypeError:
                return
            marks[run] = place
            marks.move_to_end(run)
            if len(marks) > _MOST:
                marks.popitem(last=False)
