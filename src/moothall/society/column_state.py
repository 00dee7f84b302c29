"""The state of a population's columns between two steps, as arrays by name and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from moothall import StateError
from moothall.society.arrays import Array, np
from moothall.society.city.network import Network
from moothall.society.columns.column import PLACES
from moothall.society.columns.want_table import Table
from moothall.society.kernel.wants import PLACE, TEXT, field_kinds, kind_named
from moothall.society.people.means import ATTRIBUTES
from moothall.society.population.population import Population
from moothall.society.population.renumbering import Renumbering, names_of
from moothall.society.population.row_books import RowBooks
from moothall.society.population.row_messages import PARTS, Messages
from moothall.society.society_step import Steps

_PART: Final = 1 << 18  # entries of an array stored under one hash
_PROFILE_NAMES: Final = (
    *("age", "gender", "education", "household", "skill"),
    *(*ATTRIBUTES, "interests", "income"),
)
_STATUS: Final = (
    "home profile work money needs opinions school jobless income relations kin place moving"
)
"""The status of a citizen that has not lived yet, in the order of `make_people`."""


def arrays_of(society: Steps) -> dict[str, Array]:
    """Return the complete state of a population between two steps, as arrays by name."""
    population: Any = society.population
    books = society.books
    arrays = {
        f"column.{name}": _used_slots(values) if population.declared[name].slots else values
        for name, values in population.columns.items()
    }
    has_rows = len(population.agents) < len(population)
    for kind, table in books.answers.items() if has_rows else ():  # agents have their own
        base = f"answer.{kind.__name__}"
        arrays |= {f"{base}.{name}": values for name, values in table.fields.items()}
        arrays |= {f"{base}.": table.sender, f"{base}.=": table.reason, f"{base}.#": table.value}
        arrays[f"{base}.?"] = np.array([table.has_value])
    if books.messages is not None:
        arrays |= {f"message.{name}": getattr(books.messages, name) for name in PARTS}
    arrays |= {f"layer.{name}": values for name, values in population.layers.items()}
    if population.later_network is not None:
        starts, ends = population.later_network.links
        arrays |= {"network.starts": starts, "network.others": ends}
    ids = population.first_ids
    if population.ids is not ids or (len(ids) and (ids[0], ids[-1]) != (1, len(ids))):
        arrays |= {"ids": population.ids, "next_id": np.array([population.next_id], "uint64")}
    texts = {"strangers": population.strangers, "names": names_of(population)}
    texts |= {"ids_in_words": population.names} if population.names else {}
    return arrays | {
        name: np.frombuffer(json.dumps(each).encode(), "uint8") for name, each in texts.items()
    }


def ids_of(arrays: dict[str, Array]) -> list[str]:
    """Return the ids of a state's citizens, in the order of its rows."""
    if "ids" not in arrays:
        return [*map(str, range(1, len(arrays.get("column.money", ())) + 1))]
    words = json.loads(arrays["ids_in_words"].tobytes()) if "ids_in_words" in arrays else []
    return [*map(str, arrays["ids"][: len(arrays["ids"]) - len(words)].tolist()), *words]


def status_of_row(population: Population, row: int, *, is_new: bool) -> dict[str, Any]:
    """Return the status of a row; of one that has not lived yet, as `make_people` has it."""
    status = population.status_of(row)
    if is_new:
        profile, school = status["profile"], population.of_kind("school", 1)
        omitted = set() if 5 <= profile["age"] < 18 and len(school) else {"school"}
        omitted |= {"jobless"} if status["jobless"] == -1 else set()
        status["profile"] = {name: profile[name] for name in _PROFILE_NAMES if name in profile}
        status = {name: status[name] for name in _STATUS.split() if name in {*status} - omitted}
    return status


def _used_slots(values: Array) -> Array:
    """Return a column without its trailing unused slots."""
    last = values.shape[1]
    while last > 1 and not values[:, last - 1].any():
        last -= 1
    return values[:, :last]


def renumbered(population: Population, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return saved arrays by the numbers that places, kinds and texts have in a population.

    Raises StateError: the state has a place, a kind or a text that is not there.
    """
    names = json.loads(arrays["names"].tobytes()) if "names" in arrays else names_of(population)
    if population.takes_names:
        for each in names["words"]:
            population.encode(TEXT, each)
        for each in names["places"] if population.city is None else ():
            population.place_number(each)
    if names == names_of(population):
        return arrays
    numbers, result = Renumbering(names, population), {**arrays}
    for name, values in arrays.items():
        group, _, rest = name.partition(".")
        named_numbers = numbers.with_title(f"the {group} {rest!r} of the state")
        if group == "column" and (column := population.declared.get(rest)) is not None:
            change = column.renumbered
            if column.dtype == PLACE:
                result[name] = named_numbers.places(values)
            elif column is PLACES["mode"]:
                result[name] = named_numbers.words(values)
            elif change is not None:
                result[name] = change(values, named_numbers)
        elif group == "layer" and rest in population.layers:
            layer = population.layers[rest].copy()
            layer[named_numbers.all_places] = values
            result[name] = layer
        elif group == "answer" and (kind := rest.partition(".")[2]) not in ("", "=", "#", "?"):
            content = field_kinds(kind_named(rest.partition(".")[0]))[kind]
            changes = {PLACE: named_numbers.places, TEXT: named_numbers.words}
            result[name] = changes[content](values) if content in changes else values
        elif name in ("message.topic", "message.text"):
            result[name] = named_numbers.words(values)
        result[name] = result[name].astype(values.dtype, copy=False)
    return result


def restore_columns(population: Population, arrays: dict[str, Array]) -> None:
    """Restore saved columns into a population. Raises StateError: they are of another."""
    population.note_change()
    saved_columns = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith("column.")}
    differing = set(saved_columns) ^ set(population.arrays)
    if population.takes_names:  # agents that have come or left had blocks of their own
        missing = {*population.arrays} - {*saved_columns}
        saved_columns = {n: each for n, each in saved_columns.items() if n in population.arrays}
        count = len(arrays["column.money"])
        saved_columns |= {n: population.declared[n].new_array(count) for n in missing}
    elif differing:
        raise StateError(f"the state and the population differ by the column {min(differing)!r}")
    _put_ids(population, arrays)
    for name, array in population.arrays.items():
        values = saved_columns[name]
        if len(values) != len(array) or values.dtype != array.dtype:
            raise StateError(
                f"column {name!r} of the state is {values.dtype} of shape {values.shape}, and the "
                f"population's {array.dtype} of shape {array.shape}"
            )
    if len(saved_columns["money"]) and (cents := int(saved_columns["money"].min())) < 0:
        raise StateError(f"a citizen of the state has {cents} cents")
    layers = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith("layer.")}
    if set(layers) != set(population.layers):
        raise StateError(f"the state has the layers {[*layers]}, and the population others")
    for name, values in layers.items():
        if values.shape != population.layers[name].shape:
            raise StateError(
                f"layer {name!r} of the state has {len(values)} places, and the population's has "
                f"{len(population.layers[name])}"
            )
        population.layers[name] = values
    for name, values in saved_columns.items():
        array = population.arrays[name]
        if values.shape == array.shape:
            array[...] = values
        elif population.declared[name].slots and values.shape[1] <= array.shape[1]:
            array[:, : values.shape[1]] = values
            if array[:, values.shape[1] :].any():  # written only then: it may take no memory
                array[:, values.shape[1] :] = 0
        else:
            population.arrays[name] = values.copy()  # a column of several values has grown


def network_of(
    population: Population, arrays: dict[str, Array], nodes: dict[str, Any]
) -> Network | None:
    """Return the network of a state: the first one, or one that a step has put in its place."""
    if "network.starts" not in arrays:
        return population.first_network
    return Network.of_json(nodes, arrays["network.starts"], arrays["network.others"])


def _put_ids(population: Population, arrays: dict[str, Array]) -> None:
    """Restore who there is in a population, where some have come or left."""
    ids = population.first_ids
    if "ids" in arrays:
        ids = arrays["ids"].copy()
    elif not population.is_given and len(ids) != (count := len(arrays["column.money"])):
        ids = np.arange(1, count + 1, dtype=np.uint64)
    next_id = int(ids[-1]) + 1 if len(ids) else 1
    population.next_id = int(arrays["next_id"][0]) if "ids" in arrays else next_id
    if "ids_in_words" in arrays:
        population.names = json.loads(arrays["ids_in_words"].tobytes())
    if ids is population.ids:
        return
    if len(ids) != len(population):
        population.arrays = {
            name: column.new_array(len(ids)) for name, column in population.declared.items()
        }
    population.settle_ids(ids)


def put_answers(books: RowBooks, arrays: dict[str, Array]) -> None:
    """Restore saved answers and messages into books."""
    tables: dict[str, dict[str, Array]] = {}
    if "message.receiver" in arrays:
        books.messages = Messages(*(arrays[f"message.{name}"] for name in PARTS))
    books.population.strangers = json.loads(arrays["strangers"].tobytes())
    for name, values in arrays.items():
        group, _, rest = name.partition(".")
        if group == "answer":
            kind, _, part = rest.partition(".")
            tables.setdefault(kind, {})[part] = values
    books.answers = {}
    for name, parts in tables.items():
        sender, reason, value = (parts.pop(each) for each in ("", "=", "#"))
        has_value = bool(parts.pop("?").any())
        kind_of_want = kind_named(name)
        books.answers[kind_of_want] = Table(kind_of_want, sender, parts, reason, value, has_value)


def array_rows(arrays: dict[str, Array], store: Callable[[bytes], str]) -> list[list[Any]]:
    """Return each array as its name, dtype, shape and parts, which `store` gives a text for."""
    rows: list[list[Any]] = []
    for name, values in arrays.items():
        parts = [
            store(values[at : at + _PART].tobytes()) for at in range(0, max(1, len(values)), _PART)
        ]
        rows.append([name, values.dtype.str, list(values.shape), parts])
    return rows


def read_arrays(rows: Iterable[list[Any]], read_part: Callable[[str], bytes]) -> dict[str, Array]:
    """Read arrays that `array_rows` wrote."""
    arrays = {}
    for name, dtype, shape, parts in rows:
        array_type = np.dtype(dtype)
        if array_type.kind not in "biuf":
            raise ValueError(f"the type of column {name!r:.80} is {dtype!r:.40}")
        values = np.frombuffer(b"".join(read_part(part) for part in parts), array_type)
        arrays[str(name)] = values.reshape([int(length) for length in shape])
    return arrays
