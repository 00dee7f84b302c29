"""The JSON form of structured types: dataclasses, models, enums, dates and all of pydantic's types.

This module imports pydantic, so it is imported for the first such annotation.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
import types
from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, EncodedBytes, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import (
    PydanticCustomError,
    PydanticKnownError,
    SchemaValidator,
    ValidationError,
    to_json,
)

from moothall.foundation.text import error_text, printable

_REF = "#/$defs/"
_URL_TO_STANDARD = str.maketrans("-_", "+/")  # of the alphabet for URLs
# Dataclasses and TypedDicts without their own configuration use these.
_FORBID_EXTRA = ConfigDict(extra="forbid")
_IGNORE_EXTRA = ConfigDict(extra="ignore")  # a subclass has more fields
_new_type: Any = NewType  # another name, since type checkers treat NewType specially


def structured_form(annotation: Any, returned: bool = False) -> tuple[Any, TypeAdapter[Any]]:
    """Return the core schema and the adapter of an annotation, or raise what pydantic raises."""
    if sys.version_info < (3, 12):
        annotation = _without_typing_dicts(annotation, {})
    # A TypeAdapter of a class accepts no configuration; one of a NewType does.
    config = _IGNORE_EXTRA if returned else _FORBID_EXTRA
    adapter: TypeAdapter[Any] = TypeAdapter(_new_type("Value", annotation), config=config)
    if not getattr(adapter, "pydantic_complete", True):
        adapter.rebuild(raise_errors=True)
    validator = SchemaValidator(_adapt_core_schema(adapter.core_schema))
    validate = functools.partial(_validate, validator)
    core = {"type": "function-plain", "function": {"type": "no-info", "function": validate}}
    return core, adapter


def _validate(validator: SchemaValidator, value: Any) -> Any:
    # From JSON text, a strict validator accepts a string as a date, and an array as a tuple.
    try:
        # By names, too: models are dumped by those of their fields, whatever their aliases.
        return validator.validate_json(to_json(_with_integers(value)), strict=True, by_name=True)
    except ValidationError:
        raise
    except Exception as error:  # a user's validator may raise anything
        raise PydanticCustomError(
            "raised", "{text}", {"text": error_text(error), "error": error}
        ) from error


def _with_integers(value: Any) -> Any:
    """Return JSON data with floats such as 2.0 as integers: some writers print only floats."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    return [_with_integers(item) for item in value] if isinstance(value, list) else value


def _adapt_core_schema(schema: Any, decodes_base64: bool = True) -> Any:
    """Return a core schema for JSON: bytes are base64, and `true` and 1 are different choices.

    A model says itself how its bytes are encoded, and so does pydantic's `Base64Bytes`: in these
    nothing `decodes_base64`.
    """
    if isinstance(schema, list):
        return [_adapt_core_schema(item, decodes_base64) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "bytes" and decodes_base64:
        read = {"type": "no-info", "function": _decode_base64}
        return {"type": "function-before", "function": read, "schema": schema}
    function = schema.get("function")
    callee = function.get("function") if isinstance(function, dict) else None
    owner = getattr(callee, "__self__", None)
    if schema.get("type") == "model" or isinstance(owner, EncodedBytes):
        decodes_base64 = False
    if schema.get("type") == "generator":  # an Iterable, whose items are to be checked now
        schema = schema | {"type": "list"}
    if schema.get("type") == "nullable":  # as a union it says that null was possible, too
        extras = {key: schema[key] for key in ("ref", "metadata") if key in schema}
        choices = [{"type": "none"}, _adapt_core_schema(schema["schema"], decodes_base64)]
        return {"type": "union", "mode": "left_to_right", "choices": choices, **extras}
    if schema.get("type") == "literal" and isinstance(schema.get("expected"), list):
        choices = schema["expected"]
    elif schema.get("type") == "enum" and isinstance(schema.get("members"), list):
        choices = [member.value for member in schema["members"]]
    else:
        return {
            key: item if key == "default" else _adapt_core_schema(item, decodes_base64)
            for key, item in schema.items()
        }
    numbers = [choice for choice in choices if isinstance(choice, int | float)]
    if not numbers:
        return schema
    expected = ", ".join(map(repr, choices[:-1])) + " or " * (len(choices) > 1) + repr(choices[-1])

    def check(value: Any) -> Any:
        is_bool = isinstance(value, bool)
        if not isinstance(value, int | float) or any(
            value == number and isinstance(number, bool) == is_bool for number in numbers
        ):
            with contextlib.suppress(ValueError):
                return schema["cls"](value) if schema["type"] == "enum" else value
        raise PydanticKnownError("literal_error", {"expected": expected})

    # An enum is read here: to a validator behind a function a strict enum's value is not JSON.
    checked: dict[str, Any] = {"function": {"type": "no-info", "function": check}}
    if schema["type"] == "enum":
        return checked | {"type": "function-plain"} | {k: schema[k] for k in schema if k == "ref"}
    return checked | {"type": "function-before", "schema": schema}


def _decode_base64(value: Any) -> bytes:
    try:
        return b64decode(value.translate(_URL_TO_STANDARD), validate=True)
    except (AttributeError, ValueError):
        raise PydanticCustomError("base64", "Input should be base64 text") from None


# -- schemas ---------------------------------------------------------------------------------------


def adapter_schemas(
    adapters: Mapping[str, TypeAdapter[Any]], *, returned: bool, cut_recursion: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the JSON schemas of adapters, as `annotation.schemas_of` does."""
    mode: Literal["validation", "serialization"] = "serialization" if returned else "validation"
    # Returned values are dumped by field names; given values may use the aliases.
    by_name, joint_schema = TypeAdapter.json_schemas(
        [(name, mode, adapter) for name, adapter in adapters.items()],
        by_alias=not returned,
        schema_generator=_QuietSchema,
    )
    definitions = joint_schema.get("$defs", {})
    recursive_schemas: dict[str, Any] = {}
    tidy_schemas = {
        name: _tidy(by_name[name, mode], definitions, recursive_schemas, cut=cut_recursion)
        for name in adapters
    }
    return tidy_schemas, recursive_schemas


class _QuietSchema(GenerateJsonSchema):
    # A default without a JSON form is left out of the schema, without a warning.
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012

    _is_in_model = False

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        if self._is_in_model:
            return super().bytes_schema(schema)
        return {"type": "string", "contentEncoding": "base64"}  # its lengths are the bytes'

    def model_schema(self, schema: Any) -> dict[str, Any]:
        was_in_model, self._is_in_model = self._is_in_model, True
        try:
            return super().model_schema(schema)
        finally:
            self._is_in_model = was_in_model

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        return _forbid_extra_keys(schema, super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        return _forbid_extra_keys(schema, super().typed_dict_schema(schema))

    def set_schema(self, schema: Any) -> dict[str, Any]:
        return _allow_repeated_items(super().set_schema(schema))

    def frozenset_schema(self, schema: Any) -> dict[str, Any]:
        return _allow_repeated_items(super().frozenset_schema(schema))


def _allow_repeated_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Do not ask that the items of a set differ: a repeated one is taken."""
    schema.pop("uniqueItems", None)
    return schema


def _forbid_extra_keys(core: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """State that unknown keys are refused, which some versions of pydantic leave out."""
    if core.get("config", {}).get("extra_fields_behavior") == "forbid":
        schema["additionalProperties"] = False
    return schema


def _tidy(
    schema: dict[str, Any],
    definitions: dict[str, Any],
    recursive_schemas: dict[str, Any],
    *,
    cut: bool,
) -> dict[str, Any]:
    """Return a schema without references and titles.

    Recursive types go to `recursive_schemas`; with `cut` they are cut instead.
    """
    recursive_names = {name for name in definitions if _is_recursive(name, definitions)}

    def walk(node: Any, parents: tuple[str, ...]) -> Any:
        if isinstance(node, str):
            return printable(node)
        if isinstance(node, list):
            return [walk(item, parents) for item in node]
        if not isinstance(node, dict):
            return node
        result: dict[str, Any] = {}
        for keyword, item in node.items():
            if keyword in ("$ref", "title", "discriminator"):
                continue  # the discriminator is OpenAPI's, and contains references
            if keyword == "properties":
                result[keyword] = {name: walk(value, parents) for name, value in item.items()}
            elif keyword in ("default", "const", "enum", "examples"):
                result[keyword] = item
            else:
                result[keyword] = walk(item, parents)
        reference = node.get("$ref", "")
        if not reference.startswith(_REF):
            return result
        name = reference.removeprefix(_REF)
        if name not in recursive_names:
            return walk(definitions[name], parents) | result
        if cut:
            if name not in parents:
                return walk(definitions[name], (*parents, name)) | result
            kind = definitions[name].get("type", "object")
            return {"type": kind, "description": f"recursive: again a {name}"} | result
        if name not in recursive_schemas:
            recursive_schemas[name] = None  # set before the recursion, which comes here again
            recursive_schemas[name] = walk(definitions[name], parents)
        return {"$ref": reference} | result

    tidied: dict[str, Any] = walk(schema, ())
    return tidied


def _is_recursive(name: str, definitions: dict[str, Any]) -> bool:
    """Return whether a definition refers to itself, directly or indirectly."""
    visited: set[str] = set()
    pending = _references(definitions[name])
    while pending:
        if name in pending:
            return True
        visited |= pending
        pending = {
            target for reference in pending for target in _references(definitions[reference])
        } - visited
    return False


def _references(node: Any) -> set[str]:
    names = re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(node, default=str))
    return set(names)


# -- typing.TypedDict before Python 3.12 -----------------------------------------------------------


def _without_typing_dicts(annotation: Any, copies: dict[Any, Any]) -> Any:
    """Return an annotation with each `typing.TypedDict` replaced by one that pydantic accepts."""
    if typing_extensions.is_typeddict(annotation):
        return _converted_typeddict(annotation, copies)
    origin, args = get_origin(annotation), get_args(annotation)
    if not args or origin is Literal or isinstance(args[0], list):  # Callable[[int], str]
        return annotation
    if origin is Annotated:
        return Annotated[(_without_typing_dicts(args[0], copies), *args[1:])]
    converted = tuple(_without_typing_dicts(arg, copies) for arg in args)
    if converted == args:
        return annotation
    if origin is Union or origin is types.UnionType:
        return Union[converted]  # noqa: UP007
    return origin[converted[0] if len(converted) == 1 else converted]


def _converted_typeddict(original: Any, copies: dict[Any, Any]) -> Any:
    if original in copies:
        return copies[original]
    hints = typing_extensions.get_type_hints(original, include_extras=True)
    # First the keys, then their types: a type may refer to its own dict.
    keys = {name: _presence(name, hint, original)[Any] for name, hint in hints.items()}
    copy = _make_typeddict(original.__name__, keys)
    copies[original] = copy
    for name in ("__module__", "__qualname__", "__doc__", "__pydantic_config__"):
        if hasattr(original, name):
            setattr(copy, name, getattr(original, name))
    new_hints = {name: _without_typing_dicts(hint, copies) for name, hint in hints.items()}
    if type(original).__module__ != "typing" and new_hints == hints:
        copies[original] = original
    copy.__annotations__ = new_hints
    return copies[original]


# Another name, since type checkers require literal keys where a TypedDict is made.
_make_typeddict: Any = typing_extensions.TypedDict


def _presence(name: str, hint: Any, original: Any) -> Any:
    # A class with string annotations does not know which of its keys may be missing.
    while (origin := get_origin(hint)) in (Annotated, typing_extensions.ReadOnly):
        hint = get_args(hint)[0]
    if origin in (typing_extensions.Required, typing_extensions.NotRequired):
        return origin
    required = name in original.__required_keys__
    return typing_extensions.Required if required else typing_extensions.NotRequired
