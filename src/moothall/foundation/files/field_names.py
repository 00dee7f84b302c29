"""The fields that a file may have at a path, by its pydantic model, and what is wrong with one."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

from moothall.foundation.files.yaml_file import KeyPath
from moothall.foundation.text import excerpt

_MAPPING: Final = re.compile(r"a valid dictionary(?: or instance of \w+)?")
_SHOULD: Final = "Input should "


class FieldFault:
    """What is wrong with a field of a pydantic model.

    Args:
        error: one of the `errors()` of a `ValidationError`
        model: the model that was validated

    Attributes:
        kind: the kind of fault, as pydantic names it
    """

    def __init__(self, error: Mapping[str, Any], model: Any) -> None:
        self.kind: str = error["type"]
        self._error = error
        self._model = model

    @property
    def in_words(self) -> str:
        """What pydantic says of the value: `must be X, got Y`."""
        if self.kind == "missing":
            return "is missing"
        message = str(self._error["msg"]).removeprefix("Value error, ")
        if not message.startswith(_SHOULD):
            return message
        rule = _MAPPING.sub("a mapping", message.removeprefix(_SHOULD))
        return f"must {rule}, got {excerpt(self._error['input'])}"

    def names_at(self, path: KeyPath) -> list[str]:
        """Return the names of the fields that there are at a path."""
        kind = self._model
        for part in path:
            kind = _type_of_part(kind, part)
        models = [each for each in _alternatives(kind) if _is_model(each)]
        return [field.alias or name for each in models for name, field in each.model_fields.items()]


def _type_of_part(kind: Any, part: str | int) -> Any:
    """Return the type of a part of a value of another type; None if it is not known."""
    for each in _alternatives(kind):
        if _is_model(each):
            for name, field in each.model_fields.items():
                if part in (name, field.alias):
                    return field.annotation
        elif get_origin(each) in (list, tuple) and isinstance(part, int):
            return get_args(each)[0]
        elif get_origin(each) is dict:
            return get_args(each)[1]
    return None


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
