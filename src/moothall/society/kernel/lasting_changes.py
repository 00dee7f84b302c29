"""What interventions have changed for good: facts, closed places, closed and slow roads."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Any, Final

from moothall import ConfigError, StateError
from moothall.society.kernel.facts import Facts
from moothall.society.kernel.intervention import USUAL_SPEED, Intervention
from moothall.society.kernel.kept import own_attributes

_CLOSING: Final = ("is_open", "closed")  # what `LastingChanges.city` puts on a copy of the city
_MAX_KEPT: Final = 4  # sets of changed roads, such as of day and night, whose ways are kept


class LastingChanges:
    """The lasting changes of interventions: facts, closed places, closed and slow roads."""

    def __init__(self, city: Any) -> None:
        self._city = self._current = city
        self.facts: dict[str, Any] = {}
        self.closed: set[str] = set()
        self.closed_roads: set[tuple[str, str]] = set()  # as (id, mode)
        self.road_speeds: dict[tuple[str, str], int] = {}  # in percent, by (id, mode)
        self._cities: dict[object, Any] = {}  # the last cities of changed roads

    def close_and_open(self, intervention: Intervention) -> bool:
        """Close and open places and roads; return whether the city is another then."""
        self.closed.update(self.place_ids(intervention.close))
        self.closed.difference_update(self.place_ids(intervention.open))
        self.closed_roads.update(self._roads_of(intervention, intervention.close_roads))
        self.closed_roads.difference_update(self._roads_of(intervention, intervention.open_roads))
        for road, percent in intervention.road_speed.items():
            for key in self._roads_of(intervention, [road]):
                self.road_speeds[key] = percent
                if percent == USUAL_SPEED:
                    del self.road_speeds[key]
        names = ("close", "open", "close_roads", "open_roads", "road_speed")
        return any(getattr(intervention, name) for name in names)

    def with_facts(self, facts: Any) -> Any:
        """Return the society's facts with those of interventions."""
        return Facts({**(facts or {}), **self.facts}) if self.facts else facts

    def city(self) -> Any:
        """Return the city, with closed places and roads closed."""
        own_city, closed = self.own_city(), frozenset(self.closed)
        own_city_now = self._with_roads(own_city)
        if not closed:
            self._current = own_city_now
            return own_city_now
        own_is_open = getattr(own_city, "is_open", None)

        def is_open(place: str, time: int) -> bool:
            return place not in closed and (own_is_open is None or bool(own_is_open(place, time)))

        changed_city = copy.copy(own_city_now)
        changed_city.is_open = is_open
        changed_city.closed = closed  # for callers that ask for many places at once
        self._current = changed_city
        return changed_city

    def _with_roads(self, city: Any) -> Any:
        """Return the city with its roads as they are now; what it has found of ways is kept."""
        if not self.closed_roads and not self.road_speeds:
            return city
        key = frozenset(self.closed_roads), frozenset(self.road_speeds.items())
        changed = self._cities.pop(key, None) or city.with_roads(
            self.closed_roads, self.road_speeds
        )
        self._cities[key] = changed
        if len(self._cities) > _MAX_KEPT:
            del self._cities[next(iter(self._cities))]
        changed_city, variables = copy.copy(changed), own_attributes(city)
        for name in own_attributes(changed_city).keys() - variables.keys():
            delattr(changed_city, name)
        vars(changed_city).update(variables)  # what rules have set since
        return changed_city

    def own_city(self) -> Any:
        """Return the city without the changes, with what rules have set on the one they see."""
        if self._current is not self._city:
            variables, attributes = own_attributes(self._current), vars(self._city)
            for name in own_attributes(self._city).keys() - variables.keys():
                del attributes[name]
            attributes.update({k: v for k, v in variables.items() if k not in _CLOSING})
        return self._city

    def place_ids(self, names: Sequence[str]) -> list[str]:
        """Return the ids of places that are named by their ids or kinds."""
        kinds = self._city.kinds() if hasattr(self._city, "by_kind") else ()
        ids = (self._city.by_kind(each) if each in kinds else [each] for each in names)
        return [*chain.from_iterable(ids)]

    def _roads_of(
        self, intervention: Intervention, roads: Iterable[object]
    ) -> Iterable[tuple[str, str]]:
        """Return roads as (id, mode), for the modes of an intervention."""
        if not (road_names := [*roads]):
            return ()
        modes = intervention.modes
        names = [each.name for each in self._city.modes] if modes is None else modes
        return product(self._city.road_index.ids_of(road_names), names)

    def check(self, intervention: Intervention) -> None:
        """Check that the places, roads and modes that it names exist. Raises ConfigError."""
        ids = set() if self._city is None else set(self._city.ids())
        for id in self.place_ids([*intervention.close, *intervention.open]):
            if id not in ids:
                raise ConfigError(f"an intervention closes or opens {id!r}, which is not a place")
        roads = [*intervention.close_roads, *intervention.open_roads, *intervention.road_speed]
        if not roads and intervention.modes is None:
            return
        if not hasattr(self._city, "road_index"):
            raise ConfigError("an intervention changes roads, which only a City has")
        self._city.road_index.ids_of(roads)
        mode_names = [each.name for each in self._city.modes]
        for mode in intervention.modes or ():
            if mode not in mode_names:
                raise ConfigError(
                    f"an intervention names the mode {mode!r:.80}, and the city has "
                    f"{', '.join(mode_names)}"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the changes as JSON data."""
        state: dict[str, Any] = {"facts": self.facts, "closed": sorted(self.closed)}
        if self.closed_roads:
            state["closed_roads"] = sorted(map(list, self.closed_roads))
        if self.road_speeds:
            state["road_speeds"] = sorted([*key, each] for key, each in self.road_speeds.items())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the changes that `state_dict` returned."""
        self.facts, self.closed = dict(state["facts"]), set(state["closed"])
        self.closed_roads = {(id, mode) for id, mode in state.get("closed_roads", ())}
        self.road_speeds = {(id, mode): each for id, mode, each in state.get("road_speeds", ())}

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Check that a state's closed places and changed roads exist. Raises StateError."""
        ids = set() if self._city is None else set(self._city.ids())
        for id in state["closed"]:
            if id not in ids:
                raise StateError(f"the state has closed {id!r:.80}, which is not a place here")
        roads = [*state.get("closed_roads", ()), *state.get("road_speeds", ())]
        modes = {each.name for each in getattr(self._city, "modes", ())}
        for id, mode, *_ in roads:
            index = getattr(self._city, "road_index", None)
            if index is None or id not in index.ids or mode not in modes:
                raise StateError(
                    f"the state has changed the road {id!r:.80} for {mode!r:.80}, which the "
                    "society's city has not"
                )
