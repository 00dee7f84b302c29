"""Files that are written whole or not at all, whenever the process is killed."""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PART_PREFIX: Final = ".part-"
_NUMBERS: Final = itertools.count()
_SWEPT_FOLDERS: Final[set[Path]] = set()


@contextmanager
def written_whole(path: Path, mode: int = 0o666, new: bool = False) -> Iterator[Path]:
    """Yield the name of a new file beside a path, which is moved there once it is on the disk.

    Its writer truncates it, and must not replace it. A `new` one leaves a file that is there as it
    is. What killed processes have left in the folder is removed when this one first writes there.
    """
    if path.parent not in _SWEPT_FOLDERS:
        _sweep(path.parent)
        _SWEPT_FOLDERS.add(path.parent)
    part, fd = _create_locked(path, mode)
    try:
        yield part
        os.fsync(fd)
        if new:
            with suppress(FileExistsError):
                os.link(part, path)
        else:
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
        os.close(fd)


def copy_owner(path: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Give a new file the owner of another one, if this process is root's, as SQLite does.

    Otherwise a service could not use its own journal after root has looked at it.
    """
    if os.geteuid() == 0:
        owner = os.stat(source)
        with suppress(OSError):  # a file system without owners
            # Never what a link names: the folder may be the service's, which put the link there.
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def copy_permissions(path: Path, source: Path) -> None:
    """Give a new file, that nobody has open, the permissions of another one."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fchmod(fd, os.stat(source).st_mode & 0o777)
    finally:
        os.close(fd)


def _create_locked(path: Path, mode: int) -> tuple[Path, int]:
    """Make a file, and lock it: as long as it is locked, its process lives."""
    while True:
        part = path.with_name(f"{_PART_PREFIX}{os.getpid()}-{next(_NUMBERS)}{path.suffix}")
        try:
            fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            continue  # of another machine, or an earlier process with this number
        with suppress(OSError):  # a file system without locks, where nothing is swept
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return part, fd
        os.close(fd)  # swept before it was locked


def _sweep(folder: Path) -> None:
    """Remove what processes have left that were killed while they wrote."""
    for part in folder.glob(f"{_PART_PREFIX}*"):
        with suppress(OSError):
            fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(fd)
