"""The state of a population between two steps, as arrays, as bytes and as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import StateError
from civitas.society.arrays import numpy
from civitas.society.population.column import Slots
from civitas.society.population.messages import PARTS, Messages
from civitas.society.population.wants import FIELDS, Table

if TYPE_CHECKING:
    from civitas.society.population.books import RowBooks
    from civitas.society.population.population import Population

_PART: Final = 1 << 18
"""So many entries of an array stand in the journal under one hash."""
_KINDS: Final = {kind.__name__: kind for kind in FIELDS}

Written = list[list[Any]]
"""Of each array its name, dtype, shape and parts, each a text."""


def arrays_of(population: Population, books: RowBooks) -> dict[str, Any]:
    """Return the complete state of a population between two steps, as arrays by name."""
    made = {
        f"column.{name}": _used(values) if population.declared[name].slots else values
        for name, values in population.columns.items()
    }
    for kind, table in books.answers.items():
        at = f"answer.{kind.__name__}"
        made |= {f"{at}.{name}": values for name, values in table.fields.items()}
        made |= {f"{at}.": table.sender, f"{at}.=": table.reason, f"{at}.#": table.value}
    if books.messages is not None:
        made |= {f"message.{name}": getattr(books.messages, name) for name in PARTS}
    strangers = json.dumps(population.strangers).encode()
    return made | {"strangers": numpy().frombuffer(strangers, "uint8")}


def _used(values: Any) -> Any:
    """Return a column without its trailing unused slots."""
    last = values.shape[1]
    while last > 1 and not values[:, last - 1].any():
        last -= 1
    return values[:, :last]


def put(population: Population, arrays: dict[str, Any]) -> None:
    """Restore saved columns into a population. Raises StateError: they are of another."""
    population.written()
    saved = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith("column.")}
    strange = set(saved) ^ set(population.arrays)
    if strange:
        raise StateError(f"the state and the population differ by the column {min(strange)!r}")
    for name, own in population.arrays.items():
        given = saved[name]
        if len(given) != len(own) or given.dtype != own.dtype:
            raise StateError(
                f"column {name!r} of the state is {given.dtype} of shape {given.shape}, and the "
                f"population's {own.dtype} of shape {own.shape}"
            )
    for name, given in saved.items():
        own = population.arrays[name]
        if given.shape == own.shape or isinstance(own, Slots):
            own[...] = given
        elif population.declared[name].slots and given.shape[1] <= own.shape[1]:
            own[:, : given.shape[1]] = given
            if own[:, given.shape[1] :].any():  # written only then: it may take no memory
                own[:, given.shape[1] :] = 0
        else:
            population.arrays[name] = given.copy()  # a column of several values has grown


def put_answers(books: RowBooks, arrays: dict[str, Any]) -> None:
    """Restore saved answers and messages into books."""
    tables: dict[str, dict[str, Any]] = {}
    if "message.receiver" in arrays:
        books.messages = Messages(*(arrays[f"message.{name}"] for name in PARTS))
    books.population.strangers = json.loads(arrays["strangers"].tobytes())
    for name, values in arrays.items():
        what, _, rest = name.partition(".")
        if what == "answer":
            kind, _, field = rest.partition(".")
            tables.setdefault(kind, {})[field] = values
    books.answers = {
        _KINDS[kind]: Table(_KINDS[kind], parts.pop(""), parts, parts.pop("="), parts.pop("#"))
        for kind, parts in tables.items()
    }


def written(arrays: dict[str, Any], keep: Callable[[bytes], str]) -> Written:
    """Write arrays in parts; `keep` stores bytes, and gives the text by which they are found."""
    made: Written = []
    for name, values in arrays.items():
        parts = [
            keep(values[at : at + _PART].tobytes()) for at in range(0, max(1, len(values)), _PART)
        ]
        made.append([name, values.dtype.str, list(values.shape), parts])
    return made


def read(given: Iterable[list[Any]], kept: Callable[[str], bytes]) -> dict[str, Any]:
    """Read arrays that `written` wrote. Raises StateError: they are damaged."""
    np = numpy()
    made = {}
    for each in given:
        try:
            name, dtype, shape, parts = each
            kind = np.dtype(dtype)
            if kind.kind not in "biuf":
                raise ValueError(f"its type is {dtype!r:.40}")
            values = np.frombuffer(b"".join(kept(part) for part in parts), kind)
            made[str(name)] = values.reshape([int(length) for length in shape])
        except (TypeError, ValueError) as error:
            raise StateError(f"the state of the population is damaged: {error}") from None
    return made


def as_text(data: bytes) -> str:
    """Bytes as text, for JSON."""
    return base64.b64encode(data).decode()


def of_text(text: str) -> bytes:
    """The bytes of a text. Raises ValueError for another text."""
    return base64.b64decode(text, validate=True)
