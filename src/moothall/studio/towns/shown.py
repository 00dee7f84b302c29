"""A society of a program's own that pages watch: how long it runs, and the map it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moothall import Clock, ConfigError
from moothall.build import counted
from moothall.society import DAY_S
from moothall.studio.towns.map import TownMap

if TYPE_CHECKING:
    from moothall import Society
    from moothall.society import Whereabouts

_CELL_SIDE: Final = 20.0
"""The side of a grid's cell on the map; a map is in metres, and a street is 6 of them wide."""
_MAP_SIDE: Final = 1_000.0
"""The longer side of the map of a plane and of a network."""
_MAX_EDGES: Final = 5_000


@dataclass(frozen=True)
class ShownRun:
    """The run of a shown society: its steps, and what is measured after each."""

    model: ClassVar[None] = None  # of citizens without their own: the society knows it

    society: Society
    step_count: int
    step: str | timedelta | int
    steps: int  # the number of the step at which it ends
    metrics: Mapping[str, Callable[[Society], float]]
    by: str | None = None  # what the colours of citizens show

    @classmethod
    def of(
        cls,
        society: Society,
        days: float | None,
        step: str | timedelta | int,
        step_count: int | None,
        metrics: Mapping[str, Callable[[Society], float]] | None,
        by: str | None,
    ) -> ShownRun:
        """Return the run. ConfigError: there is no step, or metrics are no functions by name."""
        seconds = Clock(step=step).step_s
        if step_count is None:
            step_count = round((1 if days is None else days) * DAY_S / seconds)
        if step_count < 1:
            raise ConfigError(f"a society is shown for one step or more, got {step_count}")
        measures = dict(metrics or {})
        for name, metric in measures.items():
            if not callable(metric):
                raise ConfigError(f"metric {name!r} must be a function, got {metric!r:.80}")
        return cls(society, step_count, step, society.number + step_count, measures, by)

    @property
    def task(self) -> str:
        """How many agents live for how many steps, in a line."""
        society = self.society
        agent_count = len(society.ids() if society.rows is None else society.rows)
        return f"{counted(agent_count, 'agent')}, {counted(self.step_count, 'step')} of {self.step}"


def map_of(society: Society) -> TownMap | ModelMap:
    """Return the map of a society: a city's, or that of a model."""
    from moothall.society import City

    return TownMap(society.city) if isinstance(society.city, City) else ModelMap(society)


def whereabouts_of(society: Society) -> Whereabouts:
    """Return where citizens are; without places, a plane or a network they stand in a square."""
    from moothall.society import Whereabouts

    positions = society.positions()
    if positions is not None:
        return positions
    population = society.rows
    ids = society.ids() if population is None else [*map(str, population.ids.tolist())]
    side = math.isqrt(max(0, len(ids) - 1)) + 1
    x: list[float | None] = [float(number % side) for number in range(len(ids))]
    y: list[float | None] = [float(number // side) for number in range(len(ids))]
    no_places: list[str | None] = [None] * len(ids)
    square = Whereabouts(society.number, ids, x, y, no_places, [])
    return square._replace(act=[square.acts.index("other")] * len(ids))


class ModelMap:
    """The bounds of a grid, a plane, a network or a square of citizens, and a network's edges."""

    def __init__(self, society: Society) -> None:
        import numpy as np

        from moothall.society import Grid, Network, Plane

        city, positions = society.city, whereabouts_of(society)
        network = city if isinstance(city, Network) else None
        if city is None and society.rows is not None:
            network = society.rows.network
        self._nodes: list[list[float]] = []
        self._edges: list[tuple[int, int, int]] = []
        origin: Any = np.zeros(2)
        if network is not None:
            nodes = network.drawn()
            origin, size = nodes.min(axis=0), np.maximum(np.ptp(nodes, axis=0), 1e-9)
            starts, neighbours = (each.tolist() for each in network.links)
            edges = (
                (node, neighbour, 0)
                for node in range(len(network))
                for neighbour in neighbours[starts[node] : starts[node + 1]]
                if node < neighbour
            )
            self._edges = [*islice(edges, _MAX_EDGES)]
        elif isinstance(city, Grid | Plane):
            size = np.array([city.width, city.height], float)
        else:
            points = np.array([positions.x, positions.y], float).T
            points = points[~np.isnan(points).any(axis=1)]
            points = points if len(points) else np.zeros((1, 2))
            origin, size = points.min(axis=0), np.ptp(points, axis=0) + 1
        in_cells = isinstance(city, Grid) or (city is None and network is None)
        if in_cells:
            origin = origin - 0.5
        self._scale: float = _CELL_SIDE if in_cells else _MAP_SIDE / float(size.max())
        if network is not None:
            self._nodes = (nodes * self._scale).tolist()
        pairs = [pair for pair in zip(positions.x, positions.y, strict=True) if pair[0] is not None]
        has_single_cells = in_cells and len({*pairs}) == len(pairs)
        self._cell = _CELL_SIDE if has_single_cells else 0.0
        self._spread = 8.0 if isinstance(city, Grid | Network) and not has_single_cells else 0.0
        west, south, wide, tall = (np.concatenate([origin, size]) * self._scale).tolist()
        self.bounds: tuple[float, float, float, float] = (west, south, wide, tall)

    def drawn_positions(self, where: Whereabouts) -> tuple[list[float | None], list[float | None]]:
        """Return x and y of citizens on the map."""
        scale = self._scale
        x, y = (
            [None if each is None else each * scale for each in axis] for axis in (where.x, where.y)
        )
        return x, y

    def data(self) -> dict[str, Any]:
        """Return the map as `TownMap.data` does; `cell`: one citizen fills so much, 0 for a dot."""
        return {
            "bounds": self.bounds,
            "kinds": [],
            "places": [],
            "nodes": self._nodes,
            "roads": self._edges,
            "quarters": [],
            "cell": self._cell,
            "spread": self._spread,
        }
