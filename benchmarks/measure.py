"""Measuring two forms of the same work side by side, and printing what came out.

Other work on the machine slows whatever runs just then, so the forms take turns and only their
ratio is quoted: the median over the rounds of each round's own ratio.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

TARGET = re.compile(r"(?:(?P<most><=)|>=) (?P<bound>\d[\d_.]*(?:e\d+)?)(?: (?P<of>ratio))?")


def significant(number: float) -> float:
    """A number to four significant digits."""
    return float(f"{number:.4g}")


def installed(package: str) -> bool:
    """Whether a peer can be measured beside us."""
    return importlib.util.find_spec(package) is not None


class Figures:
    """Seconds per operation, round by round."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def take(self, work: Callable[[], int]) -> None:
        """Run `work` once; it gives how many operations it did."""
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        operations = work()
        self.wall.append((time.perf_counter() - wall) / operations)
        self.cpu.append((time.process_time() - cpu) / operations)

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    def over(self, other: Figures) -> float:
        """How many times this takes as long as the other, in the middle of the rounds."""
        pairs = zip(self.wall, other.wall, strict=True)
        return statistics.median(mine / its for mine, its in pairs)


def side_by_side(
    works: dict[str, Callable[[], int]], rounds: int, warm: int = 1
) -> dict[str, Figures]:
    """Run the works in turns, `rounds` times each after `warm` rounds that do not count."""
    figures = {name: Figures() for name in works}
    for number in range(rounds + warm):
        if number == warm:
            figures = {name: Figures() for name in works}
        for name, work in works.items():
            figures[name].take(work)
    return figures


def emit(metric: str, variant: str, value: float, unit: str, **more: Any) -> None:
    """Print a figure as one JSON object on a line."""
    row: dict[str, Any] = {"metric": metric, "variant": variant}
    row |= {"value": significant(value), "unit": unit}
    for name, figure in more.items():
        row[name] = significant(figure) if isinstance(figure, float) else figure
    show(row)


def show(row: dict[str, Any]) -> None:
    """Print a row; a target that is not of the one form raises before."""
    misses(row)
    print(json.dumps(row, ensure_ascii=False), flush=True)


def misses(row: dict[str, Any]) -> bool:
    """Whether a row misses its `target`: "<= 100" is of its value, ">= 0.95 ratio" of its ratio.

    A row without a target, or whose target is None, misses none.
    """
    if (target := row.get("target")) is None:
        return False
    parts = TARGET.fullmatch(str(target))
    if parts is None or (of := parts["of"] or "value") not in row:
        form = "'<= 100', or '>= 0.95 ratio' of a row that has one"
        raise ValueError(f"target must be like {form}, got {target!r}")
    figure, bound = row[of], float(parts["bound"])
    return not (figure <= bound if parts["most"] else figure >= bound)
