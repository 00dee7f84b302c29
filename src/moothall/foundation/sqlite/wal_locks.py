"""The locks by which a process holds an SQLite file in WAL mode, whatever else opens and closes it.

SQLite's own locks belong to the process: the system drops them as soon as the process closes any
descriptor of the file, such as that of a copy or a search. Then another process takes itself for
the last one, and removes the log that this process still writes to. Locks of an open file stay.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from moothall.foundation.files import OPEN_FILE_LOCKS, copy_owner, locked_range, set_lock
from moothall.foundation.threads import guard

_USED_BYTES: Final = (0x40000002, 510)
"""The bytes of the file that SQLite locks while it has the file open: the first, how many."""
Identity: TypeAlias = tuple[int, int] | None
"""A file's device and inode."""

_WRITER_BYTE: Final = 0x40000200
"""The byte behind them that who writes has locked."""
_GATE_BYTE: Final = 0x40000201
"""The next one: locked by who opens the file, until it is held, and alone by who closes it."""
_INDEX_USED_BYTE: Final = 128
"""The byte of `-shm` that SQLite locks while it has the file open."""
_WRITES: Final = range(120, 121)
_READS: Final = range(123, 128)
"""The bytes of `-shm` that SQLite locks for a transaction."""
_STATE_BYTES: Final = 136
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
_LONGEST_PAUSE_S: Final = 0.025
_LOCKED_ERRORS: Final = (errno.EACCES, errno.EAGAIN)
"""The errors of a lock that another one has."""


def mode_and_application(path: str) -> tuple[bool, int]:
    """Return whether a file is a database in WAL mode, and its application id, 0 if it has none.

    SQLite is not asked, which changes a file that has a log. It may not be open in this process.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(72)
    except OSError:
        return False, 0
    if not header.startswith(b"SQLite format 3\0"):
        return False, 0
    return header[18:20] == b"\2\2", int.from_bytes(header[68:72])


def is_held(path: str) -> bool:
    """Return whether another process holds a file; this one may not have it open."""
    first, count = _USED_BYTES
    with suppress(OSError), open(path, "rb") as file:
        return OPEN_FILE_LOCKS and locked_range(file.fileno(), first, first + count - 1) is not None
    return False


def set_wal_mode(path: Path) -> None:
    """Set WAL mode in a database that nobody has open, without files beside it."""
    with path.open("r+b") as file:
        file.seek(18)
        file.write(b"\2\2")


class WALFile:
    """A file in WAL mode that this process holds until `release` and `close`.

    `index`: what `-shm` must be, where SQLite has it open already.
    """

    def __init__(self, path: str, seconds: float, index: Identity) -> None:
        # SQLite has the other files beside the file itself, not beside a symbolic link to it.
        self.path: str = os.path.realpath(path)
        path = self.path
        self._writer_lock = guard(threading.Lock())
        self._file = self._shm = -1
        try:
            self._file = os.open(path, _FLAGS)
            # From here on nobody removes -wal and -shm.
            deadline = time.monotonic() + seconds
            if OPEN_FILE_LOCKS:
                _lock_by(self._file, fcntl.F_RDLCK, _GATE_BYTE, 1, deadline)
            _lock_by(self._file, fcntl.F_RDLCK, *_USED_BYTES, deadline)
            if OPEN_FILE_LOCKS:
                set_lock(self._file, fcntl.F_UNLCK, _GATE_BYTE)
            self._shm, is_new = _open_or_create(f"{path}-shm")
            if is_new:
                copy_owner(f"{path}-shm", path)
                os.fchmod(self._shm, os.fstat(self._file).st_mode & 0o777)
            status = os.fstat(self._shm)
            self.index: Identity = (status.st_dev, status.st_ino)
            if index not in (None, self.index):
                raise FileNotFoundError(errno.ENOENT, "it was replaced", f"{path}-shm")
            if index is None and OPEN_FILE_LOCKS:
                self._empty_index()
            _lock_by(self._shm, fcntl.F_RDLCK, _INDEX_USED_BYTE, 1, deadline)
        except BaseException:
            self.close()
            raise

    def _empty_index(self) -> None:
        """Have SQLite make `-shm` anew if nobody uses it: a crash of the system may leave anything.

        SQLite itself truncates it, which kills a process that still has it mapped.
        """
        with suppress(BlockingIOError):
            set_lock(self._shm, fcntl.F_WRLCK, _INDEX_USED_BYTE)
            os.pwrite(self._shm, bytes(_STATE_BYTES), 0)

    def take(self, seconds: float) -> None:
        """Become the writer among the processes that use moothall.

        Raises:
            sqlite3.OperationalError: another one was for so long
        """
        if self._writer_lock.acquire(blocking=False):  # mostly, nobody else writes
            try:
                if OPEN_FILE_LOCKS:
                    set_lock(self._file, fcntl.F_WRLCK, _WRITER_BYTE)
                return
            except BaseException as error:
                self._writer_lock.release()
                if not isinstance(error, OSError) or error.errno not in _LOCKED_ERRORS:
                    raise
        self._wait_for_turn(seconds)

    def _wait_for_turn(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        if not self._writer_lock.acquire(timeout=max(seconds, 0)):
            raise _busy()
        try:
            if OPEN_FILE_LOCKS:
                _lock_by(self._file, fcntl.F_WRLCK, _WRITER_BYTE, 1, deadline)
        except BaseException:
            self._writer_lock.release()
            raise

    def give_back(self) -> None:
        """Let the next one write."""
        if OPEN_FILE_LOCKS and self._file >= 0:
            set_lock(self._file, fcntl.F_UNLCK, _WRITER_BYTE)
        self._writer_lock.release()

    def state(self) -> bytes:
        """Return SQLite's record of what the log has, and how much of it is in the file."""
        return os.pread(self._shm, _STATE_BYTES, 0)

    def is_locked(self, writes: bool) -> bool:
        """Return whether SQLite still has this process's lock of a transaction."""
        locks = (locked_range(self._shm, byte, byte) for byte in (_WRITES if writes else _READS))
        return not OPEN_FILE_LOCKS or any(lock and lock[1] == os.getpid() for lock in locks)

    def release(self) -> None:
        """Leave the file to SQLite's own locks, with which it knows if nobody else has it open."""
        if OPEN_FILE_LOCKS:
            for fd, first, count in self._shared_locks():
                fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, count, first)
                set_lock(fd, fcntl.F_UNLCK, first, count)

    @contextmanager
    def closing(self, seconds: float) -> Iterator[None]:
        """Have nobody open the file while SQLite removes the files beside it.

        SQLite's own lock may be dropped meanwhile, as by a copy that this process makes.
        """
        if OPEN_FILE_LOCKS:
            with suppress(sqlite3.OperationalError):
                _lock_by(self._file, fcntl.F_WRLCK, _GATE_BYTE, 1, time.monotonic() + seconds)
        self.release()
        try:
            yield
        finally:
            if OPEN_FILE_LOCKS:
                set_lock(self._file, fcntl.F_UNLCK, _GATE_BYTE)

    def hold_again(self, seconds: float) -> bool:
        """Hold the file again, after `release`, if another part of this process has it open."""
        first, count = _USED_BYTES
        lock = locked_range(self._file, first, first + count - 1) if OPEN_FILE_LOCKS else None
        if lock is None or lock[1] != os.getpid():
            return False
        with suppress(sqlite3.OperationalError):  # it may have all locks for a moment
            for fd, first, count in self._shared_locks():
                _lock_by(fd, fcntl.F_RDLCK, first, count, time.monotonic() + seconds)
        return True

    def _shared_locks(self) -> tuple[tuple[int, int, int], ...]:
        return (self._file, *_USED_BYTES), (self._shm, _INDEX_USED_BYTE, 1)

    def close(self) -> None:
        """Close the files. This drops SQLite's locks of them: nobody here may have them open."""
        for fd in (self._file, self._shm):
            if fd >= 0:
                os.close(fd)
        self._file = self._shm = -1


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keep a file, if it is there, for this process; BlockingIOError if somebody has it open."""
    try:
        file = os.open(path, _FLAGS)
    except FileNotFoundError:
        yield
        return
    first, count = _USED_BYTES
    try:
        if OPEN_FILE_LOCKS:
            set_lock(file, fcntl.F_WRLCK, _GATE_BYTE)
            set_lock(file, fcntl.F_WRLCK, first, count)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
        yield
    finally:
        os.close(file)


def _open_or_create(path: str) -> tuple[int, bool]:
    """Open a file, and return whether it was created."""
    try:
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600), True
    except FileExistsError:
        return os.open(path, _FLAGS | os.O_CREAT, 0o600), False


def _lock_by(fd: int, kind: int, first: int, count: int, deadline: float) -> None:
    """Lock bytes; wait until the deadline at most."""
    pause = 0.001
    while True:
        try:
            if OPEN_FILE_LOCKS:
                set_lock(fd, kind, first, count)
            else:
                fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, count, first)
            return
        except OSError as error:
            if error.errno not in _LOCKED_ERRORS:
                raise
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise _busy()
        time.sleep(min(pause, remaining))  # noqa: TID251 - a lock of the system wakes nobody
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _busy() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error
