"""The JSON form of an annotation: its schema, and how a value is checked against it.

Here are the types of nearly every action, which need no library: scalars, and lists, objects and
unions of them. What else has a JSON form is the subject of `civitas.structured`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from civitas.errors import DefinitionError
from civitas.jsonvalue import Step, json_type, shorten

__all__ = [
    "Form",
    "Mismatch",
    "injected_class",
    "joined",
    "or_none",
    "resolved_annotations",
    "simple_form",
    "spelled",
    "split_annotated",
]

_ANYTHING = frozenset({type(None), bool, int, float, str, list, dict})


class Mismatch(Exception):
    """A value is not of its annotation's form.

    Attributes:
        expected: what it must be, such as `integer`; empty if that does not say it
        problem: the whole sentence after the argument's name, such as `must be integer, not string`
        steps: the way to the value inside the argument, the last step first
    """

    def __init__(self, expected: str, problem: str, steps: Sequence[Step] = ()) -> None:
        super().__init__(problem)
        self.expected = expected
        self.problem = problem
        self.steps = list(steps)

    @classmethod
    def wrong_type(cls, expected: str, value: object) -> Mismatch:
        """Return the mismatch of a value that is of another type than `expected`."""
        return cls(expected, f"must be {expected}, not {json_type(value)}")


@dataclass(frozen=True, slots=True)
class Form:
    """How values of an annotation look in JSON.

    Attributes:
        exact: the types of values that are right as they are
        convert: turns any other JSON value into what the annotation says, or raises `Mismatch`
        schema: the JSON schema; None where `adapter` makes it
        adapter: pydantic's TypeAdapter, for what is not simple
    """

    exact: frozenset[type]
    convert: Callable[[Any], Any]
    schema: dict[str, Any] | None
    adapter: Any = None


def resolved_annotations(source: Any, where: str) -> dict[str, Any]:
    """Return a function's annotations with every name in them resolved.

    Args:
        source: what has `__annotations__`
        where: how an error names the function

    Raises:
        DefinitionError: one of them names what its module does not have
    """
    try:
        return typing.get_type_hints(source, include_extras=True)
    except Exception:
        annotations = getattr(source, "__annotations__", {})
        for name, annotation in annotations.items():
            alone = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                typing.get_type_hints(
                    alone, globalns=getattr(source, "__globals__", {}), include_extras=True
                )
            except Exception as error:
                what = "what it returns" if name == "return" else f'parameter "{name}"'
                raise DefinitionError(
                    f"{where}: the annotation {spelled(annotation)} of {what} cannot be resolved "
                    f"({type(error).__name__}: {shorten(str(error), 200)}); it must name what "
                    "its module defines or imports, not under TYPE_CHECKING only"
                ) from error
        return {}  # a callable that cannot have annotations


def spelled(annotation: Any) -> str:
    """Return an annotation as its author wrote it, or nearly so."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return shorten(annotation if isinstance(annotation, str) else repr(annotation), 200)


def injected_class(annotation: Any) -> type | None:
    """Return the class that an annotation asks to be filled in with, or None for an argument."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [split_annotated(member)[0] for member in get_args(annotation)]
    for member in members:
        bare = get_origin(member) or member  # `Context[Deps]` is filled in as `Context` is
        if isinstance(bare, type) and getattr(bare, "__civitas_injected__", False) is True:
            return bare
    return None


def split_annotated(annotation: Any) -> tuple[Any, str | None]:
    """Return an annotation and the description that `Annotated[…]` gives it.

    The description is the first string, `Doc(…)` or `Field(description=…)`. If nothing else is
    there, what is annotated comes back bare; otherwise the annotation as it was, since constraints
    are in it.
    """
    if get_origin(annotation) is not Annotated:
        return annotation, None
    bare, *metadata = get_args(annotation)
    description = None
    only_text = True
    for item in metadata:
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if not isinstance(text, str):
            only_text = False
            text = getattr(item, "description", None)
        if description is None and isinstance(text, str):
            description = text
    return (bare if only_text else annotation), description


def or_none(annotation: Any) -> Any:
    """Return `annotation | None`; what is annotated with `Annotated[…]` stays annotated."""
    if annotation is Any or annotation is object:
        return annotation
    if get_origin(annotation) is Annotated:
        bare, *metadata = get_args(annotation)
        return Annotated[(or_none(bare), *metadata)]
    return Union[annotation, None]  # noqa: UP007


def simple_form(annotation: Any) -> Form | None:
    """Return the form of an annotation made of scalars, lists, objects and unions, else None."""
    annotation, _ = split_annotated(annotation)
    try:
        scalar = _SCALARS.get(annotation)
    except TypeError:  # not hashable, such as Annotated[int, []]
        return None
    if scalar is not None:
        return scalar
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is list and len(args) == 1:
        item = simple_form(args[0])
        return _list_of(item) if item else None
    if origin is dict and len(args) == 2 and args[0] is str:
        item = simple_form(args[1])
        return _dict_of(item) if item else None
    if origin is Union or origin is types.UnionType:
        members = [simple_form(arg) for arg in args]
        known = [member for member in members if member is not None]
        return _union_of(known) if len(known) == len(members) else None
    return None


def _list_of(item: Form) -> Form:
    exact, convert_item = item.exact, item.convert

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch.wrong_type("array", value)
        result = value
        for index, element in enumerate(value):
            if type(element) in exact:
                continue
            try:
                converted = convert_item(element)
            except Mismatch as mismatch:
                mismatch.steps.append(index)
                raise
            if converted is not element:
                if result is value:
                    result = value.copy()  # the caller's list is not ours to change
                result[index] = converted
        return result

    schema = {"type": "array", "items": item.schema} if item.schema else {"type": "array"}
    return Form(frozenset(), convert, schema)


def _dict_of(item: Form) -> Form:
    exact, convert_item = item.exact, item.convert

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch.wrong_type("object", value)
        result = value
        for key, element in value.items():
            if type(element) in exact:
                continue
            try:
                converted = convert_item(element)
            except Mismatch as mismatch:
                mismatch.steps.append(key)
                raise
            if converted is not element:
                if result is value:
                    result = value.copy()  # the caller's dict is not ours to change
                result[key] = converted
        return result

    schema: dict[str, Any] = {"type": "object"}
    if item.schema:
        schema["additionalProperties"] = item.schema
    return Form(frozenset(), convert, schema)


def _union_of(members: list[Form]) -> Form:
    exact = frozenset[type]().union(*(member.exact for member in members))

    def convert(value: Any) -> Any:
        accepted, mismatches = [], []
        for member in members:
            if type(value) in member.exact:
                return value
            try:
                accepted.append(member.convert(value))
            except Mismatch as mismatch:
                mismatches.append(mismatch)
        if not accepted:
            raise joined(mismatches, value)
        # A member that takes the value as it is goes before one that changes it.
        return next((result for result in accepted if result is value), accepted[0])

    return Form(exact, convert, {"anyOf": [member.schema for member in members]})


def joined(mismatches: list[Mismatch], value: object) -> Mismatch:
    """Return one mismatch for the several that the members of a union have with a value."""
    deepest = max(mismatches, key=lambda mismatch: len(mismatch.steps))
    if deepest.steps or not all(mismatch.expected for mismatch in mismatches):
        # Of the right kind but for something inside it: that is what is worth saying.
        return deepest
    expected = " or ".join(dict.fromkeys(mismatch.expected for mismatch in mismatches))
    return Mismatch.wrong_type(expected, value)


def _to_int(value: Any) -> int:
    # JSON has one kind of number: some writers print every one as a float.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Mismatch.wrong_type("integer", value)


def _to_float(value: Any) -> float:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("", "must be a number that a float can hold") from None
    if isinstance(value, float):
        return value
    raise Mismatch.wrong_type("number", value)


def _only(expected: str, kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise Mismatch.wrong_type(expected, value)

    return convert


def _scalar(expected: str, kind: type, convert: Callable[[Any], Any] | None = None) -> Form:
    return Form(frozenset({kind}), convert or _only(expected, kind), {"type": expected})


_ANY = Form(_ANYTHING, lambda value: value, {})
_LIST = _scalar("array", list)
_DICT = _scalar("object", dict)

_SCALARS: dict[Any, Form] = {
    str: _scalar("string", str),
    int: _scalar("integer", int, _to_int),
    float: _scalar("number", float, _to_float),
    bool: _scalar("boolean", bool),
    type(None): _scalar("null", type(None)),
    None: _scalar("null", type(None)),
    list: _LIST,
    typing.List: _LIST,  # noqa: UP006
    dict: _DICT,
    typing.Dict: _DICT,  # noqa: UP006
    Any: _ANY,
    object: _ANY,
}
