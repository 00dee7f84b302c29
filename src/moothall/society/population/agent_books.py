"""The full agents of a population in its books: their statuses say what the columns say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moothall import ConfigError
from moothall.society.arrays import np
from moothall.society.columns.want_table import Table
from moothall.society.kernel.commit import Books, Service, Submission
from moothall.society.kernel.wants import WORD, Answer
from moothall.society.population.population import Population


class AgentBooks(Books):
    """The part of `RowBooks` that concerns full agents, all of them at once."""

    def __init__(self, city: Any, services: dict[str, Service], population: Population) -> None:
        super().__init__(city, services)
        self.population = population
        self._of_agents: tuple[Any, dict[str, int], Any] | None = None  # with the ids they are of
        self._status_columns: Any = None  # what their statuses say of money, place and movement

    def enter(self, id: str, status: dict[str, Any]) -> None:
        """Add a full agent; its money and place are those of its row."""
        row = self.population.find_row(id)
        if row is None or row not in self.population.agents:
            raise ConfigError(
                f"citizen {id!r} is not of the society's population: promote one of it instead"
            )
        status.update(self.population.settled_status(row))
        self.statuses[id] = status
        self._of_agents = None

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
        population.put("mode", row, population.encoded(WORD, moving.get("mode")))

    def leave(self, id: str) -> None:
        """Remove a full agent; the citizen remains as a row."""
        self.statuses.pop(id, None)
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

    def _of_full(self, *names: str) -> list[Any]:
        """Return columns of full agents, in the order of their statuses."""
        count = len(self._agent_rows)
        rows = () if self._of_agents is None else self._of_agents[2]
        arrays = self.population.arrays
        return [arrays[name][rows] if name in arrays else np.full(count, -1) for name in names]

    def _settled_parts(self) -> Iterator[dict[str, Any]]:
        settled_parts = zip(
            self._of_full("money")[0].tolist(), self.where_agents.values(), strict=True
        )
        return ({"money": money, "place": place} for money, place in settled_parts)

    @property
    def where_agents(self) -> Mapping[str, str | None]:
        """The place of each full agent."""
        places = (*self.population.places, None)  # the last: −1
        numbers = self._of_full("place")[0].tolist()
        pairs = zip(self._agent_rows, numbers, strict=True)
        return {id: None if at < 0 else places[at] for id, at in pairs}

    def tell_agents(self) -> None:
        """Write money, place and movement into full agents' statuses, where they have changed."""
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


def answers_of_agents(
    table: Table, single: list[tuple[int, Submission]], population: Population
) -> Iterator[tuple[Any, Answer]]:
    """Yield the outcomes of full agents' wants, each sender's in its order."""
    entry: dict[int, int] = {}
    for row, each in single:
        at = entry[row] = entry[row] + 1 if row in entry else table.rows_of(row, row + 1).start
        yield each.token, table.answer(at, each.want, population)
