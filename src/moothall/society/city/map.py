"""The parts of a city: places, roads and modes of travel; their checks and their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from moothall import ConfigError
from moothall.build import check_integer, check_text, error_text, excerpt, names_checked
from moothall.society.arrays import WholeNumber
from moothall.society.clock import DAY_S

_LIMIT = 10_000_000
_MAX_METRES = 1_000_000
_MAX_ID = 255
_MAX_CAPACITY = 1_000_000_000
_FORMAT = "moothall.city/1"


@names_checked
@dataclass(frozen=True, slots=True)
class Place:
    """A place in a city.

    Attributes:
        id: unique in the city, 1–255 printable characters
        kind: the kind: `home`, `work`, `shop`, …
        x: metres to the east
        y: metres to the north
        capacity: the citizens that it holds at a time; for a home, its residents
        opens: the opening time, in seconds after midnight, 0 … 86,399
        closes: the closing time, 0 … 86,400; if before `opens`, it is open over midnight
        name: the name for display; the id if empty
        node: the road node that it is attached to; None if roads lead to the place's own id

    Raises:
        ConfigError: a field is wrong; the text names it.
    """

    id: str
    kind: str
    x: int
    y: int
    capacity: int = 1
    opens: int = 0
    closes: int = DAY_S
    name: str = ""
    node: str | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        try:
            check_text("kind", self.kind)
            check_integer("x", self.x, -_LIMIT, _LIMIT)
            check_integer("y", self.y, -_LIMIT, _LIMIT)
            check_integer("capacity", self.capacity, 0, _MAX_CAPACITY)
            check_integer("opens", self.opens, 0, DAY_S - 1)
            check_integer("closes", self.closes, 0, DAY_S)
            if self.opens == self.closes:
                raise ConfigError(f"closes must differ from opens, got {self.closes} for both")
            if self.name == "":
                object.__setattr__(self, "name", self.id)
            check_text("name", self.name)
            if self.node is not None:
                check_text("node", self.node)
        except ConfigError as error:
            raise ConfigError(f"place {excerpt(self.id)}: {error}") from None


@names_checked
@dataclass(frozen=True, slots=True)
class Road:
    """A road between two nodes.

    Attributes:
        a: a node, or a place without `node`
        b: the other end
        metres: the length, 1 … 1,000,000
        modes: the modes that may use it; None for all
        oneway: whether it leads from `a` to `b` only
        id: what interventions call it; roads of one id are closed together. By default its two
            ends, in order, such as `n1-n2`
        name: the name of its street, which many roads may share; empty for none

    Raises:
        ConfigError: a field is wrong; the text names it.
    """

    a: str
    b: str
    metres: int
    modes: tuple[str, ...] | None = None
    oneway: bool = False
    id: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        check_text("road: a", self.a)
        check_text("road: b", self.b)
        title = f"road {excerpt(self.a)}–{excerpt(self.b)}: "
        check_integer(title + "metres", self.metres, 1, _MAX_METRES)
        if self.modes is not None:
            if not isinstance(self.modes, (tuple, list)):
                raise ConfigError(f"{title}modes must be names or None, got {excerpt(self.modes)}")
            for mode in self.modes:
                check_text(title + "modes", mode)
            object.__setattr__(self, "modes", tuple(sorted(set(self.modes))))
        if type(self.oneway) is not bool:
            raise ConfigError(f"{title}oneway must be a boolean, got {excerpt(self.oneway)}")
        if self.id == "":
            object.__setattr__(self, "id", self._usual_id)
        check_text(title + "id", self.id)
        if self.name != "":
            check_text(title + "name", self.name)

    @property
    def _usual_id(self) -> str:
        return "-".join(sorted((self.a, self.b)))[:_MAX_ID]

    def as_tuple(self) -> tuple[object, ...]:
        """Return its fields; without an id and a name of its own, the first five."""
        fields = (self.a, self.b, self.metres, self.modes, self.oneway)
        has_own = self.name or self.id != self._usual_id
        return (*fields, self.id, self.name) if has_own else fields

    def as_object(self) -> dict[str, Any]:
        """Return its fields by name, without an id or a name that is not its own."""
        data = {name: getattr(self, name) for name in ("a", "b", "metres", "modes", "oneway")}
        data |= {"id": self.id} if self.id != self._usual_id else {}
        return data | ({"name": self.name} if self.name else {})


@names_checked
@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of travel: `metres` in `seconds`, after a wait. Whole numbers keep times exact.

    Attributes:
        name: the name, such as `walk`
        metres: the distance covered in `seconds`
        seconds: the time for `metres`
        wait: seconds added to every trip: to park, to wait for a bus

    Raises:
        ConfigError: a field is wrong; the text names it.
    """

    name: str
    metres: int
    seconds: int = 1
    wait: int = 0

    def __post_init__(self) -> None:
        check_text("mode: name", self.name)
        title = f"mode {excerpt(self.name)}: "
        check_integer(title + "metres", self.metres, 1, _MAX_METRES)
        check_integer(title + "seconds", self.seconds, 1, DAY_S)
        check_integer(title + "wait", self.wait, 0, DAY_S)

    def time(self, metres: WholeNumber) -> WholeNumber:
        """Return the whole seconds, rounded up, for a distance (an int, or an int64 array)."""
        return self.wait + -(-metres * self.seconds // self.metres)


MODES = (
    Mode("walk", metres=7, seconds=5),
    Mode("cycle", metres=43, seconds=10),
    Mode("drive", metres=7, wait=120),
    Mode("transit", metres=5, wait=300),
)
"""The usual modes.

Walking 1.4 m/s (Bohannon 1997, Age and Ageing 26: comfortable gait of adults 1.27–1.46 m/s). The
rest is assumed, in round numbers for towns: cycling 4.3 m/s, driving 7 m/s and two minutes to park,
public transport 5 m/s and five minutes to wait.
"""

Part = TypeVar("Part", Place, Road, Mode)


# -- a whole city ----------------------------------------------------------------------------------


def checked_modes(modes: Iterable[Mode]) -> dict[str, Mode]:
    """Return modes of travel by name."""
    by_name: dict[str, Mode] = {}
    if not isinstance(modes, Iterable):
        raise ConfigError(f"modes must be a list of Mode, got {excerpt(modes)}")
    for number, mode in enumerate(modes):
        if not isinstance(mode, Mode):
            raise ConfigError(f"modes[{number}] must be a Mode, got {excerpt(mode)}")
        if mode.name in by_name:
            raise ConfigError(f"modes[{number}]: name {excerpt(mode.name)} appears twice")
        by_name[mode.name] = mode
    if not by_name:
        raise ConfigError("modes must have at least one")
    return by_name


def checked_nodes(nodes: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return checked road nodes by id, in order of id."""
    if not isinstance(nodes, Mapping):
        raise ConfigError(f"nodes must map ids to (x, y), got {excerpt(nodes)}")
    spots = {}
    for node, spot in nodes.items():
        check_text("nodes: an id", node)
        if not isinstance(spot, (tuple, list)) or len(spot) != 2:
            raise ConfigError(f"nodes: {excerpt(node)}: must be (x, y), got {excerpt(spot)}")
        for axis, value in zip("xy", spot, strict=True):
            check_integer(f"nodes: {excerpt(node)}: {axis}", value, -_LIMIT, _LIMIT)
        spots[node] = (spot[0], spot[1])
    return dict(sorted(spots.items()))


def checked_roads(
    roads: Iterable[Road | tuple[str, str, int]],
    modes: Mapping[str, Mode],
    nodes: Mapping[str, object],
    places: Sequence[Place],
    numbers: Mapping[str, int],
) -> tuple[Road, ...]:
    """Return roads; check that their ends and modes exist. `numbers` are those of the places."""
    checked = []
    if not isinstance(roads, Iterable):
        raise ConfigError(f"roads must be a list of Road or (a, b, metres), got {excerpt(roads)}")
    for number, road in enumerate(roads):
        if not isinstance(road, Road):
            if not isinstance(road, (tuple, list)) or len(road) != 3:
                raise ConfigError(
                    f"roads[{number}] must be a Road or (a, b, metres), got {excerpt(road)}"
                )
            road = Road(*road)
        for end in (road.a, road.b):
            if end in nodes:
                continue
            title = f"roads[{number}]: {excerpt(road.a)}–{excerpt(road.b)} leads to {excerpt(end)}"
            if end not in numbers:
                raise ConfigError(f"{title}, which is neither a node nor a place")
            place = places[numbers[end]]
            if place.node is not None:
                node = excerpt(place.node)
                raise ConfigError(f"{title}, a place that hangs on node {node}: lead it there")
        for mode in road.modes or ():
            if mode not in modes:
                names = ", ".join(modes)
                raise ConfigError(f"roads[{number}]: mode {excerpt(mode)} is not one of {names}")
        checked.append(road)
    return tuple(checked)


def canonical_json(
    places: Iterable[Place],
    roads: Iterable[Road],
    nodes: Mapping[str, tuple[int, int]],
    modes: Iterable[Mode],
    snap: bool,
) -> str:
    """Return a city's canonical JSON: the same text for the same city."""
    data = {
        "format": _FORMAT,
        "modes": [_as_object(mode) for mode in modes],
        "nodes": nodes,
        "places": [_as_object(place) for place in places],
        "roads": [road.as_object() for road in roads],
        **({"snap": True} if snap else {}),
    }
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def read_city(
    text: str | bytes,
) -> tuple[list[Place], list[Road], dict[str, tuple[int, int]], list[Mode], bool]:
    """Return the parts of a city's JSON, and whether it snaps; ConfigError names the field."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"the city is not JSON: {error_text(error)}") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ConfigError(f"format must be {excerpt(_FORMAT)}: this is not a city's JSON")
    for name in sorted(data.keys() - {"snap"} ^ {"format", "modes", "nodes", "places", "roads"}):
        raise ConfigError(f"{excerpt(name)} is {'not a field' if name in data else 'missing'}")
    if not isinstance(data["nodes"], dict):
        raise ConfigError(f"nodes must be an object, got {excerpt(data['nodes'])}")
    return (
        _read_objects("places", data["places"], Place),
        _read_objects("roads", data["roads"], Road),
        data["nodes"],
        _read_objects("modes", data["modes"], Mode),
        data.get("snap", False),
    )


def _as_object(part: Place | Mode) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__slots__}


def _read_objects(label: str, rows: object, kind: type[Part]) -> list[Part]:
    if not isinstance(rows, list):
        raise ConfigError(f"{label} must be an array, got {excerpt(rows)}")
    objects = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ConfigError(f"{label}[{number}] must be an object, got {excerpt(row)}")
        try:
            objects.append(kind(**row))
        except TypeError as error:
            raise ConfigError(f"{label}[{number}]: {error}") from None
    return objects
