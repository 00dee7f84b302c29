"""The leases of runs. Only the process that has a run's lease writes the run."""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from moothall.foundation.errors import JournalError
from moothall.foundation.files import (
    OPEN_FILE_LOCKS,
    copy_owner,
    lock_problem,
    locked_range,
    set_lock,
)
from moothall.foundation.threads import guard, in_child


class Leases(Protocol):
    """The leases of the runs that a journal of this process works on.

    The system or the server releases them at the moment the process ends, for any reason, so that
    nobody has to guess whether it lives.
    """

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock that a thread holds while it uses the leases."""
        ...

    def take(self, run: int, /) -> bool:
        """Take the lease of a run; return False if it is taken."""
        ...

    def give_back(self, run: int, /) -> None:
        """Release the lease of a run."""
        ...

    def is_taken(self, run: int, /) -> bool:
        """Return whether this process or another one works on a run."""
        ...

    def leased_runs(self, numbers: Iterable[int], /) -> list[int]:
        """Return which of these runs this process or another one works on."""
        ...

    def is_idle(self, numbers: Iterable[int], /) -> bool:
        """Return whether nobody has a lease."""
        ...

    def close(self) -> None:
        """Release all leases."""
        ...


_LAST_RUN: Final = 2**31 - 1
_LAST_BYTE: Final = 2**62
_TAKEN_ERRORS: Final = (errno.EACCES, errno.EAGAIN)


class FileLeases:
    """Leases that are locks, each on one byte of a file beside the journal.

    The file is empty and is never removed.
    """

    def __init__(self, path: str) -> None:
        # The same file for every name of the journal, such as a symbolic link.
        self._journal = os.path.realpath(path)
        self._path = f"{self._journal}-leases"
        self._fd = -1
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._taken_runs: set[int] = set()
        self.lock: AbstractContextManager[object] = guard()
        # A child inherits the open file, and would keep the locks after its parent's death.
        in_child(self.close)

    def take(self, run: int) -> bool:
        """Take the lease of a run; return False if it is taken."""
        if run in self._taken_runs:
            return False
        if self._fd < 0:
            self._open()
        try:
            self._set_lock(fcntl.F_WRLCK, run)
        except OSError as error:
            if error.errno in _TAKEN_ERRORS:
                return False
            raise JournalError(self._path, lock_problem(error)) from error
        self._taken_runs.add(run)
        return True

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            try:
                # One process makes it: that one sets its owner.
                self._fd = os.open(self._path, flags | os.O_EXCL, 0o600)
                copy_owner(self._path, self._journal)
            except FileExistsError:
                self._fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise JournalError(self._path, lock_problem(error)) from error
        self._finalizer = weakref.finalize(self, os.close, self._fd)

    def give_back(self, run: int) -> None:
        """Release the lease of a run."""
        if run in self._taken_runs:
            self._taken_runs.discard(run)
            if self._finalizer is not None and self._finalizer.alive:  # else its file is closed
                self._set_lock(fcntl.F_UNLCK, run)

    def is_taken(self, run: int) -> bool:
        """Return whether this process or another one works on a run."""
        if run in self._taken_runs:
            return True
        if OPEN_FILE_LOCKS:
            return any(self._locked_ranges(run, run))
        try:
            if not self.take(run):
                return True
        except JournalError:
            return False  # without the right to make the file, nobody here has a run
        self.give_back(run)
        return False

    def leased_runs(self, numbers: Iterable[int]) -> list[int]:
        """Return which of these runs this process or another one works on."""
        if not OPEN_FILE_LOCKS:
            return [run for run in numbers if self.is_taken(run)]
        return [run for locked in self._locked_ranges(1, _LAST_RUN) for run in locked]

    def is_idle(self, numbers: Iterable[int]) -> bool:
        """Return whether nobody has a lease, on Linux also of shared budgets."""
        return not (
            any(self._locked_ranges(1, _LAST_BYTE))
            if OPEN_FILE_LOCKS
            else self.leased_runs(numbers)
        )

    def close(self) -> None:
        """Release all leases."""
        self._taken_runs.clear()
        self._fd = -1
        finalizer, self._finalizer = self._finalizer, None
        if finalizer is not None:
            finalizer()

    def _locked_ranges(self, first: int, last: int) -> Iterator[range]:
        """Yield the locked bytes of a range, on Linux, without taking one that is free."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            # The system names one lock in a range, so the ranges beside it are asked for next.
            ranges = [(first, last)]
            while ranges:
                first, last = ranges.pop()
                lock = locked_range(fd, first, last)
                if lock is None:
                    continue
                lock_range, _ = lock
                yield lock_range
                if first < lock_range.start:
                    ranges.append((first, lock_range.start - 1))
                if lock_range.stop <= last:
                    ranges.append((lock_range.stop, last))
        finally:
            os.close(fd)

    def _set_lock(self, kind: int, run: int) -> None:
        if OPEN_FILE_LOCKS:
            # So that two journals of one process exclude each other too.
            set_lock(self._fd, kind, run)
        else:
            operation = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(self._fd, operation, 1, run)
