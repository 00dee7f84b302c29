"""Opening runs: each has at most one writer, a living process that holds its lease."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import fcntl
import os
import secrets
import socket
import sqlite3
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from moothall.errors import ConfigError, JournalError, RunHeld
from moothall.journal.commits import Commits, OpenRun
from moothall.journal.entry import Entry
from moothall.journal.journal_file import JournalFile, Place
from moothall.journal.tally import searched
from moothall.threads import WORKERS, guard, in_child, renewed

NewRun: TypeAlias = tuple[str, str, str, str | None]
"""The kind, agent, task and thread of a run that begins."""

_LINUX: Final = sys.platform == "linux"
_LAST_RUN: Final = 2**31 - 1
_LAST: Final = 2**62
_TAKEN: Final = (errno.EACCES, errno.EAGAIN)


class Leases:
    """The leases of the runs that a journal of this process works on.

    Each lease is a lock on one byte of a file beside the journal. The system releases it at the
    moment the process ends, for any reason, so that nobody has to guess from a process number
    whether the process lives. The file is empty and is never removed.
    """

    def __init__(self, path: str) -> None:
        # The same file for every name of the journal, such as a symbolic link.
        self._path = f"{os.path.realpath(path)}-leases"
        self._fd = -1
        self._end: weakref.finalize[..., Any] | None = None
        self._held: set[int] = set()
        # A child inherits the open file, and would keep the locks after its parent's death.
        in_child(self.close)

    def take(self, run: int) -> bool:
        """Take the lease of a run; return False if it is taken."""
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
        """Release the lease of a run."""
        if run in self._held:
            self._held.discard(run)
            if self._end is not None and self._end.alive:  # else its file is closed
                self._lock(fcntl.F_UNLCK, run)

    def is_taken(self, run: int) -> bool:
        """Return whether this process or another one works on a run."""
        if run in self._held:
            return True
        if _LINUX:  # asked without taking the lease, which another might be about to take
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
            return False  # without the right to make the file, nobody here has a run
        self.give_back(run)
        return False

    def taken(self, among: Iterable[int]) -> list[int]:
        """Return which of these runs this process or another one works on."""
        if not _LINUX:
            return [run for run in among if self.is_taken(run)]
        found: list[int] = []
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return found
        try:
            # The system names one lock in a range, so the ranges beside it are asked for next.
            ranges = [(1, _LAST_RUN)]
            while ranges:
                first, last = ranges.pop()
                asked = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, first, last))
                kind, _, start, length = struct.unpack_from("hhqq", asked)
                if kind == fcntl.F_UNLCK:
                    continue
                end = start + length - 1 if length else last
                found += range(max(start, first), min(end, last) + 1)
                if first < start:
                    ranges.append((first, start - 1))
                if end < last:
                    ranges.append((end + 1, last))
        finally:
            os.close(fd)
        return found

    def is_idle(self, among: Iterable[int]) -> bool:
        """Return whether nobody has a lease, on Linux also of shared budgets."""
        if not _LINUX:
            return not self.taken(among)
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            asked = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, 1, _LAST))
        finally:
            os.close(fd)
        kind: int = struct.unpack_from("h", asked)[0]
        return kind == fcntl.F_UNLCK

    def close(self) -> None:
        """Release all leases."""
        self._held.clear()
        self._fd = -1
        end, self._end = self._end, None
        if end is not None:
            end()

    def _lock(self, kind: int, run: int) -> None:
        if _LINUX:
            # An OFD lock belongs to the open file, so that two journals of one process exclude
            # each other too.
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _flock(kind, run))
        else:
            wanted = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(self._fd, wanted, 1, run)


def _flock(kind: int, run: int, last: int | None = None) -> bytes:
    """Return Linux's `struct flock` for one byte, at the run's number, or up to the last run's."""
    length = 1 if last is None else last - run + 1
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, run, length, 0)


MAX_ID = 255


class Runs:
    """Opens runs of a journal; this process holds a lease on each run that it works on."""

    def __init__(self, file: JournalFile, commits: Commits) -> None:
        self._file = file
        self._commits = commits
        self._leases = Leases(file.path)
        # Held until a run of a cancelled caller is released, so that the next finds it free.
        self._opening = renewed(threading.Lock())
        self._guard = guard()  # for the leases

    def close(self) -> None:
        """Release all runs that this process holds."""
        with self._guard:
            self._leases.close()

    def is_taken(self, number: int) -> bool:
        """Return whether this process or another one works on a run."""
        with self._guard:
            return self._leases.is_taken(number)

    def taken(self, among: Iterable[int]) -> list[int]:
        """Return which of these runs this process or another one works on."""
        with self._guard:
            return self._leases.taken(among)

    def is_idle(self, among: Iterable[int]) -> bool:
        """Return whether no process works on a run, or has used a shared budget and lives."""
        with self._guard:
            return self._leases.is_idle(among)

    def hold(self, number: int) -> bool:
        """Take the lease of a run for something else than work; return False if it is taken."""
        with self._guard:
            return self._leases.take(number)

    def release(self, number: int) -> None:
        """Give back the lease of a run."""
        with self._guard:
            self._leases.give_back(number)

    async def begin(self, run_id: str, new: NewRun) -> OpenRun:
        """Open a run in a worker thread; a new one begins with `new`."""
        self._file.check()
        # Not a future of the loop: the loop may have ended when the run is open.
        opening: concurrent.futures.Future[OpenRun] = concurrent.futures.Future()
        WORKERS.submit(self._open_for, opening, run_id, new)
        try:
            return await asyncio.wrap_future(opening)
        except BaseException:
            if not opening.cancel() and opening.exception() is None:
                opening.result().close()
            raise

    def open(self, run_id: str) -> OpenRun:
        """Open an existing run."""
        self._file.check()
        with self._opening:
            return self._opened(run_id)

    def _open_for(
        self,
        opening: concurrent.futures.Future[OpenRun],
        run_id: str,
        new: NewRun,
    ) -> None:
        """Open a run for a waiting caller; close it if the caller was cancelled meanwhile."""
        with self._opening:
            try:
                run = self._opened(run_id, new)
            except BaseException as error:
                with suppress(concurrent.futures.InvalidStateError):
                    opening.set_exception(error)
                return
            try:
                opening.set_result(run)
            except concurrent.futures.InvalidStateError:
                run.close()

    def _opened(self, run_id: str, new: NewRun | None = None) -> OpenRun:
        """Take the lease of a run and read its entries; with `new`, create a missing run."""
        taken = 0
        try:
            with self._file.writing() as db:
                number, holder = self._found_or_made(db, run_id, new)
                with self._guard:
                    if not self._leases.take(number):
                        raise RunHeld(run_id, holder or "another process")
                taken = number
                mine = f"process {os.getpid()} on {socket.gethostname()}"
                key, unread = db.execute(
                    "SELECT key, unread FROM runs WHERE number = ?", (number,)
                ).fetchone()
                if holder != mine or not unread:
                    change = "UPDATE runs SET holder = ?, unread = 1 WHERE number = ?"
                    db.execute(change, (mine, number))
            # No other process writes it now. Read without the lock, so that no other run waits.
            past: dict[str, list[Entry]] = {}
            place: Place = (0, b"")
            with self._file.reading() as db:
                for entry, sum in self._file.read(db, number, run_id):
                    past.setdefault(entry.path, []).append(entry)
                    place = (entry.sequence, sum)
        except BaseException:
            if taken:
                self.release(taken)
            raise
        return OpenRun(self._commits, self.release, number, run_id, key, place, past)

    def _found_or_made(
        self, db: sqlite3.Connection, run_id: str, new: NewRun | None
    ) -> tuple[int, str]:
        """Return the number of a run, and the process that worked on it last."""
        if new is None:
            self._file.number(db, run_id)
        else:
            check_id(run_id)
        row = db.execute("SELECT number, holder FROM runs WHERE id = ?", (run_id,)).fetchone()
        if row is not None:  # never one that is deleted: its id is not printable
            return int(row[0]), str(row[1])
        assert new is not None
        made = db.execute(
            "INSERT INTO runs (id, kind, agent, task, thread, began, changed, key) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (run_id, *new, now := time.time(), now, secrets.token_hex(8)),
        ).lastrowid
        assert made is not None
        db.execute("INSERT INTO texts (run, text) VALUES (?, ?)", (made, searched(new[2], "")))
        return made, ""


def check_id(run_id: object) -> None:
    """Check that a text can be the id of a run; raise DefinitionError if not."""
    if not isinstance(run_id, str) or not 0 < len(run_id) <= MAX_ID or not run_id.isprintable():
        raise ConfigError(
            f"a run's id must be a printable text of 1 to {MAX_ID} characters, got {run_id!r:.80}"
        )
