"""What is wrong with the fields of an experiment: where, in words, and what there is instead."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import ValidationError

from moothall.build import FieldFault, nearest
from moothall.society.experiments.workflow import FieldPath

_TYPE_TAGS: Final = frozenset(("int", "constrained-int", "str", "float", "list[int]", "callable"))
"""The names of a type's alternatives, which pydantic puts into a path."""

_TEXTS_BY_TYPE: Final = {
    "model_type": "must be a mapping of fields, such as {label: all open}, or {}",
    "string_pattern_mismatch": "must be letters, digits and _, after the first also spaces, . or -",
}
"""What is said instead of pydantic's words, by the type of its error."""


def list_fields(names: Iterable[str]) -> str:
    """Return what there is, for the end of an error."""
    return f"there are: {', '.join(names)}"


def with_field_paths(
    faults: Iterable[tuple[FieldPath, str]], places: Mapping[str, FieldPath]
) -> Iterator[tuple[FieldPath, str]]:
    """Yield faults of a society's parameters, each with the path where its parameter is set."""
    for path, text in faults:
        name = ".".join(map(str, path))
        pairs = ((f"{key}.", f"{name}.", at) for key, at in places.items())
        set_at = (at for a, b, at in pairs if a.startswith(b) or b.startswith(a))
        yield next(set_at, ("society", *path)), text


def faults_of(error: ValidationError, kind: object) -> list[tuple[FieldPath, str]]:
    """Return pydantic's errors of a model as (path, what is wrong), without alternatives' names."""
    texts: dict[FieldPath, str] = {}
    for each in error.errors(include_url=False, include_context=False):
        location = each["loc"]
        path = tuple(itertools.takewhile(lambda part: str(part) not in _TYPE_TAGS, location))
        fault = FieldFault(each, kind)
        text = _TEXTS_BY_TYPE.get(fault.kind) or fault.in_words
        if fault.kind == "extra_forbidden":
            text = say_unknown_field(str(path[-1]), fault.names_at(path[:-1]))
        texts.setdefault(path, text)
    return list(texts.items())


def say_unknown_field(name: str, fields: Iterable[str]) -> str:
    """Return that there is no such field, and the nearest known name, or all of them."""
    names = [*fields]
    near = nearest(name, names)
    return f"there is no such field{near or (f'; {list_fields(names)}' if names else '')}"
