"""JSON schemas written by hand: check that they can be used, and check values by them.

Importing jsonschema_rs takes as long as many of our own modules, so it is imported for the first
such schema. Nothing is ever fetched: a reference must lead to a place in the schema itself. The
work of each schema and of each check is bounded (`work.py`), and its regular expressions take time
that is linear in the text, so a schema of a stranger's cannot hang the program.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from moothall.actions.signature.work import MAX_SCHEMA_CHARS, MAX_STEPS, CheckWork, expressions_of
from moothall.foundation.jsonvalue import NotJSON, copy_json
from moothall.foundation.text import excerpt, json_type, render_path, shorten

_MAX_TEXT_CHARS = 200
_MAX_EXPRESSION_BYTES: Final = 1 << 22
"""The largest compiled regular expression, in bytes."""
_MAX_BYTES_OF_ALL: Final = 1 << 23
"""The size of all of a schema."""
_UNIONS = ("anyOf", "oneOf")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_SCHEMA_MAPS: Final = frozenset(
    ("properties", "$defs", "definitions", "dependentSchemas", "patternProperties")
)
"""Keywords whose values are schemas by name."""
_VALUE_KEYWORDS: Final = frozenset(("const", "default", "enum", "examples"))

logger: logging.Logger = logging.getLogger("moothall.actions")


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


class SchemaFault(NamedTuple):
    """The first thing that is wrong in a value: its path in the value, and what it is."""

    path: list[str | int]
    reason: str

    @property
    def argument(self) -> str | None:
        """The first step of the path: of values by name, the one at fault."""
        return str(self.path[0]) if self.path else None

    def place(self, start: str = "") -> str:
        """Return the path as text, such as `a[2]`, after what the value itself is called."""
        return render_path(self.path, start)


class SchemaValidator:
    """Checks values by a JSON schema, of the draft that it states, else 2020-12.

    Raises:
        ValueError: the schema, or a reference in it, is wrong
    """

    max_chars: ClassVar[int] = MAX_SCHEMA_CHARS
    """How many characters a schema may have, as JSON."""

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            self.schema: dict[str, Any] = copy_json(schema)
        except NotJSON as error:
            raise WrongSchema(str(error)) from None
        self._checked_schema: dict[str, Any] = without_expressions(self.schema, _is_unsupported)
        self._work = CheckWork(self._checked_schema)
        if self._work.fault:
            raise WrongSchema(self._work.fault)
        self._validator = _compile_schema(self._checked_schema, self._work.expressions)

    def __reduce__(self) -> Any:
        return SchemaValidator, (self.schema,)

    @staticmethod
    @lru_cache(maxsize=64)
    def of_json(schema: str) -> SchemaValidator:
        """Return that of a schema given as JSON; ValueError if it cannot be used."""
        # A service or a dual act is given the same schema each time.
        return SchemaValidator(json.loads(schema))

    @staticmethod
    def without_expressions(schema: Any) -> Any:
        """Return a schema without regular expressions; every value that was valid stays so."""
        return without_expressions(schema, lambda expression: True)

    def holds(self, value: Any) -> bool:
        """Whether a value is valid."""
        return self.wrong(value) is None

    def measures(self, value: Any) -> bool:
        """Whether a check of a value is little enough work; `wrong` refuses any other."""
        return self._work.allows(value)

    def wrong(self, value: Any) -> SchemaFault | None:
        """Return the first thing that is wrong in a value; None if nothing is.

        Of a union it tells what the one member says that the value is meant for, or which members
        there are.
        """
        try:
            # A value that is nested too deep would end the process, not the check.
            value = copy_json(value)
        except NotJSON as error:
            return SchemaFault([error.path] if error.path else [], error.reason)
        if not self.measures(value):
            reason = f"it takes more than {MAX_STEPS:,} steps to check it by the schema"
            return SchemaFault([], reason)
        if self._validator.is_valid(value):
            return None
        if not self._work.can_tell(value):
            reason = "it does not follow the schema, and has too many parts to tell where"
            return SchemaFault([], reason)
        errors = self._validator.iter_errors(value)
        # A union's own error says little, so what is wrong beside it comes first.
        first_error = min(errors, key=lambda e: (len(e.instance_path), _is_union(e)), default=None)
        while first_error is not None and _is_union(first_error) and any(first_error.kind.context):
            depth = len(first_error.instance_path)
            members = first_error.kind.context
            type_errors = [next((e for e in m if _is_of_type(e, depth)), None) for m in members]
            if None not in type_errors:
                return SchemaFault(
                    first_error.instance_path, self._type_problem(first_error.instance, type_errors)
                )
            if type_errors.count(None) > 1:
                break
            first_error = min(members[type_errors.index(None)], key=lambda e: len(e.instance_path))
        if first_error is None:
            return None
        if first_error.kind.name == "type" and len(first_error.kind.types) > 1:
            return SchemaFault(
                first_error.instance_path, self._type_problem(first_error.instance, [first_error])
            )
        return SchemaFault(first_error.instance_path, _error_text(first_error))

    def _type_problem(self, value: Any, errors: list[Any]) -> str:
        """Return that a value is of no type that these errors name."""
        kinds = dict.fromkeys(kind for error in errors for kind in self._expected_types(error))
        return f"must be {' or '.join(kinds)}, not {json_type(value)}"

    def _expected_types(self, error: Any) -> list[str]:
        """Return the types that the schema of an error takes, in words."""
        node: Any = self._checked_schema
        for part in error.schema_path[:-1]:
            try:
                node = node[part]
            except (LookupError, TypeError):  # the path begins at an $id of its own
                node = {}
        types, items = (
            (node.get("type"), node.get("items")) if isinstance(node, dict) else (None, None)
        )
        item_type = items.get("type") if isinstance(items, dict) else None
        return [
            f"array of {item_type}" if kind == "array" and isinstance(item_type, str) else kind
            for kind in (types if isinstance(types, list) else error.kind.types)
        ]


def _is_union(error: Any) -> bool:
    return error.kind.name in _UNIONS and hasattr(error.kind, "context")


def _is_of_type(error: Any, depth: int) -> bool:
    """Whether an error of a union's member says that the value itself is of another type."""
    return error.kind.name == "type" and len(error.instance_path) == depth


def _error_text(error: Any) -> str:
    """Return what an error says, with values as Python writes them."""
    kind = error.kind
    if kind.name == "type":
        return f"{error.instance!r} is not of type {', '.join(map(repr, kind.types))}"
    if kind.name == "enum":
        return f"{error.instance!r} is not one of {kind.options!r}"
    if kind.name == "required":
        return f"{kind.property!r} is a required property"
    if kind.name == "anyOf":
        return f"{error.instance!r} is not valid under any of the given schemas"
    if kind.name == "const":
        return f"{kind.expected_value!r} was expected"
    if kind.name == "pattern":
        return f"{error.instance!r} does not match {kind.pattern!r}"
    return str(error.message)


def _compile_schema(schema: dict[str, Any], expressions: int) -> Any:
    """Return the library's validator of a schema, or raise WrongSchema."""
    from jsonschema_rs import RegexOptions, ValidationError, validator_cls_for

    max_bytes = min(_MAX_EXPRESSION_BYTES, _MAX_BYTES_OF_ALL // max(expressions, 1))
    bounds = RegexOptions(size_limit=max_bytes)
    try:
        validator = validator_cls_for(schema)
        return validator(schema, validate_formats=False, offline=True, pattern_options=bounds)
    except ValidationError as error:
        if error.kind.name != "$ref":
            place = render_path(error.instance_path)
            fault = shorten(_error_text(error), _MAX_TEXT_CHARS)
            if error.kind.name == "format":
                fault = (
                    f"{excerpt(error.instance)} is not a regular expression of ECMA 262, or it is "
                    f"too large: compiled, it may have {max_bytes // 1024:,} KiB"
                )
            raise WrongSchema(f"{place}: {fault}" if place else fault) from None
        # The library tells the end of a reference, without the schema that has it.
        reference = next(
            (ref for ref in _references(schema) if ref.lstrip("#") in error.message), ""
        )
        raise WrongSchema(
            f"its reference {excerpt(reference)} leads nowhere in it (nothing is fetched): put "
            'what it names under "$defs"'
            if reference
            else f"an $id or a reference in it cannot be read: {error.message}"
        ) from None
    except ValueError as error:
        raise WrongSchema(shorten(str(error), _MAX_TEXT_CHARS)) from None


def map_schemas(change: Callable[[dict[str, Any]], Any], schema: Any, by_name: bool = False) -> Any:
    """Return a schema with a copy of each schema in it changed, the innermost first.

    Values, such as those of an `enum`, stay, whatever they look like.
    """
    if isinstance(schema, Mapping):
        copied = {
            key: each
            if key in _VALUE_KEYWORDS and not by_name
            else map_schemas(change, each, not by_name and key in _SCHEMA_MAPS)
            for key, each in schema.items()
        }
        return copied if by_name else change(copied)
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [map_schemas(change, each) for each in schema]
    return schema


def without_expressions(schema: Any, removes: Callable[[str], object]) -> Any:
    """Return a schema without some of its expressions; every value that was valid stays so.

    What stands under `not`, `if`, `oneOf` or `maxContains` would refuse more if it were looser. It
    goes, too, where it has such an expression, or a reference, which may lead to one.
    """
    touched_ids, has_gone = set[int](), False

    def mark(node: Any) -> bool:
        nonlocal has_gone
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        is_touched = [each for each in inner if mark(each)] != []
        if isinstance(node, dict):
            if any(map(removes, expressions_of(node))):
                is_touched = has_gone = True
            is_touched |= any(key in node for key in _REFERENCES)
        if is_touched:
            touched_ids.add(id(node))
        return is_touched

    def loosen(node: Any, by_name: bool = False) -> Any:
        if isinstance(node, list):
            return [loosen(each) for each in node]
        if not isinstance(node, dict):
            return node
        result = {
            key: each
            if key in _VALUE_KEYWORDS and not by_name
            else loosen(each, not by_name and key in _SCHEMA_MAPS)
            for key, each in node.items()
            if by_name or id(each) not in touched_ids or key not in ("not", "if", "oneOf")
        }
        if by_name:
            return result
        if id(members := node.get("oneOf")) in touched_ids:
            result["allOf"] = [*result.get("allOf", ()), {"anyOf": loosen(members)}]
        if id(node.get("contains")) in touched_ids:
            result.pop("maxContains", None)
        if isinstance(pattern := result.get("pattern"), str) and removes(pattern):
            del result["pattern"]
        if isinstance(keys := result.get("patternProperties"), dict) and any(map(removes, keys)):
            result["patternProperties"] = {key: keys[key] for key in keys if not removes(key)}
            result.pop("additionalProperties", None)
        result.pop("unevaluatedProperties", None)
        return result

    mark(schema)
    return loosen(schema) if has_gone else schema


_UNSUPPORTED: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?<?[=!]|\\[1-9k])")
"""What looks around or refers back, which takes more than linear time."""


def _is_unsupported(expression: str) -> bool:
    """Return whether the linear engine cannot do an expression, and say so once."""
    if _UNSUPPORTED.search(expression) is None:
        return False
    _warn_once(excerpt(expression))
    return True


@lru_cache(maxsize=1024)
def _warn_once(expression: str) -> None:
    logger.warning(
        "pattern %s of a schema looks around or refers back: values are not checked by it here, "
        "since that could take for ever; whoever gets them has to",
        expression,
    )


def _references(schema: Any) -> Iterator[str]:
    """Yield what seems to be a reference in a schema."""
    for key, inner in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key in _REFERENCES and isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict | list):
            yield from _references(inner)


_ZONED_FORMATS: Final = frozenset(("date-time", "time"))


def with_open_objects(schema: Any) -> Any:
    """Return a schema of values given out: they may have more keys, and times without a zone."""
    return map_schemas(_open_schema, schema)


def _open_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    if schema.get("format") in _ZONED_FORMATS:
        del schema["format"]
    return schema
