"""A city: places on a graph of roads, travel times between them, and opening hours."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from os import PathLike
from types import MappingProxyType
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer, excerpt, names_checked
from moothall.society.arrays import Array, WholeNumber, np, sha256_of
from moothall.society.city.access import Access, connected_parts
from moothall.society.city.changed_roads import (
    RoadIndex,
    changed_access,
    changed_metres,
)
from moothall.society.city.generate import generate_town
from moothall.society.city.geo import city_parts, read_geojson, read_osm
from moothall.society.city.map import (
    MODES,
    Mode,
    Place,
    Road,
    canonical_json,
    checked_modes,
    checked_nodes,
    checked_roads,
    read_city,
)
from moothall.society.city.nearest import Nearest
from moothall.society.city.place_columns import PlaceColumns
from moothall.society.city.places import Near, NumberedPlaces
from moothall.society.city.routes import Roads, Route
from moothall.society.clock import DAY_S
from moothall.society.kernel.intervention import check_speeds
from moothall.society.kernel.kept import sets_own

_NO_SPEEDS: Final[Mapping[tuple[str, str], int]] = MappingProxyType({})


class City(NumberedPlaces):
    """Places on a graph of roads. It never changes; frequent queries are cached.

    A place is attached to a road node (`Place.node`), reached along x and y, or is a node itself.
    A route is the shortest in metres over the roads that the mode may use. Its time is the mode's
    wait plus the metres by its speed, in whole seconds, rounded up once. The arguments are
    attributes; places and nodes are in order of id. A `Place` is made when it is asked for.

    Args:
        places: the places of citizens; ids are unique
        roads: the edges between nodes and places: `Road`s, or tuples `(a, b, metres)`
        nodes: road nodes that are not places, with coordinates in metres: `{"n1": (0, 100)}`
        modes: the modes of travel; the first is the default
        snap: whether a place whose node has no way there and back by a mode is led to the nearest
            node that has: on foot, if there is the mode `walk`. Cities of maps are so

    Raises:
        ConfigError: an id occurs twice, a road or place leads to a node that does not exist, a road
            names an unknown mode, or a field is wrong.
    """

    _unknown = "the city has no place"
    closed: frozenset[str] = frozenset()
    """The places that an intervention has closed."""
    closed_roads: frozenset[tuple[str, str]] = frozenset()
    """The roads that are closed, as (id, mode)."""
    is_generated: bool = False
    """Whether `generate` has made it: maps draw its places at their streets."""

    @sets_own
    def __init__(
        self,
        places: Iterable[Place],
        roads: Iterable[Road | tuple[str, str, int]] = (),
        *,
        nodes: Mapping[str, tuple[int, int]] | None = None,
        modes: Iterable[Mode] = MODES,
        snap: bool = False,
    ) -> None:
        if type(snap) is not bool:
            raise ConfigError(f"snap must be a boolean, got {excerpt(snap)}")
        self.snap: bool = snap
        self._modes = checked_modes(modes)
        self.modes: tuple[Mode, ...] = tuple(self._modes.values())
        self.nodes: dict[str, tuple[int, int]] = checked_nodes(nodes or {})
        self.places: PlaceColumns = PlaceColumns(places, self.nodes)
        self._ids, self.place_numbers = self.places.ids, self.places.numbers
        self._kind_names, self._kind_numbers = self.places.kinds, self.places.kind
        self.roads: tuple[Road, ...] = checked_roads(
            roads, self._modes, self.nodes, self.places, self.place_numbers
        )
        # Road nodes come first, then the places that are nodes themselves.
        xy = np.stack([self.places.x, self.places.y], axis=1)
        own_nodes = np.flatnonzero(self.places.node < 0)
        self._node_ids = [*self.nodes, *(self._ids[each] for each in own_nodes.tolist())]
        spots = np.array([*self.nodes.values()], dtype=np.int64).reshape(-1, 2)
        self._spots = np.concatenate([spots, xy[own_nodes]])
        self._hang_rows = self.places.node.copy()
        self._hang_rows[own_nodes] = range(len(self.nodes), len(self._node_ids))
        self._edges: tuple[Array, Array] = self._numbered_roads()
        self._used: dict[str, Array] = {}  # by mode, which roads it may use
        self._access: dict[str, Access] = self._accesses(xy)
        rows = {kind: self._rows_of(kind) for kind in (*self.places.kinds, None)}
        self._nearest = Nearest(rows, self._spots)  # copies of a city share its tables

    @classmethod
    @names_checked
    def generate(
        cls,
        *,
        seed: int,
        citizens: int,
        households: Iterable[int] | None = None,
        modes: Iterable[Mode] = MODES,
    ) -> City:
        """Return a plausible town for 10 … 10,000,000 citizens: the same for the same arguments.

        Args:
            seed: the seed of the draws
            citizens: how many live in it: `moothall.society.city.generate` states how many places
                of each kind they have, and the sources
            households: the size of each home, such as of a table's households; drawn if left out
            modes: the modes of travel

        Raises:
            ConfigError: an argument is wrong, or households are not of so many citizens
        """
        places, roads, nodes = generate_town(seed, citizens, households)
        city = cls(places, roads, nodes=nodes, modes=modes)
        city.is_generated = True
        return city

    @classmethod
    def from_osm(
        cls,
        path: str | PathLike[str],
        *,
        citizens: int | None = None,
        modes: Iterable[Mode] = MODES,
    ) -> City:
        """Return the city of an extract of OpenStreetMap: `.osm.pbf`, or `.osm`.

        Ways with `highway` are roads, between their crossings; nodes and closed ways are places by
        their tags `building`, `amenity`, `shop`, `office`, `leisure`. Relations are left out. What
        tags do not state, such as most capacities, is assumed: see `moothall.society.city.geo`.

        Args:
            path: the file
            citizens: how many citizens are to find a home: capacities of homes are changed evenly,
                and those of others that no tag states raised to as many as a drawn town has
            modes: the modes of travel

        Raises:
            ConfigError: the file cannot be read, or has no roads, places or homes
            MissingExtra: osmium is not installed
        """
        parts = city_parts(read_osm(path), modes := tuple(modes), citizens, str(path))
        return cls(parts[0], parts[1], nodes=parts[2], modes=modes, snap=True)

    @classmethod
    def from_geojson(
        cls,
        source: str | PathLike[str] | Mapping[str, object],
        *,
        citizens: int | None = None,
        modes: Iterable[Mode] = MODES,
    ) -> City:
        """Return the city of GeoJSON, in longitude and latitude.

        Points and polygons are places: by their property `kind`, with `capacity`, `opening_hours`
        (`08:00-18:00`) and `name`, or by the tags of OpenStreetMap. Lines are roads, which meet in
        common corners, by `highway`, or `modes` and `oneway`.

        Args:
            source: the file, or its data: a FeatureCollection; a file may have a feature a line
            citizens: as of `from_osm`
            modes: the modes of travel

        Raises:
            ConfigError: it is not such data; the text names the feature
        """
        name = "GeoJSON" if isinstance(source, Mapping) else str(source)
        parts = city_parts(read_geojson(source), modes := tuple(modes), citizens, name)
        return cls(parts[0], parts[1], nodes=parts[2], modes=modes, snap=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> City:
        """Return the city of a text of `to_json`.

        Raises:
            ConfigError: it is not such a text; the error names the wrong field.
        """
        places, roads, nodes, modes, snap = read_city(text)
        return cls(places, roads, nodes=nodes, modes=modes, snap=snap)

    def to_json(self) -> str:
        """Return the city as JSON, in its canonical form: the same text for the same city."""
        return canonical_json(self.places, self.roads, self.nodes, self.modes, self.snap)

    @functools.cached_property
    def sha256(self) -> str:
        """The SHA-256 of the canonical JSON, in hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @functools.cached_property
    def digest(self) -> str:
        """A hash of all that a run depends on; of a large city made far sooner than `sha256`."""
        places, roads = self.places, [each.as_tuple() for each in self.roads]
        parts = (self.modes, [*self.nodes.items()], roads, places.kinds, self.snap)
        columns = (places.x, places.y, places.capacity, places.opens, places.closes)
        hashes = [sha256_of(each) for each in (*columns, places.node, places.kind)]
        return hashlib.sha256(repr((parts, hashes)).encode()).hexdigest()

    def _numbered_roads(self) -> tuple[Array, Array]:
        """Return the roads as numbers of nodes and metres, and which are for one way."""
        index = {node: number for number, node in enumerate(self._node_ids)}
        edges = np.array(
            [(index[road.a], index[road.b], road.metres) for road in self.roads], dtype=np.int64
        ).reshape(-1, 3)
        return edges, np.array([road.oneway for road in self.roads], dtype=bool)

    def _accesses(self, xy: Array) -> dict[str, Access]:
        """Return the roads of each mode as places reach them; modes with equal roads share one."""
        edges, oneway = self._edges
        snap: tuple[Any, ...] = ()
        if self.snap:
            parts = connected_parts(Roads(edges, oneway, self._spots).matrix)
            snap = (self.places.node >= 0, parts, self._modes.get("walk"))
        shared: dict[bytes, Access] = {}
        by_mode = {}
        for mode in self._modes:
            is_used = self._used[mode] = np.array(
                [road.modes is None or mode in road.modes for road in self.roads], dtype=bool
            )
            if (key := is_used.tobytes()) not in shared:
                roads = Roads(edges[is_used], oneway[is_used], self._spots)
                shared[key] = Access(roads, self._hang_rows, xy, self._spots, *snap)
            by_mode[mode] = shared[key]
        return by_mode

    # -- changed roads -----------------------------------------------------------------------------

    @functools.cached_property
    def road_index(self) -> RoadIndex:
        """The roads by their ids, names and ends."""
        return RoadIndex(self.roads)

    def with_roads(
        self,
        closed: Collection[tuple[str, str]] = (),
        speeds: Mapping[tuple[str, str], int] = _NO_SPEEDS,
    ) -> City:
        """Return the city while some roads are closed or slow; all else is shared with it.

        Args:
            closed: the closed roads, as (id, mode)
            speeds: the speed on roads in percent of the usual one, by (id, mode): in `metres`, a
                road at 50 counts as twice as long

        Raises:
            ConfigError: there is no such road or mode, or a speed is wrong
        """
        closed = frozenset(closed)
        check_speeds(speeds)
        for id, mode in (*closed, *speeds):
            self._mode_of(mode)
            self.road_index.ids_of([id])
        city = copy(self)
        city.closed_roads, city._access = closed, {}
        city._nearest = Nearest(*self._nearest.parts, usual=self._nearest)
        shared: dict[tuple[Access, bytes, bytes], Access] = {}
        edges, oneway = self._edges
        for mode, access in self._access.items():
            is_used = self._used[mode]
            parts = (edges[:, 2], self.road_index, mode, closed, speeds)
            is_closed, metres = changed_metres(*parts)
            is_closed &= is_used
            is_changed = is_closed | (is_used & (metres != edges[:, 2]))
            if is_changed.any():
                key = access, is_closed.tobytes(), metres[is_used].tobytes()
                if key not in shared:
                    is_open = is_used & ~is_closed
                    new_edges = np.column_stack([edges[is_open, :2], metres[is_open]])
                    shared[key] = changed_access(access, new_edges, oneway[is_open])
                access = shared[key]
            city._access[mode] = access
        return city

    def have_ways(self, place: Array, to: Array) -> Array:
        """Return whether there is a way from each place to another by any mode; booleans."""
        has_way: Array = place == to
        for access in dict.fromkeys(self._access.values()):
            rest = np.flatnonzero(~has_way)
            has_way[rest] = access.has_way(place[rest], to[rest])
        return has_way

    # -- places ------------------------------------------------------------------------------------

    def __getitem__(self, place: str) -> Place:
        row: Place = self.places[self._number_of(place)]
        return row

    def __repr__(self) -> str:
        return f"<City of {len(self)} places, {len(self.roads)} roads>"

    def capacity(self, place: str) -> int:
        """Return how many citizens a place holds at a time."""
        return int(self.places.capacity.item(self._number_of(place)))

    def is_open(self, place: str, time: int) -> bool:
        """Return whether a place is open, `time` seconds after midnight (of any day)."""
        number, (opens, duration) = self._number_of(place), self._hours
        check_integer("time", time, 0, None)
        return bool((time - opens.item(number)) % DAY_S < duration.item(number))

    def position(self, place: str) -> tuple[int, int]:
        """Return x and y in metres, of a place or of a road node."""
        if place in self.nodes:
            return self.nodes[place]
        number = self._number_of(place)
        return self.places.x.item(number), self.places.y.item(number)

    # -- routes ------------------------------------------------------------------------------------

    def metres(self, a: str, b: str, mode: str | None = None) -> int | None:
        """Return the metres of the shortest route from `a` to `b`, or None."""
        start, end = self._number_of(a), self._number_of(b)
        access = self._access[self._mode_of(mode).name]
        metres = 0 if start == end else access.metres_between(start, end)
        return None if metres < 0 else metres

    def seconds(self, a: str, b: str, mode: str | None = None) -> int | None:
        """Return the whole seconds from `a` to `b`; 0 if they are equal; None without a route.

        Raises:
            ConfigError: a place or the mode does not exist.
        """
        metres = self.metres(a, b, mode)
        if metres is None or a == b:
            return metres
        chosen, ends = self._mode_of(mode), (self._number_of(a), self._number_of(b))
        return int(self._access[chosen.name].seconds(chosen, metres, *ends))

    def route(self, a: str, b: str, mode: str | None = None) -> Route | None:
        """Return the shortest route from `a` to `b`, or None."""
        metres = self.metres(a, b, mode)
        if metres is None:
            return None
        if a == b:
            return Route((a,), 0, 0)
        access = self._access[self._mode_of(mode).name]
        ends = (access.node.item(self._number_of(each)) for each in (a, b))
        nodes = [self._node_ids[node] for node in access.roads.find_route(*ends) or ()]
        first, last = [a] if nodes[0] != a else [], [b] if nodes[-1] != b else []
        return Route((*first, *nodes, *last), self.seconds(a, b, mode) or 0, metres)

    def near(
        self, place: str, kind: str | None = None, limit: int = 10, mode: str | None = None
    ) -> tuple[Near, ...]:
        """Return the nearest reachable other places, with the seconds to each.

        Args:
            place: the start
            kind: the kind of the places; None for all kinds
            limit: the number of places at most
            mode: the mode of travel; None for the default

        Distances are compared in metres; ties are in order of id.
        """
        check_integer("limit", limit, 1, None)
        limit = min(limit, len(self))
        number, chosen = self._number_of(place), self._mode_of(mode)
        access = self._access[chosen.name]
        node, walk_metres = access.node.item(number), access.walk_m.item(number)
        table = self._nearest.table(access, kind, limit)
        nearest = [
            Near(self._ids[each], int(access.seconds(chosen, metres + walk_metres, number, each)))
            for each, metres in zip(*(ranks[:, node].tolist() for ranks in table), strict=True)
            if each not in (-1, number)
        ]
        return tuple(nearest[:limit])

    # -- queries of many places at once, by their numbers in `ids()` -------------------------------

    def capacity_rows(self) -> Array:
        """Return the capacity of each place; int64."""
        return self.places.capacity

    def by_area(self, places: Array) -> Array:
        """Return an order of places in which neighbouring places are close.

        It is Morton's order (1966): the bits of x and y alternate, in steps of 50 m.
        """
        x, y = (self._spots[self._hang_rows[places]] - self._spots.min(axis=0)).T // 50
        key = np.zeros(len(x), np.int64)
        for bit in range(19):
            key |= (x >> bit & 1) << (2 * bit) | (y >> bit & 1) << (2 * bit + 1)
        return np.lexsort((places, key))

    def open_rows(self, time: WholeNumber, places: Array | slice | None = None) -> Array:
        """Return for each place whether it is open; booleans.

        Args:
            time: seconds after midnight; whole numbers, broadcast against the places
            places: the places; all if left out
        """
        if np.max(time, initial=0) >= DAY_S or np.min(time, initial=0) < 0:
            time = time % DAY_S
        opens, durations = self._hours
        if places is not None:
            opens, durations = opens[places], durations[places]
        seconds_open = np.asarray(time).astype(np.int32) - opens
        seconds_open += (seconds_open < 0) * np.int32(DAY_S)
        is_open: Array = seconds_open < durations
        if self.closed:
            is_shut = np.zeros(len(self.places), bool)
            is_shut[[self.place_numbers[each] for each in self.closed]] = True
            is_open &= ~(is_shut if places is None else is_shut[places])
        return is_open

    def ways_rows(self, place: Array, to: Array, modes: Sequence[str | None]) -> Array:
        """Return the seconds of routes by each mode; int64, (n, n_modes), −1 without a route."""
        ways = np.empty((len(place), len(modes)), np.int64, order="F")
        metres_of: dict[Access, Array] = {}  # modes that use the same roads share the metres
        for number, mode in enumerate(map(self._mode_of, modes)):
            access = self._access[mode.name]
            if access not in metres_of:
                metres_of[access] = access.metres(place, to)
            metres = metres_of[access]
            seconds = access.seconds(mode, metres, place, to)
            ways[:, number] = np.where(metres < 0, -1, seconds)
        ways[place == to] = 0
        return ways

    def near_rows(
        self, place: Array, kind: str, limit: int = 10, mode: str | None = None
    ) -> tuple[Array, Array]:
        """Return the results of `near` for each place: places (−1: no more) and seconds.

        Returns:
            two arrays of whole numbers, (n, limit), the nearest first; their `.T` is contiguous
        """
        chosen = self._mode_of(mode)
        access = self._access[chosen.name]
        places, metres = self._nearest.table(access, kind, limit)
        place = np.asarray(place)
        node = access.node[place]
        near, far = places.take(node, axis=1), metres.take(node, axis=1)
        number = [*self._kind_names, kind].index(kind)
        alike = np.flatnonzero(self.places.kind[place] == number)
        if len(alike):  # a place is not near itself: drop it, the others move up
            after = np.logical_or.accumulate(near[:, alike] == place[alike], axis=0)[:-1]
            for each in (near, far):
                each[:-1, alike] = np.where(after, each[1:, alike], each[:-1, alike])
        near = near[:-1]
        seconds = access.seconds(chosen, far[:-1] + access.walk_m[place], place, near)
        seconds *= near >= 0
        return near.T, seconds.T

    def keep_near(self, kinds: Collection[str], limit: int) -> None:
        """Make the tables of routes and of `limit` near places of some kinds."""
        for kind in kinds:
            self._nearest.table(self._access[self.modes[0].name], kind, limit)
        for access in self._access.values():
            access.metres(np.zeros(1, int), np.zeros(1, int))

    @functools.cached_property
    def _hours(self) -> tuple[Array, Array]:
        """The second at which each place opens, and for how many seconds."""
        durations = self.places.closes - self.places.opens
        return self.places.opens, np.where(durations % DAY_S, durations % DAY_S, DAY_S)

    # -- lookups -----------------------------------------------------------------------------------

    def _mode_of(self, mode: str | None) -> Mode:
        if mode is None:
            return self.modes[0]
        try:
            return self._modes[mode]
        except (KeyError, TypeError):
            names = ", ".join(self._modes)
            raise ConfigError(f"mode must be one of {names}; got {excerpt(mode)}") from None
