"""The full agents of a population in its books: their statuses say what the columns say."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.columns.want_table import BY_SERVICE, NO_SERVICE, Table
from moothall.society.kernel.commit import Books, Service, Submission
from moothall.society.kernel.draw import turn_keys
from moothall.society.kernel.wants import TEXT, Answer, Want
from moothall.society.population.agent_register import AgentRegister
from moothall.society.population.population import Population

_RICHEST: Final = 1 << 62


class AgentBooks(Books):
    """The part of `RowBooks` that concerns full agents, all at once; without a population, all."""

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
        self._population: Any = (
            AgentRegister(city, seed, services) if population is None else population
        )
        self.seed: int = self._population.seed
        self.row_services: list[Any] = []  # the services that keep numbers of rows
        self._holders: dict[int, str] = {}  # the agents by the identity of their status
        self._of_agents: tuple[Array, dict[str, int], Array] | None = (
            None  # with the ids they are of
        )
        self._status_columns: Array | None = (
            None  # what their statuses say of money, place and movement
        )

    @property
    def population(self) -> Any:
        """The citizens, with all who have come and left."""
        population = self._population
        if population.only_agents and population.is_stale:
            with rows_renumbered(self.row_services, population):
                come = population.renew()
            for id in come:
                self.write_settled(id, self.statuses[id])
        return population

    def hearing_order(self, rows: Array) -> Array:
        """Return the order in which citizens are heard in this step: positions in `rows`."""
        keys = turn_keys(self.seed, self.population.ids[rows], self.step)
        return np.argsort(keys, kind="stable")

    def enter(self, id: str, status: dict[str, Any]) -> None:
        """Add an agent with the money and place of its row or status. ConfigError: it cannot be."""
        population = self._population
        if population.only_agents:
            other = self._holders.get(builtins.id(status), "")
            if self.statuses.get(other) is status:
                raise ConfigError(f"citizen {id!r} has the status of {other!r}: give each its own")
            self.check_newcomer(id, status)
            population.statuses[id], population.is_stale = status, True
            self._count(status, 1)
            self._holders[builtins.id(status)] = id
        else:
            row = population.find_row(id)
            if row is None or row not in population.agents:
                raise ConfigError(
                    f"citizen {id!r} is not of the society's population: promote one of it instead"
                )
            status.update(population.settled_status(row))
        self.statuses[id] = status
        self._of_agents = None

    def check_newcomer(self, citizen: str, status: dict[str, Any]) -> None:
        """Complete the status of a citizen that comes. Raises ConfigError if it cannot come."""
        money = status.setdefault("money", 0)
        check_integer(f"the money of citizen {citizen!r}, in cents,", money, 0, _RICHEST)
        place, moving = status.get("place"), status.get("moving")
        if place is None and not moving:
            place = status.get("home")
        if place is not None and not self._knows(place):
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
        at = self._population.place_number(place)
        return bool(self.at_place[at] + self.coming_to[at] < self.capacity[at])

    def _knows(self, place: str) -> bool:
        is_known = self.city is None or place in self._population.place_numbers
        return isinstance(place, str) and is_known

    def _count(self, status: Mapping[str, Any], by: int) -> None:
        """Count an agent in, or out, at its place and on its way."""
        ends = ((status["place"], "at_place"), ((status["moving"] or {}).get("to"), "coming_to"))
        for place, name in ends:
            if place is not None:
                number, counts = (
                    self._population.place_number(place),
                    (self.at_place, self.coming_to),
                )
                if number >= len(self.at_place):  # without a city each name is a place
                    more = np.zeros(number + 1 - len(self.at_place), np.int64)
                    self.at_place, self.coming_to = (np.append(each, more) for each in counts)
                getattr(self, name)[number] += by

    def write_settled(self, id: str, status: Mapping[str, Any]) -> None:
        """Write money, place, home and movement of a status into the columns of its citizen."""
        population, moving = self.population, status.get("moving") or {}
        row = population.row_of(id)
        population.put("money", row, status["money"])
        for name, value in (
            ("place", status["place"]),
            ("home", status.get("home")),
            ("moving_to", moving.get("to")),
            ("moving_from", moving.get("from")),
        ):
            place = value if value in population.place_numbers else None  # a home may be anything
            population.put(name, row, population.place_number(place))
        population.put("arrives", row, moving.get("arrives", 0))
        population.put("left", row, moving.get("left", 0))
        population.put("mode", row, population.encoded(TEXT, moving.get("mode")))

    def hand_over(self, id: str, status: dict[str, Any]) -> None:
        """Let an agent have another status from now on, completed by what it had."""
        before, population = self.statuses[id], self.population
        status.update({**before, **status, **population.settled_status(population.row_of(id))})
        self.statuses[id] = status
        if population.only_agents:
            population.statuses[id] = status
            del self._holders[builtins.id(before)]
            self._holders[builtins.id(status)] = id

    def leave(self, id: str) -> None:
        """Remove an agent: with its money, or the citizen remains as a row."""
        status, population = self.statuses.pop(id, None), self._population
        if status is not None and population.only_agents:
            row = population.leave(id)
            self._count(status if row is None else population.settled_status(row), -1)
            del self._holders[builtins.id(status)]
        self._of_agents = None

    @property
    def _agent_rows(self) -> dict[str, int]:
        """The rows of full agents by id, in the order of their statuses."""
        population = self.population
        if self._of_agents is None or self._of_agents[0] is not population.ids:
            rows = {id: population.row_of(id) for id in self.statuses}
            self._of_agents = population.ids, rows, np.array([*rows.values()], np.int64)
            self._status_columns = None
        return self._of_agents[1]

    def _of_full(self, *names: str) -> list[Array]:
        """Return columns of full agents, in the order of their statuses."""
        count = len(self._agent_rows)
        rows = () if self._of_agents is None else self._of_agents[2]
        arrays = self.population.arrays
        return [arrays[name][rows] if name in arrays else np.full(count, -1) for name in names]

    def restore(self) -> dict[str, str]:
        """Undo agents' own changes of their money or place; return which, by id."""
        if not self.statuses:
            return {}
        undone, money = {}, self._of_full("money")[0].tolist()
        each = zip(self.statuses.items(), money, self.where_agents.values(), strict=True)
        for (id, status), cents, place in each:
            right = {"money": cents, "place": place}
            if changed := [key for key in right if status.get(key, ...) != right[key]]:
                status.update(right)
                undone[id] = " and ".join(changed)
        return undone

    @property
    def where_agents(self) -> Mapping[str, str | None]:
        """The place of each full agent."""
        if not self.statuses:
            return {}
        places = self.population.places
        numbers = self._of_full("place")[0].tolist()
        pairs = zip(self._agent_rows, numbers, strict=True)
        return {id: None if at < 0 else places[at] for id, at in pairs}

    def tell_agents(self) -> None:
        """Write money, place and movement into full agents' statuses, where they have changed."""
        if not self.statuses:
            return
        now = np.array(self._of_full("money", "place", "moving_to", "arrives", "left"))
        rows = self._agent_rows
        some = (
            range(len(rows))
            if self._status_columns is None
            else (now != self._status_columns).any(0).nonzero()[0]
        )
        statuses, ids = [*self.statuses.values()], [*rows]
        for at in some:
            statuses[at].update(self.population.settled_status(rows[ids[at]]))
        self._status_columns = now


@contextmanager
def rows_renumbered(services: Iterable[Any], population: object) -> Iterator[None]:
    """Have services keep what they have of each citizen where citizens get other rows."""
    states = [(each, each.state_dict()) for each in services]
    yield
    for service, state in states:
        service.of_population(population)
        vars(service)["_rows_of"] = id(population)
        service.load_state_dict(state)


def answers_of_agents(
    books: AgentBooks, table: Table, single: list[tuple[int, Submission]]
) -> Iterator[tuple[Any, Answer]]:
    """Yield the outcomes of full agents' wants, each sender's in its order."""
    entry: dict[int, int] = {}
    for row, each in single:
        at = entry[row] = entry[row] + 1 if row in entry else table.rows_of(row, row + 1).start
        answer = table.answer(at, each.want, books.population)
        if table.reason[at] in (NO_SERVICE, BY_SERVICE):
            service, words = books.service_for(each.want)
            if service is not None:
                words = books.refusals.get(at) or service.refusal(books, each.sender, each.want)
            answer = replace(answer, reason=words or answer.reason)
        yield each.token, answer
