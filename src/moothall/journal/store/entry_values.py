"""Values of entries as a journal stores them: JSON text, and large texts by their hashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_json as plain_json

from moothall.foundation.jsonvalue import to_json

MARK_JSON: Final = '{"\\u0000":'
"""The JSON text with which an object that stands for a large text begins."""


MAX_TEXT_CHARS: Final = 2000
"""A longer text of an entry is stored in the journal once, by its hash."""
_MARK: Final = "\0"
"""The one key of an object that stands for a large text; an object of the data that has this key
itself is stored one object deeper."""


def hash_of(data: bytes) -> str:
    """Return the hash that identifies a value."""
    return sha256(data).hexdigest()


def extract_texts(data: Any, keep_value: Callable[[bytes], str]) -> Any:
    """Return JSON data with its large texts replaced by their hashes."""
    if isinstance(data, str):
        if len(data) <= MAX_TEXT_CHARS:
            return data
        return {_MARK: keep_value(data.encode("utf-8", "surrogatepass"))}
    if isinstance(data, dict):
        copy = {key: extract_texts(value, keep_value) for key, value in data.items()}
        return {_MARK: copy} if _MARK in copy else copy
    if isinstance(data, list | tuple):
        return [extract_texts(value, keep_value) for value in data]
    if data is None or isinstance(data, int | float):
        return data
    return extract_texts(json.loads(stored_json(data)), keep_value)


def restore_texts(data: Any, read_value: Callable[[str], bytes]) -> Any:
    """Return JSON data with its large texts, as it was before `extract_texts`."""
    if isinstance(data, dict):
        if len(data) == 1 and _MARK in data:
            inner = data[_MARK]
            if isinstance(inner, str):
                return read_value(inner).decode("utf-8", "surrogatepass")
            data = inner
        return {key: restore_texts(value, read_value) for key, value in data.items()}
    if isinstance(data, list):
        return [restore_texts(value, read_value) for value in data]
    return data


class ValueFiles:
    """The files beside a journal that has no files: its tables have all values."""

    min_bytes: int | None = None
    """From how many bytes on a value is a file; None if no value is."""
    location: str = ""
    """The folder, as it stands in an error."""

    def put(self, hash: str, data: bytes) -> None:
        """Store a value, whole or not at all."""
        raise AssertionError(f"value {hash} of {len(data)} bytes is not for a file")

    def hashes_with_prefix(self, prefix: str) -> list[str]:
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


def stored_json(data: Any) -> str:
    """Return JSON data as it is stored: what UTF-8 cannot encode is escaped."""
    try:
        return plain_json(data).decode()
    except ValueError:  # a lone surrogate, or an object that pydantic does not know
        text = _JSON.encode(data)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
