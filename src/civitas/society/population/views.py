"""Money and places of a population, by id, read from its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from civitas.society.population.population import Population


class Balances(Mapping[str, int]):
    """The money of each, by id; read from the column."""

    def __init__(self, population: Population, services: dict[str, int]) -> None:
        self._population = population
        self.services = services

    def __getitem__(self, id: str) -> int:
        found = self.services.get(id)
        if found is not None:
            return found
        row = self._population._row(id)
        if row is None:
            raise KeyError(id)
        return int(self._population.arrays["money"][row])

    def __setitem__(self, id: str, cents: int) -> None:
        if id in self.services:
            self.services[id] = cents
        else:
            self._population.arrays["money"][self._population.row_of(id)] = cents

    def __contains__(self, id: object) -> bool:
        return id in self.services or self._population._row(str(id)) is not None

    def __iter__(self) -> Iterator[str]:
        yield from map(str, self._population.ids.tolist())
        yield from self.services

    def __len__(self) -> int:
        return len(self._population) + len(self.services)


class Where(Mapping[str, str | None]):
    """The place of each citizen, by id; read from the column."""

    def __init__(self, population: Population) -> None:
        self._population = population

    def __getitem__(self, id: str) -> str | None:
        row = self._population._row(id)
        if row is None:
            raise KeyError(id)
        if not self._population.places:
            return None
        number = int(self._population.arrays["place"][row])
        return None if number < 0 else self._population.places[number]

    def __iter__(self) -> Iterator[str]:
        return map(str, self._population.ids.tolist())

    def __len__(self) -> int:
        return len(self._population)
