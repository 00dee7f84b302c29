"""Money and places of a population, by id, read from its columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.columns.layers import Layers
from moothall.society.kernel.wants import PLACE, id_order

_FEW_AGENTS: Final = 100
"""Where not even one in so many is a full agent, one that asks who is at a place looks for them."""


class Balances(Mapping[str, int]):
    """The money of citizens and services by id; citizens' is their column."""

    def __init__(self, books: Any, services: Mapping[str, int]) -> None:
        ordered = sorted(services, key=id_order)
        self._books = books
        # The services' indices in `cents`: as wants number them.
        self.index: dict[str, int] = {id: index for index, id in enumerate(ordered)}
        self.cents: Array = np.array([services[id] for id in ordered], "int64")

    def purse(self, id: object) -> tuple[Array, int] | None:
        """Return the array and the index of somebody's money; None for nobody."""
        if not isinstance(id, str):
            return None
        if (index := self.index.get(id)) is not None:
            return self.cents, index
        population = self._books.population
        row = population.find_row(id)
        return None if row is None else (population.arrays["money"], row)

    def __getitem__(self, id: str) -> int:
        purse = self.purse(id)
        if purse is None:
            raise KeyError(id)
        return int(purse[0][purse[1]])

    def __setitem__(self, id: str, cents: int) -> None:
        purse = self.purse(id)
        if purse is None:
            raise ConfigError(f"there is no {id!r:.80} who could have money")
        purse[0][purse[1]] = cents

    def __contains__(self, id: object) -> bool:
        return self.purse(id) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self._books.population.all_ids()
        yield from self.index

    def __len__(self) -> int:
        return len(self._books.population) + len(self.index)


class Where(Mapping[str, str | None]):
    """The place of each citizen by id, read from the column."""

    def __init__(self, books: Any) -> None:
        self._books = books

    def __getitem__(self, id: str) -> str | None:
        population = self._books.population
        row = population.find_row(id)
        if row is None:
            raise KeyError(id)
        number = int(population.arrays["place"][row]) if population.places else -1
        place: str | None = population.decode(PLACE, number)
        return place

    def __iter__(self) -> Iterator[str]:
        return iter(self._books.population.all_ids())

    def __len__(self) -> int:
        return len(self._books.population)


class EveryStatus(Mapping[str, dict[str, Any]]):
    """The statuses of the citizens of a society in columns, by id: of rows, views."""

    def __init__(self, society: Any) -> None:
        self._society = society

    def __getitem__(self, id: str) -> dict[str, Any]:
        row = self._society.population.find_row(id)
        if row is None:
            raise KeyError(id)
        status: dict[str, Any] = self._society.agent_of_row(row).memory.status
        return status

    def __iter__(self) -> Iterator[str]:
        return iter(self._society.population.all_ids())

    def __len__(self) -> int:
        return len(self._society.population)


class RowsHere(dict[str, Sequence[str]]):
    """The citizens at each place, by place id, looked up on demand."""

    def __init__(self, population: Any) -> None:
        super().__init__()
        self._population = population
        self._ids: dict[int, list[str]] = defaultdict(list)

    def get(self, place: str, default: object = ()) -> Any:
        """Return the ids of those at a place."""
        population = self._population
        if not population.places:
            return default
        place_number = population.place_number(place)
        if len(population.agents) * _FEW_AGENTS < len(population):
            rows = np.flatnonzero(population.arrays["place"] == place_number)
            return [population.id_of(int(row)) for row in rows]
        if not self._ids:  # many ask
            places = population.arrays["place"].tolist()
            for id, number in zip(population.all_ids(), places, strict=True):
                self._ids[number].append(id)
        return self._ids.get(place_number, default)


class Columns(Mapping[str, Array]):
    """The columns of a population, each fetched on access."""

    def __init__(self, population: Any) -> None:
        self._population = population

    def __getitem__(self, name: str) -> Array:
        if name not in self._population.arrays:
            raise KeyError(name)
        values: Array = self._population.pull_column(name).view()
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
