"""Small protocols for what blocks need of a city, the error if it lacks it, and bases of cities.

A block states its needs: `needs(city, Routes, Hours, who="MobilityBlock", kinds=("shop",))`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from moothall import ConfigError
from moothall.build import check_integer, excerpt
from moothall.society.arrays import Array, np


class Near(NamedTuple):
    """A place that `near` found, and the seconds it takes to get there."""

    id: str
    seconds: int


@runtime_checkable
class Places(Protocol):
    """Places by id. Ids are texts; an unknown id raises ConfigError in every method."""

    def __contains__(self, place: object) -> bool:
        """Return whether there is a place with that id."""

    def ids(self) -> tuple[str, ...]:
        """Return every place's id, in order."""

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of places, in order."""

    def kind(self, place: str) -> str:
        """Return a place's kind, such as `shop`."""

    def by_kind(self, kind: str) -> tuple[str, ...]:
        """Return the places of a kind in order of id; none if there is no such kind."""


@runtime_checkable
class Routes(Protocol):
    """Travel times between places."""

    def seconds(self, a: str, b: str, mode: str | None = None) -> int | None:
        """Return the whole seconds from `a` to `b`; None if there is no way."""

    def near(
        self, place: str, kind: str | None = None, limit: int = 10, mode: str | None = None
    ) -> tuple[Near, ...]:
        """Return the nearest reachable other places (of a kind), the nearest first."""


@runtime_checkable
class Neighbours(Protocol):
    """Adjacent places: one edge or one cell away."""

    def neighbours(self, place: str) -> tuple[str, ...]:
        """Return the places next to a place, in order of id."""


@runtime_checkable
class Capacities(Protocol):
    """Capacities of places."""

    def capacity(self, place: str) -> int | None:
        """Return how many citizens a place holds at a time; None for any number."""


@runtime_checkable
class Hours(Protocol):
    """Opening hours of places."""

    def is_open(self, place: str, time: int) -> bool:
        """Return whether a place is open, `time` seconds after midnight (of any day)."""


@runtime_checkable
class Positions(Protocol):
    """Positions of places on a plane, for pictures and distances."""

    def position(self, place: str) -> tuple[int, int]:
        """Return x and y: metres in a city, columns and rows on a grid."""


_OFFERS: dict[Any, tuple[str, str]] = {
    Places: ("places", "a City, Network or Grid"),
    Routes: ("travel times to places", "a City, Network or Grid"),
    Neighbours: ("neighbours of places", "a Network or Grid"),
    Capacities: ("capacities of places", "a City or Grid"),
    Hours: ("opening hours of places", "a City"),
    Positions: ("positions of places", "a City or Grid"),
}
"""What each protocol offers, and the classes that implement it."""

_KNOWN_OFFERS: set[tuple[type, type]] = set()


def needs(places: Any, *protocols: type, who: str, kinds: Iterable[str] = ()) -> None:
    """Check that a city offers what a block needs.

    Args:
        places: a City, Network, Grid, another object with the protocols, or None for no city
        protocols: what the block needs: `Routes`, `Hours`, …
        who: the name of the block, for the error
        kinds: the kinds of which the block needs at least one place each

    Raises:
        ConfigError: something is missing; the text says who needs what, and what has it.
    """
    kinds = tuple(kinds)
    required = dict.fromkeys((*protocols, Places) if kinds else protocols)
    missing = [protocol for protocol in required if not _offers(places, protocol)]
    if missing:
        offers = [_OFFERS.get(each, (each.__name__, "what implements it")) for each in missing]
        of = f" of kind {_kinds_in_words(kinds)}" if kinds else ""
        existing = "there is no city" if places is None else f"{type(places).__name__} has none"
        names = ", ".join(each for each, _ in offers)
        raise ConfigError(f"{who} needs {names}{of}, and {existing}: pass as city= {offers[0][1]}")
    absent = [kind for kind in kinds if not places.by_kind(kind)]
    if absent:
        raise ConfigError(
            f"{who} needs places of kind {_kinds_in_words(absent)}, "
            f"and {type(places).__name__} has only: {_kinds_in_words(places.kinds()) or 'none'}"
        )


def _offers(places: object, protocol: type) -> bool:
    # Remembered by class: `isinstance` takes 8 µs here, and a block asks in each citizen's step.
    pair = (type(places), protocol)
    if pair not in _KNOWN_OFFERS:
        if not isinstance(places, protocol):
            return False
        _KNOWN_OFFERS.add(pair)
    return True


def _kinds_in_words(kinds: Iterable[str]) -> str:
    return ", ".join(repr(kind) for kind in kinds)


class NumberedPlaces:
    """Places by their number in the order of ids: the base of `City`, `Network` and `Grid`."""

    _unknown: ClassVar[str]
    """The beginning of the error for an unknown id."""
    _ids: Any  # the ids in order, a tuple
    _kind_names: tuple[str, ...]

    @functools.cached_property
    def _kind_numbers(self) -> Array:
        """The number of each place's kind; all have the first if nothing else was set."""
        return np.zeros(len(self), np.int8)

    @functools.cached_property
    def place_numbers(self) -> Mapping[str, int]:
        """The number of each id."""
        return {id: number for number, id in enumerate(self._ids)}

    @functools.cached_property
    def _by_kind(self) -> dict[str, tuple[str, ...]]:
        return {
            kind: tuple([self._ids[each] for each in self._rows_of(kind).tolist()])
            for kind in self._kind_names
        }

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, place: object) -> bool:
        return isinstance(place, str) and place in self.place_numbers

    def ids(self) -> tuple[str, ...]:
        """Return every place's id, in order."""
        ids: tuple[str, ...] = self._ids
        return ids

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of places, in order."""
        return self._kind_names

    def kind(self, place: str) -> str:
        """Return a place's kind."""
        return self._kind_names[int(self._kind_numbers[self._number_of(place)])]

    def by_kind(self, kind: str) -> tuple[str, ...]:
        """Return the places of a kind in order of id; none if there is no such kind."""
        return self._by_kind.get(kind, ())

    def kind_rows(self) -> Array:
        """Return each place's kind as its number in `kinds()`; an array of whole numbers."""
        return self._kind_numbers

    def _rows_of(self, kind: str | None) -> Array:
        """Return the numbers of the places of a kind, of all for None; int32, rising."""
        if kind is None:
            return np.arange(len(self), dtype=np.int32)
        number = [*self._kind_names, kind].index(kind)
        return np.flatnonzero(self._kind_numbers == number).astype(np.int32)

    def _number_of(self, place: str) -> int:
        try:
            return self.place_numbers[place]
        except (KeyError, TypeError):
            raise ConfigError(f"{self._unknown} {excerpt(place)}") from None


class SteppedPlaces(NumberedPlaces):
    """Places whose ways are so many steps of one length, by no mode of travel."""

    _step_seconds: int

    def _steps(self, start: object, to: object) -> Array:
        """Return the fewest steps from places to places, by number; −1 if there is no way."""
        raise NotImplementedError

    def seconds(self, a: str, b: str, mode: str | None = None) -> int | None:
        """Return the seconds over the fewest steps from `a` to `b`; None if there is no way."""
        check_no_mode(mode)
        steps = int(self._steps(self._number_of(a), self._number_of(b)))
        return None if steps < 0 else steps * self._step_seconds

    def near(
        self, place: str, kind: str | None = None, limit: int = 10, mode: str | None = None
    ) -> tuple[Near, ...]:
        """Return the nearest other places that can be reached, with the seconds to each."""
        check_no_mode(mode)
        check_integer("limit", limit, 1, None)
        start, rows = self._number_of(place), self._rows_of(kind)
        steps = self._steps(start, rows)
        nearest = np.flatnonzero((steps >= 0) & (rows != start))
        nearest = nearest[np.argsort(steps[nearest], kind="stable")[:limit]].tolist()
        return tuple(
            Near(self._ids[rows[each]], int(steps[each]) * self._step_seconds) for each in nearest
        )


def check_no_mode(mode: str | None) -> None:
    """Raise ConfigError for a mode of travel, of places that have none."""
    if mode is not None:
        raise ConfigError(f"mode must be None: only a City has modes; got {excerpt(mode)}")
