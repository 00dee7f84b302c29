"""What a durable function's steps take and give, as the journal keeps it."""

from __future__ import annotations

import builtins
import importlib
import inspect
import json
import types
from collections.abc import Callable
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from zlib import crc32

from moothall.agents.replies.state import Codec
from moothall.foundation.errors import ConfigError, MoothallError
from moothall.foundation.jsonvalue import NotJSON, copy_json, to_json
from moothall.foundation.text import error_text
from moothall.journal.kinds.entry_kinds import adapter_of

_SCALARS: Final = frozenset((str, int, bool, type(None)))
_PLAIN: Final = (str, int, float, bool, list, dict, None, type(None), Any, inspect.Parameter.empty)
_MAX_ERROR_CHARS: Final = 2000


class StepFailed(MoothallError):
    """A step had failed when it was recorded, by an exception that cannot be made again."""


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's annotations as types; those that cannot be found, as they stand."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return dict(getattr(function, "__annotations__", {}))


def codec_for(annotation: Any, label: str) -> Codec:
    """Return how a value of an annotated type is kept; plain JSON types need no pydantic."""
    if _is_plain(annotation):
        return Codec(
            lambda value: value if value.__class__ in _SCALARS else _plain_data(value, label),
            lambda data: data,
        )

    def dump(value: Any) -> Any:
        try:
            return adapter_of(annotation).dump_python(value, mode="json", warnings="error")
        except (ValueError, TypeError) as error:  # as all of pydantic's
            raise ConfigError(
                f"{label} must be a {annotation}, got {value!r:.80} ({error_text(error)})"
            ) from error

    return Codec(dump, lambda data: adapter_of(annotation).validate_json(json.dumps(data)))


def _is_plain(annotation: Any) -> bool:
    if any(annotation is each for each in _PLAIN):
        return True
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(type(each) in _SCALARS for each in args)
    if origin is dict:
        return args[0] is str and _is_plain(args[1])
    return origin in (list, Union, types.UnionType) and all(map(_is_plain, args))


def _plain_data(value: Any, label: str) -> Any:
    try:
        return copy_json(value)
    except NotJSON as error:
        raise ConfigError(
            f"{label} must be JSON data, or annotated with its type, got {value!r:.80} ({error})"
        ) from error


def _stable(value: Any) -> Any:
    try:
        return to_json(value)
    except NotJSON:  # a client, an agent: its repr has an address
        return f"<{type(value).__qualname__}>"


_ENCODE: Final = json.JSONEncoder(sort_keys=True, default=_stable).encode


def hash_of(args: tuple[Any, ...]) -> int:
    """Return the checksum by which the arguments of a step are compared."""
    if _SCALARS.issuperset(map(type, args)):  # as most: JSON would take three times as long
        text = repr(args)
    else:
        try:
            text = _ENCODE(args)
        except (TypeError, ValueError):  # keys that are no texts
            text = _ENCODE(_stable(args))
    return crc32(text.encode("utf-8", "surrogatepass"))


def recorded_error(error: Exception) -> dict[str, Any]:
    """Return what a record keeps of an exception: its type and its arguments."""
    kind = type(error)
    data = {"type": f"{kind.__module__}:{kind.__qualname__}", "text": error_text(error)}
    data["text"] = data["text"][:_MAX_ERROR_CHARS]
    try:
        return data | {"args": copy_json([*error.args])}
    except NotJSON:
        return data


def error_of(data: dict[str, Any], key: str) -> Exception:
    """Return the exception of a record: an equal one, or a `StepFailed` with its text."""
    module_name, _, name = data["type"].partition(":")
    try:
        module = builtins if module_name == "builtins" else importlib.import_module(module_name)
        kind = getattr(module, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            error = kind(*data["args"])
            if error_text(error)[:_MAX_ERROR_CHARS] == data["text"]:
                return error
    except Exception as error:  # its class is gone, or takes other arguments: code of others
        return StepFailed(f"step {key!r} failed before: {data['text']} ({error_text(error)})")
    return StepFailed(f"step {key!r} failed before: {data['text']}")
