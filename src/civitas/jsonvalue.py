"""Plain JSON data: what may be in a message, copied so that sender and receiver share nothing.

`copy_json` admits what `json.dumps` writes and `json.loads` reads back alike; `to_json` also
converts what has an obvious JSON form, such as a dataclass or a date. Both give plain `None`,
`bool`, `int`, `float`, `str`, `list` and `dict` only, or raise `NotJSON`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import Any
from uuid import UUID

__all__ = ["NotJSON", "copy_json", "excerpt", "json_type", "render_path", "shorten", "to_json"]

# A returned value is wrapped when it travels, so what is copied may be some levels deeper than
# what was converted: otherwise the deepest legal answer could not be sent.
_DEEPEST_VALUE = 100
_DEEPEST_COPY = 128
_LARGEST_BYTES = 16 * 1024 * 1024
_ITEM_BYTES = 4  # what an item takes beside its text, on average: a small number and a comma
_CONTAINER_BYTES = 16
_INT_BEYOND = 10**4300  # Python refuses to print, and json to read, more digits than 4300
_INT_BELOW = -_INT_BEYOND  # a name of its own: negating so long a number takes time
_INFINITY = float("inf")
_BELOW_INFINITY = -_INFINITY

# A dict of this many short scalars is within every limit without any counting.
_SMALL_ITEMS = 256
_SMALL_TEXT = 4096

_AS_TEXT = (PurePath, UUID, Decimal, IPv4Address, IPv6Address)

Step = str | int


class NotJSON(ValueError):
    """A value has no JSON form.

    Attributes:
        path: where in the value, such as `a[2]`; empty for the value itself
        reason: what is there, such as `bytes is not JSON`
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def to_json(value: Any, where: str = "") -> Any:
    """Return `value` as plain JSON data that shares nothing mutable with it.

    Enum members become their value, dataclasses and pydantic models objects, tuples, sets and named
    tuples arrays (sets sorted), dates, times, durations, UUIDs, paths, decimals and IP addresses
    strings.

    Args:
        value: anything
        where: what the path of an error starts with

    Raises:
        NotJSON: for everything else, numbers that are not finite, keys that are not strings, text
            with a lone surrogate, cycles, more than 100 levels, or more than about 16 MiB.
    """
    kind = type(value)
    if (kind is int and _INT_BELOW < value < _INT_BEYOND) or value is None or kind is bool:
        return value
    if kind is str and value.isascii() and len(value) <= _SMALL_TEXT:
        return value
    if kind is dict and (copy := _small_flat_copy(value)) is not None:
        return copy
    return _copied(value, where, _Copier(_DEEPEST_VALUE, widen=True))


def copy_json(value: Any, path: str = "") -> Any:
    """Return a copy of JSON data that shares nothing mutable with it.

    Subclasses of the JSON types (an `IntEnum` member, an `OrderedDict`) are reduced to the plain
    type and tuples to lists, as `json.dumps` does it.

    Args:
        value: what should be JSON data
        path: what the path of an error starts with, such as `action.args`

    Raises:
        NotJSON: for whatever else is in it, with the same limits as `to_json`.
    """
    if type(value) is dict and (copy := _small_flat_copy(value)) is not None:
        return copy
    return _copied(value, path, _Copier(_DEEPEST_COPY, widen=False))


def json_type(value: object) -> str:
    """Return the JSON-schema name of a value's type, or its class's name if it is not JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return type(value).__name__


def shorten(text: str, width: int = 80) -> str:
    """Return `text` cut to `width` characters, with an ellipsis where it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def excerpt(value: object) -> str:
    """Return a scalar as short JSON text for an error; for anything larger only its type."""
    if isinstance(value, str):
        # Cut first: a text of megabytes is not to be escaped for the 80 characters shown of it.
        text = json.dumps(shorten(value, 78), ensure_ascii=False)
        return text.encode(errors="backslashreplace").decode()
    if value is None or isinstance(value, (bool, float)):
        return json.dumps(value)
    if type(value) is int and abs(value) < 10**80:
        return str(value)
    return json_type(value)


def render_path(steps: list[Step], start: str = "") -> str:
    """Return steps into a value as text: `["a", 2]` is `a[2]`; a long way is cut in its middle."""
    if len(steps) > 16:
        return render_path(steps[:8], start) + "…" + render_path(steps[-8:])
    text = start
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not step.isidentifier():
            text += f"[{excerpt(step)}]"
        else:
            text += f".{shorten(step)}" if text else shorten(step)
    return text


class _Refused(Exception):
    """Travels up from what is not JSON, and gathers the way to it."""

    def __init__(self, reason: str, too_deep: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.too_deep = too_deep
        self.steps: list[Step] = []

    def pass_through(self, step: Step, container: object) -> None:
        if self.too_deep is container:
            # The container at which the depth ran out is among its own ancestors.
            self.reason = "contains itself"
            self.steps.clear()
        else:
            self.steps.append(step)


def _copied(value: object, start: str, copier: _Copier) -> Any:
    try:
        return copier.copy_value(value, 0)
    except _Refused as refused:
        raise NotJSON(render_path(refused.steps[::-1], start), refused.reason) from None
    except RecursionError:
        # Only where the caller's own stack is nearly used up: the depth is limited well before.
        raise NotJSON(start, "nested too deep for the stack that is left") from None


def _small_flat_copy(value: dict[Any, Any]) -> dict[str, Any] | None:
    """Return a copy of a dict in which nothing needs a conversion: the usual arguments."""
    if len(value) > _SMALL_ITEMS:
        return None
    copy = value.copy()  # before looking: another thread may be changing the original
    for key, item in copy.items():
        if type(key) is not str or not key.isascii() or len(key) > _SMALL_TEXT:
            return None
        kind = type(item)
        if kind is int:
            if not _INT_BELOW < item < _INT_BEYOND:
                return None
        elif kind is str:
            if not item.isascii() or len(item) > _SMALL_TEXT:
                return None
        elif kind is float:
            if not _BELOW_INFINITY < item < _INFINITY:
                return None
        elif kind is not bool and item is not None:
            return None
    return copy


class _Copier:
    """One copying: how deep it may go, how much room is left, and whether it converts."""

    __slots__ = ("deepest", "room", "widen")

    def __init__(self, deepest: int, *, widen: bool) -> None:
        self.deepest = deepest
        self.room = _LARGEST_BYTES
        self.widen = widen

    def copy_value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.copy_text(value)
        if kind is int:
            return _checked_int(value)
        if kind is bool or value is None:
            return value
        if kind is float:
            return _checked_float(value)
        if kind is dict:
            return self.copy_object(value.copy(), value, depth)
        if kind is list or kind is tuple:
            return self.copy_array(list(value), value, depth)
        return self.unusual(value, kind, depth)

    def copy_text(self, value: str) -> str:
        size = len(value)
        if not value.isascii() and size <= self.room:
            try:
                size = len(value.encode())
            except UnicodeEncodeError:
                raise _Refused("a lone surrogate in the text, which UTF-8 cannot carry") from None
        self.charge(size)
        return value

    def copy_array(self, items: list[Any], original: object, depth: int) -> list[Any]:
        """Make `items`, a fresh list, JSON in place; `original` is what it was copied from."""
        self.enter(original, len(items), depth)
        for index, item in enumerate(items):
            kind = type(item)
            if item is None or kind is bool or (kind is int and _INT_BELOW < item < _INT_BEYOND):
                continue
            try:
                items[index] = self.copy_value(item, depth + 1)
            except _Refused as refused:
                refused.pass_through(index, original)
                raise
        return items

    def copy_object(self, items: dict[Any, Any], original: object, depth: int) -> dict[str, Any]:
        """Make `items`, a fresh dict, JSON in place; `original` is what it was copied from."""
        self.enter(original, len(items), depth)
        plain_keys = True
        for key, item in items.items():
            if type(key) is not str:
                if not issubclass(type(key), str):
                    raise _Refused(f"a key is {json_type(key)}, not string")
                plain_keys = False
            try:
                self.copy_text(str.__str__(key))
                items[key] = self.copy_value(item, depth + 1)
            except _Refused as refused:
                refused.pass_through(str.__str__(key), original)
                raise
        if plain_keys:
            return items
        return {str.__str__(key): item for key, item in items.items()}

    def unusual(self, value: Any, kind: type, depth: int) -> Any:
        """Reduce a subclass of a JSON type; convert other types if this copying does that."""
        # Of the type, not by isinstance: an object may claim another class than it has.
        if self.widen and issubclass(kind, Enum):
            return self.copy_value(_opened(kind, lambda: value.value), depth)
        if issubclass(kind, str):
            return self.copy_text(str.__str__(value))
        if issubclass(kind, int):
            return _checked_int(int.__int__(value))
        if issubclass(kind, float):
            return _checked_float(float.__float__(value))
        if issubclass(kind, dict):
            return self.copy_object(_opened(kind, lambda: dict(value)), value, depth)
        if issubclass(kind, (list, tuple)):
            return self.copy_array(_opened(kind, lambda: list(value)), value, depth)
        if not self.widen:
            raise _Refused(f"{kind.__name__} is not JSON")
        return self.converted(value, kind, depth)

    def converted(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, _AS_TEXT):
            return self.copy_text(_opened(kind, lambda: str(value)))
        if issubclass(kind, (datetime, date, time)):
            return self.copy_text(_opened(kind, value.isoformat))
        if issubclass(kind, timedelta):
            from pydantic import TypeAdapter  # an ISO 8601 duration, as it is read from arguments

            return TypeAdapter(timedelta).dump_python(value, mode="json")
        if issubclass(kind, (set, frozenset)):
            items = self.copy_array(_opened(kind, lambda: list(value)), value, depth)
            try:
                return sorted(items)
            except TypeError:
                return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        if _is_pydantic_model(kind):
            return self.copy_value(_opened(kind, lambda: value.model_dump(mode="json")), depth)
        if dataclasses.is_dataclass(kind):
            fields = dataclasses.fields(kind)
            items = _opened(kind, lambda: {f.name: getattr(value, f.name) for f in fields})
            return self.copy_object(items, value, depth)
        raise _Refused(f"{kind.__name__} is not JSON")

    def enter(self, container: object, length: int, depth: int) -> None:
        if depth >= self.deepest:
            raise _Refused(f"nested deeper than {self.deepest} levels", too_deep=container)
        self.charge(_CONTAINER_BYTES + _ITEM_BYTES * length)

    def charge(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise _Refused(f"larger than {_LARGEST_BYTES // 1024 // 1024} MiB in all")


def _checked_int(value: int) -> int:
    if _INT_BELOW < value < _INT_BEYOND:
        return value
    raise _Refused("an integer of more than 4300 digits")


def _checked_float(value: float) -> float:
    if _BELOW_INFINITY < value < _INFINITY:
        return value
    raise _Refused(f"{value} is not JSON")


def _is_pydantic_model(kind: type) -> bool:
    # A value can only be of a pydantic model if pydantic has been imported by whoever made it.
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _opened(kind: type, read: Any) -> Any:
    """Return what `read()` gives: it runs code of the value's class, which may raise anything."""
    try:
        return read()
    except RecursionError:
        raise
    except Exception as error:
        text = shorten(f"{type(error).__name__}: {error}", 200)
        raise _Refused(f"{kind.__name__} cannot be converted ({text})") from None
