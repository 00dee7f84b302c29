"""An SQLite file of ours: told from other files before it is touched, its faults put in words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from civitas.errors import CivitasError, DefinitionError

__all__ = ["SQLiteConnection", "SQLiteFile"]

E = TypeVar("E", bound=CivitasError)


class SQLiteConnection(sqlite3.Connection):
    """A connection that knows whether it waits for locks.

    Attributes:
        patient: whether it does
    """

    patient = True

    def wait(self, seconds: float) -> None:
        """Wait so long for a lock from now on; 0 for not at all."""
        if self.patient is not (seconds > 0):
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            self.patient = seconds > 0


class SQLiteFile(Generic[E]):
    """The path of an SQLite file of one kind, and what all kinds have in common.

    Attributes:
        name: the path as it was given
        path: the same, whatever the working directory becomes

    Args:
        path: where it is, or is to be made
        kind: what it is called, such as `memory`
        maker: the class that makes one
        application: what its header says it is, so that no other program's database is changed
        migrations: the statements that lead from each version to the next, appended to only; a file
            is always of a whole version, `user_version`
        error: makes the error for a file that cannot be used, of its name and the reason

    Raises:
        DefinitionError: the path is none
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: str,
        maker: str,
        application: int,
        migrations: Sequence[Sequence[str]],
        error: Callable[[str, str], E],
    ) -> None:
        try:
            self.name = os.fspath(path)
        except TypeError:
            self.name = path  # type: ignore[assignment]
        if not isinstance(self.name, str) or not self.name or "\0" in self.name:
            article = "an" if kind[0] in "aeiou" else "a"
            raise DefinitionError(f"{article} {kind}'s path is the name of a file, not {path!r}")
        self.path = Path(os.path.abspath(self.name))
        self.error = error
        self._kind = kind
        self._maker = maker
        self._application = application
        self._migrations = migrations

    def look(self) -> None:
        """See to it that the path can be such a file, before anything is made or changed.

        Not while this process has the file open: closing it after a look would drop its locks.

        Raises:
            E: it cannot
        """
        path, folder = self.path, self.path.parent
        if not folder.is_dir():
            raise self.error(self.name, f"there is no folder {str(folder)!r}: make it first")
        if not os.access(folder, os.W_OK):
            raise self.error(
                self.name,
                f"the folder {str(folder)!r} may not be written to, where SQLite keeps files "
                "beside this one: change its permissions, or copy the file to another folder",
            )
        if not path.exists():
            return
        if not path.is_file():
            raise self.error(self.name, "it is no file: name one")
        if not os.access(path, os.R_OK | os.W_OK):
            raise self.error(self.name, "it may not be read and written: change its permissions")
        with path.open("rb") as file:
            header = file.read(100)
            # A -wal file may hold the rest. Asked before the size: once it is gone, all is here.
            if Path(f"{path}-wal").exists() or not header.startswith(b"SQLite format 3\0"):
                return
            page = int.from_bytes(header[16:18], "big")
            pages = int.from_bytes(header[28:32], "big")
            size = (65536 if page == 1 else page) * pages
            if header[24:28] == header[92:96] and os.fstat(file.fileno()).st_size < size:
                raise self.damaged(f"of {size} bytes there are {os.path.getsize(path)}")

    def connect(self, mode: str, timeout: float, *settings: str) -> SQLiteConnection:
        """A connection to it, in which each statement is a transaction unless it is told otherwise.

        Args:
            mode: `rw`, or `rwc` to make it where it is not there
            timeout: seconds to wait for a lock
            settings: pragmas that must be set before the file is read

        Raises:
            sqlite3.Error: see `fault`
        """
        connection: SQLiteConnection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=SQLiteConnection,
        )
        try:
            for setting in settings:
                connection.execute(f"PRAGMA {setting}")
            # In WAL mode NORMAL loses nothing when the process is killed; the system's own crash
            # may take the last writes, never the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            # A file made to do harm has no functions to call from its schema.
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def version(self, connection: sqlite3.Connection) -> int:
        """How many of the migrations it has had.

        Raises:
            E: it is of a newer civitas, or another program's
        """
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != self._application:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application or version or tables:
                if connection.execute("PRAGMA application_id").fetchone() == (self._application,):
                    return self.version(connection)  # another process has made it meanwhile
                raise self.error(
                    self.name,
                    "it is another program's database, and was left as it is: name another file",
                )
        if not 0 <= version <= len(self._migrations):
            raise self.error(
                self.name,
                f"it has version {version}, and this civitas knows up to {len(self._migrations)}: "
                "use the civitas that wrote it, or a newer one",
            )
        return int(version)

    def is_current(self, connection: sqlite3.Connection) -> bool:
        """Whether it has had all of the migrations.

        Raises:
            E: as `version`
        """
        return self.version(connection) == len(self._migrations)

    def migrate(self, connection: sqlite3.Connection) -> None:
        """Bring it up to date, in one transaction.

        Raises:
            E: as `version`
            sqlite3.Error: see `fault`
        """
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have done it meanwhile: then there is nothing left to do.
        for version in range(self.version(connection), len(self._migrations)):
            for statement in self._migrations[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self._application}")
        connection.execute(f"PRAGMA user_version = {len(self._migrations)}")
        connection.execute("COMMIT")

    def closed(self) -> E:
        """The error for one that is used after it was closed."""
        return self.error(self.name, f"it was closed: make a new {self._maker} of it")

    def damaged(self, what: str) -> E:
        """The error for a file that is not as it was written."""
        return self.error(
            self.name,
            f"it is damaged ({what}): move it and the files beside it, -wal and -shm, away, and "
            "restore a copy",
        )

    def fault(self, error: sqlite3.Error, locked: str) -> E:
        """An error of SQLite's, in words that say what to do.

        Args:
            error: what SQLite raised
            locked: what to say if it is locked
        """
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self.error(self.name, locked)
        if primary == sqlite3.SQLITE_NOTADB:
            return self.error(
                self.name,
                f"it is no {self._kind} but another kind of file, and was left as it is: name "
                "another one",
            )
        if primary == sqlite3.SQLITE_CORRUPT:
            return self.damaged(str(error))
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return self.error(self.name, f"it may not be written ({error}): change its permissions")
        if primary == sqlite3.SQLITE_FULL:
            return self.error(self.name, "the disk is full: make room, and try again")
        if primary == sqlite3.SQLITE_IOERR:
            return self.error(
                self.name,
                f"the system cannot read or write it ({error}): see to its disk, the room there "
                "and the limits, and try again",
            )
        if primary == sqlite3.SQLITE_CANTOPEN and not self.path.exists():
            return self.error(self.name, f"it is gone: restore it, or make a new {self._maker}")
        if str(error).startswith(("no such table", "no such column")):
            # Its version says that the table is there.
            return self.damaged(str(error))
        return self.error(self.name, f"SQLite says: {error}")
