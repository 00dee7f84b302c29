"""The full agents of a population in its books: who comes, who leaves, where there is room."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.columns.status import Status
from moothall.society.columns.views import EveryStatus
from moothall.society.columns.want_table import NO_SERVICE, SERVICE_REFUSED, Table
from moothall.society.kernel.citizen import CitizenAgent
from moothall.society.kernel.commit import Books, Service, Submission
from moothall.society.kernel.draw import turn_keys
from moothall.society.kernel.wants import TEXT, Answer, Want
from moothall.society.population.changing import renew
from moothall.society.population.population import Population

_MAX_MONEY: Final = 1 << 62


class AgentBooks(Books):
    """The part of `RowBooks` that concerns full agents.

    Those that come or leave get a row, or lose theirs, where somebody asks for the population next,
    all at once: a society of many agents comes so.

    Attributes:
        register: the citizens, without those that have come or left since
    """

    capacity: Array | None = None
    at_place: Array
    coming_to: Array
    settlers: dict[type[Want], Any]
    refusals: dict[int, str]

    def __init__(
        self,
        city: object,
        services: dict[str, Service],
        population: Population | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(city, services)
        self.register: Population = (
            Population.of_agents(city, services, seed) if population is None else population
        )
        self.seed: int = self.register.seed
        self.row_services: list[Any] = []  # the services that keep numbers of rows
        self.holders: dict[int, str] = {}  # the agents that come, by the identity of their status
        self.is_filled: bool = True  # False while the society begins: agents are checked together

    @property
    def population(self) -> Population:
        """The citizens, with all who have come and left."""
        if self.register.coming or self.register.leaving:
            renew(self)
        return self.register

    @property
    def statuses(self) -> Mapping[str, dict[str, Any]]:
        """The statuses of citizens, by id; of a user's `Population` those of full agents."""
        society = self.register.society
        has_rows = society is not None and society.rows_to_take is not None
        return EveryStatus(society) if has_rows else self.population.views

    def hearing_order(self, rows: Array) -> Array:
        """Return the order in which citizens are heard in this step: positions in `rows`."""
        keys = turn_keys(self.seed, self.population.ids[rows], self.step)
        return np.argsort(keys, kind="stable")

    def enter(self, agent: CitizenAgent) -> None:
        """Add an agent with the money and place of its row or status. ConfigError: it cannot be."""
        population = self.population if self.register.leaving else self.register
        id, status = str(agent.id), agent.memory.status
        if population.views.get(id) is status:
            return
        if isinstance(status, Status):
            if getattr(status.register, "society", None) is population.society:
                holder = status.register.id_of(status.row)
                raise ConfigError(f"citizen {id!r} has the status of {holder!r}: give each its own")
            status = agent.memory.status = status.plain()
        if (holder := self.holders.get(builtins.id(status), id)) != id:
            raise ConfigError(f"citizen {id!r} has the status of {holder!r}: give each its own")
        row = population.find_row(id)
        if row is not None and population.agents.get(row) is agent:
            population.take_in(agent, row)
        elif population.is_given:
            raise ConfigError(
                f"citizen {id!r} is not of the society's population: promote one of it instead"
            )
        else:
            self._check_newcomer(id, status)
            if self.is_filled:
                population.kind_of(agent.blocks).check(population.city, id, status)
            population.coming[id], self.holders[builtins.id(status)] = agent, id
            self._count_agent(status, 1)

    def _check_newcomer(self, citizen: str, status: dict[str, Any]) -> None:
        """Complete the status of a citizen that comes. Raises ConfigError if it cannot come."""
        money = status.setdefault("money", 0)
        check_integer(f"the money of citizen {citizen!r}, in cents,", money, 0, _MAX_MONEY)
        place, moving = status.get("place"), status.get("moving")
        if place is None and not moving:
            place = status.get("home")
        if place is not None and not self._is_place(place):
            raise ConfigError(f"citizen {citizen!r} cannot start at {place!r:.80}: no such place")
        if place is not None and moving:
            raise ConfigError(f"citizen {citizen!r} is at {place!r} and on the way: it must be one")
        if place is not None and not self.has_room(place):
            raise ConfigError(
                f"citizen {citizen!r} cannot start at {place!r}, which holds "
                f"{self.city.capacity(place)}: give it another place or home"
            )
        status["place"] = place
        status.setdefault("moving", None)

    def has_room(self, place: str) -> bool:
        """Return whether a place has room for one more."""
        if self.capacity is None:
            return True
        number = self.register.place_number(place)
        return bool(self.at_place[number] + self.coming_to[number] < self.capacity[number])

    def _is_place(self, place: str) -> bool:
        is_known = self.city is None or place in self.register.place_numbers
        return isinstance(place, str) and is_known

    def _count_agent(self, status: Mapping[str, Any], change: int) -> None:
        """Count an agent in, or out, at its place and on its way."""
        places = ((status["place"], "at_place"), ((status["moving"] or {}).get("to"), "coming_to"))
        for place, name in places:
            if place is not None:
                number, counts = (
                    self.register.place_number(place),
                    (self.at_place, self.coming_to),
                )
                if number >= len(self.at_place):  # without a city each name is a place
                    new_places = np.zeros(number + 1 - len(self.at_place), np.int64)
                    self.at_place, self.coming_to = (np.append(each, new_places) for each in counts)
                getattr(self, name)[number] += change

    def write_settled(self, id: str, status: Mapping[str, Any]) -> None:
        """Write money, place, home and movement of a status into the columns of its citizen."""
        population, moving = self.population, status.get("moving") or {}
        row = population.row_of(id)
        population.set_value("money", row, status["money"])
        for name, value in (
            ("place", status["place"]),
            ("home", status.get("home")),
            ("moving_to", moving.get("to")),
            ("moving_from", moving.get("from")),
        ):
            place = value if value in population.place_numbers else None  # a home may be anything
            population.set_value(name, row, population.place_number(place))
        population.set_value("arrives", row, moving.get("arrives", 0))
        population.set_value("left", row, moving.get("left", 0))
        population.set_value("mode", row, population.encode(TEXT, moving.get("mode")))

    def hand_over(self, id: str, agent: CitizenAgent) -> None:
        """Let an agent have the row of another, with what its own status does not say."""
        population = self.population
        row, old_status = population.row_of(id), population.views[id].plain()
        values = {**old_status, **agent.memory.status, **population.settled_status(row)}
        population.kind_of(agent.blocks).check(population.city, id, values)
        population.let_go(row)
        population.take_in(agent, row, values)

    def remove_row(self, id: str) -> None:
        """Remove a citizen, with its money."""
        population = self.register
        if (agent := population.coming.pop(id, None)) is not None:
            self._count_agent(agent.memory.status, -1)
            self.holders.pop(builtins.id(agent.memory.status), None)
        elif (row := population.find_row(id)) is not None:
            population.leaving.append(row)
            if row in population.agents:
                population.let_go(row)
            if (handle := population.handles.pop(row, None)) is not None:
                handle.memory.status = handle.memory.status.plain()
            self._count_agent(population.settled_status(row), -1)


def answers_of_agents(
    books: AgentBooks, table: Table, submissions: list[tuple[int, Submission]]
) -> Iterator[tuple[Any, Answer]]:
    """Yield the outcomes of full agents' wants, each sender's in its order."""
    last: dict[int, int] = {}
    for row, item in submissions:
        entry = last[row] = last[row] + 1 if row in last else table.rows_of(row, row + 1).start
        answer = table.answer(entry, item.want, books.population)
        if table.reason[entry] in (NO_SERVICE, SERVICE_REFUSED):
            service, reason = books.service_for(item.want)
            if service is not None:
                reason = books.refusals.get(entry) or service.refusal(books, item.sender, item.want)
            answer = replace(answer, reason=reason or answer.reason)
        yield item.token, answer
