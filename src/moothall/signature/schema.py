"""JSON schemas written by hand: check that they can be used, and check values by them.

Importing jsonschema takes about as long as everything else here together, so it is imported for
the first such schema. Nothing is ever fetched: a reference must lead to a place in the schema
itself.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from moothall.jsonvalue import NotJSON, copy_json
from moothall.text import excerpt, json_type, shorten

_MAX_TOLD = 200
_UNIONS = ("anyOf", "oneOf")


class WrongSchema(ValueError):
    """A schema cannot be used; the text says why."""


def object_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def validator(schema: dict[str, Any]) -> Any:
    """Return a validator for a schema that `check_schema` has accepted."""
    from referencing import Registry

    # Without a registry, jsonschema fetches references from the network.
    return _draft(schema)(schema, registry=Registry())


def _draft(schema: Any) -> Any:
    """Return the class that checks by the draft that a schema states; else by 2020-12."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    stated = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(stated, str):
        return Draft202012Validator
    try:
        return validator_for({"$schema": stated}, default=Draft202012Validator)
    except ValueError:  # it is no address
        return Draft202012Validator


@lru_cache(maxsize=64)
def checked(schema: str) -> Any:
    """Return the validator of a schema given as JSON; WrongSchema if it cannot be used."""
    # A check takes milliseconds, and a service or a dual act is given the same schema each time.
    made = json.loads(schema)
    check_schema(made)
    return validator(made)


def wrong_in(checks: Any, value: Any) -> tuple[list[str | int], str] | None:
    """Return the path of the first thing that is wrong in a value, and what; None if it is valid.

    Of a union it tells what the one member says that the value is meant for, or which members
    there are.
    """
    errors = checks.iter_errors(value)
    # A union's own error says little, so what is wrong beside it comes first.
    wrong = min(errors, key=lambda e: (len(e.absolute_path), e.validator in _UNIONS), default=None)
    while wrong is not None and wrong.validator in _UNIONS and wrong.context:
        members: dict[Any, list[Any]] = {}
        for error in wrong.context:
            members.setdefault(error.relative_schema_path[0], []).append(error)
        of_type = [next(filter(_is_of_type, errors), None) for errors in members.values()]
        if None not in of_type:
            return _of_no_type(wrong, [error.schema for error in of_type if error is not None])
        if of_type.count(None) > 1:
            break
        meant = [*members.values()][of_type.index(None)]
        wrong = min(meant, key=lambda error: len(error.absolute_path))
    if wrong is None:
        return None
    if wrong.validator == "type" and isinstance(wrong.schema["type"], list):
        return _of_no_type(wrong, [wrong.schema])
    return [*wrong.absolute_path], wrong.message


def _of_no_type(wrong: Any, schemas: list[dict[str, Any]]) -> tuple[list[str | int], str]:
    """Return the path of a value that is of no type that schemas take, and which these are."""
    kinds = " or ".join(dict.fromkeys(map(_kind, schemas)))
    return [*wrong.absolute_path], f"must be {kinds}, not {json_type(wrong.instance)}"


def _is_of_type(error: Any) -> bool:
    """Whether an error of a union's member says that the value itself is of another type."""
    return error.validator == "type" and not error.relative_path


def _kind(schema: dict[str, Any]) -> str:
    """Return the types that a schema takes, in words."""
    given, items = schema["type"], schema.get("items")
    of = items.get("type") if isinstance(items, dict) else None
    return " or ".join(
        f"array of {of}" if kind == "array" and isinstance(of, str) else str(kind)
        for kind in ([given] if isinstance(given, str) else given)
    )


def check_schema(schema: dict[str, Any]) -> None:
    """Raise WrongSchema if a schema, or a reference in it, is wrong."""
    try:
        copy_json(schema)
        draft = _draft(schema)
        _check_form(schema, draft)
        _check_references(schema, draft)
    except NotJSON as error:
        raise WrongSchema(str(error)) from None
    except RecursionError:
        raise WrongSchema("it is nested too deep") from None


def _check_form(schema: Any, draft: Any) -> None:
    from jsonschema import SchemaError

    try:
        draft.check_schema(schema)
    except SchemaError as error:
        raise WrongSchema(shorten(error.message, _MAX_TOLD)) from None


def _check_references(schema: dict[str, Any], draft: Any) -> None:
    """Follow each reference, and those in its target, until all are checked."""
    from referencing import Registry
    from referencing.jsonschema import specification_with

    rules = specification_with(draft.META_SCHEMA["$schema"])
    try:
        registry: Any = Registry()
        resolver = registry.resolver_with_root(rules.create_resource(schema))
        ahead: list[tuple[Any, Any]] = [(schema, resolver)]
        known: set[int] = set()
        while ahead:
            found, resolver = ahead.pop()
            if not isinstance(found, dict) or id(found) in known:
                continue
            known.add(id(found))
            for inner in rules.subresources_of(found):
                resource = rules.create_resource(inner)
                ahead.append((inner, resolver.in_subresource(resource)))
            for keyword in found.keys() & {"$ref", "$dynamicRef"}:
                target = _looked_up(found[keyword], resolver, draft)
                ahead.append((target.contents, target.resolver))
    except WrongSchema:
        raise
    except ValueError as error:  # an $id is no address
        raise WrongSchema(f"an $id in it cannot be read: {error}") from None


def _looked_up(reference: str, resolver: Any, draft: Any) -> Any:
    from referencing.exceptions import Unresolvable

    try:
        target = resolver.lookup(reference)
    except Unresolvable:
        raise WrongSchema(
            f"its reference {excerpt(reference)} leads nowhere in it (nothing is fetched): put "
            'what it names under "$defs"'
        ) from None
    if not isinstance(target.contents, dict | bool):
        raise WrongSchema(
            f"its reference {excerpt(reference)} leads to no schema but {excerpt(target.contents)}"
        )
    _check_form(target.contents, draft)  # it may be where the first check found no schema
    return target
