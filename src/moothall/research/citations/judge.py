"""The learned judge: trees over the features of a sentence and its passage, as tables."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

WEIGHTS: Final = "judge.json"
"""The weights beside this file; `python -m benchmarks.judge` makes them."""


class Judge(NamedTuple):
    """Trees, a start, and from which probability on a sentence is supported, or partly."""

    start: float
    trees: tuple[Any, ...]  # [feature, threshold, low, high], or a number
    supported: float
    partly: float

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability that a sentence with these features is supported."""
        score = self.start
        for tree in self.trees:
            while isinstance(tree, list):
                tree = tree[2] if values[tree[0]] <= tree[1] else tree[3]
            score += tree
        return 1 / (1 + math.exp(-score))


@lru_cache(maxsize=1)
def judge() -> Judge:
    """Return the judge whose weights are in the package."""
    made = json.loads(
        files("moothall.research.citations").joinpath(WEIGHTS).read_text(encoding="ascii")
    )
    return Judge(made["start"], tuple(made["trees"]), made["supported"], made["partly"])
