"""Large values of a journal, stored once each by their hash: in the file, or beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

TEXT_CHARS: Final = 2000
"""A text of an entry that is longer stands in the journal once, by its hash."""
FILE_BYTES: Final = 1 << 20
"""A value of this size or more is a file beside the journal, written without a lock."""

_MARK: Final = "\0"
"""The one key of the object that stands for a large text; an object of the data's own that has this
key stands one object deeper."""


def hash_of(data: bytes) -> str:
    """What a value is known by."""
    return sha256(data).hexdigest()


def set_aside(data: Any, put: Callable[[bytes], str]) -> Any:
    """JSON data with the large texts replaced by their hashes."""
    if isinstance(data, str):
        if len(data) <= TEXT_CHARS:
            return data
        return {_MARK: put(data.encode("utf-8", "surrogatepass"))}
    if isinstance(data, dict):
        made = {key: set_aside(value, put) for key, value in data.items()}
        return {_MARK: made} if _MARK in made else made
    if isinstance(data, list | tuple):
        return [set_aside(value, put) for value in data]
    return data


def restored(data: Any, find: Callable[[str], bytes]) -> Any:
    """JSON data with its large texts, as it was before `set_aside`."""
    if isinstance(data, dict):
        if len(data) == 1 and _MARK in data:
            inner = data[_MARK]
            if isinstance(inner, str):
                return find(inner).decode("utf-8", "surrogatepass")
            data = inner
        return {key: restored(value, find) for key, value in data.items()}
    if isinstance(data, list):
        return [restored(value, find) for value in data]
    return data


class KeptFiles:
    """The values that are files beside a journal, in the folder `NAME-kept`."""

    def __init__(self, journal: str) -> None:
        self.folder = Path(f"{os.path.realpath(journal)}-kept")

    def put(self, hash: str, data: bytes) -> None:
        """Store a value, whole or not at all."""
        file = self.folder / hash
        if file.exists():
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        part = self.folder / f"{hash}.{os.getpid()}"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def get(self, hash: str) -> bytes | None:
        """A value; None if it is not there."""
        try:
            return (self.folder / hash).read_bytes()
        except FileNotFoundError:
            return None
