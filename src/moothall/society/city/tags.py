"""What the tags of OpenStreetMap say of a place or a road, and what is assumed of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moothall import ConfigError
from moothall.build import excerpt, nearest
from moothall.society.clock import DAY_S

KINDS_BY_TAG: Final[Mapping[str, Mapping[str, str]]] = {
    "amenity": {
        **dict.fromkeys(("school", "kindergarten", "college", "university"), "school"),
        **dict.fromkeys(("hospital", "clinic", "doctors"), "hospital"),
        **dict.fromkeys(("restaurant", "cafe", "fast_food", "pub", "bar"), "restaurant"),
        **dict.fromkeys(("bank", "townhall", "police", "post_office", "library"), "work"),
    },
    "leisure": dict.fromkeys(("park", "garden", "playground", "nature_reserve"), "park"),
    "shop": {"*": "shop"},
    "office": {"*": "work"},
    "building": {
        **dict.fromkeys(("residential", "apartments", "house", "detached", "dormitory"), "home"),
        **dict.fromkeys(("terrace", "semidetached_house", "bungalow", "hut", "farm"), "home"),
        "yes": "home",
        **dict.fromkeys(("office", "industrial", "commercial", "warehouse"), "work"),
    },
}
"""The kind of a place by the first tag that says one; `*` stands for any value but `no`."""
_CAPACITIES: Final = {
    "home": 3,
    "work": 20,
    "school": 300,
    "hospital": 200,
    "shop": 40,
    "restaurant": 50,
    "park": 300,
}
SEATS: Final = {"work": 450, "school": 180, "shop": 120, "restaurant": 120, "park": 214}
"""The seats for 1,000 citizens that places have together at least, as in a town of `generate`."""
_HOURS: Final = {"work": (7, 19), "school": (7, 17), "shop": (8, 20), "restaurant": (11, 22)}
_PARK_HOURS: Final = (5, 23)
_MAX_CAPACITY: Final = 1_000_000_000
_FLOOR_RESIDENTS: Final = 8  # residents of a storey of a block of flats
_ROADS_FOR_ALL: Final = (
    *("primary", "secondary", "tertiary", "unclassified", "residential", "living_street"),
    *("service", "track", "road", "primary_link", "secondary_link", "tertiary_link"),
)
_CAR_ROADS: Final = ("motorway", "trunk", "motorway_link", "trunk_link")
_FOOT_ROADS: Final = ("footway", "pedestrian", "path", "cycleway", "bridleway", "steps")
_ROADS: Final = frozenset((*_ROADS_FOR_ALL, *_CAR_ROADS, *_FOOT_ROADS))
_ACCESS_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "walk": ("access", "foot"),
    "cycle": ("access", "vehicle", "bicycle"),
    "drive": ("access", "vehicle", "motor_vehicle", "motorcar"),
    "transit": ("access", "vehicle", "motor_vehicle", "psv", "bus"),
}
"""The keys that open or close a road to a mode, the general ones first (wiki: Key:access)."""
_CLOSED: Final = ("no", "private", "agricultural", "forestry", "military", "emergency", "delivery")
_OPEN: Final = ("yes", "designated", "permissive", "official", "destination", "customers")
_DIRECTIONS: Final = {"yes": 1, "true": 1, "1": 1, "-1": -1, "reverse": -1}
_OTHER_LINES: Final = (
    *("railway", "waterway", "power", "barrier", "boundary", "natural", "aeroway", "landuse"),
    *("man_made", "route", "kind"),
)
"""Keys of lines that are no roads, unless they have a tag `highway` too."""
_TIMES: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)\s*-\s*([01]?\d|2[0-4]):([0-5]\d)")


def place_kind(tags: Mapping[str, object]) -> str:
    """Return the kind of a place: its tag `kind`, or what the tags of OpenStreetMap say."""
    if isinstance(explicit := tags.get("kind"), str):
        return explicit
    for key, kinds in KINDS_BY_TAG.items():
        value = tags.get(key)
        if isinstance(value, str) and value != "no":
            kind = kinds.get(value) or kinds.get("*")
            if kind:
                return kind
    return ""


def printable_name(value: object) -> str:
    """Return a name of at most 255 characters; empty for none, or one that cannot be shown."""
    name = str(value or "").strip()[:255]
    return name if name.isprintable() else ""


def street_name(tags: Mapping[str, object]) -> str:
    """Return the name of a road, or the number that signs have of it; empty for none."""
    return printable_name(tags.get("name")) or printable_name(tags.get("ref"))


def stated_capacity(tags: Mapping[str, object]) -> int | None:
    """Return the capacity that tags state; None: they state none."""
    for name, times in (("capacity", 1.0), ("beds", 1.0), ("building:flats", 2.5)):
        if (number := _integer(tags.get(name))) is not None:
            return max(1, round(number * times))
    return None


def usual_capacity(kind: str, tags: Mapping[str, object]) -> int:
    """Return what is assumed of a place of a kind whose tags state no capacity."""
    levels, building = _integer(tags.get("building:levels")), tags.get("building")
    flats = building in ("apartments", "dormitory") or (building == "yes" and (levels or 0) > 2)
    if kind == "home" and flats:
        return _FLOOR_RESIDENTS * (levels or 3)
    return _CAPACITIES.get(kind, 20)


def _integer(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if 0 <= number <= _MAX_CAPACITY else None


def hours_of(kind: str, tags: Mapping[str, object]) -> tuple[int, int]:
    """Return the first hours that the tags state, or those of the kind."""
    text = str(tags.get("opening_hours", ""))
    if text.strip() == "24/7":
        return 0, DAY_S
    if match := _TIMES.search(text):
        a, b, c, d = map(int, match.groups())
        opens, closes = a * 3600 + b * 60, min(DAY_S, c * 3600 + d * 60)
        if opens != closes and opens < DAY_S:
            return opens, closes
    first, last = _PARK_HOURS if kind == "park" else _HOURS.get(kind, (0, 24))
    return first * 3600, last * 3600


def is_road(tags: Mapping[str, object]) -> bool:
    """Return whether a line may be a road: tagged as one, as a ferry, or as nothing else."""
    if "highway" in tags or "modes" in tags or tags.get("route") == "ferry":
        return True
    return not any(key in tags for key in (*KINDS_BY_TAG, *_OTHER_LINES))


def modes_and_directions(
    tags: Mapping[str, object], names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield which modes may use a line, and in which direction: 0 in both, 1, or −1 backwards."""
    highway = str(tags.get("highway", "road"))
    if isinstance(explicit := tags.get("modes"), list | tuple):
        if unknown := [each for each in explicit if each not in names]:
            near = nearest(str(unknown[0]), names)
            raise ConfigError(f"there is no mode {excerpt(unknown[0])}{near}")
        allowed = tuple(explicit)
    elif highway in _ROADS and tags.get("construction") != "yes":
        usual = [name for name in names if _uses(name, highway)]
        allowed = tuple(name for name in names if _is_allowed(name, name in usual, tags))
    else:
        return
    by_direction: dict[int, list[str]] = {}
    for name in allowed:
        by_direction.setdefault(_direction(name, highway, tags), []).append(name)
    for direction, mode_names in by_direction.items():
        yield tuple(mode_names), direction


def _uses(mode: str, highway: str) -> bool:
    """Return whether a mode uses a kind of road whose tags state nothing else."""
    if highway in _CAR_ROADS:
        return mode not in ("walk", "cycle")
    return highway in _ROADS_FOR_ALL or mode == "walk" or (mode == "cycle" and highway != "steps")


def _is_allowed(mode: str, is_allowed: bool, tags: Mapping[str, object]) -> bool:
    """Return whether tags let a mode use a road; the last of its keys that states it counts."""
    for key in _ACCESS_KEYS.get(mode, ("access",)):
        value = tags.get(key)
        if value in _CLOSED:
            is_allowed = False
        elif value in _OPEN and key != "access":  # which opens no footway to cars
            is_allowed = True
    return is_allowed


def _direction(mode: str, highway: str, tags: Mapping[str, object]) -> int:
    values = [tags.get(f"oneway:{key}") for key in _ACCESS_KEYS.get(mode, ())[:0:-1]]
    if mode == "cycle" and str(tags.get("cycleway", "")).startswith("opposite"):
        values.append("no")
    if mode != "walk":
        is_implied = highway == "motorway" or tags.get("junction") in ("roundabout", "circular")
        values += [tags.get("oneway"), "yes" if is_implied else None]
    value = next((str(each).lower() for each in values if each not in (None, "")), "no")
    return _DIRECTIONS.get(value, 0)
