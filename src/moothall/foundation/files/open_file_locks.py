"""Locks of an open file (OFD locks): no other descriptor's closing drops them. Linux has them."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from functools import lru_cache
from typing import Final

OPEN_FILE_LOCKS: Final = sys.platform == "linux"
"""Whether this system and Python have them."""


def set_lock(fd: int, kind: int, first: int, count: int = 1) -> None:
    """Lock or unlock bytes of an open file, without waiting; OSError if another one has them."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock(kind, first, count))


def locked_range(fd: int, first: int, last: int) -> tuple[range, int] | None:
    """Return one of the locked ranges of a file among these bytes, and its process, or None.

    The process is -1 for a lock of an open file; locks of this descriptor do not count.
    """
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, first, last - first + 1))
    kind, _, start, count, process = struct.unpack_from("hhqqi", answer)
    if kind == fcntl.F_UNLCK:
        return None
    end = start + count - 1 if count else last
    return range(max(start, first), min(end, last) + 1), process


def lock_problem(error: OSError) -> str:
    """Return why a file cannot be locked, or made for its locks, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full: make room, and try again"
    if error.errno in (errno.EROFS, errno.EPERM, errno.EACCES):
        return f"it may not be written ({error.strerror}): change its permissions"
    return f"it cannot be locked ({error.strerror}): use a local disk"


@lru_cache  # a writer takes and leaves the same lock at each commit
def _flock(kind: int, first: int, count: int) -> bytes:
    """Return Linux's `struct flock`."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, first, count, 0)
