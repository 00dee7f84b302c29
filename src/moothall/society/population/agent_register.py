"""The citizens of a society that is given agents: rows of money and places, beside statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.blocks.mobility_rows import COLUMNS
from moothall.society.columns.column import MONEY, PLACES, Column
from moothall.society.columns.register import Register
from moothall.society.kernel.care import ADULT_AGE
from moothall.society.kernel.draw import id_words, number_or_text
from moothall.society.kernel.wants import PLACE, TEXT, id_order

_STATUS_COLUMNS: Final = {
    "work": Column(PLACE, None),
    "age": Column(default=ADULT_AGE, key=("profile", "age")),
    "jobless": Column(),
    "skill": Column(key=("profile", "skill")),
    "income": Column(),
    "rents": Column(key=("profile", "rents")),
    "along": Column("bool"),
    "tour": COLUMNS["tour"],
    "item_do": Column("uint8", own=True),
}
"""What rules of the town read of a status."""


class AgentRegister(Register):
    """A register whose rows are all agents, of any id.

    Agents that come or leave are taken in by `renew`, all at once: a society of many comes so.
    """

    only_agents: bool = True

    def __init__(self, city: Any, seed: int, services: Mapping[str, Any]) -> None:
        super().__init__(np.zeros(0, np.uint64), city, (), seed, None)
        self.declared: dict[str, Column] = {**MONEY, **PLACES, **_STATUS_COLUMNS}
        self.arrays: dict[str, Array] = {
            name: each.new_array(0) for name, each in self.declared.items()
        }
        self.services: list[str] = sorted(services, key=id_order)
        self.statuses: dict[str, dict[str, Any]] = {}
        self.is_stale: bool = False
        self._rows: dict[str, int] = {}
        for each in services.values() if city is None else ():
            self.place_number(each.place)

    def leave(self, id: str) -> int | None:
        """Let an agent leave; return the row that it has until the next renewal, if it has one."""
        del self.statuses[id]
        self.is_stale = True
        return self._rows.pop(id, None)

    def renew(self) -> list[str]:
        """Give each agent a row, in order of id; return those that are new."""
        names = sorted(self.statuses, key=id_order)
        old_rows = np.array([self._rows.get(id, -1) for id in names], np.int64)
        staying = np.flatnonzero(old_rows >= 0)
        for name, column in self.declared.items():
            array = column.new_array(len(names))
            array[staying] = self.arrays[name][old_rows[staying]]
            self.arrays[name] = array
        self.names = names
        self.ids: Array = id_words(map(number_or_text, names))
        self.full: Array = np.ones(len(names), bool)
        self.until: int = len(names)
        self._rows = {id: row for row, id in enumerate(names)}
        self.is_stale = False
        return [names[row] for row in np.flatnonzero(old_rows < 0).tolist()]

    def read_homes(self) -> None:
        """Write the age and the home of each into the columns, as statuses say them now."""
        ages, homes = self.arrays["age"], self.arrays["home"]
        for row, id in enumerate(self.names):
            status = self.statuses[id]
            age, home = (status.get("profile") or {}).get("age", ADULT_AGE), status.get("home")
            ages[row] = int(age) if isinstance(age, int | float) else ADULT_AGE
            homes[row] = self.place_numbers.get(home, -1) if isinstance(home, str) else -1

    # -- by id -------------------------------------------------------------------------------------

    def find_row(self, id: str) -> int | None:
        """Return the row of a citizen; None if no citizen has that id."""
        return self._rows.get(id)

    def id_of(self, row: int) -> str:
        """Return the id of a row."""
        return self.names[row]

    def all_ids(self) -> list[str]:
        """Return the ids of all rows, in order."""
        return self.names

    def status_of(self, row: int) -> dict[str, Any]:
        """Return a citizen's status."""
        return self.statuses[self.names[row]]

    @property
    def agents(self) -> Mapping[str, Any]:
        """The statuses of the agents, by id."""
        return self.statuses

    def place_number(self, place: str | None) -> int:
        """Return the number of a place, −1 for None; without a city, each name is a place."""
        if self.city is None and isinstance(place, str) and place not in self.place_numbers:
            self.places = (*self.places, place)
            self.place_numbers = {**self.place_numbers, place: len(self.place_numbers)}
        return super().place_number(place)

    def encode(self, content: str, value: object) -> int:
        """Return the number that stands for a value in wants; a new text is given one."""
        if content == TEXT and isinstance(value, str) and value not in self.word_numbers:
            self.word_numbers[value] = len(self.words)
            self.words.append(value)
        return super().encode(content, value)
