"""The places of a city in columns: a city of ten million citizens has 4.6 million."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import eq
from typing import Any

from moothall import ConfigError
from moothall.build import excerpt
from moothall.society.arrays import Array, np
from moothall.society.city.map import Place


class PlaceColumns(Sequence[Place]):
    """Places in order of id. A `Place` is made when it is asked for."""

    def __init__(self, places: Iterable[Place], nodes: Mapping[str, object]) -> None:
        ids: list[str] = []
        kinds: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self.nodes: tuple[str, ...] = tuple(nodes)
        node_numbers: dict[str | None, int] = {node: number for number, node in enumerate(nodes)}
        node_numbers[None] = -1
        rows = array("i")
        if not isinstance(places, Iterable):
            raise ConfigError(f"places must be a list of Place, got {excerpt(places)}")
        for number, place in enumerate(places):
            if not isinstance(place, Place):
                raise ConfigError(f"places[{number}] must be a Place, got {excerpt(place)}")
            node = node_numbers.get(place.node)
            if node is None:
                raise ConfigError(
                    f"place {excerpt(place.id)}: node {excerpt(place.node)} does not exist: add it "
                    "to nodes, or leave it out, so that roads lead to the place itself"
                )
            ids.append(place.id)
            if place.name != place.id:
                self._names[place.id] = place.name
            kind = kinds.setdefault(place.kind, len(kinds))
            rows.extend((kind, place.x, place.y, place.capacity, place.opens, place.closes, node))
        order = sorted(range(len(ids)), key=ids.__getitem__)
        twice = [other for previous, other in pairwise(order) if ids[previous] == ids[other]]
        if twice:
            raise ConfigError(f"places[{min(twice)}]: id {excerpt(ids[min(twice)])} appears twice")
        self.ids: tuple[str, ...] = tuple([ids[number] for number in order])
        self.numbers: Mapping[str, int] = {id: number for number, id in enumerate(self.ids)}
        for each in self.nodes:
            if each in self.numbers:
                raise ConfigError(f"nodes: {excerpt(each)} is the id of a place too")
        table = np.array(rows, np.int32).reshape(-1, 7)
        self.x: Array
        self.y: Array
        self.opens: Array
        self.closes: Array
        self.node: Array  # the number in `nodes`, −1 for none
        codes, self.x, self.y, capacity, self.opens, self.closes, self.node = (
            table[:, column][order] for column in range(7)
        )
        self.kinds: tuple[str, ...] = tuple(sorted(kinds))  # `kind` has numbers of them
        self.kind: Array = np.array([self.kinds.index(each) for each in kinds], np.int16)[codes]
        self.capacity: Array = capacity.astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return tuple(self[each] for each in range(len(self))[number])
        id, node = self.ids[number], self.node.item(number)
        return Place(
            id,
            self.kinds[self.kind.item(number)],
            self.x.item(number),
            self.y.item(number),
            self.capacity.item(number),
            self.opens.item(number),
            self.closes.item(number),
            self._names.get(id, id),
            None if node < 0 else self.nodes[node],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(map(eq, self, other))

    def __repr__(self) -> str:
        return f"<{len(self)} places>"
