"""Cities of maps: places and roads in degrees, by the tags of OpenStreetMap, as places in metres.

What tags mean, and the capacity and hours of a place that states none, are assumed (`_KINDS`,
`_HOLDS`): homes of 3 residents, or 8 a storey of a block of flats; the usual hours of a kind. Only
the largest connected part of the roads is kept.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

from moothall.arguments import check_integer
from moothall.clock import DAY_S
from moothall.errors import ConfigError
from moothall.jsonvalue import Unreadable, read_json
from moothall.society.arrays import np, package
from moothall.society.city.map import Mode, Place, Road
from moothall.text import error_text, excerpt, nearest

Spot = tuple[float, float]
"""Longitude and latitude, in degrees."""
_EARTH_M: Final = 6_371_000
_KINDS: Final[Mapping[str, Mapping[str, str]]] = {
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
        **dict.fromkeys(("office", "industrial", "commercial", "warehouse"), "work"),
    },
}
"""The kind of a place by the first tag that says one; `*` stands for any value but `no`."""
_HOLDS: Final = {
    "home": 3,
    "work": 20,
    "school": 300,
    "hospital": 200,
    "shop": 40,
    "restaurant": 50,
    "park": 300,
}
_HOURS: Final = {"work": (7, 19), "school": (7, 17), "shop": (8, 20), "restaurant": (11, 22)}
_HOURS_OF_PARKS: Final = (5, 23)
_FLOOR: Final = 8  # residents of a storey of a block of flats
_ANYONE: Final = (
    *("primary", "secondary", "tertiary", "unclassified", "residential", "living_street"),
    *("service", "track", "road", "primary_link", "secondary_link", "tertiary_link"),
)
_CARS: Final = ("motorway", "trunk", "motorway_link", "trunk_link")
_FEET: Final = ("footway", "pedestrian", "path", "cycleway", "bridleway", "steps")
_TIMES: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)\s*-\s*([01]?\d|2[0-4]):([0-5]\d)")


@dataclass
class Found:
    """What a map has: places with their tags, and lines of nodes."""

    places: list[tuple[Spot, Mapping[str, Any]]] = field(default_factory=list)
    lines: list[tuple[list[Any], list[Spot], Mapping[str, Any]]] = field(default_factory=list)

    def add_area(self, ring: Sequence[Spot], tags: Mapping[str, Any]) -> None:
        """Add a place in the middle of an area's corners."""
        corners = list(dict.fromkeys(ring)) or list(ring)
        middle = tuple(math.fsum(each[at] for each in corners) / len(corners) for at in (0, 1))
        self.places.append(((middle[0], middle[1]), tags))


# -- the sources -----------------------------------------------------------------------------------


def of_geojson(source: str | PathLike[str] | Mapping[str, Any]) -> Found:
    """Return the features of GeoJSON: a file, or its data."""
    data: Any = source
    name = "GeoJSON"
    if not isinstance(source, Mapping):
        if not isinstance(source, str | PathLike):
            raise ConfigError(f"GeoJSON must be a file's path or its data, got {excerpt(source)}")
        name = str(source)
        try:
            data = read_json(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
        except (Unreadable, UnicodeDecodeError) as error:
            raise ConfigError(f"{name} is not JSON: {error_text(error)}") from None
    features = data.get("features") if isinstance(data, Mapping) else None
    if not isinstance(features, list):
        raise ConfigError(f"{name} must be a FeatureCollection with a list of features")
    found = Found()
    for number, feature in enumerate(features):
        try:
            geometry, tags = feature["geometry"], feature.get("properties") or {}
            if geometry is None:
                continue  # a feature without a place (RFC 7946, 3.2)
            _add_geometry(found, geometry["type"], geometry["coordinates"], tags)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            what = f"cannot be used: {error_text(error)}"
            raise ConfigError(f"{name}: features[{number}] {what}") from None
    return found


def _add_geometry(found: Found, kind: str, at: Any, tags: Mapping[str, Any]) -> None:
    if kind == "Point":
        found.places.append((_spot(at), tags))
    elif kind == "Polygon":
        found.add_area([_spot(each) for each in at[0]], tags)
    elif kind == "LineString":
        spots = [_spot(each) for each in at]
        # Lines meet where they have the same corner, to a centimetre.
        found.lines.append(([tuple(round(x, 7) for x in each) for each in spots], spots, tags))
    elif kind in ("MultiPoint", "MultiLineString", "MultiPolygon"):
        for part in at:
            _add_geometry(found, kind.removeprefix("Multi"), part, tags)
    else:
        raise ValueError(f"geometry {kind!r:.40} is neither points, lines nor polygons")


def _spot(at: Any) -> Spot:
    lon, lat = float(at[0]), float(at[1])
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise ValueError(f"({lon:g}, {lat:g}) is no longitude and latitude")
    return lon, lat


def of_osm(path: str | PathLike[str]) -> Found:
    """Return the tagged nodes and ways of an extract of OpenStreetMap, `.osm.pbf` or `.osm`."""
    osmium = package("osmium", "City.from_osm", "osm")
    if not Path(path).is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    found = Found()
    try:
        for each in osmium.FileProcessor(str(path)).with_locations():
            tags = {tag.k: tag.v for tag in each.tags} if len(each.tags) else {}
            if not tags:
                continue
            if each.is_node() and _kind(tags):
                found.places.append(((each.location.lon, each.location.lat), tags))
            elif each.is_way() and ("highway" in tags or _kind(tags)):
                nodes = [node for node in each.nodes if node.location.valid()]
                spots = [(node.location.lon, node.location.lat) for node in nodes]
                if "highway" in tags and tags.get("area") != "yes":
                    found.lines.append(([node.ref for node in nodes], spots, tags))
                elif spots:
                    found.add_area(spots, tags)
    except (RuntimeError, osmium.InvalidLocationError) as error:
        raise ConfigError(f"{path} is not an extract of OpenStreetMap: {error}") from None
    return found


# -- what tags say ---------------------------------------------------------------------------------


def _kind(tags: Mapping[str, Any]) -> str:
    """Return the kind of a place: its tag `kind`, or what the tags of OpenStreetMap say."""
    if isinstance(own := tags.get("kind"), str):
        return own
    for key, kinds in _KINDS.items():
        value = tags.get(key)
        if isinstance(value, str) and value != "no":
            found = kinds.get(value) or kinds.get("*")
            if found:
                return found
    return ""


def _capacity(kind: str, tags: Mapping[str, Any]) -> int:
    for name, times in (("capacity", 1.0), ("beds", 1.0), ("building:flats", 2.5)):
        if (stated := _whole(tags.get(name))) is not None:
            return max(1, round(stated * times))
    if kind == "home" and tags.get("building") in ("apartments", "dormitory"):
        return _FLOOR * (_whole(tags.get("building:levels")) or 3)
    return _HOLDS.get(kind, 20)


def _whole(value: Any) -> int | None:
    try:
        return int(value) if int(value) >= 0 else None
    except (TypeError, ValueError):
        return None


def _hours(kind: str, tags: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first hours that the tags state, or those of the kind."""
    stated = str(tags.get("opening_hours", ""))
    if stated.strip() == "24/7":
        return 0, DAY_S
    if found := _TIMES.search(stated):
        a, b, c, d = map(int, found.groups())
        opens, closes = a * 3600 + b * 60, min(DAY_S, c * 3600 + d * 60)
        if opens != closes and opens < DAY_S:
            return opens, closes
    first, last = _HOURS_OF_PARKS if kind == "park" else _HOURS.get(kind, (0, 24))
    return first * 3600, last * 3600


def _ways(tags: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield which modes may use a line, and whether in its direction alone."""
    highway = tags.get("highway", "road")
    if isinstance(own := tags.get("modes"), list | tuple):
        if strange := [each for each in own if each not in names]:
            near = nearest(str(strange[0]), names)
            raise ConfigError(f"there is no mode {excerpt(strange[0])}{near}")
        allowed = tuple(own)
    elif highway in _ANYONE:
        allowed = tuple(names)
    elif highway in _CARS:
        allowed = tuple(each for each in names if each not in ("walk", "cycle"))
    elif highway in _FEET:
        feet = ("walk",) if highway == "steps" else ("walk", "cycle")
        allowed = tuple(each for each in names if each in feet)
    else:
        return
    stated = str(tags.get("oneway", "")).lower()
    oneway = stated in ("yes", "true", "1", "-1") or (not stated and highway == "motorway")
    on_foot = tuple(each for each in allowed if each == "walk") if oneway else ()
    if on_foot:
        yield on_foot, False
    if rest := tuple(each for each in allowed if each not in on_foot):
        yield rest, oneway


# -- a city ----------------------------------------------------------------------------------------


def city_of(
    found: Found, modes: Iterable[Mode], citizens: int | None, source: str
) -> tuple[list[Place], list[Road], dict[str, tuple[int, int]]]:
    """Return places, roads and road nodes, in metres from the middle of the map."""
    if citizens is not None:
        check_integer("citizens", citizens, 1, 10_000_000)
    names = [mode.name for mode in modes]
    lines = [
        (keys, spots, tags, ways)
        for keys, spots, tags in found.lines
        if len(keys) > 1 and (ways := list(_ways(tags, names)))
    ]
    if not lines:
        raise ConfigError(f"{source} has no roads: lines with a tag `highway`")
    kinds = [(spot, tags, _kind(tags)) for spot, tags in found.places]
    kinds = [each for each in kinds if each[2]]
    if not kinds:
        known = ", ".join(_KINDS)
        raise ConfigError(f"{source} has no places: points or areas with `kind`, or {known}")
    corners = [spot for _, spots, *_ in lines for spot in spots]
    middle = np.array(corners).mean(axis=0)
    scale = np.radians(1) * _EARTH_M * np.array([math.cos(math.radians(middle[1])), 1.0])

    def metres(spot: Spot) -> tuple[float, float]:
        x, y = (np.array(spot) - middle) * scale
        return float(x), float(y)

    roads, at = _roads(lines, metres)
    nodes = {f"n{key}": (round(x), round(y)) for key, (x, y) in at.items()}
    tree = package("scipy.spatial").cKDTree([at[key] for key in at])
    spots = [metres(spot) for spot, *_ in kinds]
    near = tree.query(spots)[1].tolist()
    keys = list(nodes)
    seats = [_capacity(kind, tags) for _, tags, kind in kinds]
    if citizens is not None:
        _make_room(seats, [kind for *_, kind in kinds], citizens, source)
    counts: Counter[str] = Counter()
    places = []
    for (_, tags, kind), (x, y), node, holds in zip(kinds, spots, near, seats, strict=True):
        counts[kind] += 1
        opens, closes = _hours(kind, tags)
        name = str(tags.get("name") or "")[:255]
        id = f"{kind}-{counts[kind]}"
        shown = name if name.isprintable() else ""
        places.append(Place(id, kind, round(x), round(y), holds, opens, closes, shown, keys[node]))
    return places, roads, nodes


def _make_room(seats: list[int], kinds: list[str], citizens: int, source: str) -> None:
    """Raise the capacity of homes, evenly, until so many citizens find one."""
    homes = [at for at, kind in enumerate(kinds) if kind == "home"]
    if not homes:
        raise ConfigError(f"{source} has no homes for {citizens:,} citizens")
    has = sum(seats[at] for at in homes)
    for at in homes:
        seats[at] = max(1, -(-seats[at] * citizens // max(1, has)))


def _roads(lines: Any, metres: Any) -> tuple[list[Road], dict[int, tuple[float, float]]]:
    """Return the roads between crossings and ends, of the largest part that is connected."""
    used = Counter(key for keys, *_ in lines for key in dict.fromkeys(keys))
    ends = {key for keys, *_ in lines for key in (keys[0], keys[-1])}
    numbers: dict[Any, int] = {}
    at: dict[int, tuple[float, float]] = {}
    shortest: dict[tuple[int, int, tuple[str, ...], bool], float] = {}
    for keys, spots, tags, ways in lines:
        points = [metres(spot) for spot in spots]
        start, length = None, 0.0
        for number, (key, point) in enumerate(zip(keys, points, strict=True)):
            if number:
                length += math.dist(point, points[number - 1])
            if used[key] < 2 and key not in ends:
                continue
            node = numbers.setdefault(key, len(numbers) + 1)
            at[node] = point
            if start is not None and start != node:
                back = str(tags.get("oneway", "")) == "-1"
                a, b = (node, start) if back else (start, node)
                for names, oneway in ways:
                    one = (a, b, names, oneway) if oneway else (min(a, b), max(a, b), names, False)
                    shortest[one] = min(length, shortest.get(one, math.inf))
            start, length = node, 0.0
    kept = _largest(list(shortest), len(numbers))
    roads = [
        Road(f"n{a}", f"n{b}", max(1, round(length)), names, oneway)
        for (a, b, names, oneway), length in shortest.items()
        if a in kept
    ]
    return roads, {node: spot for node, spot in at.items() if node in kept}


def _largest(links: list[tuple[int, int, Any, Any]], count: int) -> set[int]:
    """Return the nodes of the largest connected part."""
    sparse = package("scipy.sparse")
    a, b = (np.array([each[end] for each in links], np.int64) for end in (0, 1))
    graph = sparse.coo_array((np.ones(len(a)), (a, b)), shape=(count + 1, count + 1))
    _, part = sparse.csgraph.connected_components(graph, directed=False)
    sizes = np.bincount(part[1:]) if count else np.zeros(1)
    return set((np.flatnonzero(part[1:] == sizes.argmax()) + 1).tolist())
