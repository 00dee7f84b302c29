"""The schema that an answer is to follow, and reading an answer by it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, Final

from civitas.errors import DefinitionError
from civitas.jsonvalue import NotJSON, copy_json, render_path, shorten
from civitas.reasoning.parsing import Unreadable, read_json
from civitas.reasoning.prompts import cut, readable
from civitas.signature.annotation import (
    Mismatch,
    form_of,
    read,
    schemas_of,
    spelled,
    validator_of,
)
from civitas.signature.schema import WrongSchema, check_schema, validator

__all__ = ["MAX_ANSWER_CHARS", "AnswerSchema"]

MAX_ANSWER_CHARS: Final = 10_000_000
"""How long the text of an answer that is to be read may be."""
_MAX_TOLD = 4000
"""How much of a schema a model is told when it did not keep to it."""


class AnswerSchema:
    """What an answer is to be.

    Args:
        wanted: a JSON schema, or a type: what a JSON value can be turned into, such as a dataclass,
            a TypedDict, a pydantic model or `list[int]`

    Attributes:
        json: the JSON schema

    Raises:
        DefinitionError: it is neither
    """

    __slots__ = ("_convert", "json")

    def __init__(self, wanted: Any) -> None:
        self.json: dict[str, Any]
        self._convert: Callable[[Any], Any]
        if isinstance(wanted, dict):
            self.json, self._convert = _of_schema(wanted)
        else:
            self.json, self._convert = _of_type(wanted)

    def read(self, text: str) -> Any:
        """The value that a text is by this schema.

        Raises:
            Unreadable: it is not JSON alone, or does not follow the schema; says what to do
        """
        try:
            if len(text) > MAX_ANSWER_CHARS:
                raise Unreadable(f"longer than {MAX_ANSWER_CHARS} characters")
            value = copy_json(read_json(text))
            return self._convert(value)
        except Mismatch as error:
            fault = f"does not follow the schema: {error}"
        except NotJSON as error:  # half a character, or a number beyond all others
            fault = f"is not JSON: {error}"
        except Unreadable as error:
            fault = f"is {error}"
        told = cut(json.dumps(self.json, ensure_ascii=False), _MAX_TOLD)
        raise Unreadable(
            f"Your answer {readable(fault)}. Answer with JSON alone that follows this schema: "
            f"{readable(told)}"
        )


def _of_schema(wanted: dict[str, Any]) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    from jsonschema.exceptions import best_match

    try:
        schema: dict[str, Any] = copy_json(wanted)
        check_schema(schema)
    except (NotJSON, WrongSchema) as error:
        raise DefinitionError(f"schema= is not a JSON schema: {shorten(str(error), 300)}") from None
    checks = validator(schema)

    def convert(value: Any) -> Any:
        try:
            wrong = best_match(checks.iter_errors(value))
        except RecursionError:
            raise Unreadable("nested too deep for the schema") from None
        if wrong is not None:
            where = render_path([*wrong.absolute_path], "answer")
            raise Mismatch((where, f"is wrong: {shorten(wrong.message, 300)}"))
        return value

    return schema, convert


def _of_type(wanted: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    try:
        if inspect.isroutine(wanted):  # pydantic would call it
            raise TypeError("a function is no type")
        form = form_of(wanted)
        found, definitions = schemas_of({"answer": form})
        schema = found["answer"]
        if definitions:
            schema = {**schema, "$defs": definitions}
    except Exception as error:  # its classes may run code of the user's
        reason = shorten(str(error).partition("\n")[0], 200)
        raise DefinitionError(
            f"schema= is a JSON schema or a type with a JSON form, not {spelled(wanted)} "
            f"({type(error).__name__}: {reason})"
        ) from error
    reader = validator_of({"answer": form}, ["answer"])

    def checked(value: Any) -> Any:
        try:
            return read(reader, {"answer": value})["answer"]
        except RecursionError:
            raise Unreadable("nested too deep for the schema") from None

    return schema, checked
