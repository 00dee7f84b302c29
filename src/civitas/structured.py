"""The JSON form of structured types: dataclasses, models, enums, dates and all that pydantic knows.

Importing this imports pydantic, so it is imported when the first such annotation is met.
"""

from __future__ import annotations

import json
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions
from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from civitas.annotation import Form, Mismatch, joined
from civitas.jsonvalue import Step, excerpt, shorten

__all__ = ["schemas", "structured_form", "tidy"]

_REF = "#/$defs/"
_LONGEST_TEXT = 200


def structured_form(annotation: Any) -> Form:
    """Return the form of any annotation that pydantic can check.

    Raises:
        Exception: of whatever class, if the annotation has no JSON form; its classes may run code
            of the user's when they are asked for one.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(_with_known_typeddicts(annotation))
    if not getattr(adapter, "pydantic_complete", True):
        adapter.rebuild(raise_errors=True)
    return Form(frozenset(), _checker(adapter), None, adapter)


def schemas(
    forms: Mapping[str, Form], mode: JsonSchemaMode
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the JSON schema of each form, and the definitions that they refer to."""
    inputs = [(name, mode, form.adapter) for name, form in forms.items()]
    # What is returned is dumped by field names; what is given may use the aliases.
    found, together = TypeAdapter.json_schemas(
        inputs, by_alias=mode == "validation", schema_generator=_QuietSchema
    )
    return {name: found[name, mode] for name in forms}, together.get("$defs", {})


class _QuietSchema(GenerateJsonSchema):
    # A default without a JSON form is left out of the schema; that is nothing to warn of.
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012


# -- checking --------------------------------------------------------------------------------------


def _checker(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        try:
            try:
                return adapter.validate_json(json.dumps(value), strict=True)
            except ValidationError as error:
                errors = error.errors(include_url=False)
                whole = _with_whole_numbers(value, errors)
                if whole is value:
                    raise _mismatch(errors, value) from None
            try:
                return adapter.validate_json(json.dumps(whole), strict=True)
            except ValidationError as error:
                raise _mismatch(error.errors(include_url=False), value) from None
        except Mismatch:
            raise
        except Exception as error:  # a validator of the user's may raise anything
            text = shorten(f"{type(error).__name__}: {error}", _LONGEST_TEXT)
            raise Mismatch("", f"is not valid ({text})") from error

    return convert


def _with_whole_numbers(value: Any, errors: Iterable[Any]) -> Any:
    """Return `value` with integers for the floats, such as 2.0, that `errors` want to be integers.

    JSON has one kind of number and some writers print every one as a float; pydantic, being strict,
    takes none for an integer.
    """
    for error in errors:
        number = error["input"]
        if error["type"] == "int_type" and isinstance(number, float) and number.is_integer():
            value = _replaced(value, _steps(error["loc"], value), int(number))
    return value


def _replaced(value: Any, steps: list[Any], new: int) -> Any:
    if not steps:
        return new if value == new else value
    copy = value.copy()
    copy[steps[0]] = _replaced(value[steps[0]], steps[1:], new)
    return copy


def _mismatch(errors: list[Any], value: Any) -> Mismatch:
    """Say in one sentence what pydantic's errors say, the deepest place first."""
    places = [(_place(error, value), error) for error in errors]
    deepest = max((steps for steps, _ in places), key=len)
    # Errors at one place come from the members of a union.
    here = [error for steps, error in places if steps == deepest]
    mismatch = joined([_told(error) for error in here], here[0]["input"])
    mismatch.steps += reversed(deepest)
    return mismatch


def _place(error: Any, value: Any) -> list[Step]:
    steps = _steps(error["loc"], value)
    # What is missing is no way into the value: its name comes on top.
    return [*steps, error["loc"][-1]] if error["type"] == "missing" else steps


def _steps(loc: Iterable[Any], value: Any) -> list[Step]:
    """Return the part of pydantic's location that is a way into the value.

    The other parts are names of union members and the like.
    """
    steps: list[Step] = []
    for step in loc:
        if (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        ):
            steps.append(step)
            value = value[step]
    return steps


_EXPECTED = {
    "int_type": "integer",
    "float_type": "number",
    "string_type": "string",
    "bool_type": "boolean",
    "none_required": "null",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "dataclass_type": "object",
}


def _told(error: Any) -> Mismatch:
    kind, value = error["type"], error["input"]
    expected = _EXPECTED.get(kind)
    if expected is not None:
        return Mismatch.wrong_type(expected, value)
    if kind in ("missing", "extra_forbidden", "unexpected_keyword_argument"):
        return Mismatch("", "is missing" if kind == "missing" else "is unexpected")
    if kind in ("enum", "literal_error"):
        allowed = shorten(_quoted(error["ctx"]["expected"]), 1000)
        return Mismatch("", f"must be {allowed}, not {excerpt(value)}")
    text = shorten(error["msg"], _LONGEST_TEXT)
    should = re.match(r"[\w ]+? should (.+)", text, re.S)
    if kind in ("value_error", "assertion_error") or not should:
        text = re.sub(r"^(Value error|Assertion failed), ", "", text)
        return Mismatch("", f"is not valid ({text})")
    # "a valid date, too short": what comes after the comma explains, and goes in brackets.
    demand = re.sub(r"^(be a valid [^,]+), (.+)$", r"\1 (\2)", should[1], flags=re.S)
    return Mismatch("", f"must {demand}, not {excerpt(value)}")


def _quoted(expected: str) -> str:
    """Turn pydantic's `'a', 'b' or 1` into `"a", "b" or 1`, as all other texts here quote."""
    return re.sub(r"'([^'\"]*)'", r'"\1"', expected)


# -- schemas ---------------------------------------------------------------------------------------


def tidy(
    schema: dict[str, Any], definitions: dict[str, Any], *, cut: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a schema with its references written out and no generated titles.

    Args:
        schema: pydantic's
        definitions: what `$ref` in it refers to
        cut: end a recursive type, where it recurs, with a description in words; otherwise such a
            type stays a reference, and its definition is returned as well
    """
    kept: dict[str, Any] = {}
    recursive = {name for name in definitions if _reaches(name, definitions)}

    def walk(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [walk(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        result: dict[str, Any] = {}
        for keyword, item in node.items():
            if keyword in ("$ref", "title", "discriminator"):
                continue  # the discriminator is OpenAPI's, and holds references too
            if keyword in ("properties", "patternProperties"):
                result[keyword] = {name: walk(value, inside) for name, value in item.items()}
            elif keyword in ("default", "const", "enum", "examples"):
                result[keyword] = item
            else:
                result[keyword] = walk(item, inside)
        reference = node.get("$ref", "")
        if not reference.startswith(_REF):
            return result
        name = reference.removeprefix(_REF)
        if name not in recursive:
            return walk(definitions[name], inside) | result
        if cut:
            if name not in inside:
                return walk(definitions[name], (*inside, name)) | result
            return _recursion(name, definitions[name]) | result
        if name not in kept:
            kept[name] = None  # before walking into it, which leads here again
            kept[name] = walk(definitions[name], inside)
        return {"$ref": reference} | result

    return walk(schema, ()), kept


def _recursion(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    return {"type": definition.get("type", "object"), "description": f"recursive: again a {name}"}


def _reaches(name: str, definitions: dict[str, Any]) -> bool:
    """Tell whether a definition refers to itself, be it by way of others."""
    seen: set[str] = set()
    ahead = _references(definitions[name])
    while ahead:
        if name in ahead:
            return True
        seen |= ahead
        ahead = {found for one in ahead for found in _references(definitions[one])} - seen
    return False


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in _references(item)}
    if not isinstance(node, dict):
        return set()
    names = {name for item in node.values() for name in _references(item)}
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REF):
        names.add(reference.removeprefix(_REF))
    return names


# -- typing.TypedDict before Python 3.12 -----------------------------------------------------------


def _with_known_typeddicts(annotation: Any) -> Any:
    """Return an annotation with every `typing.TypedDict` in it as one of typing_extensions.

    pydantic takes the standard one only from Python 3.12 on, where it keeps its bases.
    """
    return annotation if sys.version_info >= (3, 12) else _converted(annotation, {})


def _converted(annotation: Any, done: dict[Any, Any]) -> Any:
    if typing_extensions.is_typeddict(annotation):
        return _converted_typeddict(annotation, done)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or not args or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(_converted(args[0], done), *args[1:])]
    if isinstance(args[0], list):  # Callable[[int], str]
        return annotation
    converted = tuple(_converted(arg, done) for arg in args)
    if converted == args:
        return annotation
    if origin is Union or origin is types.UnionType:
        return Union[converted]  # noqa: UP007
    if origin in _QUALIFIERS:
        return origin[converted[0]]
    return origin[converted]


_QUALIFIERS = (
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)


def _converted_typeddict(original: Any, done: dict[Any, Any]) -> Any:
    if original in done:
        return done[original]
    hints = typing_extensions.get_type_hints(original, include_extras=True)
    # The keys first, their types after: a type may refer to the dict that it is in.
    keys = {name: _presence(name, hint, original)[Any] for name, hint in hints.items()}
    copy = _make_typeddict(original.__name__, keys)
    done[original] = copy
    copy.__module__ = original.__module__
    copy.__qualname__ = original.__qualname__
    copy.__doc__ = original.__doc__
    if hasattr(original, "__pydantic_config__"):
        copy.__pydantic_config__ = original.__pydantic_config__
    types_of = {name: _converted(hint, done) for name, hint in hints.items()}
    if type(original).__module__ != "typing" and types_of == hints:
        done[original] = original
    copy.__annotations__ = types_of
    return done[original]


# By another name, since type checkers want the keys written out where a TypedDict is made.
_make_typeddict: Any = typing_extensions.TypedDict


def _presence(name: str, hint: Any, original: Any) -> Any:
    # A class whose annotations are strings does not know which of its keys may be missing.
    while (origin := get_origin(hint)) in (Annotated, typing_extensions.ReadOnly):
        hint = get_args(hint)[0]
    if origin in (typing_extensions.Required, typing_extensions.NotRequired):
        return origin
    required = name in original.__required_keys__
    return typing_extensions.Required if required else typing_extensions.NotRequired
