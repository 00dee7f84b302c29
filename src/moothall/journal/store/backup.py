"""A whole journal: checked, copied, put back from a copy, and compared with memories."""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from moothall.foundation.database import Database
from moothall.foundation.errors import ConfigError, FileError, JournalError
from moothall.foundation.files import copy_owner, copy_permissions, written_whole
from moothall.foundation.sqlite import exclusive
from moothall.journal.store.holding import hashes_in
from moothall.journal.store.journal_file import JournalFile
from moothall.journal.store.store import Store

_KEY: Final = re.compile("([0-9a-f]{8})([0-9a-f]{12})[0-9a-f]{8}")
_IS_LOST: Final = (
    "SELECT EXISTS (SELECT 1 FROM runs WHERE number < ? AND began <= ?) AND (? > {last} OR EXISTS "
    "(SELECT 1 FROM runs WHERE number = ? AND began >= ? AND key <> ? AND NOT deleted)) "
    # Last, since it reads all runs of a file: it has a copied run under another number.
    "AND NOT EXISTS (SELECT 1 FROM runs WHERE key = ?)"
)


def find_faults(store: Store) -> list[str]:
    """Return what is damaged: in the tables, in the entries of runs, in the values they name."""
    problems = store.faults()
    with store.reading() as db:
        runs = db.execute("SELECT number, id FROM runs WHERE NOT deleted").fetchall()
    for number, id in runs:
        with store.reading() as db:
            exists_query = "SELECT 1 FROM runs WHERE number = ? AND NOT deleted"
            if db.execute(exists_query, (number,)).fetchone() is None:
                continue  # deleted meanwhile
            try:
                for _ in store.read_entries(db, number, id):
                    pass
                value_hashes(store, db, number)
            except JournalError as error:
                problems.append(str(error))
    return problems


def restore_journal(backup: Path, path: Path) -> Path | None:
    """Put a copy of a backup in the place of a journal; return where the old one is, if any."""
    if path.exists() and path.samefile(backup):
        raise ConfigError(f"{str(backup)!r} is the journal itself: name a backup of it")
    backup_journal = JournalFile(backup, "process", 10)
    try:
        if problems := find_faults(backup_journal):
            raise JournalError(str(backup), f"it is damaged, and was not restored: {problems[0]}")
        with _exclusive_file(path):
            time_text = f"{datetime.now():%Y-%m-%d-%H%M%S}"
            old, copy = (
                path.with_name(f"{path.name}-{each}-{time_text}") for each in ("before", "new")
            )
            values_folder, new_folder = Path(f"{path}-kept"), Path(f"{copy}-kept")
            try:  # the copy first: if the disk has no room for it, the journal stays
                back_up(backup_journal, copy)
                if path.exists():
                    copy_permissions(copy, path)  # as open as it was, and no more
                    for each in (copy, new_folder, *new_folder.glob("*")):
                        if each.exists():
                            copy_owner(each, path)  # root restores a service's journal
            except BaseException:
                copy.unlink(missing_ok=True)
                shutil.rmtree(new_folder, ignore_errors=True)
                raise
            # The journal first: without its log it is a journal still, but not the other way round.
            suffixes = [
                each for each in ("", "-wal", "-shm", "-kept") if Path(f"{path}{each}").exists()
            ]
            for suffix in suffixes:
                Path(f"{path}{suffix}").rename(f"{old}{suffix}")
            if new_folder.exists():
                new_folder.rename(values_folder)
            copy.rename(path)
        return old if suffixes else None
    finally:
        backup_journal.close()


@contextmanager
def _exclusive_file(path: Path) -> Iterator[None]:
    try:
        with exclusive(path):
            yield
    except BlockingIOError as error:
        raise JournalError(str(path), "a process has it open: stop that first") from error


def back_up(store: Store, path: Path) -> None:
    """Copy a journal as it is at one moment, while others write it."""
    folder = Path(f"{path}-kept")
    if path.exists() or folder.exists():
        existing = path if path.exists() else folder
        raise FileError(f"{str(existing)!r} is there already: name a file that is not")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {str(path.parent)!r}: make it first")
    try:
        # Before and after: what is deleted meanwhile may be in the copy, what is new is.
        store.files.copy_all(folder)
        with written_whole(path, 0o600) as temporary:
            store.copy_to(temporary)
            store.files.copy_all(folder)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def give_key(db: Database, run: int) -> None:
    """Give a new run the key by which memories know it: its number, the time, and chance."""
    key = f"{run:08x}{int(time.time() * 1000):012x}{secrets.token_hex(4)}"
    db.execute("UPDATE runs SET key = ? WHERE number = ?", (key, run))


def is_lost(store: Store, key: str) -> bool:
    """Return whether a run was in a journal, and not in the older copy by which it was replaced.

    The copy has not given its number, or has given it to a run that began after it.
    """
    if (parts := _KEY.fullmatch(key)) is None:  # an imported run has any
        return False
    number, at = int(parts[1], 16), int(parts[2], 16) / 1000
    with store.reading() as db:
        query = _IS_LOST.format(last=store.last_run_sql)
        values = (number, at, number, number, at, key, key)
        return bool(db.execute(query, values).fetchone()[0])


class RecordedMessages:
    """How many messages memories may have of the runs of a journal, by the names of `add_once`.

    A later run, which the journal lacks since a backup has replaced it, has none: one of the
    `former` journal, or one whose key says so.
    """

    def __init__(self, store: Store, former: Store | None = None) -> None:
        self._stores = (store,) if former is None else (store, former)
        self._counts: dict[str, dict[str, tuple[int, int]] | None] = {}

    def __call__(self, key: str) -> tuple[int, int] | None:
        """Return how many a run has, and the number of its next; None if no journal has the run."""
        run_key, _, _ = key.partition("/")
        if run_key not in self._counts:
            self._counts[run_key] = self._read(run_key)
        counts = self._counts[run_key]
        return None if counts is None else counts.get(key, (0, 0))

    def _read(self, run_key: str) -> dict[str, tuple[int, int]] | None:
        for store in self._stores:
            with store.reading() as db:
                query = "SELECT number, id FROM runs WHERE key = ? AND NOT deleted"
                if (row := db.execute(query, (run_key,)).fetchone()) is None:
                    continue
                if store is not self._stores[0]:
                    return {}
                counts: dict[str, tuple[int, int]] = {}
                for entry in store.read_entries(db, *row):
                    key, data = f"{run_key}/{entry.path}", entry.data
                    count, following = counts.get(key, (0, 0))
                    if entry.kind == "begun":  # a fork shares those that it has copied
                        count = following - sum(e["messages"] for e in data.get("copied", ())[-1:])
                    elif entry.kind == "state":
                        new = len(data["appended"].get("messages", ()))
                        count, following = count + new, following + new
                    counts[key] = count, following
                    if once := data.get("about", {}).get("once"):  # what a participant was told
                        key = f"{once[0]}/{once[0].rpartition('/told/')[2]}"
                        counts[key] = counts.get(key, (0, 0))[0] + 1, once[1] + 1
                return counts
        return {} if is_lost(self._stores[0], run_key) else None


def value_hashes(store: Store, db: Database, number: int) -> list[str]:
    """Return the hashes of all values that a run names, and that these name."""
    hashes: dict[str, None] = {}
    pending: list[str] = []
    for (data,) in db.execute(
        "SELECT data FROM entries WHERE place > ? AND place < ?", (number << 32, (number + 1) << 32)
    ):
        pending += hashes_in(data)
    while pending:
        hash = pending.pop()
        if hash in hashes or not store.has_value(hash, db):
            continue
        hashes[hash] = None
        pending += hashes_in(store.read_value(hash, db))
    return list(hashes)
