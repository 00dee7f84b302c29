"""What a city says of many places at once: exactly what it says of one, from tables made once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from civitas.clock import DAY_S
from civitas.society.arrays import csgraph, numpy
from civitas.society.city.map import Mode, Place
from civitas.society.city.routes import WHOLE, Roads

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT_ONCE: Final = 1 << 22
_FARTHEST: Final = 1 << 32


class CityRows:
    """The part of a `City` that answers for rows; places are their numbers in `city.ids()`."""

    closed: frozenset[str] = frozenset()
    """The places that an intervention has closed."""
    _graphs: dict[str, Roads]
    _modes: dict[str, Mode]
    places: tuple[Place, ...]
    place_numbers: dict[str, int]
    """The number of each place in `ids()`."""
    _kind_rows: dict[str, Any]
    _hang_rows: Any
    _access_rows: Any
    _spots: Any
    _made: dict[Any, Any]

    def kind_rows(self) -> NDArray[Any]:
        """Return each place's kind as its number in `kinds()`; int16."""
        np = numpy()
        made = self._made.get("kinds")
        if made is None:
            made = np.zeros(len(self.places), np.int16)
            for number, rows in enumerate(self._kind_rows.values()):
                made[rows] = number
            self._made["kinds"] = made
        return made

    def capacity_rows(self) -> NDArray[Any]:
        """Return how many citizens each place holds; int64."""
        if "capacity" not in self._made:
            holds = (place.capacity for place in self.places)
            self._made["capacity"] = numpy().fromiter(holds, "int64", len(self.places))
        return self._made["capacity"]

    def by_area(self, places: Any) -> NDArray[Any]:
        """Return the order of places in which those that are near each other follow one another.

        It is that of Morton 1966: the bits of x and y in turn, in steps of 50 m.
        """
        np = numpy()
        x, y = (self._spots[self._hang_rows[places]] - self._spots.min(axis=0)).T // 50
        key = np.zeros(len(x), np.int64)
        for bit in range(19):
            key |= (x >> bit & 1) << (2 * bit) | (y >> bit & 1) << (2 * bit + 1)
        return np.lexsort((places, key))

    def open_rows(self, time: Any, places: Any = None) -> NDArray[Any]:
        """Return of each place whether it is open; booleans.

        Args:
            time: seconds after midnight; whole numbers, broadcast against the places
            places: which places; all if left out
        """
        np = numpy()
        if np.max(time, initial=0) >= DAY_S or np.min(time, initial=0) < 0:
            time = time % DAY_S
        if "hours" not in self._made:
            every, count = self.places, len(self.places)
            opens = np.fromiter((place.opens for place in every), "int32", count)
            lasts = np.fromiter((place.closes for place in every), "int32", count) - opens
            self._made["hours"] = opens, np.where(lasts % DAY_S, lasts % DAY_S, DAY_S)
        opens, lasts = self._made["hours"]
        if places is not None:
            opens, lasts = opens[places], lasts[places]
        since = np.asarray(time).astype(np.int32) - opens
        since += (since < 0) * np.int32(DAY_S)
        found = since < lasts
        if self.closed:
            shut = np.zeros(len(self.places), bool)
            shut[
                [self.place_numbers[each] for each in self.closed if each in self.place_numbers]
            ] = True
            found &= ~(shut if places is None else shut[places])
        return found

    def seconds_rows(self, place: Any, to: Any, mode: Any, words: Sequence[str]) -> NDArray[Any]:
        """Return how long each way takes; int64, −1 without one, 0 from nowhere.

        Args:
            place: where each begins; −1 for nowhere
            to: where each ends
            mode: how one travels, as numbers of `words`; −1 for the default
            words: the texts that numbers stand for
        """
        np = numpy()
        place, to = np.asarray(place), np.asarray(to)
        mode = np.broadcast_to(mode, place.shape)
        found = np.full(len(place), -1, np.int64)
        default = next(iter(self._modes))
        for number in np.unique(mode).tolist():
            name = default if number < 0 else words[number]
            if name in self._modes:
                at = np.flatnonzero(mode == number)
                metres = self.metres_rows(place[at], to[at], name)
                found[at] = self.time_rows(metres, place[at] == to[at], name)
        found[place < 0] = 0
        return found

    def time_rows(self, metres: Any, same: Any, mode: str | None = None) -> NDArray[Any]:
        """Return the seconds for so many metres, −1 for −1; 0 where it is the same place."""
        np = numpy()
        chosen = next(iter(self._modes.values())) if mode is None else self._modes[mode]
        taken = np.where(metres < 0, -1, chosen.time(metres))
        return np.where(same, 0, taken)

    def metres_rows(self, place: Any, to: Any, mode: str | None = None) -> NDArray[Any]:
        """Return the metres of each shortest way; int64, −1 without one."""
        np = numpy()
        graph = self._graphs[next(iter(self._modes)) if mode is None else mode]
        start, end = self._hang_rows[place], self._hang_rows[to]
        metres = graph.metres(start, end)
        reached = metres + self._access_rows[place] + self._access_rows[to]
        return np.where(metres < 0, -1, np.where(place == to, 0, reached))

    def same_roads(self, modes: Sequence[str]) -> bool:
        """Return whether all these modes use the same roads, so that their metres are the same."""
        return len({id(self._graphs[mode]) for mode in modes}) == 1

    def near_rows(
        self, place: Any, kind: str, limit: int = 10, mode: str | None = None
    ) -> tuple[Any, Any]:
        """Return what `near` gives of each: places, −1 where there are no more, and seconds.

        Returns:
            two arrays of whole numbers, (n, limit), the nearest first; their `.T` is contiguous
        """
        np = numpy()
        name = next(iter(self._modes)) if mode is None else mode
        places, metres = self._near_table(self._graphs[name], kind, limit)
        place = np.asarray(place)
        node = self._hang_rows[place]
        found, far = places.take(node, axis=1), metres.take(node, axis=1)
        number = [*self._kind_rows, kind].index(kind)
        own = np.flatnonzero(self.kind_rows()[place] == number)
        if len(own):  # one who is at such a place is not near itself: the others move up
            after = np.logical_or.accumulate(found[:, own] == place[own], axis=0)[:-1]
            for each in (found, far):
                each[:-1, own] = np.where(after, each[1:, own], each[:-1, own])
        found = found[:-1]
        seconds = self._modes[name].time(far[:-1] + self._access_rows[place])
        seconds *= found >= 0
        return found.T, seconds.T

    # -- tables ------------------------------------------------------------------------------------

    def keep_near(self, kinds: Collection[str], limit: int) -> None:
        """Make the tables of ways and of so many near places of some kinds, and keep no others."""
        for key in [each for each in self._made if each[0] == "near"]:
            found = self._made.pop(key)
            if key[2] in kinds:
                self._made[key] = tuple(each[: limit + 1].copy() for each in found)
        graph = next(iter(self._graphs.values()))
        for kind in kinds:
            self._near_table(graph, kind, limit)
        graph.metres(self._hang_rows[:1], self._hang_rows[:1])

    def _near_table(self, graph: Roads, kind: str | None, limit: int) -> tuple[Any, Any]:
        """The `limit` + 1 nearest places of a kind of each node, and the metres, rank by rank."""
        made = self._made.get(key := ("near", id(graph), kind))
        if made is None or len(made[0]) <= limit:
            made = self._made[key] = self._near_made(graph, kind, limit)
        return made[0][: limit + 1], made[1][: limit + 1]  # more than are needed may be there

    def _near_made(self, graph: Roads, kind: str | None, limit: int) -> tuple[Any, Any]:
        np = numpy()
        targets = self._kind_rows.get(kind, self._hang_rows[:0])
        if kind is None:
            targets = np.arange(len(self.places))
        places = np.full((graph.count, limit + 1), -1, np.int32)
        metres = np.zeros((graph.count, limit + 1), np.int32)
        if len(targets):
            if graph.count <= WHOLE:
                step = max(1, _AT_ONCE // len(targets))
                for first in range(0, graph.count, step):
                    part = slice(first, first + step)
                    far = graph.whole[part][:, self._hang_rows[targets]]
                    self._nearest(far, targets, places[part], metres[part])
            else:
                self._near_by_tiles(graph, targets, places, metres)
        return places.T.copy(), metres.T.copy()

    def _nearest(self, far: Any, targets: Any, places: Any, metres: Any) -> Any:
        """Write the nearest of `targets` by the metres to their nodes; gives the last's metres."""
        np = numpy()
        width, count = places.shape[1], len(self.places)
        none = np.iinfo(np.int64).max
        # Places are numbered in order of id, so this key has no ties.
        keys = (far.astype(np.int64) + self._access_rows[targets]) * count + targets
        keys[far < 0] = none
        if keys.shape[1] > width:
            keys = np.partition(keys, width - 1, axis=1)[:, :width]
        keys = np.sort(keys, axis=1)
        found = keys != none
        many = keys.shape[1]
        places[:, :many] = np.where(found, keys % count, -1)
        metres[:, :many] = np.where(found, keys // count, 0)
        if many < width:
            return np.full(len(keys), np.inf)
        return np.where(found[:, -1], keys[:, -1] // count, np.inf)

    def _near_by_tiles(self, graph: Roads, targets: Any, places: Any, metres: Any) -> None:
        """The same of many nodes: tile by tile, searching as far as it takes."""
        np, search = numpy(), csgraph().dijkstra
        width, hang = places.shape[1], self._hang_rows[targets]
        if len(targets) <= 256:  # so few are searched from where they are
            nodes, which = np.unique(hang, return_inverse=True)
            found = search(graph.matrix.T.tocsr(), indices=nodes)
            far = np.where(np.isinf(found), -1, found).astype(np.int32)[which].T
            step = max(1, _AT_ONCE // len(targets))
            for first in range(0, graph.count, step):
                part = slice(first, first + step)
                self._nearest(far[part], targets, places[part], metres[part])
            return
        tile = self._spots // 1500
        order = np.lexsort((tile[:, 1], tile[:, 0]))
        starts = np.flatnonzero(np.r_[True, (np.diff(tile[order], axis=0) != 0).any(axis=1)])
        spread = np.ptp(self._spots, axis=0).prod() / max(1, len(targets))
        first_radius = max(500.0, 1.4 * (spread * width) ** 0.5)
        for nodes in np.split(order, starts[1:]):
            radius, left = first_radius, nodes
            while len(left) and radius < _FARTHEST:
                reach = search(graph.matrix, indices=left, min_only=True, limit=radius)
                part = np.flatnonzero(np.isfinite(reach))
                inside = np.full(graph.count, -1)
                inside[part] = np.arange(len(part))
                some = np.flatnonzero(inside[hang] >= 0)
                if len(some):
                    around = graph.matrix[part][:, part]
                    far = search(around, indices=inside[left], limit=radius)
                    far = np.where(np.isinf(far), -1, far).astype(np.int32)[:, inside[hang[some]]]
                    near, ways = places[left], metres[left]
                    near[:], ways[:] = -1, 0
                    last = self._nearest(far, targets[some], near, ways)
                    places[left], metres[left] = near, ways
                else:
                    last = np.full(len(left), np.inf)
                # All that are nearer than the radius have been found, if so many were.
                left = left[last > radius] if len(part) < graph.count else left[:0]
                radius *= 2
