"""An SQLite file of moothall: checks, connections, migrations, and texts for its errors.

A file belongs to the process that opened it: a forked child opens it again, or gets an error.
Forking while other threads are inside SQLite is not supported: a child inherits its locks' state.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from moothall.foundation.arguments import is_path
from moothall.foundation.errors import ConfigError, MoothallError
from moothall.foundation.files import lock_problem, written_whole
from moothall.foundation.format_version import newer_version, written_before
from moothall.foundation.sqlite.connection import (
    ABANDONED,
    OPEN_CONNECTIONS,
    OPENING_LOCK,
    WAL_FILES,
    SQLiteConnection,
    abandon,
    has_open,
    identity_of,
    undisturbed,
)
from moothall.foundation.sqlite.wal_locks import (
    Identity,
    WALFile,
    is_held,
    mode_and_application,
    set_wal_mode,
)

E = TypeVar("E", bound=MoothallError)
_EARLIER_APPLICATIONS: Final = frozenset((0x63766A31, 0x63766D31, 0x63766931))
"""The application ids of journals, memories and inboxes that were written before 0.1.0."""
_MIN_BYTES: Final = 512
"""A database has no fewer; SQLite itself treats a file of one byte as empty."""

DISK_FULL: Final = "the disk is full: make room, and try again"
_FAULTS: Final = {
    sqlite3.SQLITE_READONLY: "it may not be written ({error}): change its permissions",
    sqlite3.SQLITE_PERM: "it may not be written ({error}): change its permissions",
    sqlite3.SQLITE_FULL: DISK_FULL,
    sqlite3.SQLITE_IOERR: "the system cannot read or write it ({error}): see to its disk, the room "
    "there and the limits, and try again",
    sqlite3.SQLITE_CANTOPEN: "it, or the files beside it, -wal and -shm, cannot be opened: change "
    "their permissions, or copy all of them to a folder that may be written to",
}


_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://")


class SQLiteFile(Generic[E]):
    """The path of an SQLite file of one kind, and the code that all kinds share."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: str,
        class_name: str,
        application: int,
        migrations: Sequence[Sequence[str]],
        error: Callable[[str, str], E],
        shrinks: bool = False,
    ) -> None:
        if not is_path(path):
            article = "an" if kind[0] in "aeiou" else "a"
            raise ConfigError(f"{article} {kind}'s path must be the name of a file, got {path!r}")
        self.name: str = os.fspath(path)
        name = self.name
        self._real_name = one_name(os.path.abspath(name))
        self.path: Path = Path(self._real_name)
        self._log = f"{os.path.realpath(self._real_name)}-wal"
        self.error: Callable[[str], E] = partial(error, name)
        self._kind = kind
        self._class_name = class_name
        self._application = application
        self._migrations = migrations
        self.newest: int = len(migrations)
        self.shrinks: bool = shrinks  # whether free pages can be given back one by one
        self._process = os.getpid()
        self.log_bytes: int = 0
        """How many bytes the log had at the last `check_log`."""
        self.identity: Callable[[], Identity] = partial(identity_of, self._real_name)
        """Returns the file's device and inode, whatever its name; None without a file."""

    # -- opening -----------------------------------------------------------------------------------

    @staticmethod
    def is_in_use(file: os.stat_result) -> bool:
        """Return whether a file belongs to a journal, memory or inbox of this process."""
        id = file.st_dev, file.st_ino
        return any(
            id in (each.identity, each.log_id) or (each.wal_file and id == each.wal_file.index)
            for each in list(OPEN_CONNECTIONS)
        )

    def is_of_this_process(self) -> bool:
        """Return whether it was made in this process, not before a fork."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raise in a forked child."""
        if os.getpid() != self._process:
            raise self.error(
                f"it was opened by process {self._process}: open it again in this process"
            )

    def is_open(self) -> bool:
        """Return whether this process has a connection to it."""
        identity = self.identity()
        return identity is not None and has_open(identity)

    def look(self, may_read: bool = False) -> str:
        """Check the path before anything is created; return why it is read-only, or "" if not."""
        path, folder = self.path, self.path.parent
        if _URL.match(self.name):
            raise self.error(
                "it is a URL: name a file, such as 'runs.db'. In PostgreSQL, a journal is "
                "Journal('postgresql://…'), a memory PostgresMemory('postgresql://…')"
            )
        if not folder.is_dir():
            raise self.error(f"there is no folder {str(folder)!r}: make it first")
        if path.exists() and not path.is_file():
            raise self.error("it is not a file: name one")
        if path.exists() and 0 < path.stat().st_size < _MIN_BYTES:
            raise self._of_another_kind()
        if self._is_open_elsewhere():
            raise self.error(
                "another process has it open by the name of a hard link in another folder: give "
                "that name, or a symbolic link to it"
            )
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

    def _is_open_elsewhere(self) -> bool:
        """Return whether another process uses a log beside another name of the file."""
        if self.identity() in (None, *WAL_FILES) or self.path.stat().st_nlink < 2:
            return False
        return not os.path.exists(self._log) and is_held(self._real_name)

    def open(self, timeout: float, *settings: str) -> SQLiteConnection:
        """Return a connection, with these pragmas, to the file in WAL mode and its newest version.

        The file is created if it does not exist.
        """
        if not self.path.exists():
            self._create(settings)
        connection = self.connect("rwc", timeout, *settings)
        try:
            version = self.version(connection)
            if connection.wal_file is None:
                with OPENING_LOCK:
                    self._use_wal(connection, timeout)
                    connection.close()
                    connection = self.connect("rw", timeout, *settings)
            if version < self.newest:
                with connection.writing(timeout):
                    self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, settings: Sequence[str]) -> None:
        """Create the file whole, so that nobody opens half of it."""
        # Behind a link: SQLite would create what is not there with the rights of any file.
        path = Path(os.path.realpath(self.path))
        with suppress(OSError), written_whole(path, 0o600, new=True) as part:
            connection = sqlite3.connect(part, isolation_level=None)
            try:
                shrinks = ("auto_vacuum = INCREMENTAL",) if self.shrinks else ()
                # First: a file beside it would be swept by who makes the same at this moment.
                for setting in ("journal_mode = MEMORY", *settings, *shrinks):
                    connection.execute(f"PRAGMA {setting}")
                self._migrate(connection)
            finally:
                connection.close()
            set_wal_mode(part)

    def connect(self, mode: str, timeout: float, *settings: str) -> SQLiteConnection:
        """Return a connection, with these pragmas, in autocommit mode."""
        with undisturbed():
            wal_file = self._hold_wal(timeout) if mode.startswith("rw") else None
            connection: SQLiteConnection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                uri=True,
                timeout=timeout,
                isolation_level=None,
                check_same_thread=False,
                factory=SQLiteConnection,
            )
            connection.identity, connection.wal_file = self.identity(), wal_file
            OPEN_CONNECTIONS.add(connection)
        try:
            # Copying the log into the file waits for the disk, so not after every 4 MB. A malicious
            # file must not call functions from its schema.
            for setting in (*settings, "wal_autocheckpoint = 4000", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {setting}")
            if wal_file is not None:
                connection.execute("PRAGMA schema_version").fetchone()  # opens the log
                connection.log_id = identity_of(self._log)
        except BaseException:
            connection.close()
            raise
        return connection

    def _hold_wal(self, timeout: float) -> WALFile | None:
        """Hold the file as long as this process has connections to it, if it is in WAL mode."""
        identity = self.identity()
        if identity in ABANDONED and ABANDONED[identity] is None:
            raise self._out_of_step()
        if identity in WAL_FILES:
            return WAL_FILES[identity]
        index = ABANDONED.get(identity)
        if index is None:
            is_in_wal_mode, application = mode_and_application(self._real_name)
            self._refuse_earlier(application)  # before anything is written, to `-shm` neither
            if not is_in_wal_mode:
                return None
        try:
            WAL_FILES[identity] = wal_file = WALFile(self._real_name, timeout, index)
        except OSError as error:
            if index is not None:
                raise self._out_of_step() from error
            raise self.error(lock_problem(error)) from error
        return wal_file

    def _use_wal(self, connection: SQLiteConnection, timeout: float) -> None:
        """Change the file to WAL mode; wait while another process does the same."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError:
                if time.monotonic() >= deadline:
                    raise
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute("COMMIT")
                continue
            if mode == "wal":
                return
            raise self.error(
                f"its file system allows no shared memory (mode {mode}): use a local disk"
            )

    def check_log(self, connection: SQLiteConnection) -> None:
        """Raise if the log that a connection writes to was deleted or replaced."""
        if connection.wal_file is None:
            return
        try:
            status = os.stat(self._log)
        except OSError:
            pass  # it was deleted
        else:
            if (status.st_dev, status.st_ino) == connection.log_id:
                self.log_bytes = status.st_size
                return
        connection.rollback()
        # Closing it would write what is in the old log over what others have written since.
        abandon(each for each in list(OPEN_CONNECTIONS) if each.identity == connection.identity)
        ABANDONED[connection.identity] = None
        raise self._out_of_step()

    # -- versions ----------------------------------------------------------------------------------

    def version(self, connection: sqlite3.Connection) -> int:
        """Return how many migrations it has had; raise if it is no known file of moothall."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        # SQLite itself says that whole pages are missing, and not that the last one is cut.
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        log = f"{self.path}-wal"  # it may have what is missing
        size, log_size = (os.path.getsize(p) if os.path.exists(p) else 0 for p in (self.path, log))
        if size % page_bytes and not log_size:
            raise self.damaged(f"it ends within a page, after {size} bytes")
        if application != self._application:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application or version or tables:
                if connection.execute("PRAGMA application_id").fetchone() == (self._application,):
                    return self.version(connection)  # another process has created it meanwhile
                self._refuse_earlier(application)
                raise self.error(
                    "it is another program's database, and was left as it is: name another file"
                )
        if not 0 <= version <= self.newest:
            raise self.error(newer_version(version, self.newest))
        return int(version)

    def _refuse_earlier(self, application: int) -> None:
        """Raise if this application id is one of before 0.1.0."""
        if application in _EARLIER_APPLICATIONS:
            raise self.error(f"{written_before(self._kind == 'journal')}; name another file")

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Migrate to the newest version and record that, in one transaction."""
        connection.execute("BEGIN IMMEDIATE")
        # If another process has migrated it meanwhile, nothing is left to do.
        for version in range(self.version(connection), self.newest):
            for statement in self._migrations[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self._application}")
        connection.execute(f"PRAGMA user_version = {self.newest}")
        connection.execute("COMMIT")

    # -- faults ------------------------------------------------------------------------------------

    def closed(self) -> E:
        """Return the error for use after closing."""
        return self.error(f"it was closed: make a new {self._class_name} of it")

    def missing_error(self) -> E:
        """Return the error for a file that was deleted, moved or replaced while it was open."""
        return self.error(f"it is gone: restore it, or make a new {self._class_name}")

    def lock_lost(self) -> E:
        """Return the error for a transaction that others changed the file beneath."""
        return self.error(
            "this program opened and closed it elsewhere meanwhile, which freed it for another "
            "program: try again, and leave it and the files beside it to moothall"
        )

    def _out_of_step(self) -> E:
        return self.error(
            "the files beside it, -wal and -shm, were deleted or replaced while this process had "
            "it open, or before it opened it again after a fork: start the program again"
        )

    def damaged(self, problem: str) -> E:
        """Return the error for a damaged file."""
        hint = ", as `moothall runs restore BACKUP` does" if self._class_name == "Journal" else ""
        return self.error(
            f"it is damaged ({problem}): move it and the files beside it, -wal and -shm, away, and "
            f"restore a copy{hint}"
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


_SIDE_FILES: Final = ("-wal", "-leases", "-kept")


def one_name(path: str) -> str:
    """Return one name for all hard links of a file: SQLite has a log beside each name.

    It is the one by which this process has the file open; else that of the folder which has files
    beside it, else the first of the folder.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return path
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return path
    wal_file = WAL_FILES.get((status.st_dev, status.st_ino))
    if wal_file is not None:
        return wal_file.path
    with os.scandir(os.path.dirname(os.path.realpath(path))) as entries:
        names = sorted(each.path for each in entries if each.inode() == status.st_ino)
    used_names = [each for each in names if any(os.path.exists(each + end) for end in _SIDE_FILES)]
    return (used_names or names or [path])[0]
