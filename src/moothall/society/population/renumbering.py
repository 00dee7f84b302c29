"""What the numbers in a saved population's columns stand for, and what stands for it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moothall import StateError
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.columns.register import Register

_TITLES: Final = {
    "places": "the place {!r}, which the society's city has not: add it, or load the state into a "
    "society of the same places",
    "kinds": "places of the kind {!r}, of which the society's city has none: load the state into a "
    "society of the same places",
    "words": "the text {!r}, which the society's modes and blocks have not: load the state into a "
    "society of the same modes and blocks",
}


def names_of(register: Register) -> dict[str, list[str]]:
    """Return what the numbers of places, of kinds of places and of texts stand for, as JSON."""
    kinds = getattr(register.city, "kinds", tuple)
    return {"places": [*register.places], "kinds": [*kinds()], "words": [*register.words]}


class Renumbering:
    """The numbers here of places, kinds of places and texts that another register has numbered.

    Args:
        names: what that register's numbers stand for, by `names_of`
        register: the one whose numbers are wanted
        title: what has the numbers, for errors
    """

    def __init__(
        self, names: Mapping[str, list[str]], register: Register, title: str = "the state"
    ) -> None:
        self._names = names
        self._title = title
        self._numbers: dict[str, Array] = {}
        for name, texts in names_of(register).items():
            numbers = {each: number for number, each in enumerate(texts)}
            self._numbers[name] = np.array([numbers.get(each, -1) for each in names[name]], int)

    def with_title(self, title: str) -> Renumbering:
        """Return the same numbers, whose errors name what has them."""
        copy = Renumbering.__new__(Renumbering)
        copy._names, copy._numbers, copy._title = self._names, self._numbers, title
        return copy

    @property
    def all_places(self) -> Array:
        """The number of each of its places, in their order. StateError: one is not there."""
        return self.places(np.arange(len(self._names["places"])))

    def places(self, numbers: WholeNumber) -> Array:
        """Return the numbers of places; below 0 they stay. StateError: one is not there."""
        return self._renumbered("places", numbers)

    def kinds(self, numbers: WholeNumber) -> Array:
        """Return the numbers of kinds of places; below 0 they stay. StateError: there is none."""
        return self._renumbered("kinds", numbers)

    def words(self, numbers: WholeNumber) -> Array:
        """Return the numbers of texts; below 0 they stay. StateError: one is not there."""
        return self._renumbered("words", numbers)

    def _renumbered(self, name: str, numbers: WholeNumber) -> Array:
        old, new_numbers = np.asarray(numbers).astype(np.int64), self._numbers[name]
        is_one = old >= 0
        if not is_one.any():
            return old
        renumbered: Array = np.where(is_one, new_numbers[np.where(is_one, old, 0)], old)
        if (missing := old[is_one & (renumbered < 0)]).size:
            lacking_text = _TITLES[name].format(self._names[name][int(missing.min())])
            raise StateError(f"{self._title} has {lacking_text}")
        return renumbered
