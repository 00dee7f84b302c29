"""Help, JSON schema and argument checks from a function's signature and docstring.

Types come from the annotations; for a parameter without one, from the docstring. Descriptions come
from the docstring, unless `Annotated[…]` has one.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from moothall.actions.signature.annotation import (
    Form,
    Mismatch,
    annotation_text,
    form_of,
    injected_class,
    or_none,
    read_values,
    resolved_annotations,
    schemas_of,
    split_annotated,
    validator_of,
)
from moothall.actions.signature.docstring import (
    Docstring,
    DocstringEntry,
    read_docstring,
    read_type,
)
from moothall.actions.signature.schema import with_open_objects
from moothall.foundation.errors import ActionError, DefinitionError, InvalidArguments
from moothall.foundation.jsonvalue import NotJSON, copy_json, to_json
from moothall.foundation.text import error_text, excerpt, printable

_MAX_LISTED_NAMES = 8  # the most names in one error

_NO_DEFAULT: Any = inspect.Parameter.empty
_Defs = dict[str, Any]


def refuse_generator(function: Callable[..., Any], label: str) -> None:
    """Raise DefinitionError if a function yields: its caller would get the generator."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(
            f"{label}: an action returns one value; it cannot yield: "
            "return a list, and tell how far it is by Context.progress(text)"
        )


def checked_parameters(
    function: Callable[..., Any], bound_to_self: bool, label: str
) -> list[inspect.Parameter]:
    """Return a function's parameters, or raise DefinitionError if one cannot be given by name.

    Annotations are not read, since at definition time they may name what is not yet defined.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        raise DefinitionError(
            f"{label}: Python does not know its signature; wrap it in a function"
        ) from None
    if bound_to_self:
        if not parameters or parameters[0].kind in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_KEYWORD,
        ):
            raise DefinitionError(f"{label}: a method needs `self` as its first parameter")
        if parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            del parameters[0]
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            problem = f"*{name} cannot be given by name; take a list parameter instead"
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            problem = f"**{name} has no names to describe; take a dict parameter instead"
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            problem = (
                f'parameter "{name}" is positional-only; remove the "/", or wrap it in a function'
            )
        elif type(parameter.default).__module__ == "pydantic.fields":
            problem = (
                f'parameter "{name}" has a Field as its default; '
                "write it as Annotated[type, Field(…)]"
            )
        else:
            continue
        raise DefinitionError(f"{label}: {problem}")
    return parameters


class _Parameter(NamedTuple):
    annotation: Any
    form: Form
    default: Any
    description: str | None


class Signature:
    """What callers must know about a function, without a reference to it, and argument checks.

    `injected` has the parameters that the callee's side fills in, by name, with their classes:
    those whose annotated class has `__moothall_injected__ = True`.
    """

    injected: Mapping[str, type]

    def __init__(self, function: Callable[..., Any], *, bound_to_self: bool) -> None:
        source = _plain_function(function)
        self._name: str = getattr(source, "__qualname__", None) or type(function).__qualname__
        parameters = checked_parameters(function, bound_to_self, self._name)
        self._docstring = inspect.getdoc(function if isinstance(function, type) else source)
        self._parsed_docstring: Docstring | None = None
        hints = resolved_annotations(source, self._name)
        self._returns: Any = hints.get("return", _NO_DEFAULT)

        injected: dict[str, type] = {}
        arguments: dict[str, _Parameter] = {}
        for parameter in parameters:
            name = parameter.name
            hint = hints.get(name, parameter.annotation)
            if hint is _NO_DEFAULT and self._docstring:
                hint = read_type(self._parse_docstring().args.get(name, DocstringEntry()).type_name)
            annotation, description = split_annotated(Any if hint is _NO_DEFAULT else hint)
            if (kind := injected_class(annotation)) is not None:
                injected[name] = kind
                continue
            if parameter.default is None or name == "original_message_id":
                # The default None allows null, whatever the annotation. A `response` and an
                # `error` get null if the message had no id.
                annotation = or_none(annotation)
            try:
                form = form_of(annotation)
            except Exception as error:
                raise self._no_form_error(name, hint, error) from error
            arguments[name] = _Parameter(hint, form, parameter.default, description)
        self.injected = types.MappingProxyType(injected)
        self._parameters = arguments
        self._required = tuple(n for n, each in arguments.items() if each.default is _NO_DEFAULT)
        # A type whose values pydantic can check may still have no schema: raise now.
        self._schemas = self._schemas_of(cut_recursion=False)
        annotations = {name: parameter.annotation for name, parameter in arguments.items()}
        # Arguments of exactly these types are passed on: no validator is as fast.
        self._exact_types = (
            annotations if all(each in (int, str, bool) for each in annotations.values()) else None
        )
        self._validator: Any = None
        self._validate: Callable[[dict[str, Any]], dict[str, Any]] = self._first_validate
        # As JSON text: to read it is the cheapest copy.
        self._help_text: str | None = None
        self._schema_text: str | None = None
        self._returned_schema_text: str | None = None

    @classmethod
    def of(cls, function: Callable[..., Any], *, bound_to_self: bool) -> Signature:
        """Return the signature of a callable, made once; for a method of a class without `self`."""
        cached = (_METHOD_CACHE if bound_to_self else _FUNCTION_CACHE).get(id(function))
        if cached is not None and cached[0]() is function:
            return cached[1]
        if isinstance(function, types.MethodType) and not bound_to_self:
            # Each lookup of a bound method makes a new object; its function stays the same.
            return cls.of(function.__func__, bound_to_self=True)
        signature = cls(function, bound_to_self=bound_to_self)
        _remember(function, signature, _METHOD_CACHE if bound_to_self else _FUNCTION_CACHE)
        return signature

    # -- for callers -------------------------------------------------------------------------------

    @property
    def description(self) -> str:
        """The docstring's short and long description; it may be empty."""
        return self._parse_docstring().description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments, for a model; each time a new copy."""
        if self._schema_text is None:
            properties, definitions = self._described_schemas(*self._schemas)
            schema = {
                "type": "object",
                "properties": properties,
                "required": list(self._required),
                "additionalProperties": False,
            }
            if definitions:
                schema["$defs"] = definitions
            self._schema_text = json.dumps(copy_json(schema))
        return json.loads(self._schema_text)  # type: ignore[no-any-return]

    @property
    def returned(self) -> dict[str, Any] | None:
        """The JSON schema of what it returns; None if its annotation does not say it.

        It is each time a new copy. Values may have more keys than it names: those of a subclass.
        """
        if self._returned_schema_text is None:
            annotation, _ = split_annotated(Any if self._returns is _NO_DEFAULT else self._returns)
            schema, definitions = _schema_of_returned(annotation, cut_recursion=False)
            if schema and definitions:
                schema["$defs"] = definitions
            self._returned_schema_text = json.dumps(copy_json(with_open_objects(schema)))
        return json.loads(self._returned_schema_text) or None

    @functools.cached_property
    def read_returned(self) -> Callable[[str, Any], Any] | None:
        """Reads what action `label` returned, as JSON data, as the annotated type; None for any.

        It raises ActionError if the value is of another type.

        Raises:
            DefinitionError: values of the annotated type have no JSON form
        """
        annotation, _ = split_annotated(Any if self._returns is _NO_DEFAULT else self._returns)
        type_name = annotation_text(annotation)
        try:
            form = form_of(annotation, returned=True)
        except Exception as error:
            raise DefinitionError(
                f"{self._name} returns {type_name}, which has no JSON form: ask for it by its name "
                f"({error_text(error, 300)})"
            ) from error
        if form.schema == {}:
            return None
        validator = validator_of({"value": form}, ("value",))

        def read_value(label: str, value: Any) -> Any:
            try:
                return read_values(validator, {"value": value})["value"]
            except (Mismatch, NotJSON) as error:
                text = f'"{label}" returned what is not {type_name}: {error}'
                raise ActionError("TypeError", text, label) from None

        return read_value

    @property
    def help(self) -> dict[str, Any]:
        """What `help` shows: description, args and, if known, returns; each time a new copy."""
        if self._help_text is None:
            schemas = self._schemas
            if schemas[1]:  # there is a recursive type, whose recursion help replaces by words
                schemas = self._schemas_of(cut_recursion=True)
            help = {"description": self.description, "args": self._described_schemas(*schemas)[0]}
            returns = self._returned_help()
            if returns:
                help["returns"] = returns
            self._help_text = json.dumps(copy_json(help))
        return json.loads(self._help_text)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<Signature of {self._name}({', '.join(self._parameters)})>"

    def _parse_docstring(self) -> Docstring:
        if self._parsed_docstring is None:
            self._parsed_docstring = read_docstring(self._docstring)
        return self._parsed_docstring

    def _schemas_of(self, *, cut_recursion: bool) -> tuple[dict[str, dict[str, Any]], _Defs]:
        forms = {name: parameter.form for name, parameter in self._parameters.items()}
        try:
            return schemas_of(forms, cut_recursion=cut_recursion)
        except Exception as joint_error:
            for name, form in forms.items():
                try:
                    schemas_of({name: form}, cut_recursion=cut_recursion)
                except Exception as error:
                    annotation = self._parameters[name].annotation
                    raise self._no_form_error(name, annotation, error) from error
            raise DefinitionError(f"{self._name}: {joint_error}") from joint_error

    def _described_schemas(
        self, schemas: dict[str, dict[str, Any]], definitions: _Defs
    ) -> tuple[dict[str, Any], _Defs]:
        """Return the parameters' schemas with description and default, and the definitions."""
        docs = self._parse_docstring()
        result = {}
        for name, parameter in self._parameters.items():
            text = parameter.description or docs.args.get(name, DocstringEntry()).description
            result[name] = _annotated_schema(schemas[name], text)
            if parameter.default is not _NO_DEFAULT:
                # A default such as a sentinel has no JSON form; callers cannot pass it anyway.
                with contextlib.suppress(NotJSON):
                    result[name]["default"] = to_json(parameter.default)
        return result, definitions

    def _returned_help(self) -> dict[str, Any]:
        entry = self._parse_docstring().returns or DocstringEntry()
        hint = self._returns
        annotation = read_type(entry.type_name) if hint is _NO_DEFAULT else hint
        annotation, description = split_annotated(annotation)
        schema, _ = _schema_of_returned(annotation, cut_recursion=True)
        return _annotated_schema(schema, description or entry.description)

    # -- checks of arguments -----------------------------------------------------------------------

    def check(self, args: dict[str, Any], label: str) -> dict[str, Any]:
        """Return the given arguments as annotated types, or raise InvalidArguments at `label`."""
        exact_types = self._exact_types
        if exact_types is not None and len(args) == len(exact_types):
            for name, value in args.items():
                if exact_types.get(name) is not type(value):
                    break
            else:
                return args
        try:
            return self._validate(args)
        except ValueError:
            pass  # what follows raises an error that shows no traceback of this one
        return self._read_args(args, label)

    def _first_validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Make the validator on the first call, then validate."""
        forms = {name: parameter.form for name, parameter in self._parameters.items()}
        self._validator = validator_of(forms, self._required)
        self._validate = self._validator.validate_python
        return self._validate(args)

    def _read_args(self, args: dict[str, Any], label: str) -> dict[str, Any]:
        """Read arguments, with whole floats as integers, or raise InvalidArguments."""
        missing = [name for name in self._required if name not in args]
        unexpected = [name for name in args if name not in self._parameters]
        if wrong := [*missing, *unexpected]:
            names = {"missing": missing, "unexpected": unexpected}
            text = ", ".join(_names_fault(*each) for each in names.items() if each[1])
            raise InvalidArguments(f'"{label}" {text}', argument=wrong[0])
        try:
            return read_values(self._validator, args)
        except NotJSON as error:
            raise InvalidArguments(f'"{label}" argument "{error.path}": {error.reason}') from None
        except Mismatch as error:
            problems = [f'argument "{path}" {problem}' for path, problem in error.problems]
            text = f'"{label}" {"; ".join(problems)}'
            raise InvalidArguments(text, argument=error.name) from error.__cause__

    def _no_form_error(self, name: str, annotation: Any, error: Exception) -> DefinitionError:
        return DefinitionError(
            f'{self._name}: parameter "{name}" is of type {annotation_text(annotation)}, which has '
            "no JSON form; use a JSON type, a dataclass, a TypedDict or a pydantic model "
            f"({error_text(error, 300)})"
        )


# Keyed by id: hashing a callable may run its class's code, and a weak-keyed dict takes several
# times as long. The weak reference ensures that the id is still that function's.
_Cache = dict[int, tuple[weakref.ref[Any], Signature]]
_FUNCTION_CACHE: _Cache = {}
_METHOD_CACHE: _Cache = {}


def _remember(function: Callable[..., Any], signature: Signature, cache: _Cache) -> None:
    key = id(function)
    try:
        reference = weakref.ref(function, lambda _: cache.pop(key, None))
    except TypeError:  # its class does not support weak references
        return
    cache[key] = (reference, signature)


def _plain_function(function: Callable[..., Any]) -> Any:
    """Return the plain function behind a callable, which has the annotations and the docstring."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, type):
        return function.__init__  # type: ignore[misc]
    if inspect.isroutine(function):
        return function
    return inspect.unwrap(type(function).__call__)


def _annotated_schema(schema: dict[str, Any], description: str | None) -> dict[str, Any]:
    """Return a schema with a description, by default its own, right after the type."""
    result = {"type": schema["type"]} if "type" in schema else {}
    if text := description or schema.get("description"):
        result["description"] = printable(text)
    return result | {key: item for key, item in schema.items() if key != "description"}


def _schema_of_returned(annotation: Any, *, cut_recursion: bool) -> tuple[dict[str, Any], _Defs]:
    """Return the schema of returned values, with its definitions; it may be empty."""
    # A value without a JSON form may be returned to Python callers.
    with contextlib.suppress(Exception):
        form = {"return": form_of(annotation)}
        schemas, definitions = schemas_of(form, returned=True, cut_recursion=cut_recursion)
        return schemas["return"], definitions
    return {}, {}


def _names_fault(label: str, names: list[str]) -> str:
    listed = ", ".join(excerpt(name) for name in names[:_MAX_LISTED_NAMES])
    more = len(names) - _MAX_LISTED_NAMES
    plural = "s" if len(names) > 1 else ""
    return f"{label} argument{plural} {listed}" + (f" and {more} more" if more > 0 else "")
