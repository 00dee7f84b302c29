"""Plain JSON data: what may be in a message, copied so that sender and receiver share nothing.

`copy_json` admits what `json.dumps` writes and `json.loads` reads back unchanged; `to_json` also
converts what has such a form, as a date. Both return what `json.loads` can, or raise `NotJSON`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from base64 import b64encode
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import Any
from uuid import UUID

from moothall.foundation.errors import ConfigError, MoothallError
from moothall.foundation.text import error_text, json_type, printable, render_path, shorten
from moothall.foundation.text.arrays import plain_data
from moothall.foundation.text.words import escaped_json

# A copy may be some levels deeper than a conversion: a returned value is wrapped in a message.
_DEEPEST_VALUE = 100
_DEEPEST_COPY = 128
_LARGEST_BYTES = 16 * 1024 * 1024
_TOO_LARGE = f"larger than {_LARGEST_BYTES // 1024 // 1024} MiB in all"
_ITEM_BYTES, _CONTAINER_BYTES = 4, 16  # on average, without texts: an item's number and comma
_LARGEST_INT = 10**4300 - 1  # Python refuses to print, and json to read, more digits than 4300
_SMALLEST_INT = -_LARGEST_INT  # a name of its own: negating so long a number takes time
_BELOW_INFINITY, _INFINITY = float("-inf"), float("inf")

_TYPES, _BYTES = 1, 2  # bits of `extras`: what is converted, besides what JSON has
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_TEXT_TYPES = (PurePath, UUID, Decimal, IPv4Address, IPv6Address)


class NotJSON(MoothallError, ValueError):
    """A value has no JSON form.

    Attributes:
        path: the place in the value, such as `a[2]`; empty for the value itself
        reason: what is wrong there, such as `bytes is not JSON`
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def to_json(value: Any, *, with_bytes: bool = False) -> Any:
    """Return `value` as plain JSON data that shares nothing mutable with it, or raise NotJSON.

    Enum members become their value, dataclasses and pydantic models objects, tuples, sets (sorted),
    arrays and tables of numpy and others arrays; dates, times, durations, UUIDs, paths, decimals
    and IP addresses strings; `with_bytes`, bytes become base64. All else is refused: infinite
    numbers, keys that are no strings, lone surrogates, cycles, over 100 levels or about 16 MiB.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    if kind is str and len(value) < 4096 and value.isascii():
        return value
    return _checked_copy(value, "", _DEEPEST_VALUE, _TYPES | _BYTES if with_bytes else _TYPES)


def copy_json(value: Any, path: str = "", *, with_bytes: bool = False) -> Any:
    """Return a copy of JSON data that shares nothing mutable with it, or raise NotJSON.

    Subclasses of the JSON types (an `IntEnum` member, an `OrderedDict`) are reduced to the plain
    type and tuples to lists, as `json.dumps` does it. All else is refused, with the limits of
    `to_json`. `path` is the start of the path that an error names.
    """
    return _checked_copy(value, path, _DEEPEST_COPY, _BYTES if with_bytes else 0)


def byte_count(value: Any) -> int:
    """Return about how many bytes JSON data takes."""
    size, pending = 0, [value]
    while pending:
        kind = type(each := pending.pop())
        if kind is str:
            size += len(each)
        elif isinstance(each, dict):
            size += _CONTAINER_BYTES + sum(map(len, each))
            pending += each.values()
        elif kind is list:
            size += _CONTAINER_BYTES
            pending += each
        else:
            size += _ITEM_BYTES
    return size


class _UnfitValue(Exception):
    """A value is not JSON; `reversed_path` leads to it, its last step first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.reversed_path: list[str | int] = []


def _checked_copy(value: Any, start: str, levels: int, extras: int) -> Any:
    if type(value) is dict and len(value) <= 8:
        copy = value.copy()
        for key, item in copy.items():  # a small flat object, as most are; all else is copied below
            if type(key) is not str or not key.isascii() or len(key) > 256:
                break
            kind = type(item)
            if kind is str:
                if len(item) > 4096 or not item.isascii():
                    break
            elif kind is int:
                if not -0x8000000000000000 <= item <= 0x7FFFFFFFFFFFFFFF:
                    break
            elif kind is not bool and item is not None:
                break
        else:
            return copy
    try:
        return _copy(value, levels, [_LARGEST_BYTES], extras)
    except _UnfitValue as error:
        raise NotJSON(render_path(error.reversed_path[::-1], start), error.reason) from None
    except RecursionError:
        # Only if the caller's own stack is nearly used up: the depth limit is far lower.
        raise NotJSON(start, "nested too deep for the stack that is left") from None


def _copy(value: Any, levels: int, room: list[int], extras: int) -> Any:
    """Copy, reduce or convert anything, at most `levels` deep; `room[0]` bytes are counted down."""
    # By the type, not by isinstance: an object may claim a class that it does not have.
    kind = type(value)
    if kind is dict or kind is list:
        return _copy_items(value.copy(), levels, room, extras)
    if value is None or kind is bool:
        return value
    if extras & _TYPES and issubclass(kind, Enum):
        return _copy(_call(kind, lambda: value.value), levels, room, extras)
    if issubclass(kind, str):
        return _counted_text(str.__str__(value), room)
    if issubclass(kind, int):
        number = int.__int__(value)
        if _SMALLEST_INT <= number <= _LARGEST_INT:
            return number
        raise _UnfitValue("an integer of more than 4300 digits")
    if issubclass(kind, float):
        real = float.__float__(value)
        if _BELOW_INFINITY < real < _INFINITY:
            return real
        raise _UnfitValue(f"{real} is not JSON")
    if issubclass(kind, dict):
        return _copy_items(_call(kind, lambda: dict(value)), levels, room, extras)
    if issubclass(kind, (list, tuple)):
        return _copy_items(_call(kind, lambda: list(value)), levels, room, extras)
    if extras & _BYTES and issubclass(kind, (bytes, bytearray)):
        return _counted_text(_call(kind, lambda: b64encode(value).decode()), room)
    if extras & _TYPES:
        if issubclass(kind, _TEXT_TYPES):
            return _counted_text(_call(kind, lambda: str(value)), room)
        if issubclass(kind, (date, time)):
            return _counted_text(_call(kind, value.isoformat), room)
        if issubclass(kind, timedelta):
            from pydantic_core import to_jsonable_python  # ISO 8601, as arguments are read

            return to_jsonable_python(value)
        if issubclass(kind, (set, frozenset)):
            items = _copy_items(_call(kind, lambda: list(value)), levels, room, extras)
            try:
                return sorted(items)
            except TypeError:
                return sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
        if _is_pydantic_model(kind):
            return _copy(_call(kind, lambda: value.model_dump(mode="json")), levels, room, extras)
        if dataclasses.is_dataclass(kind):
            names = [each.name for each in dataclasses.fields(kind)]
            parts = _call(kind, lambda: {name: getattr(value, name) for name in names})
            return _copy_items(parts, levels, room, extras)
        if (data := _call(kind, lambda: plain_data(value))) is not value:
            return _copy(data, levels, room, extras)
    raise _UnfitValue(f"{kind.__name__} is not JSON")


def _copy_items(copy: Any, levels: int, room: list[int], extras: int) -> Any:
    """Replace the items of a dict or list, which no other code holds, by copies; fast if plain."""
    remaining = room[0] - _CONTAINER_BYTES - _ITEM_BYTES * len(copy)
    if levels == 0:
        deepest = _DEEPEST_VALUE if extras & _TYPES else _DEEPEST_COPY
        raise _UnfitValue(f"nested deeper than {deepest} levels, or contains itself")
    if remaining < 0:
        raise _UnfitValue(_TOO_LARGE)
    is_object = type(copy) is dict
    key: Any = None
    try:
        for key, item in copy.items() if is_object else enumerate(copy):
            if is_object:
                if type(key) is not str:
                    break
                remaining -= len(key) if key.isascii() else _text_size(key)
            kind = type(item)
            if kind is str:
                remaining -= len(item) if item.isascii() else _text_size(item)
            elif kind is dict or kind is list:
                room[0] = remaining
                # A copy before looking: another thread may be changing the original.
                copy[key] = _copy_items(item.copy(), levels - 1, room, extras)
                remaining = room[0]
            elif not (
                kind is bool
                or item is None
                or (kind is int and -0x8000000000000000 <= item <= 0x7FFFFFFFFFFFFFFF)
                or (kind is float and _BELOW_INFINITY < item < _INFINITY)
            ):
                room[0] = remaining
                copy[key] = _copy(item, levels - 1, room, extras)
                remaining = room[0]
    except _UnfitValue as error:
        error.reversed_path.append(key)
        raise
    if is_object and copy and type(key) is not str:
        return _copy_items({_key_text(each): copy[each] for each in copy}, levels, room, extras)
    if remaining < 0:
        raise _UnfitValue(_TOO_LARGE)
    room[0] = remaining
    return copy


def _key_text(key: object) -> str:
    if not issubclass(type(key), str):
        raise _UnfitValue(f"a key is {json_type(key)}, not string")
    return str.__str__(key)


def _counted_text(text: str, room: list[int]) -> str:
    room[0] -= _text_size(text)
    if room[0] < 0:
        raise _UnfitValue(_TOO_LARGE)
    return text


def _text_size(text: str) -> int:
    try:
        return len(text) if text.isascii() or len(text) > _LARGEST_BYTES else len(text.encode())
    except UnicodeEncodeError:
        raise _UnfitValue("a lone surrogate in the text, which UTF-8 cannot carry") from None


def _call(kind: type, read: Callable[[], Any]) -> Any:
    """Return what `read()` returns; it runs code of the value's class, which may raise."""
    try:
        return read()
    except RecursionError:
        raise
    except Exception as error:
        raise _UnfitValue(f"{kind.__name__} cannot be converted ({error_text(error)})") from None


def _is_pydantic_model(kind: type) -> bool:
    # A value can only be a pydantic model if its maker has imported pydantic.
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


# -- values as text -------------------------------------------------------------------------------


def readable(text: str) -> str:
    """Return the text, with `?` for what UTF-8 cannot carry; two halves of a character are one."""
    if text.isascii():
        return text
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    readable_text = paired.encode("utf-8", "replace").decode()
    return text if readable_text == text else readable_text  # it may be more than a text


def json_line(value: Any, *, escapes: bool = False) -> str:
    """Return a value as JSON on one line, the rest as texts; `escapes` what does not print."""
    text = escaped_json(value) if escapes else json.dumps(value, ensure_ascii=False, default=str)
    return readable(text)


def json_text(value: Any) -> str:
    """Return a value as text: a string, path or date as it is, else JSON; or raise NotJSON."""
    if type(value) is str:
        return readable(value)
    data = _checked_copy(value, "", _DEEPEST_COPY, _TYPES)
    return data if type(data) is str else _JSON.encode(data)


def json_and_text(value: Any) -> tuple[Any, str]:
    """Return a value as JSON data, checked once, and as its text."""
    if type(value) is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value, str(value)
    data = as_json(value)
    return data, data if type(data) is str else _JSON.encode(data)


def as_json(value: Any, *, deep: bool = False) -> Any:
    """Return a value as JSON data, the rest as text; `deep`: objects part by part, too."""
    try:
        return deep_json(value) if deep else to_json(value)
    except NotJSON:
        return deep_json(value) if isinstance(value, dict | list | tuple) else _text_of(value)


def _text_of(value: Any) -> str:
    kind = "an integer" if type(value) is int else f"a {type(value).__name__}"
    try:
        return readable(value.decode() if isinstance(value, bytes | bytearray) else str(value))
    except UnicodeDecodeError:
        return f"[{len(value):,} bytes, which are no text]"
    except Exception as error:  # such as more digits than Python prints
        return f"({kind} that cannot be shown: {type(error).__name__})"


def deep_json(value: Any) -> Any:
    """Return a value as JSON data; each part without a JSON form, however deep, becomes text."""
    open_ids: set[int] = set()  # of containers above, and those that lead back to one: once each
    loop_count = 0

    def json_of(value: Any, level: int) -> Any:
        nonlocal loop_count
        if isinstance(value, dict):
            parts = value
        elif isinstance(value, list | tuple):
            parts = dict(enumerate(value))
        elif isinstance(value, BaseException):
            return readable(f"{type(value).__name__}: {value}")
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        else:
            return as_json(value)
        if id(value) in open_ids or level > _DEEPEST_VALUE:
            loop_count += 1
            return f"(a {type(value).__name__} that contains itself or is nested too deep)"
        open_ids.add(id(value))
        count_before = loop_count
        items = {readable(str(key)): json_of(part, level + 1) for key, part in parts.items()}
        if loop_count == count_before:
            open_ids.remove(id(value))
        return [*items.values()] if isinstance(value, list | tuple) else items

    return json_of(value, 0)


class UnreadableText(Exception):
    """A text or arguments cannot be read; the message says why."""


def unfenced(text: str) -> str:
    """Return the text without the ```json fence around it, if there is one."""
    stripped = text.strip()
    if len(stripped) < 6 or not (stripped.startswith("```") and stripped.endswith("```")):
        return text
    return stripped[7:-3] if stripped[3:7].lower() == "json" else stripped[3:-3]


def read_json(text: str) -> Any:
    """Return the JSON value of a text, which may have only a ```json fence around it."""
    try:
        value, end = DECODER.scan_once(text, 0)  # type: ignore[attr-defined]
        return value if end == len(text) else DECODER.decode(text)
    except TypeError:
        raise ConfigError(f"JSON must be a text, got {type(text).__name__}") from None
    except (StopIteration, ValueError, RecursionError):
        text = unfenced(text)
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        rest, where = text[max(0, error.pos - 20) :], f"{error.msg} at character {error.pos}"
        raise UnreadableText(f"not JSON: {where}: {printable(shorten(rest, 60))}") from None
    except RecursionError:
        raise UnreadableText("nested too deep") from None
    except ValueError as error:
        raise UnreadableText(f"not JSON: {printable(shorten(str(error), 200))}") from None


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key appears twice")
    return fields


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_unique_fields, parse_constant=_refuse_constant)
"""Reads JSON strictly: no NaN or Infinity, no key twice."""
