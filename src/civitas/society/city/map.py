"""What a city is made of: places, the roads between them, and the modes of travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from civitas.clock import DAY_S
from civitas.errors import ConfigError
from civitas.text import excerpt

_FARTHEST = 10_000_000
_LONGEST_ROAD = 1_000_000
_MOST = 1_000_000_000


def check_text(name: str, value: object) -> None:
    """Raise ConfigError unless a value is 1–255 printable characters."""
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable():
        raise ConfigError(f"{name} must be 1–255 printable characters, got {excerpt(value)}")


def check_integer(name: str, value: object, low: int, high: int | None) -> None:
    """Raise ConfigError unless a value is a whole number of a range (without a bound: None)."""
    if type(value) is not int or value < low or (high is not None and value > high):
        bounds = f"from {low} up" if high is None else f"from {low} to {high}"
        raise ConfigError(f"{name} must be a whole number {bounds}, got {excerpt(value)}")


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in a city that citizens can be.

    Attributes:
        id: unique in the city, 1–255 printable characters
        kind: what it is: `home`, `work`, `shop`, …
        x: metres to the east
        y: metres to the north
        capacity: how many citizens it holds at a time; of a home, how many live there
        opens: when it opens, in seconds after midnight, 0 … 86,399
        closes: when it closes, 0 … 86,400; before `opens` it is open over midnight
        name: for people; the id where it is empty
        node: the road node that it hangs on; None: roads lead to the place itself, by its id

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
            check_integer("x", self.x, -_FARTHEST, _FARTHEST)
            check_integer("y", self.y, -_FARTHEST, _FARTHEST)
            check_integer("capacity", self.capacity, 0, _MOST)
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

    def is_open(self, time: int) -> bool:
        """Return whether it is open, `time` seconds after midnight (of any day)."""
        check_integer("time", time, 0, None)
        time %= DAY_S
        if self.opens < self.closes:
            return self.opens <= time < self.closes
        return time >= self.opens or time < self.closes


@dataclass(frozen=True, slots=True)
class Road:
    """A road between two nodes.

    Attributes:
        a: a node, or a place without a node of its own
        b: the other end
        metres: its length, 1 … 1,000,000
        modes: the modes that may use it; None for all
        oneway: whether it leads from `a` to `b` only

    Raises:
        ConfigError: a field is wrong; the text names it.
    """

    a: str
    b: str
    metres: int
    modes: tuple[str, ...] | None = None
    oneway: bool = False

    def __post_init__(self) -> None:
        check_text("road: a", self.a)
        check_text("road: b", self.b)
        where = f"road {excerpt(self.a)}–{excerpt(self.b)}: "
        check_integer(where + "metres", self.metres, 1, _LONGEST_ROAD)
        if self.modes is not None:
            if not isinstance(self.modes, (tuple, list)):
                raise ConfigError(f"{where}modes must be names or None, got {excerpt(self.modes)}")
            for mode in self.modes:
                check_text(where + "modes", mode)
            object.__setattr__(self, "modes", tuple(sorted(set(self.modes))))
        if type(self.oneway) is not bool:
            raise ConfigError(f"{where}oneway must be a boolean, got {excerpt(self.oneway)}")


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to travel: `metres` in `seconds`, after a wait. Whole numbers, so times are exact.

    Attributes:
        name: such as `walk`
        metres: how far it gets in `seconds`
        seconds: the time for that
        wait: seconds that every trip takes besides: to park, to wait for a bus

    Raises:
        ConfigError: a field is wrong; the text names it.
    """

    name: str
    metres: int
    seconds: int = 1
    wait: int = 0

    def __post_init__(self) -> None:
        check_text("mode: name", self.name)
        where = f"mode {excerpt(self.name)}: "
        check_integer(where + "metres", self.metres, 1, _LONGEST_ROAD)
        check_integer(where + "seconds", self.seconds, 1, DAY_S)
        check_integer(where + "wait", self.wait, 0, DAY_S)

    def time(self, metres: Any) -> Any:
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
