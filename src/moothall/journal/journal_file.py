"""The file of a journal: its tables, its large values, and the check of what was written."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b, sha256
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_json as plain_json

from moothall.errors import ConfigError, DefinitionError, JournalError, NoSuchRun
from moothall.files import written_whole
from moothall.journal.entry import Entry
from moothall.journal.shapes import Shapes
from moothall.journal.tables import APPLICATION, MIGRATIONS
from moothall.journal.tally import Tally, searched
from moothall.jsonvalue import to_json
from moothall.sqlite import SQLiteFile, SQLitePool
from moothall.text import escaped

TEXT_CHARS: Final = 2000
"""A longer text of an entry is stored in the journal once, by its hash."""
FILE_BYTES: Final = 1 << 20
"""A value of this size or more is a file beside the journal, written without a lock."""

_HASH_CHARS: Final = 64
_MARK: Final = "\0"
"""The one key of an object that stands for a large text; an object of the data that has this key
itself is stored one object deeper."""


def hash_of(data: bytes) -> str:
    """Return the hash that identifies a value."""
    return sha256(data).hexdigest()


def set_aside(data: Any, put: Callable[[bytes], str]) -> Any:
    """Return JSON data with its large texts replaced by their hashes."""
    if isinstance(data, str):
        if len(data) <= TEXT_CHARS:
            return data
        return {_MARK: put(data.encode("utf-8", "surrogatepass"))}
    if isinstance(data, dict):
        made = {key: set_aside(value, put) for key, value in data.items()}
        return {_MARK: made} if _MARK in made else made
    if isinstance(data, list | tuple):
        return [set_aside(value, put) for value in data]
    if data is None or isinstance(data, int | float):
        return data
    return set_aside(json.loads(as_text(data)), put)


def restored(data: Any, find: Callable[[str], bytes]) -> Any:
    """Return JSON data with its large texts, as it was before `set_aside`."""
    if isinstance(data, dict):
        if len(data) == 1 and _MARK in data:
            inner = data[_MARK]
            if isinstance(inner, str):
                return find(inner).decode("utf-8", "surrogatepass")
            data = inner
        return {key: restored(value, find) for key, value in data.items()}
    if isinstance(data, list):
        return [restored(value, find) for value in data]
    return data


class KeptFiles:
    """The values that are files beside a journal, in the folder `NAME-kept`."""

    def __init__(self, journal: str) -> None:
        self.folder: Path = Path(f"{os.path.realpath(journal)}-kept")

    def put(self, hash: str, data: bytes) -> None:
        """Store a value, whole or not at all."""
        file = self.folder / hash
        if file.exists():
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with written_whole(file, 0o600) as part:
            part.write_bytes(data)

    def has(self, hash: str) -> bool:
        """Return whether there is a value."""
        return (self.folder / hash).exists()

    def all(self) -> list[tuple[str, float]]:
        """Return the hash of each value, and when it was written, in seconds since 1970."""
        found = []
        for file in self.folder.glob("[0-9a-f]*") if self.folder.is_dir() else ():
            if len(file.name) == _HASH_CHARS:
                with suppress(FileNotFoundError):
                    found.append((file.name, file.stat().st_mtime))
        return found

    def delete(self, hash: str) -> None:
        """Delete a value, if it is there."""
        (self.folder / hash).unlink(missing_ok=True)

    def get(self, hash: str) -> bytes | None:
        """Return a value; None if it is not there."""
        try:
            return (self.folder / hash).read_bytes()
        except FileNotFoundError:
            return None


DURABILITY: Final = {"process": "NORMAL", "power": "FULL"}
"""What a journal survives, and SQLite's name for it."""

_INSERT = "INSERT INTO entries (place, path, kind, at, data, sum) VALUES (?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "UPDATE runs SET last = ?, sum = ?, changed = ?, seconds = seconds + ?, waiting = ?, "
    "tokens = tokens + ?, usd = usd + ?, model_calls = model_calls + ?, actions = actions + ?, "
    "state = {} WHERE number = ?"
)
_WORKED_ON = _UPDATE.format("NULL")
_AT_END = _UPDATE.format("?")
_SELECT = (
    "SELECT sequence, path, kind, at, data, sum FROM entries WHERE place > ? AND place < ? "
    "ORDER BY place LIMIT ?"
)
_MARKED: Final = '{"\\u0000":'
"""The JSON text with which an object that stands for a large text begins."""


def _parts(value: Any) -> Any:
    """Return JSON data for another value; for a dataclass its fields, which are encoded next."""
    names = getattr(type(value), "__dataclass_fields__", None)
    return to_json(value) if names is None else {name: getattr(value, name) for name in names}


_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_parts)


class JournalFile(SQLitePool[JournalError]):
    """The SQLite file of a journal.

    Each entry of a run has a checksum of itself and of the one before, so that a changed or
    missing entry is noticed.
    """

    def __init__(self, path: str | os.PathLike[str], durability: str, timeout: float) -> None:
        if durability not in DURABILITY:
            raise ConfigError(
                f"durability= must be {' or '.join(map(repr, DURABILITY))}, got {durability!r:.80}"
            )
        file = SQLiteFile(
            path,
            kind="journal",
            maker="Journal",
            application=APPLICATION,
            migrations=MIGRATIONS,
            error=JournalError,
        )
        if file.name.startswith(":memory:"):
            raise DefinitionError("a journal is a file: one in memory would survive nothing")
        # Deleted data is overwritten, however this SQLite was built.
        settings = (f"synchronous = {DURABILITY[durability]}", "secure_delete = ON")
        self.files: KeptFiles = KeptFiles(str(file.path))
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
        return str(self._file.path)

    def number(self, db: sqlite3.Connection, run_id: str) -> int:
        """Return the number of a run in the tables; raise NoSuchRun if there is no such run."""
        try:
            # An id that is being deleted is not printable, so nobody asks for it by chance.
            row = db.execute(
                "SELECT number FROM runs WHERE id = ? AND NOT deleted", (run_id,)
            ).fetchone()
        except UnicodeEncodeError:  # a lone surrogate, which no id has
            row = None
        if row is not None:
            return int(row[0])
        last = db.execute(
            "SELECT id FROM runs WHERE NOT deleted ORDER BY number DESC LIMIT 5"
        ).fetchall()
        told = ", ".join(repr(id) for (id,) in last)
        raise NoSuchRun(
            f"journal {self.name!r} has no run {run_id!r}; "
            + (f"its last ones are {told}" if told else "it has none at all")
        )

    # -- large values ------------------------------------------------------------------------------

    def encoded(self, data: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
        """Return the data of an entry as it is stored, and its large values by their hashes."""
        text = as_text(data)
        if len(text) <= TEXT_CHARS and _MARKED not in text:
            return text, {}
        kept: dict[str, bytes] = {}

        def put(value: bytes) -> str:
            hash, row = self.keep(value)
            kept.update(row)
            return hash

        return as_text(set_aside(data, put)), kept

    def keep(self, data: bytes) -> tuple[str, dict[str, bytes]]:
        """Return a value's hash, and what to `insert`; a very large value is written to a file."""
        hash = hash_of(data)
        if len(data) >= FILE_BYTES:
            self._put(hash, data)
        return hash, {hash: data}

    def _put(self, hash: str, data: bytes) -> None:
        try:
            self.files.put(hash, data)
        except OSError as error:
            reason = f"a value of {len(data)} bytes cannot be written ({error.strerror})"
            raise JournalError(self.name, f"{reason}: make room, or give it to another") from error

    def insert(self, db: sqlite3.Connection, kept: dict[str, bytes]) -> None:
        """Store values, unless they are stored already."""
        rows = []
        for hash, data in kept.items():
            if len(data) < FILE_BYTES:
                rows.append((hash, data))
            else:
                self._put(hash, data)  # again, if it was deleted since `keep`
        db.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?)", rows)

    def deletions(self, db: sqlite3.Connection) -> int:
        """Return how often values were deleted from the journal."""
        (count,) = db.execute("SELECT values_deleted FROM deletions").fetchone()
        return int(count)

    def kept(self, hash: str, db: sqlite3.Connection | None = None) -> bytes:
        """Return a value by its hash; JournalError if it is missing or damaged."""
        if db is None:
            with self.reading() as db:
                return self.kept(hash, db)
        row = db.execute("SELECT data FROM kept WHERE hash = ?", (hash,)).fetchone()
        try:
            data: bytes | None = self.files.get(hash) if row is None else bytes(row[0])
        except (OSError, TypeError) as error:
            raise self.damaged(f"the value {hash} cannot be read: {error}") from error
        if data is None or hash_of(data) != hash:
            where = f" in {self.files.folder}" if row is None else ""
            raise self.damaged(f"the value {hash}{where} is missing or not what was written")
        return data

    def has(self, hash: str, db: sqlite3.Connection) -> bool:
        """Return whether there is a value of this hash."""
        found = db.execute("SELECT 1 FROM kept WHERE hash = ?", (hash,)).fetchone()
        return found is not None or self.files.has(hash)

    # -- entries -----------------------------------------------------------------------------------

    def write(
        self,
        db: sqlite3.Connection,
        run: int,
        after: Place,
        entries: Iterable[tuple[str, str, str]],
        state: str | None,
        work: Work,
        times: Iterable[float] | None = None,
    ) -> Place:
        """Append entries, each of path, kind and data as JSON text; return where the run ends."""
        sequence, sum = after
        now = time.time()
        rows, first, as_of, when = [], run << 32, 0.0, ""
        for (path, kind, data), at in zip(entries, times or repeat(now), strict=False):
            sequence += 1
            if at != as_of:  # mostly the same: a float takes longer to format than all else here
                as_of, when = at, str(at)
            sum = _sum(sum, sequence, path, kind, when, data)
            # sqlite3 looks for an adapter of each bytes and None, and of no bytearray.
            rows.append((first | sequence, path, kind, at, data, bytearray(sum)))
        db.executemany(_INSERT, rows)
        tally, seconds, waiting = work
        values = (sequence, bytearray(sum), as_of or now, seconds, waiting, *tally.sums())
        if state is None:
            db.execute(_WORKED_ON, (*values, run))
        else:
            db.execute(_AT_END, (*values, state, run))
        if tally.said is not None:
            (task,) = db.execute("SELECT task FROM runs WHERE number = ?", (run,)).fetchone()
            text = searched(task, tally.said)
            db.execute("INSERT OR REPLACE INTO texts (run, text) VALUES (?, ?)", (run, text))
        return sequence, sum

    def sum_of(self, after: Place, path: str, kind: str, data: str, at: float) -> Place:
        """Return where a run ends after another entry, as `write` counts."""
        return after[0] + 1, _sum(after[1], after[0] + 1, path, kind, str(at), data)

    def read(
        self, db: sqlite3.Connection, run: int, id: str, after: int = 0, most: int = -1
    ) -> Iterator[tuple[Entry, bytes]]:
        """Yield the entries of a run with a higher sequence number, each with its checksum.

        At most `most` of them, if that is not negative.
        """
        end = db.execute("SELECT last, sum FROM runs WHERE number = ?", (run,)).fetchone()
        last, sum = 0, b""
        if 0 < after <= end[0]:
            row = db.execute(
                "SELECT sequence, sum FROM entries WHERE place = ?", (run << 32 | after,)
            ).fetchone()
            last, sum = row or (0, b"")
        elif after > 0:
            return
        shapes = Shapes()
        for sequence, path, kind, at, data, stored in db.execute(
            _SELECT, (run << 32 | last, (run + 1) << 32, most)
        ):
            if sequence != last + 1:
                raise self.damaged(f"entry {last + 1} of run {id!r} is missing")
            last = sequence
            try:
                sum = _sum(sum, sequence, path, kind, str(at), data)
                if sum != stored:
                    raise ValueError("its checksum is wrong")
                found = json.loads(data)
                if _MARKED in data:
                    found = restored(found, lambda hash: self.kept(hash, db))
                fault = shapes.fault(path, kind, at, found)
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                reason = f"entry {sequence} of run {id!r} is not what was written: {error}"
                raise self.damaged(reason) from error
            if fault:
                raise JournalError(
                    self.path,
                    f"entry {sequence} ({escaped(str(kind))}) of run {id!r} is not one that this "
                    f"moothall writes: {fault}; read it with the moothall that wrote it",
                )
            yield Entry(sequence, path, kind, at, found), sum
        if end != (last, sum) and (most < 0 or last < min(after + most, end[0])):
            raise self.damaged(f"entry {last + 1} of run {id!r} is missing, or one is too many")


Work = tuple[Tally, float, int]
"""What entries add to a run: what they spent, seconds of work, and how many of its calls wait."""
Place = tuple[int, bytes]
"""Where a run ends: the number of its last entry, and the checksum of that entry."""


def as_text(data: Any) -> str:
    """Return JSON data as it is stored: what UTF-8 cannot encode is escaped."""
    try:
        return plain_json(data).decode()
    except ValueError:  # a lone surrogate, or an object that pydantic does not know
        text = _JSON.encode(data)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _sum(before: bytes, sequence: int, path: str, kind: str, at: str, data: str) -> bytes:
    text = f"{sequence}\0{path}\0{kind}\0{at}\0{data}"
    return blake2b(text.encode(), digest_size=8, key=before).digest()
