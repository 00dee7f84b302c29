"""Layers: what each place of a population's city has, such as sugar or heat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.columns.column import Column


class Layers(Mapping[str, Array]):
    """Arrays by name, of one value for each place in the order of `city.ids()`.

    `layers["sugar"] += 1` and `layers["sugar"] = values` write into the array that is there.

    Raises:
        ConfigError: a layer is no `Column` of a value a place, there are no places, or a name is
            a column's
    """

    def __init__(
        self,
        declared: Mapping[str, Column] | None,
        places: Sequence[str],
        columns: Iterable[str],
    ) -> None:
        if not isinstance(declared, Mapping | None):
            raise ConfigError(f"layers= must be a dict of Column by name, got {declared!r:.80}")
        self.arrays: dict[str, Array] = {}
        for name, column in (declared or {}).items():
            if not isinstance(column, Column) or column.slots or column.key or column.own:
                raise ConfigError(f"layer {name!r} must be a Column of plain values, got {column}")
            if name in columns:
                raise ConfigError(f"layer {name!r} must have another name: a column has it")
            if not places:
                raise ConfigError(f"layer {name!r} needs places: give the population a city")
            self.arrays[name] = column.new_array(len(places))

    def __getitem__(self, name: str) -> Array:
        if name not in self.arrays:
            raise ConfigError(f"there is no layer {name!r}: Population(…, layers=)")
        return self.arrays[name]

    def __setitem__(self, name: str, values: object) -> None:
        layer = self[name]
        if values is not layer:
            layer[...] = np.asarray(values).astype(layer.dtype, casting="same_kind", copy=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"<layers {', '.join(self)}>"

    def read_only(self) -> Layers:
        """Return the same layers, which refuse to be written."""
        copy = Layers(None, (), ())
        for name, values in self.arrays.items():
            copy.arrays[name] = values.view()
            copy.arrays[name].flags.writeable = False
        return copy
