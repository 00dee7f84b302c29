"""What tests of populations share: the same population, run in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from moothall import Society
from moothall.society import Engine, LocalEngine, Population


async def lived(
    population: Population, steps: int, engine: Engine, **options: Any
) -> list[dict[str, Any]]:
    """Live for some steps; gives the columns after each."""
    after = []
    async with Society(population, engine=engine, **options) as society:
        for _ in range(steps):
            await society.step()
            after.append({name: values.copy() for name, values in population.columns.items()})
    return after


def differing(one: Iterable[dict[str, Any]], other: Iterable[dict[str, Any]]) -> list[Any]:
    """In which step which column of which rows differs."""
    return [
        (step, name, np.flatnonzero((a[name] != b[name]).reshape(len(a[name]), -1).any(axis=1))[:5])
        for step, (a, b) in enumerate(zip(one, other, strict=True))
        for name in a
        if not np.array_equal(a[name], b[name])
    ]


def promoted(population: Population) -> Population:
    """Return a population whose citizens are all full agents."""
    for id in population.ids.tolist():
        population.promote(id)
    return population


async def same(make: Callable[[], Population], steps: int, **options: Any) -> None:
    """See that rows, each row alone and full agents come to the same columns after each step."""
    rows = await lived(make(), steps, LocalEngine(), **options)
    assert differing(rows, await lived(make(), steps, LocalEngine(apart=True), **options)) == []
    assert differing(rows, await lived(promoted(make()), steps, LocalEngine(), **options)) == []
