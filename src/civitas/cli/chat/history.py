"""The lines that a person wrote, kept in a file of theirs."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

MAX_LINES: Final = 5000
"""How many lines are kept; the file may have twice as many in between."""
_MAX_BYTES: Final = 64 * 2**20


class LineFile:
    """Lines in a file that nobody else may read, each as a JSON text on a line of its own.

    What is wrong with the file is complained of once; from then on nothing is read or written.
    """

    def __init__(self, path: Path, complain: Callable[[str], None]) -> None:
        self._path = path
        self._complain = complain
        self._usable = True

    def lines(self) -> list[str]:
        """The lines, the newest last."""
        kept: deque[str] = deque(maxlen=MAX_LINES)
        count, whole = 0, True
        try:
            # Not blocking: what is there may be a pipe.
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                os.close(handle)
                raise ValueError("it is no regular file")
            with open(handle, "rb") as file:
                if found.st_size > _MAX_BYTES:
                    raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
                for count, line in enumerate(file, 1):
                    whole = line.endswith(b"\n")
                    if whole:  # else whoever wrote it was stopped in the middle
                        kept.append(_line(line, count))
            if count > 2 * MAX_LINES or not whole:
                self._rewrite(kept)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self._give_up(error)
            return []
        return list(kept)

    def add(self, line: str) -> None:
        """Keep a line."""
        if not self._usable:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            handle = os.open(self._path, flags, 0o600)
            try:
                os.fchmod(handle, 0o600)
                # In one piece: another chat may be writing too.
                os.write(handle, f"{json.dumps(line)}\n".encode())
            finally:
                os.close(handle)
        except OSError as error:
            self._give_up(error)

    def _rewrite(self, kept: deque[str]) -> None:
        """Put a file with the newest lines alone in its place."""
        handle, path = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}-")
        try:
            with open(handle, "w") as file:
                file.writelines(f"{json.dumps(line)}\n" for line in kept)
            os.replace(path, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise

    def _give_up(self, error: Exception) -> None:
        self._usable = False
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._complain(f"no history: {self._path}: {reason}")


def _line(raw: bytes, number: int) -> str:
    try:
        line = json.loads(raw)
    except ValueError:
        line = None
    if not isinstance(line, str):
        raise ValueError(f"line {number} is no JSON text; move the file away to begin another")
    return line
