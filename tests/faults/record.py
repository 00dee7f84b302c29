"""What a worker did, kept outside of the system: a line when an action begins, one when it ends.

Each line is on the disk before the worker goes on, so that it is there whatever the worker is
killed in.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

BEGAN, ENDED = "began", "ended"
LINE = 32


class Record:
    """Writes; every process that handles messages may append to the same file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def began(self, key: int) -> None:
        self._append(BEGAN, key)

    def ended(self, key: int) -> None:
        self._append(ENDED, key)

    def _append(self, what: str, key: int) -> None:
        # All lines are of one length, by which the size of a page can be divided: the system writes
        # a page at a time, and a process may be killed between the two that a line lies on.
        line = f"{what} {key}".ljust(LINE - 1) + "\n"
        assert len(line) == LINE
        os.write(self._file, line.encode())
        os.fsync(self._file)


class Done(NamedTuple):
    """How often each key began and ended."""

    began: Counter[int]
    ended: Counter[int]


def read(path: Path) -> Done:
    done = Done(Counter(), Counter())
    for line in path.read_text().splitlines():
        what, key = line.split()
        {BEGAN: done.began, ENDED: done.ended}[what][int(key)] += 1
    return done
