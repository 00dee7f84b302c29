"""The SQLite file of a journal, and the large values beside it."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from moothall.foundation.database import CHANGES, RUNS, Lock
from moothall.foundation.errors import DefinitionError, JournalError
from moothall.foundation.files import copy_owner, written_whole
from moothall.foundation.sqlite import SQLiteConnection, SQLiteFile, SQLitePool
from moothall.journal.store.entry_values import ValueFiles
from moothall.journal.store.leases import FileLeases
from moothall.journal.store.store import Store
from moothall.journal.store.tables import APPLICATION_ID, MIGRATIONS

_ROOM_BYTES: Final = 2**20
"""So much more room is kept on the disk than the log takes."""
_SMALL_LOG_BYTES: Final = 2**19
"""No room is kept for a smaller log: there is little to prune then."""
_OPEN_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)
_MIN_FREE_BYTES: Final = 2**23
"""With less room than this, a disk counts as full."""
MIN_FILE_BYTES: Final = 1 << 20
"""A value of this size or more is a file beside the journal, written without a lock."""
_HASH_CHARS: Final = 64


def is_journal_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a journal of moothall; it is read, and not opened as a database."""
    try:
        # Closing a file that this process has open as a database would drop SQLite's locks on it.
        if SQLiteFile.is_in_use(os.stat(path)):
            return False
        with open(path, "rb") as file:
            head = file.read(72)
        if not head.startswith(b"SQLite format 3\0"):
            return False
        # What another process writes may stand in the log alone.
        is_live = os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-leases")
        return is_live or head[68:] == APPLICATION_ID.to_bytes(4, "big")
    except (OSError, ValueError):
        return False


class KeptFiles(ValueFiles):
    """The values that are files beside a journal, in the folder `NAME-kept`."""

    def __init__(self, journal: str) -> None:
        self._journal = os.path.realpath(journal)
        self.folder: Path = Path(f"{self._journal}-kept")
        self.min_bytes: int | None = MIN_FILE_BYTES
        self.location: str = f" in {self.folder}"

    def put(self, hash: str, data: bytes) -> None:
        """Store a value, whole or not at all."""
        file = self.folder / hash
        # Its name is its hash: what is there is the same.
        if file.exists():
            return
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
            copy_owner(self.folder, self._journal)
        with written_whole(file, 0o600) as temporary:
            temporary.write_bytes(data)
            copy_owner(temporary, self._journal)

    def hashes_with_prefix(self, prefix: str) -> list[str]:
        """Return the hashes of the values that begin with some digits."""
        return [file.name for file in self.folder.glob(f"{prefix}*")]

    def has(self, hash: str) -> bool:
        """Return whether there is a value."""
        return (self.folder / hash).exists()

    def written_times(self) -> list[tuple[str, float]]:
        """Return the hash of each value, and when it was written, in seconds since 1970."""
        values = []
        for file in self.folder.glob("[0-9a-f]*") if self.folder.is_dir() else ():
            if len(file.name) == _HASH_CHARS:
                with suppress(FileNotFoundError):
                    values.append((file.name, file.stat().st_mtime))
        return values

    def copy_all(self, folder: Path) -> None:
        """Copy the values that are not in a folder yet."""
        for hash, _ in self.written_times():
            copy = folder / hash
            if copy.exists():
                continue
            folder.mkdir(mode=0o700, exist_ok=True)
            with written_whole(copy, 0o600) as temporary:
                try:
                    shutil.copyfile(self.folder / hash, temporary)
                except FileNotFoundError:
                    continue  # deleted since
                os.chmod(temporary, 0o600)

    def delete(self, hash: str) -> None:
        """Delete a value, if it is there."""
        (self.folder / hash).unlink(missing_ok=True)

    def get(self, hash: str) -> bytes | None:
        """Return a value; None if it is not there."""
        try:
            return (self.folder / hash).read_bytes()
        except FileNotFoundError:
            return None


_SYNCHRONOUS: Final = {"process": "NORMAL", "power": "FULL"}
"""SQLite's word for what a journal survives."""


class JournalFile(SQLitePool[JournalError], Store):
    """The SQLite file of a journal."""

    recheck_s: float = 0.25  # SQLite signals nothing
    attribute_sql: str = "json_extract(attributes, ?)"
    last_run_sql: str = "(SELECT seq FROM sqlite_sequence WHERE name = 'runs')"

    def __init__(self, path: str | os.PathLike[str], durability: str, timeout: float) -> None:
        file = SQLiteFile(
            path,
            kind="journal",
            class_name="Journal",
            application=APPLICATION_ID,
            migrations=MIGRATIONS,
            error=JournalError,
            shrinks=True,
        )
        if file.name.startswith(":memory:"):
            raise DefinitionError(
                f"a journal is a file, since one in memory survives nothing: give Journal the path "
                f"of one, got {file.name!r}"
            )
        # Deleted data is overwritten, however this SQLite was built.
        settings = (f"synchronous = {_SYNCHRONOUS[durability]}", "secure_delete = ON")
        self.files: ValueFiles = KeptFiles(str(file.path))
        self.commits_wait: bool = durability == "power"
        self._kept_room = 0  # how many bytes of the disk are kept
        self.damaged_runs: set[str] = set()
        super().__init__(
            file,
            timeout,
            "SELECT count(*) FROM runs, entries, budgets, kept WHERE 0",
            settings,
            may_read=True,
        )

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return str(self.file.path)

    @property
    def identity(self) -> object:
        """Return the file's device and inode."""
        return self._identity

    # -- room on the disk --------------------------------------------------------------------------

    def writing(
        self, wait: bool = True, lock: Lock = CHANGES
    ) -> AbstractContextManager[SQLiteConnection]:
        """Yield a connection in a transaction; what works on runs keeps room for a deletion."""
        # As it was at this process's last transaction: a look at each commit would cost time.
        log_bytes = self.file.log_bytes
        if (
            log_bytes >= _SMALL_LOG_BYTES
            and log_bytes + _ROOM_BYTES > self._kept_room
            and lock is RUNS
        ):
            self._keep_room()
        return super().writing(wait, lock)

    def _keep_room(self) -> None:
        """Keep so much of the disk that the log can be moved into the file: to prune a full one."""
        with suppress(OSError, JournalError):
            log_bytes = os.stat(f"{self.file.path}-wal").st_size
            needed = log_bytes + _ROOM_BYTES
            if (
                log_bytes < _SMALL_LOG_BYTES
                or needed <= self._kept_room
                or not hasattr(os, "posix_fallocate")
            ):
                return
            fd = os.open(self._room_path, _OPEN_FLAGS | os.O_CREAT, 0o600)
            try:
                copy_owner(self._room_path, self.path)
                os.posix_fallocate(fd, 0, needed + _ROOM_BYTES)
                self._kept_room = needed + _ROOM_BYTES
            except OSError as error:
                if error.errno not in _DISK_FULL_ERRORS:
                    self._kept_room = sys.maxsize  # this disk can keep none
                    return
                self._kept_room = os.fstat(fd).st_size
                self.empty_log(0)  # the log must not grow beyond what is kept
            finally:
                os.close(fd)

    @property
    def _room_path(self) -> str:
        return f"{os.path.realpath(self.file.path)}-room"

    def _is_full(self) -> bool:
        return shutil.disk_usage(os.path.dirname(self.path)).free < _MIN_FREE_BYTES

    def make_room(self) -> None:
        """Move the log into the file; on a full disk, with the room that is kept for it."""
        if self._is_full():
            self._kept_room = 0
            with suppress(OSError):
                fd = os.open(self._room_path, _OPEN_FLAGS)
                os.ftruncate(fd, 0)
                os.close(fd)
        self.move_log()

    def leases(self) -> FileLeases:
        """Return the leases, which are locks on a file beside this one."""
        return FileLeases(self.path)

    def after_deletion(self, is_idle: bool) -> bool:
        """Tidy up after a deletion; return whether no copy of what was deleted is left."""
        if self._is_full():  # there is no room to write it anew
            self.shrink()
            self.empty_log()
            return False
        if is_idle and self.is_small():
            return self.rewrite()
        self.move_log()  # to empty it would have writers wait for the disk
        return False

    def faults(self) -> list[str]:
        """Return what SQLite finds to be damaged."""
        with self.reading() as db:
            problems = [fault for (fault,) in db.execute("PRAGMA integrity_check(10)")]
        return [] if problems == ["ok"] else [str(self.damaged(each)) for each in problems]

    def size(self) -> int:
        """Return how many bytes the file has."""
        return self.file.path.stat().st_size
