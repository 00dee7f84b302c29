"""Money and places of a population, by id, read from its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from civitas.society.arrays import numpy
from civitas.society.wants import id_order

if TYPE_CHECKING:
    from civitas.society.population.column import Register


class Purses(MutableMapping[str, int]):
    """The money of services by id; `cents` has it in the order in which wants number services."""

    def __init__(self, given: Mapping[str, int]) -> None:
        np = numpy()
        ordered = sorted(given, key=id_order)
        self.at = {id: at for at, id in enumerate(ordered)}
        self.cents = np.array([given[id] for id in ordered], np.int64)

    def __getitem__(self, id: str) -> int:
        return int(self.cents[self.at[id]])

    def __setitem__(self, id: str, cents: int) -> None:
        self.cents[self.at[id]] = cents

    def __delitem__(self, id: str) -> None:
        raise TypeError("services stay")

    def __iter__(self) -> Iterator[str]:
        return iter(self.at)

    def __len__(self) -> int:
        return len(self.at)


class Balances(Mapping[str, int]):
    """The money of citizens and services by id, read from the column."""

    def __init__(self, population: Register, services: Mapping[str, int]) -> None:
        self._population = population
        self.services = Purses(services)

    def __getitem__(self, id: str) -> int:
        if id in self.services.at:
            return self.services[id]
        row = self._population._row(id)
        if row is None:
            raise KeyError(id)
        return int(self._population.arrays["money"][row])

    def __setitem__(self, id: str, cents: int) -> None:
        if id in self.services.at:
            self.services[id] = cents
        else:
            self._population.arrays["money"][self._population.row_of(id)] = cents

    def __contains__(self, id: object) -> bool:
        return id in self.services.at or self._population._row(str(id)) is not None

    def __iter__(self) -> Iterator[str]:
        yield from map(str, self._population.ids.tolist())
        yield from self.services

    def __len__(self) -> int:
        return len(self._population) + len(self.services)


class Where(Mapping[str, str | None]):
    """The place of each citizen by id, read from the column."""

    def __init__(self, population: Register) -> None:
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


class Columns(Mapping[str, Any]):
    """The columns of a population, each fetched on access."""

    def __init__(self, population: Register) -> None:
        self._population = population

    def __getitem__(self, name: str) -> Any:
        if name not in self._population.arrays:
            raise KeyError(name)
        return self._population.fresh(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._population.arrays)

    def __len__(self) -> int:
        return len(self._population.arrays)

    def __repr__(self) -> str:
        return f"<columns {', '.join(self)}>"
