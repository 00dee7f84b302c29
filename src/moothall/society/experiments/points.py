"""An experiment at many points of its parameters: what sensitivity and fitting run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moothall import ConfigError
from moothall.build import nearest
from moothall.society.experiments.design import Design
from moothall.society.experiments.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable

    from moothall.society.experiments.sweep import SweepProgress

Point = dict[str, int | float]
"""Values of parameters, by name."""


class Bounds:
    """The lowest and highest value of a parameter; of two whole numbers, its values are whole."""

    def __init__(self, name: str, bounds: object) -> None:
        if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
            raise ConfigError(f"{name}: must be (low, high), got {bounds!r:.80}")
        are_numbers = all(type(each) in (int, float) and math.isfinite(each) for each in bounds)
        if not are_numbers or not bounds[0] < bounds[1]:
            raise ConfigError(f"{name}: must be two numbers, the lower first, got {bounds!r:.80}")
        self.low: float = bounds[0]
        self.high: float = bounds[1]
        self.is_whole: bool = all(type(each) is int for each in bounds)
        # A whole number is that to which a number is rounded: the ends get as much as others.
        edge = 0.5 if self.is_whole else 0.0
        self.ends: tuple[float, float] = (self.low - edge, self.high + edge)
        """Between which numbers are drawn, each value as often as any other."""

    def value(self, number: float) -> int | float:
        """Return a drawn number as the parameter has it."""
        if not self.is_whole:
            return float(number)
        return min(self.high, max(self.low, math.floor(number + 0.5)))


def checked_condition(design: Design, name: str | None) -> str:
    """Return a condition's name; that of the only one if None."""
    if name is None:
        if len(design.conditions) > 1:
            raise ConfigError(f"say which condition=, one of {', '.join(design.conditions)}")
        return next(iter(design.conditions))
    if name not in design.conditions:
        names = ", ".join(design.conditions)
        near = nearest(name, design.conditions)
        raise ConfigError(f"there is no condition {name!r}{near}; there are: {names}")
    return name


async def run_points(
    design: Any,
    points: Sequence[Point],
    conditions: Sequence[str],
    *,
    jobs: int,
    out: Path | None,
    progress: Callable[[SweepProgress], object] | None = None,
) -> Results:
    """Run conditions of an experiment at points of its parameters, with all its seeds."""
    own_conditions, fixed = design.conditions, {}
    for name, values in design.parameters.items():
        if name not in points[0]:
            if len(values) > 1:
                raise ConfigError(f"{name!r} is swept: give its bounds too, or let it have a value")
            fixed[name] = values[0]
    variants = {
        condition_at(number, name): {
            "parameters": {**own_conditions[name].parameters, **fixed, **point},
            "workflow": own_conditions[name].workflow,
        }
        for number, point in enumerate(points)
        for name in conditions
    }
    fields = {name: getattr(design, name) for name in type(design).model_fields}
    fields |= {"conditions": variants, "parameters": {}, "published": [], "charts": {}}
    fields |= {"maps": False, "trajectories": False}
    variant_design = type(design)(**fields)
    results: Results = await variant_design.run(jobs=jobs, out=out, progress=progress, report=False)
    return results


def condition_at(number: int, name: str) -> str:
    """Return the name of a condition at a point."""
    return f"{number}: {name}"
