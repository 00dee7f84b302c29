"""Values of entries as a journal stores them: JSON text, and large texts by their hashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_json as plain_json

from moothall.foundation.jsonvalue import to_json

MARKED: Final = '{"\\u0000":'
"""The JSON text with which an object that stands for a large text begins."""


TEXT_CHARS: Final = 2000
"""A longer text of an entry is stored in the journal once, by its hash."""
_MARK: Final = "\0"
"""The one key of an object that stands for a large text; an object of the data that has this key
itself is stored one object deeper."""


def hash_of(data: bytes) -> str:
    """Return the hash that identifies a value."""
    return sha256(data).hexdigest()


def extract_texts(data: Any, put: Callable[[bytes], str]) -> Any:
    """Return JSON data with its large texts replaced by their hashes."""
    if isinstance(data, str):
        if len(data) <= TEXT_CHARS:
            return data
        return {_MARK: put(data.encode("utf-8", "surrogatepass"))}
    if isinstance(data, dict):
        copy = {key: extract_texts(value, put) for key, value in data.items()}
        return {_MARK: copy} if _MARK in copy else copy
    if isinstance(data, list | tuple):
        return [extract_texts(value, put) for value in data]
    if data is None or isinstance(data, int | float):
        return data
    return extract_texts(json.loads(as_text(data)), put)


def restore_texts(data: Any, find: Callable[[str], bytes]) -> Any:
    """Return JSON data with its large texts, as it was before `extract_texts`."""
    if isinstance(data, dict):
        if len(data) == 1 and _MARK in data:
            inner = data[_MARK]
            if isinstance(inner, str):
                return find(inner).decode("utf-8", "surrogatepass")
            data = inner
        return {key: restore_texts(value, find) for key, value in data.items()}
    if isinstance(data, list):
        return [restore_texts(value, find) for value in data]
    return data


class NoFiles:
    """The files beside a journal that has no files: its tables have all values."""

    min_bytes: int | None = None
    """From how many bytes on a value is a file; None if no value is."""
    place: str = ""
    """The folder, as it stands in an error."""

    def put(self, hash: str, data: bytes) -> None:
        """Store a value, whole or not at all."""
        raise AssertionError(f"value {hash} of {len(data)} bytes is not for a file")

    def beginning_with(self, beginning: str) -> list[str]:
        """Return the hashes of the values that begin with some digits."""
        return []

    def has(self, hash: str) -> bool:
        """Return whether there is a value."""
        return False

    def written_times(self) -> list[tuple[str, float]]:
        """Return the hash of each value, and when it was written, in seconds since 1970."""
        return []

    def delete(self, hash: str) -> None:
        """Delete a value, if it is there."""

    def get(self, hash: str) -> bytes | None:
        """Return a value; None if it is not there."""
        return None

    def copy_all(self, folder: Path) -> None:
        """Copy the values that are not in a folder yet."""


def _json_parts(value: Any) -> Any:
    """Return JSON data for another value; for a dataclass its fields, which are encoded next."""
    names = getattr(type(value), "__dataclass_fields__", None)
    return to_json(value) if names is None else {name: getattr(value, name) for name in names}


_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_json_parts)


def as_text(data: Any) -> str:
    """Return JSON data as it is stored: what UTF-8 cannot encode is escaped."""
    try:
        return plain_json(data).decode()
    except ValueError:  # a lone surrogate, or an object that pydantic does not know
        text = _JSON.encode(data)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
