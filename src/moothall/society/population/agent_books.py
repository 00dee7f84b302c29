"""The full agents of a population in its books: their statuses say what the columns say."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
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
        self._holders: dict[int, str] = {}  # the agents by the identity of their status
        self._agent_cache: tuple[Array, dict[str, int], Array] | None = (
            None  # with the ids they are of
        )
        self._status_columns: Array | None = (
            None  # what their statuses say of money, place and movement
        )

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
        return EveryStatus(society) if has_rows else self.agent_statuses

    def hearing_order(self, rows: Array) -> Array:
        """Return the order in which citizens are heard in this step: positions in `rows`."""
        keys = turn_keys(self.seed, self.population.ids[rows], self.step)
        return np.argsort(keys, kind="stable")

    def enter(self, agent: CitizenAgent) -> None:
        """Add an agent with the money and place of its row or status. ConfigError: it cannot be."""
        population = self.population if self.register.leaving else self.register
        id, status = str(agent.id), agent.memory.status
        holder = self._holders.get(builtins.id(status), "")
        if self.agent_statuses.get(holder) is status:
            raise ConfigError(f"citizen {id!r} has the status of {holder!r}: give each its own")
        row = population.find_row(id)
        if row is not None and row in population.agents:
            status.update(population.settled_status(row))
        elif population.is_given:
            raise ConfigError(
                f"citizen {id!r} is not of the society's population: promote one of it instead"
            )
        else:
            self._check_newcomer(id, status)
            population.coming[id] = agent
            self._count_agent(status, 1)
        self.agent_statuses[id] = status
        self._holders[builtins.id(status)] = id
        self._agent_cache = None

    def enter_again(self, agent: CitizenAgent) -> None:
        """Give the row of an agent the money and place of its status. ConfigError: it cannot be."""
        id, status = str(agent.id), agent.memory.status
        self._check_newcomer(id, status)
        self._count_agent(status, 1)  # without a city, its place gets a number
        self.write_settled(id, status)

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

    def hand_over(self, id: str, status: dict[str, Any]) -> None:
        """Let an agent have another status from now on, completed by what it had."""
        old_status, population = self.agent_statuses[id], self.population
        status.update({**old_status, **status, **population.settled_status(population.row_of(id))})
        self.agent_statuses[id] = status
        del self._holders[builtins.id(old_status)]
        self._holders[builtins.id(status)] = id

    def leave(self, id: str) -> None:
        """Remove an agent, whose citizen remains as a row."""
        if (status := self.agent_statuses.pop(id, None)) is not None:
            del self._holders[builtins.id(status)]
        self._agent_cache = None

    def remove_row(self, id: str) -> None:
        """Remove a citizen, with its money."""
        population = self.register
        if (agent := population.coming.pop(id, None)) is not None:
            self._count_agent(agent.memory.status, -1)
        elif (row := population.find_row(id)) is not None:
            population.leaving.append(row)
            population.agents.pop(row, None)
            if (handle := population.handles.pop(row, None)) is not None:
                handle.memory.status = handle.memory.status.plain()
            self._count_agent(population.settled_status(row), -1)

    @property
    def _agent_rows(self) -> dict[str, int]:
        """The rows of full agents by id, in the order of their statuses."""
        population = self.population
        if self._agent_cache is None or self._agent_cache[0] is not population.ids:
            rows = {id: population.row_of(id) for id in self.agent_statuses}
            self._agent_cache = population.ids, rows, np.array([*rows.values()], np.int64)
            self._status_columns = None
        return self._agent_cache[1]

    def _agent_columns(self, *names: str) -> list[Array]:
        """Return columns of full agents, in the order of their statuses."""
        count = len(self._agent_rows)
        rows = () if self._agent_cache is None else self._agent_cache[2]
        arrays = self.population.arrays
        return [arrays[name][rows] if name in arrays else np.full(count, -1) for name in names]

    def undo_own_changes(self) -> dict[str, str]:
        """Undo agents' own changes of their money or place; return which, by id."""
        if not self.agent_statuses:
            return {}
        undone, money = {}, self._agent_columns("money")[0].tolist()
        entries = zip(self.agent_statuses.items(), money, self.agent_places.values(), strict=True)
        for (id, status), cents, place in entries:
            actual = {"money": cents, "place": place}
            if changed := [key for key in actual if status.get(key, ...) != actual[key]]:
                status.update(actual)
                undone[id] = " and ".join(changed)
        return undone

    @property
    def agent_places(self) -> Mapping[str, str | None]:
        """The place of each full agent."""
        if not self.agent_statuses:
            return {}
        places = self.population.places
        numbers = self._agent_columns("place")[0].tolist()
        pairs = zip(self._agent_rows, numbers, strict=True)
        return {id: None if number < 0 else places[number] for id, number in pairs}

    def update_statuses(self) -> None:
        """Write money, place and movement into full agents' statuses, where they have changed."""
        if not self.agent_statuses:
            return
        columns = np.array(self._agent_columns("money", "place", "moving_to", "arrives", "left"))
        rows = self._agent_rows
        changed = (
            range(len(rows))
            if self._status_columns is None
            else (columns != self._status_columns).any(0).nonzero()[0]
        )
        statuses, ids = [*self.agent_statuses.values()], [*rows]
        for position in changed:
            statuses[position].update(self.population.settled_status(rows[ids[position]]))
        self._status_columns = columns


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
