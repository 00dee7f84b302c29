"""Cities of maps: places and roads in degrees, by the tags of OpenStreetMap, as places in metres.

What tags mean, and the capacity and hours of a place that states none, are assumed (`tags.py`):
homes of 3 residents, or 8 a storey of a block of flats; the usual hours of a kind; for so many
citizens at least as much work, school and trade as a drawn town has. Only the largest
connected part of the roads is kept.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError
from moothall.build import UnreadableText, check_integer, error_text, excerpt, read_json
from moothall.society.arrays import import_package, np
from moothall.society.city.access import connected_parts
from moothall.society.city.generate import HOUSEHOLD_SIZES
from moothall.society.city.map import Mode, Place, Road
from moothall.society.city.tags import (
    KINDS_BY_TAG,
    SEATS,
    hours_of,
    is_road,
    modes_and_directions,
    place_kind,
    printable_name,
    stated_capacity,
    street_name,
    usual_capacity,
)
from moothall.society.kernel.draw import choices, integers

logger: logging.Logger = logging.getLogger("moothall.society")

Spot = tuple[float, float]
"""Longitude and latitude, in degrees."""
_SHAPES: Final = tuple(
    f"{prefix}{shape}" for prefix in ("", "Multi") for shape in ("Point", "LineString", "Polygon")
)
_EARTH_M: Final = 6_371_000
_MAX_DEGREES: Final = 10  # degrees between corners of a road, which are 1,000 km
_CRS: Final = re.compile(r"EPSG:+(?:[0-9.]*:)?([0-9]+)")
_LIST_ITEM: Final = re.compile(r"""(['"])(.*?)\1""")
_FLATS: Final = 10  # residents of four households, of one to four
_MUCH: Final = 0.1  # of the metres of roads, which few maps leave out
_FAR_M: Final = 1600  # metres from a place to a road: R5 links none that are farther


@dataclass
class MapFeatures:
    """What a map has: places with their tags, and lines of nodes."""

    places: list[tuple[Spot, Mapping[str, Any]]] = field(default_factory=list)
    lines: list[tuple[list[Any], list[Spot], Mapping[str, Any]]] = field(default_factory=list)

    eastwards: bool = False  # whether longitudes go on beyond 180 degrees, across the date line

    def crosses_date_line(self) -> bool:
        """Return whether it has longitudes on both sides of 180 degrees."""
        spots = [spot for spot, _ in self.places]
        spots += [spot for _, line, _ in self.lines for spot in line]
        longitudes = [spot[0] for spot in spots]
        return bool(spots) and max(longitudes) - min(longitudes) > 180

    def spot(self, coordinates: Any) -> Spot:
        """Return coordinates as a spot. Raises ValueError: they are no longitude and latitude."""
        lon, lat = float(coordinates[0]), float(coordinates[1])
        if not (-180 <= lon <= 180 and -90 <= lat <= 90):
            raise ValueError(f"({lon:g}, {lat:g}) is no longitude and latitude (EPSG:4326)")
        return lon + 360 if self.eastwards and lon < 0 else lon, lat

    def add_area(self, ring: Sequence[Spot], tags: Mapping[str, object]) -> None:
        """Add a place in the middle of an area's corners."""
        corners = list(dict.fromkeys(ring)) or list(ring)
        middle = tuple(math.fsum(each[axis] for each in corners) / len(corners) for axis in (0, 1))
        self.places.append(((middle[0], middle[1]), tags))


# -- the sources -----------------------------------------------------------------------------------


def read_geojson(source: str | PathLike[str] | Mapping[str, object]) -> MapFeatures:
    """Return the features of GeoJSON: a file, of one feature a line too, or its data."""
    data: Any = source
    name = "GeoJSON"
    if not isinstance(source, Mapping):
        if not isinstance(source, str | PathLike):
            raise ConfigError(f"GeoJSON must be a file's path or its data, got {excerpt(source)}")
        name = str(source)
        try:
            data = _parse_json(Path(source).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
        except (UnreadableText, UnicodeDecodeError) as error:
            raise ConfigError(f"{name} is not JSON: {error_text(error)}") from None
    features = data.get("features") if isinstance(data, Mapping) else None
    if not isinstance(features, list):
        raise ConfigError(f"{name} must be a FeatureCollection with a list of features")
    if (crs := _CRS.search(str(data.get("crs") or ""))) and not 4000 <= int(crs[1]) < 5000:
        raise ConfigError(
            f"{name} is in EPSG:{crs[1]}, and must be in longitude and latitude (EPSG:4326)"
        )
    collected = _collect_features(features, name)
    if collected.crosses_date_line():
        collected = _collect_features(features, name, MapFeatures(eastwards=True))
    for _, spots, tags in collected.lines:
        if is_road(tags) and any(math.dist(*ends) > _MAX_DEGREES for ends in pairwise(spots)):
            raise ConfigError(
                f"{name} has a road with corners more than {_MAX_DEGREES} degrees apart: "
                "coordinates must be longitude and latitude (EPSG:4326), not metres"
            )
    return collected


def _parse_json(text: str) -> Any:
    """Return JSON; of a feature a line, or after each record separator (RFC 8142), all of them."""
    separator = "\x1e" if "\x1e" in text else "\n"
    parts = [part for part in text.split(separator) if part.strip()]
    try:
        return read_json(text)
    except UnreadableText:
        if separator == "\n" and not (parts and parts[0].rstrip().endswith("}")):
            raise
    return {"features": [read_json(part) for part in parts]}


def _collect_features(
    features: list[Any], name: str, collected: MapFeatures | None = None
) -> MapFeatures:
    """Return features as places and lines. Raises ConfigError: one cannot be used."""
    collected = collected or MapFeatures()
    for number, feature in enumerate(features):
        try:
            geometry, properties = feature["geometry"], feature.get("properties") or {}
            if geometry is not None:  # a feature without a place (RFC 7946, 3.2)
                # OSMnx lists the tags of ways that it has joined; `modes` is a list of ours.
                tags = {key: _as_tag(value) for key, value in properties.items()}
                lists = {k for k, v in tags.items() if isinstance(v, list) and v} - {"modes"}
                tags = {**tags, **{each: tags[each][0] for each in lists}}
                _add_geometry(collected, geometry, tags)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            reason = f"cannot be used: {error_text(error)}"
            raise ConfigError(f"{name}: features[{number}] {reason}") from None
    return collected


def _as_tag(value: object) -> Any:
    """Return a tag; a list of texts as GeoPandas writes it to a file, `['a', 'b']`, as a list."""
    if isinstance(value, str) and value[:2] in ("['", '["') and value.endswith("]"):
        return [item for _, item in _LIST_ITEM.findall(value)]
    return value


def _add_geometry(collected: MapFeatures, geometry: Any, tags: Mapping[str, Any]) -> None:
    kind = geometry["type"]
    if kind == "GeometryCollection":
        for each in geometry["geometries"]:
            _add_geometry(collected, each, tags)
        return
    coordinates = geometry["coordinates"]
    if kind not in _SHAPES:
        raise ValueError(f"geometry {kind!r:.40} is neither points, lines nor polygons")
    if not coordinates or (kind == "Polygon" and not coordinates[0]):
        return  # empty coordinates are no place either (RFC 7946, 3.1)
    if kind == "Point":
        collected.places.append((collected.spot(coordinates), tags))
    elif kind == "Polygon":
        collected.add_area([collected.spot(each) for each in coordinates[0]], tags)
    elif kind == "LineString":
        spots = [collected.spot(each) for each in coordinates]
        # Lines meet where they have the same corner, to a centimetre.
        collected.lines.append(([tuple(round(x, 7) for x in each) for each in spots], spots, tags))
    else:
        for part in coordinates:
            each = {"type": kind.removeprefix("Multi"), "coordinates": part}
            _add_geometry(collected, each, tags)


def read_osm(path: str | PathLike[str]) -> MapFeatures:
    """Return the tagged nodes and ways of an extract of OpenStreetMap, `.osm.pbf` or `.osm`."""
    osmium = import_package("osmium", "City.from_osm", "osm")
    if not Path(path).is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    try:
        collected = _collect_extract(osmium, str(path), MapFeatures())
        if collected.crosses_date_line():
            collected = _collect_extract(osmium, str(path), MapFeatures(eastwards=True))
    except (RuntimeError, osmium.InvalidLocationError) as error:
        raise ConfigError(f"{path} is not an extract of OpenStreetMap: {error}") from None
    return collected


def _collect_extract(osmium: Any, path: str, collected: MapFeatures) -> MapFeatures:
    for each in osmium.FileProcessor(path).with_locations().with_areas():
        tags = {tag.k: tag.v for tag in each.tags} if len(each.tags) else {}
        if not tags:
            continue
        if each.is_node() and place_kind(tags):
            collected.places.append((collected.spot((each.location.lon, each.location.lat)), tags))
        elif each.is_way():
            nodes = [node for node in each.nodes if node.location.valid()]
            spots = [collected.spot((e.location.lon, e.location.lat)) for e in nodes]
            is_line = "highway" in tags or tags.get("route") == "ferry"
            if is_line and tags.get("area") != "yes":
                collected.lines.append(([node.ref for node in nodes], spots, tags))
            elif spots and place_kind(tags):
                collected.add_area(spots, tags)
        elif each.is_area() and not each.from_way() and place_kind(tags):
            for ring in each.outer_rings():
                collected.add_area([collected.spot((e.lon, e.lat)) for e in ring], tags)
                break  # a relation is one place
    return collected


# -- a city ----------------------------------------------------------------------------------------


def city_parts(
    collected: MapFeatures, modes: Iterable[Mode], citizens: int | None, source: str
) -> tuple[list[Place], list[Road], dict[str, tuple[int, int]]]:
    """Return places, roads and road nodes, in metres from the middle of the map."""
    if citizens is not None:
        check_integer("citizens", citizens, 1, 10_000_000)
    names = [mode.name for mode in modes]
    lines = [
        (keys, spots, ways, street_name(tags))
        for keys, spots, tags in collected.lines
        if len(keys) > 1 and is_road(tags) and (ways := list(modes_and_directions(tags, names)))
    ]
    if not lines:
        raise ConfigError(f"{source} has no roads: lines with a tag `highway`")
    tagged = [(spot, tags, place_kind(tags)) for spot, tags in collected.places]
    tagged = [each for each in tagged if each[2]]
    if not tagged:
        tag_names = ", ".join(KINDS_BY_TAG)
        raise ConfigError(f"{source} has no places: points or areas with `kind`, or {tag_names}")
    corners = [spot for _, spots, *_ in lines for spot in spots]
    middle = np.array(corners).mean(axis=0)
    scale = np.radians(1) * _EARTH_M * np.array([math.cos(math.radians(middle[1])), 1.0])

    def metres(spot: Spot) -> tuple[float, float]:
        x, y = (np.array(spot) - middle) * scale
        return float(x), float(y)

    roads, node_positions = _roads(lines, metres, source)
    nodes = {f"n{key}": (round(x), round(y)) for key, (x, y) in node_positions.items()}
    tree = import_package("scipy.spatial").cKDTree([node_positions[key] for key in node_positions])
    spots = [metres(spot) for spot, *_ in tagged]
    distances, nearest = (each.tolist() for each in tree.query(spots))
    node_ids = list(nodes)
    map_seats = [stated_capacity(tags) for _, tags, _ in tagged]
    seats = [
        usual_capacity(kind, tags) if seat is None else seat
        for (_, tags, kind), seat in zip(tagged, map_seats, strict=True)
    ]
    if citizens is not None:
        _make_room(seats, [kind for *_, kind in tagged], map_seats, citizens, source)
    counts: Counter[str] = Counter()
    places = []
    for (_, tags, kind), (x, y), node, capacity in zip(tagged, spots, nearest, seats, strict=True):
        counts[kind] += 1
        opens, closes = hours_of(kind, tags)
        id, label = f"{kind}-{counts[kind]}", printable_name(tags.get("name"))
        places.append(
            Place(id, kind, round(x), round(y), capacity, opens, closes, label, node_ids[node])
        )
    _warn_of_far_places([place.id for place in places], distances, source)
    return places, roads, nodes


def _warn_of_far_places(ids: list[str], distances: list[float], source: str) -> None:
    """Name the places that no road leads near, such as those of an island."""
    far_places = [
        f"{id} ({metres:,.0f} m)"
        for id, metres in zip(ids, distances, strict=True)
        if metres > _FAR_M
    ]
    if far_places:
        more = f" and {len(far_places) - 3:,} more" if len(far_places) > 3 else ""
        reason = f"farther than {_FAR_M:,} m from the largest connected part of the roads"
        logger.warning(
            "%s: %s%s: %s; a way there is on foot", source, ", ".join(far_places[:3]), more, reason
        )


def _make_room(
    seats: list[int], kinds: list[str], map_seats: list[int | None], citizens: int, source: str
) -> None:
    """Change capacities: of homes for so many citizens, of others where a map states none.

    A house has a household of the usual size, or several; a map has few of the firms of a country.
    """
    homes = [index for index, kind in enumerate(kinds) if kind == "home"]
    if not homes:
        raise ConfigError(f"{source} has no homes for {citizens:,} citizens")
    usual = usual_capacity("home", {})
    houses = [index for index in homes if map_seats[index] is None and seats[index] == usual]
    numbers = np.arange(len(houses), dtype=np.uint64)
    sizes = 1 + choices(HOUSEHOLD_SIZES, 0, numbers, 0, "map.house")
    for index, size in zip(houses, sizes.tolist(), strict=True):
        seats[index] = size
    home_capacity = sum(seats[index] for index in homes)
    order = np.argsort(integers(0, numbers, 0, "map.flats"), kind="stable").tolist()
    for number in order:  # one household of so many would be no family
        if home_capacity < citizens:
            home_capacity += _FLATS - seats[houses[number]]
            seats[houses[number]] = _FLATS
    if houses:
        tens, rest = divmod(max(0, -(-(citizens - home_capacity) // _FLATS)), len(houses))
        for turn, number in enumerate(order):
            seats[houses[number]] += _FLATS * (tens + (turn < rest))
    else:
        for index in homes:
            seats[index] = max(1, -(-seats[index] * citizens // max(1, home_capacity)))
    for kind, share in SEATS.items():
        places = [index for index, each in enumerate(kinds) if each == kind]
        assumed = [index for index in places if map_seats[index] is None]
        lacks = citizens * share // 1000 - sum(seats[index] for index in places)
        usual = sum(seats[index] for index in assumed)
        for index in assumed if lacks > 0 else ():
            seats[index] += -(-seats[index] * lacks // usual)


def _roads(
    lines: Any, metres: Any, source: str
) -> tuple[list[Road], dict[int, tuple[float, float]]]:
    """Return the roads between crossings and ends, of the largest part that is connected."""
    line_counts = Counter(key for keys, *_ in lines for key in dict.fromkeys(keys))
    ends = {key for keys, *_ in lines for key in (keys[0], keys[-1])}
    numbers: dict[Any, int] = {}
    positions: dict[int, tuple[float, float]] = {}
    shortest: dict[tuple[int, int, tuple[str, ...], bool], tuple[float, str]] = {}
    for keys, spots, ways, name in lines:
        points = [metres(spot) for spot in spots]
        start, length = None, 0.0
        for number, (key, point) in enumerate(zip(keys, points, strict=True)):
            if number:
                length += math.dist(point, points[number - 1])
            if line_counts[key] < 2 and key not in ends:
                continue
            node = numbers.setdefault(key, len(numbers) + 1)
            positions[node] = point
            if start is not None and start != node:
                for names, direction in ways:
                    a, b = (node, start) if direction < 0 else (start, node)
                    a, b = (a, b) if direction else (min(a, b), max(a, b))
                    edge = (a, b, names, direction != 0)
                    if edge not in shortest or length < shortest[edge][0]:
                        shortest[edge] = length, name
            start, length = node, 0.0
    largest = _largest_part(list(shortest), len(numbers))
    roads = [
        Road(f"n{a}", f"n{b}", max(1, round(length)), names, oneway, name=name)
        for (a, b, names, oneway), (length, name) in shortest.items()
        if a in largest
    ]
    all_metres = sum(length for length, _ in shortest.values())
    if (metres_left_out := all_metres - sum(road.metres for road in roads)) > all_metres * _MUCH:
        logger.warning(
            "%s: %s m of %s m of roads are left out: they are not connected to the largest part; "
            "let lines share the points where they cross",
            *(source, f"{metres_left_out:,.0f}", f"{all_metres:,.0f}"),
        )
    return roads, {node: spot for node, spot in positions.items() if node in largest}


def _largest_part(links: list[tuple[int, int, Any, Any]], count: int) -> set[int]:
    """Return the nodes of the largest connected part."""
    a, b = (np.array([each[end] for each in links], np.int64) for end in (0, 1))
    shape = (count + 1, count + 1)
    part = connected_parts(
        import_package("scipy.sparse").coo_array((np.ones(len(a)), (a, b)), shape=shape)
    )
    sizes = np.bincount(part[1:]) if count else np.zeros(1)
    return set((np.flatnonzero(part[1:] == sizes.argmax()) + 1).tolist())
