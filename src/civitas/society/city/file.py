"""What a city is made of, checked together, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from civitas.errors import ConfigError
from civitas.society.city.map import Mode, Place, Road, check_integer, check_text
from civitas.text import error_text, excerpt

T = TypeVar("T", Place, Road, Mode)

_FORMAT = "civitas.city/1"
_FARTHEST = 10_000_000


def unique(what: str, parts: Iterable[T], kind: type[T], key: str) -> dict[str, T]:
    """Return parts of a kind by their id or name, which is there once."""
    found: dict[str, T] = {}
    for number, part in enumerate(parts):
        if not isinstance(part, kind):
            raise ConfigError(f"{what}[{number}] must be a {kind.__name__}, got {excerpt(part)}")
        name = getattr(part, key)
        if name in found:
            raise ConfigError(f"{what}[{number}]: {key} {excerpt(name)} is there twice")
        found[name] = part
    return found


def checked_nodes(
    nodes: Mapping[str, tuple[int, int]], places: Mapping[str, Place]
) -> dict[str, tuple[int, int]]:
    """Return road nodes by id, in order of id; every place's node is there."""
    if not isinstance(nodes, Mapping):
        raise ConfigError(f"nodes must map ids to (x, y), got {excerpt(nodes)}")
    found = {}
    for node, spot in nodes.items():
        check_text("nodes: an id", node)
        if node in places:
            raise ConfigError(f"nodes: {excerpt(node)} is the id of a place too")
        if not isinstance(spot, (tuple, list)) or len(spot) != 2:
            raise ConfigError(f"nodes: {excerpt(node)}: must be (x, y), got {excerpt(spot)}")
        for axis, value in zip("xy", spot, strict=True):
            check_integer(f"nodes: {excerpt(node)}: {axis}", value, -_FARTHEST, _FARTHEST)
        found[node] = (spot[0], spot[1])
    for place in places.values():
        if place.node is not None and place.node not in found:
            raise ConfigError(
                f"place {excerpt(place.id)}: node {excerpt(place.node)} does not exist: add it to "
                "nodes, or leave it out, so that roads lead to the place itself"
            )
    return dict(sorted(found.items()))


def checked_roads(
    roads: Iterable[Road | tuple[str, str, int]],
    modes: Mapping[str, Mode],
    nodes: Mapping[str, Any],
    places: Mapping[str, Place],
) -> tuple[Road, ...]:
    """Return roads, which lead from node to node, for modes that exist."""
    found = []
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
            where = f"roads[{number}]: {excerpt(road.a)}–{excerpt(road.b)} leads to {excerpt(end)}"
            if end not in places:
                raise ConfigError(f"{where}, which is no node and no place")
            if places[end].node is not None:
                hangs = excerpt(places[end].node)
                raise ConfigError(f"{where}, a place that hangs on node {hangs}: lead it there")
        for mode in road.modes or ():
            if mode not in modes:
                known = ", ".join(modes)
                raise ConfigError(f"roads[{number}]: mode {excerpt(mode)} is not one of {known}")
        found.append(road)
    return tuple(found)


def written(
    places: Iterable[Place],
    roads: Iterable[Road],
    nodes: Mapping[str, tuple[int, int]],
    modes: Iterable[Mode],
) -> str:
    """Return a city's canonical JSON: the same text for the same city."""
    data = {
        "format": _FORMAT,
        "modes": [_row(mode) for mode in modes],
        "nodes": nodes,
        "places": [_row(place) for place in places],
        "roads": [_row(road) for road in roads],
    }
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def read(
    text: str | bytes,
) -> tuple[list[Place], list[Road], dict[str, tuple[int, int]], list[Mode]]:
    """Return the places, roads, nodes and modes of a city's JSON; ConfigError names the field."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"the city is not JSON: {error_text(error)}") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ConfigError(f"format must be {excerpt(_FORMAT)}: this is not a city's JSON")
    _same_fields("", data, {"format", "modes", "nodes", "places", "roads"})
    if not isinstance(data["nodes"], dict):
        raise ConfigError(f"nodes must be an object, got {excerpt(data['nodes'])}")
    return (
        _read_rows("places", data["places"], Place),
        _read_rows("roads", data["roads"], Road),
        data["nodes"],
        _read_rows("modes", data["modes"], Mode),
    )


def _row(part: Place | Road | Mode) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__slots__}


def _read_rows(what: str, rows: object, kind: type[T]) -> list[T]:
    if not isinstance(rows, list):
        raise ConfigError(f"{what} must be an array, got {excerpt(rows)}")
    expected = set(kind.__slots__)
    found = []
    for number, row in enumerate(rows):
        where = f"{what}[{number}]"
        if not isinstance(row, dict):
            raise ConfigError(f"{where} must be an object, got {excerpt(row)}")
        _same_fields(f"{where}.", row, expected)
        try:
            found.append(kind(**row))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    return found


def _same_fields(where: str, row: dict[str, Any], expected: set[str]) -> None:
    if row.keys() == expected:
        return
    for name in sorted(row.keys() - expected):
        raise ConfigError(f"{where}{excerpt(name)} is not a field: remove it")
    for name in sorted(expected - row.keys()):
        raise ConfigError(f"{where}{name} is missing")
