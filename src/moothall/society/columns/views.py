"""Money and places of a population, by id, read from its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moothall.society.arrays import np
from moothall.society.columns.layers import Layers
from moothall.society.columns.register import Register
from moothall.society.kernel.wants import PLACE, id_order


class Balances(Mapping[str, int]):
    """The money of citizens and services by id; citizens' is their column."""

    def __init__(self, population: Register, services: Mapping[str, int]) -> None:
        ordered = sorted(services, key=id_order)
        self._population = population
        # The services' indices in `cents`: as wants number them.
        self.at: dict[str, int] = {id: at for at, id in enumerate(ordered)}
        self.cents: Any = np.array([services[id] for id in ordered], "int64")

    def __getitem__(self, id: str) -> int:
        if id in self.at:
            return int(self.cents[self.at[id]])
        row = self._population.find_row(id)
        if row is None:
            raise KeyError(id)
        return int(self._population.arrays["money"][row])

    def __setitem__(self, id: str, cents: int) -> None:
        if id in self.at:
            self.cents[self.at[id]] = cents
        else:
            self._population.arrays["money"][self._population.row_of(id)] = cents

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and (id in self.at or self._population.find_row(id) is not None)

    def __iter__(self) -> Iterator[str]:
        yield from self._population.all_ids()
        yield from self.at

    def __len__(self) -> int:
        return len(self._population) + len(self.at)


class Where(Mapping[str, str | None]):
    """The place of each citizen by id, read from the column."""

    def __init__(self, population: Register) -> None:
        self._population = population

    def __getitem__(self, id: str) -> str | None:
        population = self._population
        row = population.find_row(id)
        if row is None:
            raise KeyError(id)
        number = int(population.arrays["place"][row]) if population.places else -1
        place: str | None = population.decoded(PLACE, number)
        return place

    def __iter__(self) -> Iterator[str]:
        return iter(self._population.all_ids())

    def __len__(self) -> int:
        return len(self._population)


class Columns(Mapping[str, Any]):
    """The columns of a population, each fetched on access."""

    def __init__(self, population: Any) -> None:
        self._population = population

    def __getitem__(self, name: str) -> Any:
        if name not in self._population.arrays:
            raise KeyError(name)
        values = self._population.fresh(name).view()
        # A metric that sorts in place must not move what citizens have.
        values.flags.writeable = self._population.society is None
        return values

    @property
    def layers(self) -> Layers:
        """What each place has, by name, read-only."""
        layers: Layers = self._population.layers
        return layers.read_only()

    def __iter__(self) -> Iterator[str]:
        return iter(self._population.arrays)

    def __len__(self) -> int:
        return len(self._population.arrays)

    def __repr__(self) -> str:
        return f"<columns {', '.join(self)}>"
