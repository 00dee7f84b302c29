"""The value of an answer by a schema, as far as its text has come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LITERAL_CHARACTERS: Final = "+-.0123456789abcdefghijklmnopqrstuvwxyzE"
"""What a number or a word such as `true` may end in, after which more of it may come."""
_WHOLE_ONLY_KEYS: Final = frozenset(("enum", "const", "format", "pattern"))
_MAX_DEPTH: Final = 100
"""In how many schemas within each other a string may stand that is shown before it has ended."""


def value_so_far(text: str, schema: dict[str, Any]) -> Any:
    """Return the value of the beginning of a JSON text; None before its first value.

    The string at the end is shown as far as it has come, unless the schema has it be one of several
    values, or of a form. Numbers are shown once they have ended.
    """
    text = text.lstrip()
    if text.startswith("```"):
        text = text[3:].removeprefix("json").lstrip()
    ends_in_string = '"' in _STRING.sub("", text)
    if not ends_in_string:
        text = text.rstrip(_LITERAL_CHARACTERS)
    complete = _parse_partial(text, True)
    if not ends_in_string:
        return complete
    with_last_string = _parse_partial(text, "trailing-strings")
    if with_last_string is None or with_last_string == complete:
        return complete
    return with_last_string if _may_grow(schema, _last_path(with_last_string)) else complete


def _parse_partial(text: str, mode: Any) -> Any:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial=mode, allow_inf_nan=False)
    except ValueError:
        return None


def _last_path(value: Any) -> list[str | int]:
    path: list[str | int] = []
    while value and isinstance(value, dict | list):
        last = next(reversed(value)) if isinstance(value, dict) else len(value) - 1
        path.append(last)
        value = value[last]
    return path


def _may_grow(root: dict[str, Any], path: list[str | int]) -> bool:
    """Whether the string at a path may be shown before it has ended."""
    # By schema and place in the path; False of a schema that leads to itself.
    cache: dict[tuple[int, int], bool] = {}

    def allows_growth(schema: Any, index: int, depth: int) -> bool:
        """Whether all that a schema says of the value at a place lets the string grow."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return schema is True
        key = (id(schema), index)
        if key not in cache:
            cache[key] = False
            cache[key] = (
                keywords_allow_growth(schema, index, depth)
                and all(allows_growth(each, index, depth + 1) for each in _conjuncts(schema, root))
                and all(
                    any(allows_growth(each, index, depth + 1) for each in schema[name])
                    for name in ("anyOf", "oneOf")
                    if name in schema
                )
            )
        return cache[key]

    def keywords_allow_growth(schema: dict[str, Any], index: int, depth: int) -> bool:
        if index == len(path):
            return _WHOLE_ONLY_KEYS.isdisjoint(schema) and _may_have_type("string", schema)
        kind = "object" if isinstance(path[index], str) else "array"
        parts = _part_schemas(schema, path[index])
        return _may_have_type(kind, schema) and all(
            allows_growth(each, index + 1, depth + 1) for each in parts
        )

    return allows_growth(root, 0, 0)


def _may_have_type(kind: str, schema: dict[str, Any]) -> bool:
    """Whether a value of a schema may be of a type."""
    kinds = schema.get("type", kind)
    return kinds == kind or (isinstance(kinds, list) and kind in kinds)


def _part_schemas(schema: dict[str, Any], step: str | int) -> list[Any]:
    """Return the schemas that may hold for a value's part; True if it says nothing of it."""
    if isinstance(step, str):
        properties, default = schema.get("properties", {}), schema.get("additionalProperties", True)
        # No pattern is tried here, as it may be a stranger's: each may fit the name.
        return [properties.get(step, default), *schema.get("patternProperties", {}).values()]
    prefix_items = schema.get("prefixItems", ())
    return [prefix_items[step] if step < len(prefix_items) else schema.get("items", True)]


def _conjuncts(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas that hold, or may, beside a schema's own words: what it refers to, too."""
    yield from schema.get("allOf", ())
    yield from (schema[name] for name in ("then", "else") if name in schema)
    yield from schema.get("dependentSchemas", {}).values()
    ref = schema.get("$ref")
    if isinstance(ref, str):
        target: Any = root
        for part in ref.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        yield target
