"""Leases: one writer a run, and none who has died."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import weakref
from collections.abc import Callable
from typing import Final

from civitas.errors import JournalError

_LINUX: Final = sys.platform == "linux"
_TAKEN: Final = (errno.EACCES, errno.EAGAIN)


class Leases:
    """The runs that a journal of this process works on.

    Each is one byte of a file beside the journal, locked; so the system gives it back the moment
    the process ends, however that comes about, and nobody has to guess from a process's number
    whether it lives. The file holds nothing and is never removed.
    """

    def __init__(self, path: str) -> None:
        # One file, by whatever name the journal is opened.
        self._path = f"{os.path.realpath(path)}-leases"
        self._fd = -1
        self._end: Callable[[], object] | None = None
        self._held: set[int] = set()
        _ALL.add(self)

    def take(self, run: int) -> bool:
        """Take the lease of a run; False if somebody has it."""
        if run in self._held:
            return False
        try:
            if self._fd < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o600)
                self._end = weakref.finalize(self, os.close, self._fd)
            self._lock(fcntl.F_WRLCK, run)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise JournalError(
                self._path, f"it cannot be locked ({error.strerror}): use a local disk"
            ) from error
        self._held.add(run)
        return True

    def give_back(self, run: int) -> None:
        """Give the lease of a run back."""
        if run in self._held:
            self._held.discard(run)
            if self._fd >= 0:
                self._lock(fcntl.F_UNLCK, run)

    def is_taken(self, run: int) -> bool:
        """Whether somebody works on a run, in this process or another."""
        if run in self._held:
            return True
        if _LINUX:  # asked without taking it, which somebody might just be about to
            try:
                fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False
            try:
                asked = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, run))
            finally:
                os.close(fd)
            kind: int = struct.unpack_from("h", asked)[0]
            return kind != fcntl.F_UNLCK
        try:
            if not self.take(run):
                return True
        except JournalError:
            return False  # whoever may not make the file has no run either
        self.give_back(run)
        return False

    def close(self) -> None:
        """Give all of them back."""
        self._held.clear()
        self._fd = -1
        end, self._end = self._end, None
        if end is not None:
            end()

    def _lock(self, kind: int, run: int) -> None:
        if _LINUX:
            # Such a lock belongs to the open file, so that two journals of one process exclude
            # each other too.
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _flock(kind, run))
        else:
            wanted = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(self._fd, wanted, 1, run)


def _flock(kind: int, run: int) -> bytes:
    """Linux's `struct flock`: one byte, at the run's number."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, run, 1, 0)


_ALL: weakref.WeakSet[Leases] = weakref.WeakSet()


def _after_fork() -> None:
    # The child has its parent's open file, and would keep the locks when the parent has died.
    for leases in list(_ALL):
        leases.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
