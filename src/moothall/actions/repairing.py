"""Arguments that mean what the schema wants and are spelled otherwise, as models spell them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from moothall.actions.capability import Action
from moothall.foundation.errors import InvalidArguments
from moothall.foundation.jsonvalue import UnreadableText, read_json

_INTEGER = re.compile(r"(-?(?:0|[1-9]\d{0,17}))(?:\.0+)?")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?(?:[eE][+-]?\d{1,3})?")
_BOOLEANS = {"true": True, "false": False}
_PYTHON_TYPES = {"array": list, "object": dict}
_MAX_DEPTH = 8


def repair_args(action: Action, args: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return arguments as the schema has them, those for the function, and what was changed.

    A number, a truth value or null may come as a text, a list or an object as JSON text, and all
    of them within one object. A guarded parameter is never changed.

    Raises:
        InvalidArguments: they do not fit the schema then, either
    """
    properties: Mapping[str, Any] = action.parameters.get("properties") or {}
    repaired, changes = args, list[str]()
    if len(args) == 1 and not action.guard:
        (name, inner), *_ = args.items()
        inner = _parse_text(inner, {"object"}) if isinstance(inner, str) else inner
        is_wrapped = isinstance(inner, dict) and inner and inner.keys() <= properties.keys()
        if is_wrapped and name not in properties:
            repaired = inner
            changes.append(f"taken out of {name!r:.80}")
    repaired = dict(repaired)
    for name, schema in properties.items():
        if name in repaired and name not in (action.guard or ()):
            value = _repair_value(schema, repaired[name], action.parameters, _MAX_DEPTH)
            if value is not repaired[name]:
                repaired[name] = value
                changes.append(f"{name} given as text")
    if not changes:
        raise InvalidArguments("nothing to repair")
    return repaired, action.check(repaired), "; ".join(changes)


def _repair_value(schema: Any, value: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return a value in the form that a schema wants; the same object if nothing is to change."""
    if not depth or not isinstance(schema, Mapping):
        return value
    forms = list(_allowed_forms(schema, root, depth))
    kinds = {kind for form in forms for kind in _as_list(form.get("type"))}
    if isinstance(value, str) and "string" not in kinds and not any("enum" in f for f in forms):
        value = _parse_text(value, kinds)
    for form in forms:
        if isinstance(value, list) and "items" in form:
            items = [_repair_value(form["items"], each, root, depth - 1) for each in value]
            value = items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        elif isinstance(value, dict):
            inner, additional = form.get("properties") or {}, form.get("additionalProperties")
            repaired_items = {
                name: new
                for name, each in value.items()
                if (new := _repair_value(inner.get(name, additional), each, root, depth - 1))
                is not each
            }
            value = {**value, **repaired_items} if repaired_items else value
    return value


def _parse_text(text: str, kinds: set[Any]) -> Any:
    stripped = text.strip()
    if ("integer" in kinds or "number" in kinds) and (integer := _INTEGER.fullmatch(stripped)):
        return int(integer[1])
    if "number" in kinds and _NUMBER.fullmatch(stripped):
        return float(stripped)
    if "boolean" in kinds and stripped.lower() in _BOOLEANS:
        return _BOOLEANS[stripped.lower()]
    if "null" in kinds and stripped == "null":
        return None
    if types := tuple(_PYTHON_TYPES[kind] for kind in _PYTHON_TYPES.keys() & kinds):
        try:
            value = read_json(stripped)
        except UnreadableText:
            return text
        return value if isinstance(value, types) else text
    return text


def _allowed_forms(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterable[Any]:
    name = schema.get("$ref")
    if isinstance(name, str) and name.startswith("#/$defs/"):
        schema = (root.get("$defs") or {}).get(name.removeprefix("#/$defs/")) or {}
    yield schema
    for each in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())) if depth else ():
        if isinstance(each, Mapping):
            yield from _allowed_forms(each, root, depth - 1)


def _as_list(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]
