"""An SQLite file of moothall: checks, connections, migrations, and texts for its errors.

A file belongs to the process that opened it: a forked child opens it again, or gets an error.
Forking while other threads are inside SQLite is not supported: a child inherits its locks' state.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from moothall.arguments import is_path
from moothall.errors import ConfigError, MoothallError
from moothall.threads import guard, in_child

E = TypeVar("E", bound=MoothallError)
Identity: TypeAlias = tuple[int, int] | None
Migration: TypeAlias = str | Callable[[sqlite3.Connection], object]
"""A statement, or what a migration does by Python."""

_LEAST_BYTES: Final = 512
"""A database has no fewer; SQLite itself treats a file of one byte as empty."""
_SHARED: Final = (("", 0x40000002, 510), ("-shm", 128, 1))
"""SQLite's read locks while a WAL file is open: the file, the first byte, and how many bytes."""

_FAULTS: Final = {
    sqlite3.SQLITE_READONLY: "it may not be written ({error}): change its permissions",
    sqlite3.SQLITE_PERM: "it may not be written ({error}): change its permissions",
    sqlite3.SQLITE_FULL: "the disk is full: make room, and try again",
    sqlite3.SQLITE_IOERR: "the system cannot read or write it ({error}): see to its disk, the room "
    "there and the limits, and try again",
    sqlite3.SQLITE_CANTOPEN: "it, or the files beside it, -wal and -shm, cannot be opened: change "
    "their permissions, or copy all of them to a folder that may be written to",
}

_OPENING = guard()
_OPEN: set[SQLiteConnection] = set()
_INHERITED: dict[Path, list[int]] = {}


class SQLiteConnection(sqlite3.Connection):
    """A connection that stores its file, and whether it waits for locks."""

    path: Path = Path()
    identity: Identity = None
    patient: bool = True

    def wait(self, seconds: float) -> None:
        """Set how many seconds to wait for a lock from now on; 0 for no wait."""
        if self.patient is not (seconds > 0):
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            self.patient = seconds > 0

    def insert(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Insert one row; return its number."""
        number = self.execute(sql, values).lastrowid
        assert number is not None
        return number

    def close(self) -> None:
        """Close the connection."""
        super().close()
        _OPEN.discard(self)


class SQLiteFile(Generic[E]):
    """The path of an SQLite file of one kind, and the code that all kinds share."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: str,
        maker: str,
        application: int,
        migrations: Sequence[Sequence[Migration]],
        error: Callable[[str, str], E],
    ) -> None:
        if not is_path(path):
            article = "an" if kind[0] in "aeiou" else "a"
            raise ConfigError(f"{article} {kind}'s path must be the name of a file, got {path!r}")
        self.name = name = os.fspath(path)
        self._at = os.path.abspath(name)
        self.path: Path = Path(self._at)
        self.error: Callable[[str], E] = partial(error, name)
        self._kind = kind
        self._maker = maker
        self._application = application
        self._migrations = migrations
        self.newest: int = len(migrations)
        self._process = os.getpid()

    # -- opening -----------------------------------------------------------------------------------

    def is_of_this_process(self) -> bool:
        """Return whether it was made in this process, not before a fork."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raise in a forked child."""
        if not self.is_of_this_process():
            raise self.error(
                f"it was opened by process {self._process}: open it again in this process"
            )

    def identity(self) -> Identity:
        """Return the file's device and inode, whatever its name; None without a file."""
        try:
            found = os.stat(self._at)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def is_open(self) -> bool:
        """Return whether this process has a connection to it."""
        identity = self.identity()
        return identity is not None and any(each.identity == identity for each in list(_OPEN))

    def look(self, may_read: bool = False) -> str:
        """Check the path before anything is created; return why it is read-only, or "" if not."""
        path, folder = self.path, self.path.parent
        if not folder.is_dir():
            raise self.error(f"there is no folder {str(folder)!r}: make it first")
        if path.exists() and not path.is_file():
            raise self.error("it is not a file: name one")
        if path.exists() and 0 < path.stat().st_size < _LEAST_BYTES:
            raise self._of_another_kind()
        reason = ""
        if not os.access(folder, os.W_OK):
            reason = (
                f"the folder {str(folder)!r} may not be written to, where SQLite keeps files "
                "beside this one: change its permissions, or copy the file to another folder"
            )
        elif path.exists() and not os.access(path, os.R_OK | os.W_OK):
            reason = "it may not be read and written: change its permissions"
        if reason and not (may_read and os.access(path, os.R_OK)):
            raise self.error(reason)
        return reason

    def connect(self, mode: str, timeout: float, *settings: str) -> SQLiteConnection:
        """Return a connection, with these pragmas, in autocommit mode."""
        with _OPENING:
            self._lock_as_inherited()
            connection: SQLiteConnection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                uri=True,
                timeout=timeout,
                isolation_level=None,
                check_same_thread=False,
                factory=SQLiteConnection,
            )
            connection.path, connection.identity = self.path, self.identity()
            _OPEN.add(connection)
        try:
            # Copying the log into the file waits for the disk, so not after every 4 MB. A malicious
            # file must not call functions from its schema.
            for setting in (*settings, "wal_autocheckpoint = 4000", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _lock_as_inherited(self) -> None:
        """In a forked child, take the locks that the inherited SQLite state says it has.

        Without them the parent believes that it is the last to close the file, and removes the log
        that the child still writes to.
        """
        for path, locked in _INHERITED.items():
            with suppress(OSError):
                for place, (suffix, start, length) in enumerate(_SHARED):
                    if not os.path.samefile(path, self.path):
                        break
                    if place == len(locked):
                        locked.append(os.open(f"{path}{suffix}", os.O_RDWR | os.O_CLOEXEC))
                    fcntl.lockf(locked[place], fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)

    # -- versions ----------------------------------------------------------------------------------

    def version(self, connection: sqlite3.Connection) -> int:
        """Return how many migrations it has had; raise if it is no known file of moothall."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        # SQLite itself says that whole pages are missing, and not that the last one is cut.
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        log = f"{self.path}-wal"  # it may have what is missing
        size, rest = (os.path.getsize(p) if os.path.exists(p) else 0 for p in (self.path, log))
        if size % page and not rest:
            raise self.damaged(f"it ends within a page, after {size} bytes")
        if application != self._application:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application or version or tables:
                if connection.execute("PRAGMA application_id").fetchone() == (self._application,):
                    return self.version(connection)  # another process has created it meanwhile
                raise self.error(
                    "it is another program's database, and was left as it is: name another file"
                )
        if not 0 <= version <= self.newest or (version and not any(self._migrations[:version])):
            older = 0 < version <= self.newest
            known = "no longer reads it" if older else f"knows up to {self.newest}"
            raise self.error(
                f"it has version {version}, and this moothall {known}: "
                f"use the moothall that wrote it{'' if older else ', or a newer one'}"
            )
        return int(version)

    def migrate(self, connection: sqlite3.Connection) -> None:
        """Migrate to the newest version and record that, in one transaction."""
        connection.execute("BEGIN IMMEDIATE")
        # If another process has migrated it meanwhile, nothing is left to do.
        for version in range(self.version(connection), self.newest):
            for step in self._migrations[version]:
                if isinstance(step, str):
                    connection.execute(step)
                else:
                    step(connection)
        connection.execute(f"PRAGMA application_id = {self._application}")
        connection.execute(f"PRAGMA user_version = {self.newest}")
        connection.execute("COMMIT")

    # -- faults ------------------------------------------------------------------------------------

    def closed(self) -> E:
        """Return the error for use after closing."""
        return self.error(f"it was closed: make a new {self._maker} of it")

    def missing_error(self) -> E:
        """Return the error for a file that was deleted, moved or replaced while it was open."""
        return self.error(f"it is gone: restore it, or make a new {self._maker}")

    def damaged(self, what: str) -> E:
        """Return the error for a damaged file."""
        return self.error(
            f"it is damaged ({what}): move it and the files beside it, -wal and -shm, away, and "
            "restore a copy"
        )

    def _of_another_kind(self) -> E:
        return self.error("it is another kind of file, and was left as it is: name another one")

    def fault(self, error: sqlite3.Error, locked: str) -> E:
        """Return the error for an SQLite error, with what to do; `locked`: the text for a lock."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # A missing table means damage, since the file's version says that it exists.
        if code == sqlite3.SQLITE_CORRUPT or str(error).startswith(("no such t", "no such col")):
            return self.damaged(str(error))
        if code == sqlite3.SQLITE_NOTADB:
            return self._of_another_kind()
        if code == sqlite3.SQLITE_CANTOPEN and not self.path.exists():
            return self.missing_error()
        words = {sqlite3.SQLITE_BUSY: locked, sqlite3.SQLITE_LOCKED: locked, **_FAULTS}
        return self.error(words.get(code, "SQLite says: {error}").replace("{error}", str(error)))


def _after_fork() -> None:
    """In a child, never close an inherited connection: that removes the parent's log."""
    for connection in _OPEN:
        # Not kept in a list, which the interpreter would clear at its exit.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        _INHERITED[connection.path] = []
    _OPEN.clear()


in_child(_after_fork)
