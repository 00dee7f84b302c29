"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from civitas.errors import FileError


def file_name(text: str, suffix: str) -> str:
    """A text as the name of a file."""
    return re.sub("[^a-zA-Z0-9_.-]", "-", text) + suffix


def write_whole(path: Path, write: Callable[[str], Any]) -> None:
    """Have a file be written beside its place, and put there when it is whole and on the disk."""
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(str(beside))
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
