"""Relations, interests and opinions of a population as columns, and what is said of topics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import ConfigError
from civitas.society.arrays import numpy
from civitas.society.population.column import Column
from civitas.society.population.wants import WHO, number_of

if TYPE_CHECKING:
    from civitas.society.population.population import Population
    from civitas.society.population.rows import Rows

TOPICS: Final = ("art", "food", "music", "nature", "politics", "sport", "technology", "travel")
"""What people talk about."""
NO_OPINION: Final = -32768
_FEW: Final = 16
"""So many relations of one citizen lie side by side, which is faster; more, slot by slot."""


@functools.cache
def topic_columns(topics: int) -> dict[str, Column]:
    """The columns of opinions and interests, of so many topics.

    opinions: of each topic, `NO_OPINION` for none
    interest_topic: the numbers of the topics of interest, in the order of the profile; −1 for none
    interest: how much each of these interests
    """
    return {
        "opinions": Column("int16", NO_OPINION, width=topics, own=True),
        "interest_topic": Column("int8", -1, width=topics, own=True),
        "interest": Column("int16", width=topics, own=True),
    }


@functools.cache
def friend_columns(friends: int) -> dict[str, Column]:
    """The columns of relations: with whom, and how close; in the order in which they came.

    friends: 1 more than the friend's row; 0 for none; below 0 an agent that is no citizen
    friendship: 0 … 1000
    """
    slots = friends > _FEW
    return {
        "friends": Column("int32", width=friends, own=True, slots=slots),
        "friendship": Column("int16", width=friends, own=True, slots=slots),
    }


def topics_to_status(
    population: Population, row: int, status: dict[str, Any], topics: Sequence[str]
) -> None:
    """Write opinions and interests of a row into a status."""
    arrays = population.arrays
    numbers = zip(topics, arrays["opinions"][row].tolist(), strict=True)
    status["opinions"] = {topic: each for topic, each in numbers if each != NO_OPINION}
    pairs = zip(
        arrays["interest_topic"][row].tolist(), arrays["interest"][row].tolist(), strict=True
    )
    status.setdefault("profile", {})["interests"] = {
        topics[topic]: interest for topic, interest in pairs if topic >= 0
    }


def topics_from_status(
    population: Population, row: int, status: dict[str, Any], topics: Sequence[str]
) -> None:
    """Write opinions and interests of a status into the columns.

    Raises:
        ConfigError: a topic is none of the block's
    """
    arrays = population.arrays
    interests = (status.get("profile") or {}).get("interests")
    for given in (interests or {}, status.get("opinions") or {}):
        for topic in given:
            if topic not in topics:
                raise ConfigError(
                    f"citizen {population.id_of(row)}: the topic {topic!r:.80} is none of the "
                    f"block's topics: {', '.join(topics)}"
                )
    if "opinions" in status:
        given = status["opinions"]
        arrays["opinions"][row] = [given.get(topic, NO_OPINION) for topic in topics]
    if interests is not None:
        arrays["interest_topic"][row] = -1
        arrays["interest"][row] = 0
        for at, (topic, interest) in enumerate(interests.items()):
            arrays["interest_topic"][row, at] = topics.index(topic)
            arrays["interest"][row, at] = interest


def friends_to_status(population: Population, row: int, status: dict[str, Any]) -> None:
    """Write the relations of a row into a status."""
    arrays = population.arrays
    codes, close = arrays["friends"][row].tolist(), arrays["friendship"][row].tolist()
    status["relations"] = {
        population.decoded(WHO, code - 1 if code > 0 else code): strength
        for code, strength in zip(codes, close, strict=True)
        if code
    }


def friends_from_status(population: Population, row: int, status: dict[str, Any]) -> None:
    """Write the relations of a status into the columns.

    Raises:
        ConfigError: there are more than the columns hold
    """
    given = status.get("relations")
    if given is None:
        return
    codes, close = population.arrays["friends"], population.arrays["friendship"]
    if len(given) > codes.shape[1]:
        raise ConfigError(
            f"citizen {population.id_of(row)} has {len(given)} relations, and `friends` of its "
            f"SocialBlockParams is {codes.shape[1]}"
        )
    codes[row], close[row] = 0, 0
    for at, (id, strength) in enumerate(given.items()):
        number = number_of(population, id)
        codes[row, at], close[row, at] = number + 1 if number >= 0 else number, strength


class Ties:
    """The relations of some rows, to be read and changed.

    Args:
        rows: of which
        at: their positions in the rows; all if left out

    Attributes:
        codes: with whom, by slot and row, as many slots as somebody has friends; int32
        close: how close; int64
    """

    def __init__(self, rows: Rows, at: Any = None) -> None:
        np = numpy()
        arrays, base = rows.population.arrays, rows.population.base
        self._friends, self._friendship = arrays["friends"], arrays["friendship"]
        self._index = (rows.index if at is None else rows.index[at]) - base
        codes, close = _transposed(self._friends, self._index), None
        if self._friends.shape[1] <= _FEW:
            close = _transposed(self._friendship, self._index)
        used = 0
        while used < len(codes) and codes[used].any():
            used += 1
        self.codes = codes[:used]
        self.close = np.empty((used, len(self._index)), np.int64)
        for slot in range(used):
            own = self._friendship[self._index, slot] if close is None else close[slot]
            self.close[slot] = own

    def of(self, codes: Any) -> Any:
        """The slot of each one's relation with somebody, −1 for none."""
        slots = numpy().full(len(codes), -1)
        for slot, column in enumerate(self.codes):
            slots[column == codes] = slot
        return slots

    def strength(self, at: Any, codes: Any) -> Any:
        """How close the ones at these positions are to somebody; 0 without a relation."""
        np = numpy()
        found = np.zeros(len(codes), np.int64)
        for column, close in zip(self.codes, self.close, strict=True):
            same = np.flatnonzero(column[at] == codes)
            found[same] = close[at[same]]
        return found

    def closer(self, at: Any, codes: Any, change: Callable[[Any], Any]) -> None:
        """Change the relation of some with somebody; where it has no room, the weakest other goes.

        The weakest that is first in the order goes, and those after it move up.

        Args:
            at: their positions among these, each once
            codes: with whom each of them
            change: gives the relation by what it was
        """
        np = numpy()
        mine, close, index = self.codes[:, at], self.close[:, at], self._index[at]
        slot = np.full(len(codes), -1)
        relation = np.zeros(len(codes), np.int64)
        for number, column in enumerate(mine):
            same = np.flatnonzero(column == codes)
            slot[same], relation[same] = number, close[number, same]
        count = (mine != 0).sum(0)
        most = self._friends.shape[1]
        full = np.flatnonzero((slot < 0) & (count == most))
        slot = np.where(slot >= 0, slot, np.minimum(count, most - 1))
        if len(full):
            weakest, of = close[:, full].argmin(0), index[full]
            for each in range(most - 1):
                kept = each + (each >= weakest)
                self._friends[of, each] = mine[kept, full]
                self._friendship[of, each] = close[kept, full]
        self._friends[index, slot] = codes
        self._friendship[index, slot] = change(relation)

    def keep(self, slot: Any) -> None:
        """Write how close each was in a slot, if that is one, once more."""
        at = numpy().flatnonzero(slot >= 0)
        self._friendship[self._index[at], slot[at]] = self.close[slot[at], at]

    def fade(self, fade: Callable[[Any], Any]) -> None:
        """Change how close all are."""
        for slot, close in enumerate(self.close):
            self._friendship[self._index, slot] = fade(close)


def _transposed(column: Any, index: Any) -> Any:
    """The values of some rows by slot and row; of slots that lie apart, those that are used."""
    np = numpy()
    if column.shape[1] <= _FEW:
        return np.ascontiguousarray(column[index].T)
    made = []
    for slot in range(column.shape[1]):
        made.append(column[index, slot])
        if not made[-1].any():
            break
    return np.stack(made)


def code_of(number: Any) -> Any:
    """The code in `friends` of agents as wants name them."""
    return numpy().where(number >= 0, number + 1, number)
