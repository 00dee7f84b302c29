"""The value of an answer by a schema, as far as its text has come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_UNENDED: Final = "+-.0123456789abcdefghijklmnopqrstuvwxyzE"
"""What a number or a word such as `true` may end in, after which more of it may come."""
_WHOLE_ONLY: Final = frozenset(("enum", "const", "format", "pattern"))
_DEPTH: Final = 40
_MOST_SCHEMAS: Final = 1000


def value_so_far(text: str, schema: dict[str, Any]) -> Any:
    """Return the value of the beginning of a JSON text; None before its first value.

    The string at the end is shown as far as it has come, unless the schema has it be one of several
    values, or of a form. Numbers are shown once they have ended.
    """
    text = text.lstrip()
    if text.startswith("```"):
        text = text[3:].removeprefix("json").lstrip()
    is_within = '"' in _STRING.sub("", text)
    if not is_within:
        text = text.rstrip(_UNENDED)
    complete = _parsed(text, True)
    if not is_within:
        return complete
    grown = _parsed(text, "trailing-strings")
    if grown is None or grown == complete:
        return complete
    return grown if _may_grow(schema, _last_path(grown)) else complete


def _parsed(text: str, mode: Any) -> Any:
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


def _may_grow(schema: dict[str, Any], path: list[str | int]) -> bool:
    """Whether the string at a path may be shown before it has ended."""
    variants: list[Any] = [*_variants(schema, schema)]
    for step in path:
        variants = [
            variant
            for each in variants
            for part in _parts(each, step)
            for variant in _variants(part, schema)
        ][:_MOST_SCHEMAS]
    return any(_WHOLE_ONLY.isdisjoint(each) and _is_text(each) for each in variants)


def _is_text(schema: dict[str, Any]) -> bool:
    kind = schema.get("type", "string")
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def _parts(schema: dict[str, Any], step: str | int) -> Iterator[Any]:
    """Yield the schemas of a value's part."""
    if isinstance(step, str):
        properties = schema.get("properties", {})
        yield properties[step] if step in properties else schema.get("additionalProperties", {})
    else:
        first = schema.get("prefixItems", ())
        yield first[step] if step < len(first) else schema.get("items", {})


def _variants(schema: Any, root: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a schema, or those that it is one of, with what its references name."""
    if schema is True:
        yield {}
    if not isinstance(schema, dict) or depth > _DEPTH:
        return
    ref = schema.get("$ref")
    if isinstance(ref, str):
        target: Any = root
        for part in ref.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        yield from _variants(target, root, depth + 1)
        return
    choices = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key, ())]
    for each in choices:
        yield from _variants(each, root, depth + 1)
    if not choices:
        yield schema
