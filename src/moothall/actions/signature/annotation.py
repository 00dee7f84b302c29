"""The JSON form of an annotation: its JSON schema, and a validator of pydantic_core for it.

Scalars, and lists, objects and unions of them, need only pydantic_core, which is imported when the
first value is checked. The module `structured` handles all other types with a JSON form.
"""

from __future__ import annotations

import contextlib
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from moothall.foundation.errors import DefinitionError
from moothall.foundation.jsonvalue import copy_json
from moothall.foundation.text import error_text, excerpt, json_type, render_path, shorten
from moothall.foundation.threads import held_by_forks

_MAX_NAMED = 8  # the most wrong values named in one error
_MAX_ERRORS = 100_000  # the most errors that are examined, in a tenth of a second


class Form(NamedTuple):
    """The JSON form of values; it has either `schema` or pydantic's `adapter`."""

    core: Any  # the core schema for a validator of pydantic_core
    schema: dict[str, Any] | None
    adapter: Any = None


# -- annotations -----------------------------------------------------------------------------------


def resolved_annotations(source: Any, label: str) -> dict[str, Any]:
    """Return a function's annotations with their names resolved, or raise a DefinitionError."""
    with contextlib.suppress(Exception):
        return typing.get_type_hints(source, include_extras=True)
    namespace = getattr(source, "__globals__", {})
    for name, annotation in getattr(source, "__annotations__", {}).items():
        single = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            typing.get_type_hints(single, globalns=namespace, include_extras=True)
        except Exception as error:
            place = "what it returns" if name == "return" else f'parameter "{name}"'
            raise DefinitionError(
                f"{label}: the annotation {annotation_text(annotation)} of {place} cannot be "
                f"resolved ({error_text(error)}); it must name what its module defines or imports, "
                "not under TYPE_CHECKING only"
            ) from error
    return {}  # a callable that cannot have annotations


def annotation_text(annotation: Any) -> str:
    """Return an annotation nearly as its author wrote it."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return shorten(annotation if isinstance(annotation, str) else repr(annotation), 200)


def injected_class(annotation: Any) -> type | None:
    """Return the class of an injected parameter's annotation, or None for an argument."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [split_annotated(member)[0] for member in get_args(annotation)]
    for member in members:
        bare = get_origin(member) or member  # `Context[Deps]` is injected like `Context`
        if isinstance(bare, type) and getattr(bare, "__moothall_injected__", False) is True:
            return bare
    return None


def split_annotated(annotation: Any) -> tuple[Any, str | None]:
    """Return an annotation and its description; `Annotated[…]` goes if it has no constraints."""
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
    """Return `annotation | None`; `Annotated[…]` is kept."""
    if annotation is Any or annotation is object:
        return annotation
    if get_origin(annotation) is Annotated:
        bare, *metadata = get_args(annotation)
        return Annotated[(or_none(bare), *metadata)]
    return Union[annotation, None]  # noqa: UP007


# -- forms -----------------------------------------------------------------------------------------


def form_of(annotation: Any, *, returned: bool = False) -> Form:
    """Return the form of given or returned values; raise what their classes or pydantic raise."""
    form = _simple_form(annotation)
    if form is None:
        from moothall.actions.signature.structured import structured_form

        core, adapter = structured_form(annotation, returned)
        form = Form(core, None, adapter)
    return form


def schemas_of(
    forms: dict[str, Form], *, returned: bool = False, cut_recursion: bool = False
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the JSON schemas of forms, and the definitions of recursive types, or `cut` words."""
    structured = {name: form.adapter for name, form in forms.items() if form.schema is None}
    by_name: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    if structured:
        from moothall.actions.signature.structured import adapter_schemas

        by_name, definitions = adapter_schemas(
            structured, returned=returned, cut_recursion=cut_recursion
        )
    return {
        name: by_name[name] if form.schema is None else form.schema for name, form in forms.items()
    }, definitions


def _simple_form(annotation: Any) -> Form | None:
    """Return the form of an annotation made of scalars, lists, objects and unions, else None."""
    annotation, _ = split_annotated(annotation)
    try:
        scalar = _SCALAR_FORMS.get(annotation)
    except TypeError:  # not hashable, such as Annotated[int, []]
        return None
    if scalar is not None:
        return scalar
    origin, args = get_origin(annotation), get_args(annotation)
    is_union = origin is Union or origin is types.UnionType
    if origin is dict and len(args) == 2 and args[0] is str:
        args = args[1:]
    elif not (is_union or (origin is list and len(args) == 1)):
        return None
    inner_forms = [form for form in map(_simple_form, args) if form is not None]
    if len(inner_forms) < len(args):
        return None
    if is_union:
        schema: dict[str, Any] = {"anyOf": [form.schema for form in inner_forms]}
        return Form({"type": "union", "choices": [form.core for form in inner_forms]}, schema)
    core, items = inner_forms[0][:2]
    if origin is list:
        schema = {"type": "array", "items": items} if items else {"type": "array"}
        return Form({"type": "list", "items_schema": core, **_FAIL_FAST}, schema)
    schema = {"type": "object", "additionalProperties": items} if items else {"type": "object"}
    return Form({"type": "dict", "values_schema": core, **_FAIL_FAST}, schema)


def _scalar_form(core: str, kind: str) -> Form:
    return Form(
        {"type": core} if core == "none" else {"type": core, "strict": True}, {"type": kind}
    )


# Only the first fault is reported: megabytes of data must not produce an error per item.
_FAIL_FAST = {"strict": True, "fail_fast": True}
# JSON has one kind of number, and some writers print every number as a float.
_INT_SCHEMA = {
    "type": "union",
    "mode": "left_to_right",
    "custom_error_type": "int_type",
    "choices": [
        {"type": "int", "strict": True},
        {"type": "chain", "steps": [{"type": "float", "strict": True}, {"type": "int"}]},
    ],
}
_ANY_FORM = Form({"type": "any"}, {})
_SCALAR_FORMS: dict[Any, Form] = {
    str: _scalar_form("str", "string"),
    int: Form(_INT_SCHEMA, {"type": "integer"}),
    float: _scalar_form("float", "number"),
    bool: _scalar_form("bool", "boolean"),
    type(None): _scalar_form("none", "null"),
    list: _scalar_form("list", "array"),
    dict: _scalar_form("dict", "object"),
    Any: _ANY_FORM,
    object: _ANY_FORM,
}
_SCALAR_FORMS[typing.List] = _SCALAR_FORMS[list]  # noqa: UP006
_SCALAR_FORMS[typing.Dict] = _SCALAR_FORMS[dict]  # noqa: UP006


# -- reading values --------------------------------------------------------------------------------


class Mismatch(Exception):
    """Values do not match their forms: `problems` has each one's path and what is wrong.

    `name` is that of the first, where values are read by name.
    """

    def __init__(self, *problems: tuple[str, str], name: str | None = None) -> None:
        super().__init__("; ".join(" ".join(problem) for problem in problems))
        self.problems = problems
        self.name = name


# A child that was forked while another thread imported pydantic_core, or built a validator, hung.
_BUILD_LOCK: Final = held_by_forks()


def validator_of(forms: Mapping[str, Form], required: Iterable[str]) -> Any:
    """Return what `read_values` needs to read values by name: a SchemaValidator."""
    fields = {
        name: {"type": "typed-dict-field", "schema": form.core, "required": name in required}
        for name, form in forms.items()
    }
    with _BUILD_LOCK:
        from pydantic_core import SchemaValidator

        return SchemaValidator({"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"})


def read_values(validator: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return JSON values by name as a validator reads them, or raise Mismatch or NotJSON."""
    try:
        return validator.validate_python(values)  # type: ignore[no-any-return]
    except UnicodeError:
        copy_json(values)  # finds the lone surrogate
        raise
    except ValueError as error:
        errors = _errors_of(error)
    by_name: dict[str, list[Any]] = {name: [] for name in values}
    for each in errors:
        by_name.setdefault(each["loc"][0], []).append(each)
    at_fault = {name: together for name, together in by_name.items() if together}
    problems = [_describe_problem(together, values) for together in at_fault.values()]
    causes = (each.get("ctx", {}).get("error") for each in errors)
    cause = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    raise Mismatch(*problems[:_MAX_NAMED], name=next(iter(at_fault))) from cause


def _errors_of(error: Any) -> list[Any]:
    if error.error_count() > _MAX_ERRORS:
        raise Mismatch(("…", f"has {error.error_count():,} wrong values"))
    return error.errors(include_url=False)  # type: ignore[no-any-return]


def _describe_problem(errors: list[Any], values: dict[str, Any]) -> tuple[str, str]:
    """Return the path of a wrong value, the deepest one, and what is wrong."""
    paths = [_path_steps(error["loc"], values, error["type"] == "missing") for error in errors]
    deepest = max(paths, key=len)
    # Errors at one place come from the members of a union.
    deepest_errors = [error for steps, error in zip(paths, errors, strict=True) if steps == deepest]
    deepest_errors.sort(key=lambda error: error["type"] == "none_required")  # "or null" comes last
    demands = [_demand(error) for error in deepest_errors]
    kind, value = deepest_errors[0]["type"], deepest_errors[0]["input"]
    if kind == "float_type" and type(value) is int:
        problem = "must be a number that a float can hold"
    elif None in demands:
        problem = _error_sentence(deepest_errors[demands.index(None)])
    else:
        got = excerpt(value) if kind in _CHOICE_ERRORS else json_type(value)
        problem = f"must be {' or '.join(dict.fromkeys(filter(None, demands)))}, not {got}"
    return render_path(deepest[1:], str(deepest[0])), problem


def _path_steps(loc: tuple[Any, ...], value: Any, missing: bool = False) -> list[str | int]:
    """Return the part of pydantic's location that is a path in the value, without union members."""
    steps: list[str | int] = []
    for step in loc:
        if (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        ):
            steps.append(step)
            value = value[step]
    return [*steps, loc[-1]] if missing else steps


_TYPE_WORDS = {
    "int_type": "integer",
    "float_type": "number",
    "string_type": "string",
    "bool_type": "boolean",
    "none_required": "null",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "array"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "object"),
    "dataclass_type": "object",
}
_CHOICE_ERRORS = ("enum", "literal_error")


def _demand(error: Any) -> str | None:
    """Return what the value must be instead, if one word or the choices describe it."""
    if error["type"] not in _CHOICE_ERRORS:
        return _TYPE_WORDS.get(error["type"])
    # pydantic quotes 'a'; all other texts here quote "a".
    return shorten(re.sub(r"'([^'\"]*)'", r'"\1"', error["ctx"]["expected"]), 1000)


def _error_sentence(error: Any) -> str:
    kind = error["type"]
    if kind in ("missing", "extra_forbidden", "unexpected_keyword_argument"):
        return "is missing" if kind == "missing" else "is unexpected"
    text = shorten(error["msg"], 200).replace("timedelta", "duration")
    should = re.match(r"[\w ]+? should (.+)", text, re.S)
    if kind in ("value_error", "assertion_error", "raised") or not should:
        text = re.sub(r"^(Value error|Assertion failed), ", "", text)
        return f"is not valid ({text})"
    # "a valid date, too short": the text after the comma explains, and is put in brackets.
    demand = re.sub(r"^(be a valid [^,]+), (.+)$", r"\1 (\2)", should[1], flags=re.S)
    demand, _, count = demand.partition(" after validation")  # ", not 3": how many items there are
    return f"must {demand}" + (count or f", not {excerpt(error['input'])}")
